#!/usr/bin/env python3
"""What a path may lead to: every option and operand of every command that takes one is given pipes that nobody writes or reads,
sockets, devices, files of the kernel, folders, links in circles, a terabyte of nothing, and odd names.

Each command ends within its time and memory, with a stated exit code and a clean word, and what was there before is there afterwards.
The commands and options are those of the program's own tables, so a new one joins. usage: tests/places.py DIR_OF_PROGRAMS [N_AT_ONCE [WORD]], WORD: only the command
lines that have it; S2_PART=K/N: those whose hash leaves K of N   last line: N held, N did not"""
import concurrent.futures
import os
import pathlib
import re
import resource
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import zlib

from tally import end, hold

PROGRAMS = os.path.abspath(sys.argv[1])
AT_ONCE = int(sys.argv[2]) if len(sys.argv) > 2 else 4
ONLY = sys.argv[3] if len(sys.argv) > 3 else ""
PART, PARTS = map(int, os.environ.get("S2_PART", "0/1").split("/"))
DATA = pathlib.Path(__file__).resolve().parent / "data"
PATTERN = "heads 8; kv-heads 2; layers 2; all: local 4 | stride 4 phase kv"
TIMES = "heads,kv_heads,head_dim,batch,n_tok,us\n" + "".join(f"32,8,128,1,{n},{n * n // 8192 + 20}\n" for n in (1024, 2048, 4096, 8192, 16384))
WALL_S, CPU_S, MEMORY_KIB = 60, 10, 1100 << 10   # of wall time s2 itself may wait 10 s for a pipe and 30 s for a lock
ENV = dict(os.environ, LC_ALL="C.UTF-8", TERM="dumb", S2_CPU_SECONDS=str(CPU_S), S2_MEMORY_MIB="1000")
ENV.pop("S2_DB", None)
# What a command needs beside the path in question to come to it. A command that is not here gets one pattern.
BASE = {"ls": [], "pareto": [], "tui": ["--dump", "designs"], "doctor": [], "calibrate": ["--from", "times.csv", "--gpu", "h200", "--pass", "forward", "-o", "out"],
        "undo": [], "repro": [], "diff": [PATTERN, PATTERN], "tag": ["1", "x"], "note": ["1", "x"], "star": ["1"], "rm": ["1"], "db": ["stat"], "import": ["config.json"],
        "export": [PATTERN, "--to", "csr", "--len", "256"], "validate": [PATTERN, "--len", "256"], "search": ["heads 2; head-dim 64; all: local {1,2}", "--len", "1k"],
        "explain": ["union"], "help": ["check"]}
WITH = {("sim", "rows"): ["--accuracy"], ("tui", "script"): [], ("tui", "output"): ["--dump", "designs"], ("draw", "output"): [PATTERN, "--as", "png"],
        ("calibrate", "kernel"): ["--device", "cpu", "--once", "--pass", "decode", "--family", "mixed"], ("calibrate", "rows"): ["--device", "gpu:99"], ("calibrate", "from"): ["--gpu", "h200", "-o", "out"],
        ("calibrate", "out"): ["--from", "times.csv", "--gpu", "h200", "--pass", "forward"]}
# Operands that are paths, or may be.
OPERANDS = {"check": [["@"], [PATTERN, "@"], ["all: mask \"@\""], ["heads 1; block 16; all: mask @"]], "diff": [["@", PATTERN], [PATTERN, "@"]], "import": [["@"], ["@/"]],
            "db": [["stat", "--db", "@"], ["check", "--db", "@"], ["gc", "--db", "@"], ["dump", "--db", "@"], ["merge", "@"], ["backup", "@"], ["backup", "@", "--force"], ["recover", "@"],
                   ["recover", "out.db", "--db", "@"], ["restore", "@"]],
            "export": [["@", "--to", "csr"]], "validate": [["@", "--len", "256"]], "explain": [], "help": [], "doctor": [], "undo": [], "tui": [], "repro": [], "tag": [["@", "x"]],
            "note": [["@", "x"]], "ls": [["@"]], "calibrate": []}
MORE = [("sim", "kernel-model")]   # which the table calls a name, and which may be a file


def programs_tables():
    """(command, option) of each option that takes a file."""
    text = subprocess.run([PROGRAMS + "/s2", "help", "--completion", "fish"], capture_output=True, text=True, env=ENV, check=True).stdout
    found = re.findall(r'complete -c s2 -n "__fish_seen_subcommand_from (\S+)" -l (\S+)(?: -s .)? -r -F', text)
    commands = subprocess.run([PROGRAMS + "/s2", "help", "--list"], capture_output=True, text=True, env=ENV, check=True).stdout.split()
    return commands, found + MORE


def make_places(folder):
    """name -> path of what is hostile, made anew for each command."""
    os.mkfifo(folder + "/pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(folder + "/socket")
    os.symlink("loop", folder + "/loop")
    os.symlink("nowhere", folder + "/dangling")
    os.mkdir(folder + "/folder")
    os.mkfifo(folder + "/folder/config.json")
    pathlib.Path(folder + "/folder/kept").write_text("kept")
    with open(folder + "/huge", "wb") as huge:
        huge.truncate(1 << 40)
    os.link(folder + "/pipe", folder + "/pipe.so")
    os.link(folder + "/socket", folder + "/socket.so")
    for name in ("odd\n\x1b[2J\x07name", "--odd", "a\x7fb\udcff"):
        pathlib.Path(folder + "/" + name).write_text("heads 2; all: dense")
    # a sound database, beside which lies what SQLite and s2 take for its own
    for kind in ("-lock", "-wal", "-shm", "-journal"):
        for what in ("pipe", "folder", "socket", "loop"):
            name = f"{folder}/{what}{kind}.db"
            shutil.copy(folder + "/../seed.db", name)
            os.symlink(f"../{what}", name + kind) if what == "loop" else os.link(f"{folder}/{what}", name + kind) if what != "folder" else os.mkdir(name + kind)


NAMES = ["pipe", "./pipe", "./pipe.so", "./socket.so", "socket", "loop", "dangling", "folder", "huge", "odd\n\x1b[2J\x07name", "./--odd", "a\x7fb\udcff", "missing\n\x1b[31m", "pipe/below", "/dev/zero", "/dev/full", "/dev/tty", "/dev/null",
         "/proc/kmsg", "/proc/self/mem", "/proc/self/fd", "/proc/self/fd/0", "/dev/kmsg", "/proc/self/environ", "/sys/kernel", "", "n" * 300]
BESIDE = [f"{what}{kind}.db" for kind in ("-lock", "-wal", "-shm", "-journal") for what in ("pipe", "folder", "socket", "loop")]


def state_of(folder):
    """What must be there afterwards as it was: kinds of all, contents of what is a file and was not to be written."""
    seen = {}
    for name in os.listdir(folder):
        mode = os.lstat(folder + "/" + name).st_mode
        seen[name] = stat.S_IFMT(mode)
    seen["kept"] = pathlib.Path(folder + "/folder/kept").read_text()
    return seen


def limits():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S + 2, CPU_S + 3))
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def judge(words):
    """Run it in a folder of its own; the reasons why it is wrong, if any."""
    with tempfile.TemporaryDirectory(prefix="s2-places-", dir=".") as own:
        folder = own + "/in"
        os.mkdir(folder)
        shutil.copy("seed.db", own + "/seed.db")
        make_places(folder)
        shutil.copy("seed.db", folder + "/s2.db")
        for name in ("times.csv", "config.json"):
            shutil.copy(name, folder)
        before, why = state_of(folder), []
        with open(own + "/stdout", "wb") as out, open(own + "/stderr", "wb") as err:
            child = subprocess.Popen([os.fsencode(w) for w in words], env=ENV, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err, preexec_fn=limits, start_new_session=True)
            began = time.monotonic()
            while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                if time.monotonic() - began > WALL_S:
                    why.append(f"no end after {WALL_S} s")
                    child.kill()
                    break
                time.sleep(0.005)
            _, status, used = os.wait4(child.pid, 0)
        child.returncode = code = os.waitstatus_to_exitcode(status)
        said = pathlib.Path(own + "/stderr").read_bytes().decode(errors="replace")
        if code not in range(6):
            why.append(f"exit {code}")
        if code > 1 and not said.strip() and words[1] != "doctor":
            why.append(f"exit {code} without a word")
        if re.search(r"[\x00-\x09\x0b-\x1f\x7f]", said):
            why.append("control characters")
        if used.ru_utime + used.ru_stime > CPU_S + 1:
            why.append(f"{used.ru_utime + used.ru_stime:.1f} s of processor time")
        if used.ru_maxrss > MEMORY_KIB:
            why.append(f"{used.ru_maxrss >> 10} MiB")
        after = state_of(folder)
        changed = [name for name, kind in before.items() if after.get(name) != kind]
        left = [name for name in after if name not in before and ".s2-tmp" in name]
        if changed or left:
            why.append(f"gone or changed: {changed}, left: {left}")
        if code > 1 and pathlib.Path(folder + "/s2.db").stat().st_size < os.path.getsize("seed.db"):
            why.append("the database shrank")
        return words, why, said


def is_of_part(words):
    return zlib.crc32(os.fsencode(" ".join(words[1:]))) % PARTS == PART


def questions():
    """Every command line."""
    commands, with_files = programs_tables()
    s2 = PROGRAMS + "/s2"
    for command, option in with_files:
        base = WITH.get((command, option), BASE.get(command, [PATTERN]))
        for name in NAMES + (BESIDE if option == "db" else []):
            yield [s2, command, *base, f"--{option}={name}"]
    for command in commands:
        for operands in OPERANDS.get(command, [["@"]]):
            of_database = command == "db"
            for name in NAMES + (BESIDE if of_database else []):
                yield [s2, command, *(word.replace("@", name) for word in operands)]
    for name in NAMES:
        yield [PROGRAMS + "/s2cert", name]
        yield [PROGRAMS + "/s2check", name]
        yield [PROGRAMS + "/s2check", PATTERN, "--certificate", name]


with tempfile.TemporaryDirectory(prefix="s2-places-") as top:
    os.chdir(top)
    pathlib.Path("times.csv").write_text(TIMES)
    shutil.copy(DATA / "foreign/hf/config.json", "config.json")
    subprocess.run([PROGRAMS + "/s2", "check", "name kept; " + PATTERN, "-q", "--db", "seed.db"], env=ENV, stdout=subprocess.DEVNULL, check=False)
    subprocess.run([PROGRAMS + "/s2", "db", "gc", "--db", "seed.db"], env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    for beside in pathlib.Path(".").glob("seed.db-*"):
        beside.unlink()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for words, why, said in pool.map(judge, [words for words in questions() if ONLY in " ".join(words) and is_of_part(words)]):
            shown = [os.fsencode(w).decode(errors="replace")[:60] for w in words[1:]]
            hold(not why, f"{os.path.basename(words[0])} {' '.join(map(repr, shown))}: {', '.join(why)}\n    {said.strip()[:200]!r}")
    os.chdir("/")
end(1 if ONLY else 1000 // PARTS)
