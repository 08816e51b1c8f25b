#!/usr/bin/env python3
"""How far two measurements of the same launches differ: no law can be nearer to both than half of that.

usage: twice.py FIRST.jsonl SECOND.jsonl     rows of `s2 calibrate`, of two cards, days or ways to time
"""
import json
import sys

KEY = ("pass", "pattern", "q_tok", "k_tok", "batch", "dtype", "sinks", "kernel")
UP_TO_US = (8, 12, 30, 100, float("inf"))


def rows_of(path):
    made = {}
    for line in open(path):
        row = json.loads(line)
        if row.get("us", 0) > 0 and not row.get("repeated"):
            made[tuple(row.get(key) for key in KEY)] = row
    return made


def main():
    first, second = (rows_of(path) for path in sys.argv[1:])
    bins = {}
    for key, row in first.items():
        if key not in second:
            continue
        wide = "wide " if row["family"] == "wide" else ""
        least = min(row["us"], second[key]["us"])
        most_us = next(us for us in UP_TO_US if least < us)
        bins.setdefault((wide + row["pass"], most_us), []).append(100 * (second[key]["us"] / row["us"] - 1))
    print("| | up to us | launches | mean difference | nine in ten | largest | second over first, mean |\n|---|---|---|---|---|---|---|")
    for (name, most_us), found in sorted(bins.items()):
        far = sorted(abs(one) for one in found)
        print(f"| {name} | {most_us:g} | {len(far)} | {sum(far) / len(far):.1f} % | {far[(9 * len(far) - 1) // 10]:.1f} % | {far[-1]:.1f} % | "
              f"{sum(found) / len(found):+.1f} % |")


if __name__ == "__main__":
    main()
