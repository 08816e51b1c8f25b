#!/usr/bin/env python3
"""Mistakes that users make, each with the exit code and the words that its message must have: what is wrong and what would be
right. None may crash, go on for a second of work, or say nothing. usage: tests/mistakes.py DIR_OF_PROGRAMS   last line: N held, N did not"""
import copy
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

from tally import end, hold

PROGRAMS = os.path.abspath(sys.argv[1])
FOREIGN = pathlib.Path(__file__).resolve().parent / "data/foreign"
USAGE, REFUSED, UNDECIDED, ENVIRONMENT = 2, 3, 4, 5
OPERANDS = {"ls": [], "pareto": [], "tui": [], "doctor": [], "calibrate": [], "undo": [], "repro": [], "diff": ["heads 1; all: dense"] * 2, "tag": ["1", "x"], "note": ["1", "x"],
            "db": ["recover", "new.db"], "import": ["plan.json"]}
PATTERN = "heads 8; kv-heads 2; layers 2; all: local 4 | stride 4 phase kv"
READERS = ["check", "show", "reach", "mask", "sim", "validate", "export --to hf", "draw"]
ENV = dict(os.environ, PATH=PROGRAMS + ":" + os.environ["PATH"], LC_ALL="C.UTF-8", TERM="dumb", S2_DB="s2.db")


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (1, 2))


def become_nobody():
    limit()
    if os.getuid() == 0:
        os.setuid(65534)


def wrong(words, code, *said, before=limit):
    """Run it: the exit code is as expected, and standard error has each of `said`, a text or a pattern."""
    words = words.split() if isinstance(words, str) else words
    done = subprocess.run(words, capture_output=True, env=ENV, stdin=subprocess.DEVNULL, timeout=900, preexec_fn=before)
    err = done.stderr.decode(errors="replace")
    missing = [text for text in said if not (text.search(err) if isinstance(text, re.Pattern) else text in err)]
    odd = [c for c in err if (ord(c) < 32 and c != "\n") or c == "\x7f"]
    shown = [word[:80] + "..." if len(word) > 80 else word for word in words]
    hold(done.returncode == code and not missing and not odd and bool(err.strip()),
         f"{' '.join(map(repr, shown))}: exit {done.returncode}, expected {code}; not said: "
          f"{[getattr(text, 'pattern', text) for text in missing]}{'; control characters' if odd else ''}\n    {err.strip()[:300]}")


def options():
    """(command, option, is a flag, the values it is known to take) of the table that completion is made from."""
    text = subprocess.run(["s2", "help", "--completion", "fish"], capture_output=True, text=True, env=ENV).stdout
    for line in text.splitlines():
        found = re.match(r'complete -c s2 -n "__fish_seen_subcommand_from (\S+)" -l (\S+)(?: -s .)?(.*) -d', line)
        if found:
            values = re.search(r'-a "([^"]*)"', found[3])
            yield found[1], found[2], not re.search(r" -[xr]", found[3]), values[1].split() if values else [], " -F" in found[3]


def misspelled():
    commands = subprocess.run(["s2", "help", "--list"], capture_output=True, text=True, env=ENV).stdout.split()
    for command in commands:
        if len(command) > 3:
            wrong(["s2", command[:-1] + "zz"[: len(command) > 4]], USAGE, command[:-1], "did you mean " if len(command) > 4 else "s2 help")
        wrong(["s2", command, "--no-such-option"], USAGE, "--no-such-option")
        wrong(["s2", command.upper()], USAGE, command.upper(), re.compile(f"did you mean {command}|s2 help"))
    for command, option, flag, values, files in options():
        if len(option) > 4:
            typo = option[:-1] + ("q" if option.endswith("x") else "x")
            wrong(["s2", command, "--" + typo], USAGE, typo, "did you mean --")
        if flag:
            wrong(["s2", command, f"--{option}=1"], USAGE, option, "takes no value")
        else:
            wrong(["s2", command, "--" + option], USAGE, option, "needs a value")
        if option == "db":  # also after the command, and whatever that does with it
            for name, said in (("", "an empty name"), (":memory:", "./:memory:"), ("file:x", "./file:x")):
                wrong(["s2", command, *OPERANDS.get(command, [PATTERN]), f"--db={name}"], USAGE, said)
        if values and not files and option not in ("require", "exportable", "from"):
            operands = [] if command in ("ls", "pareto", "help", "tui", "calibrate", "import") else [PATTERN] * (2 if command == "diff" else 1)
            wrong(["s2", command, *operands, f"--{option}", "nonsense"], USAGE, "nonsense", values[0])


def database_as_file():
    """Who wrote to the database as to any file would replace all that it holds."""
    kept = pathlib.Path("s2.db").read_bytes()
    os.symlink("s2.db", "link.db")
    named = [(command, option) for command, option, _, _, files in options() if files and option not in ("db", "gpu", "model", "kernel")]
    for command, option in named:
        for name in ("s2.db", "./s2.db", os.path.abspath("s2.db"), "link.db"):
            wrong(["s2", command, *OPERANDS.get(command, [PATTERN]), f"--{option}={name}"], USAGE, f"--{option}", "is the database")
    os.remove("link.db")
    hold(len(named) > 8 and pathlib.Path("s2.db").read_bytes() == kept, f"{len(named)} options name files; the database changed")


def settings():
    """Settings of files of other stacks."""
    plan = {"indptr": [0, 1, 3], "indices": [0, 0, 1], "M": 32, "N": 32, "R": 16, "C": 16, "causal": True}
    for change, *said in (({"C": 8}, '"C"', "C must be R"), ({"N": 64}, '"N"', "N must be M"), ({"M": 40, "N": 40}, '"R"', "divides M"),
                          ({"R": 12, "C": 12, "M": 24, "N": 24}, '"R"', "a power of two")):
        with open("plan.json", "w") as file:
            json.dump(plan | change, file)
        column = 2 + json.dumps(plan | change).index(said[0]) + len(said[0] + ":")
        for words in ("import --from flashinfer plan.json", "check plan.json"):
            wrong(f"s2 {words} --no-db", REFUSED, f"plan.json:1:{column}: ", said[1])
    for words in (["import", "plan.json"], ["check", "plan.json"], ["show", "plan.json"], ["export", PATTERN, "--to", "vllm"]):
        wrong(["s2", *words, "--set", "seq_len=32", "--set", "seq_len=32"], USAGE, "--set seq_len is given twice")


def numbers():
    for command, option in (("check", "len"), ("sim", "len"), ("sim", "batch"), ("sim", "tp"), ("sim", "page"), ("mask", "layer"), ("mask", "len"),
                            ("show", "len"), ("reach", "len"), ("draw", "len"), ("validate", "batch"), ("validate", "len"), ("validate", "runs"),
                            ("validate", "timeout"), ("search", "len"), ("search", "limit"), ("search", "jobs"), ("search", "seed"), ("search", "tp")):
        for value in ("many", "-1", "1e9", "0x10", "99999999999999999999", "8 k", "8.5k", "１２"):
            wrong(["s2", command, PATTERN, f"--{option}={value}", "--no-db"] if command in ("check", "sim", "validate", "search") else
                  ["s2", command, PATTERN, f"--{option}={value}"], USAGE, f"--{option}", re.compile("expected|from 1 to"))


def files():
    """What is handed in place of a pattern."""
    with open("empty.s2", "w") as file:
        pass
    contents = {"binary.s2": bytes(range(256)) * 8, "picture.png": b"\x89PNG\r\n\x1a\n" + bytes(64), "zeros.s2": bytes(4096),
                "text.s2": b"Dear all, please find attached\n", "cut.json": b'{"model_type": "phi3small", "num_hidden', "list.json": b"[1, 2, 3]\n",
                "other.json": b'{"name": "left-pad", "version": "1.0.0"}\n', "cut.npy": b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran",
                "page.html": b"<!DOCTYPE html><html><body>404</body></html>\n", "bom.s2": "\ufeffheads 2; alll: local 4\n".encode(),
                "utf16.s2": "heads 2; all: local 4\n".encode("utf-16"), "crlf.s2": b"heads 2\r\nall: locl 4\r\n", "long.s2": b"heads 2; all: local 4 |" * 9000,
                "escape.s2": b"\x1b[2Jheads 2\n", "data.db": b"SQLite format 3\0" + bytes(200), "code.py": b"import torch\nprint(1)\n"}
    for name, content in contents.items():
        with open(name, "wb") as file:
            file.write(content)
    os.mkdir("folder")
    for command in READERS:
        base = ["s2", *command.split()]
        wrong([*base, "missing.s2"], REFUSED, "missing.s2", "no such file")
        wrong([*base, "local 4 | stride 2"], REFUSED, "no such file", "inline pattern")
        wrong([*base, "folder"], REFUSED, "folder", "config.json")
        wrong([*base, "empty.s2"], REFUSED, "empty.s2")
        wrong([*base, ""], REFUSED, "no such file")
    for name in contents:
        wrong(["s2", "check", name], REFUSED, name)
        wrong(["s2check", name], REFUSED, name)
    for option, command in (("--gpu", "sim"), ("--model", "sim"), ("--rows", "sim --accuracy"), ("--constants", "sim"), ("--gpu", "search"), ("--model", "search")):
        operands = [] if "accuracy" in command else [PATTERN]
        for name in ("picture.png", "empty.s2", "text.s2", "folder"):
            wrong(["s2", *command.split(), *operands, option, "./" + name], REFUSED, name)
        wrong(["s2", *command.split(), *operands, option, "./missing.txt"], REFUSED, "missing.txt", "o such file")
    for command in ("import picture.png", "import missing.json", "import folder", "import other.json", "import list.json", "import empty.s2"):
        wrong("s2 " + command, REFUSED, command.split()[1])
    for command in ("ls", "pareto", "db check", "db stat", "repro", "db merge s2.db"):
        for name in ("text.s2", "picture.png", "folder"):
            wrong(["s2", *command.split(), "--db", name], REFUSED, name, "database")
    wrong("s2 db merge missing.db", ENVIRONMENT, "missing.db")
    wrong("s2 db merge text.s2", REFUSED, "text.s2", "not a database")
    wrong(["s2", "mask", PATTERN, "-o", "no/such/folder/x"], ENVIRONMENT, "no/such/folder/x")
    wrong(["s2", "draw", PATTERN, "-o", "no/such/folder/x.svg"], ENVIRONMENT, "no/such/folder/x.svg")
    for shape in ("heads 16; ", "layers 2; ", "heads {32,16}; ", "head-dim 64; "):
        wrong(["s2", "search", shape + "layers all: local {4,8} | stride 2 phase head", "--model", "llama-3.1-8b", "--len", "8k"], USAGE,
              "model llama-3.1-8b has 32 layers, 32 heads, 8 KV heads of 128; the pattern has", "leave layers")
    wrong(["s2", "export", PATTERN, "--to", "c", "-o", "no/such/x.h"], ENVIRONMENT, "no/such/x.h")


def unseen():
    """What may be there and cannot be seen is not called missing: a folder without rights, a link to itself."""
    os.mkdir("locked")
    os.symlink("loop", "loop")
    for name in ("s2.db", "x.s2", "x.json", "x.cert"):
        with open(f"locked/{name}", "w") as file:
            file.write("heads 2; all: dense")
    os.chmod("locked", 0)
    os.mkdir("open")
    os.chmod("open", 0o777)
    os.chmod(".", 0o755)
    for name, why in (("locked/{}", "Permission denied"), ("loop", "Too many levels of symbolic links")):
        db, text, config, cert = (name.format(file) for file in ("s2.db", "x.s2", "x.json", "x.cert"))
        for words in (["ls"], ["pareto"], ["db", "check"], ["db", "gc"], ["db", "recover", "new.db"], ["tui", "--dump", "designs"], ["show", "a-name"], ["repro"],
                      ["star", "a-name"], ["undo"], ["check", PATTERN], ["export", PATTERN, "--to", "vllm"]):
            wrong(["s2", *words, "--db", db], ENVIRONMENT, db, why, before=become_nobody)
        seen = subprocess.run(["s2", "doctor", "--db", db], capture_output=True, text=True, env=ENV, preexec_fn=become_nobody)
        hold(seen.returncode == ENVIRONMENT and why in seen.stdout, f"s2 doctor --db {db}: exit {seen.returncode}, {seen.stdout}")
        wrong(["s2", "db", "merge", db, "--db", "open/own.db"], ENVIRONMENT, db, why, before=become_nobody)
        for words in (["check"], ["show"], ["sim"], ["search"], ["diff", PATTERN], ["draw"], ["mask"], ["reach"], ["export", "--to", "csr"], ["import"], ["validate"]):
            wrong(["s2", *words, text], REFUSED, text, why, before=become_nobody)
        for words in (["sim", PATTERN, "--gpu"], ["sim", PATTERN, "--model"], ["sim", PATTERN, "--constants"], ["search", "--model"], ["calibrate", "--from"], ["tui", "--script"]):
            wrong(["s2", *words, "./" + config], REFUSED, config, why, before=become_nobody)
        wrong(["s2cert", cert], REFUSED, why, before=become_nobody)
    os.chmod("locked", 0o700)
    shutil.rmtree("locked")
    shutil.rmtree("open")


def other_programs():
    """Options and operands as other programs have them are answered with ours."""
    for theirs, ours in (("tensor-parallel-size", "tp"), ("pipeline-parallel-size", "pp"), ("kv-cache-dtype", "kv-dtype"), ("max-model-len", "len"), ("seq-len", "len"),
                         ("context", "len"), ("block-size", "page"), ("quantization", "weights"), ("max-num-seqs", "batch"), ("batch-size", "batch"), ("ctx", "len")):
        for command in ("sim", "search"):
            wrong(["s2", command, PATTERN, f"--{theirs}=4", "--no-db"], USAGE, f"unknown option --{theirs}; did you mean --{ours}?")
    for option in ("tensor-parallel-size", "tp"):
        wrong(["s2", "check", PATTERN, f"--{option}", "4"], USAGE, f"unknown option --{option}; --require ranks:N proves what each of N GPUs reads")
    wrong(["s2", "check", PATTERN, "--require", "ranks:3"], USAGE, "ranks:3: 3 GPUs cannot share 8 heads evenly")
    wrong(["s2", "sim", PATTERN, "--tp", "3", "--no-db"], USAGE, "3 GPUs cannot share 8 heads")
    wrong(["s2", "export", PATTERN, "--to", "csr", "--tp", "3", "--no-db"], USAGE, "3 GPUs cannot share 8 heads")
    wrong(["s2", "export", PATTERN, "--to", "csr", "--tp", "2", "--no-db"], USAGE, "name a directory with -o DIR")
    wrong(["s2", "export", PATTERN, "--to", "vllm", "--tp", "2", "--set", "tp=4", "--no-db"], USAGE, "--set tp=4 contradicts --tp 2")
    for command in ("sim", "check"):
        wrong(["s2", command, PATTERN, "-len", "4k", "--no-db"], USAGE, "unknown option -len; did you mean --len?")
    wrong(["s2", "sim", PATTERN, "-tp", "4", "--no-db"], USAGE, "unknown option -tp; did you mean --tp?")
    for name in ("gpt-oss-20b", "llama-3.1-8b", "Phi-3-small"):
        for command in ("sim", "check", "show"):
            wrong(["s2", command, name], REFUSED, f"'model {name.lower()}; layers all: dense'")


def twice():
    """A word that is known, but not where it stands, is not corrected to itself."""
    for term in ("local 2 when key 1.. when distance 3..", "stride 4 phase head phase kv", "stride 4 width 2 width 3", "local 2 when key 1.. phase 3"):
        said = subprocess.run(["s2", "check", f"heads 8; layers all: {term}", "--no-db"], capture_output=True, text=True, env=ENV).stderr
        for word, near in re.findall(r"'(\w+)'; did you mean '(\w+)'", said):
            hold(word != near, f"{term}: {said!r}")
        hold(said != "", f"{term}: refused without a word")
    wrong(["s2", "check", "heads 8; layers all: local 2 when key 1.. when distance 3..", "--no-db"], REFUSED, "'when' stands here for the second time")


def exchanged():
    """A name where conditions stand, and a tag where the design stands."""
    subprocess.run(["s2", "check", "name v2-small; " + PATTERN, "--db", "names.db"], capture_output=True, env=ENV)
    for command in ("ls", "pareto"):
        for word in ("v2", "v2-small"):
            wrong(["s2", command, word, "--db", "names.db"], USAGE, f"name~{word}: designs with that in their names")
    for command in ("tag", "note"):
        wrong(["s2", command, "slow", "v2-small", "--db", "names.db"], USAGE, "slow: no design", f"the design comes first: s2 {command} v2-small ...")
        wrong(["s2", command, "slow", "fast", "--db", "names.db"], USAGE, re.compile("slow: no design of that name or hash$"))


def unknown_configs():
    """A config that is not known is refused with the same words by each command that takes a pattern."""
    with open("foo.json", "w") as file:
        file.write('{"model_type": "foo", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "sliding_window": 128, "hidden_size": 512}')
    for command in READERS + ["import"]:
        wrong(["s2", *command.split(), "foo.json"], REFUSED, "model_type foo: which keys its layers read is not known here", "--set rule=full")


def earlier_prices():
    """An empty list says whether an earlier price would pass, and how it is listed."""
    for gpu in ("h100-sxm", "h200"):
        subprocess.run(["s2", "sim", "name two; " + PATTERN, "--gpu", gpu, "--len", "2k", "--phase", "decode", "--db", "two.db"], capture_output=True, env=ENV)
    done = subprocess.run(["s2", "ls", "gpu=h100-sxm", "--db", "two.db"], capture_output=True, text=True, env=ENV)
    hold("the latest price of no design passes this, an earlier one does: --phase decode --len 2048" in done.stderr, f"s2 ls gpu=h100-sxm: {done.stderr!r}")
    done = subprocess.run(["s2", "ls", "gpu=h100-sxm", "--phase", "decode", "--len", "2048", "--db", "two.db"], capture_output=True, text=True, env=ENV)
    hold("two" in done.stdout, f"s2 ls gpu=h100-sxm with its phase and length: {done.stdout!r}")
    for asked in ("gpu=h200", "us<1", "gpu=b200"):
        done = subprocess.run(["s2", "ls", asked, "--db", "two.db"], capture_output=True, text=True, env=ENV)
        hold("an earlier one does" not in done.stderr, f"s2 ls {asked}: {done.stderr!r}")


def names():
    for word, near in (("h20", "h200"), ("h300", "h200"), ("a100", "a100-80gb"), ("rtx", "rtx4090"), ("", "--list"),
                       ("H100", "h100-pcie or h100-sxm"), ("höhe", "--list"), ("H100-80GB", "h100-pcie or h100-sxm"),
                       ("NVIDIA H100 80GB HBM3", "h100-pcie or h100-sxm"), ("a100-40gb", "a100-80gb"), ("B200-192GB", "b200")):
        wrong(["s2", "sim", PATTERN, "--gpu", word, "--no-db"], USAGE, near)
        if word and "höhe" != word:
            wrong(["s2", "search", f"phi-3-small, {word}, 32k"], USAGE, word, near)
    for line in subprocess.run(["s2", "sim", "--list"], capture_output=True, text=True, env=ENV).stdout.splitlines():
        if line.startswith("kernel models"):
            break
        if re.match("  [a-z]+[0-9-]", line):
            wrong(["s2", "search", f"{line.split()[0][:-1]}~, 32k"], USAGE, re.compile("did you mean the (GPU|model)"))
    for word in subprocess.run(["s2", "export", "--list"], capture_output=True, text=True, env=ENV).stdout.splitlines():
        if word[0] != " " and len(word.split()[0]) > 3:
            wrong(["s2", "search", f"phi-3-small, {word.split()[0]}x"], USAGE, "did you mean the format " + word.split()[0])
    for word, near in (("4090", "rtx4090"), ("40", "40 tokens"), ("200", "200 tokens"), ("100", "a100-80gb"), ("3090", "3090 tokens"), ("7", "7 tokens")):
        for more in ((), ("--dry-run",)):
            wrong(["s2", "search", f"phi-3-small, {word}, decode", "--no-db", *more], USAGE, "may be a GPU or a context length", near)
    for word, near in (("llama-3.1-9b", "llama-3.1-8b"), ("lama-3.1-8b", "llama-3.1-8b"), ("llama3", "llama"), ("gpt", "gpt-2"), ("qwen", "qwen"), ("phi-3-smal", "phi-3-small")):
        wrong(["s2check", f"model {word}; all: local 4"], REFUSED, word)
        wrong(["s2", "search", "--model", word], USAGE, near)
    for word, near in (("vlm", "vllm"), ("huggingface", "hf"), ("flexattention", "flex"), ("nothing", "vllm"), ("", "vllm")):
        wrong(["s2", "export", PATTERN, "--to", word], USAGE, near)
        wrong(["s2", "search", PATTERN, "--exportable", word or ",", "--no-db"], USAGE, near)
        wrong(["s2", "import", "x.json", "--from", word], USAGE, near)
    for word, near in (("Unoin", "union"), ("strid", "stride"), ("densty", "density"), ("needels", "did you mean"), ("S2P999", "S2P999"), ("kv_byte", "kv")):
        wrong(["s2", "explain", word], USAGE, word, near)
    for word in ("deadbeef", "my-design", "abcd1234"):
        for command in ("show", "tag", "note", "star", "rm"):
            wrong(["s2", command, word, *(["x"] if command in ("tag", "note") else [])], REFUSED if command == "show" else USAGE, word)
    wrong("s2 repro 999999", USAGE, "999999")
    wrong("s2 repro latest", USAGE, "latest")


def slips(name):
    """Ways to misspell a name that leave it recognisable: a letter doubled, one changed, two swapped."""
    at = next(n for n in range(len(name) - 1, 0, -1) if name[n].isalpha() and name[n - 1].isalpha())
    return {name[:at] + name[at] + name[at:], name[:at] + ("x" if name[at] != "x" else "y") + name[at + 1:]}


def near_misses():
    """Whatever is named, a slip of it is answered with that name, or with one that is as near."""
    listed = subprocess.run(["s2", "sim", "--list"], capture_output=True, text=True, env=ENV).stdout.splitlines()
    models, kernels = listed.index("models"), listed.index("kernel models")
    known = {"model": [line.split()[0] for line in listed[models + 1:kernels]], "kernel-model": [line.split()[0] for line in listed[kernels + 1:]]}
    for option, names_of in known.items():
        for name in names_of:
            for slip in slips(name) if len(name) > 5 else ():
                wrong(["s2", "sim", PATTERN, f"--{option}", slip, "--no-db"], USAGE, "the nearest is " + re.split(r"[-0-9.]", name)[0])
    wrong(["s2", "sim", PATTERN, "--model", "llama-31-8b", "--no-db"], USAGE, "the nearest is llama-3.1-8b")
    for name in ("cpu_bwd", "cpu_decode", "ref_f64"):
        for slip in slips(name):
            wrong(["s2", "validate", PATTERN, "--kernel", slip, "--no-db"], USAGE, f"did you mean {name}?")
    subprocess.run(["s2", "sim", "name trotted; model llama-3.1-8b; " + PATTERN.split("; ")[-1], "--len", "1k", "--db", "near.db"], capture_output=True, env=ENV)
    row = {"name": "trotted", "family": "local+stride", "gpu": "h200", "llm": "llama-3.1-8b", "dtype": "bf16", "phase": "prefill", "settings": "usual"}
    for column, value in row.items():
        for slip in slips(value) if len(value) > 2 and column not in ("gpu", "dtype", "llm") else (value + "x",):
            for command in ("ls", "pareto"):
                done = subprocess.run(["s2", command, f"{column}={slip}", "--db", "near.db"], capture_output=True, text=True, env=ENV)
                hold(f"no design has {column}={slip}; did you mean {value}?" in done.stderr, f"s2 {command} {column}={slip}: {done.stderr!r}")
        done = subprocess.run(["s2", "ls", f"{column}={value}", "--db", "near.db"], capture_output=True, text=True, env=ENV)
        hold("did you mean" not in done.stderr and "trotted" in done.stdout, f"s2 ls {column}={value}: {done.stderr!r}")
        for words in (["--columns", f"{column},{column}x"], ["--sort", column + "x"]):
            wrong(["s2", "ls", *words, "--db", "near.db"], USAGE, f"did you mean {column}?")


def patterns():
    """The language, as it is mistaken."""
    for text, *said in (
            ("heads 8; all: locl 4", "locl", "local"), ("heads 8; all: local", "local"), ("heads 8; all: local x", "x"), ("heads 8; all: local -4", "-4"),
            ("heads 8; all: local 4 || stride 2", "|"), ("heads 8; all: local 4 |", "|"), ("heads 8; all:", "all"), ("heads 8", "heads"), ("heads 0; all: dense", "0"),
            ("heads 7; kv-heads 2; all: dense", "kv-heads"), ("heads 8; kv-heads 16; all: dense", "16"), ("heads 99999999999; all: dense", "heads"),
            ("heads 8; heads 4; all: dense", "heads"), ("head 8; all: dense", "head"), ("heads=8; all: dense", "="), ("heads 8; layers 4; layers 9: dense", "9"),
            ("heads 8; layers 2..1: dense", "2..1"), ("heads 8; all: stride 4 phase hed", "hed"), ("heads 8; all: stride 0", "0"), ("heads 8; block 0; all: dense", "block"),
            ("heads 8; block 63; all: local 64t", "63"), ("heads 8; all: local 4 sink 1", "sink"), ("heads 8; all: local 4 and stride 2", "and"),
            ("heads 8; all: local 4 when distance", "distance"), ("heads 8; all: local 4 when dist 4..", "dist"), ("heads 8; all: mask missing.npy", "mask"),
            ('heads 8; all: mask "missing.npy"', "missing.npy"), ('heads 8; all: mask "missing', "mask"), ("heads 8; model nothing-9b; all: dense", "nothing-9b"),
            ("heads 8; all: lokal 4 | strike 8", "lokal"), ("heads 8, kv-heads 2; all: dense", ","), ("heads eight; all: dense", "eight"), ("heads 8; all: топ 4", "топ"),
            ("heads 8; kv 9: dense", "9"), ("heads 8; all: topk 4 pages", "topk"), ("heads 8; all: local 4.5", "4.5", "whole"), ("heads 8; all: window 4", "window", "local"),
            ("heads 8; all: full", "full", "dense"), ("heads 8; all: global 4", "global", "columns"), ("HEADS 8; all: dense", "HEADS", "'heads'"), ("heads 8; all: Sliding 4", "'local'"),
            ("heads 8; all: local 16 | stride 16 phase = head", "="), ("heads 8; name; all: dense", "name"), ("heads 8; layers all local 4", "local"), (";", "heads"),
            ("heads 8; all: local 4; all: local 4 x", "x"), ("heads 8; layers -1: dense", "-1"), ("heads 8; head-dim 0; all: dense", "head-dim"),
            ("heads 8; layers 1000000000; all: dense", "layers"), ("heads 8; all: (local 4)", "("), ("LocalStride(32, 8192)", "LocalStride"), ("{}", "{"), ('{"a": 1}', "{")):
        wrong(["s2check", text], REFUSED, *said)
        wrong(["s2", "check", text, "--no-db"], REFUSED)


BUDGETS = ("quest", "h2o", "streamingllm", "snapkv", "pyramidkv", "nsa", "lserve", "kvpress", "rocket", "chosen", "dsa", "hf")
# Whose absence has a meaning in the code that reads them: none of these layers, as many KV heads as heads, no latent.
MEANT = {"start_layer", "end_layer", "seerattn_start_layer", "sparse_init_block", "num_key_value_heads", "head_dim", "hidden_size", "kv_lora_rank",
         "qk_rope_head_dim"}


def holders(config, path=()):
    """(path of an object, name, number) of every number in a config."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from holders(value, path + (name,))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield path, name, value


def imported(config, path, name, value):
    """Exit code, pattern and notes of the config with another value there; None: without it."""
    other = copy.deepcopy(config)
    holder = other
    for step in path:
        holder = holder[step]
    holder[name] = value
    if value is None:
        del holder[name]
    with open("changed.json", "w") as file:
        json.dump(other, file)
    done = subprocess.run(["s2", "import", "--no-db", "changed.json"], capture_output=True, text=True, env=ENV)
    lines = done.stdout.splitlines()
    return done.returncode, [line for line in lines if line[0] != "#"], {line for line in lines if line[0] == "#"}


def unsaid():
    """A number that a pattern depends on is not missing in silence: without it the file is refused, or a note says what it is taken as."""
    n = 0
    for source in sorted(file for budget in BUDGETS for file in (FOREIGN / budget).glob("*.json")):
        config = json.loads(source.read_text())
        if not isinstance(config, dict):
            continue
        for path, name, value in holders(config):
            if name in MEANT:
                continue
            code, text, notes = imported(config, path, name, value)
            others = [imported(config, path, name, changed) for changed in (value * 2 or 1, value // 2 if isinstance(value, int) else value / 2)]
            if code != 0 or all(other[0] != 0 or other[1] == text for other in others):
                continue
            without, _, said = imported(config, path, name, None)
            n += 1
            hold(without != 0 or len(said - notes) > 0, f"{source.parent.name}/{source.name} without {name}: read, and nothing says what it is taken as")
    hold(n > 30, f"{n} numbers were left out")


def uses():
    """Arguments that do not fit, of commands with arguments of their own."""
    for words, code, *said in (
            ("s2", USAGE, "s2 help"), ("s2 check", USAGE, "PATTERN"), ("s2check", USAGE, "PATTERN"), ("s2 diff", USAGE, "A B"), ("s2 tag", USAGE, "DESIGN"),
            ("s2 --colour check", USAGE, "--colour"), ("s2 export", USAGE, "--to"), ("s2 db", USAGE, "check|backup"), ("s2 db vacuum", USAGE, "check|backup"),
            ("s2 db backup", USAGE, "backup FILE"), ("s2 search", USAGE, "--model"), ("s2 help nothing", USAGE, "nothing"),
            (["s2", "check", PATTERN, "--pair", "5"], USAGE, "--pair", "as in"),
            (["s2", "check", PATTERN, "--query", "x"], USAGE, "--query"), (["s2", "check", PATTERN, "--query", "64", "--len", "64"], USAGE, "64", "--len"),
            *((["s2", "check", PATTERN, *question, *more], USAGE, question[0], more[0]) for question in (("--query", "9"), ("--pair", "9,3"))
              for more in (("--json",), ("--quiet",), ("--require", "union"), ("--engine", "both"), ("--certificate", "none.cert"))),
            (["s2", "check", PATTERN, "--query", "9", "--pair", "9,3"], USAGE, "--query", "--pair"), (["s2", "check", PATTERN, "--pair", "3,99", "--len", "64"], USAGE, "99"),
            (["s2", "check", PATTERN, "--require", "onion"], USAGE, "onion", "union"),
            (["s2", "check", PATTERN, "--require", "ranks"], USAGE, "ranks"), (["s2", "check", PATTERN, "--require", "depth:x"], USAGE, "depth"),
            (["s2", "check", PATTERN, "--require", ""], USAGE, "--require"), (["s2", "check", PATTERN, "--require", "union,"], USAGE, "--require"),
            (["s2", "check", PATTERN, "--len", "all", "--len", "8k"], USAGE, "twice"), (["s2", "check", PATTERN, "--engine", "fast"], USAGE, "algebra"),
            (["s2", "check", PATTERN, "--set", "block=64"], USAGE, "block=64"), (["s2", "show", PATTERN, "--set", "block"], USAGE, "block"),
            (["s2", "mask", PATTERN, "--head", "9"], USAGE, "9"), (["s2", "mask", PATTERN, "--head", "kv:7"], USAGE, "kv:7"), (["s2", "mask", PATTERN, "--layer", "2"], USAGE, "2"),
            (["s2", "mask", PATTERN, "--head", "last"], USAGE, "last"), (["s2", "draw", PATTERN, "--head", "9"], USAGE, "9", "0 to 7", "kv:0 to kv:1"),
            (["s2", "check", PATTERN, "-r", "depth:0"], USAGE, "from 1"), (["s2", "help", "nothing"], USAGE, "s2 help lists"), *((["s2", "show", PATTERN, *two], USAGE, *two) for two in (("--hash", "--json"), ("--canonical", "--json"), ("--canonical", "--hash"))),
            (["s2", "draw", PATTERN, "--layer", "5"], USAGE, "5"), *((["s2", "draw", PATTERN, "--what", what, option, value], USAGE, option, what) for option, value, whats in
              (("--phase", "decode", "mask kv reach shards"), ("--head", "0", "kv shards flow reach"), ("--page", "32", "mask reach"), ("--layer", "0", "kv reach flow"),
               ("--minimize", "us,kv_bytes", "mask"), ("--filter", "us<5", "kv")) for what in whats.split()),
             (["s2", "draw", PATTERN, "--as", "pdf"], USAGE, "svg"),
            (["s2", "draw", PATTERN, "-o", "x.pdf"], USAGE, "pdf"), (["s2", "sim", PATTERN, "--model", "llama-3.1-8b"], USAGE, "begin it with"),
            (["s2", "sim", PATTERN, "--tp", "3"], USAGE, "3"), (["s2", "validate", PATTERN, "--device", "tpu"], USAGE, "tpu"), (["s2", "validate", PATTERN, "--kernel", "fast"], USAGE, "fast", "cpu"),
            (["s2", "validate", PATTERN, "--kernel", "./missing.so"], ENVIRONMENT, "missing.so"), (["s2", "validate", PATTERN, "--len", ","], USAGE, "--len"),
            (["s2", "validate", PATTERN, "--layer", "9"], USAGE, "9"), (["s2", "validate", PATTERN, "--dtype", "fp8"], ENVIRONMENT, "fp8"),
            (["s2", "search", PATTERN, "--at-most", "kv_bytes=50"], USAGE, "50%"), (["s2", "search", PATTERN, "--at-most", "kv=50%"], USAGE, "kv=50%", "kv_bytes"),
            (["s2", "search", PATTERN, "--at-most", "unread"], USAGE, "NAME=NUMBER"), (["s2", "search", PATTERN, "--minimize", "speed"], USAGE, "speed", "kv_bytes"),
            (["s2", "search", PATTERN, "--minimize", "us,us"], USAGE, "us,us"), (["s2", "search", PATTERN, "--phase", "serve"], USAGE, "serve", "prefill"),
            (["s2", "search", PATTERN, "--shard", "3/2"], USAGE, "3/2"), (["s2", "search", PATTERN, "-o", "x.json"], USAGE, "--exportable"),
            (["s2", "search", "heads 8; all: local {4"], REFUSED, "{"), (["s2", "search", "heads 8; all: local {4..2}"], REFUSED, "4..2"),
            (["s2", "search", "phi-3-small, H200, 32 parsecs"], USAGE, "parsecs"),
            (["s2", "search", "llama-3.1-8b; H200; 32k; vLLM", "--no-db"], REFUSED, "unknown statement"),
            (["s2", "search", "llama-3.1-8b; H200; 32k; vLLM", "--dry-run"], REFUSED, "unknown statement"), (["s2", "search", "phi-9, H200, 32k"], USAGE, "phi-9"),
            (["s2", "search", "phi-3-small, H200, 32k", "--len", "8k"], USAGE, "--len"), (["s2", "search", "phi-3-small, H200, 9999m"], USAGE, "tokens"),
            (["s2", "ls", "us<fast"], USAGE, "fast"), (["s2", "ls", "speed<3"], USAGE, "speed"), (["s2", "ls", "kv_bytes<4x"], USAGE, "4x"), (["s2", "ls", "union=maybe"], USAGE, "maybe"),
            (["s2", "ls", "us<"], USAGE, "us<"), (["s2", "ls", "--sort", "speed"], USAGE, "speed"), (["s2", "ls", "--columns", "name,speed"], USAGE, "speed"),
            (["s2", "ls", "unread<2"], USAGE, "share"), (["s2", "ls", "kv_bytes<4%"], USAGE, "4%"), (["s2", "pareto", "--minimize", "name"], USAGE, "name"),
            (["s2", "pareto", "--minimize", "us,us"], USAGE, "us"), (["s2", "ls", "--view", "none"], USAGE, "none"), (["s2", "import"], USAGE, "FILE"),
            (["s2", "tui", "--dump", "nothing"], USAGE, "nothing"), (["s2", "tui", "--size", "9"], USAGE, "--size"), (["s2", "tui", "--script", "missing"], REFUSED, "missing"),
            (["s2", "--db", "file:x", "ls"], USAGE, "file:x"), (["s2", "--db"], USAGE, "--db"), (["s2cert", "missing.cert"], REFUSED, "No such file"),
            (["s2cert"], USAGE, "usage"), (["s2cert", "text.s2"], REFUSED, "certificate"), (["s2", "calibrate", "--from", "missing.jsonl"], REFUSED, "missing.jsonl")):
        wrong(words, code, *said)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    subprocess.run(["s2", "check", "name kept; " + PATTERN, "-q"], env=ENV)
    for part in (misspelled, database_as_file, settings, unseen, numbers, files, other_programs, exchanged, twice, unknown_configs, earlier_prices, names, near_misses, patterns, unsaid, uses):
        part()
    os.chdir("/")
end(300)
