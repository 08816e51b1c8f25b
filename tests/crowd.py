#!/usr/bin/env python3
"""Eight writers, four readers and a screen on one database, for MINUTES.

Every command that ended is acknowledged: its run must be in the file at the end, once, and the file must be sound.
A reader that fails, a writer that ends with another code than 0, 1 or 4, a screen that ends or shows nothing, fails.
usage: crowd.py PROGRAM MINUTES [SEED]
"""
import os
import pty
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time

WRITERS, READERS = 8, 4
LEAST, PATIENCE_S = 1000, 600  # bytes of a screen; only one that hangs is waited for so long
program, minutes = os.path.abspath(sys.argv[1]), float(sys.argv[2])
seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
folder = tempfile.TemporaryDirectory(prefix="s2-crowd.")
database = os.path.join(folder.name, "crowd.db")
until = time.monotonic() + 60 * minutes
faults, lock = [], threading.Lock()
counts = {"recorded": 0, "read": 0, "screens": 0, "keys": 0}


def count(what, n=1):
    with lock:
        counts[what] += n


def run(*args):
    return subprocess.run([program, "--db", database, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder.name)


def guarded(body):
    def guard(number):
        try:
            body(number)
        except Exception as fault:  # a thread that dies must be seen
            faults.append(f"{body.__name__} {number}: {fault!r}")
    return guard


@guarded
def write(number):
    draw = random.Random(seed * 1000 + number)
    while time.monotonic() < until:
        text = f"name w{number}-{draw.randrange(10**6)}; heads 4; layers all: local {draw.randint(1, 9)} | stride {draw.randint(2, 9)} phase head"
        args = draw.choice([("check", text), ("check", text), ("sim", text, "--gpu", "h200", "--len", "4k")])
        done = run(*args)
        if done.returncode not in (0, 1, 4):
            faults.append(f"writer {number}: {args} ended with {done.returncode}: {done.stdout.decode()[-300:]}")
            return
        count("recorded")


@guarded
def read(number):
    draw = random.Random(seed * 2000 + number)
    while time.monotonic() < until:
        args = draw.choice([("ls", "--format", "json"), ("db", "stat"), ("db", "check"), ("pareto",)])
        done = run(*args)
        if done.returncode != 0:
            faults.append(f"reader {number}: {args} ended with {done.returncode}: {done.stdout.decode()[-300:]}")
            return
        count("read")


def press(fd, draw):
    """Keys until a pause in which the screen is drawn; what it showed."""
    shown = b""
    while len(shown) < LEAST and select.select([fd], [], [], PATIENCE_S)[0]:  # the first screen, however busy the machine is
        shown += os.read(fd, 65536)
    for _ in range(draw.randint(50, 200)):
        os.write(fd, draw.choice([b"j", b"k", b"\x1b[B", b"\x1b[A", b"\r", b"\x1b", b"s", b"/w\r", b"\t"]))
        count("keys")
        while select.select([fd], [], [], 0.05)[0]:
            shown += os.read(fd, 65536)
        if time.monotonic() > until:
            break
    return shown


@guarded
def watch(number):
    draw = random.Random(seed * 3000 + number)
    while time.monotonic() < until:
        child, fd = pty.fork()
        if child == 0:
            os.environ.update(TERM="xterm-256color", LINES="40", COLUMNS="120")
            os.execv(program, [program, "--db", database, "tui", "--no-session"])
        shown = press(fd, draw)
        if os.waitpid(child, os.WNOHANG)[0] != 0 or len(shown) < LEAST:
            faults.append(f"the screen ended by itself, or showed {len(shown)} bytes")
            return
        os.kill(child, signal.SIGTERM)
        os.close(fd)
        os.waitpid(child, 0)
        count("screens")


def main():
    if run("check", "heads 2; layers all: dense").returncode != 0:
        sys.exit("crowd: the first run fails")
    crowd = [threading.Thread(target=write, args=(n,)) for n in range(WRITERS)]
    crowd += [threading.Thread(target=read, args=(n,)) for n in range(READERS)] + [threading.Thread(target=watch, args=(0,))]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    if (verified := run("db", "check")).returncode != 0:
        faults.append("not sound: " + verified.stdout.decode())
    found = int(re.search(r"^run +(\d+)", run("db", "stat").stdout.decode(), re.M).group(1))
    if found != counts["recorded"] + 1:
        faults.append(f"{counts['recorded'] + 1} runs acknowledged, {found} found")
    print(f"crowd: {minutes:g} minutes, seed {seed}: {counts['recorded']} runs of {WRITERS} writers, all there, "
          f"{counts['read']} reads of {READERS} readers, {counts['screens']} screens with {counts['keys']} keys")
    print("\n".join(faults[:10]))
    print(f"{0 if faults else 1} passed, {len(faults)} failed")
    sys.exit(1 if faults else 0)


main()
