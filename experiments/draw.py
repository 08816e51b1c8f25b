"""Draw patterns that nobody chose: `python3 experiments/draw.py --seed N > experiments/drawn.txt`.

Three of every family, numbers at random, none that patterns.txt has. The seed of the patterns that judge a model is
the first eight digits of the hash of the file that holds its constants
(`git hash-object reach/worth.c`), as it was when they were frozen.
"""
import argparse
import pathlib
import random


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


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--seed", required=True, help="eight hexadecimal digits")
    parse.add_argument("--each", type=int, default=3)
    options = parse.parse_args()
    rng = random.Random(int(options.seed, 16))
    known = (pathlib.Path(__file__).parent / "patterns.txt").read_text()
    seen = {line.split("~")[2].strip() for line in known.splitlines() if "~" in line}
    print(f"# name ~ family ~ rules: experiments/draw.py --seed {options.seed}")
    for family, rule in FAMILIES.items():
        for number in range(options.each):
            text = rule(rng)
            while text in seen:
                text = rule(rng)
            seen.add(text)
            print(f"{family}-{number} ~ {family} ~ {text}")


if __name__ == "__main__":
    main()
