#!/usr/bin/env python3
"""The table of fuzz targets in docs/trust.md, from what campaigns left in docs/results/.

fuzz.jsonl has a row for each target and run; fuzz-coverage.txt is what `make fuzz-coverage` printed.
usage: table.py [--check]   rewrites the lines between the marks, or only says whether they are those
"""
import json
import re
import sys

HOURS = 8
PAGE, BEGIN, END = "docs/trust.md", "<!-- make fuzz-table -->\n", "<!-- end -->\n"
OWN = {"parse": "the language", "cert": "certificates", "space": "spaces", "npy": "arrays", "db": "databases", "screen": "keys, clicks, pasted text"}


def rows():
    with open("docs/results/fuzz.jsonl") as file:
        return [json.loads(line) for line in file]


def coverage():
    found = {}
    with open("docs/results/fuzz-coverage.txt") as file:
        for line in file:
            if (seen := re.match(r"(\w+) +\d+ inputs +(\d+) of +(\d+) lines", line)):
                found[seen[1]] = int(seen[2]), int(seen[3])
    return found


def at(curve, cpu_s):
    return max([edges for used, edges in curve if used <= cpu_s], default=0)


def curve_of(runs):
    """Of one target: the edges that its runs reached together, since its program was last another."""
    kept = [run for run in runs if "curve" in run]
    kept = [run for run in kept if run.get("targets") == kept[-1].get("targets")]
    curve, before, most = [], 0, 0
    for run in kept:
        for used, edges in run["curve"]:
            most = max(most, edges)
            curve.append([before + used, most])
        before += run["cpu_s"]
    return curve, before


def rose(of):
    """At half, at three quarters and at the end of the time of these curves; of several targets the sums."""
    curves = [curve_of([run for run in of if run["target"] == target]) for target in sorted({run["target"] for run in of})]
    counts = [sum(at(curve, part * end) for curve, end in curves) for part in (0.5, 0.75, 1)]
    return f"{', '.join(map(str, counts))} in {sum(end for _, end in curves) / 60:.0f} min"


def new(runs, name):
    """Inputs or cpu_s of runs without the corpus that they read first; rows of before 2026-11-28 do not tell that part."""
    return sum(run[name] - run.get({"inputs": "read", "cpu_s": "read_cpu_s"}[name], 0) for run in runs)


def line_of(name, targets, runs, covered):
    of = [run for run in runs if run["target"] in targets]
    reached = [covered[target] for target in targets if target in covered]
    hit, lines = sum(r[0] for r in reached), sum(r[1] for r in reached)
    share = f"{100 * hit / lines:.1f} % of {lines}" if lines else ""
    inputs = f"{new(of, 'inputs'):,}".replace(",", " ")
    curve = rose(of) if covered else ""
    return f"| {name} | {inputs} | {new(of, 'cpu_s') / 60:.1f} min | {share} | {curve} | {sum(run['crashes'] for run in of)} |\n"


def missing(lines, runs):
    """Hours of processor time until each line of the table has had its HOURS."""
    had = [new([run for run in runs if run["target"] in targets], "cpu_s") / 3600 for targets in lines]
    return sum(max(0, HOURS - hours) for hours in had)


def table():
    runs, covered = rows(), coverage()
    importers = sorted({run["target"] for run in runs} - set(OWN) - {"any"})
    lines = {f"{what} (`{target}`)": [target] for target, what in OWN.items()}
    lines |= {"any file, its format told by content (`any`)": ["any"], f"{len(importers)} importers, one target each": importers}
    text = "| target | inputs | processor time | lines reached | edges after half, three quarters, all | crashes |\n|---|---|---|---|---|---|\n"
    for name, targets in lines.items():
        text += line_of(name, targets, runs, covered)
    text += line_of("all", [*OWN, "any", *importers], runs, {})
    return text + f"\n{HOURS} hours for each of the {len(lines)} lines above the last would take another {missing(lines.values(), runs):.1f} hours.\n"


def main():
    with open(PAGE) as file:
        page = file.read()
    before, rest = page.split(BEGIN)
    old, after = rest.split(END)
    now = table()
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if old == now else f"{PAGE}: the table of fuzz targets is not that of docs/results/; make fuzz-table writes it")
    with open(PAGE, "w") as file:
        file.write(before + BEGIN + now + END + after)


main()
