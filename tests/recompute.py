#!/usr/bin/env python3
"""A page's numbers, recomputed from the JSON of the same command: a ratio is that of the two numbers beside it, a
percentage is of what it names. usage: tests/recompute.py DIR_OF_PROGRAMS   last line: N held, N did not"""
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unicodedata

from tally import end, hold

PROGRAMS = os.path.abspath(sys.argv[1])
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "us": 1, "ms": 1e3, "s": 1e6}


def run(*words, cwd=None):
    env = dict(os.environ, PATH=PROGRAMS + ":" + os.environ["PATH"], S2_DB=os.path.join(folder, "s2.db"), COLUMNS="400")
    done = subprocess.run(words, capture_output=True, text=True, env=env, cwd=cwd, timeout=900)
    return done.stdout


def read_json(*words):
    return [json.loads(line) for line in run(*words).splitlines() if line.startswith("{")]


def near(what, page, data, digits=3):
    """Is `page` what `data` rounds to?"""
    hold(page is not None and abs(page - data) <= abs(data) * 0.6 * 10 ** (1 - digits) + 1e-12,
         f"{what}: the page says {page}, its JSON {data}")


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
    check_error(page, data)
    more = ("--page", str(random.Random(length).choice([16, 48, 256])))
    page, data = run(*words, *more), read_json(*words, *more, "--json")[0]
    near(f"sim unused in pages of {more[1]}", number(rf"unused in pages .*of {more[1]}: ([\d.]+) (\w+)", page, True), data["kv"]["head_pages"] - data["kv"]["used"], 4)


def check_error(page, data):
    """An error is said with what it is: a mean with its points and its spread, an allowance, or that none is known."""
    said = {"mean": r"mean error ([\d.]+) % on \d+ points held out", "allowance": r"no error was measured, ([\d.]+) % is allowed for"}
    if data["error_is"] is None:
        near("no error is known", float("no error known" in page and data["error_pct"] is None), 1.0)
        return
    near("the error", number(said[data["error_is"]], page), data["error_pct"], 2)
    causes, largest = data["error_causes"], data["error_largest_pct"]
    for cause in causes if len(causes) > 1 else ():
        near(f"the cause {cause!r} of an allowance is named", float(cause in re.search(r"allowed for because of (.*)", page)[1]), 1.0)
    near("causes are those of an allowance", float(bool(causes)), float(data["error_is"] == "allowance"))
    if data["error_is"] == "allowance":
        above = largest is not None and largest > data["error_pct"]
        near("an allowance below an error that was measured says so", number(r"the largest error was ([\d.]+) %", page) or 0, largest if above else 0, 2)
    near("a training step has the worse of both passes", float("each the worse of both passes" in page),
         float(data["phase"] == "train" and data["error_is"] == "mean"))
    if data["error_is"] == "mean":
        near("points of the error", number(r"on (\d+) points held out", page), data["error_points"], 9)
        near("nine in ten", number(r"nine in ten within ([\d.]+) %", page), data["error_p90_pct"], 2)
        near("the largest error", number(r"the largest ([\d.]+) %", page), data["error_largest_pct"], 2)


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


def check_fits(rng):
    """What is said to fit beside the weights is a batch and a length whose caches do, and one more does not."""
    model, length = rng.choice(["llama-3.1-8b", "phi-3-small"]), rng.choice([8192, 32768])
    pattern = f"model {model}; layers all: local {rng.randint(4, 32)} | stride {rng.randint(2, 8)} phase kv"
    words = ("s2", "sim", pattern, "--no-db", "--phase", "decode", "--len", str(length), "--model", model)
    page, data = run(*words), read_json(*words, "--json")[0]
    fit = data["fit"]
    near("fits batch", number(r"fits +batch (\d+) ", page), fit["batch"], 9)
    near("fits dense batch", number(r"fits +batch \d+ \(dense (\d+)\)", page), fit["batch_dense"], 9)
    near("fits len", number(r"or (\d+) tokens", page), fit["len"], 9)
    near("fits weights", number(r"beside ([\d.]+) (\w+) of weights", page, True), fit["weight_bytes"])
    near("fewer bytes, more sequences", float(fit["batch"] >= fit["batch_dense"]), 1.0)
    for more, spills in ((0, False), (1, True)):
        words_of = (*words, "--batch", str(fit["batch"] + more))
        page, data = run(*words_of), read_json(*words_of, "--json")[0]
        near(f"the cache spills with {more} more than fit", float(data["tiers"]["host"] > 0), float(spills))
        near(f"then no error is known, {more} more than fit", float(data["error_pct"] is None), float(spills))
        check_error(page, data)
        link = data["time_us"] == data["tiers"]["link_us"]
        near("bound by the link if that takes longest", float(data["bound_by"] == "link"), float(link))
        near("which the page says", float("to read from host memory, at the link's peak\n" in page.split("at least")[0]), float(link))


APART = ("e4m3", "listed", "short", "ordered", "sliding", "wide", "brief", "dim256")  # families that are drawn apart


def check_accuracy(judged):
    """Errors of passes are those of the points listed."""
    for own in judged:
        for score in own.get("passes", []):
            errors = [abs(point["error_pct"]) for point in own["points"] if point["pass"] == score["name"] and point["family"] not in APART]
            name = f"{own.get('gpu', 'h200')} {score['name']}: "
            near(name + "points", len(errors), score["n"], 9)
            near(name + "their mean", sum(errors) / len(errors), score["mape"], 3)
            near(name + "their largest", max(errors), score["max"], 3)
            near(name + "error of the two times", sum(abs(p["predicted_us"] / p["measured_us"] - 1) for p in own["points"] if p["pass"] == score["name"] and p["family"] not in APART) * 100 / len(errors), score["mape"], 2)


def check_new_tokens(points):
    """What docs/simulator.md says of points that ask for a few of the tokens alone."""
    of = {name: [p for p in points if p["pass"] == name and p["family"] not in APART] for name in ("forward", "decode")}
    chunks, least = zip(*((abs(p["error_pct"]), p["q_tok"]) for p in of["forward"] if p["family"] == "chunk"))
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "simulator.md"), encoding="utf-8") as file:
        said = re.search(r"(\d+) of the (\d+) forward points .*? such\s+chunks, of (\d+) tokens or more \(([\d.]+) % off .*? and (\d+) of the (\d+) of decode", file.read(), re.S)
    for words, value in zip(said.groups(), (len(chunks), len(of["forward"]), min(least), sum(chunks) / len(chunks), sum(p["q_tok"] > 1 for p in of["decode"]), len(of["decode"]))):
        near("points of new tokens on the simulator's page", float(words), round(value, 1), 4)


def check_stacks(rng):
    """Where a stack frees nothing, every figure of a file's cache is that of dense, on each page that has one."""
    path, mix = os.path.join(folder, "stack.json"), os.path.join(folder, "mix.csv")
    shape = f"name q; layers {rng.choice([2, 4])}; heads 8; kv-heads {rng.choice([2, 8])}"
    length, prompt = rng.choice([1000, 8192]), rng.choice([500, 9000])
    with open(mix, "w") as out:
        out.write(f"prompt,output\n{prompt},100\n{prompt},20\n")
    for name in ("hf", "vllm", "trtllm"):
        run("s2", "export", f"{shape}; layers all: local {rng.randint(1, 16)} | stride 8 phase head+1", "--to", name, "--len", "16k", "-o", path, "--force", "--no-db")
        at = ("s2", "sim", path, "--no-db", "--page", str(rng.choice([16, 64])))
        own = read_json(*at, "--phase", "decode", "--len", str(length), "--json")[0]
        near(name + " is kept whole", own["stack"]["kv_bytes"], own["kv"]["dense"], 9)
        near(name + " fits as dense", own["fit"]["batch"], own["fit"]["batch_dense"], 9)
        near(name + " fits as long as dense", own["fit"]["len"], own["fit"]["len_dense"], 9)
        most = read_json(*at, "--phase", "decode", "--len", str(length), "--batch", "max", "--json")[0]["largest_batch"]
        near(name + " has the batch of dense", most["batch"], most["batch_dense"], 9)
        near(name + " is as fast at it", most["speed_up"], most["tokens_per_s"] / most["dense_tokens_per_s"], 5)
        mixed = read_json(*at, "--requests", mix, "--json")[0]
        near(name + " sets aside what dense does", mixed["pattern"]["cache_bytes"], mixed["dense"]["cache_bytes"], 9)
        near(name + " says what it sets aside", mixed["stack"]["kv_bytes"], mixed["pattern"]["cache_bytes"], 9)
        found = read_json("s2", "search", f"{shape}; layers all: local {{4,8}} | stride 8 phase head+1", "--exportable", name, "--phase", "decode", "--len", "64k",
                          "--no-db", "--minimize", "us,kv_bytes,unread", "--json")[0]
        whole = read_json("s2", "sim", found["front"][0]["pattern"], "--no-db", "--len", "64k", "--json")[0]["kv"]["dense"]
        near(name + " is searched with all of its cache", found["front"][0]["kv_bytes"], whole, 9)
    run("s2", "export", f"{shape}; layers all: local 4", "--to", "csr", "--len", "1k", "-o", os.path.join(folder, "csr"), "--force", "--no-db")
    listed = ("s2", "sim", os.path.join(folder, "csr"), "--no-db", "--len", "1k")
    near("what frees is not known of csr", float(read_json(*listed, "--json")[0]["stack"]["kv_bytes"] is None), 1.0)
    near("which its page says", float("not known whether" in run(*listed)), 1.0)


def hindered(phase, data):
    """Does a side wait for the link, or not fit?"""
    return not (fits(phase, data, "host") and fits(phase, data, "host_dense"))


def fits(phase, data, side):
    """Does a side, `host` of the pattern or `host_dense`, fit beside the weights?"""
    if phase == "train":
        return data.get("training", {"fits": True})["fits"]
    return data["tiers"][side] == 0


def check_rates(words, page, data, phase):
    """A rate stands on the page and in JSON where its side fits, and nowhere else."""
    ends, line = data["end_to_end"], re.search(r"^  end to end .*", page, re.M)[0]
    n_seen = 0
    for name, side, n_tok in (("", "host", None), ("dense_", "host_dense", None)):
        near(f"{words}: a rate of {name or 'the pattern'} where it fits", float(ends[name + "tokens_per_s"] is not None), float(fits(phase, data, side)))
        n_seen += ends[name + "tokens_per_s"] is not None
        if ends[name + "tokens_per_s"] is not None:
            n_tok = data["batch"] * (1 if phase == "decode" else data["len"])
            near(f"{words}: {name}tokens a second", ends[name + "tokens_per_s"], n_tok / ends[name + "time_us"] * 1e6, 5)
    near(f"{words}: rates of the page", line.count(" tokens/s"), n_seen, 9)
    near(f"{words}: dense_spills", float(ends["dense_spills"]), float(phase != "train" and not fits(phase, data, "host_dense")))
    largest = data.get("largest_batch")
    if largest:
        near(f"{words}: the largest batch of dense", float(largest["dense_tokens_per_s"] is None), float(largest["batch_dense"] == 0))


def check_speed_ups(rng):
    """A ratio is the quotient of its two numbers, on a page, in a table and in JSON; where a side spills or does not fit there is none."""
    phase, gpu = rng.choice(["prefill", "decode", "decode", "train"]), rng.choice(["h200", "h100-sxm", "l40s"])
    shape = rng.choice(["model llama-3.1-8b", "model phi-3-small", "model llama-2-70b", "layers 4; heads 8; kv-heads 2"])
    patterns = [f"name r; {shape}; layers all: local {rng.randint(1, 32)} | stride {rng.randint(2, 8)} phase {rng.choice(['head', 'kv'])}" for _ in "ab"]
    words = ["--no-db", "--phase", phase, "--gpu", gpu, "--len", rng.choice(["2k", "8k", "16k", "128k"][:4 if phase != "train" else 3]), "--batch", str(2 ** rng.randint(0, 5 if phase == "train" else 9))]
    words += ["--model", shape[6:]] if shape.startswith("model") and rng.random() < 0.7 else []
    page, data = run("s2", "sim", patterns[0], *words), read_json("s2", "sim", *patterns, *words, "--json")
    one, barred = data[0], hindered(phase, data[0])
    near(f"{words}: JSON has no ratio where a side is hindered", float(one["speed_up"] is None and one["no_ratio"] is not None), float(barred))
    if one["predicted"]:
        check_error(page, one)
    sides = [(one["dense_time_us"], one["time_us"])]
    sides += [(one["end_to_end"]["dense_time_us"], one["end_to_end"]["time_us"])] if "end_to_end" in one else []
    said = [float(found) for found in re.findall(r"([\d.]+) times as long", page)]
    near(f"{words}: ratios of the page", len(said), 0 if barred else len(sides), 9)
    for ratio, (dense, own) in zip(said, sides):
        near(f"{words}: a ratio of the page", ratio, dense / own)
    if "end_to_end" in one:
        check_rates(words, page, one, phase)
    near(f"{words}: a step that reads host memory is no prediction", float(one["predicted"] and phase == "decode" and one["tiers"]["host"] > 0), 0.0)
    if not barred:
        near(f"{words}: the ratio in JSON", one["speed_up"], one["dense_time_us"] / one["time_us"], 5)
        for part in (one["end_to_end"],) if "end_to_end" in one else ():
            near(f"{words}: the ratio end to end in JSON", part["speed_up"], part["dense_time_us"] / part["time_us"], 5)
    rows = [line for line in run("s2", "sim", *patterns, *words).splitlines() if line.startswith("r ")]
    near("rows of the table", len(rows), 2, 9)
    for row, own in zip(rows, data):
        cell = re.search(r" ([\d.]+)x ", row)
        near(f"{words}: a table has no ratio where a side is hindered", float(cell is None), float(hindered(phase, own)))
        if cell:
            near(f"{words}: a ratio of the table", float(cell[1]), own["dense_time_us"] / own["time_us"], 2)
    for advice in re.findall(r"(?:it fits|or) with((?: --\w+(?: \d+)?)+)", page):
        again = read_json("s2", "sim", patterns[0], *words, *advice.split(), "--json")[0]
        near(f"{words}: it fits with{advice}", float(again["training"]["fits"]), 1.0)


def check_window(pattern, blocks):
    """Every head of every layer reads so many blocks back from each query's own, and one of them no more, by their masks."""
    layers, heads = (int(re.search(rf"(?:^|; ){word} (\d+)", pattern)[1]) for word in ("layers", "heads"))
    own = []
    for layer in range(layers):
        for head in range(heads):
            rows = run("s2", "mask", pattern, "--len", "4k", "--layer", str(layer), "--head", str(head)).split()
            back = [len(row[:q + 1]) - len(row[:q + 1].rstrip("#")) for q, row in enumerate(rows)]
            own += [n if n <= q else len(rows) for q, n in enumerate(back)]   # a row that is read whole bounds nothing
    near(f"the window of {pattern!r}", blocks, float(min(own)), 9)


def check_reach(pattern):
    words = ("s2", "reach", pattern, "--len", "4k")
    page, data = run(*words), read_json(*words, "--json")[0]
    check_window(pattern, number(r"^window +(\d+) block", page))
    near("reach window", number(r"^window +(\d+) block", page) * number(r"blocks of (\d+) token", page), data["window_tok"], 9)
    near("reach resident", number(r"^resident +([\d.]+) blocks", page), data["resident"])
    near("reach resident once", number(r"KV heads, ([\d.]+) different", page), data["resident_once"])
    near("reach kept", number(r"kept ([\d.]+) times", page), data["resident"] / data["resident_once"])
    near("reach flow", number(r"^flow +least ([\d.]+) of dense", page), data["least_flow"])
    if data["hops"].get("layers"):
        near("reach hops", number(r"within (\d+) layer", page), data["hops"]["layers"], 9)
    rows = re.findall(r"^\d+(?: to \d+)? +([\d.]+) +(\d+) +([\d.]+) +(\d+) +([\d.]+) +(\d+) +([\d.]+) +(-?[\d.]+)$", page, re.M)
    near("reach rows", len(rows), len(data["by_distance"]), 9)
    for row, point in zip(rows, data["by_distance"]):
        for cell, value in zip(row, (point["heads"], point["least_heads"], point["kv_heads"], point["least_kv_heads"], point["chances"],
                                     point["least_chances"], point["flow"] / point["dense_flow"])):
            near("reach by distance", float(cell), value, 2)


def pixels_of(svg, top, colour):
    """Where a chart of the page has points of that colour: corners of its curves, and marks."""
    points = []
    for path in re.findall(rf'<path d="M([-\d. L]+)" fill="none"(?: stroke-dasharray="[\d ]+")? stroke="{colour}"', svg):
        points += [tuple(map(float, point.split())) for point in path.split("L")]
    for x, y, shape in re.findall(rf'<path d="M([-\d.]+) ([-\d.]+)([^"]*)" fill="{colour}"/>', svg):
        below = 3.8 if shape[0] == "h" else 0 if shape[0] == "a" else 4.5 if "h" in shape else 5.2
        points.append((float(x) + 4, float(y) + below))
    return sorted(point for point in points if top - 1 <= point[1] <= top + 321)


def pixel_y(svg, top, value):
    """The height of a value between the ticks of a chart, whose axis is linear or logarithmic."""
    ticks = [(float(value), int(y) - 5) for y, value in re.findall(r'<text x="\d+" y="(\d+)" text-anchor="end">([^<]+)<', svg)
             if top - 6 <= int(y) - 5 <= top + 326]
    (low, y_low), (middle, y_middle), (high, y_high) = ticks[0], ticks[len(ticks) // 2], ticks[-1]
    scale = (lambda v: v) if abs((middle - low) / (high - low) - (y_middle - y_low) / (y_high - y_low)) < 0.02 else math.log
    return y_low + (scale(value) - scale(low)) / (scale(high) - scale(low)) * (y_high - y_low)


def check_reach_picture(pattern, length):
    """The curves of s2 draw --what reach go through the numbers of s2 reach --json, and through nothing else."""
    svg = run("s2", "draw", "--what", "reach", pattern, "--len", str(length), "--as", "svg")
    data = read_json("s2", "reach", pattern, "--len", str(length), "--json")[0]
    tops = [int(y) for y in re.findall(r'<rect x="\d+" y="(\d+)" width="1" height="320" fill="#000000"/>', svg)]
    far = data["by_distance"]
    ticks = run("s2", "draw", "--what", "reach", pattern, "--len", str(length), "--as", "ascii").splitlines()
    for at, line in enumerate(ticks):
        if "blocks away, at least" in line:
            named = [int(word) for word in ticks[at - 1].split()]
            near(f"ticks of distances of {pattern!r}", float(named == [far[0]["from_block"], far[-1]["from_block"]]), 1.0)
    near(f"charts by distance of {pattern!r}", float(sum("blocks away, at least" in line for line in ticks)), 2.0)
    curves = [(0, "#000000", [100 * layer["last"] / data["blocks"] for layer in data["by_layer"]]),
              (0, "#0072b2", [100 * layer["least"] / (layer["least_query"] + 1) for layer in data["by_layer"]])]
    curves += [(1, colour, [at[name] for at in far]) for colour, name in
               (("#000000", "heads"), ("#0072b2", "least_heads"), ("#d55e00", "kv_heads"), ("#009e73", "least_kv_heads"))]
    curves += [(2, "#000000", [at["flow"] / at["dense_flow"] for at in far]), (2, "#0072b2", [1.0] * len(far))]
    heads = re.search(r"heads (\d+); kv-heads (\d+)", pattern)
    if heads[1] == heads[2]:
        curves = [curve for curve in curves if curve[1] not in ("#d55e00", "#009e73")]
    for chart, colour, values in curves:
        there = pixels_of(svg, tops[chart], colour)
        drawn = [value for value in values if chart < 2 or value > 0]
        near(f"points of {colour} in chart {chart} of {pattern!r}", len(there), len(drawn), 9)
        off = max((abs(pixel_y(svg, tops[chart], value) - y) for value, (_, y) in zip(drawn, there)), default=0)
        near(f"{colour} in chart {chart} of {pattern!r} goes through its values, off by {off:.1f}", float(off <= 1.1), 1.0)


def check_show(pattern):
    words = ("s2", "show", pattern, "--len", "4k")
    page, data = run(*words), read_json(*words, "--json")[0]
    near("show hash", float(data["hash"] in page), 1.0)
    near("show density", number(r"([\d.]+) of the causal pairs", page), data["token_density"])
    near("show block density", number(r"([\d.]+) of the block pairs", page), data["density"])
    near("show distinct", number(r"distinct +(\d+)", page), data["distinct"], 9)
    near("show and sim agree", data["density"], read_json("s2", "sim", pattern, "--no-db", "--len", "4k", "--json")[0]["density"])


def check_compare(rng):
    """A row of `s2 sim A B` is what each page says, and a ratio is that of the times."""
    patterns = [draw(rng), draw(rng)]
    words = ["--no-db", "--len", "4k"]
    page, data = run("s2", "sim", *patterns, *words), read_json("s2", "sim", *patterns, *words, "--json")
    rows = re.findall(r"^p +([\d.]+) +([\d.]+) +([\d.]+) (\w+) +([\d.]+)x +\w+ +([\d.]+) (\w+) +([\d.]+)", page, re.M)
    near("compare rows", len(rows), 2, 9)
    for row, one in zip(rows, data):
        near("compare density", float(row[0]), one["density"])
        near("compare pairs", float(row[1]), one["pairs"]["read"] / one["pairs"]["causal"])
        near("compare time", float(row[2]) * UNITS[row[3]], one["time_us"])
        near("compare speed-up", float(row[4]), one["dense_time_us"] / one["time_us"], 2)
        near("compare cache", float(row[5]) * UNITS[row[6]], one["kv"]["head_pages"])
        near("compare share", float(row[7]), one["kv"]["head_pages"] / one["kv"]["dense"], 3)


def check_one_design(rng):
    """Search, list, front, record, show and simulator have one set of numbers for one design."""
    database = os.path.join(folder, f"one-{rng.random()}.db")
    heads, length, batch = rng.choice([4, 8]), rng.choice([2048, 4096, 8192]), rng.choice([1, 2])
    space = (f"layers 2; heads {heads}; kv-heads {heads // 2}; layers all: local {{{rng.randint(2, 8)},{rng.randint(9, 20)}}} | "
             f"stride {{2,{heads // 2}}} phase {{head,kv}}")
    phase = rng.choice(["prefill", "decode"])
    batch = rng.choice([batch, 20000]) if phase == "decode" else batch  # whose cache fits no GPU
    at = ("--len", str(length))
    found = read_json("s2", "search", space, *at, "--batch", str(batch), "--phase", phase, "--db", database, "--json")[0]
    listed = {row["hash"]: row for row in read_json("s2", "ls", "--format", "json", "--db", database, "--phase", phase, *at)}
    front = {row["hash"]: row for row in read_json("s2", "pareto", "--format", "json", "--db", database, "--phase", phase, *at)}
    near("one design: the front is what was found", float(set(front) <= set(listed) and len(listed) == len(found["front"])), 1.0)
    if not found["front"]:  # dense attention is cheaper here, and says so
        return
    point = rng.choice(found["front"])
    row = next(row for name, row in listed.items() if point["hash"].startswith(name))
    own = read_json("s2", "sim", point["hash"], "--db", database, "--no-db", *at, "--batch", str(batch), "--phase", phase, "--json") or \
        read_json("s2", "sim", point["pattern"], "--no-db", *at, "--batch", str(batch), "--phase", phase, "--json")
    near("one design: time in search and ls", row["us"], point[phase + "_us"])
    bound = bool(point["bounds"])
    near("one design: a prediction or a bound in search and ls", float(bound), float(row["priced"] == "bound"))
    near("one design: a prediction or a bound in search and sim", float(bound), float(not own[0]["predicted"]))
    near("one design: only what reads host memory is a bound", float(bound), float(phase == "decode" and own[0]["tiers"]["host"] > 0))
    near("one design: time in search and sim", own[0]["time_us"], point[phase + "_us"])
    near("one design: cache in search and ls", row["kv_bytes"], point["kv_bytes"], 9)
    near("one design: cache in search and sim", own[0]["kv"]["head_pages"], point["kv_bytes"], 9)
    near("one design: unread in search and ls", row["unread"], point["unread"])
    near("one design: length and batch", float((row["len"], row["batch"]) == (length, batch)), 1.0)
    near("one design: density in ls and sim", row["density"], own[0]["density"])
    record = run("s2", "tui", "--dump", "designs", "--size", "160x24", "--ascii", "--db", database)
    shown = re.search(re.escape(point["name"]) + r" +\S+ +([\d.]+) +(?:>= ?)?([\d.]+) (\w+) +([\d.]+) (\w+)", record)
    near("one design: it is on the screen", float(bool(shown)), 1.0)
    if shown:
        near("one design: density on the screen", float(shown[1]), row["density"], 3)
        near("one design: time on the screen", float(shown[2]) * UNITS[shown[3]], row["us"])
        near("one design: cache on the screen", float(shown[4]) * UNITS[shown[5]], row["kv_bytes"])


def ask_search(*words):
    """The page of a search and its JSON, which are of one answer."""
    env = dict(os.environ, PATH=PROGRAMS + ":" + os.environ["PATH"], COLUMNS="400")
    page, data = (subprocess.run(["s2", "search", *words, "--no-db", *more], capture_output=True, text=True, env=env, cwd=folder, timeout=900)
                  for more in ((), ("--json",)))
    near(f"search {words}: page and JSON end alike", page.returncode, data.returncode)
    return page, json.loads(data.stdout.splitlines()[0])


TITLE = re.compile(r"^(?:best overall|first of what was searched[^:]*): ", re.M)


def looks(value, is_time):
    """As a page prints it: what prints alike counts as the same."""
    units = [(60e6, 1), (1e6, 1), (1e3, 1), (1, 1)] if is_time else [(2.0 ** (10 * n), 1) for n in (4, 3, 2, 1, 0)]
    scale = next((scale for scale, _ in units if value >= scale), 1)
    return float(f"{value / scale:.{3 if is_time else 4}g}") * scale


def is_dearer(design, rival):
    """Cheaper in no price, the times and the cache of its phases; what fits is cheaper than what does not."""
    signs = []
    for own, other in zip(design["phases"], rival["phases"]):
        if own["fits"] != other["fits"]:
            signs.append(1 if own["fits"] else -1)
        else:
            a, b = looks(own["time_us"], True), looks(other["time_us"], True)
            signs.append((a < b) - (a > b))
        if own["kv_bytes"] is not None:
            a, b = looks(own["kv_bytes"], False), looks(other["kv_bytes"], False)
            signs.append((a < b) - (a > b))
    for name in ("density", "redundancy"):
        if name in design:
            signs.append((f"{design[name]:.5f}" < f"{rival[name]:.5f}") - (f"{design[name]:.5f}" > f"{rival[name]:.5f}"))
    return 1 not in signs


def beats(rival, design, names):
    return all(rival[name] <= design[name] for name in names) and any(rival[name] < design[name] for name in names)


def check_ratios(words, page, data):
    """Every ratio of the winner's page is that of two numbers of the JSON, which are printed beside it."""
    who = {"the model's own layers": data["own"], "dense attention": data["dense"], "dense": data["dense"]}
    winner, title, seen = data["front"][0], TITLE.search(page), 0
    sections = re.split(r"^  (?=(?:prefill|decode|its attention) )", page[title.end():], flags=re.M)[1:]
    dearer = [name for name in ("own", "dense") if data[name] is not None and is_dearer(winner, data[name])]
    near(f"search {words}: JSON says what it is no cheaper than: {dearer}, {data['dearer_than']}", float(dearer == data["dearer_than"]), 1.0)
    room = all(phase["fits"] for phase in winner["phases"])
    near(f"search {words}: called best where nothing beats it in every price, and it fits", float(title[0].startswith("best overall")), float(room and not dearer))
    near(f"search {words}: says what beats it", float("no cheaper than" in title[0]), float(bool(dearer)))
    near(f"search {words}: it is held against the model's own layers", float("  against the model's own layers:" in page), float(data["own"] is not None))
    near(f"search {words}: phases", len(sections), len(winner["phases"]))
    for nth, (section, own) in enumerate(zip(sections, winner["phases"])):
        guess, before = section.find("the kernels here"), seen
        for found in re.finditer(r"(?:([\d.]+) times (faster|slower) than|as fast as|([\d.]+) of the bound of) (the model's own layers|dense attention) \(([\d.]+) (\w+)\)", section):
            key, rival = "kernels_us" if 0 <= guess < found.start() else "time_us", who[found[4]]["phases"][nth]
            near(f"search {words}: time of {found[4]}", float(found[5]) * UNITS[found[6]], rival[key])
            ratio = rival[key] / own[key]
            allowed = re.findall(r"(?:mean error|no error was measured,) ([\d.]+) %", section[:found.start()])
            apart = 100 * abs(ratio - 1)
            if allowed and min(abs(apart - 0.5), abs(apart - float(allowed[-1]))) > 0.06 * float(allowed[-1]):
                near(f"search {words}: {ratio} is within the error of {allowed[-1]} %, and says so",
                     float(section[found.end():].startswith(", which is within that error")), float(0.5 < apart < float(allowed[-1])))
            near(f"search {words}: {key} against {found[4]}", float(found[1] or found[3] or 1),
                 (ratio if found[2] == "faster" else 1 / ratio) if found[1] or found[3] else ratio, 3 if found[1] or found[3] else 2)
            seen += 1
        for found in re.finditer(r"with (the model's own layers|dense attention) ([\d.]+) (\w+), .*? tokens/s: it is (?:([\d.]+) times (faster|slower) than|as fast as) that", section):
            ratio = who[found[1]]["phases"][nth]["end_to_end_us"] / own["end_to_end_us"]
            near(f"search {words}: end to end with {found[1]}", float(found[2]) * UNITS[found[3]], who[found[1]]["phases"][nth]["end_to_end_us"])
            near(f"search {words}: end to end against {found[1]}", float(found[4] or 1), 1 / ratio if found[5] == "slower" else ratio, 3 if found[4] else 2)
        for line in re.findall(r"^.*(?:KV cache keeps|keeps every page|would keep).*$", section, re.M):
            key = "kv_needed_bytes" if "would keep" in line else "kv_bytes"
            for share, name, size, unit in re.findall(r"([\d.]+) % of (the model's own layers|dense) \(([\d.]+) (\w+)\)", line):
                near(f"search {words}: cache of {name}", float(size) * UNITS[unit], who[name]["phases"][nth]["kv_bytes"])
                near(f"search {words}: cache against {name}", float(share) + 0.05, 100 * own[key] / who[name]["phases"][nth]["kv_bytes"] + 0.05, 2)
        near(f"search {words}: a rate where it fits", float("tokens/s" in section and not own["fits"]), 0.0)
        both = data["own"] is not None and own["fits"] and data["own"]["phases"][nth]["fits"]
        near(f"search {words}: by the model's own layers where both fit", float(" the model's own layers (" in section.split("KV cache")[0].split("keeps every")[0]), float(both))
        near(f"search {words}: a bound is no prediction", float("is predicted to take" in section), float(own["priced"] == "predicted"))
        against_dense = len(re.findall(r" dense attention \(", section))
        near(f"search {words}: times are divided where that means something, {own['no_ratio']}", float(seen > before),
             float(own["no_ratio"] is None or own["no_ratio"] == "dense_spills" and both))
        near(f"search {words}: by dense attention, {own['no_ratio']}", float(against_dense > 0), float(own["no_ratio"] is None))
    near(f"search {words}: the model's own layers come first", float(data["own"] is None or "dense attention (" not in page or page.find("own layers (") < page.find("dense attention (")), 1.0)


def check_worth():
    """A table has the worth that a page and JSON have, and docs/worth.md the figures of its commands."""
    patterns = [f"name {name}; layers 4; heads 8; kv-heads 4; head-dim 32; block 4; layers all: {body}" for name, body in (("a", "local 4 | stride 8 phase kv"), ("b", "dense"))]
    words = ("s2", "sim", *patterns, "--no-db", "--len", "256", "--bounds")
    rows = re.findall(r"^[ab] .*?(?:  recall ([\d.]+), loss ([\d.]+))?$", run(*words), re.M)
    judged = [one["worth"] for one in read_json(*words, "--json")]
    near("worth: rows of the table", len(rows), len(judged), 9)
    near("worth: this shape is judged", float(any(judged)), 1.0)
    for (recall, loss), worth in zip(rows, judged):
        near("worth: in the table where JSON has it", float(bool(recall)), float(worth is not None))
        if worth:
            near("worth: recall", float(recall), worth["recall"], 2)
            near("worth: loss", float(loss), worth["loss"], 4)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../docs/worth.md"), encoding="utf-8") as page:
        said = re.search(r"one dense KV head, ([\d.]+) times faster than dense in prefill by prediction and ([\d.]+) % of its cache, where the cheapest one is ([\d.]+) times faster with ([\d.]+) %", page.read())
    for body, faster, share in (("local 16 | stride 32 phase kv+1; kv 7: dense", said[1], said[2]), ("local 16 | stride 32 phase head+1", said[3], said[4])):
        one = read_json("s2", "sim", "model llama-3.1-8b; layers all: " + body, "--len", "128k", "--no-db", "--json")[0]
        near(f"docs/worth.md: {body}: times faster", float(faster), one["speed_up"])
        near(f"docs/worth.md: {body}: share of the cache", float(share), 100 * one["kv"]["head_pages"] / one["kv"]["dense"])


def check_models():
    """A model without attention is refused by what it is, one with layers that have none searched in the others; an edited file is noticed."""
    configs = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data/configs")
    with open(os.path.join(folder, "rwkv.json"), "w") as out:
        json.dump({"model_type": "rwkv", "hidden_size": 2560, "num_hidden_layers": 4, "vocab_size": 1000}, out)
    for path, said in (("rwkv.json", 'of type "rwkv" has no attention'),
                       (os.path.join(configs, "mamba-130m.json"), "layers keep a state and read no keys")):
        done = subprocess.run([os.path.join(PROGRAMS, "s2"), "search", path, "--no-db", "--limit", "2"], capture_output=True, text=True, cwd=folder, timeout=900)
        near(f"{path} is refused by what it is: {done.stderr}", float(said in done.stderr and done.returncode in (2, 3) and done.stdout == ""), 1.0)
    for name, layers, others in (("jamba-v0.1", "4::8", 28), ("minimax-text-01", "7::8", 70), ("bamba-9b", "9::9", 29), ("lfm2-1.2b", "2,5,8::2", 10)):
        one = read_json("s2", "search", os.path.join(configs, name + ".json"), "--no-db", "--limit", "6", "--len", "16k", "--json", "-q")[0]
        near(f"{name}: layers with attention are searched", float((one.get("attention_layers"), one.get("state_layers")) == (layers, others)), 1.0)
        near(f"{name}: no design gives the others keys", float(len(one["front"]) > 0 and all(design["pattern"].count(": state ") == 1 and ": none" in design["pattern"] for design in one["front"])), 1.0)
    run("s2", "export", "model phi-3-small; all: local 16 | stride 8 phase head+1", "--to", "vllm", "--len", "8k", "-o", "edit.json", "--no-db", "--force", cwd=folder)
    with open(os.path.join(folder, "edit.json")) as file:
        text = file.read()
    for edited, noticed in ((text, False), (text.replace('"max_seqlen": 8192', '"max_seqlen": 131072'), True)):
        with open(os.path.join(folder, "edit.json"), "w") as file:
            file.write(edited)
        done = subprocess.run([os.path.join(PROGRAMS, "s2"), "sim", "edit.json", "--no-db", "--len", "4k"], capture_output=True, text=True, cwd=folder, timeout=900)
        near(f"an edited length is noticed: {done.stderr}", float("was changed after s2 wrote it" in done.stderr), float(noticed))
        near(f"more fits than the file is for: {done.stderr}", float("is written for at most" in done.stderr), 1.0)
    done = subprocess.run([os.path.join(PROGRAMS, "s2"), "sim", "model llama-3.1-8b; all: local 4", "--model", "mistral-7b-v0.1", "--no-db", "--len", "4k"], capture_output=True, text=True, timeout=900)
    near(f"another model is said: {done.stderr}", float("it is priced in mistral-7b" in done.stderr), 1.0)


def check_whole_models():
    """The tables of whole models are what was measured beside what is predicted today."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    for page, mode, least, recorded in (("README.md", "lead", 14, "h200-models"), ("docs/python.md", "each", 14, "h200-models"), ("docs/python.md", "ranks", 8, "h200-ranks"),
                                        ("docs/python.md", "shared", 4, "h200-models"),
                                        ("docs/simulator.md", "memory", 7, "h200-models"), ("docs/simulator.md", "context", 6, "h100-ranks")):
        rows = subprocess.run([sys.executable, os.path.join(root, "tests/bench/models_table.py"), os.path.join(PROGRAMS, "s2"),
                               os.path.join(root, f"docs/results/{recorded}.jsonl"), mode], capture_output=True, text=True, timeout=900, check=True).stdout.splitlines()
        with open(os.path.join(root, page), encoding="utf-8") as file:
            shown = file.read().splitlines()
        near(f"{page}: rows of whole models", float(len(rows) >= least), 1.0)
        for row in rows:
            near(f"{page} does not have this row of today (make table-models MODE={mode}): {row}", float(row in shown), 1.0)


def check_beaten():
    """What wins by what it gives up alone, and what does not fit, is not called best."""
    for words, said in (
            (("layers all: local {64,96} | stride 2 phase head+1; {,kv 0: dense}", "--model", "mistral-7b-v0.1", "--len", "32k", "--phase", "prefill,decode",
              "--minimize", "us,kv_bytes,dilution"), "no cheaper than the model's own layers in any price"),
            (("llama-2-70b, l40s, 32k, prefill,decode", "--limit", "10"), "the GPU has no room for it"),
            (("llama-3.1-8b, l40s, 128k, prefill, batch 16", "--limit", "10"), "the GPU has no room for it"),
            # a dense KV head on the slowest GPU: its time is that of dense attention, as far as anybody can see
            (("layers all: local 16 | stride 2 phase head+1; kv 7: dense", "--model", "llama-3.1-8b", "--len", "8k", "--phase", "train", "--tp", "8",
              "--minimize", "us,dilution"), "nothing found here beats dense attention"),
            (("llama-3.1-8b, 8 x H200, 8k, train", "--dp", "8", "--recompute", "--minimize", "us,dilution"), "best overall"),
            (("gpt-oss-20b, H200, 64k, decode, batch 128", "--limit", "10"), "best overall"),
            (("gpt-oss-20b, H200, 64k, decode, batch 700", "--limit", "10"), "the GPU has no room for it")):
        page, data = ask_search(*words)
        title = TITLE.search(page.stdout)
        near(f"search {words}: {said}", float(said in (title[0] if title else page.stdout)), 1.0)
        near(f"search {words}: the best wins something over dense attention", float("it wins nothing over dense attention" in page.stdout), 0.0)
        if title:
            check_ratios(words, page.stdout, data)


def check_options(rng):
    """A search of one candidate gives the figures of s2 sim under the same options, and its page and JSON repeat them."""
    phase, model = rng.choice(["prefill", "decode", "train"]), rng.choice(["gpt-oss-20b", "mixtral-8x7b", "llama-3.2-1b", "quantized.json"])
    text = f"layers all: local {rng.choice([4, 16])} | stride {rng.choice([2, 8])} phase head+1"
    own = [["--weights", rng.choice(["published", "as-dtype", "fp8"] + ([] if phase == "train" else ["int8", "int4", "mxfp4", "nvfp4"]))],
           ["--fusion", "eager"], ["--tp", "2"], ["--page", "64"], ["--dtype", rng.choice(["fp16", "fp8"])]]
    own += [["--dp", "4"], ["--recompute"]] if phase == "train" else [["--kv-dtype", rng.choice(["bf16", "e4m3", "int8"])]]
    chosen = [word for words in rng.sample(own, rng.randint(1, 4)) for word in words]
    words = ["--phase", phase, "--len", rng.choice(["2k", "16k"]), "--batch", rng.choice(["1", "8", "8" if phase == "train" else "300"]), "--gpu", rng.choice(["h200", "a6000"]), *chosen]
    stack = rng.choice(["", "", "vllm"])
    found = read_json("s2", "search", text, "--model", model, "--no-db", "--json", "--minimize", "us,kv_bytes,unread", *words, *(["--exportable", stack] if stack else []))[0]
    shape = "model " + model if model in ("gpt-oss-20b", "mixtral-8x7b", "llama-3.2-1b") else "layers 6; heads 8; kv-heads 4; head-dim 64"
    priced = read_json("s2", "sim", shape + "; " + text, "--model", model, "--no-db", "--json", *words, *(["--stack", stack] if stack else []))[0]
    best = (found["front"] or [found["nearest"]])[0]
    told = best["phases"][0]
    near(f"search {words} {model}: time", told["time_us"], priced["time_us"] if told["priced"] == "predicted" else priced["plan_us"], 5)
    near(f"search {words} {model}: end to end", told["end_to_end_us"], priced["end_to_end"]["time_us"], 5)
    near(f"search {words} {model}: kernels", told["kernels_us"] or 0, priced["time_us"] if priced["predicted"] else 0, 6)
    if phase != "train":
        near(f"search {words} {model}: cache", best["kv_bytes"], priced["kv"]["dense" if stack else "head_pages"], 9)
    for name in ("weights", "kv_dtype", "fusion", "tp", "batch", "dtype"):
        near(f"search {words} {model}: repeats {name}", float(found[name] == priced[name]), 1.0)
    near(f"search {words} {model}: repeats dp", found["dp"], int(words[words.index("--dp") + 1]) if "--dp" in words else 1)
    near(f"search {words} {model}: repeats recompute", float(found["recompute"]), float("--recompute" in words))


SPELLINGS = (
    ("train", "training", "Train"), ("decode", "decoding", "DECODE"),
    ("batch 8", "batch=8", "batch size 8", "batch-size=8", "b8", "bs 8", "bs=8", "bs8", "8 sequences", "batch  8"),
    ("8 x H200", "8xH200", "8 H200", "8 H200s", "H200 x 8", "H200x8", "H200 x8", "8 * h200", "tp 8", "tp=8", "tp8", "8 gpus", "TP 8"),
    ("64k", "ctx 64k", "64K", "64K tokens", "64k context", "context 64k", "context=64k", "len 64k", "seqlen=65536", "context length 64k", "64k ctx"),
    ("fp8 weights", "weights fp8", "weights=fp8"), ("b200", "B200", "1 x b200"))


def check_spellings():
    """Every spelling of a phrase is read alike; what may mean two things is refused."""
    def question(phrase):
        done = subprocess.run([os.path.join(PROGRAMS, "s2"), "search", "phi-3-small, " + phrase, "--dry-run", "--limit", "1", "--no-db"],
                              capture_output=True, text=True, timeout=900)
        return next((line for line in done.stdout.splitlines() if line.startswith("question")), done.stderr)
    for first, *others in SPELLINGS:
        near(f"{first!r} is read", float(question(first).startswith("question")), 1.0)
        for other in others:
            near(f"{other!r} is read as {first!r}: {question(other)}", float(question(other) == question(first)), 1.0)
    for phrase, said in (("8", "may be"), ("fp8", "fp8 weights"), ("b300", "batch 300"), ("heads 8", "the model"), ("serving", "decode"), ("batch 8, bs 4", "says the same"),
                         ("H200 x 2, tp 4", "says the same"), ("8k, ctx 4k", "already"), ("batch 0", "at least 1"),
                         ("fp8 cache", "--kv-dtype"), ("kv cache int8", "--kv-dtype"), ("batch max", "--batch max"), ("largest batch", "--batch max")):
        near(f"{phrase!r} is refused with {said!r}: {question(phrase)}", float(said in question(phrase)), 1.0)


def check_tables():
    """Whatever option s2 sim has, s2 search takes with the same words or refuses with a reason of its own."""
    def options(command):
        return dict(reversed(re.findall(r"^ +(?:-\w, )?--([a-z-]+)(?: (\S+))?", run("s2", command, "--help"), re.M)))  # examples come last
    sim, search = options("sim"), options("search")
    near("options of sim are found", float(len(sim) > 30), 1.0)
    for name, value in sim.items():
        if name in search:
            near(f"--{name} takes the same words in sim and search", float(search[name] == value or name in ("phase", "batch")), 1.0)
            continue
        done = subprocess.run([os.path.join(PROGRAMS, "s2"), "search", "--" + name + ("=1" if value else ""), "phi-3-small, 8k", "--no-db"], capture_output=True, text=True, timeout=900)
        near(f"--{name} is refused with a reason: {done.stderr}", float(done.returncode == 2 and "unknown" not in done.stderr and done.stderr.startswith(f"s2 search: --{name}: ")), 1.0)


def check_thinned():
    """The table of a long front stands for all of it: every design left out is as near to one shown as the page says."""
    space = "layers 4; heads 16; kv-heads 4; layers all: local {4..40:4} {,| sink 1} | stride {2..16:2} phase {head,kv}; {,kv 3: dense}; {,layers 1::2: dense}"
    for names in (("prefill_us", "kv_bytes", "unread"), ("prefill_us", "unread"), ("prefill_us", "kv_bytes", "unread", "dilution")):
        page, data = ask_search(space, "--len", "16k", "--minimize", ",".join(names), "--bounds")
        shown = re.findall(r"^([0-9a-f]{8}) ", page.stdout, re.M)
        said = re.search(r"and (\d+) more, each within ([\d.]+) %", page.stdout)
        front = data["front"]
        near(f"{names}: a long front is thinned", float(len(shown) <= 20 < len(front) and said is not None), 1.0)
        near(f"{names}: how many are left out", float(said[1]), len(front) - len(shown), 9)
        near(f"{names}: the two best are shown", float(shown[:2] == [one["hash"][:8] for one in front[:2]]), 1.0)
        span = {name: max(one[name] for one in front) - min(one[name] for one in front) or 1 for name in names}
        kept = [one for one in front if one["hash"][:8] in shown]
        far = max(min(max(abs(one[name] - other[name]) / span[name] for name in names) for other in kept) for one in front)
        near(f"{names}: {100 * far} % is at most {said[2]} %", float(100 * far <= float(said[2]) * 1.06), 1.0)


def draw_search(rng):
    model = rng.choice(["mistral-7b-v0.1", "Mistral-7B-v0.3", "gpt-oss-20b", "gemma-2-2b", "phi-3-small", "llama-3.2-1b", "sliding.json"])
    space = (f"layers all: {rng.choice(['', 'sink 1 | '])}local {{1,{rng.randint(2, 64)}}} | stride {{{rng.randint(2, 4)},{rng.randint(5, 40)}}} "
             f"phase {{head,kv}}+1; {{,layers 1::2: dense}}")
    words = [space, "--model", model, "--len", str(rng.choice([2048, 5000, 16384, 32768])), "--batch", str(rng.choice([1, 8, 8, 300])),
             "--gpu", rng.choice(["h200", "h200", "a6000"]), "--phase", rng.choice(["prefill", "decode", "decode", "prefill,decode", "train"])]
    words += rng.choice([[], ["--bounds"], ["--exportable", "vllm", "--require", "rows"], ["--tp", "2"]])
    return words + ["--minimize", rng.choice(["us", "us,kv_bytes", "us,unread", "us,kv_bytes,unread,dilution", "kv_bytes", "us,dilution"])]


def check_rivals(rng):
    """What is called best is beaten neither by dense attention nor by the model's own layers."""
    words = draw_search(rng)
    page, data = ask_search(*words, "-o", "best.s2", "--force") if "vllm" not in words else ask_search(*words)
    names = [name for name in data["dense"] or () if name.endswith("_us") or name in ("kv_bytes", "unread", "dilution")]
    for design in data["front"]:
        for rival in (data["own"], data["dense"]):
            near(f"search {words}: {design['name']} is not beaten", float(rival is not None and beats(rival, design, names)), 0.0)
    written = os.path.join(folder, "best.s2")
    if data["best"] >= 0:
        check_ratios(words, page.stdout, data)
    else:
        near(f"search {words}: it says that nothing was found", float(data["dense"] is None or "nothing found here beats" in page.stdout), 1.0)
        near(f"search {words}: exit code without a design", page.returncode, 1)
        near(f"search {words}: writes nothing", float(os.path.exists(written)), 0.0)
    if os.path.exists(written):
        os.remove(written)


def check_round_trip():
    """What -o writes is read back as the design that the page names: by hash, with its model."""
    for words, name in (("phi-3-small, H200, 32k, vLLM", "rt.json"), ("qwen3-8b, H200, 32k, hf", "rt-hf.json"), ("llama-3.1-8b, 2 x H200, 32k, vllm", "rt-tp.json"),
                        ("phi-3-small, H200, 32k, vLLM", "rt.s2"), ("llama-3.1-8b, H200, 32k, trtllm", "."), ("sliding.json, H200, 32k, hf", "rt-own.json")):
        path = os.path.join(folder, name)
        model, at = words.split(",")[0], ("--limit", "100", "--no-db", "-o", path)
        done = [subprocess.run(["s2", "search", words, *at, *more], capture_output=True, text=True, cwd=folder, timeout=900,
                               env=dict(os.environ, PATH=PROGRAMS + ":" + os.environ["PATH"])) for more in (("--json",), ("--json",), ("--json", "--force"))]
        near(f"{words}: exit codes of a first, a second and a forced file", float([one.returncode for one in done] == [0, 2, 0]), 1.0)
        near(f"{words}: a file that exists is told before the search", float("exists" in done[1].stderr and done[1].stdout == ""), 1.0)
        best = json.loads(done[0].stdout.splitlines()[0])["front"][0]
        near(f"{words}: the hash comes back", float(run("s2", "show", "--hash", path, cwd=folder).strip() == best["hash"]), 1.0)
        text = run("s2", "show", "--canonical", path, cwd=folder)
        near(f"{words}: says that its stack does not take it as it is", float("as it is: the model's code there must pass it on" in done[0].stderr),
             float(name != "rt.s2" and model != "phi-3-small"))
        near(f"{words}: the model comes back", float(model.endswith(".json") or f"model {model}" in text), 1.0)


def mask_of(pattern):
    """The pairs that a pattern reads at 512 tokens, heads in turn."""
    at = os.path.join(folder, "mask.npy")
    run("s2", "mask", pattern, "--format", "npy", "--len", "512", "-o", at)
    with open(at, "rb") as file:
        values = file.read()
    return values[10 + int.from_bytes(values[8:10], "little"):]


def check_rank_files(rng):
    """The masks of N GPUs are, one after another, that of all heads; a file that all share is the same for every N."""
    heads, group, n = rng.choice([8, 16]), rng.choice([1, 2, 4]), rng.choice([2, 4, 8])
    text = f"name cut; heads {heads}; kv-heads {heads // group}; block 16; layers all: local {rng.randint(1, 4)} | stride {rng.randint(2, heads)} phase {rng.choice(['head', 'kv', 'head*3+1'])}"
    to, file = rng.choice([("csr", "layout.json"), ("flex", "flex.json"), ("cute", "cute.json"), ("flashinfer", "flashinfer.json")])
    at = os.path.join(folder, "ranks")
    run("s2", "export", text, "--to", to, "--tp", str(n), "--len", "512", "--no-db", "--force", "-o", at)
    parts = [mask_of(os.path.join(at, f"rank{rank}", file)) for rank in range(n)]
    near(f"export --to {to} --tp {n} of {text}: heads in turn", float(b"".join(parts) == mask_of(text) != b""), 1.0)
    near(f"export --to {to} --tp {n}: nothing else", float(sorted(os.listdir(at)) == [f"rank{rank}" for rank in range(n)]), 1.0)
    shutil.rmtree(at)
    for name, takes in (("hf", False), ("vllm", True)):
        words = ("s2", "export", "model phi-3-small; layers all: local 4 | stride 8 phase head+1", "--to", name, "--no-db")
        near(f"export --to {name} --tp 4", float(run(*words, "--tp", "4") == run(*words, *(("--set", "tp=4") if takes else ())) != ""), 1.0)


def check_training(rng):
    """A training step keeps no cache on any page; what a search says of its remedies is what s2 sim says of the design under them."""
    database = os.path.join(folder, f"train-{rng.random()}.db")
    model, length = rng.choice(["llama-3.1-8b", "phi-3-small", "llama-3.2-1b"]), rng.choice(["8k", "16k", "32k"])
    body = f"layers all: local {rng.randint(4, 32)} | stride {rng.choice([2, 4, 8])} phase head"
    at = ("--phase", "train", "--len", length, "--batch", str(rng.choice([1, 2])))
    designs = [f"name {name}; model {model}; {body}{more}" for name, more in (("a", ""), ("b", "; layers 1::2: dense"))]
    table = run("s2", "sim", *designs, *at, "--db", database)
    near(f"{designs}: no cache in the table", len(re.findall(r"^[ab] .* mma +- +- ", table, re.M)), 2, 9)
    for words in (("ls",), ("pareto", "--len", length)):
        rows = read_json("s2", *words, "--phase", "train", "--format", "json", "--db", database)
        near(f"{designs}: s2 {words} lists them", float(len(rows) > 0), 1.0)
        near(f"{designs}: no cache in s2 {words}", float(all(row["kv_bytes"] is None for row in rows)), 1.0)
        for asked in ("kv_bytes<4g", "kv_bytes>0", "!kv_bytes<4g", "kv_mib<=1g"):
            near(f"{designs}: a step without a cache passes no condition on one: {asked}",
                 float(run("s2", "ls", asked, "--phase", "train", "--format", "json", "--db", database) == ""), 1.0)
        near(f"{designs}: nor in its table", float(" 0 B " in run("s2", *words, "--phase", "train", "--db", database)), 0.0)
    one = ("s2", "draw", "--what", "pareto", "--phase", "train", "--as", "ascii", "--db", database)
    near("a picture of a cache that is not there", float(run(*one) == ""), 1.0)
    near("a picture of what is there", float("2 of 2 designs" in run(*one, "--minimize", "us,unread")), 1.0)
    page, data = ask_search(body, "--model", model, *at, "--minimize", "us,unread")
    said = re.findall(r"(?:it fits|or) with((?: --\w+(?: \d+)?)+) \((?:(\d+) GPUs, )?(?:>= )?([\d.]+) (\w+) a step\)", page.stdout)
    near(f"{words} {model}: a remedy with its step where there is none", float(bool(said)), float("does not fit the GPU" in page.stdout and "no --tp or --dp makes it fit" not in page.stdout))
    for options, gpus, time, unit in said:
        step = read_json("s2", "sim", f"model {model}; {body}", "--model", model, *at, *options.split(), "--no-db", "--json")[0]
        near(f"{model} {at}: a step with{options}", float(time) * UNITS[unit], step["end_to_end"]["time_us"])
        near(f"{model} {at}: it fits with{options}", float(step["training"]["fits"]), 1.0)


MARKS = {"bound": ">= ", "guessed": "~ ", "predicted": ""}


def check_listed(what, database, figure, us):
    """The list and the screen show this time, and as what it is."""
    row = read_json("s2", "ls", "--format", "json", "--db", database)[0]
    near(f"{what}: a {figure} time in the list, there {row['priced']}", float(row["priced"] == figure), 1.0)
    near(f"{what}: time in the list", row["us"], us, 5)
    screen = run("s2", "tui", "--dump", "designs", "--size", "160x24", "--ascii", "--db", database)
    shown = re.search(r" [\d.]{6} +((?:>= |~ |\? )?)([\d.]+) (us|ms|s|min)\b", screen)
    near(f"{what}: it is on the screen", float(bool(shown)), 1.0)
    near(f"{what}: the screen marks {figure} times with {MARKS[figure]!r}", float(shown[1] == MARKS[figure]), 1.0)
    near(f"{what}: time on the screen", float(shown[2]) * {"min": 60e6, **UNITS}[shown[3]], us)


def check_figures(rng):
    """Whether a time is predicted, guessed or bound is one thing on the page, in JSON, in the list and on the screen."""
    database = os.path.join(folder, f"figure-{rng.random()}.db")
    phase, gpu = rng.choice(["prefill", "decode", "train"]), rng.choice(["h200", "h200", "a6000"])
    more = rng.choice([[], [], ["--pp", "2"], ["--cp", "2"], ["--bounds"], ["--dtype", "fp8"]])
    more = [] if more[:1] == ["--cp"] and phase == "decode" else more
    words = [f"model llama-3.2-1b; all: local {rng.randint(2, 32)} | stride {rng.choice([2, 8])} phase head", "--model", "llama-3.2-1b",
             "--phase", phase, "--len", rng.choice(["4k", "16k"]), "--batch", rng.choice(["2", "8"]), "--gpu", gpu, *more]
    page, data = run("s2", "sim", *words, "--db", database), read_json("s2", "sim", *words, "--no-db", "--json")[0]
    line = re.search(r"^  time +(.*)", page, re.M)[1]
    figure = "bound" if line.startswith("at least") else "guessed" if " guessed: " in line else "predicted"
    near(f"{words}: {figure} in JSON", float(figure == ("bound" if not data["predicted"] else "predicted" if data["prediction"]["measured"] else "guessed")), 1.0)
    near(f"{words}: dense is {figure} too", float(f"({figure} too)" in page), float(figure != "bound"))
    check_listed(words, database, figure, data["time_us"])


def check_told(rng):
    """The prices that a search puts on its page are those that it stores, each as what it is, bounds and predictions of one step beside each other."""
    database = os.path.join(folder, f"told-{rng.random()}.db")
    phase = rng.choice(["train", "train", "prefill", "prefill,train"])
    more = rng.choice([[], ["--pp", "2"], ["--gpu", "a6000"]])
    words = [f"layers all: local {{4,{rng.randint(5, 30)}}} | stride {{2,4}} phase {{head,kv}}", "--model", "llama-3.2-1b", "--phase", phase, "--len", "8k",
             "--minimize", "us,unread", *more]
    page, found = run("s2", "search", *words, "--db", database), read_json("s2", "search", *words, "--no-db", "--json")[0]
    said = re.search(r"(is predicted to take|is guessed to take|takes at least) ([\d.]+) (\w+)", page)
    for own in found["front"][0]["phases"] if found["front"] else ():
        rows = {row["hash"]: row for row in read_json("s2", "ls", "--format", "json", "--db", database, "--phase", own["phase"], "--len", "8k")}
        row = rows[found["front"][0]["hash"]]
        near(f"search {words}: the winner's time in the list", row["us"], own["time_us"], 5)
        near(f"search {words}: {own['priced']} in the list, {row['priced']}", float(row["priced"] == own["priced"]), 1.0)
        if own is found["front"][0]["phases"][0]:
            near(f"search {words}: and on the page", float(said[1] == {"predicted": "is predicted to take", "guessed": "is guessed to take", "bound": "takes at least"}[own["priced"]]), 1.0)
            near(f"search {words}: with its time", float(said[2]) * UNITS[said[3]], own["time_us"])
        bounds = {row["hash"]: row for row in read_json("s2", "ls", "priced=bound", "--format", "json", "--db", database, "--phase", own["phase"], "--len", "8k")}
        for design in found["front"]:
            told, compared = design.get(own["phase"] + "_us"), design.get(own["phase"] + "_bound_us")
            row = rows[design["hash"]]
            near(f"search {words}: {design['name']} in the list", row["us"], compared if told is None else told, 5)
            near(f"search {words}: {design['name']} is marked where it is a bound", float(row["priced"] == "bound"), float(told is None or own["phase"] + "_us" in design["bounds"]))
            if compared is not None:
                near(f"search {words}: {design['name']} has its bound too", bounds[design["hash"]]["us"], compared, 5)
    if found["front"]:
        row = read_json("s2", "ls", "--format", "json", "--db", database)[0]
        near(f"search {words}: the list is of the first phase", float(row["phase"] == phase.split(",")[0]), 1.0)


def check_spread(rng):
    """Hops and flow of a design are the same in a search, in s2 reach, in the list, the front and its picture, at the length they are of."""
    database = os.path.join(folder, f"spread-{rng.random()}.db")
    layers, length = rng.choice([2, 4]), rng.choice([2048, 4096])
    space = f"layers {layers}; heads 4; kv-heads 2; layers all: local {{1,{rng.randint(2, 9)}}} | stride {{4,16}} phase {{head,kv}}"
    found = read_json("s2", "search", space, "--len", str(length), "--require", "rows", "--minimize", "us,hops,fading", "--db", database, "--json")[0]
    for design in found["front"]:
        own = read_json("s2", "reach", design["pattern"], "--len", str(length), "--no-db", "--json")[0]
        hops = own["hops"]["layers"] or layers + 1
        near(f"{space}: hops in search and reach", design["hops"], hops, 9)
        near(f"{space}: fading in search and reach", design["fading"], min(1e6, 1 / own["least_flow"]) if own["least_flow"] else 1e6, 6)
        for command in ("ls", "pareto"):
            row = next((row for row in read_json("s2", command, "--format", "json", "--db", database, "--len", str(length)) if row["hash"] == design["hash"]), None)
            if command == "ls" or row is not None:
                near(f"{space}: hops in {command}", row["hops"], hops, 9)
                near(f"{space}: flow in {command}", row["flow"], own["least_flow"], 5)
                near(f"{space}: their length", row["len"], length, 9)
        near(f"{space}: it is found by its hops", float(design["name"] in run("s2", "ls", f"hops={hops}", "--columns", "name", "--db", database)), 1.0)
    front = read_json("s2", "pareto", "--minimize", "us,hops,fading", "--format", "json", "--len", str(length), "--db", database)
    near(f"{space}: the front by hops and fading is that of the search", float({row["hash"] for row in front} == {design["hash"] for design in found["front"]}), 1.0)
    other = os.path.join(folder, f"reach-{rng.random()}.db")
    pattern = draw(rng)
    page = run("s2", "reach", pattern, "--len", "1k", "--db", other)
    row = read_json("s2", "ls", "--format", "json", "--db", other)[0]
    near(f"{pattern}: measured without a price, with its length", row["len"], 1024, 9)
    near(f"{pattern}: flow", number(r"^flow +least ([\d.]+) of dense", page), row["flow"])
    run("s2", "sim", pattern, "--len", "2k", "--db", other)
    row = read_json("s2", "ls", "--format", "json", "--db", other)[0]
    near(f"{pattern}: beside a price of another length nothing is known", float(row["hops"] is None and row["flow"] is None), 1.0)


NAMES = ("表意文字の名前がとても長い設計パターン", "cafe\u0301 e\u0302\u0303\u0323 marks", "ｗｉｄｅ and narrow 名", "plain", "long-" * 30 + "end", "😀 face")


def columns(text):
    """The columns of a terminal that a text takes."""
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def check_names():
    """Wide characters and combining marks shift no column of a table, and no screen cuts a character in two."""
    database = os.path.join(folder, "names.db")
    designs = [f"name {name}; heads 8; kv-heads 2; layers all: local {nth + 2} | stride 4 phase head" for nth, name in enumerate(NAMES)]
    for design in designs:
        run("s2", "sim", design, "--len", "4k", "--db", database)
    for what, lines in (("ls", run("s2", "ls", "--db", database).splitlines()),
                        ("sim", run("s2", "sim", *designs, "--len", "4k", "--no-db").splitlines()[1:])):
        ends = {columns(line[:re.search(r" [0-9a-f]{12} | \d\.\d{5} ", line).end()]) for line in lines[1:]}
        near(f"s2 {what}: columns are under each other: {ends}", len(ends), 1, 9)
        near(f"s2 {what}: rows", len(lines) - 1, len(NAMES), 9)
    for view in ("designs", "pareto", "bench", "compare", "runs", "record"):
        for size in ("80x24", "120x40", "40x12", "57x19"):
            screen = run("s2", "tui", "--dump", view, "--size", size, "--db", database)
            near(f"{view} {size}: no character is cut in two: {[line for line in screen.splitlines() if '?' in line.replace('? keys', '')]}",
                 float("?" in screen.replace("? keys", "")), 0.0)
            near(f"{view} {size}: no line is wider than the screen", float(max(map(columns, screen.splitlines())) <= int(size.split("x")[0]) + 1), 1.0)  # each ends with a bar


def check_methods(rng):
    """In --compare what is no prediction is marked, and what does not read all keys is named as s2check finds it."""
    phase = rng.choice(["prefill", "decode", "train"])
    words = (f"model llama-3.2-1b; all: local {rng.randint(2, 20)} | stride {rng.choice([8, 64])} phase head", "--model", "llama-3.2-1b", "--phase", phase, "--len", "32k",
             "--no-db", "--compare")
    page, data = run("s2", "sim", *words), read_json("s2", "sim", *words, "--json")
    rows = [line for line in page.splitlines() if re.search(r" \d\.\d{5} ", line)]
    holed = (re.search(r"^union violated, .*: (.*)$", page, re.M) or [0, ""])[1].split(", ")
    undecided = (re.search(r"^union not decided, .*: (.*)$", page, re.M) or [0, ""])[1].split(", ")
    near(f"{words}: rows", len(rows), len(data), 9)
    for row, one in zip(rows, data):
        near(f"{words}: {one['name']} is marked where it is no prediction: {row}", float(">= " in row), float(not one["predicted"]))
        near(f"{words}: {one['name']}: pairs and density", float(one["pairs"]["read"] == 0), float(one["density"] == 0))
        near(f"{words}: {one['name']}: a ratio of two times of a kind", float(one["speed_up"] or 0), float(one["dense_time_us"] / one["time_us"] if one["speed_up"] else 0), 5)
    for name, ranks in (("DuoAttention", 2), ("LServe", 4)):
        shared = [one for one in read_json("s2", "sim", *words, "--tp", str(ranks), "--json") if one["name"] == name][0]
        near(f"{words}: {ranks} ranks have as many dense heads of {name} each", shared["ranks"]["imbalance"], 1, 2)
    linear = next(one for one in data if one["name"].startswith("Hydra"))
    near(f"{words}: a linear state is a bound, beside a bound of dense", float(linear["predicted"]), 0.0)
    found = read_json("s2check", words[0], "--json", "--len", "32k")[0]["properties"]
    verdict = next(one["verdict"] for one in found if one["name"] == "union")
    near(f"{words}: the pattern's own union, {verdict}", float(("inline" in holed, "inline" in undecided) == (verdict == "violated", verdict == "unknown")), 1.0)
    near(f"{words}: windows do not read all", float("StreamingLLM" in holed and "dense" not in holed + undecided and "H2O" in undecided), 1.0)


def check_written_for():
    """What a file is written for is said of that file alone, whatever else is priced beside it."""
    configs = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data/configs")
    for own, other in (("gpt-oss-20b", "heads 8; kv-heads 2; all: local 4"), ("gpt-oss-20b", "gemma-2-9b"), ("qwen3-8b", "gpt-oss-20b")):
        operands = [os.path.join(configs, name + ".json") if ":" not in name else name for name in (own, other)]
        alone = [subprocess.run([os.path.join(PROGRAMS, "s2"), "sim", one, "--len", "4k", "--no-db"], capture_output=True, text=True, timeout=900).stderr for one in operands]
        both = subprocess.run([os.path.join(PROGRAMS, "s2"), "sim", *operands, "--len", "4k", "--no-db"], capture_output=True, text=True, timeout=900).stderr
        def said(text):
            return sorted(line.replace("s2 sim: ", "").strip() for line in text.splitlines() if "is written for" in line)
        near(f"{own} and {other}: what they are written for: {said(both)}", float(said(both) == sorted(said(alone[0]) + said(alone[1]))), 1.0)


def check_shares():
    """A file of shares of the length says of which figures it is not the pattern, wherever it stands among others."""
    with open("shares.json", "w") as file:
        json.dump({"heavy_ratio": 0.1, "recent_ratio": 0.1}, file)
    def said(*operands):
        done = subprocess.run([os.path.join(PROGRAMS, "s2"), "sim", *operands, "--len", "4k", "--phase", "decode", "--no-db"], capture_output=True, text=True, timeout=900)
        return "shares.json states shares of the length: of any other length than 4096" in done.stderr
    near("a file of shares says so", float(said("shares.json")), 1.0)
    near("another pattern does not", float(said("heads 8; kv-heads 2; all: local 4")), 0.0)


def check_windows():
    """A config that gives layers windows by keys that are not read says so; the published ones give no such alarm."""
    configs = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data/configs")
    def said(path, *more):
        return subprocess.run([os.path.join(PROGRAMS, "s2"), "show", path, *more], capture_output=True, text=True, timeout=900).stderr
    def alarms(text):
        return [line for line in text.splitlines() if "windows of their own" in line or "tells layers apart" in line]
    for name in sorted(os.listdir(configs)):
        if name.endswith(".json"):
            near(f"{name}: no alarm", len(alarms(said(os.path.join(configs, name)))), 0, 9)
    shape = {"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2, "num_hidden_layers": 4, "head_dim": 64, "max_position_embeddings": 8192}
    for model, window in (("mistral", 4096), ("llama", None), ("qwen2", 1024), ("olmo", None), ("phi3", 2048), ("gemma2", 4096)):
        for key, value, alarm in (("attention_window_per_layer", [128, None, 128, None], True), ("layer_windows", [0, 128, 0, 128], True), ("window_of_layers", 128, True),
                                  ("layer_windows", None, False), ("max_window_layers", 4, False), ("rope_theta", 10000, False)):
            with open("window.json", "w") as file:
                json.dump({"model_type": model, "sliding_window": window, **shape, key: value}, file)
            near(f"{model} with {key} {value}: {said('window.json')}", float(bool(alarms(said("window.json")))), float(alarm))
    for model in ("mistral", "llama", "olmo", "phi3"):
        for kinds, alarm in ((["sliding_attention", "full_attention"] * 2, True), (["full_attention"] * 4, False)):
            with open("window.json", "w") as file:
                json.dump({"model_type": model, "sliding_window": 128, **shape, "layer_types": kinds}, file)
            near(f"{model} with {kinds}: {said('window.json')}", float(bool(alarms(said("window.json")))), float(alarm))


def check_samples():
    """Without a database the front of the samples has the figures of s2 sim, all of them bounds and marked as such."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    with open(os.path.join(root, "explorer/samples.c"), encoding="utf-8") as file:
        texts = re.findall(r'"(name (?:[^"\\]|\\n)*(?:"\s*"(?:[^"\\]|\\n)*)*)"', file.read())
    samples = [re.sub(r'"\s*"', "", text).replace("\\n", "\n") for text in texts]
    screen = run("s2", "tui", "--dump", "pareto", "--size", "200x50", "--ascii", "--db", os.path.join(folder, "none.db"))
    near("samples are found", len(samples), 8, 9)
    near("their front says that it is of bounds", float("priced=bound gpu=h200 batch=1" in screen), 1.0)
    rows = dict((row[0], row[1:]) for row in re.findall(r"[| X]([a-z][a-z0-9-]+) +(\S*) ?([\d.]+) (us|ms) +([\d.]+) ([KMG]iB) +([\d.]+) \|", screen))
    data = {text.split()[1]: read_json("s2", "sim", text, "--bounds", "--len", "8k", "--no-db", "--json")[0] for text in samples if "random" not in text}
    values = {name: (one["plan_us"], one["kv"]["head_pages"], 1 - one["pairs"]["read"] / one["pairs"]["causal"]) for name, one in data.items()}
    front = {name for name, own in values.items()
             if not any(all(a <= b for a, b in zip(other, own)) and other != own for other in values.values())}
    near(f"the front of the samples: {sorted(rows)}, {sorted(front)}", float(set(rows) == front), 1.0)
    for name, (mark, time, unit, cache, unit_of_cache, unread) in rows.items():
        near(f"sample {name}: marked as a bound", float(mark == ">="), 1.0)
        near(f"sample {name}: time", float(time) * UNITS[unit], values[name][0])
        near(f"sample {name}: cache", float(cache) * UNITS[unit_of_cache], values[name][1])
        near(f"sample {name}: unread", float(unread), values[name][2])


def check_lengths():
    """A list whose figures are of several lengths says of each which, or shows none; of one length it is said once."""
    for lengths in (("4k", "4k"), ("4k", "8k"), ("4k", "128k")):
        database = os.path.join(folder, f"lengths-{'-'.join(lengths)}.db")
        for nth, length in enumerate(lengths):
            run("s2", "sim", f"name d{nth}; heads 8; kv-heads 2; layers all: local {nth + 2} | stride 4 phase head", "--len", length, "--db", database)
        run("s2", "check", "name d9; heads 8; kv-heads 2; layers all: local 2", "--db", database)
        for size in ("34x12", "40x12", "51x12", "57x19", "64x20", "80x24", "120x40", "200x50"):
            lines = run("s2", "tui", "--dump", "designs", "--size", size, "--ascii", "--db", database).splitlines()
            rows = [line for line in lines[3:] if re.match(r"[> ][ +x?-]{5,7} *d\d", line)]
            near(f"{lengths} {size}: rows", len(rows), 3, 9)
            for row in rows:
                figures = re.search(r" 0\.\d{4}| [\d.]+ (us|ms|s)\b", row)
                near(f"{lengths} {size}: {row!r} says its length, or the list that of all: {lines[1]!r}",
                     float(not figures or bool(re.search(r" \d+k\b", row)) or (len(set(lengths)) == 1 and f"prefill {lengths[0]}" in lines[1])), 1.0)


def check_kept():
    """Where a stack keeps a cache whole that another row drops, its row of a table says so."""
    path = os.path.join(folder, "kept.json")
    pattern = "name q; layers 2; heads 8; kv-heads 8; layers all: local 4 | stride 8 phase head+1"
    for name, stack in (("hf", "transformers"), ("vllm", "vLLM")):
        run("s2", "export", pattern, "--to", name, "--len", "16k", "-o", path, "--force", "--no-db")
        table = run("s2", "sim", path, pattern, "--len", "8k", "--no-db", "--compare").splitlines()
        rows = [line for line in table if re.search(r" \d\.\d{5} ", line)]
        near(f"{name}: the row of the file says what {stack} keeps: {rows}", float("frees none" in rows[0] and stack in rows[0]), 1.0)
        near(f"{name}: the other row does not", float("frees none" in rows[1]), 0.0)


def check_refusals():
    """Each command that a refused export names runs as it is, and a mask that few terms say is offered in terms."""
    shape = "heads 4; kv-heads 4; "
    run("s2", "mask", shape + "layers all: local 2 | stride 4 phase head", "--len", "2k", "--format", "npy", "-o", "mask.npy", cwd=folder)
    with open(os.path.join(folder, "masked.s2"), "w") as file:
        file.write(shape + 'block 64; layers all: mask "mask.npy"\n')
    patterns = ["masked.s2", shape + "layers all: local 2 | random 3 seed 1", shape + "layers all: chunk 4", shape + "layers all: dense",
                shape + "causal no; layers all: local 4", "heads 8; kv-heads 4; layers all: local 4 | stride 4 phase kv",
                "heads 4; kv-heads 2; prefill: local 4; decode: local 2", "layers 2; heads 4; kv-heads 2; layers all: local 100t | sink 3t; layers 1: dense"]
    formats = [line.split()[0] for line in run("s2", "export", "--list").splitlines() if not line.startswith(" ")]
    near("formats are found", float(len(formats) > 12), 1.0)
    env, seen, terms = dict(os.environ, PATH=PROGRAMS + ":" + os.environ["PATH"], S2_DB=os.path.join(folder, "refused.db")), 0, 0
    for name in formats:
        for pattern in patterns:
            words = ("s2", "export", pattern, "--to", name, "--no-db", "-o", "refused/", "--force") + (("--len", "2k") if pattern == "masked.s2" else ())
            done = subprocess.run(words, capture_output=True, text=True, env=env, cwd=folder, timeout=900)
            for command in re.findall(r"^  (s2 export .*)$", done.stderr, re.M):
                again = subprocess.run(["bash", "-c", command + " --force > /dev/null"], capture_output=True, text=True, env=env, cwd=folder, timeout=900)
                near(f"{words}: {command}: {again.stderr}", again.returncode, 0)
                seen += 1
                terms += pattern == "masked.s2" and "reads the same pairs" in done.stderr and name in ("flex", "cute")
            if done.returncode == 1:
                near(f"{words}: names a way where there is one: {done.stderr}", float("s2 export " in done.stderr.split("\n", 1)[1] or "--phase" in done.stderr), 1.0)
    near("refusals name commands", float(seen > 20), 1.0)
    near("flex and cute are offered a mask in terms", terms, 2, 9)


def check_experts():
    """Replicas that share experts train as one: --ep without --dp is refused with what to add, alone and among all phases, before anything is printed."""
    words = (os.path.join(PROGRAMS, "s2"), "sim", "model mixtral-8x7b; all: local 16 | stride 8 phase kv", "--model", "mixtral-8x7b", "--len", "4k", "--no-db", "--ep", "4")
    for phase in ("train", "all"):
        for more in ((), ("--json",), ("--dp", "1"), ("--dp", "6")):
            done = subprocess.run([*words, "--phase", phase, *more], capture_output=True, text=True, timeout=900)
            near(f"--ep 4 --phase {phase} {more}: {done.stderr}", float(done.returncode == 2 and done.stdout == "" and "needs --dp 4" in done.stderr), 1.0)
        rows = run("s2", *words[1:], "--phase", phase, "--dp", "4", "--json").splitlines()
        near(f"--ep 4 --dp 4 --phase {phase}: rows", len(rows), 3 if phase == "all" else 1, 9)


def check_stubs():
    """A config without the widths of the whole model is searched for attention alone, and says what is missing."""
    configs = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data/configs")
    for model, own in (("gpt-oss-20b", True), ("llama-3.2-1b", False), ("gemma-2-9b", True)):
        page, data = ask_search(f"{os.path.join(configs, model)}.json, H200, 64k, decode", "--limit", "20")
        near(f"{model} without widths: is searched", page.returncode, 0)
        near(f"{model} without widths: says so", float('"vocab_size" is missing' in page.stderr and "attention alone is searched" in page.stderr), 1.0)
        near(f"{model} without widths: no figure of the whole model", float("tokens/s" in page.stdout or data["dense"]["phases"][0]["end_to_end_us"] is not None), 0.0)
        near(f"{model} without widths: own layers", float(data["own"] is not None), float(own))
    refused = subprocess.run([os.path.join(PROGRAMS, "s2"), "search", os.path.join(configs, "deepseek-v3.json") + ", H200, 64k", "--no-db"],
                             capture_output=True, text=True, timeout=900)
    near("latent attention is refused as before", refused.returncode, 3)


def check_interrupt():
    """Ctrl-C after the last visit, while the front is priced: the front is shown and stored, and nothing is left to resume."""
    with tempfile.TemporaryDirectory() as own:
        env = dict(os.environ, PATH=PROGRAMS + ":" + os.environ["PATH"], S2_DB=os.path.join(own, "s2.db"))
        words = ("s2", "search", "layers 2; heads 8; kv-heads 2; layers all: local {16..40} | stride {4,8} phase head; layers 1: dense", "--len", "16k", "--phase", "train")
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as done:
            for line in done.stderr:
                if "candidates in" in line:
                    break
            done.send_signal(signal.SIGINT)
            page = done.communicate()[0]
        near("Ctrl-C as the search ends: exit code", done.returncode, 0)
        near("Ctrl-C as the search ends: the front", float("best overall" in page), 1.0)
        near("Ctrl-C as the search ends: files", float("s2.db" in os.listdir(own) and not any("search-" in name for name in os.listdir(own))), 1.0)


def check_own():
    """A model's own layers are a baseline where they are not dense, from its config and from the table alike."""
    for model, length, own in (("mistral-7b-v0.1", 32768, True), ("mistral-7b-v0.1", 4096, False), ("mistral-7b-v0.3", 32768, False), ("gpt-oss-20b", 4096, True),
                               ("sliding.json", 4096, True), ("llama-3.1-8b", 4096, False)):
        _, data = ask_search("layers all: local {2,8} | stride 4 phase kv", "--model", model, "--len", str(length), "--phase", "decode")
        near(f"{model} at {length}: own layers", float(data["own"] is not None), float(own))
    configs = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data/configs")
    for model in ("gemma-2-27b", "gemma-2-2b", "gemma-2-9b", "gpt-oss-120b", "gpt-oss-20b", "mistral-7b-v0.1", "phi-3-medium-4k", "phi-3-mini-4k"):
        _, data = ask_search("layers all: local 8 | stride 4 phase kv", "--model", model, "--len", "16k", "--minimize", "kv_bytes")
        rules = [text.split("layers all:")[1] for text in (data["own"]["pattern"], run("s2", "show", "--canonical", os.path.join(configs, model + ".json")))]
        near(f"{model}: the table's layers are those of its config", float(rules[0] == rules[1]), 1.0)


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
    near("search best", float(best["name"] in page[TITLE.search(page).end():].split(",")[0]), 1.0)
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
        if row["us"] is None:
            continue  # a design that has no price
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


def labels_of_screens():
    """Knobs and panels of the workbench, lines of the comparison, headings of the lists."""
    def screen(view):
        return run("s2", "tui", "--dump", view, "--size", "132x50", "--ascii").splitlines()
    knobs = {re.match(r"[ >+!?-]{0,2}([a-z][a-z -]*?)(?: {2,}| (?=[\d.<]|every|all|- ))", line[:28].strip("\n") + "  ") for line in screen("bench")[1:-1]}
    lines = {re.match(r"([a-z][a-z >=]*?) {2,}\S", line) for line in screen("compare")[2:13]}
    labels = {found[1].strip() for found in knobs | lines if found}
    for view in ("designs", "runs"):
        labels |= {word for line in screen(view)[1:3] if re.search(r"  name  |  took ", line) for word in line.split() if word.isalpha()}
    return labels


def members(value):
    """The names of all members of JSON objects, however deep."""
    if isinstance(value, list):
        return set().union(*map(members, value))
    return set(value) | set().union(*map(members, value.values())) if isinstance(value, dict) else set()


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
    words |= {line.split()[0] for page in (run("s2", "doctor"), run("s2", "db", "stat")) for line in page.splitlines()}
    found = run("s2", "search", "layers 2; heads 8; kv-heads 2; layers all: local {16,24} | stride {4,8} phase head", "--len", "8k", "--no-db")
    words |= set(re.search(r"^design +(.*)  pattern$", found, re.M)[1].split()) | set(re.findall(r"; \d+ (beaten by their bounds|priced)", found))
    words |= set(re.findall(r"^ *(best overall|not judged|against the next best)", found, re.M))
    words |= labels_of_screens()
    words |= members(read_json("s2", "sim", model, "--model", "llama-3.1-8b", "--phase", "decode", "--batch", "max", "--tp", "2", "--no-db", "--json"))
    words |= members(read_json("s2", "search", "layers all: local {4,8} | stride 4 phase head", "--model", "mistral-7b-v0.1", "--no-db", "--json"))
    near("labels are found", float(len(words) > 80), 1.0)
    for word in sorted(words - {"p", "inline"}):
        near(f"s2 explain {word!r} is answered", float(bool(run("s2", "explain", word))), 1.0)


def check_replays():
    """The command that a page prints for a witness runs, wherever the pattern came from, and shows that pair."""
    with open(os.path.join(folder, "own file.s2"), "w") as file:
        file.write("heads 4; kv-heads 2; layers all: local 2 | stride 9 phase head")
    with open(os.path.join(folder, "params.json"), "w") as file:
        file.write('{"num_heads": 8, "num_kv_heads": 2, "block_size": 64, "local_blocks": 4, "vert_stride": 64, "max_seqlen": 8192}')
    run("s2", "check", "name kept; heads 2; all: local 2 | stride 4 phase head")
    seen = 0
    for words in (["heads 2; all: local 2 | stride 4 phase head"], ["own file.s2"], ["params.json"], ["params.json", "--set", "tp=2"], ["kept"],
                  ["LocalStrideSparseAttention(8, 8192, 64, 4, 64, num_kv_heads=2)"], ["name 'q'; heads 2; all: local 2"]):
        for replay in re.findall(r"^  replay\n    (.*)$", run("s2", "check", *words, cwd=folder), re.M):
            env = dict(os.environ, PATH=PROGRAMS + ":" + os.environ["PATH"], S2_DB=os.path.join(folder, "s2.db"))
            done = subprocess.run(["bash", "-c", replay], capture_output=True, text=True, env=env, cwd=folder, timeout=900)
            near(f"{replay!r} runs and shows the heads", float(done.returncode in (0, 1) and "head" in done.stdout), 1.0)
            seen += 1
    near("witnesses were replayed", float(seen > 5), 1.0)


with tempfile.TemporaryDirectory() as folder:
    rng = random.Random(17)
    for _ in range(int(os.environ.get("S2_CASES", "6"))):
        pattern = draw(rng)
        check_check(pattern)
        check_sim(pattern, rng.choice(["prefill", "decode"]), rng.choice([1024, 3000, 8192]))
        check_diff(rng)
    for _ in range(4):
        check_reach(draw(rng))
        check_reach_picture(draw(rng), rng.choice([64, 1000, 8192]))
        check_show(draw(rng))
        check_compare(rng)
        check_fits(rng)
    check_reach_picture("layers 64; heads 2; kv-heads 1; layers all: local 2; layers 5: dense when distance 8..20", 32768)
    check_reach_picture("layers 1; heads 4; kv-heads 2; layers all: local 3 | stride 5 phase head", 200)
    for length in (64, 8192):
        check_reach_picture("layers 4; heads 16; kv-heads 4; layers all: local 14 | stride 3 phase kv", length)
    for _ in range(20):
        check_one_design(rng)
    prices = random.Random(23)
    for _ in range(2):
        check_stacks(prices)
    judged = read_json("s2", "sim", "--accuracy", "--json")
    check_accuracy(judged)
    check_new_tokens(judged[0]["points"])
    for _ in range(12):
        check_speed_ups(prices)
    check_search()
    with open(os.path.join(folder, "sliding.json"), "w") as config:
        json.dump({"model_type": "gemma3_text", "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64,
                   "hidden_size": 512, "intermediate_size": 2048, "vocab_size": 32000, "sliding_window": 512, "sliding_window_pattern": 6,
                   "layer_types": ["sliding_attention"] * 5 + ["full_attention"]}, config)
    with open(os.path.join(folder, "quantized.json"), "w") as config:
        json.dump({"model_type": "llama", "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "hidden_size": 512,
                   "intermediate_size": 2048, "vocab_size": 32000, "quantization_config": {"quant_method": "gptq", "bits": 4}}, config)
    os.chdir(folder)
    for _ in range(int(os.environ.get("S2_SEARCHES", "6"))):
        check_options(prices)
    check_worth()
    check_models()
    check_whole_models()
    check_beaten()
    check_thinned()
    check_spellings()
    check_tables()
    check_own()
    check_names()
    check_lengths()
    check_samples()
    check_windows()
    check_shares()
    check_written_for()
    for _ in range(3):
        check_methods(prices)
    check_kept()
    check_refusals()
    check_experts()
    for _ in range(8):
        check_figures(prices)
    for _ in range(4):
        check_told(prices)
        check_spread(prices)
    for _ in range(3):
        check_training(prices)
    check_round_trip()
    for _ in range(4):
        check_rank_files(rng)
    check_interrupt()
    check_stubs()
    for _ in range(int(os.environ.get("S2_SEARCHES", "6"))):
        check_rivals(rng)
    check_labels()
    check_replays()
end()
