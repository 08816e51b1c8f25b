#!/usr/bin/env python3
"""A page's numbers, recomputed from the JSON of the same command: a ratio is that of the two numbers beside it, a
percentage is of what it names. usage: tests/numbers.py DIR_OF_PROGRAMS   last line: N held, N did not"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile

PROGRAMS = os.path.abspath(sys.argv[1])
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "us": 1, "ms": 1e3, "s": 1e6}
held = failed = 0


def run(*words):
    env = dict(os.environ, PATH=PROGRAMS + ":" + os.environ["PATH"], S2_DB=os.path.join(folder, "s2.db"), COLUMNS="400")
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=120)
    return done.stdout


def read_json(*words):
    return [json.loads(line) for line in run(*words).splitlines() if line.startswith("{")]


def near(what, page, data, digits=3):
    """Is `page` what `data` rounds to?"""
    global held, failed
    if page is not None and abs(page - data) <= abs(data) * 0.6 * 10 ** (1 - digits) + 1e-12:
        held += 1
    else:
        failed += 1
        print(f"{what}: the page says {page}, its JSON {data}")


def number(pattern, text, unit=None):
    found = re.search(pattern, text, re.M)
    return float(found[1]) * (UNITS[found[2]] if unit else 1) if found else None


def draw(rng):
    heads, group, layers = rng.choice([4, 8, 16]), rng.choice([1, 2, 4]), rng.choice([1, 2, 4])
    dense = rng.choice(["", "; layers 0: dense"]) if layers > 1 else ""
    return (f"name p; layers {layers}; heads {heads}; kv-heads {heads // group}; layers all: local {rng.randint(1, 20)} | "
            f"stride {rng.randint(2, heads)} phase {rng.choice(['head', 'kv'])}{dense}")


def check_sim(pattern, phase, length):
    words = ("s2", "sim", pattern, "--no-db", "--phase", phase, "--len", str(length))
    page, data = run(*words), read_json(*words, "--json")[0]
    near("sim density", number(r"density +([\d.]+) of", page), data["density"])
    dense, own = data["kv"]["dense"], data["kv"]["head_pages"]
    near("sim dense cache", number(r"kv cache +([\d.]+) (\w+) dense", page, True), dense)
    near("sim head pages", number(r"head pages +([\d.]+) (\w+) ", page, True), own)
    near("sim share of the cache", number(r"head pages +[\d.]+ \w+ +([\d.]+) of dense", page), own / dense, 4)
    ratio = number(r"([\d.]+) times", page)
    if ratio is not None:
        near("sim speed-up", ratio, data["dense_time_us"] / data["time_us"])


def check_check(pattern):
    page, data = run("s2check", pattern), read_json("s2check", pattern, "--json")[0]
    for found in data["properties"]:
        word = {"violated": "VIOLATED"}.get(found["verdict"], found["verdict"])
        near("check " + found["name"], float(bool(re.search(rf"^  {found['name']} +{word}", page, re.M))), 1.0)
        if found["verdict"] == "violated" and found["complete_to"]:
            near("check complete to", number(rf"^  {found['name']} +VIOLATED +holds up to (\d+)", page), found["complete_to"], 9)
    pairs = re.search(r"(\d+) of (\d+) pairs \(([\d.]+) %\)", page)
    if pairs:
        near("check extent", float(pairs[3]), 100 * int(pairs[1]) / int(pairs[2]), 2)


def check_search():
    space = "layers 2; heads 8; kv-heads 2; layers all: local {16,24,32} | stride {2..8} phase {head,kv}"
    words = ("s2", "search", space, "--len", "8k")
    page, data = run(*words), read_json(*words, "--json")[0]
    front = {point["hash"]: point for point in data["front"]}
    for line in page.splitlines():
        row = re.match(r"([0-9a-f]{8}) +([\d.]+) (\w+) +([\d.]+) (\w+) +([\d.]+)  ", line)
        if row:
            point = next(p for h, p in front.items() if h.startswith(row[1]))
            near("search time", float(row[2]) * UNITS[row[3]], point["prefill_us"])
            near("search cache", float(row[4]) * UNITS[row[5]], point["kv_bytes"])
            near("search unread", float(row[6]), point["unread"])
    best = next(p for p in data["front"] if p["candidate"] == data["best"])
    near("search best", float(best["name"] in page.split("best overall: ")[1].split(",")[0]), 1.0)
    near("search left unread", number(r"leaves ([\d.]+) %", page), 100 * best["unread"])
    listed = read_json("s2", "pareto", "--format", "json", "--len", "8k")
    near("pareto shows what was stored", float({row["name"] for row in listed} == {p["name"] for p in data["front"]}), 1.0)
    for row in listed:
        point = next(p for p in data["front"] if p["name"] == row["name"])
        near("pareto time", row["us"], point["prefill_us"])
        near("pareto cache", row["kv_bytes"], point["kv_bytes"], 9)
        near("pareto unread", row["unread"], point["unread"])
        own = read_json("s2", "sim", row["hash"], "--no-db", "--len", "8k", "--json")[0] if row is listed[0] else None
        if own:
            near("ls and sim agree on density", row["density"], own["density"])
            near("ls and sim agree on unread", row["unread"], 1 - own["pairs"]["read"] / own["pairs"]["causal"])
    for line, row in zip(run("s2", "ls", "--columns", "us,kv_bytes,unread", "--sort", "us").splitlines()[1:],
                         read_json("s2", "ls", "--columns", "us,kv_bytes,unread", "--sort", "us", "--format", "json")):
        time, unit, cache, unit_of_cache, unread = line.split()
        near("ls time", float(time) * UNITS[unit], row["us"])
        near("ls cache", float(cache) * UNITS[unit_of_cache], row["kv_bytes"])
        near("ls unread", float(unread), row["unread"])


def check_diff(rng):
    words = ("s2", "diff", draw(rng), draw(rng), "--len", "2k")
    page, data = run(*words), read_json(*words, "--json")[0]
    near("diff verdict", float(page.startswith("same")), float(data["same"]))
    if data["heads_different"]:
        near("diff heads", number(r"; (\d+) of", page), data["heads_different"], 9)


def labels_of(page):
    """What stands before the values of a page, and over its columns."""
    rows = re.findall(r"^ {0,4}([a-z][a-zA-Z_]*(?: [a-z+]+){0,3}) {2,}\S", page, re.M)
    return {row for row in rows if not row.startswith(("layers", "heads"))}


def check_labels():
    """s2 explain knows the label of every row and column that a page prints."""
    pattern = "name p; layers 2; heads 8; kv-heads 2; layers all: local 4 | stride 4 phase head"
    model = "model llama-3.1-8b; layers all: local 4 | stride 4 phase head"
    pages = [run("s2", "sim", pattern, "--phase", phase, "--len", "8k") for phase in ("prefill", "decode", "train")]
    pages += [run("s2", "sim", model, "--phase", "decode", "--len", "8k", "--model", "llama-3.1-8b", "--tp", "2"),
              run("s2", "reach", pattern), run("s2", "show", pattern), run("s2check", "heads 2; all: local 2", "-r", "rows,union,kv,group,shards"),
              run("s2", "validate", pattern, "--len", "128", "--runs", "0"),
              run("s2", "validate", pattern, "--phase", "decode", "--len", "128", "--steps", "4", "--runs", "0"),
              run("s2", "validate", pattern, "--phase", "train", "--len", "128", "--runs", "0")]
    words = set().union(*map(labels_of, pages))
    tables = [run("s2", "ls"), run("s2", "pareto", "--len", "8k")]
    words |= {word for table in tables for word in re.split(r" {2,}", table.splitlines()[0].strip())}
    near("labels are found", float(len(words) > 30), 1.0)
    for word in sorted(words - {"p", "inline"}):
        near(f"s2 explain {word!r} is answered", float(bool(run("s2", "explain", word))), 1.0)


with tempfile.TemporaryDirectory() as folder:
    rng = random.Random(17)
    for _ in range(int(os.environ.get("S2_CASES", "12"))):
        pattern = draw(rng)
        check_check(pattern)
        check_sim(pattern, rng.choice(["prefill", "decode"]), rng.choice([1024, 3000, 8192]))
        check_diff(rng)
    check_search()
    check_labels()
print(f"{held} held, {failed} did not")
sys.exit(failed > 0)
