#!/usr/bin/env python3
"""Decode steps that `s2 sim` prices slower than dense ones: pairs of rows of `s2 validate --json`, sparse and dense.

usage: decode_pairs.py S2 docs/results/h200-decode-pairs.jsonl

A row is as `s2 validate` printed it, with the text of its pattern, which must have the row's hash. It times single
launches between two events; a prediction is of launches that follow one another. A single launch takes longer by what
the narrow dense rows show (the median of measured - predicted), and ratios are compared with that added to both sides.
"""
import json
import statistics
import subprocess
import sys


def predicted(program, row):
    said = subprocess.run([program, "sim", row["pattern"], "--gpu", "h200", "--phase", "decode", "--len", str(row["len"]),
                           "--batch", str(row["batch"]), "--json", "--no-db"], check=True, capture_output=True)
    said = json.loads(said.stdout)
    assert said["hash"] == row["hash"], row["pattern"]
    return said["time_us"]


def rows_a_list(row):
    heads, kv = (int(part.split()[-1]) for part in row["pattern"].split(";")[:2])
    return heads // kv


def main():
    program, path = sys.argv[1:]
    rows = [json.loads(line) for line in open(path)]
    for row in rows:
        row["us"], row["predicted_us"] = 1e3 * row["time_ms"]["median"], predicted(program, row)
        row["wide"] = rows_a_list(row) > 16
    single = statistics.median(row["us"] - row["predicted_us"] for row in rows[1::2] if not row["wide"])
    print(f"a single launch: {single:.1f} us more")
    off = {False: [], True: []}
    for sparse, dense in zip(rows[::2], rows[1::2]):
        measured = sparse["us"] / dense["us"]
        said = (sparse["predicted_us"] + single) / (dense["predicted_us"] + single)
        off[sparse["wide"]].append(abs(said / measured - 1))
        print(f"{sparse['len']:6} x {sparse['batch']:2}  measured {sparse['us']:5.1f} / {dense['us']:5.1f} = {measured:.2f}"
              f"  predicted {sparse['predicted_us']:5.1f} / {dense['predicted_us']:5.1f}"
              f" = {sparse['predicted_us'] / dense['predicted_us']:.2f}, of single launches {said:.2f}"
              f"  {'wide' if sparse['wide'] else '    '}  {sparse['pattern']}")
    for wide, ratios in off.items():
        times = [abs((row["predicted_us"] + single) / row["us"] - 1) for row in rows if row["wide"] == wide]
        print(f"{'more than' if wide else 'up to'} 16 rows a list: {len(ratios)} pairs, ratios off by "
              f"{100 * statistics.mean(ratios):.0f} % on average, at most {100 * max(ratios):.0f} %; {len(times)} times by "
              f"{100 * statistics.mean(times):.0f} %, at most {100 * max(times):.0f} %")


main()
