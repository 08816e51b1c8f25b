#!/usr/bin/env python3
"""How many lines of export/ a fuzz target of importers reaches, of those that reading a file can reach at all.

What can be reached is walked in the compiler's own code (-O0, no inlining): whatever a function names, from the entries below
on, may be called by it. The table of formats names what writes them too; that member alone, `write`, is not followed.
usage: readers.py --names CLANG >NAMES                            the functions that reading can reach
       readers.py NAMES PROFILE PROGRAM SOURCE... [--missed]    `lines reached, lines`; --missed: each function with lines not reached
"""
import glob
import re
import subprocess
import sys

ENTRIES = ("s2_import_run", "s2_widths_read", "s2_format_find")
NAME = re.compile(r"@\"?([\w.$]+)\"?")


def without_writer(line):
    """Of a row of the table of formats, all but its last member."""
    return line[:line.rfind(", ", 0, line.rfind("}"))] if "%struct.s2_format {" in line else line


def names_of(clang, path):
    """What each function and each constant of a file names; those that no other file sees carry the file's name."""
    code = subprocess.run([*clang.split(), "-std=c11", "-D_GNU_SOURCE", "-I.", "-O0", "-Wno-everything", "-S", "-emit-llvm", "-o", "-", path],
                          capture_output=True, text=True, check=True).stdout
    own, owner, uses = set(re.findall(r"^@([\w.$]+) = (?:private|internal)", code, re.M)), None, {}
    own |= {m for m in re.findall(r"^define internal [^@]*@([\w.$]+)\(", code, re.M)}
    for line in code.splitlines():
        if line.startswith(("define", "@")) and " = external " not in line:
            owner, line = NAME.search(line)[1], without_writer(line)
            uses.setdefault(owner, set())
        elif line.startswith(("}", "declare", "!", "attributes")):
            owner = None
        if owner is not None:
            uses[owner] |= set(NAME.findall(line)) - {owner}
    full = lambda name: f"{path}:{name}" if name in own else name
    return {full(name): {full(used) for used in used_by} for name, used_by in uses.items()}


def reachable(clang):
    uses = {}
    for path in sorted(glob.glob("export/*.c")):
        uses.update(names_of(clang, path))
    seen, todo = set(), [entry for entry in ENTRIES if entry in uses]
    if len(todo) < len(ENTRIES):
        sys.exit("readers.py: an entry of reading is gone: " + ", ".join(set(ENTRIES) - set(todo)))
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += uses.get(name, ())
    return seen


def functions(profile, program, sources):
    """Each function of the sources: its name as above, lines, lines not reached."""
    shown = subprocess.run(["llvm-cov", "report", "-show-functions=1", "-instr-profile", profile, program, *sources],
                           capture_output=True, text=True, check=True).stdout
    path = None
    for line in shown.splitlines():
        if (seen := re.match(r"File '(?:.*/)?(export/[\w./]+)'", line)):
            path = seen[1]
        elif (seen := re.match(r"(\S+) +\d+ +\d+ +[\d.]+% +(\d+) +(\d+) +[\d.]+%", line)) and seen[1] != "TOTAL":
            name = seen[1]
            yield (f"{path}:{name.split(':')[1]}" if ":" in name else name), path, int(seen[2]), int(seen[3])


def main():
    if sys.argv[1] == "--names":
        print("\n".join(sorted(reachable(sys.argv[2]))))
        return
    missed = "--missed" in sys.argv
    names, profile, program, *sources = [word for word in sys.argv[1:] if word != "--missed"]
    with open(names) as file:
        readers = set(file.read().split())
    lines, left = 0, 0
    for name, path, n, n_missed in functions(profile, program, sources):
        if name not in readers:
            continue
        lines, left = lines + n, left + n_missed
        if missed and n_missed > 0:
            print(f"{n_missed:4} of {n:3} lines  {path}  {name.split(':')[-1]}")
    print(lines - left, lines)


main()
