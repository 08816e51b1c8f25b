"""What tests/bench/models.py measured, beside what `s2 sim` predicts today: a table in Markdown.

usage: models_table.py S2 ROWS.jsonl [lead|each|ranks|shared|memory|context]      S2: the program; lead: README.md's table, each, ranks and shared: docs/python.md's, memory and context: docs/simulator.md's. Measured is the median; rows that failed or are of an older form are left out, and the last
of those with the same name counts."""
import json
import subprocess
import sys
import tempfile

SHAPES = {"llama-3.1-8b": (32, 32, 8, "llama-3.1-8b"), "phi-3-small": (32, 32, 8, "phi-3-small"), "1.3b": (24, 16, 16, None), "8b-8-layers": (8, 32, 8, None)}
HIDDEN = {"1.3b": {"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16,
                   "head_dim": 128, "intermediate_size": 5504, "vocab_size": 50304},
          "8b-8-layers": {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 8, "num_attention_heads": 32, "num_key_value_heads": 8,
                          "head_dim": 128, "intermediate_size": 14336, "vocab_size": 128256}}


GPUS = {"NVIDIA H100 80GB HBM3": "h100-sxm"}


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
    more += ["--cp" if row["way"].startswith("context") else "--tp", str(row["ranks"])] if row.get("ranks", 1) > 1 else []
    out = subprocess.run([program, "sim", "--json", "--no-db", "-g", GPUS.get(row["device"], "h200"), "-m", model, "-p", row["figure"], "-n", str(row["tokens"]), "-b",
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


# What the pages show: a name, figure, model, tokens, batch of the pattern and of dense attention, GPUs.
LEAD = (("Llama-3.1-8B's shape, prefill of 32k", "prefill", "llama-3.1-8b", 32768, 1, 1, None),
        ("... of 128k", "prefill", "llama-3.1-8b", 131072, 1, 1, None),
        ("a token each of 30 sequences at 32k, as one graph", "decode", "llama-3.1-8b", 32768, 30, 30, None),
        ("tokens a second at 32k, the largest batch of each: 30, 193", "decode", "llama-3.1-8b", 32768, 193, 30, None),
        ("... at 128k: 7, 57", "decode", "llama-3.1-8b", 131072, 57, 7, None),
        ("Phi-3-small's shape, prefill of 32k", "prefill", "phi-3-small", 32768, 1, 1, None),
        ("tokens a second of it at 32k: 30, 195", "decode", "phi-3-small", 32768, 195, 30, None),
        ("... at 128k: 7, 56", "decode", "phi-3-small", 131072, 56, 7, None),
        ("a training step of Llama-3.1-8B's shape at 8k, recomputed", "train", "llama-3.1-8b", 8192, 1, 1, None),
        ("... at 16k", "train", "llama-3.1-8b", 16384, 1, 1, None),
        ("a training step of a 1.3B shape at 8k", "train", "1.3b", 8192, 1, 1, None),
        ("... at 32k", "train", "1.3b", 32768, 1, 1, None),
        ("two GPUs: prefill of 32k", "prefill", "llama-3.1-8b", 32768, 1, 1, 2),
        ("two GPUs: a token each of 16", "decode", "llama-3.1-8b", 32768, 16, 16, 2))
EACH = (*((*row[:4], batch, *row[5:]) for row in LEAD if row[6] is None for batch in sorted({row[4], row[5]})),
        *(("", "train", name, tokens, 1, 1, None) for name, tokens in (("llama-3.1-8b", 32768), ("llama-3.1-8b", 65536), ("1.3b", 65536), ("1.3b", 131072))))
DENSE = {"dense cuDNN": "cuDNN", "dense FA-CuTe": "FA-CuTe", "dense": "ours"}


def find(rows, figure, model, tokens, batch, ranks, way):
    wanted = (figure, model, tokens, batch, ranks, way)
    return next((row for row in rows if tuple(row.get(name) for name in ("figure", "model", "tokens", "batch", "ranks", "way")) == wanted), None)


def lead(program, rows, folder):
    """The best dense attention beside the pattern, and how much of the predicted saving arrived."""
    for label, figure, model, tokens, batch, dense_batch, ranks in LEAD:
        rates = "tokens a second" in label or label.startswith("... at 128k")
        rivals = [row for way in DENSE if (row := find(rows, figure, model, tokens, dense_batch, ranks, way))]
        best, own = min(rivals, key=lambda row: row["s"]), find(rows, figure, model, tokens, batch, ranks, "pattern")
        said = [end_to_end(row, predicted(program, row, folder)) for row in (best, own)]
        if rates:
            took, said = [row["tokens_per_s"] for row in (best, own)], [row["batch"] / one for row, one in zip((best, own), said)]
            shown, guessed = [f"{one:.0f}" for one in took], [f"{one:.0f}" for one in said]
        else:
            took, ms = [row["s"] for row in (best, own)], best["s"] < 0.1
            shown = [f"{one * 1e3:.1f} ms" if ms else f"{one:.2f} s" for one in took]
            guessed = [f"{one * 1e3:.1f}" if ms else f"{one:.2f}" for one in said]
        arrived = (took[0] - took[1]) / (said[0] - said[1])
        yield f"| {label} | {shown[0]} ({DENSE[best['way']]}) | {shown[1]} | {', '.join(guessed)} | {arrived:.0%} |".replace("%", " %")


def each(program, rows, folder):
    """Everybody's seconds, and the memory of the last two."""
    seen = set()
    for label, figure, model, tokens, batch, _, ranks in EACH:
        found = [find(rows, figure, model, tokens, batch, ranks, way) for way in (*DENSE, "pattern")]
        if (figure, model, tokens, batch) in seen or not any(found):
            continue
        seen.add((figure, model, tokens, batch))
        guessed = [predicted(program, row, folder) if row else None for row in (next((one for one in found[:3] if one), None), found[3])]
        said = [f"{end_to_end(row, sim):.4g}" if row else "" for row, sim in zip((next((one for one in found[:3] if one), None), found[3]), guessed)]
        memory = ", ".join(f"{row.get('used_gib') or row['peak_gib']:.1f}" for row in (found[2:] if any(found[2:]) else found) if row)
        what = {"prefill": "prefill", "decode": f"a token each of {batch}", "train": "training step"}[figure]
        took = [f"{row['s']:.4g}" if row else "" for row in found]
        yield f"| {model}, {what}, {tokens // 1024}k | {' | '.join(took)} | {' | '.join(said)} | {memory} |"


GIB = 2.0 ** 30


def said_bytes(row, sim):
    """Older rows that recompute keep the two summands of each layer's input, where the price has their sum, which there the layer that goes back
    made once more; a prefill keeps no cache here, and Phi-3-small's one embedding twice."""
    if row["figure"] == "prefill":
        return sim["fit"]["weight_bytes"] + sim["fit"]["activation_bytes"] + (2 * 4096 * 100352 if row["model"] == "phi-3-small" else 0)
    training = sim["training"]
    n_kept = 1 if training["peak"] == "first layer" else SHAPES[row["model"]][0]
    return training["bytes"] + (training["kept_bytes"] * (1 + 1 / n_kept) if row["recompute"] is True else 0.0)


def peaks(program, rows, folder):
    """The most that torch's tensors took in a prefill or a training step; which attention runs makes no difference but a list or two."""
    groups = {}
    for row in rows:
        if row["figure"] in ("train", "prefill") and (row.get("ranks", 1) == 1 or row["way"].startswith("context")):
            groups.setdefault((row["figure"], row["model"], row["tokens"], row.get("recompute")), []).append(row)
    for (figure, model, tokens, recompute), group in sorted(groups.items(), key=lambda one: (*one[0][:3], str(one[0][3]))):
        took, sim = [row["peak_gib"] for row in group], predicted(program, group[0], folder)
        kept = {None: "nothing", False: "all", True: "its input, in two arrays", "one array": "its input"}[recompute]
        said, shown = said_bytes(group[0], sim) / GIB, f"{min(took):.1f}" + (f" to {max(took):.1f}" if max(took) - min(took) >= 0.1 else "")
        off, peak = max((said / one - 1 for one in took), key=abs), sim["training"]["peak"] if figure == "train" else ""
        yield f"| {model}, {'step' if figure == 'train' else figure}, {tokens // 1024}k | {kept} | {shown} | {said:.1f} | {off:+.1%} | {peak} |".replace("%", " %")


def context(program, rows, folder):
    """One sequence cut between ranks: both runs, the price of that cut, and what the ranks sent."""
    for row in rows:
        if not row["way"].startswith("context"):
            continue
        sim = predicted(program, row, folder)
        said, what = end_to_end(row, sim), {"prefill": "prefill", "train": "training step"}[row["figure"]]
        sent = (max(row["sent_bytes"]), sim["machine"]["ring"]["sent_bytes"])
        yield (f"| {row['model']}, {what}, {row['tokens'] // 1024}k, {row['pattern']} | {row['least_s']:.3f}, {row['most_s']:.3f} | {said:.3f} | "
               f"{said / row['mean_s'] - 1:+.1%} | {sent[0] / 1e9:.3f}, {sent[1] / 1e9:.3f} |").replace("%", " %").replace(" | stride", " \\| stride")


def dealt(program, rows, folder):
    """Training steps with heads dealt out: one GPU and all, what each rank's attention took, and what each sent: by sums, by the links, predicted."""
    for row in rows:
        if row["figure"] != "train" or row["way"].startswith("context") or row["ranks"] == 1:
            continue
        one = find(rows, row["figure"], row["model"], row["tokens"], row["batch"], 1, row["way"])
        said = [end_to_end(each, predicted(program, each, folder)) for each in ({**row, "ranks": 1}, row)]
        sums = next(part for part in predicted(program, row, folder)["parts"] if part["name"] == "all-reduce")
        attention = ", ".join(f"{kernels['attention'] * 1e3:.0f}" for kernels in row["kernels_of_ranks_s"])
        yield (f"| {row['model']}, {row['tokens'] // 1024}k, {row['way']} | {one['s'] if one else 0:.3f} | {row['s']:.3f} ({row['least_s']:.3f} to {row['most_s']:.3f}) | "
               f"{said[0]:.3f}, {said[1]:.3f} | {attention} | {max(row['sent_bytes']) / 1e9:.2f}, {max(row['link_bytes']) / 1e9:.2f} ({sums['sent_bytes'] / 1e9:.2f}) |"
               ).replace("| 0.000 |", "|  |")


SHARED = {"dense": "dense", "pattern": "the pattern above", "uneven heads as numbered": "`kv 0-3: dense; kv 4-7: local 4`, heads as numbered",
          "uneven heads by work": "... dealt out by their work"}


def shared(program, rows, folder):
    """Heads dealt out to two GPUs: a prefill and a token, seconds measured and predicted, and what each rank's attention took."""
    for way, label in SHARED.items():
        prefill, decode = (find(rows, figure, "llama-3.1-8b", 32768, batch, 2, way) for figure, batch in (("prefill", 1), ("decode", 16)))
        said = [end_to_end(row, predicted(program, row, folder)) for row in (prefill, decode)]
        attention = ", ".join(f"{kernels['attention'] * 1e3:.0f}" for kernels in prefill["kernels_of_ranks_s"])
        yield f"| {label} | {prefill['s']:.3f} | {said[0]:.3f} | {decode['s']:.4f} | {said[1]:.4f} | {attention} |"


def main():
    program, path, *mode = sys.argv[1:]
    with open(path) as file:
        rows = latest(map(json.loads, file))
    if mode:
        with tempfile.TemporaryDirectory() as folder:
            print("\n".join({"lead": lead, "each": each, "ranks": dealt, "shared": shared, "memory": peaks, "context": context}[mode[0]](program, rows, folder)))
        return
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
