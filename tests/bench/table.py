#!/usr/bin/env python3
"""Rows of the benchmarks as Markdown, as docs/kernels.md shows them.

usage: table.py [--into=FILE.md] [--list] [SECTION:]ROWS.jsonl...

Rows are those of bench_gpu, bench_decode, peers.py, s2 validate, s2 search --validate and record.sh; their names say nothing,
each row says what it is. Sections are printed one after the other. With --into, a section replaces what stands in
FILE.md between

    <!-- table SECTION -->  and  <!-- end -->

and a section for which there are no rows is left as it is. SECTION: before a name gives its rows to that section alone.
Every section names the card, the driver and the commit of its rows. A goal is judged by the rows given, and by ratios
within one protocol only: give it one run on one card.
"""
import collections
import io
import json
import re
import sys

CORE = ("L8V16", "phi3", "L16V32", "dense")
TRIPLE = ("L8V16", "phi3", "L16V32")
K = 1024


def load(path):
    rows, device = [], {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.startswith("{"):
                continue
            row = json.loads(line)
            if "build" in row or "kernels" in row:  # of two builds that took turns: ab.sh compares those
                continue
            row.setdefault("row", row.get("schema", "point" if "pass" in row else ""))
            if row["row"] in ("device", "s2points/1"):
                device = row
            elif row["row"] in ("s2validate/1", "step"):
                device = {"name": row["device"], "uuid": row.get("device_uuid", row.get("uuid", "")), "driver": row.get("driver"),
                          "commit": row.get("commit"), "runtime": row.get("runtime")}
            row["of"] = device
            rows.append(row)
    return rows


class Run:
    def __init__(self, rows):
        self.rows = rows
        self.used = []

    def of_kind(self, *kinds):
        found = [row for row in self.rows if row["row"] in kinds]
        self.used += found
        return found

    def ours(self, phase, pattern, n_tok, kernel=None):
        """The row of bench_gpu; the portable kernel only when it is named."""
        for row in self.rows:
            if (row["row"], row.get("pattern"), row.get("n_tok")) == (phase, pattern, n_tok) and "sustained" in row and \
                    (row["kernel"] == kernel if kernel else not row["kernel"].startswith("sm80")
                     and not row["kernel"].endswith("_fused")):
                self.used.append(row)
                return row
        return None

    def interleaved(self, phase, pattern, n_tok, batch=1, kernel=None):
        """Ours as the peers' run timed it; the fastest of our kernels, or the one that is named."""
        found = [row for row in self.rows if row["row"] == "ours" and (row["phase"], row["pattern"], row["n_tok"], row.get("batch", 1))
                 == (phase, pattern, n_tok, batch) and (kernel is None or row["kernel"] == kernel)]
        self.used += found
        return min(found, key=lambda row: row["sustained_ms"], default=None)

    def peer(self, phase, pattern, n_tok, kernel, batch=1):
        return next((row for row in self.rows if row["row"] == "peer" and "sustained_ms" in row and "phase" in row and
                     (row["phase"], row["pattern"], row["n_tok"], row["kernel"], row.get("batch", 1)) ==
                     (phase, pattern, n_tok, kernel, batch)), None)

    def decode(self, pattern, batch, n_tok, **wanted):
        wanted = {"q_tok": 1, "cache": "contiguous", "kv_heads": None, **wanted}
        for row in self.rows:
            if row["row"] == "decode" and "us" in row and stored_in(row) == "bf16" and (row["pattern"], row["batch"], row["n_tok"]) == (pattern, batch, n_tok) and \
                    all(value is None or row.get(key) == value for key, value in wanted.items()):
                self.used.append(row)
                return row
        return None


def stored_in(row):
    """The type of keys and values; rows that are older than the choice do not name it."""
    return row.get("kv_dtype", "bf16")


def lengths_of(row):
    """How the lengths of a batch differ; rows that are older than the choice do not say."""
    return row.get("lengths", "even")


def length(n_tok):
    return f"{n_tok // K // K}M" if n_tok % (K * K) == 0 else f"{n_tok // K}k"


def pair(row, digits=0):
    return "-" if row is None else f"{row['sustained']:.{digits}f} / {row['cool']:.{digits}f}"


def time_of(row):
    ms = row["sustained_ms"]
    return f"{ms * 1e3:.1f} us" if ms < 1 else f"{ms:.2f} ms"


def table(head, lines, out):
    if not lines:
        return
    print("| " + " | ".join(head) + " |", file=out)
    print("|" + "---|" * len(head), file=out)
    for line in lines:
        print("| " + " | ".join(line) + " |", file=out)
    print(file=out)


# ---------------------------------------------------------------------- sections


def show_ceilings(run, out):
    """Those of our own benchmark, the first of each card and kind; the peers' runs measure theirs by torch, beside them in the rows."""
    first = collections.OrderedDict()
    for row in run.of_kind("ceiling"):
        if row.get("by", "torch") != "torch":
            first.setdefault((row["of"].get("uuid", "")[:12], row["what"]), row)
    table(("card", "ceiling", "sustained", "cool", "SM MHz", "W"),
          [(card, f"{row['what']} ({row['by']}), {row.get('unit', '')}", f"{row['sustained']:.2f}", f"{row.get('cool', 0):.2f}",
            str(row.get("clock_mhz", "-")), str(row.get("power_w", "-"))) for (card, _), row in first.items()], out)


def show_core(run, phase, out):
    lengths = sorted({row["n_tok"] for row in run.rows if row["row"] == phase and row["pattern"] in CORE})
    lines = [(name, *(pair(run.ours(phase, name, n_tok)) for n_tok in lengths)) for name in CORE
             if any(run.ours(phase, name, n_tok) for n_tok in lengths)]
    table((f"{phase}, TFLOP/s sustained / cool", *(length(n_tok) for n_tok in lengths)), lines, out)


def show_forward(run, out):
    show_core(run, "forward", out)
    lines = []
    for row in run.of_kind("forward"):
        if "of_best_sustained" not in row or row is run.ours("forward", row["pattern"], row["n_tok"]) and row["pattern"] in CORE:
            continue
        lines.append((row["pattern"], f"{row['heads']}/{row['kv_heads']}", str(row["head_dim"]), str(row["block_tok"]), row["dtype"],
                      f"{row['batch']} x {length(row['n_tok'])}", row["kernel"], time_of(row), pair(row),
                      f"{row['of_best_sustained']:.2f} / {row['of_best_cool']:.2f}", f"{100 * row['spread']:.1f} %",
                      f"{row['clock_mhz']:.0f}", f"{row['power_w']:.0f}"))
    table(("forward", "heads", "dim", "block", "type", "batch x length", "kernel", "sustained", "TFLOP/s sustained / cool",
           "of the ceiling", "spread", "MHz", "W"), lines, out)


def show_backward(run, out):
    """A line a pattern and kernel, a column a length: time, rates, and both over the matrix product."""
    rows = [row for row in run.of_kind("backward") if "sustained" in row]
    lengths = sorted({row["n_tok"] for row in rows})
    groups = collections.OrderedDict()
    for row in rows:
        key = (row["pattern"], f"{row['heads']}/{row['kv_heads']}", str(row["head_dim"]), str(row["block_tok"]), row["dtype"], row["kernel"])
        groups.setdefault(key, {})[row["n_tok"]] = row

    def cell(row):
        if row is None:
            return "-"
        return f"{time_of(row)} {pair(row)} ({row['of_best_sustained']:.2f} / {row['of_best_cool']:.2f})"

    table(("gradients: time, TFLOP/s sustained / cool (over the matrix product)", "heads", "dim", "block", "type", "kernel",
           *(length(n_tok) for n_tok in lengths)),
          [(*key, *(cell(of.get(n_tok)) for n_tok in lengths)) for key, of in groups.items()], out)


def show_decode(run, out):
    """Rows of bench_decode: launches replayed from a graph, caches that rotate past the last level."""
    evicted = {(row["pattern"], row["kv_heads"], row["batch"], row["n_tok"], row["q_tok"]): row for row in run.of_kind("decode")
               if row.get("cache") == "evicted" and "us" in row and stored_in(row) == "bf16"}
    lines, seen = [], set()
    for row in run.of_kind("decode"):
        if "us" not in row or row["cache"] != "contiguous" or row.get("select_pages", 0) or stored_in(row) != "bf16" or \
                lengths_of(row) != "even":
            continue
        key = (row["pattern"], row["kv_heads"], row["batch"], row["n_tok"], row["q_tok"])
        if key in seen:
            continue
        seen.add(key)
        other = evicted.get(key)
        lines.append((row["pattern"], f"{row['heads']}/{row['kv_heads']}", f"{row['batch']} x {length(row['n_tok'])}", str(row["q_tok"]),
                      f"{row['kv_mb']:.1f}", f"{row['us']:.1f}", f"{row['kv_tbs']:.2f}", f"{row['over_ceiling']:.2f}",
                      f"{row['strict_us']:.1f}", f"{other['us']:.1f}" if other else "-"))
    table(("decode", "heads", "batch x length", "queries", "K and V, MB", "us, early", "TB/s", "over the read rate", "us, strict",
           "us, early, evicted cache"), lines, out)


LENGTHS = {"even": "equal", "ramp": "a ramp", "few": "half of the tokens in eight"}


def show_decode_lengths(run, out):
    """Batches of different lengths beside the same number of tokens in equal ones."""
    lines = []
    for row in run.of_kind("decode"):
        base = row["pattern"].partition("_")[0]
        even = run.decode(base, row["batch"], row["n_tok"], kv_heads=row["kv_heads"]) if "us" in row else None
        if even is None or lengths_of(row) == "even" or row.get("page_tok", 0):
            continue
        lines.append((base, f"{row['batch']} x {length(row['n_tok'])}", LENGTHS[row["lengths"]], f"{row['kv_mb']:.1f} / {even['kv_mb']:.1f}",
                      f"{row['us']:.1f} / {even['us']:.1f}", f"{row['over_ceiling']:.3f} / {even['over_ceiling']:.3f}",
                      f"{row['over_ceiling'] / even['over_ceiling']:.3f}"))
    table(("decode", "batch x mean length", "lengths", "K and V, MB / equal lengths", "us, early / equal", "over the read rate / equal",
           "rate over equal lengths'"), lines, out)


def show_decode_pages(run, out):
    """Pages that all sequences got in turns, by their size."""
    groups = collections.OrderedDict()
    for row in run.of_kind("decode"):
        if row.get("page_tok", 0) and "us" in row and "_page" in row["pattern"]:
            groups.setdefault((row["pattern"].partition("_")[0], lengths_of(row), row["batch"], row["n_tok"]), {})[row["page_tok"]] = row
    sizes = sorted({size for of in groups.values() for size in of})
    table(("decode, us early (over the read rate)", "batch x mean length", "lengths", *(f"pages of {size}" for size in sizes)),
          [(base, f"{batch} x {length(n_tok)}", LENGTHS[lengths],
            *(f"{of[size]['us']:.1f} ({of[size]['over_ceiling']:.3f})" if size in of else "-" for size in sizes))
           for (base, lengths, batch, n_tok), of in groups.items()], out)


def show_decode_growth(run, out):
    """A graph of all layers that is replayed as sequences grow, beside replays of it as it is."""
    lines = []
    for row in run.of_kind("decode_growth"):
        mean = (row["entering_us"] + (row["tokens"] - 1) * row["inside_us"]) / row["tokens"]
        lines.append((row["pattern"].partition("_")[0], str(row["layers"]), f"{row['batch']} x {length(row['n_tok'])}", LENGTHS[lengths_of(row)],
                      f"{row['same_us']:.0f}", f"{row['inside_us']:.0f} ({row['inside_us'] / row['same_us']:.2f})", f"{row['inside_host_us']:.0f}",
                      f"{row['entering_us']:.0f}", f"{mean / row['same_us']:.2f}", str(row["graphs_anew"])))
    table(("graph of", "layers", "batch x length", "lengths", "us a replay as it is", "us a token (of that)", "of it the host", "us, the first token",
           "64 tokens over 64 replays", "graphs made anew"), lines, out)


def show_eight_bits(run, out):
    """Steps over e4m3 beside the same over 16 bits."""
    plain = {(row["pattern"], row["kv_heads"], row["batch"], row["n_tok"], row["q_tok"]): row for row in run.of_kind("decode")
             if row.get("cache") == "contiguous" and "us" in row and stored_in(row) == "bf16" and not row.get("select_pages", 0)}
    lines = []
    for row in run.of_kind("decode"):
        other = plain.get((row["pattern"], row["kv_heads"], row["batch"], row["n_tok"], row["q_tok"])) if "us" in row else None
        if stored_in(row) != "e4m3" or other is None:
            continue
        lines.append((row["pattern"], f"{row['heads']}/{row['kv_heads']}", f"{row['batch']} x {length(row['n_tok'])}", str(row["q_tok"]),
                      f"{other['us']:.1f}", f"{row['us']:.1f}", f"{other['us'] / row['us']:.2f}", f"{row['over_ceiling']:.3f}"))
    table(("decode", "heads", "batch x length", "queries", "bf16, us", "e4m3, us", "times as many tokens", "e4m3 over the read rate"),
          lines, out)


def show_quest(run, out):
    """What choosing costs: the chosen pages' step against a step that reads as many pages unchosen (4096 keys)."""
    lines = []
    for row in run.of_kind("decode"):
        plain = run.decode("dense", row["batch"], row.get("select_pages", 0) * 64, kv_heads=row["kv_heads"]) if "us" in row else None
        whole = run.decode("dense", row["batch"], row["n_tok"], kv_heads=row["kv_heads"]) if plain else None
        if row.get("select_pages", 0) == 0 or plain is None:
            continue
        lines.append((f"{row['batch']} x {length(row['n_tok'])}", str(row["select_pages"]), f"{row['strict_us']:.1f}", f"{plain['strict_us']:.1f}",
                      f"{row['strict_us'] - plain['strict_us']:.1f}", f"{whole['strict_us']:.1f}" if whole else "-"))
    table(("chosen pages, batch x length", "pages of 64", "us, strict", "the same pages unchosen", "choosing costs, us", "all keys, us"),
          lines, out)


def show_peers(run, out):
    lines = []
    for row in (row for row in run.of_kind("peer") if "phase" in row):
        if "sustained_ms" not in row:
            lines.append((row["phase"], row["pattern"], f"{row.get('batch', 1)} x {length(row['n_tok'])}", row["kernel"],
                          "could not: " + row.get("why", "")[:60].replace("|", " ").replace("\n", " "), "-", "-", "-"))
            continue
        same = [row["phase"], row["pattern"], row["n_tok"], row.get("batch", 1)]
        mine = run.interleaved(*same, kernel="sm90_bwd" if row["kernel"].endswith(" deterministic") else None)
        if mine:
            lines.append((row["phase"], row["pattern"], f"{same[3]} x {length(row['n_tok'])}", row["kernel"],
                          f"{row['sustained_ms']:.3f} / {row['cool_ms']:.3f}", mine["kernel"],
                          f"{mine['sustained_ms']:.3f} / {mine['cool_ms']:.3f}",
                          " / ".join(f"{row[key] / mine[key]:.2f}x" for key in ("sustained_ms", "cool_ms"))))
    table(("phase", "pattern", "batch x length", "peer", "its ms sustained / cool", "ours", "ms", "ours is faster"), lines, out)


def show_campaign(run, out):
    rows = run.of_kind("s2validate/1")
    if not rows:
        return
    print(f"{len(rows)} verdicts, {sum(row['outcome'] == 'ok' for row in rows)} ok; "
          f"{sum(row['touch']['pairs'] for row in rows)} pairs compared, {sum(row['touch']['wrong'] for row in rows)} wrong; "
          f"{sum(row['numerics']['rows'] for row in rows)} rows against fp64; {sum(row['needles']['found'] for row in rows)} "
          f"needles back of {sum(row['needles']['expected'] for row in rows)} that the patterns read\n", file=out)
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
    table(("layer", "phase", "length", "kernel", "ms warm / cold", "dense over it", "of the bound",
           "DRAM read MB, counted / predicted", "written", "L2 to SMs"), lines, out)


def show_needles(run, out):
    """Needle grids: the lengths of a layer that brought every needle back share a line; '.' is a cell that no head reads, '!' one
    that was lost."""
    best = {}
    for row in run.of_kind("s2validate/1"):
        for line in row["needles"].get("grid", []):
            if line["len"] >= K:
                best[(row["name"], row["layer"], line["len"])] = line["cells"]
    shared = {}
    for (name, layer, n_tok), cells in sorted(best.items()):
        shared.setdefault((name, layer, cells if cells.strip("#") else "#" * len(cells)), []).append(n_tok)
    table(("pattern", "layer", "length", "depth 0 to 100 %"),
          [(name, str(layer), ", ".join(length(n_tok) if n_tok % K == 0 else str(n_tok) for n_tok in lengths), f"`{cells}`")
           for (name, layer, cells), lengths in shared.items()], out)


def show_search(run, out):
    lines = []
    for row in run.of_kind("s2confirm/1"):
        measured = [one for one in row["designs"] if one.get("measured_us")]
        ratios = sorted(one["measured_us"] / one["predicted_us"] for one in measured)
        tau = row["kendall_tau"]
        lines.append((row["phase"], f"{row['timed']} of {len(row['designs'])}", f"{tau:.3f}" if tau is not None else "-",
                      f"{ratios[len(ratios) // 2]:.3f}" if ratios else "-",
                      f"{ratios[0]:.3f} to {ratios[-1]:.3f}" if ratios else "-"))
    table(("phase", "designs timed", "Kendall tau", "measured / predicted, median", "range"), lines, out)


def show_failures(run, out):
    """Whatever was refused, failed or wrong."""
    lines = [(row.get("phase", row.get("name", "")), row.get("pattern", row.get("name", "")), str(row.get("n_tok", row.get("len", ""))),
              row.get("outcome", "none"), str(row.get("why", row.get("reason", "")))[:100].replace("|", " "))
             for row in run.rows if row["row"] == "none" or row["row"] == "s2validate/1" and row["outcome"] != "ok"]
    run.used += [row for row in run.rows if row["row"] == "none"] if lines else []
    table(("phase", "pattern", "tokens", "outcome", "why"), lines, out)


def show_steps(run, out):
    last = collections.OrderedDict((row["step"], row) for row in run.of_kind("step"))
    table(("step", "outcome", "seconds", "rows"),
          [(name, row["outcome"], str(row["seconds"]), str(row["rows"])) for name, row in last.items()], out)


# ---------------------------------------------------------------------- goals


class Goals:
    """A line a goal: the goal, both protocols' figures, and how many of them reach it."""

    def __init__(self):
        self.lines = []

    def add(self, what, goals, sustained, cool=None, cool_goals=None, least=True, form="{:.2f}"):
        if all(value is None for value in sustained):
            return

        def figures(values):
            return " / ".join(form.format(value) if value is not None else "-" for value in values)

        def reached(values, goals):
            known = [(value, goal) for value, goal in zip(values, goals) if value is not None]
            met = sum(value >= goal if least else value <= goal for value, goal in known)
            return f"{met} of {len(known)}" if known else "-"

        cool = cool or [None] * len(sustained)
        cool_goals = cool_goals or goals
        shown = " / ".join(f"{goal:g}" for goal in goals) + \
            (", cool " + " / ".join(f"{goal:g}" for goal in cool_goals) if cool_goals is not goals else "")
        has_cool = any(value is not None for value in cool)
        self.lines.append((what, ("" if least else "at most ") + shown, figures(sustained), reached(sustained, goals),
                           figures(cool) if has_cool else "", reached(cool, cool_goals) if has_cool else ""))


def both_of(rows, value):
    """[sustained...], [cool...] of value(row, key), None where there is no row."""
    return [[value(row, key) if row else None for row in rows] for key in ("sustained", "cool")]


def over_matrix(run, phase, kernel, n_tok):
    """Over the product that the same process measured."""
    return both_of([run.ours(phase, name, n_tok, kernel) for name in TRIPLE], lambda row, key: row["of_best_" + key])


def over_peer(run, phase, pattern, kernel, lengths, peer_pattern=None, batch=1):
    pairs = []
    for n_tok in lengths:
        mine, other = run.interleaved(phase, pattern, n_tok, batch), run.peer(phase, peer_pattern or pattern, n_tok, kernel, batch)
        pairs.append((mine, other) if mine and other else None)
    return both_of(pairs, lambda two, key: two[1][key + "_ms"] / two[0][key + "_ms"])


def forward_goals(run, goals):
    goals.add("forward L8V16 / phi3 / L16V32 at 128k over the matrix product", (0.86, 0.90, 0.85), *over_matrix(run, "forward", None, 128 * K))
    goals.add("the same at 8k", (0.66, 0.80, 0.70), *over_matrix(run, "forward", None, 8 * K))
    goals.add("forward L8V16 at 8k / 128k over DKernel", (1.7, 1.7), *over_peer(run, "forward", "L8V16", "DKernel", (8 * K, 128 * K)),
              cool_goals=(2.3, 1.9))
    three = (8 * K, 32 * K, 128 * K)
    dense = over_peer(run, "forward", "dense", "cuDNN", three)
    goals.add("dense causal 8k / 32k / 128k over cuDNN", (1.12, 1.18, 1.25), *dense)
    for dim in (64, 256):
        if dense[0][0] and dense[0][1]:
            goals.add(f"dense of head dim {dim} 8k / 32k over cuDNN (no worse than of 128)", [round(value, 2) for value in dense[0][:2]],
                      *over_peer(run, "forward", f"dense_d{dim}", "cuDNN", three[:2]), cool_goals=[round(value, 2) for value in dense[1][:2]])
    goals.add("L16V32 at 128k over dense FlashAttention-2", (43,), *over_peer(run, "forward", "L16V32", "FlashAttention-2", (128 * K,), "dense"),
              cool_goals=(50,), form="{:.1f}")
    fine, usual = run.ours("forward", "block16", 32 * K), run.ours("forward", "L8V16", 32 * K)
    if fine and usual:
        goals.add("blocks of 16 over blocks of 64, same window and density, 32k", (0.95,), *both_of([fine], lambda row, key: row[key] / usual[key]))
    portable, flash = run.interleaved("forward", "L8V16", 32 * K, kernel="sm80"), run.peer("forward", "dense", 32 * K, "FlashAttention-2")
    if portable and flash:
        goals.add("portable kernel, L8V16 at 32k, TFLOP/s over dense FlashAttention-2's", (0.60,),
                  *both_of([portable], lambda row, key: row[key] / flash[key]))
    twice = [(row, run.ours("forward", row["pattern"], row["n_tok"])) for row in run.rows if row["row"] == "forward" and row.get("kernel") == "sm80" and "sustained" in row]
    twice = [(slow, fast) for slow, fast in twice if fast]
    if twice:
        slowest = [min(fast[key] / slow[key] for slow, fast in twice) for key in ("sustained", "cool")]
        goals.add(f"Hopper over portable kernel, the least of {len(twice)} shapes", (1.0,), slowest[:1], slowest[1:])


def backward_goals(run, goals):
    for kernel, long_goals in (("sm90_bwd_fused", (0.68, 0.70, 0.65)), ("sm90_bwd", (0.60,) * 3)):
        goals.add(f"gradients ({kernel}) L8V16 / phi3 / L16V32 at 128k over the matrix product", long_goals,
                  *over_matrix(run, "backward", kernel, 128 * K))
        goals.add("the same at 8k", (0.50,) * 3, *over_matrix(run, "backward", kernel, 8 * K))
    goals.add("dense gradients at 32k over cuDNN, by the faster of our kernels", (1.05,), *over_peer(run, "backward", "dense", "cuDNN", (32 * K,)))
    goals.add("dense gradients at 8k / 128k over cuDNN (no goal was set: level)", (1, 1), *over_peer(run, "backward", "dense", "cuDNN", (8 * K, 128 * K)))


def decode_goals(run, goals):
    def add(what, goal, key, rows, **how):
        goals.add(what, goal, [row[key] if row else None for row in rows], **how)

    wide = [run.decode(name, 16, 32 * K) for name in ("L8V16", "phi3")]
    add("decode L8V16 / phi3, 16 x 32k, over the read rate", (0.99, 0.95), "over_ceiling", wide)
    add("decode phi3, 1 x 32k / 1 x 128k, us", (8, 19), "us", [run.decode("phi3", 1, n) for n in (32 * K, 128 * K)], least=False, form="{:.1f}")
    add("decode L8V16 / phi3, 8 x 128k, TB/s", (4.3, 4.3), "kv_tbs", [run.decode(name, 8, 128 * K) for name in ("L8V16", "phi3")])
    add("decode L8V16 / phi3, 1 x 1M, TB/s", (4.2, 4.2), "kv_tbs", [run.decode(name, 1, K * K) for name in ("L8V16", "phi3")])
    for batch in (16, 128):
        mine, other = run.interleaved("decode", "phi3", 32 * K, batch), run.peer("decode", "phi3", 32 * K, "dense cuDNN", batch)
        if mine and other:
            bytes_ratio = 4.0 * batch * mine["kv_heads"] * 32 * K * mine["head_dim"] / mine["bytes"]
            goals.add(f"decode phi3, {batch} x 32k, tokens a second over dense cuDNN decoding, of the {bytes_ratio:.2f} times fewer bytes (near them: 0.9)",
                      (0.9,), [other["sustained_ms"] / mine["sustained_ms"] / bytes_ratio])


CUTE = "FlashAttention CuTe"
IN_ONE_ORDER = ("sm90_bwd", "sm90_bwd_ordered")
# What is compared, our kernels (the faster; None: of all), its kernels (the faster), and the goals by thousands of tokens.
CUTE_GOALS = (
    ("dense forward", "forward", "dense", None, (CUTE,), {8: 1.15, 32: 1.15, 128: 1.15}),
    ("dense forward, head dim 64", "forward", "dense_d64", None, (CUTE,), {8: 1.12, 32: 1.12}),
    ("dense forward, head dim 256", "forward", "dense_d256", None, (CUTE,), {8: 1.08, 32: 1.08}),
    ("L8V16 forward, lists of 128 x 64", "forward", "L8V16", None, (CUTE,), {8: 1.5, 32: 1.4, 128: 1.33}),
    ("phi3 forward, lists of 128 x 64", "forward", "phi3", None, (CUTE,), {8: 1.5, 128: 1.35}),
    ("L16V32 forward, lists of 128 x 64", "forward", "L16V32", None, (CUTE,), {128: 1.35}),
    ("window of 1024, forward", "forward", "window", None, (CUTE,), {8: 1.4, 32: 1.4}),
    ("dense gradients, both fused", "backward", "dense", ("sm90_bwd_fused",), (CUTE,), {8: 1.08, 32: 1.08, 128: 1.08}),
    ("dense gradients, both deterministic", "backward", "dense", IN_ONE_ORDER, (CUTE + " deterministic",), {8: 1.05, 32: 1.05, 128: 1.05}),
    ("window of 1024, gradients, the faster of each", "backward", "window", None, (CUTE, CUTE + " deterministic"), {8: 1.2, 32: 1.2}),
    ("window of 1024, gradients, both deterministic", "backward", "window", IN_ONE_ORDER, (CUTE + " deterministic",), {8: 1.2, 32: 1.2}),
    ("L8V16 gradients, both fused, lists for 128 keys", "backward", "L8V16", ("sm90_bwd_fused",), (CUTE + " 64x128", CUTE + " 128x128"),
     {8: 1.7, 32: 2.1, 128: 2.4}),
)


def faster(rows):
    return min((row for row in rows if row), key=lambda row: row["sustained_ms"], default=None)


def fastest_of(run, phase, pattern, n_tok, kernels):
    return faster([run.interleaved(phase, pattern, n_tok, kernel=kernel) for kernel in kernels or (None,)])


def show_cute(run, out):
    """Ours over FlashAttention CuTe, a line a kind of work with all its lengths, and what determinism costs either."""
    lines, costs = [], []
    for what, phase, pattern, kernels, its, goals in CUTE_GOALS:
        pairs = [(tok, fastest_of(run, phase, pattern, tok * K, kernels), faster(run.peer(phase, pattern, tok * K, name) for name in its))
                 for tok in goals]
        pairs = [(tok, mine, other) for tok, mine, other in pairs if mine and other]
        if not pairs:
            continue
        ratios = {key: [other[key + "_ms"] / mine[key + "_ms"] for _, mine, other in pairs] for key in ("sustained", "cool")}
        lines.append((what, " / ".join(f"{tok}k" for tok, _, _ in pairs), " / ".join(f"{goals[tok]:g}" for tok, _, _ in pairs),
                      " / ".join(f"{ratio:.2f}" for ratio in ratios["sustained"]), " / ".join(f"{ratio:.2f}" for ratio in ratios["cool"]),
                      f"{sum(ratio >= goals[tok] for ratio, (tok, _, _) in zip(ratios['sustained'], pairs))} of {len(pairs)}",
                      " / ".join(f"{mine['sustained']:.0f}" for _, mine, _ in pairs), " / ".join(f"{other['sustained']:.0f}" for _, _, other in pairs)))
    table(("work", "length", "goal, ours over it", "sustained", "cool", "reached, sustained", "ours, TFLOP/s", CUTE + ", TFLOP/s"), lines, out)
    for pattern in ("dense", "window"):
        for tok in (8, 32, 128):
            ours = [fastest_of(run, "backward", pattern, tok * K, kernels) for kernels in (IN_ONE_ORDER, ("sm90_bwd_fused",))]
            its = [run.peer("backward", pattern, tok * K, CUTE + form) for form in (" deterministic", "")]
            if any(its):
                costs.append((f"{pattern} gradients, {tok}k", *(f"{100 * (slow['sustained_ms'] / fast['sustained_ms'] - 1):.0f} % / "
                              f"{100 * (slow['cool_ms'] / fast['cool_ms'] - 1):.0f} %" if slow and fast else "-" for slow, fast in (ours, its))))
    table(("deterministic takes longer than fused by, sustained / cool", "ours", CUTE), costs, out)


def show_goals(run, out):
    goals = Goals()
    forward_goals(run, goals)
    backward_goals(run, goals)
    decode_goals(run, goals)
    table(("what", "goal", "sustained", "reached", "cool", "reached"), goals.lines, out)


SECTIONS = collections.OrderedDict(
    ceilings=show_ceilings, forward=show_forward, backward=show_backward, decode=show_decode, decode_lengths=show_decode_lengths,
    decode_pages=show_decode_pages, decode_growth=show_decode_growth, eight_bits=show_eight_bits, quest=show_quest, peers=show_peers, cute=show_cute,
    goals=show_goals, campaign=show_campaign, needles=show_needles, search=show_search, failures=show_failures, steps=show_steps)


def origin_of(run):
    """The cards and commits of the rows that a section used, in the order of their first use."""
    origins = collections.OrderedDict()
    for row in run.used:
        of = row["of"]
        if of:
            words = [of.get("name", of.get("device", "")), of.get("uuid", ""), f"driver {of['driver']}" if of.get("driver") else "",
                     f"commit {of['commit']}" if of.get("commit") else ""]
            card, date = ", ".join(word for word in words if word), str(of.get("date", ""))[:10]
            origins[card] = origins.get(card) or date
    return "; ".join(f"{card}, {date}" if date else card for card, date in origins.items())


def render(name, rows):
    run, out = Run(rows), io.StringIO()
    SECTIONS[name](run, out)
    text = out.getvalue()
    return f"{origin_of(run)}\n\n{text}" if text else ""


def replace(path, sections):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for name, made in sections.items():
        mark = re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", re.S)
        if made and mark.search(text):
            text = mark.sub(lambda found, made=made: found.group(1) + "\n" + made + found.group(2), text)
            print(f"{path}: {name}")
        elif made:
            print(f"{path}: no place for {name}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    into, rows, own = None, [], {}
    for arg in sys.argv[1:]:
        section, _, path = arg.partition(":")
        if arg.startswith("--into="):
            into = arg[len("--into="):]
        elif arg == "--list":
            print("\n".join(SECTIONS))
            return
        elif section in SECTIONS:
            own.setdefault(section, []).extend(load(path))
        elif arg.startswith("-"):
            sys.exit(__doc__)
        else:
            rows += load(arg)
    if not rows and not own:
        sys.exit(__doc__)
    sections = {name: render(name, own.get(name, rows)) for name in SECTIONS}
    if into:
        replace(into, sections)
    else:
        print("\n".join(f"{text}" for text in sections.values() if text), end="")


if __name__ == "__main__":
    main()
