#!/usr/bin/env python3
"""Files that change while commands read them: cut, lengthened, overwritten in place, replaced, of one of two contents.

Texts must be read as one content or the other, never as a mixture; of a database, whose writers keep its locks and these do not,
a command may also say what is wrong with it. A fault: another answer, a signal, an exit code that is not stated, 60 s without an end.
usage: moving.py DIR_OF_PROGRAMS SECONDS [SEED]
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

PROGRAMS, SECONDS, SEED = os.path.abspath(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1
RULES = 3000   # of a pattern, whose two texts differ in every rule
COMMANDS = [["ls"], ["ls", "--format", "json"], ["db", "check"], ["db", "stat"], ["pareto"], ["show", "p1"], ["db", "backup", "out.db", "--force"],
            ["db", "recover", "out.db", "--force"], ["tag", "p1", "x"], ["sim", "name z; heads 2; layers all: local 3", "-n", "1k"],
            ["tui", "--dump", "designs", "--no-session"], ["repro", "1"], ["db", "merge", "b.db"]]
done, faults, answers = threading.Event(), [], {}


def s2(*words, program="s2"):
    try:
        return subprocess.run((os.path.join(PROGRAMS, program), *words), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    except subprocess.TimeoutExpired:
        return None


def count(words, run, allowed=None):
    """allowed: what the command may print where it succeeds."""
    rc = "no end" if run is None else run.returncode
    answers[words[0], rc] = answers.get((words[0], rc), 0) + 1
    if run is None or not 0 <= rc <= 5 or (rc == 0 and allowed is not None and run.stdout not in allowed):
        faults.append(f"{' '.join(words)}: {rc} {'' if run is None else run.stderr[-300:] + run.stdout[:200]}")


def overwrite(path, data, rng):
    """All of a file at once, or another in its place; both contents are equally long."""
    if rng.random() < 0.5:
        with open(path + "-new", "wb") as out:
            out.write(data)
        os.rename(path + "-new", path)
    else:
        with open(path, "r+b", buffering=0) as out:
            out.write(data)


def damage(path, rng):
    size = os.path.getsize(path)
    change = rng.randrange(6)
    if change == 0:
        os.truncate(path, rng.randrange(size + 1))
    elif change == 1:
        shutil.copy(rng.choice(["a.db", "b.db"]), "new.db")
        os.rename("new.db", path)
    elif change == 2:
        shutil.copyfile(rng.choice(["a.db", "b.db"]), path)
    elif change == 3:
        with open(path, "r+b") as out:
            out.seek(rng.randrange(size + 1))
            out.write(rng.randbytes(rng.randrange(5000)))
    elif change == 4:
        os.truncate(path, size + rng.randrange(100000))
    else:
        for beside in ("-wal", "-shm"):
            if os.path.exists(path + beside):
                os.truncate(path + beside, rng.choice([0, 100, 40000]))


def keep_changing(texts, rng):
    while not done.is_set():
        for name, contents in texts.items():
            overwrite(name, rng.choice(contents), rng)
        try:
            damage("moving.db", rng)
        except FileNotFoundError:   # what lay beside the database a moment ago
            pass
        time.sleep(rng.random() * 0.02)


def pattern(body):
    return "".join(["heads 4; layers 1024\n", "layers all: dense\n"] + [f"layers {n % 1024} heads {n % 4}: {body} # {'long, so that reading takes time ' * 8}\n" for n in range(RULES)]).encode()


def main():
    rng = random.Random(SEED)
    texts = {"p.s2": [pattern("local 1111"), pattern("local 2222")],
             "config.json": [json.dumps({"architectures": ["MistralForCausalLM"], "model_type": "mistral", "num_hidden_layers": 2, "num_attention_heads": 4,
                                         "num_key_value_heads": 2, "head_dim": 64, "sliding_window": n, "padding": " " * 200000, "max_position_embeddings": n}).encode() for n in (1024, 2048)]}
    reads = {"p.s2": ["show", "p.s2", "--hash"], "config.json": ["import", "config.json", "--no-db"]}
    allowed = {name: [] for name in texts}
    for name, contents in texts.items():
        for data in contents:
            with open(name, "wb") as out:
                out.write(data)
            allowed[name].append(s2(*reads[name]).stdout)
        assert "" not in allowed[name] and allowed[name][0] != allowed[name][1], name
    for n in range(6):
        s2("--db", "a.db", "sim", f"name p{n}; heads 4; layers all: local {n + 1} | stride 2 phase head", "-n", "1k")
    shutil.copy("a.db", "b.db")
    s2("--db", "b.db", "check", "name extra; heads 2; layers all: dense")
    shutil.copy("a.db", "moving.db")
    changing = threading.Thread(target=keep_changing, args=(texts, random.Random(f"change/{SEED}")))
    changing.start()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and len(faults) < 10:
        name = rng.choice(["p.s2", "config.json", None, None])
        words = rng.choice(COMMANDS) if name is None else reads[name]
        count(words, s2(*(["--db", "moving.db"] if name is None else []), *words), None if name is None else allowed[name])
        if os.path.exists("out.db"):
            os.remove("out.db")
    done.set()
    changing.join()


with tempfile.TemporaryDirectory(prefix="s2-moving.") as folder:
    os.chdir(folder)
    try:
        main()
    finally:
        done.set()
        os.chdir("/")
for fault in faults:
    print(fault)
print(f"{sum(answers.values())} commands on files that changed, seed {SEED}: " + ", ".join(f"exit {rc}: {sum(n for (_, code), n in answers.items() if code == rc)}" for rc in sorted({code for _, code in answers}, key=str)) + f"; {len(faults)} faults")
sys.exit(bool(faults))
