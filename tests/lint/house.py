#!/usr/bin/env python3
"""What docs/architecture.md claims of the code and a compiler can show. Each finding is a line; exit 1 when there is one.

usage: house.py symbols OBJECTS   exported names, who speaks, sentences, circles, oracles (of the objects of a build)
       house.py lengths           functions and rooms of the sources; bodies that stand twice; quotients rounded up
                                  and extremes chosen by hand; wide lines; `at`; functions of headers
                                  without a comment
       house.py layers            who includes whom, against tests/lint/layers.txt, which the two pages that list rooms must repeat;
                                  pages that docs/README.md lacks
       house.py figures OBJECTS [TREE]   what is there: lines by room, functions, exported names, circles, duplicates, of this
                                  tree or another one, which may be an older commit's
       house.py duplicates        pairs of functions that share a run of SHARED tokens, the longest first, and equal bodies
"""
import collections
import itertools
import pathlib
import re
import statistics
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
ALLOWED = TOP / "tests/lint/house.txt"
LONGEST, P90, LARGEST_ROOM, WIDEST = 60, 25, 0.15, 120
SHARED, EQUAL, EQUAL_TESTS = 40, 12, 24  # tokens that two functions share without a reason; that a body has which should stand once
CODE = ("*.c", "*.h", "*.cu", "*.cuh")
# What only cli/ does: end the process, write where the user reads.
SPEAKS = {"printf", "puts", "putchar", "perror", "stdout", "stderr", "exit", "_exit", "abort", "vprintf", "__printf_chk"}

# Rooms that compose sentences for people, and the calls that compose text; a diagnostic is a value and passes.
TELL = {"cli", "report", "tui", "explorer", "words", "cert"}
COMPOSE = {"s2_buf_printf", "s2_buf_puts", "s2_surface_words", "snprintf"}
TOKEN = re.compile(r'"((?:[^"\\\n]|\\.)*)"|/\*.*?\*/|//[^\n]*|\'(?:[^\'\\]|\\.)*\'|([A-Za-z_]\w*)|([(){};])', re.S)
WORD = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/|//[^\n]*|\'(?:[^\'\\]|\\.)*\'|\w+|[^\s\w]', re.S)
# Three words of two letters or more in a row are prose; words of the pattern language do not count, nor do escapes and formats.
LANGUAGE = re.compile(r"\\.|%[-+#0-9.*]*[a-z]+|\b(?:prefill|decode|layers|heads|all|dense|when|key|query|chunk|local|heavy|pages?|topk|sink)\b")
PROSE = re.compile(r"[A-Za-z]{2,},? [a-z]{2,},? [a-z]{2,}")
OPERAND = r"((?:[\w.>()\[\]*-]+)(?: [-+*/] [\w.>()\[\]*-]+)*)"
CHOICE = re.compile(rf"(?:[=(,{{[?:]|return)\s*{OPERAND}\s+[<>]=?\s+{OPERAND}\s+\?\s+(?:\1\s+:\s+\2|\2\s+:\s+\1)\s*[;,)\]}}:]")
PROTOTYPE = re.compile(r"^(?!typedef\b|static\b|#)\w[\w *]*?\b(s2_\w+)\([^;{]*\)[^;{}]*;", re.M)
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]*)')
# Headers of libraries, where they may stand, and what to say elsewhere.
LIBRARIES = (
    ("sqlite3", r"db/.*\.c|tests/.*", "sqlite3.h belongs in db/*.c"),
    (r"n?curses", r"tui/terminal_ncurses\.c", "curses belongs in tui/terminal_ncurses.c"),
    ("cuda", r"kernels/cuda/.*|tests/kcheck/.*\.cu", "CUDA headers belong under kernels/cuda/"),
    ("jansson", r"export/.*\.c|judge/reply\.c|base/json\.c|tests/fuzz/.*", "jansson belongs in export/*.c, judge/reply.c and base/json.c"),
    ("mpi", r"search/ranks\.c", "mpi.h belongs in search/ranks.c"),
    ("yaml", r"export/.*\.c", "libyaml belongs in export/*.c"),
    ("png", r"draw/.*\.c", "libpng belongs in draw/*.c"))


def layers():
    """{room or tests: the rooms that it may include}, the only table"""
    lines = (line.split(":") for line in (TOP / "tests/lint/layers.txt").read_text().splitlines())
    return {room: others.split() for room, others in lines}


def rooms():
    return [room for room in layers() if room != "tests"]


def allowed(check):
    """Names that tests/lint/house.txt lets pass: lines "check name  why"."""
    lines = [line.split(None, 2) for line in ALLOWED.read_text().splitlines() if line and line[0] != "#"]
    return {words[1] for words in lines if words[0] == check}


def read_objects(folder):
    """{source: (defined, undefined)} of the C objects of the rooms."""
    paths = [path for room in rooms() for path in sorted(pathlib.Path(folder, room).rglob("*.c.o"))
             if (TOP / path.relative_to(folder).with_suffix("")).exists()]  # others are of files that are gone
    found = {str(path): (set(), set()) for path in paths}
    out = subprocess.run(["nm", "-g", "-A", *paths], capture_output=True, text=True, check=True).stdout if paths else ""
    for path, words in (line.rsplit(".o:", 1) for line in out.splitlines()):
        *_, kind, name = words.split()
        found[path + ".o"][kind in "Uw"].add(name)
    return {str(pathlib.Path(path).relative_to(folder))[:-2]: names for path, names in found.items()}


def cuda_words():
    """Every word of the CUDA sources: they are not compiled everywhere, and use the C rooms' names."""
    texts = [path.read_text() for path in (TOP / "kernels/cuda").glob("*.cu*")]
    return set(re.findall(r"\w+", "\n".join(texts)))


def unprefixed(objects):
    for source, (defined, _) in objects.items():
        for name in sorted(defined):
            if not re.match(r"s2_|S2_|main$", name):
                yield f"{source}: {name} is exported without the prefix s2_"


def speaking(objects):
    pass_by = allowed("speaks")
    for source, (_, undefined) in objects.items():
        for name in sorted(undefined & SPEAKS):
            if not source.startswith("cli/") and source not in pass_by:
                yield f"{source}: {name} belongs in cli/, which speaks to people and ends the process"


def files(*kinds):
    """Files by name, in the working tree."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *kinds],
                           cwd=TOP, capture_output=True, text=True, check=True).stdout.split()
    return [name for name in names if (TOP / name).exists()]


def sources(*kinds):
    """Those of the rooms."""
    return [name for name in files(*kinds) if name.split("/")[0] in rooms()]


def includes():
    """(file, line, "<" or a quote, what it includes) of every include of the rooms and of tests"""
    for name in files(*CODE):
        for number, line in enumerate((TOP / name).read_text().splitlines(), 1):
            if found := INCLUDE.match(line):
                yield name, number, *found.groups()


def trespassing():
    """Includes that the table does not allow. docs/ holds programs of users, which include what is installed."""
    table, private = layers(), allowed("private")
    for name, number, mark, target in includes():
        room, to = name.split("/")[0], target.split("/")[0]
        if room == "docs":
            continue
        if room not in table:
            yield f"{name}:{number}: {room} is not in tests/lint/layers.txt"
        elif mark == "<":
            yield from (f"{name}:{number}: {say}" for library, where, say in LIBRARIES
                        if re.match(library, target) and not re.fullmatch(where, name))
        elif to == target:
            yield f'{name}:{number}: include "{target}" from the root (module/file.h)'
        elif to not in {room, *table[room]}:
            yield f"{name}:{number}: {room} may not include {to}"
        elif target in private and room not in (to, "tests"):
            yield f"{name}:{number}: {target} is private to {to}"


def unlisted():
    """The table of docs/architecture.md says the same, the map of README.md has every room, docs/README.md every page."""
    pages = (TOP / "docs/README.md").read_text()
    for page in sorted((TOP / "docs").glob("*.md")):
        if page.name != "README.md" and f"]({page.name})" not in pages:
            yield f"docs/README.md: the list of pages lacks {page.name}"
    told = re.findall(r"^\| `(\w+)/` \|.*\| ([^|]*) \|$", (TOP / "docs/architecture.md").read_text(), re.M)
    says = {room: [] if words.startswith("nothing") else words.replace(",", "").split() for room, words in told}
    mapped = re.findall(r"^\| `(\w+)/`", (TOP / "README.md").read_text(), re.M)
    for room in rooms():
        others = ["all"] if room == "cli" else layers()[room]
        if says.get(room) != others:
            yield f"docs/architecture.md: {room}/ may include '{' '.join(says.get(room, []))}', and tests/lint/layers.txt says '{' '.join(others)}'"
        if room not in mapped:
            yield f"README.md: the map of the house lacks {room}/"


def composed(text):
    """(line, literal) of every string that is an argument of a call which composes text."""
    calls, last = [], None
    for token in TOKEN.finditer(text):
        literal, name, mark = token.groups()
        if literal is not None and COMPOSE & set(calls):
            yield text.count("\n", 0, token.start()) + 1, literal
        if mark == "(":
            calls.append(last)
        elif mark == ")" and calls:
            calls.pop()
        elif mark:
            calls.clear()
        last = name


def telling(_):
    """What is composed for people stands where it is said; other rooms return values, and reasons by s2_diag."""
    pass_by = allowed("tells")
    for source in sources("*.c", "*.cu", "*.cuh"):
        if source.split("/")[0] in TELL | pass_by or source in pass_by:
            continue
        for line, literal in composed((TOP / source).read_text()):
            if PROSE.search(LANGUAGE.sub("|", literal)):
                yield f"{source}:{line}: a sentence is composed outside {', '.join(sorted(TELL))}: {literal}"


def exponents(_):
    """A number for people comes from s2_decimal(): printf's %g turns into an exponent beyond some magnitude."""
    pass_by = allowed("exponent")
    for source in sources("*.c"):
        for token in () if source in pass_by else TOKEN.finditer((text := (TOP / source).read_text())):
            if re.search(r"%[-+ #0]*[\d*]*(?:\.[\d*]+)?[eEgG]", (token[1] or "").replace("%%", "")):
                yield f"{source}:{text.count(chr(10), 0, token.start()) + 1}: a format with an exponent, where s2_decimal() has none: {token[1]}"


def users(objects):
    """{exported name: how many other objects use it}"""
    count = collections.Counter(name for _, undefined in objects.values() for name in undefined)
    cuda = cuda_words()
    return {name: count[name] + (name in cuda) for defined, _ in objects.values() for name in defined if name != "main"}


def unused(objects):
    pass_by = allowed("unused") | set((TOP / "library/exports.txt").read_text().split())  # whose users are programs elsewhere
    owner = {name: source for source, (defined, _) in objects.items() for name in defined}
    for name, n in sorted(users(objects).items()):
        if n == 0 and name not in pass_by:
            yield f"{owner[name]}: {name} is exported, and no other file of the product uses it"


def components(graph):
    """Strongly connected components with more than one node (Tarjan, 1972)."""
    index, low, stack, on, out = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on.add(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            part = []
            while not part or part[-1] != node:
                part.append(stack.pop())
                on.discard(part[-1])
            if len(part) > 1:
                out.append(sorted(part))

    sys.setrecursionlimit(10000)
    for node in sorted(graph):
        if node not in index:
            visit(node)
    return out


def circles(objects):
    owner = {name: source for source, (defined, _) in objects.items() for name in defined}
    graph = {source: {owner[name] for name in undefined if name in owner and
                      owner[name].split("/")[0] == source.split("/")[0]} - {source}
             for source, (_, undefined) in objects.items()}
    return components(graph)


def circling(objects):
    for part in circles(objects):
        yield f"{part[0]}: files of one room call each other in a circle: {' '.join(part)}"


def oracles(objects):
    """An oracle uses what house.txt lists for it and base/, so that no fault can pass on both roads."""
    lines = [line.split() for line in ALLOWED.read_text().splitlines() if line.startswith("oracle ")]
    owner = {name: source for source, (defined, _) in objects.items() for name in defined}
    for source, listed in ((words[1], set(words[2:])) for words in lines):
        if source not in objects:
            yield f"{source}: tests/lint/house.txt calls it an oracle, and it is not there"
            continue
        for name in sorted(objects[source][1]):
            if name in owner and not owner[name].startswith("base/") and name not in listed:
                yield f"{source}: an oracle uses {name} of {owner[name]}, which it may be judging"
        for header in re.findall(r'^#include "([^"]+)"', (TOP / source).read_text(), re.M):
            if not header.startswith("base/") and header not in listed:
                yield f"{source}: an oracle includes {header}"


def bodies(names=None):
    """(file, first line, lines) of every function, of the rooms': braces stand in the first column (.clang-format), as a namespace's do."""
    for name in names or sources("*.c", "*.cu", "*.cuh"):
        begin, lines = None, (TOP / name).read_text().splitlines()
        for number, line in enumerate(lines, 1):
            if line.startswith("{") and not lines[number - 2].startswith("namespace"):
                begin = number
            elif line.startswith("}") and begin is not None:
                yield name, begin, lines[begin:number - 1]
                begin = None


def functions():
    """(lines, file, first line) of every function"""
    return [(len(lines), name, begin) for name, begin, lines in bodies()]


def tokens(names=None):
    """("file:line", its tokens without comments) of every function"""
    for name, begin, lines in bodies(names):
        yield f"{name}:{begin}", tuple(word[0] for word in WORD.finditer("\n".join(lines)) if not word[0].startswith(("/*", "//")))


def repeated(least, names=None):
    """{tokens of a body: functions} of bodies of so many tokens that stand more than once"""
    equal = collections.defaultdict(list)
    for where, words in tokens(names):
        if len(words) >= least:
            equal[words].append(where)
    return {words: places for words, places in equal.items() if len(places) > 1}


def shared():
    """[(tokens in common runs, two functions)], the longest first"""
    runs, pairs = collections.defaultdict(set), collections.Counter()
    for where, words in tokens():
        for begin in range(len(words) - SHARED + 1):
            runs[words[begin:begin + SHARED]].add(where)
    for places in runs.values():
        pairs.update(itertools.combinations(sorted(places), 2))
    return [(n + SHARED - 1, *pair) for pair, n in pairs.most_common()]


def ninety(lengths):
    return sorted(lengths)[len(lengths) * 9 // 10] if lengths else 0


def too_long(found):
    for n, name, line in found:
        if n > LONGEST:
            yield f"{name}:{line}: a function of {n} lines; {LONGEST} are allowed"
    if ninety([n for n, _, _ in found]) > P90:
        yield f"one function in ten has more than {P90} lines"


def doubled():
    """What stands twice belongs in one place, but for oracles, which share nothing, and what house.txt lists; in tests, from a few lines on."""
    pass_by = allowed("twice") | allowed("oracle")
    tests = [name for name in files(*CODE, "*.cpp", "*.hpp") if name.startswith("tests/")]
    for words, places in (*repeated(EQUAL).items(), *repeated(EQUAL_TESTS, tests).items()):
        places = [place for place in places if place.rsplit(":", 1)[0] not in pass_by]
        if len(places) > 1:
            yield f"{places[0]}: the same body of {len(words)} tokens stands at {' '.join(places[1:])}"


def ceilings():
    """A quotient that is rounded up is s2_ceil_div(), which cannot overflow; base/arena.c rounds a size_t."""
    for name in sources("*.c"):
        for number, line in enumerate((TOP / name).read_text().splitlines(), 1):
            if not name.startswith("base/") and re.search(r"\+ ([\w.>()-]+) - 1\) / \1(?!\w)", line):
                yield f"{name}:{number}: a quotient is rounded up by hand; base/arith.h has s2_ceil_div()"


def extremes():
    """The smaller and the larger of two values are s2_min and s2_max of base/arith.h, and s2_clamp; cert/ includes nothing."""
    for name in sources("*.c", "*.h"):
        text = blanked((TOP / name).read_text()) if name != "base/arith.h" and not name.startswith("cert/") else ""
        for found in CHOICE.finditer(text):
            yield f"{name}:{text.count(chr(10), 0, found.start(1)) + 1}: a smaller or larger value is chosen by hand; base/arith.h has s2_min_*() and s2_max_*()"


def too_wide():
    """clang-format breaks code and leaves comments alone."""
    for name in sources(*CODE):
        for number, line in enumerate((TOP / name).read_text().splitlines(), 1):
            if len(line) > WIDEST:
                yield f"{name}:{number}: a line of {len(line)} columns; {WIDEST} are allowed"


def blanked(text):
    """The text without comments and literals, every other byte in its place."""
    return WORD.sub(lambda word: re.sub(r"[^\n]", " ", word[0]) if word[0].startswith(("/*", "//", '"', "'")) else word[0], text)


def short_loops(lines, name):
    """The lines of loops that declare the name and have a body of three lines or fewer."""
    inside = set()
    for first, line in enumerate(lines):
        if not re.match(rf"\s*for \([^;]*\b{name}\b", line):
            continue
        last, depth = first, line.count("(") - line.count(")")
        while depth > 0:
            last += 1
            depth += lines[last].count("(") - lines[last].count(")")
        indent = len(line) - len(line.lstrip())
        end = last + 1
        while not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent:
            end += 1
        if sum(line.strip() != "}" for line in lines[last + 1:end]) <= 3:
            inside.update(range(first, end))
    return inside


def vague():
    """`at` names an index or an offset where all of its use can be seen at once; elsewhere a name says what it counts."""
    for name in sources("*.c", "*.h"):
        lines = blanked((TOP / name).read_text()).splitlines()
        inside = short_loops(lines, "at")
        for number, line in enumerate(lines):
            if number not in inside and re.search(r"\bat\b", line):
                yield f"{name}:{number + 1}: `at` outside a loop of three lines; say what it is"


def untold():
    """A header says of every function what it does, above it or above the group without a blank line in which it stands."""
    for name in sources("*.h"):
        text = (TOP / name).read_text()
        for found in PROTOTYPE.finditer("" if name.startswith("kernels/cuda/") else text):
            group, rest = text[:found.start()].rpartition("\n\n")[2], text[found.end():].partition("\n")[0]
            if not re.search(r"^/\*|\*/$", group, re.M) and "/*" not in rest:
                yield f"{name}:{text.count(chr(10), 0, found.start()) + 1}: {found[1]}() has no comment"


def sizes():
    """{room: (files, lines)} of what the product is made of"""
    count = {room: [0, 0] for room in rooms()}
    for name in sources(*CODE):
        of = count[name.split("/")[0]]
        of[0] += 1
        of[1] += len((TOP / name).read_text().splitlines())
    return count


def too_large():
    count = sizes()
    total = sum(lines for _, lines in count.values())
    for room, (_, lines) in count.items():
        if lines > LARGEST_ROOM * total:
            yield f"{room}/ holds {lines} of {total} lines; {LARGEST_ROOM:.0%} are allowed"


def figures(objects):
    lengths = [n for n, _, _ in functions()]
    counts = users(objects)
    print(f"{len(lengths)} functions: median {statistics.median(lengths):.0f} lines, 90th percentile {ninety(lengths)}, longest {max(lengths)}")
    print(f"{len(counts)} exported names: {sum(n == 1 for n in counts.values())} with one user, {sum(n == 0 for n in counts.values())} with none")
    print(f"{len(shared())} pairs of functions share {SHARED} tokens, {len(repeated(EQUAL))} bodies stand more than once")
    print(f"{len(circles(objects))} circles")
    for part in circles(objects):
        print(f"circle: {' '.join(part)}")
    total = sum(lines for _, lines in sizes().values())
    for room, (files, lines) in (*sizes().items(), ("all", (sum(files for files, _ in sizes().values()), total))):
        print(f"{room:10} {files:4} files {lines:7} lines {100 * lines / total:5.1f} %")


def main():
    global TOP
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what == "figures" and len(sys.argv) == 4:
        TOP = pathlib.Path(sys.argv.pop()).resolve()
    if what == "duplicates":
        return print("\n".join([*(f"{n} tokens: {one} and {other}" for n, one, other in shared()),
                                *(f"{len(words)} tokens, the whole body: {' '.join(places)}" for words, places in repeated(EQUAL).items())]))
    if what == "lengths":
        bad = [*too_long(functions()), *too_large(), *doubled(), *ceilings(), *extremes(), *too_wide(), *vague(), *untold()]
    elif what == "layers":
        bad = [*trespassing(), *unlisted()]
    elif what in ("symbols", "figures") and len(sys.argv) == 3:
        objects = read_objects(sys.argv[2])
        if not objects:
            sys.exit(f"{sys.argv[2]}: no objects; build first")
        if what == "figures":
            return figures(objects)
        bad = [line for check in (unprefixed, speaking, telling, exponents, unused, circling, oracles) for line in check(objects)]
    else:
        sys.exit(__doc__)
    print("\n".join(bad) if bad else f"{what}: nothing found")
    sys.exit(1 if bad else 0)


main()
