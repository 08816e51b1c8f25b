#!/usr/bin/env python3
"""The figures of docs/simulator.md and docs/search.md: what the installed constants say, between <!-- figures NAME --> marks.

usage: accuracy.py S2 [docs/simulator.md docs/search.md]     print them, or write them into the files

S2 is the program, whose constants and held-out rows are built in; the rows of other programs are those of docs/results/.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

RESULTS = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "results")
TARGETS = {"forward": "5 %, 10 %, 0.995", "backward": "7 %", "decode": "8 %"}
PUBLISHED = ((16, "8.79"), (32, "15.87"), (64, "25.3"))


def run(s2, *words):
    return json.loads(subprocess.run([s2, *words, "--json"], check=True, capture_output=True, text=True).stdout.splitlines()[0])


def table(head, lines):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(line) + " |" for line in lines])


def percent(value):
    return f"{value:.0f} %" if value >= 20 else f"{value:.1f} %"


def score(word, one, target=""):
    return (word, f"{one['n']:.0f}", percent(one["mape"]), percent(one["p90"]), percent(one["max"]), f"{one['bias']:+.1f} %",
            f"{one['spearman']:.4f}", target)


def head_of(name):
    with open(os.path.join(RESULTS, name)) as file:
        return json.loads(file.readline())


def seed_of(name):
    with open(os.path.join(RESULTS, f"h200-{name}.jsonl")) as file:
        return next(row["seed"] for row in map(json.loads, file) if "seed" in row)


def accuracy(s2):
    of = run(s2, "sim", "--accuracy")
    designed, held, steps = (head_of(f"h200-{name}.jsonl") for name in ("captured-forward", "held-out", "steps-held-out"))
    constants = os.path.join(RESULTS, "..", "..", "sim", "calibration", "h200.txt")
    n_fitted = sum(int(line.split()[1]) for line in open(constants) if line.startswith("fitted "))
    lines = [score(one["name"], one, TARGETS[one["name"]]) for one in of["passes"]]
    lines += [score("... " + one["name"] + ", clock given", one) for one in of["clock_given"]]
    lines += [score("instead, best constant each: " + one["name"], one) for one in of["instead"]]
    text = (f"{n_fitted} launches fitted, {of['rows']:.0f} points judged, drawn by seed {seed_of('held-out')} and, of decoding, {seed_of('steps-held-out')}; kernels of commit "
            f"{designed['commit']} on {designed['device']} {designed['uuid'][:12]}, {held['date']}, decoding of {steps['commit']} on "
            f"{steps['uuid'][:12]}, {steps['date']}.\n\n")
    text += table(("held out", "rows", "MAPE", "p90", "max", "bias", "Spearman", "target"), lines)
    text += (f"\n\nBytes of {of['counted']:.0f} launches against hardware counters: device memory {of['dram_pct']:.1f} % (target 7 %), L2 to the "
             f"SMs {of['l2_pct']:.1f} % (3 %). The top pick of a space of one shape was {of['regret_pct']:.1f} % slower than its fastest "
             f"(3 %). Points measured twice differ by {of['noise_pct']:.1f} %. {of['below_floor']:.0f} of {len(of['points'])} rows are below the "
             f"physical floor; the nearest took {of['nearest_to_floor']:.2f} times as long.\n\n")
    return text + table(("by family", "rows", "MAPE", "p90", "max", "bias", "Spearman", ""),
                        [score(one["name"], one) for one in sorted(of["families"], key=lambda one: one["name"])])


def others(s2):
    names = ["h200-" + name + ".jsonl" for name in ("forward", "forward-rest", "backward", "backward-rest")]
    paths = [os.path.join(RESULTS, name) for name in names if os.path.exists(os.path.join(RESULTS, name))]
    rows = subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "bench_points.py"), *paths], check=True,
                          capture_output=True, text=True).stdout
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write(rows)
        file.flush()
        of = run(s2, "sim", "--accuracy", "--rows", file.name)
    return table(("", "rows", "MAPE", "p90", "max", "bias", "Spearman", ""), [score(one["name"], one) for one in of["passes"]])


def measured(rules, n_tok):
    for line in open(os.path.join(RESULTS, "h200-forward.jsonl")):
        row = json.loads(line)
        if row.get("row") == "forward" and row["pattern"] == rules and row["n_tok"] == n_tok:
            return f"{row['sustained_ms']:.3g}"
    return "-"


def times(s2):
    lines = []
    for word, text in (("L8V16", "heads 32; layers all: local 8 | stride 16 phase head"), ("dense", "heads 32; layers all: dense"),
                       ("phi3", "heads 32; kv-heads 8; layers all: local 16 | stride 8 phase kv")):
        cells = [f"{run(s2, 'sim', '--len', str(n), text)['time_us'] / 1e3:.3g} ({measured(word, n)})" for n in (8192, 32768, 131072)]
        lines.append([word] + cells)
    return table(("", "8k", "32k", "128k"), lines)


def headline(s2):
    lines = []
    for heads, published in PUBLISHED:
        text = f"heads {heads}; heads all: local 8 | stride {heads} phase head"
        cells = []
        for words in (("--gpu", "a100-80gb", "--bounds"), ("--gpu", "a100-80gb"), ("--gpu", "h200")):
            of = run(s2, "sim", *words, "--phase", "train", "--len", "128k", text)
            cells.append(f"{of['dense_time_us'] / of['time_us']:.1f}")
        lines.append([str(heads), published] + cells)
    return table(("heads", "published, over FlashAttention-2", "A100, bounds", "A100, guessed", "H200, predicted over our own dense kernel"), lines)


def search(s2):
    path = os.path.join(RESULTS, "h200-search.jsonl")
    if not os.path.exists(path):
        return "No such run is recorded yet."
    rows = [json.loads(line) for line in open(path)]
    device = next(row for row in rows if row.get("row") == "device")
    space = next(row for row in rows if row.get("schema") == "s2search/1")
    lines = []
    for row in (row for row in rows if row.get("schema") == "s2confirm/1"):
        timed = [one for one in row["designs"] if one["measured_us"]]
        ratios = sorted(one["measured_us"] / one["predicted_us"] for one in timed)
        spread = [max(one[key] for one in timed) / min(one[key] for one in timed) for key in ("predicted_us", "measured_us")]
        lines.append((row["phase"], str(row["timed"]), f"{row['kendall_tau']:.2f}", f"{row['regret_pct']:.1f} %",
                      f"{row['clear_kept']} of {row['clear_pairs']} (of {row['timed'] * (row['timed'] - 1) // 2})",
                      f"{row['error_pct']:.1f} %", f"{100 * spread[0] - 100:.0f} %, {100 * spread[1] - 100:.0f} %",
                      f"{ratios[len(ratios) // 2]:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"))
    return (f"{device['name']}, {device['uuid'][:12]}, commit {device['commit']}, {device['date']}: `{space['space']}`, {space['candidates']} "
            f"candidates, {len(space['front'])} on the front.\n\n") + \
        table(("phase", "timed", "Kendall tau", "first slower than fastest", "clear pairs in order", "clear: more than",
               "slowest over fastest, predicted and measured", "measured / predicted"), lines)


def main():
    s2 = sys.argv[1]
    made = {make.__name__: make(s2) for make in (accuracy, others, times, headline, search)}
    if len(sys.argv) < 3:
        print("\n\n".join(made.values()))
        return
    for path in sys.argv[2:]:
        text = open(path).read()
        for name, block in made.items():
            text = re.sub(rf"(<!-- figures {name} -->\n).*?(\n<!-- end -->)", lambda at: at.group(1) + block + at.group(2), text, flags=re.S)
        with open(path, "w") as file:
            file.write(text)


if __name__ == "__main__":
    main()
