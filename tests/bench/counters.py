#!/usr/bin/env python3
"""Join hardware counters to measured points.

usage: counters.py ONCE.jsonl NCU.csv [TIMED.jsonl] > ROWS-WITH-BYTES.jsonl

ONCE.jsonl is what `s2 calibrate --once` wrote while Nsight Compute watched it:

    ncu --metrics dram__bytes_read.sum,dram__bytes_write.sum,l1tex__m_xbar2l1tex_read_bytes.sum \
        --clock-control none -k 'regex:fwd_|bwd_|decode' --csv --log-file NCU.csv \
        s2 calibrate --once --rows ONCE.jsonl

Where a row launches several kernels (a decode and its combine), every row must launch as many.
With TIMED.jsonl the bytes go to its rows of the same points, and its other rows pass through.
"""
import csv
import json
import sys

FIELD = {
    "dram__bytes_read.sum": "dram_read",
    "dram__bytes_write.sum": "dram_write",
    "l1tex__m_xbar2l1tex_read_bytes.sum": "l2_bytes",
}


def launches(path):
    """[(kernel name, {field: bytes})] in the order of the launches."""
    found = {}
    with open(path, newline="") as file:
        lines = [line for line in file if line.startswith('"')]
    for row in csv.DictReader(lines):
        entry = found.setdefault(int(row["ID"]), (row["Kernel Name"], {}))
        field = FIELD.get(row["Metric Name"])
        if field:
            entry[1][field] = float(row["Metric Value"].replace(",", ""))
    return [found[number] for number in sorted(found)]


def point_of(row):
    return (row["pass"], row["set"], row["seed"], row["nth"])


def main():
    once_path, csv_path = sys.argv[1:3]
    counted = launches(csv_path)
    rows = [json.loads(line) for line in open(once_path)]
    measured = [row for row in rows if row.get("kernel")]
    per_row, rest = divmod(len(counted), max(1, len(measured)))
    if rest or per_row == 0:
        sys.exit(f"{len(counted)} launches do not divide over {len(measured)} rows")
    bytes_at = {}
    for at, row in enumerate(measured):
        own = counted[at * per_row : (at + 1) * per_row]
        bytes_at[point_of(row)] = {field: sum(of.get(field, 0.0) for _, of in own) for field in FIELD.values()}
    if len(sys.argv) > 3:
        rows = [json.loads(line) for line in open(sys.argv[3])]
    for row in rows:
        if row.get("kernel") and not row.get("repeated"):
            row.update(bytes_at.get(point_of(row), {}))
        print(json.dumps(row, separators=(",", ":")))


main()
