#!/usr/bin/env python3
"""Rows of `make bench-gpu` as Markdown, as docs/kernels.md shows them.

usage: table.py ROWS.jsonl...     rows of bench_gpu, bench_decode, peers.py (of one run on one card) and s2 validate

Sections: the card and its ceilings, forward, backward, decoding, against torch's kernels, and the goals that the project
set itself, each with the figure that this run gives.
"""
import json
import sys

CORE = ("L8V16", "phi3", "L16V32", "dense")


def load(paths):
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
                rows += [json.loads(line) for line in file if line.startswith("{")]
    for row in rows:
        row.setdefault("row", row.get("schema", ""))
    return rows


class Run:
    def __init__(self, rows):
        self.rows = rows
        self.matrix = next((row for row in rows if row["row"] == "ceiling" and row["what"] == "matrix_8192_bf16"), None)

    def ours(self, phase, pattern, n_tok, kernel=None):
        """The row of bench_gpu; the portable kernel only when it is named."""
        for row in self.rows:
            if (row["row"], row.get("pattern"), row.get("n_tok")) == (phase, pattern, n_tok) and "sustained" in row and \
                    (row["kernel"].startswith(kernel) if kernel else not row["kernel"].startswith("sm80")):
                return row
        return self.ours(phase, pattern, n_tok, "sm80") if kernel is None else None

    def interleaved(self, phase, pattern, n_tok):
        return next((row for row in self.rows if row["row"] == "ours" and
                     (row["phase"], row["pattern"], row["n_tok"]) == (phase, pattern, n_tok)), None)

    def peer(self, phase, pattern, n_tok, kernel):
        return next((row for row in self.rows if row["row"] == "peer" and "sustained_ms" in row and
                     (row["phase"], row["pattern"], row["n_tok"], row["kernel"]) == (phase, pattern, n_tok, kernel)), None)

    def ratio(self, phase, pattern, n_tok, kernel, peer_pattern=None):
        """How many times as long the peer takes, sustained and cool; both from the peers' run."""
        mine, other = self.interleaved(phase, pattern, n_tok), self.peer(phase, peer_pattern or pattern, n_tok, kernel)
        if not mine or not other:
            return None
        return other["sustained_ms"] / mine["sustained_ms"], other["cool_ms"] / mine["cool_ms"]


def length(n_tok):
    return f"{n_tok // 1024}k"


def pair(row, digits=0):
    return "-" if row is None else f"{row['sustained']:.{digits}f} / {row['cool']:.{digits}f}"


def table(head, lines):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for line in lines:
        print("| " + " | ".join(line) + " |")
    print()


def show_card(run):
    device = next((row for row in run.rows if row["row"] == "device"), None)
    if device is None:
        return
    print(f"{device['name']}, {device.get('uuid', '')}, driver {device.get('driver', '?')}, "
          f"{device.get('runtime', '')}, commit {device.get('commit', '?')}, {device.get('date', '')}\n")
    table(("ceiling", "sustained", "cool", "SM MHz", "W"),
          [(f"{row['what']} ({row['by']}), {row['unit']}", f"{row['sustained']:.2f}", f"{row['cool']:.2f}",
            str(row.get("clock_mhz", "")), str(row.get("power_w", ""))) for row in run.rows if row["row"] == "ceiling"])


def show_core(run, phase, unit):
    lengths = sorted({row["n_tok"] for row in run.rows if row["row"] == phase and row["pattern"] in CORE})
    lines = [(name, *(pair(run.ours(phase, name, n_tok)) for n_tok in lengths)) for name in CORE
             if any(run.ours(phase, name, n_tok) for n_tok in lengths)]
    if lines:
        table((f"{phase}, {unit} sustained / cool", *(length(n_tok) for n_tok in lengths)), lines)


def show_others(run, phase, digits=0):
    lines = []
    for row in run.rows:
        if "of_best_sustained" not in row:
            continue
        shown = row.get("pattern") in CORE and phase != "decode" and row is run.ours(phase, row["pattern"], row["n_tok"])
        if row["row"] != phase or shown:
            continue
        ms = row["sustained_ms"]
        time = f"{ms * 1e3:.1f} us" if ms < 1 else f"{ms:.2f} ms"
        lines.append((row["pattern"], f"{row['heads']}/{row['kv_heads']}", str(row["head_dim"]), str(row["block_tok"]),
                      row["dtype"], f"{row['batch']} x {length(row['n_tok'])}", row["kernel"], time,
                      pair(row, digits), f"{row['of_best_sustained']:.2f} / {row['of_best_cool']:.2f}",
                      f"{100 * row['spread']:.1f} %", f"{row['clock_mhz']:.0f}", f"{row['power_w']:.0f}"))
    if lines:
        unit = "TB/s" if phase == "decode" else "TFLOP/s"
        table((phase, "heads", "dim", "block", "type", "batch x length", "kernel", "sustained", f"{unit} sustained / cool",
               "of the ceiling", "spread", "MHz", "W"), lines)


def show_decode(run):
    """Rows of bench_decode: launches replayed from a graph, caches that rotate past the last level."""
    lines = [(row["pattern"], f"{row['heads']}/{row['kv_heads']}", f"{row['batch']} x {length(row['n_tok'])}",
              str(row["q_tok"]), row["cache"], f"{row['us']:.1f}", f"{row['kv_tbs']:.2f}", f"{row['over_ceiling']:.2f}",
              f"{row['strict_us']:.1f}", f"{row['strict_over_ceiling']:.2f}") for row in run.rows
             if row["row"] == "decode" and "us" in row]
    if lines:
        table(("decode", "heads", "batch x length", "queries", "cache", "us", "TB/s", "of the read rate", "us, strict",
               "of the read rate"), lines)


def show_peers(run):
    lines = []
    for row in run.rows:
        if row["row"] != "peer" or "sustained_ms" not in row:
            continue
        mine = next((other for other in run.rows if other["row"] == "ours" and all(
            other.get(key, 1) == row.get(key, 1) for key in ("phase", "pattern", "n_tok", "batch"))), None)
        ratio = [row[key] / mine[key] for key in ("sustained_ms", "cool_ms")] if mine else None
        lines.append((row["phase"], row["pattern"], f"{row.get('batch', 1)} x {length(row['n_tok'])}", row["kernel"],
                      f"{row['sustained_ms']:.3f} / {row['cool_ms']:.3f}",
                      f"{mine['sustained_ms']:.3f} / {mine['cool_ms']:.3f}" if mine else "-",
                      f"{ratio[0]:.2f}x / {ratio[1]:.2f}x" if ratio else "-"))
    if lines:
        table(("phase", "pattern", "batch x length", "peer", "its ms sustained / cool", "ours", "ours is faster"), lines)


def show_validations(run):
    rows = [row for row in run.rows if row["row"] == "s2validate/1"]
    if rows:
        print(f"{len(rows)} verdicts, {sum(row['outcome'] == 'ok' for row in rows)} ok; "
              f"{sum(row['touch']['pairs'] for row in rows)} pairs compared, {sum(row['touch']['wrong'] for row in rows)} wrong; "
              f"{sum(row['numerics']['rows'] for row in rows)} rows against fp64; {sum(row['needles']['found'] for row in rows)} "
              f"needles back of {sum(row['needles']['expected'] for row in rows)} that the patterns read\n")
    lines = []
    for row in rows:
        counted, predicted = row["bytes"], row.get("predicted") or {}
        if "kernels" not in counted:
            continue
        both = [f"{counted[key] * 1e-6:.1f} / {predicted[key] * 1e-6:.1f}" if predicted.get(key) else f"{counted[key] * 1e-6:.1f} / -"
                for key in ("dram_read", "dram_write", "l2")]
        bound = predicted.get("fraction_of_bound")
        lines.append((f"{row['name']} layer {row['layer']}", row["phase"], length(row["len"]), row["kernel"],
                      f"{row['time_ms']['median']:.3f} / {row['cold_ms']['median']:.3f}", f"{row['dense_over_this']:.1f}",
                      f"{bound:.2f}" if bound else "-", *both))
    if lines:
        table(("layer", "phase", "length", "kernel", "ms warm / cold", "dense over it", "of the bound",
               "DRAM read MB, counted / predicted", "written", "L2 to SMs"), lines)


def of_matrix(run, phase, kernel, n_tok, mine, yardstick):
    values = []
    for name in ("L8V16", "phi3", "L16V32"):
        row = run.ours(phase, name, n_tok, kernel)
        values.append(f"{row[mine] / run.matrix[yardstick]:.2f}" if row and run.matrix else "-")
    return " / ".join(values)


def ratios(run, phase, lengths, kernel, pattern, peer_pattern=None):
    both = [run.ratio(phase, pattern, n_tok, kernel, peer_pattern) for n_tok in lengths]
    return (" / ".join(f"{r[0]:.2f}x" if r else "-" for r in both), " / ".join(f"{r[1]:.2f}x" if r else "-" for r in both))


def show_goals(run):
    lines = []
    for phase, kernel, goal_long, goal_short in (
            ("forward", None, "0.86 / 0.90 / 0.85", "0.66 / 0.80 / 0.70"),
            ("backward", "sm90_bwd_fused", "0.68 / 0.70 / 0.65", "0.50 each"), ("backward", None, "0.60 each", "0.50 each")):
        for n_tok, goal in ((131072, goal_long), (8192, goal_short)):
            first = run.ours(phase, "L8V16", n_tok, kernel)
            if first:
                lines.append((f"{phase} ({first['kernel']}) L8V16 / phi3 / L16V32 at {length(n_tok)} over the matrix product",
                              goal, *(of_matrix(run, phase, kernel, n_tok, *which) for which in (
                                  ("sustained", "sustained"), ("cool", "cool"), ("sustained", "cool")))))
    three = (8192, 32768, 131072)
    for phase, pattern, peer, lengths, goal in (
            ("forward", "dense", "cuDNN", three, "1.12 / 1.18 / 1.25"), ("forward", "dense_d64", "cuDNN", three[:2], "as 128"),
            ("forward", "dense_d256", "cuDNN", three[:2], "as 128"), ("backward", "dense", "cuDNN", three[1:2], "1.05")):
        sustained, cool = ratios(run, phase, lengths, peer, pattern)
        if set(sustained) - set("- /"):
            lines.append((f"{phase} {pattern} against {peer}, {' / '.join(map(length, lengths))}", goal, sustained, cool, ""))
    sustained, cool = ratios(run, "forward", (131072,), "FlashAttention-2", "L16V32", "dense")
    lines.append(("forward L16V32 at 128k against dense FlashAttention-2", "43, 50 cool", sustained, cool, ""))
    fine, usual = run.ours("forward", "block16", 32768), run.ours("forward", "L8V16", 32768)
    if fine and usual:
        lines.append(("blocks of 16 over blocks of 64, same window and density, 32k", "0.95",
                      f"{fine['sustained'] / usual['sustained']:.2f}", f"{fine['cool'] / usual['cool']:.2f}", ""))
    for pattern, batch, n_tok, goal in (("L8V16", 16, 32768, "0.99"), ("phi3", 16, 32768, "0.95"), ("phi3", 1, 32768, "8 us"),
                                        ("phi3", 1, 131072, "19 us"), ("phi3", 8, 131072, "4.3 TB/s"),
                                        ("phi3", 1, 1048576, "4.2 TB/s")):
        row = next((row for row in run.rows if row["row"] == "decode" and "us" in row and row["q_tok"] == 1 and
                    (row["pattern"], row["batch"], row["n_tok"]) == (pattern, batch, n_tok)), None)
        if row:
            figure = f"{row['us']:.1f} us" if "us" in goal else f"{row['kv_tbs']:.2f} TB/s" if "TB" in goal else \
                f"{row['over_ceiling']:.2f}"
            lines.append((f"decode {pattern}, {batch} x {length(n_tok)}", goal, figure, "", ""))
    portable = run.ours("forward", "L8V16", 32768, "sm80")
    dense_fa2 = run.peer("forward", "dense", 32768, "FlashAttention-2")
    if portable and dense_fa2:
        lines.append(("portable kernel, L8V16 at 32k, TFLOP/s over dense FlashAttention-2's", "0.60",
                      f"{portable['sustained'] / dense_fa2['sustained']:.2f}",
                      f"{portable['cool'] / dense_fa2['cool']:.2f}", ""))
    table(("what", "goal", "sustained", "cool", "sustained over the cool product"), lines)


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    run = Run(load(sys.argv[1:]))
    show_card(run)
    for phase, unit in (("forward", "TFLOP/s"), ("backward", "TFLOP/s")):
        show_core(run, phase, unit)
        show_others(run, phase)
    show_others(run, "decode", 2)
    show_decode(run)
    show_peers(run)
    show_validations(run)
    if run.matrix:
        show_goals(run)


if __name__ == "__main__":
    main()
