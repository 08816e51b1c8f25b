#!/usr/bin/env python3
"""Other people's kernels x patterns x lengths under the judge: one command, rows as they come, and a page of them.

usage: matrix.py S2 ROWS.jsonl [--jobs=N] [--seconds=N] [--len=N,...] [--only=NAME,...] [--pieces=N] [--patterns=NAME,...] [--runs=N] [--phase=train] [--missing]
       matrix.py --page ROWS.jsonl > PAGE.md

Each backend gets processes of its own, a row is written as soon as it is known, and what was not reached within --seconds is
missing, not wrong: --missing judges that alone. Of rows of the same cell the last counts. With --runs=N kernels are timed too, which says something only with --jobs=1: else they run beside each other.
"""
import collections
import json
import os
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BACKENDS = {"sdpa-math": "sdpa.py math", "sdpa-flash": "sdpa.py flash", "sdpa-cudnn": "sdpa.py cudnn",
            "sdpa-efficient": "sdpa.py efficient", "flex-eager": "flex.py eager", "flex-compiled": "flex.py compiled",
            "hf-mistral-eager": "hf.py eager mistral", "hf-mistral-sdpa": "hf.py sdpa mistral",
            "hf-llama-sdpa": "hf.py sdpa llama", "triton-template": "triton_template.py",
            "sdpa-flash3": "sdpa.py flash3", "sdpa-flash4": "sdpa.py flash4", "flex-flash": "flex.py flash", "flex-flash-output": "flex.py flash-output",
            "fa-cute-switches": "fa_cute.py switches", "fa-cute-blocks": "fa_cute.py blocks",
            "flashinfer-single": "flashinfer_prefill.py single fa2", "flashinfer-blocks": "flashinfer_prefill.py blocks fa2",
            "flashinfer-variable": "flashinfer_variable.py", "vllm-blocksparse": "vllm_blocksparse.py"}
GRADIENTS = " gradients"
SHAPE = "heads 4; kv-heads 2; head-dim 64; "
BODIES = {"dense": "dense", "self": "local 1t", "window-33": "local 33t", "window-256": "local 256t", "window-1000": "local 1000t",
          "blocks-2": "local 2", "blocks-1-of-128": "block 128; local 1", "streaming": "local 4 | sink 1",
          "streaming-tokens": "local 100t | sink 4t", "s2-4": "local 8 | stride 4 phase head",
          "s2-8": "local 2 | stride 8 phase head", "s2-8-kv": "local 2 | stride 8 phase kv",
          "s2-16-of-16": "block 16; local 2 | stride 16 phase head", "s2-tokens": "local 100t | stride 6t phase head",
          "stride-only": "stride 4 phase head", "chunk-128": "chunk 128t", "chunk-2": "chunk 2", "sink-only": "sink 1",
          "columns": "columns 0,5,9 | local 1", "late-column": "columns 2", "rows": "rows 3 | local 1",
          "random": "random 3 seed 7 | local 1", "dilated": "dilated 4 | local 2", "dilated-tokens": "dilated 3t phase head",
          "one-dense-head": "heads 0: dense; heads 1-3: local 2", "one-dense-kv": "kv 0: dense; kv 1: local 1 | sink 1",
          "mixed-tokens": "heads 0-1: local 33t; heads 2-3: chunk 64t", "far-stride": "local 4 | stride 4 when distance 4..",
          "encoder": "causal no; dense", "encoder-window": "causal no; local 100t",
          "encoder-stride": "causal no; local 2 | stride 4"}
PATTERNS = {name: f"name {name}; {SHAPE}" + (body if ": " in body or "; " in body else "layers all: " + body)
            for name, body in BODIES.items()}
WORDS = {"ok": "ok", "unsupported": "refused", "wrong_pairs": "**pairs**", "wrong_values": "**values**", "nan": "**nan**",
         "not_repeatable": "**varies**", "launch_failed": "**failed**", "timeout": "**hangs**", "out_of_memory": "memory"}


def option(name, default):
    for word in sys.argv[1:]:
        if word.startswith(f"--{name}="):
            return word.split("=", 1)[1]
    return default


def run(s2, backend, names, lengths, out, lock, deadline):
    """One process of s2, one of the adapter; its rows go to the file as they come."""
    command = [s2, "validate", *(PATTERNS[name] for name in names), "--no-db", "--json", "--device", "cpu", "--len", lengths,
               "--timeout", "120", "--phase", option("phase", "prefill"), "--runs", option("runs", "0"), "--kernel", f"{sys.executable} {HERE}/{BACKENDS[backend]}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    timer = threading.Timer(max(1, deadline - time.monotonic()), lambda: os.killpg(process.pid, signal.SIGKILL))
    timer.start()
    for line in process.stdout:
        row = json.loads(line)
        if row.get("schema") != "s2validate/1":
            continue
        with lock:
            out.write(json.dumps({"backend": backend, **row}) + "\n")
            out.flush()
    process.wait()
    timer.cancel()


def known(path):
    """The rows of a file, of each cell the last."""
    cells = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for row in map(json.loads, file):
                row["backend"] += GRADIENTS if row.get("phase") == "backward" else ""
                cells[row["backend"], row["name"], row["len"]] = row
    return cells


def wanted(path, backend, names, lengths):
    """[(names, lengths)] that are to be judged: all, or with --missing what the file has not."""
    if "--missing" not in sys.argv:
        return [(names, lengths)]
    there, groups = known(path), collections.defaultdict(list)
    word = backend + (GRADIENTS if option("phase", "prefill") == "train" else "")
    for name in names:
        groups[",".join(n for n in lengths.split(",") if (word, name, int(n)) not in there)].append(name)
    return [(some, missing) for missing, some in groups.items() if missing]


def measure(s2, path):
    lengths, pieces = option("len", "257,1000,2048,3001"), int(option("pieces", "3"))
    only = option("only", ",".join(BACKENDS)).split(",")
    names, jobs, lock = option("patterns", ",".join(PATTERNS)).split(","), [], threading.Lock()
    asked = {backend: wanted(path, backend, names, lengths) for backend in only}
    deadline = time.monotonic() + float(option("seconds", "3600"))
    room = threading.Semaphore(int(option("jobs", str(os.cpu_count()))))
    with open(path, "a", encoding="utf-8") as out:
        def work(backend, part, lengths):
            with room:
                if time.monotonic() < deadline:
                    run(s2, backend, part, lengths, out, lock, deadline)
        for piece in range(pieces):
            for backend, some, missing in ((backend, *one) for backend in only for one in asked[backend]):
                if some[piece::pieces]:
                    jobs.append(threading.Thread(target=work, args=(backend, some[piece::pieces], missing)))
                    jobs[-1].start()
        for job in jobs:
            job.join()


def page(path):
    cells = known(path)
    rows = list(cells.values())
    backends = [name for half in ("", GRADIENTS) for name in (word + half for word in BACKENDS) if any(row["backend"] == name for row in rows)]
    pairs, wrong = sum(row["touch"]["pairs"] for row in rows), sum(row["touch"]["wrong"] for row in rows)
    lengths = sorted({row["len"] for row in rows})
    print(f"{len(rows)} verdicts, {pairs} pairs compared, {wrong} against the pattern; lengths {', '.join(map(str, lengths))}.\n")
    beside = collections.Counter(row["batch_invariant"] for row in rows if row.get("batch_invariant") is not None)
    if beside:
        print(f"{sum(beside.values())} times a sequence was run alone and as one of three: the same bits {beside[True]} times.\n")
    for text in sorted({f"{row['backend']}: {row['versions']}" for row in rows if row.get("versions")}):
        print(f"- {text}")
    print("\n| pattern | " + " | ".join(backends) + " |\n|" + "---|" * (len(backends) + 1))
    for name in PATTERNS:
        said = []
        for backend in backends:
            found = (cells.get((backend, name, length)) for length in lengths)
            words = [WORDS.get(row["outcome"], row["outcome"]) if row else "-" for row in found]
            said.append(words[0] if len(set(words)) == 1 else ", ".join(words))
        print(f"| {name} | " + " | ".join(said) + " |")
    print("\n| backend | what it says or does | cells |\n|---|---|---|")
    reasons = collections.Counter((row["backend"], row["outcome"], row.get("symptom") or row["reason"])
                                  for row in rows if row["outcome"] != "ok")
    for (backend, outcome, reason), n in sorted(reasons.items()):
        print(f"| {backend} | {outcome}: {reason.replace('|', '/')} | {n} |")


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--page":
        page(sys.argv[2])
    elif len(sys.argv) > 2:
        measure(sys.argv[1], sys.argv[2])
    else:
        sys.exit(__doc__)
