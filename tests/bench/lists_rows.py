#!/usr/bin/env python3
"""Run-time lists (sm90_lists) beside the price of the pattern that they say: lists_rows.py S2 ROWS.jsonl

The price is that of a plan made beforehand, with cold caches; the rows are sustained, and plan their lists in each launch.
"""
import json
import subprocess
import sys

SHAPE = "heads {heads}; kv-heads {kv_heads}; head-dim {head_dim}; block {block_tok}; all: {rules}"


def price(s2, row):
    command = [s2, "sim", "--json", "--no-db", "--len", str(row["n_tok"]), "--batch", str(row["batch"]), SHAPE.format(**row)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["time_us"]


def main():
    s2, path = sys.argv[1:]
    print("lists                tokens  measured us  predicted us   off")
    for line in open(path):
        row = json.loads(line)
        if row.get("kernel") != "sm90_lists":
            continue
        us, own = price(s2, row), row["sustained_ms"] * 1e3
        print(f"{row['pattern']:18} {row['n_tok']:8} {own:12.1f} {us:13.1f} {100 * (us / own - 1):+6.1f} %")


if __name__ == "__main__":
    main()
