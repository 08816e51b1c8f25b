#!/usr/bin/env python3
"""Foreign sides of `s2 validate --kernel COMMAND` that say anything at all: s2 reports an outcome and ends within its limit, in one of
three attempts, since a busy machine makes it late.

usage: strangers.py S2 [CASES] [SEED]     each case is a process that greets and answers with random lines, right ones changed among
them, sleeps, closes its pipes, ends with any code, or changes the memory that it was handed. Last line: N passed, N failed
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import time

LIMIT_S = 3
DESIGN = "heads 2; kv-heads 1; block 16; head-dim 32; layers all: local 2"
OUTCOMES = {"ok", "wrong_pairs", "wrong_values", "not_repeatable", "nan", "out_of_bounds", "launch_failed", "timeout", "bad_reply", "wrong_shape",
            "out_of_memory", "unsupported"}
HELLO = {"s2": 1, "name": "stranger", "passes": "forward", "lse": True, "deterministic": True, "versions": "0"}
ODD = [None, True, 0, 1, -1, 1.5, 1e308, -1e308, 10 ** 400, 2 ** 63, "", "ok", "x" * 5000, "\u0000", "\u001b[2J", "%s%n", [], [[]], {}, [1e-320] * 40, {"a": [1]}]


def changed(rng, line):
    """The line with some members changed, missing or added."""
    made = dict(line)
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        key = rng.choice([*made, "outcome", "reason", "samples_ms", "id", "device", "rounds", "\u00fc"])
        if rng.random() < 0.2:
            made.pop(key, None)
        else:
            made[key] = rng.choice(ODD)
    return json.dumps(made, ensure_ascii=rng.random() < 0.5).encode()


def bent(rng, line):
    """Bytes in place of a line: cut, doubled, without an end, with others between, or nothing of it."""
    way = rng.randrange(10)
    if way == 0:
        return line[: rng.randrange(len(line) + 1)]
    if way == 1:
        return line + b"\n" + line + b"\n"
    if way == 2:
        at = rng.randrange(len(line) + 1)
        return line[:at] + bytes(rng.randrange(256) for _ in range(rng.randrange(9))) + line[at:] + b"\n"
    if way == 3:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(200))) + b"\n"
    if way == 4:
        return b"[" * rng.choice([10, 60000]) + b"\n"
    if way == 5:
        return b" " * 70000 + line + b"\n"
    return line + b"\n"


def stranger(seed):
    """The foreign side itself."""
    rng = random.Random(seed)
    if rng.random() < 0.3:
        say(bent(rng, changed(rng, HELLO)))
    else:
        say(json.dumps(HELLO).encode() + b"\n")
    for line in sys.stdin.buffer:
        request = json.loads(line)
        act(rng, request)
        fair = {"id": request["id"], "outcome": rng.choice(["ok", "ok", "ok", "failed", "unsupported", "out_of_memory", "wrong_shape"])}
        say(bent(rng, changed(rng, fair)) if rng.random() < 0.6 else json.dumps(fair).encode() + b"\n")


def say(line):
    os.write(1, line)


def act(rng, request):
    """What it does before it answers."""
    way = rng.randrange(16)
    if way == 0:
        time.sleep(rng.choice([0.01, 1000]))
    elif way == 1:
        sys.exit(rng.randrange(256))
    elif way == 2:
        os.kill(os.getpid(), rng.choice([1, 6, 9, 11, 15, 19]))
    elif way == 3:
        os.close(1)
        time.sleep(1000)
    elif way == 4:
        os.kill(0, 15)  # its own group, not that of s2
    elif way == 5 and os.fork() == 0:
        os.setsid()
        time.sleep(2 * LIMIT_S)
        os._exit(0)
    elif way in (6, 7, 8):
        meddle(rng, request)


def meddle(rng, request):
    """Shorten, lengthen or overwrite the files that it was handed."""
    about = rng.choice([*request["tensors"].values(), request["mask"]])
    file = os.open(about["file"], os.O_RDWR)
    size = os.fstat(file).st_size
    try:
        if rng.random() < 0.5:
            os.ftruncate(file, rng.choice([0, 1, size // 2, size * 2]))
        else:
            os.pwrite(file, bytes(rng.randrange(256) for _ in range(rng.choice([1, 64, 4096]))), rng.choice([0, 0, rng.randrange(size)]))
    except OSError:
        pass
    os.close(file)


def judged(s2, seed, folder):
    """What is wrong about how s2 took it; None: nothing."""
    command = f"{sys.executable} {os.path.abspath(__file__)} --stranger {seed}"
    began = time.monotonic()
    try:
        done = subprocess.run([s2, "validate", DESIGN, "--no-db", "--json", "--device", "cpu", "--len", "64", "--light", "--timeout", str(LIMIT_S), "--runs",
                               str(seed % 2), "--kernel", command], cwd=folder, capture_output=True, timeout=600, check=False)
    except subprocess.TimeoutExpired:
        return "did not end within 600 s"
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    said = [row["outcome"] for row in rows if row.get("schema") == "s2validate/1"]
    if done.returncode not in (0, 1, 4, 5):
        return f"ended with {done.returncode}: {done.stderr[-300:]!r}"
    if any(word not in OUTCOMES for word in said):
        return f"outcome {said}"
    if not said and done.returncode != 5:
        return f"code {done.returncode} and no outcome"
    took = time.monotonic() - began
    if "timeout" in said and took > 6 * LIMIT_S:
        return f"took {took:.0f} s with a limit of {LIMIT_S}"
    return None


def main():
    s2, cases, seed = os.path.realpath(sys.argv[1]), int((sys.argv + ["", "40"])[2] or 40), int(sys.argv[3]) if len(sys.argv) > 3 else 1
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in range(seed * 100000, seed * 100000 + cases):
            wrong = judged(s2, case, folder)
            for _ in range(2):
                wrong = judged(s2, case, folder) if wrong and wrong.startswith("took ") else wrong
            failed += wrong is not None
            if wrong:
                print(f"stranger {case}: {wrong}", flush=True)
    print(f"{cases - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--stranger"]:
        stranger(int(sys.argv[2]))
    else:
        main()
