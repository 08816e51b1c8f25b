#!/usr/bin/env python3
"""Run-time lists (sm90_lists) beside the price of the pattern that they say: lists_rows.py S2 ROWS.jsonl [PLANNED.jsonl]

ROWS are those of bench_gpu or of bench_lists; PLANNED are the same points of `bench_lists --plain`, whose plans were made beforehand.
The price is that of a plan made beforehand, with cold caches; the rows are sustained, and plan their lists in each launch.
"""
import json
import subprocess
import sys

SHAPE = "heads {heads}; kv-heads {kv_heads}; head-dim {head_dim}; block {block_tok}; all: {rules}"


def points(path):
    """(pattern, tokens, batch): microseconds"""
    found = {}
    for line in open(path):
        row = json.loads(line)
        if row.get("row") == "forward" and row["kernel"] == "sm90_lists":
            found[SHAPE.format(**row), row["n_tok"], row["batch"]] = row["sustained_ms"] * 1e3
        elif row.get("us", 0) and "set" in row:
            found[row["pattern"], row["k_tok"], row["batch"]] = row["us"]
    return found


def price(s2, pattern, n_tok, batch):
    command = [s2, "sim", "--json", "--no-db", "--len", str(n_tok), "--batch", str(batch), pattern]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["time_us"]


def main():
    s2, path, *planned = sys.argv[1:]
    beforehand = points(planned[0]) if planned else {}
    print("  tokens  batch  measured us  predicted us       off  over a plan made beforehand")
    errors = []
    for (pattern, n_tok, batch), own in points(path).items():
        us, plan = price(s2, pattern, n_tok, batch), beforehand.get((pattern, n_tok, batch))
        errors.append(100 * (us / own - 1))
        over = f"{own / plan:6.3f}" if plan else "     -"
        print(f"{n_tok:8} {batch:6} {own:12.1f} {us:13.1f} {errors[-1]:+8.1f} %  {over}  {pattern}")
    off = sorted(map(abs, errors))
    print(f"{len(off)} rows: {sum(off) / len(off):.1f} % off on average, nine in ten within {off[-(-9 * len(off) // 10) - 1]:.1f}, the largest {off[-1]:.1f}")


if __name__ == "__main__":
    main()
