#!/usr/bin/env python3
"""False certificates from a generator that shares no code with s2: what s2cert verifies must hold.

Patterns are drawn as values, not as text, near the edge of a verdict: strides whose phases share out the keys, less one,
ranges of distance that meet or miss by a token, layers and phases that differ in one head. The definition of the language
(docs/pattern-language.md) is enumerated on the first TOKENS tokens with whole numbers as rows of bits. `s2 show --canonical`
gives the bytes under the hash, and each claim gets a certificate of its own that s2cert is asked about.
Prints a row of counts; exits 1 if s2cert verified a claim that the enumeration violates, or ended in another way than
verified, refuted, no certificate or not decided.
usage: near.py DIR_OF_PROGRAMS N [SEED]
"""
import functools
import hashlib
import operator
import os
import random
import subprocess
import sys
import tempfile

TOKENS = 128
EXITS = {0: "verified", 1: "refuted", 3: "malformed", 4: "undecided"}


class Term:
    """One term of a body: its words, the phase of a head and whether query q reads key k in a head of phase p."""

    def __init__(self, text, reads, phase=lambda head, kv, layer: 0):
        self.text, self.reads, self.phase, self.known = text, reads, phase, {}

    def rows(self, index):
        """For each query the keys that a head of index (head, kv, layer) reads, as bits; not causal."""
        p = self.phase(*index)
        if p not in self.known:
            self.known[p] = [sum(1 << k for k in range(TOKENS) if self.reads(q, k, p)) for q in range(TOKENS)]
        return self.known[p]


def quantity(rng, most, block):
    n, in_tokens = rng.randint(1, most), rng.random() < 0.3
    return (f"{n}t", n) if in_tokens else (f"{n}", n * block)


def local(rng, block):
    n = rng.randint(1, 5)
    if rng.random() < 0.4:
        return Term(f"local {n}t", lambda q, k, p: abs(q - k) < n)
    return Term(f"local {n}", lambda q, k, p: abs(q // block - k // block) < n)


def sink(rng, block):
    text, tokens = quantity(rng, 4, block)
    return Term(f"sink {text}", lambda q, k, p: k < tokens)


def chunk(rng, block):
    text, tokens = quantity(rng, 6, block)
    return Term(f"chunk {text}", lambda q, k, p: q // tokens == k // tokens)


def strided(rng, block, modulus=None, kinds=("stride", "stride", "dilated")):
    v = modulus or rng.randint(2, 9)
    width = rng.choice([1, 1, 1, rng.randint(1, v)])
    by_head, by_kv, by_layer, constant = rng.choice(
        [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 1), (1, 0, 1, 0), (0, 1, 1, 2), (2, 0, 0, 1), (1, 0, 0, v - 1)])
    parts = [f"{word}*{n}" if n > 1 else word for word, n in (("head", by_head), ("kv", by_kv), ("layer", by_layer)) if n]
    phase = "+".join(parts + ([str(constant)] if constant else []))
    unit, g = ("t", 1) if rng.random() < 0.3 else ("", block)
    kind = rng.choice(kinds)

    def reads(q, k, p):
        at = k // g if kind == "stride" else q // g - k // g
        return (at + p) % v < width

    text = f"{kind} {v}{unit}" + (f" width {width}{unit}" if width > 1 else "") + f" phase {phase}"
    return Term(text, reads, lambda head, kv, layer: (by_head * head + by_kv * kv + by_layer * layer + constant) % v)


def columns(rng, block):
    step, first = rng.randint(2, 6), rng.randint(0, 5)
    return Term(f"columns {first}::{step}", lambda q, k, p: k // block >= first and (k // block - first) % step == 0)


def rows(rng, block):
    first = rng.randint(0, 4)
    return Term(f"rows {first}::3", lambda q, k, p: q // block >= first and (q // block - first) % 3 == 0)


def when(rng, block, term):
    what = rng.choice(["distance", "distance", "key", "query"])
    low, length = rng.choice([0, rng.randint(1, 12)]), rng.choice([None, rng.randint(1, 24)])
    unit, g = ("t", 1) if rng.random() < 0.4 else ("", block)
    if low == 0 and length is None:
        return term
    high = None if length is None else low + length
    text = f"{what} {f'{low}{unit}' if low else ''}..{f'{high}{unit}' if high else ''}"

    def reads(q, k, p):
        value = abs(q // g - k // g) if what == "distance" else (k if what == "key" else q) // g
        return value >= low and (high is None or value < high) and term.reads(q, k, p)

    return Term(f"{term.text} when {text}", reads, term.phase)


def split(rng, block):
    """Terms that hand over to one another at a distance, which may miss by one."""
    at = rng.randint(1, 8)
    gap = rng.choice([0, 0, 0, 1])
    unit, g = ("t", 1) if rng.random() < 0.5 else ("", block)
    near = Term(f"local {at}{unit}", lambda q, k, p: abs(q // g - k // g) < at)
    far = strided(rng, block, kinds=("stride",))
    begin = at + gap
    return [near, Term(f"{far.text} when distance {begin}{unit}..", lambda q, k, p: abs(q // g - k // g) >= begin and far.reads(q, k, p), far.phase)]


def body(rng, block, modulus):
    shape = rng.random()
    if shape < 0.05:
        return [Term("dense", lambda q, k, p: True)]
    if shape < 0.25:
        return split(rng, block)
    terms = [local(rng, block), strided(rng, block, modulus)] if shape < 0.75 else [rng.choice([local, sink, chunk, columns, rows])(rng, block)]
    while rng.random() < 0.3:
        terms.append(rng.choice([local, sink, chunk, strided, strided, columns, rows])(rng, block))
    return [when(rng, block, t) if rng.random() < 0.2 else t for t in terms]


class Pattern:
    """A shape and, for each phase, layer and head, a body; `text` is what a person would write."""

    def __init__(self, rng):
        self.layers, self.block = rng.choice([1, 1, 1, 2, 3]), rng.choice([1, 2, 4])
        self.kv_heads = rng.choice([1, 2, 3, 4])
        self.heads, self.causal = self.kv_heads * rng.choice([1, 1, 2]), rng.random() < 0.85
        first = body(rng, self.block, self.heads + rng.choice([0, 0, 0, 1]) if self.heads > 1 else None)
        lines = [f"layers {self.layers}", f"heads {self.heads}", f"kv-heads {self.kv_heads}", f"block {self.block}"]
        lines += [] if self.causal else ["causal no"]
        self.bodies = {(p, l, h): first for p in "pd" for l in range(self.layers) for h in range(self.heads)}
        lines.append("layers all: " + " | ".join(t.text for t in first))
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            lines.append(self.overrule(rng))
        self.text = "\n".join(lines) + "\n"

    def overrule(self, rng):
        layer = rng.randrange(self.layers) if rng.random() < 0.5 else None
        kv = rng.randrange(self.kv_heads) if rng.random() < 0.6 else None
        phase = rng.choice(["", "", "prefill ", "decode "])
        other = body(rng, self.block, None)
        group = self.heads // self.kv_heads
        for p, l, h in self.bodies:
            if (layer is None or l == layer) and (kv is None or h // group == kv) and (phase == "" or phase[0] == p):
                self.bodies[p, l, h] = other
        layers = "layers all" if layer is None else f"layers {layer}"
        return f"{phase}{layers}{'' if kv is None else f' kv {kv}'}: " + " | ".join(t.text for t in other)

    def read(self, phase, layer, head):
        """The rows of one head: for each query the keys that it reads, as bits."""
        index = (head, head * self.kv_heads // self.heads, layer)
        rows = [any_of(r) for r in zip(*(t.rows(index) for t in self.bodies[phase, layer, head]))]
        return [r & (1 << (q + 1)) - 1 for q, r in enumerate(rows)] if self.causal else rows


def violations(pattern, ranks, depth):
    """Which claims the first TOKENS tokens violate. A claim that is not named may still be false further on."""
    bad, holed, group = set(), [], pattern.heads // pattern.kv_heads
    wanted = [(1 << (q + 1)) - 1 if pattern.causal else (1 << TOKENS) - 1 for q in range(TOKENS)]
    for layer in range(pattern.layers):
        hole_in_layer, kept = False, {}
        for phase in "pd":
            heads = [pattern.read(phase, layer, h) for h in range(pattern.heads)]
            if any(r & ((1 << (q + 1)) - 1) == 0 for rows in heads for q, r in enumerate(rows)):
                bad.add("rows")
            hole = union_hole(heads, wanted)
            hole_in_layer |= hole
            if hole:
                bad.add("union")
            share = pattern.heads // ranks
            if any(union_hole(heads[r * share:(r + 1) * share], wanted) for r in range(ranks)):
                bad.add(f"ranks:{ranks}")
            groups = [heads[g * group:(g + 1) * group] for g in range(pattern.kv_heads)]
            if any(h != g[0] for g in groups for h in g):
                bad.add("group")
            kept[phase] = [[*map(any_of, zip(*g))] for g in groups]
            if pattern.causal and not sharded(kept[phase], pattern.block):
                bad.add("shards")
        if not all(prefix(kept["p"][g], kept["p"][g]) and prefix(kept["d"][g], kept["d"][g]) and prefix(kept["p"][g], kept["d"][g])
                   for g in range(pattern.kv_heads)):
            bad.add("kv")
        holed.append(hole_in_layer)
    if any(all(holed[l:l + depth]) for l in range(pattern.layers - depth + 1)):
        bad.add(f"depth:{depth}")
    return bad


def any_of(masks):
    return functools.reduce(operator.or_, masks, 0)


def union_hole(heads, wanted):
    return any(any_of(h[q] for h in heads) != wanted[q] for q in range(TOKENS))


def prefix(first, later):
    """No query reads in `later` a key that a query between it and the key did not read in `first`."""
    dropped = 0
    for q in range(TOKENS):
        seen = (1 << (q + 1)) - 1
        if later[q] & seen & dropped:
            return False
        dropped |= seen & ~first[q]
    return True


def sharded(kept, block):
    """Beyond the window that every KV head reads whole, in blocks and in tokens, each pair has exactly one reader."""
    wrong, unread = [], []
    for q in range(TOKENS):
        once, twice, all_read = 0, 0, (1 << (q + 1)) - 1
        for rows in kept:
            once, twice, all_read = once | rows[q], twice | once & rows[q], all_read & rows[q]
        wrong += [(q, k) for k in range(q + 1) if not (once & ~twice) >> k & 1]
        unread += [(q, k) for k in range(q + 1) if not all_read >> k & 1]
    tokens = min((q - k for q, k in unread), default=TOKENS)
    blocks = min((q // block - k // block for q, k in unread), default=TOKENS)
    return all(q - k < tokens or q // block - k // block < blocks for q, k in wrong)


def main():
    programs, n = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    counts, faults, violated = dict.fromkeys(EXITS.values(), 0), 0, 0
    with tempfile.TemporaryDirectory(prefix="s2-forge.") as folder:
        text_at, cert_at, asked, drawn = os.path.join(folder, "p.s2"), os.path.join(folder, "p.cert"), 0, 0
        while asked < n:
            rng, drawn = random.Random(f"{seed}/{drawn}"), drawn + 1
            pattern = Pattern(rng)
            with open(text_at, "w", encoding="ascii") as out:
                out.write(pattern.text)
            shown = subprocess.run([programs + "/s2", "show", "--canonical", text_at], capture_output=True)
            if shown.returncode == 2 and b"S2P040" in shown.stderr:   # conditions that exclude each other
                continue
            if shown.returncode != 0:
                sys.exit(f"s2 show ended with {shown.returncode}: {shown.stderr.decode()}{pattern.text}")
            ranks = rng.choice([r for r in range(1, pattern.heads + 1) if pattern.heads % r == 0])
            depth = rng.randint(1, pattern.layers)
            bad = violations(pattern, ranks, depth)
            claims = ["rows", "union", "kv", "group", f"ranks:{ranks}", f"depth:{depth}"] + (["shards"] if pattern.causal else [])
            for claim in claims:
                first = f"s2cert 1 {hashlib.sha256(shown.stdout).hexdigest()} {len(shown.stdout)}\n"
                with open(cert_at, "wb") as out:
                    out.write(first.encode() + shown.stdout + f"claims {claim}\nend\n".encode())
                code = subprocess.run([programs + "/s2cert", cert_at], capture_output=True).returncode
                asked, violated = asked + 1, violated + (claim in bad)
                counts[EXITS.get(code, "malformed")] += 1
                if code not in EXITS or code == 3 or (code == 0 and claim in bad):
                    faults += 1
                    print(f"exit {code} for {claim}, {'violated' if claim in bad else 'not violated'} in the first {TOKENS} tokens:\n{pattern.text}")
    print(f"{asked} claims from seed {seed}: {counts['verified']} verified, {counts['refuted']} refuted, {counts['undecided']} not decided; "
          f"{violated} violated in the first {TOKENS} tokens; {faults} faults")
    sys.exit(faults != 0)


main()
