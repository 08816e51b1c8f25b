#!/usr/bin/env python3
"""Rows that `s2 db recover` saves of damaged databases, beside those that `sqlite3 FILE .recover` and `.dump` save.

usage: recover_compare.py S2 N [SEED]

A database with a few hundred rows is damaged N times: bytes, pages, or its end (the damage of tests/test_faults.c). A row is
saved when the recovered file holds it as it was, all columns. Designs whose text has lost its hash do not count: nobody may
use them.
"""
import pathlib
import random
import sqlite3
import subprocess
import sys
import tempfile

PAGE = 4096
TABLES = ["run", "design", "chk", "sim", "note", "tag"]


def fill(s2, path):
    for n in range(40):
        subprocess.run([s2, "--db", path, "check", f"name d{n}; heads {n + 1}; layers all: local {n % 7 + 1} | stride 2 phase head"],
                       capture_output=True, check=False)
        if n % 2 == 0:
            subprocess.run([s2, "--db", path, "sim", f"d{n}", "--gpu", "h200", "--len", "8k"], capture_output=True, check=False)
    subprocess.run([s2, "--db", path, "tag", "d1", "keep"], capture_output=True, check=False)
    subprocess.run([s2, "--db", path, "note", "d2", "a note"], capture_output=True, check=False)


def rows(path):
    """{(table, row)} of a database file; whatever cannot be read is not there."""
    found = set()
    with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as db:
        db.text_factory = bytes
        for table in TABLES:
            try:
                names = [row[1].decode(errors="replace") for row in db.execute(f"PRAGMA table_info({table})")]
                kept = [name for name in names if not name.startswith(("sim_", "v_", "gpu_us", "kv_bytes", "outcome"))]
                for row in db.execute(f"SELECT {','.join(kept)} FROM {table}"):
                    found.add((table, row))
            except sqlite3.Error:
                pass
    return found


def damage(rng, whole):
    data = bytearray(whole)
    kind = rng.randrange(10)
    if kind == 0:
        return data[: rng.randrange(len(data) + 1)]
    if kind < 4:
        for _ in range(rng.randrange(4) + 1):
            at = rng.randrange(len(data) // PAGE) * PAGE
            data[at : at + PAGE] = rng.randbytes(PAGE)
    else:
        for _ in range(rng.randrange(300) + 1):
            data[rng.randrange(len(data))] = rng.randrange(256)
    return data


def save(s2, tool, damaged, out):
    if tool == "s2 db recover":
        subprocess.run([s2, "--db", damaged, "db", "recover", out], capture_output=True, check=False, timeout=900)
        return
    text = subprocess.run(["sqlite3", damaged, tool.split()[1]], capture_output=True, check=False, timeout=900).stdout
    text = text.replace(b"ROLLBACK; -- due to errors", b"COMMIT;")
    subprocess.run(["sqlite3", out], input=text, capture_output=True, check=False, timeout=900)


TOOLS = ["s2 db recover", "sqlite3 .recover", "sqlite3 .dump"]


def main():
    s2, n, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        fill(s2, str(here / "whole.db"))
        whole, all_rows = (here / "whole.db").read_bytes(), rows(here / "whole.db")
        saved, best, nothing = dict.fromkeys(TOOLS, 0), dict.fromkeys(TOOLS, 0), dict.fromkeys(TOOLS, 0)
        for case in range(n + 1):
            data = whole if case == n else damage(rng, whole)  # the last one is sound
            count = {}
            for tool in TOOLS:
                copy, out = here / "copy.db", here / "out.db"
                out.unlink(missing_ok=True)
                copy.write_bytes(data)
                save(s2, tool, str(copy), str(out))
                count[tool] = len(rows(out) & all_rows) if out.exists() and out.stat().st_size else 0
            if case == n:
                break
            for tool in TOOLS:
                saved[tool] += count[tool]
                nothing[tool] += count[tool] == 0
                best[tool] += all(count[tool] >= other for other in count.values()) and count[tool] > 0
        print(f"{n} damaged files of {len(all_rows)} rows each, seed {seed}; SQLite {sqlite3.sqlite_version}")
        for tool in TOOLS:
            print(f"{tool:18} {100 * saved[tool] / (n * len(all_rows)):5.1f} % of all rows saved; the best, or as good, on {best[tool]} files; "
                  f"nothing of {nothing[tool]}; of the sound file {count[tool]} rows")
    return 0


sys.exit(main())
