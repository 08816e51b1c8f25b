"""Draw patterns that nobody chose: `python3 experiments/draw.py --seed N > experiments/drawn.txt`.

Three of every family, numbers at random, none that patterns.txt has. The seed of drawn.txt and drawn-again.txt is the
first eight digits of the hash of the file that holds the constants that they judge (`git hash-object reach/worth.c`).

    python3 experiments/draw.py --seed COMMIT --s2 build/release/s2 > experiments/drawn-sealed.txt

also draws again what reads as a pattern that was trained before (TRAINED), or as one drawn before it. Its seed is the
hash of the first commit of this history that has these lines: the constants stood in reach/worth.c by then, and nobody
knew the hash.
"""
import argparse
import pathlib
import random

from judge import HERE, reach
from shape import read_patterns, shape

TRAINED = ("patterns.txt", "drawn.txt", "drawn-again.txt", "chosen.txt")
# What tells patterns apart; named one by one, so that a measure that s2 learns later changes no draw.
OF_LAYER = ("last", "least", "coverage", "concentration", "signal")
OF_DISTANCE = ("heads", "least_heads", "kv_heads", "least_kv_heads", "chances", "least_chances", "flow", "log2_paths")
OF_PATTERN = ("window_tok", "least_flow", "mean_window", "neighbour", "far")


def local(rng):
    return f"local {rng.choice([1, 1, 2, 2, 3, 4, 5, 6, 8, 12])}"


def stride(rng, broken=False):
    word = rng.choice(["head", "kv"])
    heads = 8 if word == "head" else 4
    width = rng.choice([1, 1, 2])
    period = heads * width * 2 if broken else heads * width // rng.choice([1, 1, 2])
    return f"stride {period} width {width} phase {word}" + (f"*{width}" if width > 1 else "")


def window(rng):
    return f"{local(rng)} | sink {rng.choice([1, 2])}" if rng.random() < 0.3 else f"local {rng.randrange(2, 40)}"


def dense_layer(rng):
    body = rng.choice([local(rng), f"{local(rng)} | {stride(rng)}"])
    return f"{body}; layers {','.join(map(str, sorted(rng.sample(range(4), rng.choice([1, 1, 2])))))}: dense"


def dense_heads(rng):
    chosen = rng.choice([f"heads {rng.randrange(8)}", f"kv {rng.randrange(4)}", "heads 2-4", "kv 0,2"])
    layers = rng.choice(["", "", "layers 0-1 ", "layers 1-2 ", "layers 1:: "])
    return f"{local(rng)}; {layers}{chosen}: dense"


def by_layer(rng):
    return f"{local(rng)} | stride {rng.choice([8, 12, 16])} phase head{rng.choice(['', '*3'])}+layer*{rng.choice([1, 3, 4, 8])}"


def halves(rng):
    a, b = (f"{local(rng)} | {stride(rng)}", f"local {rng.randrange(1, 17)}")
    return (f"heads 0-3: {a}; heads 4-7: {b}", f"layers 0-1: {a}; layers 2-3: {b}",
            f"layers 0::2: {b}; layers 1::2: {a}", f"layers 0::2: {a}; layers 1::2: {b}")[rng.randrange(4)]


def near_far(rng):
    cut = rng.choice([6, 8, 12, 16, 24])
    return f"{local(rng)} | {stride(rng)} when distance ..{cut} | stride {rng.choice([8, 16])} width {rng.choice([1, 2])} phase head when distance {cut}.."


def scattered(rng):
    return f"{local(rng)} | random {rng.randrange(2, 24)} seed {rng.randrange(1000)}"


def dilated(rng):
    return f"{local(rng)} | dilated {rng.choice([2, 4, 6, 8])} phase {rng.choice(['head', 'kv', 'head*2'])}"


FAMILIES = {"window": window, "stride": lambda rng: f"{local(rng)} | {stride(rng)}",
            "broken": lambda rng: f"{local(rng)} | {stride(rng, True)}", "dense-layer": dense_layer,
            "dense-head": dense_heads, "by-layer": by_layer, "halves": halves, "near-far": near_far,
            "random": scattered, "dilated": dilated}


def look(s2, text):
    found = reach(s2, {"text": text})
    parts = [(found["by_layer"], OF_LAYER), (found["by_distance"], OF_DISTANCE), ([found], OF_PATTERN)]
    return tuple(one[name] for several, names in parts for one in several for name in names)


def others(s2):
    """A function that says whether a text reads otherwise than all that were trained and all that it was asked for."""
    if s2 is None:
        return lambda text: True
    seen = {look(s2, pattern["text"]) for name in TRAINED for pattern in read_patterns(HERE / name)}

    def is_other(text):
        found = look(s2, shape() + text)
        return found not in seen and not seen.add(found)
    return is_other


def main(words=None):
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--seed", required=True, help="hexadecimal digits")
    parse.add_argument("--s2", help="the program that tells whether a pattern reads as another does")
    parse.add_argument("--each", type=int, default=3)
    options = parse.parse_args(words)
    rng, is_other = random.Random(int(options.seed, 16)), others(options.s2)
    known = (HERE / "patterns.txt").read_text()
    seen = {line.split("~")[2].strip() for line in known.splitlines() if "~" in line}
    print(f"# name ~ family ~ rules: experiments/draw.py --seed {options.seed}" + (" --s2 s2" if options.s2 else ""))
    for family, rule in FAMILIES.items():
        for number in range(options.each):
            text = rule(rng)
            while text in seen or not is_other(text):
                text = rule(rng)
            seen.add(text)
            print(f"{family}-{number} ~ {family} ~ {text}")


if __name__ == "__main__":
    main()
