#!/usr/bin/env python3
"""What every page for people keeps to, on random designs, lengths and magnitudes: no number with an exponent, none that is not
finite, and a unit or a name behind each that has a decimal point; and no line drawn over another where no terminal reads it.
usage: tests/pages.py DIR_OF_PROGRAMS   S2_SEED, S2_CASES   last line: N held, N did not"""
import os
import random
import re
import subprocess
import sys
import tempfile

from tally import end, hold

PROGRAMS = os.path.abspath(sys.argv[1])
SEED, CASES = int(os.environ.get("S2_SEED", "20261123")), int(os.environ.get("S2_CASES", "6"))

EXPONENT = re.compile(r"(?<![\w.])\d+(?:\.\d+)?[eE][+-]\d+\b")
NOT_FINITE = re.compile(r"(?<![\w-])-?(?:nan|inf)(?![\w-])")
# An error is a mean, an allowance or a root mean square, and says which.
LIMIT = re.compile(r"(?:\+-|±) ?\d|\boff by \d|\berrors? (?:of )?up to|(?<!mean )(?<!rms )\berror (?:of )?\d[\d.]* %")
# What may stand behind a number with a decimal point: a unit, or what it is a share or a multiple of.
UNIT = re.compile(r" ?(?:us|ms|s|min|h|B|[KMGTP]iB|GB|%|x|MHz|[kMGTPE]?FLOP|tokens|blocks|steps|key blocks|times|of (?:dense|the|all|causal)|"
                  r"executed|exponentials|nats|\* 10\^9 weights|different)(?!\w)| ?[kMGTPE] (?:executed|exponentials|steps|key blocks)")
NAMED = re.compile(r"(?:--gpu-memory-utilization|ratio of|recall|error|allowed|LSE|scores capped at|(?:density|unread|dilution|fading|imbalance|depth)(?:   |: [\d.]+ against|:)) $")
# Columns carry their names above them, and a label of this page its quantity.
LABEL = re.compile(r"^ +tokens of output a s ")
PICTURE = re.compile(r" +\d+  [\d.+X]+$")  # a row of pairs: digits are heads, dots are unread


# Words of any language reference that a page need not explain; all others `s2 explain` must know.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "data/plain-words.txt"), encoding="utf-8") as plain_words:
    PLAIN = set(plain_words.read().split())
WORD = re.compile(r"(?<![\w./-])[a-z][a-z_]*(?:-[a-z]+)*(?![\w/…]|\.\w)", re.I)  # what a screen cuts with "…" is no word
seen = {}


def note_words(call, text):
    """Keep each new word of a page; names and numbers that the command was given, hashes and paths are none."""
    given = set(re.findall(r"[a-z_-]+", call.lower()))
    for word in WORD.findall(text):
        seen.setdefault(word.lower(), call) if word.lower() not in given else None


def language():
    """The words of the grammar and of the tables of docs/pattern-language.md, in code and lower case."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../docs/pattern-language.md"), encoding="utf-8") as page:
        text = page.read()
    grammar = "".join(re.findall(r"^text +=.*?^```", text, re.M | re.S))
    rows = " ".join(re.findall(r"^\| `([^`]*)` \|", text.partition("## Canonical")[0], re.M))
    return (set(re.findall(r'"([a-z][a-z-]+)"', grammar)) | set(re.findall(r"[a-z][a-z-]{2,}", rows))) - {"all", "yes", "no", "or", "npy"}


def check_explained():
    """Every word that a page, a table or a screen printed is plain English, or s2 explain knows it."""
    asked = sorted({word for word in seen if word not in PLAIN} | language())
    said = "".join(run("s2", "explain", word).stderr for word in asked)
    for word in asked:
        hold(f"s2 explain: {word}:" not in said, f"S2_SEED={SEED}: {seen.get(word, 'docs/pattern-language.md')}: prints {word!r}, which neither s2 explain nor tests/data/plain-words.txt knows")


def unitless(page):
    """Numbers with a decimal point that nothing names, outside of tables: a table's rows have gaps of two blanks or more."""
    for line in page.splitlines():
        cells = re.findall(r"(?<!\S)[\d.]+(?: ?[A-Za-z%]+)?(?=  |$)", line)
        if len(cells) >= 2 or LABEL.match(line) or PICTURE.match(line):
            continue
        for found in re.finditer(r"(?<![\w.-])\d+\.\d+(?![\w.-]*[\d])", line):
            if not UNIT.match(line[found.end():]) and not NAMED.search(line[:found.start()]):
                yield found[0] + " in: " + line


def run(*words, cwd=None):
    env = dict(os.environ, PATH=PROGRAMS + ":" + os.environ["PATH"], S2_DB=os.path.join(folder, "s2.db"), COLUMNS="120", TERM="xterm")
    return subprocess.run(words, capture_output=True, text=True, env=env, cwd=cwd, timeout=900)


def check(*words, sentences=True, refused=False):
    """Run it, and hold what it prints on both streams to the rules; what it answers. A call that is refused tries nothing, unless that is asked."""
    done = run(*words)
    call = " ".join(re.sub(r"\s+", " ", word) if " " not in word else f"'{word}'" for word in words)
    for name, text in (("output", done.stdout), ("messages", done.stderr)):
        for rule, found in (("an exponent", EXPONENT.search(text)), ("a number that is not finite", NOT_FINITE.search(text)),
                            ("an error that reads as a limit", LIMIT.search(text)), ("a line drawn over another", re.search(r"[\r\x1b]", text))):
            hold(not found, f"S2_SEED={SEED}: {call}: {name} with {rule}: {text[max(0, found.start() - 60):found.end() + 20]!r}" if found else "")
    if words[1] != "doctor": # it prints what the machine calls itself
        note_words(call, done.stdout)
    bad = list(unitless(done.stdout)) if sentences else []
    hold(not bad, f"S2_SEED={SEED}: {call}: a number without a unit: {bad[:1]}")
    hold(done.returncode >= 0, f"S2_SEED={SEED}: {call}: killed by signal {-done.returncode}")
    hold((done.returncode == 2) == refused, f"S2_SEED={SEED}: {call}: exit {done.returncode}: {done.stderr[:300]}")
    return done


def power(rng, most):
    """A whole number of any magnitude up to `most`."""
    return max(1, min(most, int(2 ** rng.uniform(0, most.bit_length()))))


def draw(rng):
    group, kv, layers = rng.choice([1, 2, 4, 8]), rng.choice([1, 2, 4]), rng.choice([1, 2, 5])
    block = rng.choice([16, 64, 128])
    body = f"local {power(rng, 64)} | stride {rng.randint(1, 2 * kv)} phase {rng.choice(['head', 'kv'])}"
    last = rng.choice(["", "; layers 0: dense", "; kv 0: dense", "; layers all: local 1"])
    return f"layers {layers}; heads {group * kv}; kv-heads {kv}; head-dim {rng.choice([1, 64, 80, 128])}; block {block}; layers all: {body}{last}"


def draw_gpu(rng, path):
    """A GPU whose every number is anywhere between its limits."""
    sizes = {"sms": 4096, "boost_mhz": 10000, "tensor_mhz": 10000, "bf16_tflops": 10**6, "fp8_tflops": 10**6, "mufu_per_clk_sm": 1024,
             "smem_kib": 4096, "l2_mib": 4096, "l2_tb_s": 1000, "hbm_gb": 10000, "hbm_gb_s": 10**6, "nvlink_gb_s": 10**5,
             "pcie_gb_s": 10**5, "power_w": 10000, "launch_us": 1000}
    with open(path, "w") as out:
        out.write("title Any GPU # none\nhbm_fraction 0.9 # none\n")
        for key, most in sizes.items():
            out.write(f"{key} {max(100 if key.endswith('mhz') else 1, power(rng, most))} # none\n")


def draw_requests(rng, path):
    with open(path, "w") as out:
        out.write("prompt, output, arrival\n")
        at = 0.0
        for _ in range(rng.randint(1, 3)):
            out.write(f"{power(rng, 32768)}, {power(rng, 512)}, {at:.9f}\n")
            at += 10 ** rng.uniform(-9, 9)


def check_prices(rng):
    pattern, gpu, mix = draw(rng), os.path.join(folder, "any.txt"), os.path.join(folder, "mix.csv")
    draw_gpu(rng, gpu)
    draw_requests(rng, mix)
    at = ("--len", str(power(rng, 1 << 17)), "--no-db", "--gpu", rng.choice([gpu, "h200", "b200", "a6000"]), "--batch", str(power(rng, 4096)))
    check("s2", "sim", pattern, *at, "--phase", rng.choice(["prefill", "decode", "train", "all"]), *rng.choice([(), ("--bounds",)]))
    check("s2", "sim", pattern, draw(rng), *at)
    check("s2", "sim", "--requests", mix, pattern, "--no-db", "--gpu", rng.choice([gpu, "h200"]))
    check("s2", "reach", pattern, "--len", str(power(rng, 4096)))
    check("s2", "show", pattern, "--len", str(power(rng, 8192)))
    check("s2", "check", pattern, "--no-db")


def check_records(rng):
    """What a search found, on every page that shows it."""
    space = f"layers 2; heads 4; kv-heads 2; all: local {{{power(rng, 32)},33,40..44}} | stride {{2..5}} phase {{head,kv}}"
    at = ("--len", str(4096 + power(rng, 8192)), "--batch", str(power(rng, 64)))  # shorter, nothing beats dense attention, and nothing is stored
    gpu = os.path.join(folder, "any.txt")
    check("s2", "search", space, *at, "--phase", rng.choice(["prefill", "decode", "prefill,decode", "train"]), *rng.choice([(), ("--bounds",)]))
    check("s2", "search", space, *at, "--no-db", "--gpu", gpu, "--minimize", "us,density,depth,dilution,hops,fading")
    check("s2", "search", space, *at, "--no-db", "--at-most", "us=" + rng.choice(["0.000001us", "900h", "5ms"][::2]))
    for view in ("bench", "designs", "design", "compare", "pareto", "record", "runs", "reach"):
        note_words("s2 tui --dump " + view, run("s2", "tui", "--dump", view).stdout)
    for words in (("ls",), ("ls", "--columns", "us,kv_bytes,unread,density,priced"), ("pareto",), ("ls", "--format", "csv")):
        check("s2", *words, sentences=False)


def check_searches():
    """What a search says of a cache that spills, of a step that does not fit, of a long front and of its own plan."""
    for question in ("llama-2-70b, 2 x H100 SXM, 128k, decode, batch 64, fp8 weights, hf", "llama-2-70b, 8 x H200, 128k, train, dp 2"):
        check("s2", "search", question, "--limit", "6", "--no-db", "-q")
    check("s2", "search", "layers 4; heads 16; kv-heads 4; layers all: local {4..40:4} {,| sink 1} | stride {2..16:2} phase {head,kv}", "--len", "16k", "--bounds", "--no-db")


def check_words():
    check("s2", "sim", "--list")
    check("s2", "sim", "x", "--gpu", os.path.join(folder, "bad.txt"))
    check("s2", "validate", "heads 2; all: local 4 | stride 2 phase head", "--device", "cpu", "--len", "64", "--no-db")
    check("s2", "search", "heads 8; all: local {1..64} | stride {1..64} phase head", "--at-most", "kv_bytes=50", "--no-db", refused=True)
    check("s2", "doctor", sentences=False)
    check("s2", "explain", "imbalance", sentences=False)
    model = "model llama-3.1-8b; all: local 16 | stride 8 phase kv"
    for more in (("--phase", "decode", "--tp", "2", "--batch", "300", "--len", "32k"), ("--phase", "train", "--recompute", "--dp", "2"), ("--phase", "all"), ("--compare",),
                 ("--phase", "train", "--len", "32k", "--batch", "16", "--tp", "2", "--cp", "2", "--pp", "4", "--dp", "4", "--nodes", "8"),
                 ("--phase", "decode", "--batch", "max", "--fusion", "eager"), ("--kernel-model", "vllm-h200")):
        check("s2", "sim", model if more[0] != "--kernel-model" else "heads 8; all: dense", "--no-db", *more)
    check("s2", "sim", "heads 8; all: topk 512", "--no-db", "--bounds")
    check("s2", "check", "heads 8; kv-heads 2; all: local 16 | stride 16 phase head", "--require", "rows,union,kv,group,shards,ranks:2,depth:3", "--no-db", sentences=False)


with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "bad.txt"), "w") as bad_gpu:
        bad_gpu.write("title Bad # none\nbf16_tflops 100000000 # none\n")
    chance = random.Random(SEED)
    check_words()
    check_searches()
    for _ in range(CASES):
        check_prices(chance)
    for _ in range(max(1, CASES // 4)):
        check_records(chance)
    check_explained()
end()
