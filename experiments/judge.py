"""Fit the two figures of worth, and judge them on patterns that were drawn after they were frozen.

    python3 experiments/judge.py --s2 build/release/s2           the table, from the committed rows
    python3 experiments/judge.py --s2 build/release/s2 --rows    every pattern, said and measured
    python3 experiments/judge.py --s2 build/release/s2 --fit     the constants for reach/worth.c
    python3 experiments/judge.py --s2 build/release/s2 --say experiments/drawn-sealed.txt
                                                                 what is said of patterns, before they are trained

Measures come from `s2 reach --json`, what models learned from docs/results/worth-*.jsonl. Needs nothing but Python.
"""
import argparse
import functools
import json
import math
import pathlib
import re
import subprocess

from shape import CONTEXT, LARGER, LAYERS, read_patterns

HERE = pathlib.Path(__file__).parent
RESULTS = HERE.parent / "docs" / "results"
LOSS_FLOOR = 1.15


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    out, begin = [0.0] * len(values), 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for at in range(begin, end):
            out[order[at]] = (begin + end - 1) / 2
        begin = end
    return out


def spearman(a, b):
    x, y = ranks(a), ranks(b)
    mx, my = mean(x), mean(y)
    sx, sy = (math.sqrt(sum((v - m) ** 2 for v in values)) for values, m in ((x, mx), (y, my)))
    return sum((p - mx) * (q - my) for p, q in zip(x, y)) / (sx * sy) if sx * sy > 0 else math.nan


def least_squares(rows, targets):
    """Constants of the linear function with least squares: the normal equations, by elimination."""
    n = len(rows[0])
    table = [[sum(row[i] * row[j] for row in rows) for j in range(n)] + [sum(row[i] * t for row, t in zip(rows, targets))]
             for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(table[r][i]))
        table[i], table[pivot] = table[pivot], table[i]
        for r in range(n):
            if r != i:
                factor = table[r][i] / table[i][i]
                table[r] = [a - factor * b for a, b in zip(table[r], table[i])]
    return [table[i][n] / table[i][i] for i in range(n)]


@functools.cache  # tables share patterns
def answer(*command):
    """What a command said that decided; it ends with 1 where a property does not hold."""
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode > (command[1] == "check"):
        out.check_returncode()
    return out.stdout


def reach(s2, pattern):
    found = json.loads(answer(s2, "reach", "--json", "--len", str(CONTEXT), pattern["text"]))
    del found["every_length"]  # patterns that read alike here are one, whatever they read of longer contexts
    return found


def union(s2, pattern):
    out = answer(s2, "check", "--no-db", "--json", "--require", "union", "--len", str(CONTEXT), pattern["text"])
    return float(json.loads(out)["verdict"] == "holds")


def density(s2, pattern):
    return json.loads(answer(s2, "show", "--json", "--len", str(CONTEXT), pattern["text"]))["token_density"]


def learned(path):
    """By pattern: the mean recall over the training and at its end, the loss on text, each a mean over seeds."""
    kept = {}
    for row in map(json.loads, path.read_text().splitlines()):
        kept.setdefault((row["name"], row["task"]), []).append(row)
    out = {}
    for (name, task), rows in kept.items():
        got = out.setdefault(name, {})
        if task == "recall":
            got["recall"] = mean(mean(share for _, share in row["curve"]) for row in rows)
            got["recall_end"] = mean(row["recall"] for row in rows)
        elif task == "text":
            got["loss"] = mean(row["loss"] for row in rows)
    return out


def frozen(name):
    source = (HERE.parent / "reach" / "worth.c").read_text()
    return [float(c) for c in re.search(rf"double {name}\[\] = {{(.*?)}}", source)[1].split(",")]


def say(measured):
    """What the frozen constants say of a shape that s2 does not judge."""
    recall, loss = (sum(c * term for c, term in zip(frozen(name), terms({"reach": measured})))
                    for name, terms in (("RECALL", recall_terms), ("LOSS", loss_terms)))
    return {"recall": min(max(recall, 0), 1), "loss": LOSS_FLOOR + math.exp(loss)}


def table(s2, patterns, results, seen, layers=LAYERS):
    """
    One row a pattern: its measures, its naive measures and what was learned. A pattern of which `s2 reach` says the
    same as of one in `seen` is left out: it is no other pattern.
    """
    got, rows = learned(results), []
    for pattern in read_patterns(patterns, layers):
        if not {"recall", "loss"} <= got.get(pattern["name"], {}).keys():
            continue
        measured = reach(s2, pattern)
        if repr(measured) in seen:
            continue
        measured["worth"] = measured["worth"] or say(measured)
        rows.append({**pattern, **got[pattern["name"]], "reach": measured, "window": measured["window_tok"],
                     "hops": -(measured["hops"]["layers"] or 9), "union": union(s2, pattern),
                     "density": density(s2, pattern)})
    return rows


def recall_terms(row):
    first = row["reach"]["by_layer"][0]
    return [1.0, first["signal"], first["coverage"]]


def loss_terms(row):
    measured = row["reach"]
    return [1.0, measured["mean_window"], math.log2(measured["neighbour"] + 0.02), measured["far"]]


def fit(first, drawn):
    """Recall from the first patterns; the loss, whose first form failed on those drawn, from both."""
    recall = least_squares([recall_terms(row) for row in first], [row["recall"] for row in first])
    both = first + drawn
    loss = least_squares([loss_terms(row) for row in both], [math.log(row["loss"] - LOSS_FLOOR) for row in both])
    for name, constants in (("RECALL", recall), ("LOSS", loss)):
        print(f"static const double {name}[] = {{{', '.join(f'{c:.4f}' for c in constants)}}};")


def other_measures(row):
    """What else could say it: the naive predictors, and measures of s2 reach that worth does not use."""
    measured = row["reach"]
    far = measured["by_distance"][-1]
    layers = [layer["coverage"] for layer in measured["by_layer"]]
    return {"density": row["density"], "window": row["window"], "union": row["union"], "hops": row["hops"],
            "flow, least": measured["least_flow"], "chances, far": far["chances"], "KV heads, far": far["kv_heads"],
            "log paths, least": measured["least_log2_paths"], "coverage, layer 1": layers[1],
            "coverage, layer 3": layers[3], "coverage, all layers": max(layers)}


def judge(title, rows):
    print(f"\n{title}: {len(rows)} patterns, Spearman")
    print(f"{'predictor':<24} {'recall, mean':>13} {'at the end':>11} {'loss on text':>13}")
    lines = {"worth": ([row["reach"]["worth"]["recall"] for row in rows], [-row["reach"]["worth"]["loss"] for row in rows])}
    for name in other_measures(rows[0]):
        lines[f"{name}, alone"] = ([other_measures(row)[name] for row in rows],) * 2
    for name, (for_recall, for_loss) in lines.items():
        print(f"{name:<24} {spearman(for_recall, [row['recall'] for row in rows]):13.3f}"
              f" {spearman(for_recall, [row['recall_end'] for row in rows]):11.3f}"
              f" {spearman(for_loss, [-row['loss'] for row in rows]):13.3f}")
    for name in ("recall", "loss"):
        error = [row["reach"]["worth"][name] - row[name] for row in rows]
        print(f"{name}: error {math.sqrt(mean(e * e for e in error)):.3f} (root mean square), bias {mean(error):+.3f}, "
              f"largest {max(map(abs, error)):.3f}")


def rules_of(row):
    return row["text"].split("; ", 5)[5]


def list_rows(rows, longer):
    """Every pattern, the best recall first: what was said and what was measured."""
    print("recall said, mean, end, after 2500 steps; loss said, measured")
    for row in sorted(rows, key=lambda row: -row["recall"]):
        said, later = row["reach"]["worth"], longer.get(row["name"], {}).get("recall_end", math.nan)
        print(f"{said['recall']:5.2f} {row['recall']:5.2f} {row['recall_end']:5.2f} {later:5.2f}  "
              f"{said['loss']:6.3f} {row['loss']:6.3f}  {rules_of(row)}")


def judge_longer(rows, longer):
    said = [row["reach"]["worth"]["recall"] for row in rows]
    later = [longer[row["name"]] for row in rows]
    print(f"\nThe first patterns after 2500 steps, Spearman of the recall that worth says: with the mean recall "
          f"{spearman(said, [one['recall'] for one in later]):.3f}, with that at the end "
          f"{spearman(said, [one['recall_end'] for one in later]):.3f}")


def judge_larger(rows, first):
    """The larger models: by what was frozen on the small ones, and by what the small ones themselves learned."""
    again = learned(RESULTS / "worth-again.jsonl")
    small = first | {f"again-{name}": got for name, got in again.items()}
    judge("Twice as deep and wide, drawn when both were frozen",
          [row for row in rows if row["name"].startswith("again-")])
    both = [row for row in rows if "loss" in small.get(row["name"], {})]
    print(f"\nWhat small models learned beside what larger ones did, {len(both)} patterns, Spearman: " + ", ".join(
        f"{name} {spearman([small[row['name']][name] for row in both], [row[name] for row in both]):.3f}"
        for name in ("recall", "recall_end", "loss")))
    print("\nrecall, mean, and loss of small models; of larger ones; in proportion:")
    small |= learned(RESULTS / "worth-chosen.jsonl")
    for row in rows:
        if row["name"] in ("dense", "local4", "duo", "l1-s8-head", "l1-s16-kv-dense", "l4-s16-kv-dense"):
            got = small[row["name"]]
            print(f"  {got['recall']:.2f} {got['loss']:.3f}  {row['recall']:.2f} {row['loss']:.3f}  {rules_of(row)}")


def hop_rows(s2):
    """
    The 16 patterns that learned to answer in one hop and two, and to copy: at the end, of two rates the one that
    answered more two hops.
    """
    patterns = {p["name"]: p for name in ("patterns.txt", "drawn-sealed.txt") for p in read_patterns(HERE / name)}
    got = {}
    for row in map(json.loads, (RESULTS / "worth-hops.jsonl").read_text().splitlines()):
        if row["models"] < 16:  # the first look, with dense attention alone
            continue
        one = got.setdefault(row["name"], {"two": -1})
        if row["task"] == "copy":
            one["copied"] = row["recall"]
        elif row["recall"] > one["two"]:
            one["one"], one["two"] = row["hop1_hop2_copy"][:2]
    return [{**patterns[name], **learnt, "reach": reach(s2, patterns[name]), "density": density(s2, patterns[name]),
             "union": union(s2, patterns[name])} for name, learnt in got.items()]


def hop_measures(row):
    measured = row["reach"]
    signals = [layer["signal"] for layer in measured["by_layer"]]
    return {"worth: recall": measured["worth"]["recall"], "worth: loss": -measured["worth"]["loss"],
            "signal of the first layer": signals[0], "signal of the best layer": max(signals),
            "mean signal": mean(signals), "second best signal": sorted(signals)[-2],
            "chances at the farthest octave": measured["by_distance"][-1]["chances"], "density": row["density"],
            "least flow": measured["least_flow"], "hops": -(measured["hops"]["layers"] or 9), "union": row["union"]}


def print_tasks(rows, tasks):
    """How each measure ranks what was learned of each task."""
    for name in hop_measures(rows[0]):
        print(f"{name:<32}" + "".join(f" {spearman([hop_measures(row)[name] for row in rows], [row[of] for row in rows]):7.3f}"
                                      for of in tasks))


def judge_hops(rows):
    print(f"\nOne hop, two hops and copying: {len(rows)} patterns, Spearman")
    print_tasks(rows, ("one", "two", "copied"))
    for row in sorted(rows, key=lambda row: -row["two"]):
        print(f"  {row['one']:.2f} {row['two']:.2f} {row['copied']:.2f}  {rules_of(row)}")


def needle_rows(s2):
    """The sealed draw again, which looked for needles in text and copied: the mean over training and the end."""
    got = {}
    for row in map(json.loads, (RESULTS / "worth-needles.jsonl").read_text().splitlines()):
        one = got.setdefault(row["name"], {})
        if row["task"] == "needle":
            one["needle"], one["needle_end"] = mean(share for _, share in row["curve"]), row["recall"]
        else:
            one["copied"] = row["recall"]
    return [{**pattern, **got[pattern["name"]], "reach": reach(s2, pattern), "density": density(s2, pattern),
             "union": union(s2, pattern)} for pattern in read_patterns(HERE / "drawn-sealed.txt")]


def judge_needles(rows):
    print(f"\nNeedles and copying, drawn with the hash of a commit: {len(rows)} patterns, Spearman")
    print_tasks(rows, ("needle", "needle_end", "copied"))
    for row in sorted(rows, key=lambda row: -row["needle"]):
        print(f"  {row['needle']:.2f} {row['needle_end']:.2f} {row['copied']:.2f}  {rules_of(row)}")


def foretell(s2, path):
    for pattern in read_patterns(path):
        said = reach(s2, pattern)["worth"]
        print(json.dumps({"name": pattern["name"], "rules": rules_of(pattern), "recall": round(said["recall"], 4),
                          "loss": round(said["loss"], 4)}))


def worst(rows, name, count=6):
    print(f"\nfarthest off in {name}:")
    for row in sorted(rows, key=lambda row: -abs(row["reach"]["worth"][name] - row[name]))[:count]:
        print(f"  {row['reach']['worth'][name]:6.3f} said, {row[name]:6.3f} measured: {rules_of(row)}")


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--s2", default="build/release/s2")
    parse.add_argument("--fit", action="store_true")
    parse.add_argument("--rows", action="store_true", help="every pattern instead")
    parse.add_argument("--say", metavar="FILE", help="what the figures say of a list of patterns, a JSON object each")
    options = parse.parse_args()
    if options.say:
        return foretell(options.s2, options.say)
    first = table(options.s2, HERE / "patterns.txt", RESULTS / "worth-fit.jsonl", set())
    if options.fit:
        return fit(first, table(options.s2, HERE / "drawn.txt", RESULTS / "worth-drawn.jsonl", set()))
    seen = {repr(row["reach"]) for row in first}
    drawn = table(options.s2, HERE / "drawn.txt", RESULTS / "worth-drawn.jsonl", seen)
    seen |= {repr(row["reach"]) for row in drawn}
    longer = learned(RESULTS / "worth-long.jsonl")
    again = table(options.s2, HERE / "drawn-again.txt", RESULTS / "worth-again.jsonl", seen)
    seen |= {repr(row["reach"]) for row in again}
    sealed = table(options.s2, HERE / "drawn-sealed.txt", RESULTS / "worth-sealed.jsonl", seen)
    larger = table(options.s2, HERE / "larger.txt", RESULTS / "worth-larger.jsonl", set(), LARGER)
    if options.rows:
        list_rows(first + drawn + again + sealed, longer)
        return list_rows(larger, {})
    judge("Both fitted on these", first)
    judge("Drawn when recall was frozen; the loss was fitted on these too", drawn)
    judge("Drawn when both were frozen", again)
    judge("Drawn with the hash of a commit", sealed)
    worst(again + sealed, "recall")
    worst(again + sealed, "loss")
    judge_longer(first, longer)
    judge_larger(larger, learned(RESULTS / "worth-fit.jsonl"))
    worst([row for row in larger if row["name"].startswith("again-")], "recall")
    judge_hops(hop_rows(options.s2))
    judge_needles(needle_rows(options.s2))


if __name__ == "__main__":
    main()
