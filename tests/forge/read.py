#!/usr/bin/env python3
"""A fourth forger, whose judge reads the certificate itself: text, hash and claims, each changed at random.

Patterns are drawn as text: residues dealt out to heads with one missing or double, windows of KV heads, layers and phases that
differ, and any terms with conditions. What s2cert verifies of them, and of every change of their certificates, is read here from
the bytes of the certificate, by a reader of docs/pattern-language.md of its own, and decided pair by pair for the first TOKENS
tokens. So a change needs no other program to judge it.
A fault: verified, and the hash or the length is not that of the text, or the text cannot be read, or a claim is violated; verified
and refuted otherwise than s2check decides for every length; an honest text that is called malformed; another exit code.
Prints a row of counts; exits 1 after a fault.
usage: read.py DIR_OF_PROGRAMS N [SEED]
"""
import functools
import hashlib
import json
import operator
import os
import random
import re
import subprocess
import sys

from campaign import run as run_campaign

TOKENS, CHANGES = 96, 8
EXITS = {0: "verified", 1: "refuted", 3: "malformed", 4: "undecided"}
FULL = [(1 << (q + 1)) - 1 for q in range(TOKENS)]


# ---- the reader

class Unread(Exception):
    pass


def items(text, n):
    """What a list names below n: numbers, runs, and steps that may have no end."""
    out = set()
    for item in text.split(","):
        run, step = re.fullmatch(r"(\d+)(?:-(\d+))?", item), re.fullmatch(r"(\d*):(\d*)(?::(\d+))?", item)
        if item == "all":
            out.update(range(n))
        elif run:
            out.update(range(int(run[1]), min(int(run[2] or run[1]) + 1, n)))
        elif step:
            out.update(range(int(step[1] or 0), min(int(step[2] or n), n), int(step[3] or 1)))
        else:
            raise Unread(item)
    return out


def amount(word, block):
    """A number in its unit: how many, and the tokens of each."""
    if not re.fullmatch(r"\d+t?", word):
        raise Unread(word)
    return (int(word[:-1]), 1) if word.endswith("t") else (int(word), block)


def condition(text, block, causal):
    what, low, high = re.fullmatch(r"(distance|key|query) (\d+t?)?\.\.(\d+t?)?", text).groups()

    def value(q, k, unit):
        far = q // unit - k // unit
        return k // unit if what == "key" else q // unit if what == "query" else far if causal else abs(far)
    (least, of_least), (most, of_most) = amount(low or "0", block), amount(high or "0", block)
    return lambda q, k: value(q, k, of_least) >= least and (not high or value(q, k, of_most) < most)


def strided(words, block):
    found = re.fullmatch(r"(stride|dilated) (\d+)(t?)(?: width (\d+)\3)?(?: phase (\S+))?", words)
    if not found:
        raise Unread(words)
    kind, n, unit, width, phase = found[1], int(found[2]), 1 if found[3] else block, int(found[4] or 1), found[5] or "0"
    factors = {"head": 0, "kv": 0, "layer": 0, "": 0}
    for part in phase.split("+"):
        word, by = re.fullmatch(r"(head|kv|layer|)(?:\*?(\d+))?", part).groups()
        factors[word] += int(by or 1) if word else int(by)

    def offset(of):
        return sum(factors[word] * (of[word] if word else 1) for word in factors) % n

    def reads(q, k, p):
        return ((k // unit if kind == "stride" else q // unit - k // unit) + p) % n < width
    return reads, offset


def term(text, block, causal):
    """What it reads of (query, key) at an offset, and the offset of a head."""
    words, _, conditions = text.partition(" when ")
    kind, _, rest = words.partition(" ")
    tests, offset = [condition(c, block, causal) for c in conditions.split(" & ")] if conditions else [], lambda of: 0
    if kind in ("stride", "dilated"):
        reads, offset = strided(words, block)
    elif kind in ("dense", "none") and not rest:
        def reads(q, k, p): return kind == "dense"
    elif kind in ("local", "sink", "chunk"):
        n, unit = amount(rest, block)

        def reads(q, k, p):
            i, j = q // unit, k // unit
            return (i - j if causal else abs(i - j)) < n if kind == "local" else j < n if kind == "sink" else i // n == j // n
    elif kind in ("columns", "rows"):
        unit = 1 if "t" in rest else block
        named = items(rest.replace("t", ""), TOKENS)

        def reads(q, k, p): return (k if kind == "columns" else q) // unit in named
    else:
        raise Unread(text)
    return lambda q, k, p: reads(q, k, p) and all(test(q, k) for test in tests), offset


class Pattern:
    """A canonical text, read: for each phase, layer and head the terms of its body."""

    def __init__(self, text):
        lines, shape = text.split("\n"), {}
        if lines.pop() != "":
            raise Unread("no line end")
        while lines and ": " not in lines[0]:
            word, _, value = lines.pop(0).partition(" ")
            shape[word] = value
        self.layers, self.heads = int(shape.get("layers", 1)), int(shape["heads"])
        self.kv, self.block = int(shape.get("kv-heads", self.heads)), int(shape.get("block", 64))
        self.causal = shape.get("causal") != "no"
        self.group, self.known, self.bodies = self.heads // self.kv, {}, {}
        for line in lines:
            found = re.fullmatch(r"(prefill|decode)? ?(?:layers ([^ ]+))? ?(?:(kv|heads) ([^ ]+))?: (.*)", line)
            if not found:
                raise Unread(line)
            phase, layers, of, heads, body = found.groups()
            named = items(heads or "all", self.kv if of == "kv" else self.heads)
            for p in phase[0] if phase else "pd":
                for layer in items(layers or "all", self.layers):
                    for head in range(self.heads):
                        if (head // self.group if of == "kv" else head) in named:
                            self.bodies[p, layer, head] = body.split(" | ")
        if len(self.bodies) != 2 * self.layers * self.heads:
            raise Unread("a head without a rule")

    def of_term(self, text, of):
        """For each query the keys that a term reads, as bits."""
        if text not in self.known:
            self.known[text] = (*term(text, self.block, self.causal), {})
        reads, offset, rows = self.known[text]
        p = offset(of)
        if p not in rows:
            rows[p] = [sum(1 << k for k in range(q + 1 if self.causal else TOKENS) if reads(q, k, p)) for q in range(TOKENS)]
        return rows[p]

    def of_head(self, phase, layer, head):
        of = {"head": head, "kv": head // self.group, "layer": layer}
        return [any_of(keys) for keys in zip(*(self.of_term(text, of) for text in self.bodies[phase, layer, head]))]


def any_of(masks):
    return functools.reduce(operator.or_, masks, 0)


# ---- the claims, in the first TOKENS tokens

def covers(heads, causal):
    return all(any_of(head[q] for head in heads) & want == want for q in range(TOKENS) for want in [FULL[q] if causal else FULL[-1]])


def keeps(first, later):
    """Whether no key that a query does not read in `first` is read in `later` by a query behind it."""
    dropped = 0
    for q in range(TOKENS):
        if later[q] & dropped:
            return False
        dropped |= FULL[q] & ~first[q]
    return True


def shards(kv, block):
    """Pairs as near as those that each KV head reads are in the window, in blocks or in tokens; all others have one reader."""
    far = [(q, k, sum(rows[q] >> k & 1 for rows in kv)) for q in range(TOKENS) for k in range(q + 1)]
    lacking = [(q, k) for q, k, n in far if n < len(kv)]
    least_tok, least_blk = min((q - k for q, k in lacking), default=TOKENS), min((q // block - k // block for q, k in lacking), default=TOKENS)
    return all(n == 1 or q - k < least_tok or q // block - k // block < least_blk for q, k, n in far)


def holds(pattern, claim):
    word, _, n = claim.partition(":")
    whole = []
    for layer in range(pattern.layers):
        heads = {p: [pattern.of_head(p, layer, head) for head in range(pattern.heads)] for p in "pd"}
        kv = {p: [[any_of(rows) for rows in zip(*heads[p][g * pattern.group:(g + 1) * pattern.group])] for g in range(pattern.kv)] for p in "pd"}
        if word == "rows" and any(rows[q] & FULL[q] == 0 for p in "pd" for rows in heads[p] for q in range(TOKENS)):
            return False
        if word == "kv" and not all(keeps(kv[a][g], kv[b][g]) for a, b in ("pp", "dd", "pd") for g in range(pattern.kv)):
            return False
        if word == "group" and any(heads[p][h] != heads[p][h // pattern.group * pattern.group] for p in "pd" for h in range(pattern.heads)):
            return False
        if word == "shards" and not all(shards(kv[p], pattern.block) for p in "pd"):
            return False
        share = pattern.heads // int(n) if word == "ranks" else pattern.heads
        whole.append(all(covers(heads[p][r:r + share], pattern.causal) for p in "pd" for r in range(0, pattern.heads, share)))
    if word in ("union", "ranks"):
        return all(whole)
    return word != "depth" or all(any(whole[at:at + int(n)]) for at in range(pattern.layers - int(n) + 1))


def judge(data):
    """What is wrong with a certificate that was verified, as its own bytes say; None: nothing in the first tokens."""
    first, _, rest = data.partition(b"\n")
    try:
        hashed, n = re.fullmatch(rb"s2cert 1 ([0-9a-f]{64}) ([1-9][0-9]*)", first).groups()
        text, tail = rest[:int(n)], re.fullmatch(rb"claims((?: [a-z]+(?::[1-9][0-9]*)?)+)\nend\n", rest[int(n):])
        if hashlib.sha256(text).hexdigest().encode() != hashed:
            return "the hash is not that of the text"
        pattern = Pattern(text.decode())
        false = [claim for claim in tail[1].decode().split() if not holds(pattern, claim)]
    except (Unread, KeyError, TypeError, AttributeError, ValueError) as why:
        return f"it cannot be read: {why!r}"
    return f"violated in the first {TOKENS} tokens: {' '.join(false)}" if false else None


# ---- the generator

def number(rng, most, share_of_tokens=0.3):
    return f"{rng.randint(1, most)}{'t' if rng.random() < share_of_tokens else ''}"


def dealt(rng, heads):
    """Residues dealt out to heads, one of them perhaps to nobody or to two."""
    n = max(2, heads + rng.choice([-1, 0, 0, 0, 0, 1]))
    return f"local {rng.randint(1, 3)} | stride {n} phase head{rng.choice(['', '', f'*{rng.randint(2, 3)}', f'+{rng.randint(1, n)}'])}"


def windows(rng, heads):
    """What a KV cache or shards of it keep."""
    at = rng.randint(1, 6)
    return rng.choice([f"local {at}", f"local {at} | sink {number(rng, 3)}", f"local {at}t | stride {rng.randint(2, 4)} phase kv",
                       f"local {at} | stride {rng.choice([heads, 2, 3])} phase kv when distance {at + rng.choice([0, 0, 1])}.."])


def any_term(rng):
    n, unit = rng.randint(2, 7), rng.choice(["", "", "t"])
    width = rng.choice(["", "", f" width {rng.randint(1, n)}{unit}"])
    phase = rng.choice(["", " phase head", " phase kv", f" phase head*{rng.randint(2, 5)}+layer+{rng.randint(1, 6)}", f" phase layer*{n}+{rng.randint(1, 9)}"])
    first = rng.randint(0, 6)
    words = rng.choice(["dense", "none", f"local {number(rng, 8)}", f"sink {number(rng, 8)}", f"chunk {number(rng, 9)}", f"stride {n}{unit}{width}{phase}",
                        f"dilated {n}{unit}{width}{phase}", f"columns {first}-{first + n},{first + 2 * n}::{n}", f"columns {first}t:{first + 40}t:{n}t",
                        f"rows {first}::{n}", f"rows 0-{first}"])
    if rng.random() < 0.65:
        return words
    low = rng.randint(1, 20)
    what = rng.choice([f"distance {low}{unit}..", f"distance ..{low}t", f"key {low}..{low + n}", f"query {low}t..", f"distance {low}.. & key ..{low + n}{unit}"])
    return f"{words} when {what}"


def body(rng, heads):
    return rng.choice([dealt, dealt, windows, lambda rng, heads: " | ".join(any_term(rng) for _ in range(rng.randint(1, 3)))])(rng, heads)


def draw(rng):
    kv, layers = rng.choice([1, 2, 2, 3, 4]), rng.choice([1, 1, 2, 3])
    heads = kv * rng.choice([1, 1, 2])
    lines = [f"layers {layers}; heads {heads}; kv-heads {kv}; block {rng.choice([1, 2, 4, 8])}; causal {rng.choice(['yes'] * 7 + ['no'])}",
             f"layers all: {body(rng, heads)}"]
    for _ in range(rng.choice([0, 0, 1, 2])):
        selectors = [rng.choice(["prefill", "decode", ""]), rng.choice([f"layers {rng.randrange(layers)}", "layers all"]),
                     rng.choice(["", f"kv {rng.randrange(kv)}", f"heads {rng.randrange(heads)}::{rng.randint(1, 2)}"])]
        lines.append(" ".join(s for s in selectors if s) + f": {body(rng, heads)}")
    return "\n".join(lines) + "\n", heads, layers


# ---- changes

def certificate(text, claims):
    return b"s2cert 1 %s %d\n%sclaims %s\nend\n" % (hashlib.sha256(text).hexdigest().encode(), len(text), text, claims)


def other_number(rng, found):
    n = int(found[0])
    return str(rng.choice([n + 1, max(n - 1, 0), 2 * n, n // 2, rng.randint(0, 12)])).encode()


def changed_text(rng, text):
    """A number, a word, a term or a line of the text is another."""
    numbers, lines = list(re.finditer(rb"\d+", text)), text.splitlines(keepends=True)
    at, line = rng.choice(numbers), rng.randrange(len(lines))
    terms = lines[line].rstrip(b"\n").split(b" | ")
    words = rng.choice([(b"head", b"kv"), (b"kv", b"head"), (b"stride", b"dilated"), (b"local", b"sink"), (b"sink", b"chunk"), (b"prefill", b"decode"),
                        (b"key", b"query"), (b"layers all", b"layers 0"), (b"columns", b"rows"), (b"t ", b" "), (b"\n", b";"), (b": ", b" : ")])
    return rng.choice([
        lambda: text[:at.start()] + other_number(rng, at) + text[at.end():], lambda: text[:at.start()] + other_number(rng, at) + text[at.end():],
        lambda: text.replace(*words, 1), lambda: b"".join(lines[:line] + lines[line + 1:]), lambda: b"".join(lines[:line + 1] + lines[line:]),
        lambda: b"".join(lines[:line] + [b" | ".join(rng.sample(terms, rng.randint(1, len(terms)))) + b"\n"] + lines[line + 1:])])()


def changed(rng, text, claims):
    """A certificate of which the text, the hash, the claims or a byte is another."""
    honest, n = certificate(text, claims), len(text)
    at = rng.randrange(len(honest))
    more = rng.choice([b"rows", b"union", b"kv", b"group", b"shards", b"ranks:%d" % rng.randint(1, 4), b"depth:%d" % rng.randint(1, 4)])
    return rng.choice([
        lambda: certificate(changed_text(rng, text), claims), lambda: certificate(changed_text(rng, text), claims),
        lambda: certificate(changed_text(rng, changed_text(rng, text)), claims), lambda: certificate(text, claims + b" " + more), lambda: certificate(text, more),
        lambda: honest[:9] + bytes(rng.sample(honest[9:73], 64)) + honest[73:], lambda: honest.replace(b" %d\n" % n, b" %d\n" % (n + rng.choice([-1, 1])), 1),
        lambda: honest.replace(text, changed_text(rng, text), 1), lambda: honest[:at] + bytes([rng.randrange(256)]) + honest[at + 1:],
        lambda: honest[:at] + honest[at + rng.randint(1, 9):]])()


# ---- the campaign

class Campaign:
    def __init__(self, programs, seed, folder):
        self.programs, self.seed = programs, seed
        self.text_at, self.cert_at = os.path.join(folder, "p.s2"), os.path.join(folder, "p.cert")
        self.asked = self.changed = self.changed_verified = self.violated = self.faults = 0
        self.counts = dict.fromkeys(EXITS.values(), 0)

    def run(self, name, *words):
        return subprocess.run((os.path.join(self.programs, name), *words), capture_output=True, stdin=subprocess.DEVNULL)

    def write(self, path, data):
        with open(path, "wb") as out:
            out.write(data)

    def fault(self, why, data):
        self.faults += 1
        print(f"{why}:\n{data.decode(errors='backslashreplace')}", flush=True)

    def certify(self, data):
        self.write(self.cert_at, data)
        code = self.run("s2cert", self.cert_at).returncode
        said = EXITS.get(code)
        self.asked += 1
        if said is None:
            self.fault(f"s2cert ended with {code}", data)
            return said
        self.counts[said] += 1
        why = judge(data) if said == "verified" else None
        if why is not None:
            self.fault(f"verified, and {why}", data)
        return said

    def draw(self, nth):
        rng = random.Random(f"read/{self.seed}/{nth}")
        text, heads, layers = draw(rng)
        self.write(self.text_at, text.encode())
        shown = self.run("s2", "show", "--canonical", self.text_at)
        if shown.returncode != 0:
            if b"S2P040" not in shown.stderr:   # conditions that exclude each other
                self.fault(f"s2 show ended with {shown.returncode}: {shown.stderr.decode()}", text.encode())
            return
        text = shown.stdout
        ranks, depth = rng.choice([r for r in range(1, heads + 1) if heads % r == 0]), rng.randint(1, layers)
        claims = ["rows", "union", "kv", "group", f"ranks:{ranks}", f"depth:{depth}"] + ([] if b"causal no" in text else ["shards"])
        self.write(self.text_at, text)
        proved = self.run("s2check", "--json", "--require", ",".join(claims), self.text_at)
        verdict = {p["name"]: (p["verdict"], p["scope"]) for p in json.loads(proved.stdout)["properties"]} if proved.returncode in (0, 1, 4) else {}
        pattern, verified = Pattern(text.decode()), []
        for claim in claims:
            data = certificate(text, claim.encode())
            said, false = self.certify(data), not holds(pattern, claim)
            by_prover = verdict.get(claim, ("unknown", ""))
            self.violated += false
            verified += [claim] if said == "verified" else []
            if said == "malformed" or (said == "verified" and by_prover[0] == "violated") or (said == "refuted" and by_prover == ("holds", "all")) or (false and by_prover == ("holds", "all")):
                self.fault(f"{claim}: s2cert says {said}, s2check {by_prover}, the first {TOKENS} tokens {'violate it' if false else 'do not violate it'}", text)
        whole = " ".join(verified or claims).encode()
        for _ in range(CHANGES):
            self.changed += 1
            self.changed_verified += self.certify(changed(rng, text, whole)) == "verified"


run_campaign(Campaign, lambda c: (
    "certificates", f"{c.changed} of them changed", f"{c.changed_verified} of changed ones", f"claims violated in the first {TOKENS} tokens"))
