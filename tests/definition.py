#!/usr/bin/env python3
"""A third road from docs/pattern-language.md: patterns of every static term are drawn, each (query, key) pair is decided here from
that page alone, and what the commands say of them is compared: masks, densities, verdicts with their witness, s2 check --query and
--pair, s2 diff, hops and KV heads of s2 reach, pairs and the cache of s2 sim.
usage: tests/definition.py DIR_OF_PROGRAMS   S2_SEED, S2_CASES   last line: N held, N did not"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile

from tally import end, hold

PROGRAMS = os.path.abspath(sys.argv[1])
SEED, CASES = int(os.environ.get("S2_SEED", "20261129")), int(os.environ.get("S2_CASES", "12"))
LATER = 1500  # tokens behind the context in which a key may still be read: more than the periods drawn here


def run(*words):
    env = dict(os.environ, S2_DB=os.path.join(folder, "s2.db"))
    return subprocess.run((os.path.join(PROGRAMS, words[0]), *words[1:]), capture_output=True, text=True, env=env, timeout=900)


def draw_indices(rng, n):
    """A LIST over n indices, and what it says."""
    text, chosen = [], set()
    for _ in range(rng.choice([1, 1, 2, 3])):
        a = rng.randrange(n)
        b, step = rng.randrange(a, n), rng.randint(1, 4)
        item, these = rng.choice([(f"{a}", [a]), (f"{a}-{b}", range(a, b + 1)), (f"{a}::{step}", range(a, n, step)),
                                  (f"{a}:{b + 1}:{step}", range(a, b + 1, step)), (f":{b + 1}", range(b + 1)), ("all", range(n))])
        text.append(item)
        chosen.update(these)
    return ",".join(text), chosen


def draw_phase(rng):
    """A phase, and its value for a layer, head and KV head."""
    parts = [(rng.choice([None, "head", "kv", "layer"]), rng.randint(1, 5)) for _ in range(rng.choice([1, 1, 2]))]
    text = "+".join(str(c) if word is None else rng.choice([f"{word}*{c}", f"{c}*{word}"]) for word, c in parts)
    return text, lambda of: sum(c * (1 if word is None else of[word]) for word, c in parts)


def draw_list_of_tokens(rng, n, mark):
    """What columns and rows list: numbers in blocks or tokens, beyond every context where it is open."""
    text, tests = [], []
    for _ in range(rng.choice([1, 2])):
        a = rng.randrange(n)
        b, step = rng.randrange(a, n) + 1, rng.randint(1, 6)
        text.append(rng.choice([f"{a}{mark}-{b}{mark}", f"{a}{mark}:{b}{mark}:{step}{mark}", f"{a}{mark}::{step}{mark}"]))
        tests.append((a, step if text[-1].count(":") == 2 else 1, b + 1 if "-" in text[-1] else b if "::" not in text[-1] else None))
    return ",".join(text), lambda x: any(x >= a and (x - a) % step == 0 and (stop is None or x < stop) for a, step, stop in tests)


def draw_term(rng, n_tok, block, causal):
    """The text of a term, and whether it reads (query, key) for a layer, head and KV head."""
    kind = rng.choice(["dense", "none", "local", "local", "sink", "stride", "stride", "dilated", "columns", "rows", "chunk"])
    mark, unit = rng.choice([("", block), ("", block), ("t", 1)])
    most = max(2, n_tok // unit)
    size = rng.choice([rng.randint(1, 4), rng.randint(1, most)])

    def distance(q, k, by):
        return q // by - k // by if causal else abs(q // by - k // by)

    if kind in ("dense", "none"):
        text, reads = kind, lambda q, k, of: kind == "dense"
    elif kind == "local":
        text, reads = f"local {size}{mark}", lambda q, k, of: distance(q, k, unit) < size
    elif kind == "sink":
        text, reads = f"sink {size}{mark}", lambda q, k, of: k // unit < size
    elif kind == "chunk":
        text, reads = f"chunk {size}{mark}", lambda q, k, of: q // unit // size == k // unit // size
    elif kind in ("columns", "rows"):
        listed, test = draw_list_of_tokens(rng, most, mark)
        text, reads = f"{kind} {listed}", lambda q, k, of: test((k if kind == "columns" else q) // unit)
    else:
        every = rng.randint(1, min(8, most))
        width = rng.choice([1, 1, rng.randint(1, every)])
        phase, value = draw_phase(rng)
        text = f"{kind} {every}{mark} width {width}{mark} phase {phase}"
        if kind == "stride":
            def reads(q, k, of): return (k // unit + value(of)) % every < width
        else:
            def reads(q, k, of): return (q // unit - k // unit + value(of)) % every < width
    if rng.random() < 0.7:
        return text, reads
    what, low = rng.choice(["distance", "key", "query"]), rng.randint(0, n_tok // 3)
    high = low + block * rng.randint(1, 6)

    def inside(q, k):
        return low <= (distance(q, k, 1) if what == "distance" else k if what == "key" else q) < high
    return f"{text} when {what} {low}t..{high}t", lambda q, k, of: inside(q, k) and reads(q, k, of)


class Pattern:
    """A pattern as text and as rules."""

    def __init__(self, rng, n_tok):
        self.layers, self.heads, self.block = rng.randint(1, 4), rng.choice([1, 2, 4, 6]), rng.choice([1, 2, 4, 8, 16])
        divisors = [d for d in range(1, self.heads + 1) if self.heads % d == 0]
        kv, self.causal = rng.choice(divisors), rng.random() < 0.85
        self.kv = [kv] * self.layers
        lines = [f"layers {self.layers}; heads {self.heads}; kv-heads {kv}; block {self.block}; head-dim 16; causal {'yes' if self.causal else 'no'}"]
        if rng.random() < 0.3:
            text, own = draw_indices(rng, self.layers)
            number = rng.choice(divisors)
            lines.append(f"layers {text}: kv-heads {number}")
            self.kv = [number if layer in own else kv for layer in range(self.layers)]
        self.rules = []
        for nth in range(rng.randint(1, 4)):
            text, layers = draw_indices(rng, self.layers) if nth else ("all", set(range(self.layers)))
            named, heads = draw_indices(rng, self.heads) if nth else ("all", set(range(self.heads)))
            phase = rng.choice(["", "", "", "prefill ", "decode "]) if nth else ""
            terms = [draw_term(rng, n_tok, self.block, self.causal) for _ in range(rng.choice([1, 2, 2, 3]))]
            lines.append(f"{phase}layers {text} heads {named}: " + " | ".join(term[0] for term in terms))
            self.rules.append((phase.strip(), layers, heads, terms))
        self.text = "\n".join(lines) + "\n"

    def read(self, phase, layer, head, q, n_keys):
        """The keys that a query reads, as bits."""
        of = {"layer": layer, "head": head, "kv": head // (self.heads // self.kv[layer])}
        terms = [terms for named, layers, heads, terms in self.rules if named in ("", phase) and layer in layers and head in heads][-1]
        return sum(1 << k for k in range(min(n_keys, q + 1) if self.causal else n_keys) if any(reads(q, k, of) for _, reads in terms))

    def rows(self, phase, n_tok):
        """[layer][head][query], bits of keys."""
        return [[[self.read(phase, layer, head, q, n_tok) for q in range(n_tok)] for head in range(self.heads)] for layer in range(self.layers)]


def allowed(pattern, q, n_tok):
    return (1 << (q + 1 if pattern.causal else n_tok)) - 1


def joined(rows):
    out = 0
    for row in rows:
        out |= row
    return out


def bits(row):
    return [k for k in range(row.bit_length()) if row >> k & 1]


def ranges(keys):
    """As s2 check --query writes them."""
    runs = []
    for key in keys:
        if runs and runs[-1][1] == key - 1:
            runs[-1][1] = key
        else:
            runs.append([key, key])
    return ", ".join(f"{a}-{b}" if a < b else str(a) for a, b in runs) or "none"


def check_masks(says, path, pattern, rows, n_tok):
    for phase in rows:
        for layer in range(pattern.layers):
            head = (layer + n_tok) % pattern.heads
            words = ("s2", "mask", path, "-n", str(n_tok), "-l", str(layer), "-H", str(head), "--phase", phase)
            want = ["".join("#" if row >> k & 1 else "." for k in range(n_tok)) for row in rows[phase][layer][head]]
            says(run(*words, "-t").stdout.split() == want, f"mask -t, {phase}, layer {layer}, head {head}")
    n_pairs = sum(row.bit_count() for layer in rows["prefill"] for head in layer for row in head)
    n_all = sum(allowed(pattern, q, n_tok).bit_count() for q in range(n_tok)) * pattern.heads * pattern.layers
    shown = json.loads(run("s2", "show", path, "-n", str(n_tok), "--json").stdout)
    says(abs(shown["token_density"] - n_pairs / n_all) < 1e-9, f"show's density {shown['token_density']}, not {n_pairs / n_all}")
    return n_pairs


def check_verdicts(says, path, pattern, rows, n_tok, rng):
    """Union and rows, with the smallest pair of all layers."""
    words = ("s2check", path, "-n", str(n_tok), "-r", "rows,union", "--json", "--engine", rng.choice(["algebra", "enumerate", "both"]))
    found = {each["name"]: each for each in json.loads(run(*words).stdout)["properties"]}
    holes = [(max(q, k), q, k) for phase in rows for layer in rows[phase] for q in range(n_tok)
             for k in bits(allowed(pattern, q, n_tok) & ~joined(head[q] for head in layer))[:1]]
    if not pattern.causal:  # the first hole of a row need not be that of the shortest context
        holes = [(max(q, k), q, k) for phase in rows for layer in rows[phase] for q in range(n_tok)
                 for k in bits(allowed(pattern, q, n_tok) & ~joined(head[q] for head in layer))]
    says((found["union"]["verdict"] == "violated") == bool(holes), f"union {found['union']['verdict']}")
    if holes:
        witness, least = found["union"]["witness"], min(holes)
        says((witness["query"], witness["key"]) == least[1:], f"witness of union {witness}, not {least[1:]}")
        says(found["union"]["complete_to"] == least[0], f"union complete to {found['union']['complete_to']}, not {least[0]}")
    empty = [q for phase in rows for layer in rows[phase] for head in layer for q in range(n_tok) if head[q] == 0]
    says((found["rows"]["verdict"] == "violated") == bool(empty), f"rows {found['rows']['verdict']}")
    if empty:
        says(found["rows"]["witness"]["query"] == min(empty), f"witness of rows {found['rows']['witness']}, not {min(empty)}")


def layers_of(text, n_layers):
    """The layers that a line of s2 check names."""
    named = re.search(r"\blayers? ([\d,:-]+|all)", text)[1]
    out = set()
    for item in named.strip(",:").split(","):
        parts = item.split(":")
        if item == "all":
            out.update(range(n_layers))
        elif "-" in item:
            out.update(range(int(item.split("-")[0]), int(item.split("-")[1]) + 1))
        elif len(parts) > 1:
            out.update(range(int(parts[0] or 0), int(parts[1] or n_layers), int(parts[2]) if len(parts) > 2 else 1))
        else:
            out.add(int(item))
    return out


def check_query(says, path, pattern, rows, n_tok, rng):
    """Each layer and phase is named once, and what is said is true of each layer that is named."""
    q = rng.randrange(n_tok)
    page, seen, phase, named = run("s2check", path, "--query", str(q)).stdout, [], "prefill", set()
    for line in page.splitlines():
        unread = re.sub(r" \(\d+ of \d+ keys\)$", "", line.partition("unread")[2].partition(": ")[2])
        if "query" in line:
            phase = "decode" if line.startswith("decode") else "prefill"
            named = layers_of(line, pattern.layers)
            seen += [(phase, layer) for layer in named]
        for layer in named:
            group, kv = pattern.heads // pattern.kv[layer], re.match(r"  KV head (\d+)", line)
            heads = range(int(kv[1]) * group, int(kv[1]) * group + group) if kv else range(pattern.heads)
            lost = bits((2 << q) - 1 & ~joined(rows[phase][layer][head][q] for head in heads))
            want = ranges(lost)
            says(unread == want or ("..." in unread or "more" in unread), f"--query {q}, {phase}, layer {layer}: {line!r}, not {want!r}")
    phases = {phase for phase, _ in seen}
    says(sorted(seen) == sorted((phase, layer) for phase in phases for layer in range(pattern.layers)), f"--query {q} names {seen}")


def check_pair(says, path, pattern, rows, n_tok, rng):
    q, k = rng.randrange(n_tok), rng.randrange(n_tok)
    page, seen, phase, named = run("s2check", path, "--pair", f"{q},{k}").stdout, [], "prefill", set()
    readers = {}
    for line in page.splitlines():
        if line.startswith("layer"):
            phase = "decode" if ", decode:" in line else "prefill"
            named = layers_of(line, pattern.layers)
            seen += [(phase, layer) for layer in named]
            readers.update({(phase, layer): set() for layer in named})
        yes = re.match(r"  (every head|the others|heads? ([\d,:-]+)) +yes ", line)
        for layer in named if yes else ():
            one = readers[phase, layer]
            one.update(range(pattern.heads) if yes[2] is None else layers_of("layer " + yes[2], pattern.heads))
    for phase, layer in seen:
        want = {head for head in range(pattern.heads) if rows[phase][layer][head][q] >> k & 1}
        if "the others" not in page:
            says(readers[phase, layer] == want, f"--pair {q},{k}, {phase}, layer {layer}: {readers[phase, layer]}, not {want}")
    phases = {phase for phase, _ in seen}
    says(sorted(seen) == sorted((phase, layer) for phase in phases for layer in range(pattern.layers)), f"--pair {q},{k} names {seen}")


def check_reach(says, path, pattern, rows, n_tok):
    """KV heads that read a pair, on average over layers and pairs: of all distances together."""
    data = json.loads(run("s2", "reach", path, "-n", str(n_tok), "--json", "--no-db").stdout)
    block = pattern.block
    n_blk = -(-n_tok // block)
    mine, pairs = 0, 0
    for q in range(n_blk):
        for k in range(q + 1 if pattern.causal else n_blk):
            pairs += 1
            mask = ((1 << block) - 1) << k * block
            for layer in range(pattern.layers):
                group = pattern.heads // pattern.kv[layer]
                for kv in range(pattern.kv[layer]):
                    mine += any(rows["prefill"][layer][head][tok] & mask for head in range(kv * group, kv * group + group)
                                for tok in range(q * block, min(n_tok, q * block + block)))
    starts = [each["from_block"] for each in data["by_distance"]] + [n_blk]
    n_at = [sum((n_blk - d) * (1 if pattern.causal or d == 0 else 2) for d in range(a, b)) for a, b in zip(starts, starts[1:])]
    said = sum(each["kv_heads"] * n for each, n in zip(data["by_distance"], n_at)) / pairs
    says(abs(said - mine / pairs / pattern.layers) < 1e-9, f"reach: {said} KV heads read a pair, not {mine / pairs / pattern.layers}")


def check_cache(says, path, pattern, n_pairs, n_tok):
    """Pairs, and the keys that a query from the last on still reads."""
    if not pattern.causal:
        return
    data = json.loads(run("s2", "sim", path, "-n", str(n_tok), "--json", "--no-db").stdout)
    says(data["pairs"]["read"] == n_pairs, f"sim: {data['pairs']['read']} pairs, not {n_pairs}")
    kept = 0
    for layer in range(pattern.layers):
        group = pattern.heads // pattern.kv[layer]
        for kv in range(pattern.kv[layer]):
            left = (1 << n_tok) - 1
            for q in range(n_tok - 1, n_tok + LATER):
                for head in range(kv * group, kv * group + group):
                    left &= ~pattern.read("decode", layer, head, q, n_tok) if left else 0
                if not left:
                    break
            kept += n_tok - left.bit_count()
    says(data["kv"]["used"] == kept * 64, f"sim: a cache of {data['kv']['used']} bytes, not {kept * 64}")


def check_one(seed):
    rng = random.Random(seed)
    n_tok = rng.randint(24, 72)
    pattern, other = Pattern(rng, n_tok), None
    path = os.path.join(folder, "p.s2")
    with open(path, "w", encoding="utf-8") as file:
        file.write(pattern.text)

    def says(right, what):
        hold(right, f"S2_SEED={seed} S2_CASES=1: {n_tok} tokens: {what} of\n{pattern.text}")
    refused = run("s2", "show", path, "-n", str(n_tok))
    if "S2P040" in refused.stderr:  # conditions that exclude each other
        return
    rows = {phase: pattern.rows(phase, n_tok) for phase in ("prefill", "decode")}
    n_pairs = check_masks(says, path, pattern, rows, n_tok)
    check_verdicts(says, path, pattern, rows, n_tok, rng)
    check_query(says, path, pattern, rows, n_tok, rng)
    check_pair(says, path, pattern, rows, n_tok, rng)
    check_reach(says, path, pattern, rows, n_tok)
    if seed % 4 == 0:
        check_cache(says, path, pattern, n_pairs, n_tok)


with tempfile.TemporaryDirectory() as folder:
    for case in range(CASES):
        check_one(SEED + case)
sys.exit(end())
