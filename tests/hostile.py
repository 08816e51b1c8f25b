#!/usr/bin/env python3
"""Patterns that ask for as much work as their bytes allow, through every command that takes one.

A command answers, or ends with a stated exit code and a word, within S2_CPU_SECONDS (10) of processor time and 1 GiB of memory.
Where all heads differ it must be steps that end it, counted where the work is done: there the net that ends any command
of one page is at 60 s, and nothing may fall into it, but for commands on several patterns, and for requests, whose
steps grow with the time that is allowed: what ends them is their time, which is that of one.
--many N puts N of them, and a tame one before and behind, into one call of each command that takes several (the program's own
help says which): the whole call has the limits of one, and where steps are shared (`check`, `sim`) the tame ones are answered, the one
behind where it asks one thing.
`validate` runs kernels for as long as they take and is left out.
usage: hostile.py S2 [--cases N] [--seed N] [--only COMMAND] [--case N] [--many N]   the last line is "N passed, N failed"
"""
import argparse
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile

# The commands stop themselves at that time; what does not stop is ended 2 s later, and is a defect.
CPU_S, NET_S, MEMORY_KIB = int(os.environ.setdefault("S2_CPU_SECONDS", "10")), 60, 1 << 20
FALLEN = b"of processor time; try"   # what the net says
STATED = {0, 1, 2, 3, 4, 5}
PRIMES = (65521, 65519, 65497, 65479, 65449, 65447, 16381, 4093, 1021, 509, 251, 127, 61, 31, 7, 3)
COMMANDS = (
    ("check",), ("check", "--engine", "enumerate"), ("check", "--engine", "both"), ("check", "--pair", "LAST,0"), ("check", "--query", "LAST"),
    ("check", "--require", "union,rows,kv,group,shards,ranks:2,depth:1"), ("check", "--certificate", "OUT"),
    ("show",), ("show", "--canonical"), ("reach",), ("mask", "-o", "OUT"), ("mask", "-f", "csr", "-o", "OUT"), ("diff", "AGAIN"), ("diff", "OTHER"),
    ("sim",), ("sim", "--phase", "all"), ("sim", "--phase", "decode", "--bounds"), ("sim", "--phase", "train"), ("sim", "--compare"),
    ("sim", "--tp", "8"), ("sim", "--batch", "max"), ("draw", "--as", "svg", "-o", "OUT"), ("draw", "--as", "ascii"),
    ("draw", "--what", "shards", "--as", "png", "-o", "OUT"), ("draw", "--what", "flow", "--as", "dot", "-o", "OUT"),
    ("draw", "--what", "kv", "--as", "svg", "-o", "OUT"), ("search", "--limit", "8"), ("search", "--phase", "prefill,decode,train"), ("search", "--minimize", "us,dilution,hops,fading"),
    ("import", "--terms"), ("tui", "--dump", "designs"), ("tui", "--dump", "design"), ("tui", "--dump", "compare"), ("tui", "--dump", "reach"), ("sim", "--requests", "MIX"), ("sim", "--requests", "MIX", "--chunk", "512"), ("export", "--to", "csr", "--tp", "8", "--force", "-o", "OUT"),
) + tuple(words + ("AGAIN", "OTHER") * 2 for words in (("sim",), ("sim", "--phase", "all"), ("check",)))
TAME = "name tame; layers 2; heads 8; kv-heads 8; head-dim 64; block 64; layers all: local 2 | stride 8 phase head"
FORMATS = "hf vllm trtllm dkernel megatron duo layers minference deepspeed csr flashinfer flex cute bsa npy c".split()


def number(rng, top):
    return rng.choice((1, 2, 3, rng.choice(PRIMES), top - 1, top, rng.randint(1, top), 2 ** rng.randint(0, 24)))


def term(rng, n_blk, block):
    most = (1 << 24) // block

    def n():
        return max(1, min(number(rng, n_blk), most))

    def between():
        first = n() // 2
        return "%d..%s" % (first, rng.choice(("", str(first + 1 + n() // 2))))

    suffix = rng.choice(("", "", " phase head", " phase kv", " phase layer", " phase head*3+1"))
    return rng.choice((
        lambda: "local %d" % n(), lambda: "local %dt" % n(), lambda: "sink %d" % n(),
        lambda: "stride %d%s" % (max(2, min(n(), 65535)), suffix), lambda: "dilated %d%s" % (max(2, min(n(), 65535)), ""),
        lambda: "chunk %d" % n(), lambda: "dense",
        lambda: "random %d seed %d" % (min(n(), 1000), rng.randint(0, 9)),
        lambda: "columns " + ",".join(str(c) for c in sorted({rng.randint(0, max(1, n_blk - 1)) for _ in range(rng.choice((1, 50, 400)))})),
        lambda: "stride %d%s when distance %s" % (rng.choice(PRIMES[:6]), suffix, between()),
        lambda: "local %d when query %d.." % (n(), n() // 2),
        lambda: "pages %d page %d" % (rng.randint(1, 64), rng.choice((16, 64, 128))),
        lambda: "heavy %d" % n(), lambda: "topk %d" % n(),
    ))()


def pattern(rng):
    """A text and a length. Most parse; one that does not is as good a question."""
    length = rng.choice((1, 1000, 8192, 131072, 1 << 20, (1 << 24) - 1, 1 << 24))
    block = rng.choice((1, 1, 16, 64, 64, 128))
    heads = rng.choice((1, 2, 8, 64, 64, 1024, 4096))
    layers = rng.choice((1, 1, 1, 4, 80, 1024))
    n_blk = max(1, length // block)
    parts = ["layers %d" % layers, "heads %d" % heads, "block %d" % block]
    if rng.random() < 0.3:
        parts.append("kv-heads %d" % rng.choice([k for k in (1, 2, 8, heads) if heads % k == 0]))
    parts.append("layers all: " + " | ".join(term(rng, n_blk, block) for _ in range(rng.choice((1, 2, 3, 3, 6, 24)))))
    for _ in range(rng.choice((0, 0, 1, 40))):
        parts.append("heads %d: %s" % (rng.randint(0, heads - 1), " | ".join(term(rng, n_blk, block) for _ in range(2))))
    return "; ".join(parts), length


def crowd(rng):
    """Heads that all differ: nothing that is found for one serves another."""
    length = rng.choice((8192, 131072, 131072, 1 << 20, 1 << 24))
    block = rng.choice((1, 16, 64, 64, 128))
    heads = rng.choice((100, 128, 128, 256, 1024))
    layers = rng.choice((1, 4, 32, 80))
    n_blk = max(1, length // block)
    own = rng.choice((
        lambda head: "random %d seed %d" % (rng.choice((1, 8, 64, 64, 256, 1000)), head + rng.randint(0, 9)),
        lambda head: "stride %d phase head*%d+%d" % (rng.choice(PRIMES[:12]), head + 1, head),
        lambda head: "stride %d when distance %d.. | dilated %d" % (rng.choice(PRIMES[:12]), head, head + 2),
        lambda head: "chunk %d" % (head + rng.choice((2, 100, 4000))),
        lambda head: "local %dt | columns %s" % (head + 1, ",".join(str(c) for c in sorted({rng.randint(0, n_blk - 1) for _ in range(rng.choice((1, 50)))}))),
        lambda head: "local %d when query %d.. | random 8 seed %d" % (head + 1, head, head),
        lambda head: term(rng, n_blk, block),
    ))
    parts = ["layers %d" % layers, "heads %d" % heads, "block %d" % block]
    parts.append("kv-heads %d" % rng.choice([k for k in (1, 2, 4, heads, heads) if heads % k == 0]))
    parts.append("layers all: local 4")
    each = rng.choice((1, 1, min(layers, 8)))   # so many kinds of layers
    for head in range(min(heads, 4096 // each)):
        for kind in range(each):
            place = "heads %d" % head if each == 1 else "layers %d::%d heads %d" % (kind, each, head)
            parts.append("%s: %s%s" % (place, rng.choice(("", "local 4 | ", "sink 1 | ")), own(head + kind)))
    return "; ".join(parts), length


def draw(rng, only):
    """A command, a pattern, another one and a length."""
    differ = rng.random() < 0.3
    text, length = crowd(rng) if differ else pattern(rng)
    words = rng.choice(COMMANDS)
    if rng.random() < 0.3:
        words = export_to(rng.choice(FORMATS))
    if only:
        words = rng.choice([c for c in COMMANDS if c[0] == only] or [words])
    return differ, words, text, pattern(rng)[0], length


def export_to(name):
    return ("export", "--to", name, "--force", "-o", "OUT")


def call(s2, folder, words, text, other, length):
    names = {"OUT": folder + "/out", "MIX": folder + "/mix.csv", "AGAIN": text, "OTHER": other, "LAST": str(length - 1), "LAST,0": "%d,0" % (length - 1)}
    asked, words = words, [names.get(word, word) for word in words]
    for left in os.listdir(folder):
        if left.startswith("out"):
            os.remove(folder + "/" + left) if os.path.isfile(folder + "/" + left) else shutil.rmtree(folder + "/" + left)
    if words[0] == "import":
        words.insert(1, folder + "/pattern.s2")
        with open(folder + "/pattern.s2", "w", encoding="ascii") as out:
            out.write(text)
        return [s2] + words
    if "MIX" in asked:
        rng = random.Random(text)
        with open(folder + "/mix.csv", "w", encoding="ascii") as out:
            out.write("prompt,output\n" + "".join("%d,%d\n" % (rng.randint(1, length), rng.choice((1, 9, 300))) for _ in range(rng.choice((3, 60, 3000)))))
    if words[0] == "tui":   # a screen is about a design that is stored, at the length at which it is priced
        fresh = folder + "/screen.db"
        for left in [left for left in os.listdir(folder) if left.startswith("screen.db")]:
            os.remove(folder + "/" + left)
        with open(folder + "/pattern.s2", "w", encoding="ascii") as out:
            out.write(text)
        for asked in (("check", "--len", "1"), ("sim", "--len", str(length))):
            subprocess.run([s2, "--db", fresh, *asked, folder + "/pattern.s2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return [s2, "--db", fresh] + words + ["--no-session", "--size", "160x50"]
    bare = "--certificate" in words or "MIX" in asked   # for every length, or for those of requests
    if len(text) > 100000:   # more than the system takes as a word
        with open(folder + "/pattern.s2", "w", encoding="ascii") as out:
            out.write(text)
        text = folder + "/pattern.s2"
        words = [text if word == names["AGAIN"] else word for word in words]
    return [s2] + words + ([] if bare else ["--len", str(length)]) + [text]


def run(words, folder, most_s=CPU_S):
    def limits():
        resource.setrlimit(resource.RLIMIT_CPU, (most_s + 2, most_s + 3))
        resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 20, 256 << 20))

    with open(folder + "/stdout", "wb") as out, open(folder + "/stderr", "wb") as err:
        child = subprocess.Popen(words, env=dict(os.environ, S2_DB=folder + "/hostile.db", S2_CPU_SECONDS=str(most_s)), stdout=out, stderr=err, stdin=subprocess.DEVNULL, cwd=folder, preexec_fn=limits)
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = 0
    code = os.waitstatus_to_exitcode(status)
    with open(folder + "/stderr", "rb") as err:
        spoken = err.read()
        said = spoken or os.path.getsize(folder + "/stdout") > 0
    why = []
    if code not in STATED:
        why.append("exit %d" % code)
    if code > 1 and not said:
        why.append("exit %d without a word" % code)
    if used.ru_utime + used.ru_stime > most_s + 1 or (most_s > CPU_S and FALLEN in spoken):
        why.append("%.1f s of processor time" % (used.ru_utime + used.ru_stime))
    if used.ru_maxrss > MEMORY_KIB:
        why.append("%.1f GiB" % (used.ru_maxrss / 2**20))
    return code, why


def tame(s2, folder):
    """The commands that refuse a pattern that asks for nothing: their words are wrong, and no case would try them."""
    wrong = []
    for words in COMMANDS + tuple(export_to(name) for name in FORMATS):
        code, why = run(call(s2, folder, words, TAME, TAME, 4096), folder)
        if code > 1 or why:
            with open(folder + "/stderr", encoding="utf-8", errors="replace") as err:
                wrong.append("%s: exit %d: %s" % (" ".join(words), code, err.read(200)))
    return wrong


WAYS = {"check": ((), ("--engine", "both"), ("--require", "union,rows,kv,group")), "sim": ((), ("--phase", "all"), ("--batch", "max"), ("--compare",))}
SHARED = ("check", "sim")


def take_several(s2):
    """The commands whose synopsis takes PATTERN..., from the help."""
    def said(*words):
        return subprocess.run([s2, *words], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^  ([a-z]+) +[a-z]", said("help").split("exit codes")[0], re.M)
    return [name for name in names if "PATTERN..." in said("help", name).splitlines()[0] and name != "validate"]


def many(s2, folder, seed, n):
    """Each command on n hostile patterns at once; what is wrong, and how often each exit code was seen."""
    rng, files, wrong, codes = random.Random("many/%d" % seed), [], [], {}
    for case in range(n):
        text = (crowd if rng.random() < 0.5 else pattern)(rng)[0]
        files.append("%s/many-%d.s2" % (folder, case))
        with open(files[-1], "w", encoding="ascii") as out:
            out.write(text)
    commands = take_several(s2)
    if not set(SHARED) <= set(commands):
        wrong.append("the help names no command on several patterns: " + " ".join(commands))
    def answers():
        with open(folder + "/stdout", encoding="utf-8", errors="replace") as out:
            return len(re.findall(r"^tame\b", out.read(), re.M))
    for name in commands:
        for way in WAYS.get(name, ((),)):
            run([s2, name, *way, "--len", "128k", TAME, TAME], folder)
            expected = answers() // (2 if {"all", "max"} & set(way) else 1)
            code, why = run([s2, name, *way, "--len", "128k", TAME, *files, TAME], folder)
            codes[code] = codes.get(code, 0) + 1
            if name in SHARED and "both" not in way and answers() < expected:
                with open(folder + "/stderr", encoding="utf-8", errors="replace") as err:
                    why.append("%d answers to the tame patterns, not %d: %s" % (answers(), expected, err.read()[-200:]))
            if why:
                wrong.append("%s of %d: %s" % (" ".join((name, *way)), n, ", ".join(why)))
    return wrong, codes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("s2")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    parser.add_argument("--case", type=int, help="this one alone")
    parser.add_argument("--many", type=int, help="so many in one call of each command that takes several")
    ask = parser.parse_args()
    failed, codes = 0, {}
    if ask.many is not None:
        with tempfile.TemporaryDirectory(prefix="s2-hostile-") as folder:
            wrong, codes = many(os.path.abspath(ask.s2), folder, ask.seed, ask.many)
        print("\n".join(wrong + ["many: exit codes " + ", ".join("%d: %d" % pair for pair in sorted(codes.items()))]))
        print("%d passed, %d failed" % (sum(codes.values()) - len(wrong), len(wrong)))
        return len(wrong) > 0
    with tempfile.TemporaryDirectory(prefix="s2-hostile-") as folder:
        s2 = os.path.abspath(ask.s2)
        refused = tame(s2, folder)
        for line in refused:
            print(line)
        failed += len(refused)
        for case in range(ask.cases) if ask.case is None else [ask.case]:
            rng = random.Random("%d/%d" % (ask.seed, case))
            differ, *drawn = draw(rng, ask.only)
            words = call(s2, folder, *drawn)
            several = drawn[0].count("AGAIN") > 1 or "MIX" in drawn[0]
            code, why = run(words, folder, NET_S if differ and not several else CPU_S)
            codes[code] = codes.get(code, 0) + 1
            if why:
                failed += 1
                print("case %d: %s: %s" % (case, ", ".join(why), " ".join("'%s'" % w if " " in w else w for w in words[1:])[:600]), flush=True)
    print("hostile: exit codes " + ", ".join("%d: %d" % pair for pair in sorted(codes.items())))
    print("%d passed, %d failed" % ((ask.cases if ask.case is None else 1) - failed + len(refused), failed))
    return failed > 0


sys.exit(main())
