#!/usr/bin/env python3
"""The figures of docs/worth.md, recomputed from the rows under docs/results/ as experiments/judge.py does, and the drawn
patterns from their seeds. usage: tests/worth.py DIR_OF_PROGRAMS   last line: N held, N did not"""
import contextlib
import io
import json
import math
import os
import pathlib
import re
import subprocess
import sys

from tally import end, hold

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXPERIMENTS = ROOT / "experiments"
S2 = os.path.join(os.path.abspath(sys.argv[1]), "s2")
sys.dont_write_bytecode = True
sys.path.insert(0, str(EXPERIMENTS))
import draw  # noqa: E402
import judge  # noqa: E402
from shape import LARGER, read_patterns  # noqa: E402

PAGE = (ROOT / "docs" / "worth.md").read_text(encoding="utf-8")


def same(what, said, value):
    """Is `said`, a text, what the value rounds to at its last digit?"""
    digits = len(said.partition(".")[2])
    hold(abs(float(said) - value) <= 0.5000001 * 10 ** -digits, f"docs/worth.md: {what}: the page says {said}, the rows {value:.5f}")


def numbers(pattern):
    """The groups of a pattern, whose blanks stand for any, in the page."""
    found = re.search(re.sub(r" +", r"\\s+", pattern), PAGE)
    if found is None:
        hold(False, f"docs/worth.md: nothing on the page is like '{pattern}'")
        return ()
    return found.groups()


def table(heading):
    """The cells of the table whose heading holds this, without its first two lines."""
    lines = PAGE[PAGE.index(heading):].splitlines()
    rows = []
    for line in lines[2:]:
        if not line.startswith("|"):
            break
        rows.append([cell.replace("\\|", "|").replace("**", "").strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    hold(rows, f"docs/worth.md: '{heading}' heads no table")
    return rows


def read(name):
    return [json.loads(line) for line in (judge.RESULTS / f"worth-{name}.jsonl").read_text().splitlines()]


def check_spearman(first_column, sets):
    """One row a predictor: recall, that at the end and loss of each set."""
    of_page = {"worth": None, "worth, frozen on the small models": None, "density alone": "density", "window alone": "window",
               "union alone": "union", "hops alone": "hops", "least flow alone": "flow, least",
               "chances at the farthest octave alone": "chances, far", "KV heads at the farthest octave alone": "KV heads, far"}
    for cells in table(first_column):
        if cells[0] not in of_page:
            continue
        values = []
        for rows in sets:
            name = of_page[cells[0]]
            said = [judge.other_measures(row)[name] if name else row["reach"]["worth"]["recall"] for row in rows]
            fall = said if name else [-row["reach"]["worth"]["loss"] for row in rows]
            values += [judge.spearman(said, [row["recall"] for row in rows]), judge.spearman(said, [row["recall_end"] for row in rows]),
                       judge.spearman(fall, [-row["loss"] for row in rows])]
        for said, value in zip(cells[1:], values):
            same(f"{cells[0]}", said.split(",")[0], value)


def error_of(rows, name):
    return math.sqrt(judge.mean((row["reach"]["worth"][name] - row[name]) ** 2 for row in rows))


def spread(rows, task, value):
    """The mean over patterns of the standard deviation over seeds."""
    kept = {}
    for row in rows:
        if row["task"] == task:
            kept.setdefault(row["name"], []).append(value(row))
    return judge.mean(math.sqrt(sum((v - judge.mean(got)) ** 2 for v in got) / (len(got) - 1)) for got in kept.values())


def curve_mean(row):
    return judge.mean(share for _, share in row["curve"])


def check_constants(first, drawn):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        judge.fit(first, drawn)
    fitted = [re.findall(r"-?\d\.\d{4}", line) for line in out.getvalue().splitlines()]
    source = [[f"{c:.4f}" for c in judge.frozen(name)] for name in ("RECALL", "LOSS")]
    hold(fitted == source, f"docs/worth.md: the constants of reach/worth.c are not those of --fit: {source}, {fitted}")
    signs = [[a + b for a, b in re.findall(r"(-?)\s?(\d\.\d{4})", line.replace("- ", "-"))] for line in re.findall(r"^    (?:recall|loss  ) = .*", PAGE, re.M)]
    hold(signs == source, f"docs/worth.md: the formulas are not those of reach/worth.c: {signs}, {source}")


def drawn_by(*words):
    """What experiments/draw.py prints, in this process, which keeps what s2 said of a pattern."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        draw.main(words)
    return out.getvalue()


def check_drawn():
    for name, file in (("drawn when recall", "drawn.txt"), ("drawn again", "drawn-again.txt")):
        text = (EXPERIMENTS / file).read_text()
        seed = re.search(r"--seed ([0-9a-f]{8})", text)[1]
        hold(drawn_by("--seed", seed) == text, f"docs/worth.md: {file} is not what its seed draws")
        hold(seed in PAGE, f"docs/worth.md: the page does not name the seed {seed} of {file}")


def git(*words):
    """What git prints, or None where it fails: a tree without a history has none."""
    ran = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
    return ran.stdout if ran.returncode == 0 else None


def formulas(commit):
    """What decides the figures, as a commit has it: the constants, and the terms that they multiply."""
    source, judging = git("show", f"{commit}:reach/worth.c"), git("show", f"{commit}:experiments/judge.py")
    return (re.findall(r"double (?:RECALL|LOSS|LOSS_FLOOR)\b.*?;", source), re.findall(r"^def (?:recall|loss)_terms.*?(?=\n\n)", judging, re.M | re.S))


def check_history(seed, since):
    """The constants stood before the seed was known, have not changed since, and were there before the rows."""
    hold(git("log", "--reverse", "--format=%H", "-S", "def others(s2)", seed, "--", "experiments/draw.py") == seed + "\n", f"docs/worth.md: the seed {seed} is not the first commit that draws by --s2")
    hold(git("merge-base", "--is-ancestor", seed, "HEAD") is not None, f"docs/worth.md: the commit {seed} is not among the ancestors")
    changed = git("rev-list", f"{seed}..HEAD", "--", "reach/worth.c", "experiments/judge.py").split()
    for commit in [*changed, "HEAD"]:
        hold(formulas(commit) == formulas(seed), f"docs/worth.md: the formulas of {commit} are not those of the commit that is the seed")
    for path in since:
        commits = git("log", "--format=%H", "--", path).split()
        hold(len(commits) == 1, f"docs/worth.md: {path} was changed after it was written")
        hold(commits and git("merge-base", "--is-ancestor", seed, commits[-1]) is not None, f"docs/worth.md: {path} is older than the seed")


def check_order():
    """The rows were trained by code that stood after the list, and were written after it."""
    listed = git("log", "--format=%H", "--", "experiments/drawn-sealed.txt").split()[-1]
    for commit in {row["commit"] for row in read("sealed")}:
        hold(git("merge-base", "--is-ancestor", listed, commit) is not None, f"docs/worth.md: the rows' commit {commit} does not have the list yet")
    hold(git("cat-file", "-e", f"{listed}:docs/results/worth-sealed.jsonl") is None, "docs/worth.md: a commit before the list has the rows")


def check_sealed():
    """The draw whose order anybody can verify: by the seed alone, and by this repository's history where it is there."""
    text = (EXPERIMENTS / "drawn-sealed.txt").read_text()
    seed = re.search(r"--seed ([0-9a-f]{40})", text)[1]
    again = drawn_by("--seed", seed, "--s2", S2)
    hold(again == text, "docs/worth.md: drawn-sealed.txt is not what its seed draws")
    hold(seed[:8] in PAGE, f"docs/worth.md: the page does not name the seed {seed[:8]}")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        judge.foretell(S2, EXPERIMENTS / "drawn-sealed.txt")
    hold([json.loads(line) for line in out.getvalue().splitlines()] == read("said"), "docs/worth.md: worth-said.jsonl is not what s2 says of the sealed draw")
    if git("cat-file", "-e", seed) is None:
        print("skipped: the history does not reach back to the seed of the sealed draw", file=sys.stderr)
        return
    check_history(seed, ["experiments/drawn-sealed.txt", "docs/results/worth-said.jsonl"])
    check_order()


NUMBER = r"(-?\d+(?:\.\d+)?)"


def check_third_draw(sealed, again):
    """What the page says of the draw by the hash of a commit, and the error that s2 states."""
    source = (ROOT / "reach" / "worth.c").read_text()
    for name, sets in (("loss", (again, sealed)), ("recall", (again, sealed))):
        stated = re.search(rf"s2_worth_{name}_error = ([\d.]+);", source)[1]
        hold(all(error_of(rows, name) <= float(stated) + 0.0005 for rows in sets), f"docs/worth.md: s2 states an error of {name} below that of a draw")
    off = sorted(sealed, key=lambda row: -abs(row["reach"]["worth"]["loss"] - row["loss"]))
    said = numbers(rf"`local 1 \| dilated 2 phase head\*2`, is said to lose {NUMBER} and lost {NUMBER}, two strides by KV head with a window of one block lost {NUMBER} and {NUMBER} more than is said of them, and without these three the error is {NUMBER}")
    hold(judge.rules_of(off[0]) == "local 1 | dilated 2 phase head*2" and all(re.match("local 1 .*phase kv", judge.rules_of(row)) for row in off[1:3]), "docs/worth.md: the pattern that is farthest off is another")
    for one, value in zip(said, (off[0]["reach"]["worth"]["loss"], off[0]["loss"], *(row["loss"] - row["reach"]["worth"]["loss"] for row in off[1:3]), error_of(off[3:], "loss"))):
        same("the third draw, loss", one, value)
    dense = [next(row["loss"] for row in read(name) if (row["name"], row["task"], row["seed"]) == ("dense", "text", 1)) for name in ("sealed", "fit")]
    for one, value in zip(numbers(rf"came to {NUMBER} on the text of seed 1, where the same model in the first patterns came to {NUMBER}"), dense):
        same("dense, again", one, value)
    for said in numbers(rf"It took {NUMBER} s on one H200"):
        same("the third draw's time", said, sum({(row["task"], row["seed"]): row["batch_s"] for row in read("sealed")}.values()))


def check_kernels():
    """The same models by both attentions."""
    rows = {(row.get("attention", "flex"), row["task"], row["name"]): row for row in read("kernels")}
    names = [name for attention, task, name in rows if (attention, task) == ("flex", "recall")]
    apart = [abs(curve_mean(rows["s2", "recall", name]) - curve_mean(rows["flex", "recall", name])) for name in names]
    hold(len(names) == 8, "docs/worth.md: eight patterns were trained by both attentions")
    for said in numbers(rf"where the seeds of one pattern have a standard deviation of {NUMBER}"):
        same("seeds beside both attentions", said, spread(read("fit"), "recall", curve_mean))
    for said, value in zip(numbers(rf"mean recalls differ by {NUMBER} \(root mean square; at most {NUMBER}\)"), (math.sqrt(judge.mean(d * d for d in apart)), max(apart))):
        same("both attentions", said, value)
    step_ms = [1000 * (row["batch_s"] - row["begin_s"]) / (row["steps"] - 25) for row in (rows[attention, "recall", names[0]] for attention in ("s2", "flex"))]
    for said, value in zip(numbers(rf"A step of 8 models takes {NUMBER} ms that way and {NUMBER} ms with FlexAttention"), step_ms):
        same("a step", said, value)


def check_hops(rows):
    """The tables of two hops, needles and copying, and what stands below them."""
    by = {judge.rules_of(row): row for row in rows}
    for cells in table("| pattern | one hop | two hops | copied |"):
        got = by[(re.match(r"`(.*?)`", cells[0]) or re.match(r"(dense)", cells[0]))[1]]
        for said, name in zip(cells[1:], ("one", "two", "copied")):
            same(f"{cells[0]}, {name}", said, got[name])
    for cells in table("| predictor | one hop | two hops | copied |"):
        for said, name in zip(cells[1:], ("one", "two", "copied")):
            same(f"{cells[0]}, {name}", said, judge.spearman([judge.hop_measures(row)[cells[0]] for row in rows], [row[name] for row in rows]))
    hold(len(rows) == 16 and sum(row["two"] < 0.17 for row in rows) == 10, "docs/worth.md: ten of the 16 did not get beyond guessing")
    hold(sum(row["one"] > 0.99 and row["two"] < 0.17 and "phase" in row["text"] for row in rows) == 3, "docs/worth.md: three rotations answer one hop")
    first = {(row["task"], row["rate"], row["seed"]): row for row in read("hops") if row["steps"] == 2000}
    said = numbers(rf"brought one seed to {NUMBER} and left another at {NUMBER}, and with 0.002 they left both there \({NUMBER} and {NUMBER}\)") + numbers(rf"2000 bring it to {NUMBER}")
    for one, key in zip(said, [("twohop", 1e-3, 1), ("twohop", 1e-3, 2), ("twohop", 2e-3, 1), ("twohop", 2e-3, 2), ("copy", 1e-3, 1)]):
        same(f"dense, {key}", one, first[key]["recall"])
    short = [row for row in read("hops") if row["task"] == "needle" and row["steps"] == 200]
    hold(len(short) == 8, "docs/worth.md: eight patterns looked for needles for 200 steps")
    for one, value in zip(numbers(rf"dense found {NUMBER}, and none more than {NUMBER}"), (next(row["recall"] for row in short if row["name"] == "dense"), max(row["recall"] for row in short))):
        same("needles after 200 steps", one, value)
    said = numbers(rf"finds {NUMBER} of 8 after {NUMBER} steps at rate 0.001, and {NUMBER} after {NUMBER} at 0.002")
    for at, key in ((0, ("needle", 1e-3, 1)), (2, ("needle", 2e-3, 1))):
        same(f"dense, {key}", said[at], dict(first[key]["curve"])[int(said[at + 1])])


def check_needles(rows, sealed):
    """What the sealed draw learned of needles and copying, and what ranks it."""
    tasks, by = ("needle", "needle_end", "copied"), {judge.rules_of(row): row for row in rows}
    for cells in table("| pattern | needles, mean | needles, at the end | copied |"):
        for said, name in zip(cells[1:], tasks):
            same(f"{cells[0]}, {name}", said, by[re.match(r"`(.*?)`", cells[0])[1]][name])
    for cells in table("| predictor | needles, mean | needles, at the end | copied |"):
        for said, name in zip(cells[1:], tasks):
            same(f"{cells[0]}, {name}", said, judge.spearman([judge.hop_measures(row)[cells[0]] for row in rows], [row[name] for row in rows]))
    kept = {(row["name"], row["task"]): row for row in read("needles")}
    hold(len(kept) == 62 and {row["steps"] for row in kept.values()} == {1000}, "docs/worth.md: 31 patterns had 1000 steps of each task")
    for said, value in zip(numbers(rf"needles {NUMBER}, copied {NUMBER}; `worth-needles.jsonl`, {NUMBER} s and {NUMBER} s on one H200"),
                           [kept["dense", task][key] for key in ("recall", "batch_s") for task in ("needle", "copy")]):
        same("needles and copying, dense", said, value)
    hold(len(rows) == 30 and sum(row["needle_end"] < 0.25 for row in rows) == 20, "docs/worth.md: 20 of the 30 find less than a fourth of the needles")
    for said, value in zip(numbers(rf"to needles\*\*: {NUMBER}, less than density, though it ranks the recall of the same 30 patterns with {NUMBER}"),
                           [judge.spearman([row["reach"]["worth"]["recall"] for row in of], [row[name] for row in of])
                            for of, name in ((rows, "needle_end"), (sealed, "recall"))]):
        same("worth, of needles and of recall", said, value)
    recalled = {row["name"]: row["recall_end"] for row in sealed}
    far = [row for row in rows if re.search(r"stride (8|12|16|32)", row["text"]) and row["needle_end"] < 0.25]
    hold(sum(recalled[row["name"]] > 0.999 for row in far) == 3, "docs/worth.md: three strides of 8 and more recall every pair")
    hold(not any(re.search(r"stride (8|12|16|32)", row["text"]) and row["needle_end"] >= 0.25 for row in rows), "docs/worth.md: no stride of 8 or more finds a fourth of the needles")


def check_long():
    """Flow at lengths that no stack holds."""
    said = numbers(rf"The same pattern has {NUMBER} at 128k and {NUMBER} at 4M tokens") + numbers(rf"it has {NUMBER}, {NUMBER} at 1M and {NUMBER} at 4M: most keys")
    one, other = "model llama-3.1-8b; local 16 | stride 32 phase head", "model llama-3.1-8b; local 16 | stride 32 phase kv+1; kv 7: dense"
    for value, (length, text) in zip(said, (("128k", one), ("4m", one), ("128k", other), ("1m", other), ("4m", other))):
        out = subprocess.run([S2, "reach", "--json", "--len", length, text], capture_output=True, text=True, check=True).stdout
        same(f"flow of {text} at {length}", value, json.loads(out)["least_flow"])


def check_learned(small, chosen, larger, by_text, large_text):
    """Tables of single patterns: by their rules, with what was learned."""
    for cells in table("| pattern | mean recall | at the end | loss |"):
        rules = re.match(r"`(.*?)`|(dense)", cells[0])
        got = small[by_text[rules[1] or rules[2]]]
        for said, name in zip(cells[1:], ("recall", "recall_end", "loss")):
            same(f"{cells[0]}, {name}", said, got[name])
    before = ""
    for cells in table("| pattern | | small | | larger |"):
        rules = re.match(r"`(.*?)`|(dense)|(the same with `local 4`)", cells[0])
        text = rules[1] or rules[2] or before.replace("local 1", "local 4", 1)
        before = text
        name = large_text[text]
        for said, value in zip(cells[1:], [of[key] for of in (chosen.get(name) or small[name], larger[name]) for key in ("recall", "loss")]):
            same(f"{cells[0]}", said, value)


def check_sentences(first, drawn_all, longer, rows_larger):
    by = {judge.rules_of(row): row for row in first}
    for said, row in zip(numbers(r"Text hardly minds \((-?\d+(?:\.\d+)?) and (-?\d+(?:\.\d+)?)\)"), (by["local 4 | stride 8 phase head"], by["local 4 | stride 16 phase head"])):
        same("a broken union's loss", said, row["loss"])
    for said in numbers(r"a window of one block costs (-?\d+(?:\.\d+)?) nats a byte"):
        same("a window of one block", said, by["local 1 | stride 8 phase head"]["loss"] - by["local 4 | stride 8 phase head"]["loss"])
    for said in numbers(r"hardly more than density \((-?\d+(?:\.\d+)?)\)"):
        same("density on all that were drawn first", said, judge.spearman([row["density"] for row in drawn_all], [-row["loss"] for row in drawn_all]))
    names = [by[rules]["name"] for rules in ("local 4 | stride 4 phase layer", "local 16")]
    once = {row["name"]: row["recall"] for row in read("fit") if row["task"] == "recall" and row["seed"] == 1}
    said = numbers(r"`local 4 \| stride 4 phase layer` (-?\d+(?:\.\d+)?) to (-?\d+(?:\.\d+)?), `local 16` (-?\d+(?:\.\d+)?) to (-?\d+(?:\.\d+)?)")
    values = [value for name in names for value in (once[name], longer[name]["recall_end"])]
    for one, value in zip(said, values):
        same("recall at the end, after 1000 and 2500 steps", one, value)
    for said in numbers(r"rank correlation with recall at the end is then (-?\d+(?:\.\d+)?)"):
        same("the longer training", said, judge.spearman([row["reach"]["worth"]["recall"] for row in first], [longer[row["name"]]["recall_end"] for row in first]))
    one_hop = [row["recall"] for row in first if row["hops"] == -1]
    for said, value in zip(numbers(r"among the (\d+) fitted patterns of one hop mean recall goes from (-?\d+(?:\.\d+)?) to (-?\d+(?:\.\d+)?)"), (len(one_hop), min(one_hop), max(one_hop))):
        same("patterns of one hop", said, value)
    for said, row in zip(numbers(r"recalls (-?\d+(?:\.\d+)?) with 4 layers and (-?\d+(?:\.\d+)?) with 8, `local 8 \| dilated 8 phase head` (-?\d+(?:\.\d+)?) and (-?\d+(?:\.\d+)?)"),
                         (by["local 4 | stride 8 phase head"], rows_larger["local 4 | stride 8 phase head"], None, rows_larger["local 8 | dilated 8 phase head"])):
        if row is not None:
            same("rotated strides", said, row["recall"])


def check_seeds(larger, chosen):
    def per_seed(name, task, kept=larger):
        rows = sorted((row for row in kept if row["name"] == name and row["task"] == task), key=lambda row: row["seed"])
        return [row["loss"] if task == "text" else curve_mean(row) for row in rows]
    lists = [("dense", "text", r"losses by seed are (-?\d+(?:\.\d+)?), (-?\d+(?:\.\d+)?) and (-?\d+(?:\.\d+)?) for dense"),
             ("l1-s16-kv-dense", "text", r"(-?\d+(?:\.\d+)?), (-?\d+(?:\.\d+)?) and (-?\d+(?:\.\d+)?) for the winner, 1\.346"),
             ("l1-s8-head", "text", r"(-?\d+(?:\.\d+)?), (-?\d+(?:\.\d+)?) and (-?\d+(?:\.\d+)?) for the cheapest pattern, and 1\.166"),
             ("l4-s8-head", "text", r"and (-?\d+(?:\.\d+)?), (-?\d+(?:\.\d+)?) and (-?\d+(?:\.\d+)?) for the window with strides"),
             ("dense", "recall", r"three seeds is (-?\d+(?:\.\d+)?), (-?\d+(?:\.\d+)?) and (-?\d+(?:\.\d+)?) for dense"),
             ("l1-s16-kv-dense", "recall", r"for dense, (-?\d+(?:\.\d+)?), (-?\d+(?:\.\d+)?) and (-?\d+(?:\.\d+)?) for the winner, and 0"),
             ("l1-s8-head", "recall", r"and (-?\d+(?:\.\d+)?), (-?\d+(?:\.\d+)?) and (-?\d+(?:\.\d+)?) for the cheapest pattern: what"),
             ("l4-s8-head", "recall", r"did not as larger ones \((-?\d+(?:\.\d+)?), (-?\d+(?:\.\d+)?) and (-?\d+(?:\.\d+)?)\)")]
    for name, task, pattern in lists:
        for said, value in zip(numbers(pattern), per_seed(name, task)):
            same(f"{name}, {task} by seed", said, value)
    for name, pattern in (("l4-s8-head", r"recall as small models \(NUM, NUM and NUM; loss NUM\)"),
                          ("l1-s6-head", r"stride 6 phase head`, NUM, NUM and NUM with a loss of NUM")):
        values = [*per_seed(name, "recall", chosen), judge.mean(per_seed(name, "text", chosen))]
        for said, value in zip(numbers(pattern.replace("NUM", r"(-?\d+(?:\.\d+)?)")), values):
            same(f"{name}, small models", said, value)


def check_larger(rows, small, larger):
    again = [row for row in rows if row["name"].startswith("again-")]
    check_spearman("| predictor | mean recall | at the end | loss |", [again])
    for cells in table("| predictor | mean recall | at the end | loss |"):
        count = re.match(r"what the small models learned themselves \((\d+) patterns", cells[0])
        both = [row for row in rows if "loss" in small.get(row["name"], {})]
        for said, value in zip([count[1], *cells[1:]] if count else [], [len(both)] + [judge.spearman([small[row["name"]][n] for row in both], [row[n] for row in both]) for n in ("recall", "recall_end", "loss")]):
            same("what small models learned", said, value)
    bias = {name: judge.mean(row["reach"]["worth"][name] - row[name] for row in again) for name in ("recall", "loss")}
    for said, value in zip(numbers(r"loss is lower by (-?\d+(?:\.\d+)?) nats a byte \(root mean square error (-?\d+(?:\.\d+)?)\), mean recall lower by (-?\d+(?:\.\d+)?) \(error (-?\d+(?:\.\d+)?)\)"),
                           (bias["loss"], error_of(again, "loss"), bias["recall"], error_of(again, "recall"))):
        same("what the frozen figures say of the larger models", said, value)


def check_dilution(first, drawn, again, larger):
    """Signals as reach/worth.h has them: of the first layer where layers are alike, and their means."""
    def correlate(rows, of):
        return judge.spearman([of([layer["signal"] for layer in row["reach"]["by_layer"]]) for row in rows], [row["recall"] for row in rows])
    small = first + drawn + again
    upper = [judge.spearman([row["reach"]["by_layer"][3]["coverage"] for row in rows], [row["recall"] for row in rows]) for rows in (drawn, again)]
    for said, value in zip(numbers(r"\(layer 3: (-?\d+(?:\.\d+)?) and (-?\d+(?:\.\d+)?)\)"), upper):
        same("coverage of the last layer", said, value)
    for said, limit in zip(numbers(r"carries over whole\*\* \((-?\d+(?:\.\d+)?) to (-?\d+(?:\.\d+)?) in all eight patterns"), (min, max)):
        whole = [row["recall"] for row in larger if re.search("dense-head|^duo|head0|dense0|kv-dense", row["name"])]
        same("a dense head in larger models", said, limit(whole) if len(whole) == 8 else math.nan)
    for said in numbers(r"a window of one block the same stride still gets (-?\d+(?:\.\d+)?)"):
        same("a window of one block in larger models", said, next(row["recall"] for row in larger if row["name"] == "l1-s8-head"))
    for said, value in zip(numbers(r"whose rank correlation with mean recall is (-?\d+(?:\.\d+)?) over the (\d+) small patterns and (-?\d+(?:\.\d+)?) over the (\d+) larger ones"),
                           (correlate(small, lambda s: s[0]), len(small), correlate(larger, lambda s: s[0]), len(larger))):
        same("the signal of the first layer", said, value)
    for said, value in zip(numbers(r"the mean over layers gives (-?\d+(?:\.\d+)?) and (-?\d+(?:\.\d+)?)"), (correlate(small, judge.mean), correlate(larger, judge.mean))):
        same("the mean signal", said, value)


def main():
    first = judge.table(S2, EXPERIMENTS / "patterns.txt", judge.RESULTS / "worth-fit.jsonl", set())
    drawn_all = judge.table(S2, EXPERIMENTS / "drawn.txt", judge.RESULTS / "worth-drawn.jsonl", set())
    seen = {repr(row["reach"]) for row in first}
    drawn = judge.table(S2, EXPERIMENTS / "drawn.txt", judge.RESULTS / "worth-drawn.jsonl", set(seen))
    seen |= {repr(row["reach"]) for row in drawn}
    again = judge.table(S2, EXPERIMENTS / "drawn-again.txt", judge.RESULTS / "worth-again.jsonl", seen)
    seen |= {repr(row["reach"]) for row in again}
    sealed = judge.table(S2, EXPERIMENTS / "drawn-sealed.txt", judge.RESULTS / "worth-sealed.jsonl", seen)
    larger = judge.table(S2, EXPERIMENTS / "larger.txt", judge.RESULTS / "worth-larger.jsonl", set(), LARGER)
    fit_rows, long = read("fit"), judge.learned(judge.RESULTS / "worth-long.jsonl")
    learned_small = judge.learned(judge.RESULTS / "worth-fit.jsonl")
    learned_again = {f"again-{name}": got for name, got in judge.learned(judge.RESULTS / "worth-again.jsonl").items()}
    for said, value in zip(numbers(r"recall was frozen \((\d+)\): mean recall \| at the end \| loss \| drawn when both were frozen \((\d+)\): mean recall \| at the end \| loss \| drawn by the hash of a commit \((\d+)\)") + numbers(r"^(\d+) patterns of every family".replace("^", r"\n")),
                           (len(drawn), len(again), len(sealed), len(first))):
        same("how many patterns", said, value)
    check_drawn()
    check_sealed()
    check_constants(first, drawn_all)
    check_spearman("| predictor | drawn when recall was frozen", [drawn, again, sealed])
    check_third_draw(sealed, again)
    check_kernels()
    check_long()
    check_hops(judge.hop_rows(S2))
    check_needles(judge.needle_rows(S2), sealed)
    for said, value in zip(numbers(r"drawn patterns: recall (-?\d+(?:\.\d+)?), (-?\d+(?:\.\d+)?) and (-?\d+(?:\.\d+)?), loss (-?\d+(?:\.\d+)?) on the second draw and (-?\d+(?:\.\d+)?) on the third")
                           + numbers(r"Over the seeds of one pattern the standard deviation is (-?\d+(?:\.\d+)?) of mean recall and (-?\d+(?:\.\d+)?) of loss"),
                           (error_of(drawn, "recall"), error_of(again, "recall"), error_of(sealed, "recall"), error_of(again, "loss"), error_of(sealed, "loss"),
                            spread(fit_rows, "recall", curve_mean), spread(fit_rows, "text", lambda row: row["loss"]))):
        same("errors", said, value)
    by_text = {judge.rules_of(row): row["name"] for row in first}
    large_rows = {re.sub(r"layers 0-1\b", "layers 0", judge.rules_of(row)): row for row in larger}
    check_learned(learned_small, judge.learned(judge.RESULTS / "worth-chosen.jsonl"), {row["name"]: row for row in larger}, by_text,
                  {judge.rules_of(row): row["name"] for row in larger})
    check_sentences(first, drawn_all, long, large_rows)
    check_larger(larger, learned_small | learned_again, larger)
    check_seeds(read("larger"), read("chosen"))
    check_dilution(first, drawn, again, larger)


main()
end()
