#!/usr/bin/env python3
"""A third road from docs/pattern-language.md: patterns of every static term are drawn, with layers that differ, share keys or keep a
state, and with keys chosen at run time. Each (query, key) pair is decided here from that page alone, and what the commands say of them is
compared: masks, pictures, densities, the verdict of every property with its witness, s2 check --query and --pair, s2 diff, the
canonical text, what exports read back as, hops and KV heads of s2 reach, pairs and the cache of s2 sim.
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
SEED, CASES = int(os.environ.get("S2_SEED", "1000")), int(os.environ.get("S2_CASES", "20"))
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


def draw_choice(rng, causal):
    """A term that chooses its keys at run time: read for certain is what leaves nothing to choose."""
    n, page = rng.randint(1, 9), rng.randint(1, 4)
    text, most = rng.choice([(f"topk {n}", n), (f"heavy {n}", n), (f"pages {n} page {page}", n * page)])

    def reads(q, k, of): return causal and q < most
    reads.chosen = True
    return text, reads


class Pattern:
    """A pattern as text and as rules."""

    def __init__(self, rng, n_tok):
        self.layers, self.heads, self.block = rng.randint(1, 4), rng.choice([1, 2, 4, 6]), rng.choice([1, 2, 4, 8, 16])
        divisors = [d for d in range(1, self.heads + 1) if self.heads % d == 0]
        kv, self.causal = rng.choice(divisors), rng.random() < 0.85
        self.kv = [kv] * self.layers
        lines = [f"layers {self.layers}; heads {self.heads}; kv-heads {kv}; block {self.block}; head-dim 16; causal {'yes' if self.causal else 'no'}"]
        self.dims, self.source = [16] * self.layers, list(range(self.layers))
        if self.layers > 1 and rng.random() < 0.25:  # one layer reads the keys of another
            layer = rng.randrange(1, self.layers)
            self.source[layer] = rng.randrange(layer)
            lines.append(f"layers {layer}: kv-layer {self.source[layer]}")
        elif rng.random() < 0.3:
            text, own = draw_indices(rng, self.layers)
            number = rng.choice(divisors)
            lines.append(f"layers {text}: kv-heads {number}")
            self.kv = [number if layer in own else kv for layer in range(self.layers)]
            if rng.random() < 0.5:
                text, own = draw_indices(rng, self.layers)
                lines.append(f"layers {text}: head-dim 40")
                self.dims = [40 if layer in own else 16 for layer in range(self.layers)]
        self.states = set()
        for layer in range(self.layers):
            if rng.random() < 0.12 and self.source.count(layer) == 1 and self.source[layer] == layer:
                lines.append(f"layers {layer}: state 100")
                self.states.update([layer] if rng.random() < 0.7 else [])  # what it reads is judged where it has rules besides
        self.rules = []
        for nth in range(rng.randint(1, 4)):
            text, layers = draw_indices(rng, self.layers) if nth else ("all", set(range(self.layers)))
            named, heads = draw_indices(rng, self.heads) if nth else ("all", set(range(self.heads)))
            phase = rng.choice(["", "", "", "prefill ", "decode "]) if nth else ""
            terms = [draw_term(rng, n_tok, self.block, self.causal) for _ in range(rng.choice([1, 2, 2, 3]))]
            if rng.random() < 0.12:
                terms.insert(rng.randrange(len(terms) + 1), draw_choice(rng, self.causal))
            lines.append(f"{phase}layers {text} heads {named}: " + " | ".join(term[0] for term in terms))
            self.rules.append((phase.strip(), layers, heads, terms))
        if self.states:
            lines.append(f"layers {','.join(map(str, sorted(self.states)))}: none")
            self.rules.append(("", self.states, set(range(self.heads)), [("none", lambda q, k, of: False)]))
        for layer in range(self.layers):  # whatever rule says that they read nothing
            if f"layers {layer}: state" in "\n".join(lines) and all(text.startswith("none") for phase in ("prefill", "decode") for head in range(self.heads)
                                                                    for text, _ in self.terms(phase, layer, head)):
                self.states = self.states | {layer}
        self.text = "\n".join(lines) + "\n"

    def reading(self):
        """The layers that are not mere states."""
        return [layer for layer in range(self.layers) if layer not in self.states]

    def terms(self, phase, layer, head):
        """Of the rule that counts for this head."""
        return [terms for named, layers, heads, terms in self.rules if named in ("", phase) and layer in layers and head in heads][-1]

    def chosen(self, phase, layer, head):
        """Whether some keys are chosen at run time."""
        return any(hasattr(reads, "chosen") for _, reads in self.terms(phase, layer, head))

    def read(self, phase, layer, head, q, n_keys):
        """The keys that a query reads for certain, as bits."""
        of = {"layer": layer, "head": head, "kv": head // (self.heads // self.kv[layer])}
        terms = self.terms(phase, layer, head)
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
    n_all = sum(allowed(pattern, q, n_tok).bit_count() for q in range(n_tok)) * pattern.heads * len(pattern.reading())
    shown = json.loads(run("s2", "show", path, "-n", str(n_tok), "--json").stdout)
    says(not n_all or any_chosen(pattern) or abs(shown["token_density"] - n_pairs / n_all) < 1e-9, f"show's density {shown['token_density']}, not {n_pairs} of {n_all}")
    return n_pairs


def any_chosen(pattern):
    return any(pattern.chosen(phase, layer, head) for phase in ("prefill", "decode") for layer in range(pattern.layers) for head in range(pattern.heads))


def pairs_of(pattern, n_tok):
    return [(q, k) for q in range(n_tok) for k in range(q + 1 if pattern.causal else n_tok)]


def first(pairs):
    """The smallest by the context that has it, query and key; None: there is none."""
    return min(((max(q, k), q, k) for q, k in pairs), default=None)


def holes(pattern, rows, n_tok, heads):
    """Of what these heads of a layer read together: every pair that is missing."""
    return [(q, k) for q in range(n_tok) for k in bits(allowed(pattern, q, n_tok) & ~joined(rows[head][q] for head in heads))]


def returns(before, after, n_tok):
    """(query, key) of keys that come back: an earlier query, by the first rows, did not read what this one reads."""
    out, unread = [], 0
    for q in range(n_tok):
        out += [(q, k) for k in bits(after[q] & unread)]
        unread |= (2 << q) - 1 & ~before[q]
    return out


def unequal(rows, heads, n_tok):
    return [(q, k) for q in range(n_tok) for head in heads for k in bits(rows[head][q] ^ rows[heads[0]][q])]


def late(pattern, layers, n_tok):
    """Pairs that these layers in a row do not join, each reading once or staying."""
    known = [1 << q for q in range(n_tok)]
    for rows in layers:
        seen = [joined(head[q] for head in rows) for q in range(n_tok)]
        known = [known[q] | joined(known[k] for k in bits(seen[q])) for q in range(n_tok)]
    return [(q, k) for q in range(n_tok) for k in bits(allowed(pattern, q, n_tok) & ~known[q])]


def groups_of(pattern, layer):
    size = pattern.heads // pattern.kv[layer]
    return [range(kv * size, kv * size + size) for kv in range(pattern.kv[layer])]


def failures(pattern, rows, n_tok, ranks, depth):
    """Of each property the smallest pair that speaks against it. What is chosen at run time counts as unread."""
    judged = [(phase, layer, rows[phase][layer]) for phase in rows for layer in pattern.reading()]
    size = pattern.heads // ranks
    out = {"union": first(pair for _, _, of in judged for pair in holes(pattern, of, n_tok, range(pattern.heads))),
           f"ranks:{ranks}": first(pair for _, _, of in judged for rank in range(ranks)
                                   for pair in holes(pattern, of, n_tok, range(rank * size, rank * size + size)))}
    empty = [q for phase, layer, of in judged for head, row in enumerate(of) for q in range(n_tok)
             if row[q] == 0 and not pattern.chosen(phase, layer, head)]  # something is chosen wherever there are keys
    alone = [q for _, _, of in judged for head in of for q in range(n_tok) if head[q] & (2 << q) - 1 == 0]  # in the context that ends with it
    out["rows"] = (min(alone), min(empty), None) if empty else None
    if pattern.causal:
        orders = [("prefill", "prefill"), ("decode", "decode"), ("prefill", "decode")]
        out["kv"] = first(pair for a, b in orders for layer in pattern.reading() for head in range(pattern.heads)
                          for pair in returns(rows[a][layer][head], rows[b][layer][head], n_tok))
    out["group"] = first(pair for _, layer, of in judged for heads in groups_of(pattern, layer) for pair in unequal(of, heads, n_tok))
    windows = [range(layer, layer + depth) for layer in range(pattern.layers - depth + 1)]
    out[f"depth:{depth}"] = first(pair for phase in rows for window in windows if not pattern.states & set(window)
                                  for pair in late(pattern, [rows[phase][layer] for layer in window], n_tok))
    return out


def check_shards(says, pattern, rows, n_tok, said):
    """Beyond the window of this context, which is not smaller than that of all lengths, each pair has one KV head; a witness has not."""
    for layer in (layer for layer in pattern.reading()):
        for phase in rows:
            each = [[joined(rows[phase][layer][head][q] for head in heads) for q in range(n_tok)] for heads in groups_of(pattern, layer)]
            readers = {(q, k): sum(kv[q] >> k & 1 for kv in each) for q, k in pairs_of(pattern, n_tok)}
            part = [pair for pair, n in readers.items() if n < len(each)]
            wide = min((q - k for q, k in part), default=0), min((q // pattern.block - k // pattern.block for q, k in part), default=0)
            wrong = [(q, k) for q, k in part if readers[q, k] != 1 and q - k >= wide[0] and q // pattern.block - k // pattern.block >= wide[1]]
            says(said["verdict"] != "holds" or not wrong, f"shards holds in {phase}, layer {layer}, not at {wrong[:1]}")
            witness = said.get("witness", {})
            if (witness.get("layer"), witness.get("phase", "prefill")) == (layer, phase):
                at = witness["query"], witness["key"]
                says(readers[at] == witness["readers"] != 1, f"shards: {witness['readers']} readers at {at} of layer {layer}, not {readers[at]}")


def check_verdicts(says, path, pattern, rows, n_tok, rng):
    """Every property with the smallest pair of all layers. Where keys are chosen at run time a property that more keys cannot break may
    also be unknown, and any other is, unless no more keys could make it right."""
    ranks, depth = rng.choice([d for d in range(1, pattern.heads + 1) if pattern.heads % d == 0]), rng.randint(1, pattern.layers)
    names = ["rows", "union", "kv", "group", f"ranks:{ranks}", f"depth:{depth}"] + (["shards"] if pattern.causal else [])
    chosen = any_chosen(pattern)
    engine = rng.choice(["algebra", "both"] if chosen else ["algebra", "enumerate", "both"])
    words = ("s2check", path, "-n", str(n_tok), "-r", ",".join(names), "--json", "--engine", engine)
    found = {each["name"]: each for each in json.loads(run(*words).stdout)["properties"]}
    if len(pattern.states) == pattern.layers:
        says(all(each["verdict"] == "unknown" for each in found.values()), f"a verdict without layers that read: {found}")
        return
    if pattern.causal and not chosen:
        check_shards(says, pattern, rows, n_tok, found["shards"])
    for name, least in failures(pattern, rows, n_tok, ranks, depth).items():
        said, may = found[name], ["violated"] if least else ["holds"]
        if chosen and (least or name in ("kv", "group")):
            may = ["violated", "unknown", "holds"] if name in ("kv", "group") else ["violated", "unknown"]
        if name.startswith("depth"):
            may += ["unknown"] if chosen or pattern.states else []
        says(said["verdict"] in may, f"{name} {said['verdict']}, with {least}")
        if said["verdict"] != "violated" or not least or chosen or pattern.states and name.startswith("depth"):
            continue
        at = said["witness"]["query"], said["witness"].get("key")
        says(at == least[1:], f"witness of {name} {said['witness']}, not {least[1:]}")
        says(said["complete_to"] in ([None, least[0]] if name.startswith("depth") else [least[0]]), f"{name} complete to {said['complete_to']}, not {least[0]}")


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
        if "may choose some of these" in line:
            says(any(pattern.chosen(phase, layer, head) for layer in named for head in range(pattern.heads)), f"--query {q}: {line!r}")
            continue
        unread = re.sub(r" \(\d+ of \d+ keys\)$", "", line.partition("unread")[2].partition(": ")[2])
        if "no key is read" in line:  # of layers that are mere states
            says(layers_of(line, pattern.layers) <= pattern.states, f"--query {q}: {line!r} of layers {pattern.states}")
            continue
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
    says(sorted(seen) == sorted((phase, layer) for phase in phases for layer in pattern.reading()), f"--query {q} names {seen}")


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
            for layer in pattern.reading():
                group = pattern.heads // pattern.kv[layer]
                for kv in range(pattern.kv[layer]):
                    mine += any(rows["prefill"][layer][head][tok] & mask for head in range(kv * group, kv * group + group)
                                for tok in range(q * block, min(n_tok, q * block + block)))
    starts = [each["from_block"] for each in data["by_distance"]] + [n_blk]
    n_at = [sum((n_blk - d) * (1 if pattern.causal or d == 0 else 2) for d in range(a, b)) for a, b in zip(starts, starts[1:])]
    said = sum(each["kv_heads"] * n for each, n in zip(data["by_distance"], n_at)) / pairs
    says(abs(said - mine / pairs / len(pattern.reading())) < 1e-9, f"reach: {said} KV heads read a pair, not {mine / pairs / len(pattern.reading())}")


def check_cache(says, path, pattern, n_pairs, n_tok):
    """Pairs, and the keys that a query from the last on still reads."""
    if not pattern.causal or any_chosen(pattern):
        return
    data = json.loads(run("s2", "sim", path, "-n", str(n_tok), "--json", "--no-db").stdout)
    says(data["pairs"]["read"] == n_pairs, f"sim: {data['pairs']['read']} pairs, not {n_pairs}")
    used = 100 * pattern.text.count("state 100")
    for source in range(pattern.layers):
        users = [layer for layer in range(pattern.layers) if pattern.source[layer] == source]
        for heads in groups_of(pattern, source) if users else ():
            left = (1 << n_tok) - 1
            for q in range(n_tok - 1, n_tok + LATER):
                for layer, head in ((layer, head) for layer in users for head in heads if left):
                    left &= ~pattern.read("decode", layer, head, q, n_tok)
                if not left:
                    break
            used += (n_tok - left.bit_count()) * 4 * pattern.dims[source]
    says(data["kv"]["used"] == used, f"sim: a cache of {data['kv']['used']} bytes, not {used}")


def check_hops(says, path, pattern, rows, n_tok):
    """Blocks that the last query has heard of after each layer, and the least layers in a row that join everything."""
    data, block = json.loads(run("s2", "reach", path, "-n", str(n_tok), "--json", "--no-db").stdout), pattern.block
    n_blk = -(-n_tok // block)
    seen = []
    for layer in range(pattern.layers):
        tokens = [joined(head[q] for head in rows["prefill"][layer]) for q in range(n_tok)]
        seen.append([joined(1 << k for q in range(i * block, min(n_tok, i * block + block)) for k in {key // block for key in bits(tokens[q])})
                     for i in range(n_blk)])

    def after(layers):
        """The blocks that each has heard of. Of its own it knows a token, itself, and the others where some of them were read."""
        known, own = [1 << i for i in range(n_blk)], [min(n_tok, i * block + block) - i * block == 1 for i in range(n_blk)]
        for layer in layers:
            own = [own[i] or any(known[j] >> i & 1 for j in bits(seen[layer][i])) for i in range(n_blk)]
            known = [known[i] | joined(known[j] for j in bits(seen[layer][i])) for i in range(n_blk)]
        return [row & ~(0 if own[i] else 1 << i) for i, row in enumerate(known)]
    for layer, said in enumerate(data["by_layer"]):
        mine = after(range(layer + 1))
        says(said["last"] == mine[-1].bit_count(), f"reach: the last query knows {said['last']} blocks after layer {layer}, not {mine[-1].bit_count()}")
    whole = [(1 << (i + 1 if pattern.causal else n_blk)) - 1 for i in range(n_blk)]
    enough = [n for n in range(1, pattern.layers + 1)
              if all(after(range(first, first + n)) == whole for first in range(pattern.layers - n + 1))]
    least = min(enough, default=None)
    says(data["hops"]["layers"] == least, f"reach: hops {data['hops']['layers']}, not {least}")


def check_picture(says, path, pattern, rows, n_tok, rng):
    """Each cell of a drawn mask is crossed out, full or empty as the pairs in it are."""
    layer, head = rng.choice(pattern.reading()), rng.choice([None, *range(pattern.heads)])
    page = run("s2", "draw", path, "-n", str(n_tok), "-l", str(layer), "-H", "union" if head is None else str(head), "--as", "ascii").stdout
    cell = re.search(r"columns: key, tokens, (\d+) a cell; rows: query, tokens, (\d+) a cell", page)
    wide, high = int(cell[1]), int(cell[2])
    shown, heads = page.splitlines()[1:-2], rows["prefill"][layer] if head is None else [rows["prefill"][layer][head]]
    says(len(shown) == -(-n_tok // high), f"draw: {len(shown)} lines of {high} tokens")
    for row, line in enumerate(shown):
        for column, glyph in enumerate(line):
            place = [(q, k) for q in range(row * high, min(n_tok, row * high + high))
                     for k in range(column * wide, min(n_tok, column * wide + wide)) if k <= q or not pattern.causal]
            n = [sum(one[q] >> k & 1 for one in heads) for q, k in place]
            want = " " if not place else "X" if head is None and 0 in n else "@" if min(n) == len(heads) else "." if not any(n) else None
            right = glyph == want if want else glyph not in " X@" + "." * (sum(n) * 10 > len(n) * len(heads))
            says(right, f"draw -l {layer} -H {head}: {glyph!r}, not {want!r}, in the cell of query {row * high} and key {column * wide}")


def check_diff(says, path, pattern, rows, n_tok, rng):
    """A rule more: how many heads differ, and the first pair."""
    layer, head = rng.choice(pattern.reading()), rng.randrange(pattern.heads)
    phase, terms = rng.choice(["", "prefill", "decode"]), [draw_term(rng, n_tok, pattern.block, pattern.causal)]
    other = os.path.join(folder, "other.s2")
    with open(other, "w", encoding="utf-8") as file:
        file.write(pattern.text + f"{phase} layers {layer} heads {head}: {terms[0][0]}\n")
    pattern.rules.append((phase, {layer}, {head}, terms))
    changed = {each: [[head[:] for head in of] for of in rows[each]] for each in rows}
    for each in rows:
        changed[each][layer][head] = [pattern.read(each, layer, head, q, n_tok) for q in range(n_tok)]
    pattern.rules.pop()
    done = run("s2", "diff", path, other, "-n", str(n_tok), "--json")
    if "S2P040" in done.stderr or pattern.chosen("prefill", layer, head) or pattern.chosen("decode", layer, head):
        return
    data = json.loads(done.stdout)
    differ = [(at, q, min(bits(rows[each][layer][head][q] ^ changed[each][layer][head][q]))) for at, each in enumerate(("prefill", "decode"))
              for q in range(n_tok) if rows[each][layer][head][q] != changed[each][layer][head][q]]
    says(data["same"] == (not differ) and done.returncode == bool(differ), f"diff: same {data['same']} with {terms[0][0]} in {phase} layer {layer} head {head}")
    if differ:
        at, q, k = min(differ)
        first = {"phase": ("prefill", "decode")[at], "layer": layer, "head": head, "query": q, "key": k,
                 "read_by": "ab"[changed[("prefill", "decode")[at]][layer][head][q] >> k & 1], "certain": True}
        says(data["first"] == first, f"diff: {data['first']}, not {first}, with {terms[0][0]}")
        n = {len({at for at, _, _ in differ}), sum(at == 0 for at in {at for at, _, _ in differ})}
        says(data["heads_different"] in n, f"diff: {data['heads_different']} heads differ, not {n}, with {terms[0][0]}")


def check_same(says, path, pattern, rows, n_tok, rng):
    """The canonical text, and what exports read back as, read the same pairs."""
    text = run("s2", "show", path, "--canonical").stdout
    again = os.path.join(folder, "again.s2")
    with open(again, "w", encoding="utf-8") as file:
        file.write(text)
    says(run("s2", "show", again, "--canonical").stdout == text, f"the canonical text changes when it is read: {text}")
    kind, name = rng.choice([("npy", "e.npy"), ("flashinfer", "e.d"), ("csr", "e.npz"), ("flex", "f.d"), ("bsa", "b.d"), ("minference", "m.json"),
                             ("layers", "l.json"), ("hf", "h.json"), ("vllm", "v.json"), ("trtllm", "t.json"), ("dkernel", "k.json"), ("duo", "duo.d"),
                             ("deepspeed", "ds.json"), ("cute", "c.d"), ("megatron", "g.txt")])
    out = os.path.join(folder, name)
    done = run("s2", "export", path, "--to", kind, "-n", str(n_tok), "-o", out, "--force", "--no-db")
    same = done.returncode == 0 and "what is written reads the same pairs" in done.stderr
    for file, what in ((again, "canonical text"), *(((out, kind),) if same else ())):
        layer, head, phase = rng.randrange(pattern.layers), rng.randrange(pattern.heads), rng.choice(["prefill", "decode"])
        shown = run("s2", "mask", file, "-n", str(n_tok), "-l", str(layer), "-H", str(head), "--phase", phase, "-t")
        want = ["".join("#" if row >> k & 1 else "." for k in range(n_tok)) for row in rows[phase][layer][head]]
        says(shown.stdout.split() == want, f"{what}, {phase}, layer {layer}, head {head}: {shown.stderr}{done.stderr}")


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
    if pattern.reading():
        check_reach(says, path, pattern, rows, n_tok)
        check_picture(says, path, pattern, rows, n_tok, rng)
        check_diff(says, path, pattern, rows, n_tok, rng)
        if not pattern.states and not any_chosen(pattern):
            check_hops(says, path, pattern, rows, n_tok)
    check_same(says, path, pattern, rows, n_tok, rng)
    if seed % 4 == 0:
        check_cache(says, path, pattern, n_pairs, n_tok)


with tempfile.TemporaryDirectory() as folder:
    for case in range(CASES):
        check_one(SEED + case)
sys.exit(end())
