"""What tests/bench/models.py measured, beside what `s2 sim` predicts today: a table in Markdown.

usage: models_table.py S2 ROWS.jsonl      S2: the program. Measured is the median; rows that failed or are of an older form are left out, and the last
of those with the same name counts."""
import json
import subprocess
import sys
import tempfile

SHAPES = {"llama-3.1-8b": (32, 32, 8, "llama-3.1-8b"), "phi-3-small": (32, 32, 8, "phi-3-small"), "1.3b": (24, 16, 16, None)}
HIDDEN = {"1.3b": {"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16,
                   "head_dim": 128, "intermediate_size": 5504, "vocab_size": 50304}}


def predicted(program, row, folder):
    """The s2sim/1 object of the row's pattern and work."""
    layers, heads, kv_heads, model = SHAPES[row["model"]]
    if model is None:
        model = f"{folder}/{row['model']}.json"
        with open(model, "w") as file:
            json.dump(HIDDEN[row["model"]], file)
    text = f"layers {layers}; heads {heads}; kv-heads {kv_heads}; head-dim 128; block 64; "
    text += row["pattern"] if row["pattern"].startswith("kv ") else f"layers all: {row['pattern']}"
    more = ["--fusion", "eager"] + (["--recompute"] if row.get("recompute") else [])
    more += ["--tp", str(row["ranks"])] if row.get("ranks", 1) > 1 else []
    out = subprocess.run([program, "sim", "--json", "--no-db", "-g", "h200", "-m", model, "-p", row["figure"], "-n", str(row["tokens"]), "-b",
                          str(row["batch"]), "--page", "64", *more, text], check=True, capture_output=True, text=True).stdout
    return json.loads(out)


def latest(rows):
    kept = {}
    for row in rows:
        if "failed" not in row and "pattern" in row:
            kept[tuple(row.get(name) for name in ("figure", "model", "tokens", "batch", "ranks", "way"))] = row
    return list(kept.values())


def seconds(s):
    return f"{s * 1e3:.1f} ms" if s < 0.1 else f"{s:.3f} s"


def end_to_end(row, sim):
    """Seconds; of heads that were dealt out by their work, with what that saves."""
    said = sim.get("end_to_end_us") or sum(part["time_us"] for part in sim["parts"])
    mended = (sim.get("ranks") or {}).get("mended")
    return (said - (sim["time_us"] - mended["time_us"] if mended and row["way"].endswith("by work") else 0.0)) / 1e6


def parts(row, sim):
    """Measured and predicted milliseconds of attention, matrix products and all else."""
    if not row.get("kernels_s"):
        return ""
    found = {"attention": 0.0, "products": 0.0, "the rest": 0.0}
    for part in sim["parts"]:
        name = part["name"]
        kind = "attention" if name.startswith("attention") else "products" if name in ("projections", "feed-forward", "lm head") else "the rest"
        found[kind] += part["time_us"] / 1e3
    return ", ".join(f"{kind} {row['kernels_s'].get(kind, 0.0) * 1e3:.1f} ({found[kind]:.1f})" for kind in found)


def main():
    program, path = sys.argv[1:3]
    with open(path) as file:
        rows = latest(map(json.loads, file))
    print("| what | tokens | batch | way | measured | longest | predicted | off by | memory, GiB | ms of a run by kind of kernel (predicted) |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            sim = predicted(program, row, folder)
            said, took = end_to_end(row, sim), row["s"]
            memory = row.get("used_gib") or row.get("peak_gib") or 0.0
            what = {"prefill": "prefill", "decode": "a token each", "train": "training step"}[row["figure"]]
            ranks = f", {row['ranks']} GPUs" if row.get("ranks", 1) > 1 else ""
            print(f"| {row['model']}, {what}{ranks} | {row['tokens']} | {row['batch']} | {row['way']} | {seconds(took)} | {seconds(row['most_s'])} | {seconds(said)} | "
                  f"{took / said - 1:+.0%} | {memory:.1f} | {parts(row, sim)} |")


if __name__ == "__main__":
    main()
