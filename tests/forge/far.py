#!/usr/bin/env python3
"""A third forger: false claims whose faults lie far away, and texts that are no canonical ones.

Patterns are drawn near the edge of a verdict: bands of distance that hand over to one another, lists that end hundreds of
tokens away, coprime periods, copies of which one number is another, layers, phases and heads of their own. Their definition is
evaluated on arrays: whole for the first NEAR tokens, and in windows at every number that the pattern names and at sums of
these with its periods. Each claim has a certificate of its own under its true hash. Besides, bytes of these texts are changed as
other programs, hands and older versions write them (line ends, digits of other scripts, NUL, signs, units, lines twice or
exchanged, words that no version knows), under a hash that is right. And what was verified of one pattern is claimed of
its neighbours: a number, a term or a line is another, or one of another true certificate.
A fault: verified, and violated in a window; verified, and the prover says otherwise; refuted, and the prover says that it
holds for every length, also of neighbours; a changed text that is verified though `s2 show --canonical` prints other bytes for it.
Prints a row of counts; exits 1 after a fault, 77 without NumPy.
usage: far.py DIR_OF_PROGRAMS N [SEED]
"""
import hashlib
import json
import os
import random
import subprocess
import sys

from campaign import run as run_campaign

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not there")
    sys.exit(77)

NEAR, WINDOW, COLUMN = 256, 64, 2048
CHANGES = int(os.environ.get("S2_CHANGES", "12"))   # changed texts for each pattern
NEIGHBOURS = int(os.environ.get("S2_NEIGHBOURS", "6"))   # of certificates that were verified, after each pattern
EXITS = {0: "verified", 1: "refuted", 3: "malformed", 4: "undecided"}


# ---- the definition, on arrays of queries (a column) and keys (a row)

def far(rng, least, most):
    """A number that is mostly much below `most`: what s2cert does grows with it."""
    return rng.randint(least, most if rng.random() < 0.05 else least + (most - least) // 6)


def amount(rng, most, block):
    """Words for an extent, and its size in the unit g."""
    n = rng.randint(1, most)
    return (f"{n}t", n, 1) if rng.random() < 0.35 else (f"{n}", n, block)


def residue_term(rng, block, heads):
    n, g, unit = rng.choice([heads, heads, heads + 1, rng.randint(2, 13)]), block, ""
    if rng.random() < 0.25:
        g, unit = 1, "t"
    n = max(n, 2)
    width = rng.choice([1, 1, 1, rng.randint(1, n)])
    factors = rng.choice([(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (1, 0, 2, 1), (0, 1, 1, 0), (3, 0, 0, 2), (0, 0, 0, 1), (width, 0, 0, 0), (0, width, 0, 0)])
    kind = rng.choice(["stride", "stride", "stride", "dilated"])
    words = [f"{name}*{f}" if f > 1 else name for name, f in zip(("head", "kv", "layer"), factors) if f] + ([str(factors[3])] if factors[3] else [])
    text = f"{kind} {n}{unit}" + (f" width {width}{unit}" if width > 1 else "") + (f" phase {'+'.join(words)}" if words else "")

    def reads(q, k, at):
        place = k // g if kind == "stride" else q // g - k // g
        return (place + factors[0] * at[0] + factors[1] * at[1] + factors[2] * at[2] + factors[3]) % n < width
    return text, reads, [], n * g


def local(rng, block, heads):
    words, n, g = amount(rng, 6, block)
    return f"local {words}", lambda q, k, at: abs(q // g - k // g) < n, [n * g], 1


def sink(rng, block, heads):
    words, n, g = amount(rng, rng.choice([3, far(rng, 4, 60)]), block)
    return f"sink {words}", lambda q, k, at: k + 0 * q < n * g, [n * g], 1


def chunk(rng, block, heads):
    words, n, g = amount(rng, rng.choice([4, far(rng, 4, 40)]), block)
    return f"chunk {words}", lambda q, k, at: q // (n * g) == k // (n * g), [], n * g


def lines(rng, block, heads):
    which, step = rng.choice(["columns", "columns", "rows"]), rng.randint(2, 7)
    first, end = rng.randint(0, 4), rng.choice([None, far(rng, 8, 400)])
    text = f"{which} {first}:{'' if end is None else end}:{step}"

    def reads(q, k, at):
        x = (k if which == "columns" else q) // block
        inside = (x >= first) & ((x - first) % step == 0)
        return (inside if end is None else inside & (x < end)) & (q + k >= 0)
    return text, reads, [] if end is None else [end * block], step * block


def dense(rng, block, heads):
    return "dense", lambda q, k, at: q + k >= 0, [], 1


def bounded(rng, block, term):
    """The term under one or two conditions."""
    text, reads, points, period = term
    parts, tests, points = [], [], list(points)
    for what in sorted(rng.sample(["distance", "key", "query"], rng.choice([1, 1, 2]))):
        g, unit = (1, "t") if rng.random() < 0.4 else (block, "")
        low = rng.choice([0, rng.randint(1, 12), far(rng, 1, 300)])
        high = rng.choice([None, low + rng.randint(1, 30), low + far(rng, 1, 400)])
        if low == 0 and high is None:
            continue
        parts.append(f"{what} {f'{low}{unit}' if low else ''}..{f'{high}{unit}' if high else ''}")
        tests.append((what, g, low, high))
        points += [low * g] + ([high * g] if high else [])
    if not parts:
        return term

    def both(q, k, at):
        out = reads(q, k, at)
        for what, g, low, high in tests:
            value = abs(q // g - k // g) if what == "distance" else (k if what == "key" else q) // g
            out = out & (value >= low) & (high is None or value < high)
        return out
    return f"{text} when {' & '.join(parts)}", both, points, period


def bands(rng, block, heads):
    """Near and far terms that hand over at a distance, which may miss by one."""
    at, gap = rng.choice([rng.randint(1, 6), far(rng, 10, 200)]), rng.choice([0, 0, 0, 0, 1])
    g, unit = (1, "t") if rng.random() < 0.4 else (block, "")
    begin = at + gap
    text, reads, points, period = residue_term(rng, block, heads)
    return [(f"local {at}{unit}", lambda q, k, _: abs(q // g - k // g) < at, [at * g], 1),
            (f"{text} when distance {begin}{unit}..", lambda q, k, i: (abs(q // g - k // g) >= begin) & reads(q, k, i), points + [begin * g], period)]


def coprime(rng, block, heads):
    """Columns of all residues of a step, one of which ends far away."""
    step, end = rng.randint(2, 4), far(rng, 10, 500)
    out, short = [("local 1", lambda q, k, _: q // block == k // block, [block], 1)], rng.choice([-1, -1, rng.randrange(step)])
    for r in range(step):
        stop = end if r == short else None
        text = f"columns {r}:{stop or ''}:{step}"
        out.append((text, lambda q, k, _, r=r, stop=stop: (k // block % step == r) & (k // block >= r) & (stop is None or k // block < stop) & (q >= 0),
                    [end * block] if stop else [], step * block))
    return out


def body(rng, block, heads):
    shape = rng.random()
    if shape < 0.05:
        return [dense(rng, block, heads)]
    if shape < 0.3:
        terms = bands(rng, block, heads)
    elif shape < 0.4:
        terms = coprime(rng, block, heads)
    elif shape < 0.75:
        terms = [local(rng, block, heads), residue_term(rng, block, heads)]
    else:
        terms = [rng.choice([local, sink, chunk, lines])(rng, block, heads)]
    while rng.random() < 0.3:
        terms.append(rng.choice([local, sink, chunk, lines, residue_term])(rng, block, heads))
    return [bounded(rng, block, t) if rng.random() < 0.2 and " when " not in t[0] else t for t in terms]


class Pattern:
    def __init__(self, rng):
        self.layers, self.block = rng.choice([1, 1, 1, 2, 3]), rng.choice([1, 2, 4, 8])
        self.kv_heads = rng.choice([1, 2, 2, 3, 4, 6])
        self.heads, self.causal = self.kv_heads * rng.choice([1, 1, 2]), rng.random() < 0.85
        first = body(rng, self.block, max(2, rng.choice([self.heads, self.kv_heads])))
        self.bodies = {(p, l, h): first for p in "pd" for l in range(self.layers) for h in range(self.heads)}
        text = [f"layers {self.layers}", f"heads {self.heads}", f"kv-heads {self.kv_heads}", f"block {self.block}"] + ([] if self.causal else ["causal no"])
        text.append("layers all: " + " | ".join(t[0] for t in first))
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            other = self.almost(rng, first) if rng.random() < 0.5 else body(rng, self.block, self.heads)
            layer, kv, phase = rng.choice([None, rng.randrange(self.layers)]), rng.choice([None, rng.randrange(self.kv_heads)]), rng.choice(["", "", "prefill ", "decode "])
            for p, l, h in self.bodies:
                if layer in (None, l) and kv in (None, h * self.kv_heads // self.heads) and phase[:1] in ("", p):
                    self.bodies[p, l, h] = other
            text.append(f"{phase}layers {'all' if layer is None else layer}{'' if kv is None else f' kv {kv}'}: " + " | ".join(t[0] for t in other))
        self.text = "\n".join(text) + "\n"
        terms = {id(t): t for b in self.bodies.values() for t in b}.values()
        periods = [t[3] for t in terms]
        self.points = sorted({0} | {p for t in terms for p in t[2]} | {p + v for t in terms for p in t[2] for v in periods} | set(periods))

    @staticmethod
    def almost(rng, terms):
        kept = [t for t in terms if rng.random() < 0.8]
        return kept or list(terms)

    def reads(self, phase, layer, head, q, k):
        index = (head, head * self.kv_heads // self.heads, layer)
        out = np.zeros(np.broadcast(q, k).shape, bool)
        for _, reads, _, _ in self.bodies[phase, layer, head]:
            out |= reads(q, k, index)
        return out & (k <= q) if self.causal else out


# ---- what a window violates

def windows(rng, pattern):
    near = np.arange(NEAR)
    yield near[:, None], near[None, :]
    far = [p for p in pattern.points if p > NEAR // 2]
    for _ in range(4):
        a, b = (rng.choice(far or [rng.randrange(4000)]) for _ in range(2))
        q, k = max(a, b) + rng.choice([0, b, rng.randrange(3000)]), rng.choice([0, min(a, b), b])
        q, k = max(0, q - rng.randrange(WINDOW)), max(0, k - rng.randrange(WINDOW))
        yield np.arange(q, q + WINDOW)[:, None], np.arange(k, k + WINDOW)[None, :]


def pairs(pattern, q, k, ranks, depth, bad):
    group, holed = pattern.heads // pattern.kv_heads, []
    wanted = (k <= q) | (not pattern.causal)
    for layer in range(pattern.layers):
        hole = False
        for phase in "pd":
            heads = [pattern.reads(phase, layer, h, q, k) for h in range(pattern.heads)]
            lost = bool((wanted & ~np.logical_or.reduce(heads)).any())
            hole |= lost
            bad |= {"union"} if lost else set()
            share = pattern.heads // ranks
            if any((wanted & ~np.logical_or.reduce(heads[r * share:(r + 1) * share])).any() for r in range(ranks)):
                bad.add(f"ranks:{ranks}")
            if any((heads[h] != heads[h - h % group]).any() for h in range(pattern.heads)):
                bad.add("group")
            if len(q) == NEAR:
                square(pattern, heads, k <= q, group, bad)
        holed.append(hole)
    if any(all(holed[l:l + depth]) for l in range(pattern.layers - depth + 1)):
        bad.add(f"depth:{depth}")


def square(pattern, heads, earlier, group, bad):
    """What needs all keys of a query, or all of a window: on the first NEAR tokens."""
    if any((~(h & earlier).any(axis=1)).any() for h in heads):
        bad.add("rows")
    if not pattern.causal:
        return
    kept = [np.logical_or.reduce(heads[g * group:(g + 1) * group]) for g in range(pattern.kv_heads)]
    readers, q, k = sum(g.astype(int) for g in kept), np.arange(NEAR)[:, None], np.arange(NEAR)[None, :]
    tokens, blocks = q - k + 0 * earlier, q // pattern.block - k // pattern.block
    some, wrong = earlier & (readers < pattern.kv_heads), earlier & (readers != 1)
    if (wrong & (tokens >= tokens[some].min(initial=NEAR)) & (blocks >= blocks[some].min(initial=NEAR))).any():
        bad.add("shards")


def columns(rng, pattern, bad):
    """kv: no KV head reads a key that it had dropped before, in decoding also not one that prefill had dropped."""
    group = pattern.heads // pattern.kv_heads
    for k in {rng.choice(pattern.points), rng.randrange(40)}:
        q, keys = np.arange(k, k + COLUMN)[:, None], np.arange(k, k + 2 * pattern.block)[None, :]
        for layer in range(pattern.layers):
            for g in range(pattern.kv_heads):
                kept = {p: np.logical_or.reduce([pattern.reads(p, layer, h, q, keys) for h in range(g * group, (g + 1) * group)]) for p in "pd"}
                for first, later in ("pp", "dd", "pd"):
                    dropped = np.logical_or.accumulate((keys <= q) & ~kept[first], axis=0)
                    if (kept[later][1:] & dropped[:-1] & (keys <= q[1:])).any():
                        bad.add("kv")


def violations(rng, pattern, ranks, depth):
    bad = set()
    for q, k in windows(rng, pattern):
        pairs(pattern, q, k, ranks, depth, bad)
    columns(rng, pattern, bad)
    return bad


# ---- texts that are none

DIGITS = ("\uff10", "\u0660", "\u0966", "\U0001d7ce")
WORDS = ("random 2 seed 1", "heavy 2", "topk 2", "pages 4 page 16", 'mask "x.npy"', "offset 1", "dilate 2", "stride 4 offset 1", "window 3", "local 2..4", "block 3", "causal yes",
         "causal no", "layers 0: state 64", "layers 0: kv-heads 1", "layers 0: kv-layer 0", "dtype bf16", "heads 0..1: dense", "all: dense", "prefill: dense", "model gpt-2",
         "name x", "name x; layers all: none", "# dense", "layers all: dense", "end", "claims rows", "s2cert 1")
CLAIMS = ("", " shards", " ranks:0", " ranks:1", " ranks:01", " ranks:4294967297", " depth:0", " depth:4097", " depth:1", " --for-all-lengths", " for-all-lengths", " union:1", " rows,union", " ROWS",
          " all", " shards shards", "  rows", " rows ", " not-union", "\trows", " union\nclaims rows", " rows\nend\nclaims union", " rows\r")


def number_at(rng, text):
    """Replace one number by what another program would take for it."""
    places = [i for i, c in enumerate(text) if c.isdigit() and (i == 0 or not text[i - 1].isdigit())]
    begin = rng.choice(places)
    end = begin
    while end < len(text) and text[end].isdigit():
        end += 1
    n = int(text[begin:end])
    other = rng.choice([str(n + 1), str(max(n - 1, 0)), f"+{n}", f"-{n}", f"0{n}", f"{n}.0", f"{n}e0", hex(n), f"{n}_0", f"{n}k", f"{n}t", f"{n + 2**24}", f"{n + 2**32}", f"{n + 2**64}",
                        str(10**30 + n), str(n * 2), "0", "", " " + str(n), "".join(chr(ord(rng.choice(DIGITS)) + int(d)) for d in str(n)), "\u00b2", f"{n}\u200b", f"{n}\u0301"])
    return text[:begin] + other + text[end:]


def change_text(rng, text):
    rows = text[:-1].split("\n")
    at, to = rng.randrange(len(rows)), rng.randrange(len(rows))
    kind = rng.randrange(14)
    if kind < 4:
        return number_at(rng, text)
    if kind == 4:
        return text.replace("\n", rng.choice(["\r\n", "\r", "\n\n", "\x0b", "\u2028", "\u0085", ";", "\n "]), rng.choice([1, -1]))
    if kind == 5:
        i = rng.randrange(len(text))
        return text[:i] + rng.choice(["\0", "\t", " ", "\ufeff", "\u00a0", "\u202e", "\x1b[2J", "\x7f", "\\", '"', "|", "&", ":"]) + text[i:]
    if kind == 6:
        return text.translate({ord(c): ord(o) for c, o in [rng.choice([("a", "\u0430"), ("e", "\u0435"), ("o", "\u043e"), ("l", "L"), ("l", "1"), (" ", "\u2009"), ("-", "\u2212"), (":", "\uff1a")])]})
    if kind == 7:
        rows.insert(at, rows[to])
    elif kind == 8:
        rows[at], rows[to] = rows[to], rows[at]
    elif kind == 9:
        del rows[at]
    elif kind == 10:
        rows.insert(at + rng.choice([0, 1]), rng.choice(WORDS))
    elif kind == 11:
        rows[at] += rng.choice([" | ", " | dense | ", " when ", " & ", ""]) + rng.choice(WORDS + ("distance 1..", "key ..2"))
    elif kind == 12:
        terms = rows[at].split(": ", 1)
        parts = terms[-1].split(" | ")
        rng.shuffle(parts)
        rows[at] = ": ".join(terms[:-1] + [" | ".join(parts + [parts[0]] * rng.choice([0, 1]))])
    else:
        rows[at] = rows[at].replace("layers all", rng.choice(["all", "layers 0::1", "layers 0-", "layers", "heads all", "layers all kv all"]), 1) if "layers all" in rows[at] else rows[at][:rng.randrange(len(rows[at]) + 1)]
    return "\n".join(rows) + "\n"


def crossed(rng, text, other):
    """A text with a line of another, instead of one of its own or beside it."""
    rows = text[:-1].split("\n")
    at = rng.randrange(len(rows))
    rows[at:at + rng.choice([0, 1])] = [rng.choice(other[:-1].split("\n"))]
    return "\n".join(rows) + "\n"


def certificate(text, claims, version="1", n=None, digest=None, end="end\n"):
    return f"s2cert {version} {digest or hashlib.sha256(text).hexdigest()} {len(text) if n is None else n}\n".encode() + text + f"claims{claims}\n{end}".encode()


def mutant(rng, text, claims):
    """Bytes of a certificate, and the text under its hash."""
    if rng.random() < 0.7:
        text = change_text(rng, text.decode()).encode("utf-8", "surrogatepass")
        return certificate(text, " " + rng.choice(claims)), text
    own, n = " " + rng.choice(claims), len(text)
    return rng.choice([
        lambda: certificate(text, rng.choice(CLAIMS)), lambda: certificate(text, own + rng.choice(CLAIMS)),
        lambda: certificate(text, own, version=rng.choice(["0", "2", "1.0", "01", "", "1 ", "I", "\uff11"])),
        lambda: certificate(text, own, n=rng.choice([n - 1, n + 1, 0, f"0{n}", f"+{n}", 2**32 + n, 2**64 + n, -n, f"{n} 1"])),
        lambda: certificate(text, own, digest=rng.choice([hashlib.sha256(text).hexdigest().upper(), hashlib.sha256(text + b"\n").hexdigest(), "0" * 64, hashlib.sha1(text).hexdigest()])),
        lambda: certificate(text, own, end=rng.choice(["END\n", "", "end", "end\n\n", "end\n\0", "end\r\n", "\nend\n", "end\nend\n", "claims rows\nend\n"])),
        lambda: certificate(text, own) + certificate(text, own), lambda: certificate(text, own)[: rng.randrange(1, n + 80)],
        lambda: b"\xef\xbb\xbf" + certificate(text, own), lambda: certificate(text, own).replace(b"\n", b"\r\n"),
    ])(), text


# ---- the campaign

def run(*words):
    return subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL)


class Campaign:
    def __init__(self, programs, seed, folder):
        self.programs, self.seed = programs, seed
        self.text_at, self.cert_at = os.path.join(folder, "p.s2"), os.path.join(folder, "p.cert")
        self.asked = self.violated = self.changed = self.changed_verified = self.near = self.near_verified = self.faults = 0
        self.true = []   # texts and the claims of them that were verified
        self.counts = dict.fromkeys(EXITS.values(), 0)

    def program(self, name):
        return os.path.join(self.programs, name)

    def write(self, path, data):
        with open(path, "wb") as out:
            out.write(data)

    def certify(self, data):
        self.write(self.cert_at, data)
        done = run(self.program("s2cert"), self.cert_at)
        self.asked += 1
        self.counts[EXITS.get(done.returncode, "malformed")] += 1
        if done.returncode not in EXITS or any(b < 32 and b != 10 or b == 127 for b in done.stderr + done.stdout):
            self.fault(f"exit {done.returncode}, {done.stderr[:200]!r}", data)
        return EXITS.get(done.returncode)

    def fault(self, why, data):
        self.faults += 1
        print(f"{why}:\n{data.decode(errors='backslashreplace')}", flush=True)

    def prove(self, claims):
        """The prover's verdicts for every length, by claim; None: it ended otherwise."""
        done = run(self.program("s2check"), "--json", "--require", ",".join(claims), self.text_at)
        if done.returncode not in (0, 1, 4) or not done.stdout.startswith(b"{"):
            return None
        return {p["name"]: p["verdict"] if p["scope"] == "all" or p["verdict"] == "violated" else "unknown" for p in json.loads(done.stdout)["properties"]}

    def honest(self, rng, pattern, text, claims, bad):
        proved, verified = self.prove(claims) or {}, []
        for claim in claims:
            said, prover = self.certify(certificate(text, " " + claim)), proved.get(claim, "unknown")
            self.violated += claim in bad
            verified += [claim] if said == "verified" else []
            wrong = said == "verified" and (claim in bad or prover == "violated") or said == "refuted" and prover == "holds" or said == "malformed"
            if wrong or (claim in bad and prover == "holds"):
                self.fault(f"{claim}: s2cert says {said}, the prover {prover}, the windows {'violated' if claim in bad else 'nothing'}", pattern.text.encode())

        if verified:
            self.true.append((text, verified))

    def neighbour(self, rng):
        """The claims of a true certificate for a pattern that is nearly its own, in the words that s2 prints."""
        text, claims = rng.choice(self.true)
        other = change_text(rng, text.decode()) if rng.random() < 0.5 else crossed(rng, text.decode(), rng.choice(self.true)[0].decode())
        self.write(self.text_at, other.encode("utf-8", "surrogatepass"))
        shown = run(self.program("s2"), "show", "--canonical", self.text_at)
        if shown.returncode != 0 or shown.stdout == text:
            return
        self.write(self.text_at, shown.stdout)
        data = certificate(shown.stdout, " " + " ".join(claims))
        said, proved = self.certify(data), self.prove(claims)
        self.near, self.near_verified = self.near + 1, self.near_verified + (said == "verified")
        wrong = said in ("verified", "refuted") if proved is None else said == "malformed"
        if wrong or said == "verified" and "violated" in proved.values() or said == "refuted" and set(proved.values()) == {"holds"}:
            self.fault(f"a neighbour of a true certificate is {said}; prover: {proved}", data)

    def change(self, rng, text, claims):
        data, inner = mutant(rng, text, claims)
        said = self.certify(data)
        self.changed += 1
        if said not in ("verified", "refuted") or b"\nclaims" not in data:
            return
        self.write(self.text_at, inner)
        shown = run(self.program("s2"), "show", "--canonical", self.text_at)
        asked = data[data.rindex(b"\nclaims") + 7:].split(b"\n")[0].decode(errors="replace").split()
        proved = self.prove(asked) if said == "verified" else {}
        self.changed_verified += said == "verified"
        if said == "verified" and (shown.stdout != inner or proved is None or any(v == "violated" for v in proved.values())):
            self.fault(f"a changed text is {said}; canonical: {shown.stdout == inner}, prover: {proved}", data)

    def draw(self, nth):
        rng = random.Random(f"far/{self.seed}/{nth}")
        pattern = Pattern(rng)
        self.write(self.text_at, pattern.text.encode())
        shown = run(self.program("s2"), "show", "--canonical", self.text_at)
        if shown.returncode != 0:
            if b"S2P040" not in shown.stderr:   # conditions that exclude each other
                self.fault(f"s2 show ends with {shown.returncode}: {shown.stderr.decode()}", pattern.text.encode())
            return
        ranks, depth = rng.choice([r for r in range(1, pattern.heads + 1) if pattern.heads % r == 0]), rng.randint(1, pattern.layers)
        claims = ["rows", "union", "kv", "group", f"ranks:{ranks}", f"depth:{depth}"] + (["shards"] if pattern.causal else [])
        self.honest(rng, pattern, shown.stdout, claims, violations(rng, pattern, ranks, depth))
        for _ in range(CHANGES):
            self.change(rng, shown.stdout, claims)
        for _ in range(NEIGHBOURS if self.true else 0):
            self.neighbour(rng)


run_campaign(Campaign, lambda c: (
    "claims", f"{c.changed} of them of changed texts and {c.near} of neighbours of verified ones",
    f"{c.changed_verified} of changed texts, {c.near_verified} of neighbours", "violated in the windows"))
