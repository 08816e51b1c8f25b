#!/usr/bin/env python3
"""Many fuzzers at once, for a stated time: what each target ran and how far its coverage came, a row for each run.

The programs are those of `make fuzz-programs`; the state folder keeps corpora, logs and crashes, and a second run goes on there.
usage: campaign.py PROGRAMS STATE SECONDS LANE...   a LANE is a process: `screen` all the time, `hf,vllm` one after the other,
       `screen:60` for 60 s at a time (so that what other lanes found is taken up, and a lost machine loses little), longer
       where reading the corpus would take more than a part in READING of them
Rows go to STATE/rows.jsonl: inputs, processor seconds, those of reading the corpus before the first new input (`read` of them),
edges, crashes, and the curve: [processor seconds, edges] as they rose.
       campaign.py --sum ROWS...   prints one row for each target, as docs/results/fuzz.jsonl keeps them
"""
import json
import os
import re
import subprocess
import sys
import threading
import time

MOST_LEN = {"parse": 65536, "cert": 300000, "space": 65536, "npy": 65536, "db": 200000, "screen": 1024}
PROGRAM = {"parse": "fuzz_parse", "screen": "fuzz_screen", **{kind: "fuzz_files" for kind in ("cert", "space", "npy", "db")}}
DICTIONARY = {"parse": "pattern.dict", "cert": "pattern.dict", "space": "space.dict"}
MOST_CRASHES = 20
READING = 8
INTERRUPTED = 72  # the exit code of a fuzzer that somebody ended, as where a machine is given back
lock = threading.Lock()


def command(programs, state, target):
    """The fuzzer of a target by its own name, and the folders that it begins with; the first of these grows."""
    program = os.path.join(programs, PROGRAM.get(target, "fuzz_import"))
    named = f"{state}/bin/{os.path.basename(program)}_{target}"
    with lock:
        if not os.path.exists(named):
            subprocess.run(["ln", "-sf", os.path.abspath(program), named], check=True)
    own = f"{state}/corpus/{target}"
    os.makedirs(own, exist_ok=True)
    seeds = subprocess.run(["tests/fuzz/seeds.sh", target], check=True, capture_output=True, text=True).stdout.split()
    seeds.append(f"{state}/seeds/{target}")
    words = f"tests/fuzz/{DICTIONARY.get(target)}"
    return [named, f"-max_len={MOST_LEN.get(target, 16384)}", f"-artifact_prefix={state}/crashes/{target}-", "-print_final_stats=1",
            "-timeout=60", "-report_slow_units=100", "-rss_limit_mb=3000", *([f"-dict={words}"] if os.path.exists(words) else []),
            own, *[seed for seed in seeds if os.path.isdir(seed)]]


def used_so_far(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return None


class Watched:
    """A fuzzer that runs: its output is read as it comes, its coverage noted beside the processor time that it took until then."""

    def __init__(self, arguments, seconds, log):
        self.edges, self.features, self.inputs, self.curve = 0, 0, 0, []
        self.read, self.read_cpu_s = None, 0
        with open(log, "a") as kept:
            child = subprocess.Popen([*arguments[:1], f"-max_total_time={seconds}", *arguments[1:]], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE, text=True, errors="replace")
            for line in child.stderr:
                self.take(line, child.pid, kept)
            _, status, usage = os.wait4(child.pid, 0)
        child.returncode = status
        self.failed, self.cpu_s = os.waitstatus_to_exitcode(status) not in (0, INTERRUPTED), usage.ru_utime + usage.ru_stime
        if self.read is None:  # it ended before all was read
            self.read, self.read_cpu_s = self.inputs, self.cpu_s
        self.note(self.cpu_s)

    def take(self, line, pid, kept):
        if (seen := re.match(r"#(\d+)\s+(\w+)\s.*cov: (\d+) ft: (\d+)", line)):
            self.inputs, self.edges, self.features = int(seen[1]), int(seen[3]), int(seen[4])
            used = used_so_far(pid)
            if seen[2] == "INITED":
                self.read, self.read_cpu_s = self.inputs, used or 0
            if used is not None and (not self.curve or self.curve[-1][1] != self.edges):
                self.note(used)
        else:
            kept.write(line)
        if (seen := re.match(r"stat::number_of_executed_units: *(\d+)", line)):
            self.inputs = int(seen[1])

    def note(self, used):
        self.curve.append([round(used, 1), self.edges])


def thinned(curve, n=24):
    """At most about n points of a curve, its first and last among them."""
    step = max(1, (len(curve) + n - 1) // n)
    return curve[:-1:step] + curve[-1:]


def lane(programs, state, end, number, spec, commit, where):
    targets, _, piece = spec.partition(":")
    crashes, at, reading = 0, 0, {}
    names = targets.split(",")
    while end - time.time() > 5 and crashes < MOST_CRASHES:
        target = names[at % len(names)]
        left = end - time.time()
        share = max(int(piece), READING * reading.get(target, 0)) if piece else left / max(1, len(names) - at) if at < len(names) else left
        ran = Watched(command(programs, state, target), max(3, int(min(share, left))), f"{state}/logs/{target}.{number}.log")
        crashes += ran.failed
        reading[target] = ran.read_cpu_s
        row = {"target": target, "commit": commit, "date": time.strftime("%Y-%m-%d"), "inputs": ran.inputs, "cpu_s": round(ran.cpu_s, 1),
               "read": ran.read, "read_cpu_s": round(ran.read_cpu_s, 1),
               "edges": ran.edges, "features": ran.features, "crashes": int(ran.failed), "on": where, "lane": number,
               "began": int(end - left), "curve": thinned(ran.curve)}
        with lock, open(f"{state}/rows.jsonl", "a") as file:
            file.write(json.dumps(row) + "\n")
        at += 1


def at(curve, cpu_s):
    return max([edges for used, edges in curve if used <= cpu_s], default=0)


def joined(rows):
    """The curve of processes side by side: when each had used so much, all had used that much together."""
    points = sorted({used for row in rows for used, _ in row["curve"]})
    return [[round(sum(min(used, row["cpu_s"]) for row in rows), 1), max(at(row["curve"], used) for row in rows)] for used in points]


def one_after_another(rows):
    """Lanes go on where their last piece ended."""
    lanes = {}
    for row in sorted(rows, key=lambda row: row["began"]):
        lane = lanes.setdefault(row["lane"], {"cpu_s": 0, "curve": []})
        lane["curve"] += [[lane["cpu_s"] + used, edges] for used, edges in row["curve"]]
        lane["cpu_s"] += row["cpu_s"]
    return list(lanes.values())


def rising(curve):
    most, kept = -1, []
    for used, edges in curve:
        if edges > most:
            most = edges
            kept.append([used, edges])
    return kept + ([[curve[-1][0], most]] if kept and curve[-1][0] > kept[-1][0] else [])


def sums(paths):
    of = {}
    for path in paths:
        with open(path) as file:
            for row in map(json.loads, file):
                of.setdefault(row["target"], []).append(row)
    for target, rows in sorted(of.items()):
        total = {name: rows[0][name] for name in ("target", "commit", "date")}
        total |= {name: sum(row.get(name, 0) for row in rows) for name in ("inputs", "cpu_s", "read", "read_cpu_s", "crashes")}
        total |= {name: max(row[name] for row in rows) for name in ("edges", "features")}
        total |= {name: round(total[name], 1) for name in ("cpu_s", "read_cpu_s")}
        total |= {"on": rows[0]["on"], "curve": thinned(rising(joined(one_after_another(rows))), 16)}
        print(json.dumps(total))


def main():
    if sys.argv[1] == "--sum":
        return sums(sys.argv[2:])
    programs, state, seconds, specs = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    for folder in ("bin", "corpus", "crashes", "logs"):
        os.makedirs(f"{state}/{folder}", exist_ok=True)
    commit, where, end = os.environ.get("COMMIT", ""), os.environ.get("WHERE", ""), time.time() + seconds
    lanes = [threading.Thread(target=lane, args=(programs, os.path.abspath(state), end, number, spec, commit, where))
             for number, spec in enumerate(specs)]
    for one in lanes:
        one.start()
    for one in lanes:
        one.join()
    return None


main()
