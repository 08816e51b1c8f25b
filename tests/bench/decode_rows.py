#!/usr/bin/env python3
"""Hold `s2 sim --phase decode` against the decode rows of bench-gpu: one query, a contiguous cache.

usage: decode_rows.py S2 docs/results/h200-decode.jsonl

`strict_us` is a step that waits for the one before it, which is what is predicted; in `us` the next launch begins to
fetch before this one has ended.
"""
import json
import subprocess
import sys

RULES = {"phi3": "local 16 | stride 8 phase kv", "L8V16": "local 8 | stride 16 phase head", "dense": "dense"}


def predicted(program, row):
    pattern = (f"heads {row['heads']}; kv-heads {row['kv_heads']}; head-dim {row['head_dim']}; block 64; "
               f"layers all: {RULES[row['pattern']]}")
    said = subprocess.run([program, "sim", pattern, "--gpu", "h200", "--phase", "decode", "--len", str(row["n_tok"]),
                           "--batch", str(row["batch"]), "--json", "--no-db"], check=True, capture_output=True)
    return json.loads(said.stdout)["time_us"]


def main():
    program, path = sys.argv[1:]
    rows = [json.loads(line) for line in open(path)]
    rows = [row for row in rows if row["row"] == "decode" and row["q_tok"] == 1 and row["cache"] == "contiguous" and
            "strict_us" in row and row["pattern"] in RULES]
    errors = {"strict_us": [], "us": []}
    for row in rows:
        us = predicted(program, row)
        print(f"{row['pattern']:6} batch {row['batch']:3} {row['n_tok']:8} tokens: {us:8.2f} us predicted, "
              f"{row['strict_us']:8.2f} strict, {row['us']:8.2f} overlapped")
        for key in errors:
            errors[key].append(abs(us / row[key] - 1))
    for key, all_of in errors.items():
        print(f"{key}: {len(all_of)} rows, off by {100 * sum(all_of) / len(all_of):.1f} % on average, "
              f"at most {100 * max(all_of):.1f} %")


main()
