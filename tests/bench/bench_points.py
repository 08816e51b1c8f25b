#!/usr/bin/env python3
"""Turn rows of bench-gpu into rows that `s2 sim --accuracy --rows` judges by.

usage: bench_points.py docs/results/h200-{forward,forward-rest,backward,backward-rest}.jsonl > rows.jsonl

Another program with other buffers, on other cards than the points that were fitted. The plans are cut as the kernels cut them.
"""
import json
import sys

KERNELS = ("sm80", "sm90", "sm90_bwd", "sm90_bwd_ordered")
DTYPE = {"bf16": "bf16", "f16": "fp16", "fp16": "fp16"}


def cut(row):
    if "key_tok" in row:
        return row["tile_tok"], row["key_tok"], row["pack_heads"]
    # Rows of fe3ff5d8306a and before do not say it.
    if row["kernel"] == "sm80":
        return 64, 64, 1
    if row["kernel"] == "sm90_bwd":
        return 128, 128, 1
    keys = 32 if row["head_dim"] == 256 else 64
    packs = row["heads"] // row["kv_heads"] % 2 == 0 and "phase head" not in row["rules"]
    return (64 if packs else 128), keys, 2


def main():
    nth = 0
    for line in (line for path in sys.argv[1:] for line in open(path)):
        row = json.loads(line)
        if row.get("row") == "device":
            print(json.dumps({"schema": "s2points/1", "gpu": "h200", "device": row["name"], "uuid": row.get("uuid", ""),
                              "driver": row.get("driver", ""), "commit": row["commit"], "date": row["date"]}))
        if row.get("row") not in ("forward", "backward") or row["kernel"] not in KERNELS or row["dtype"] not in DTYPE:
            continue
        tile, keys, pack = cut(row)
        pattern = (f"heads {row['heads']}; kv-heads {row['kv_heads']}; head-dim {row['head_dim']}; "
                   f"block {row['block_tok']}; layers all: {row['rules']}")
        print(json.dumps({"set": "held-out", "seed": 0, "nth": nth, "family": row["pattern"][:15], "pass": row["row"],
                          "pattern": pattern, "q_tok": row["n_tok"], "k_tok": row["n_tok"], "batch": row["batch"],
                          "dtype": DTYPE[row["dtype"]], "kernel": row["kernel"], "tile_tok": tile, "key_tok": keys,
                          "pack_heads": pack, "section_bytes": 16777216, "us": row["sustained_ms"] * 1e3,
                          "spread": row["spread"], "mhz": row["clock_mhz"], "burst_us": row["cool_ms"] * 1e3,
                          "burst_mhz": 0}))
        nth += 1


main()
