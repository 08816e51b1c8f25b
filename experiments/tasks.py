"""What the small models learn: batches [rows, CONTEXT] of bytes and targets; target 0 asks for nothing.

Each generator is a function of (rows, generator) alone, so every pattern sees the same rows under one seed.
"""
import torch

CONTEXT = 256
VOCAB = 256
KEYS = 64  # keys are 1 to 64, values 128 to 191
VALUES = 64
QUESTIONS = 48
TWO_HOPS = 254
COPY = 255
STREAMS = {"recall": 1, "mixed": 2, "text": 3, "needle": 4, "twohop": 5, "copy": 6}  # their seeds differ
BY_DISTANCE = ("recall", "needle")  # the third result is a distance in tokens, elsewhere a kind of question
COUNTED = {"recall": None, "mixed": None, "needle": None, "twohop": 2, "copy": 3}  # the kind that recall counts; None: all


def choose(rows, among, count, gen):
    """`count` distinct numbers below `among` in random order, for each row."""
    return torch.rand(rows, among, generator=gen, device=gen.device).argsort(1)[:, :count]


def blank(rows, gen):
    empty = torch.zeros(rows, CONTEXT, dtype=torch.long, device=gen.device)
    return empty, empty.clone(), empty.clone()


def recall(rows, gen, pairs=None):
    """Associative recall (MQAR, arXiv 2312.04927): key-value pairs in the first half, keys asked in the second.

    The third result is the distance in tokens from the question to its key.
    """
    if pairs is None:
        pairs = (4, 8, 16, 32)[int(torch.randint(4, (1,), generator=gen, device=gen.device))]
    x, y, distance = blank(rows, gen)
    keys = choose(rows, KEYS, pairs, gen) + 1
    values = torch.randint(128, 128 + VALUES, (rows, pairs), generator=gen, device=gen.device)
    placed = choose(rows, CONTEXT // 4, pairs, gen) * 2
    x.scatter_(1, placed, keys).scatter_(1, placed + 1, values)
    asked = choose(rows, CONTEXT // 4, QUESTIONS, gen) * 2 + CONTEXT // 2
    which = torch.randint(pairs, (rows, QUESTIONS), generator=gen, device=gen.device)
    x.scatter_(1, asked, keys.gather(1, which))
    y.scatter_(1, asked, values.gather(1, which))
    distance.scatter_(1, asked, asked - placed.gather(1, which))
    return x, y, distance


def linked(rows, gen, chains, questions):
    """Blank rows with links b -> c in their first third and a -> b in their second, and places for questions in the last."""
    x, y, kind = blank(rows, gen)
    names = choose(rows, KEYS, 2 * chains, gen) + 1
    a, b = names[:, :chains], names[:, chains:]
    c = torch.randint(128, 128 + VALUES, (rows, chains), generator=gen, device=gen.device)
    third = CONTEXT // 3 // 2
    last, first = choose(rows, third, chains, gen) * 2, choose(rows, third, chains, gen) * 2 + 2 * third
    x.scatter_(1, last, b).scatter_(1, last + 1, c)
    x.scatter_(1, first, a).scatter_(1, first + 1, b)
    return x, y, kind, a, b, c, choose(rows, third, questions, gen) * 2 + 4 * third


def hops(rows, gen, chains=6):
    """Chains a -> b and b -> c; `a` asks for b, TWO_HOPS `a` asks for c. The third result counts the hops."""
    x, y, kind, a, b, c, asked = linked(rows, gen, chains, 2 * chains)
    one, two = asked[:, :chains], asked[:, chains:]
    x.scatter_(1, one + 1, a).scatter_(1, two + 1, a).scatter_(1, two, torch.full_like(two, TWO_HOPS))
    y.scatter_(1, one + 1, b).scatter_(1, two + 1, c)
    kind.scatter_(1, one + 1, torch.ones_like(one)).scatter_(1, two + 1, torch.full_like(two, 2))
    return x, y, kind


def copy(rows, gen, length=48):
    """A random run behind the mark COPY in the first half, asked for behind the mark in the second."""
    x, y, kind = blank(rows, gen)
    run = torch.randint(1, 128, (rows, length), generator=gen, device=gen.device)
    span = torch.arange(length, device=gen.device)
    half = CONTEXT // 2
    starts = torch.randint(1, half - length, (2, rows, 1), generator=gen, device=gen.device)
    source, target = starts[0] + span, starts[1] + half + span
    for place in (starts[0] - 1, starts[1] + half - 1):
        x.scatter_(1, place, torch.full_like(place, COPY))
    x.scatter_(1, source, run).scatter_(1, target, run)
    y.scatter_(1, target - 1, run)
    kind.scatter_(1, target - 1, torch.full_like(run, 3))
    return x, y, kind


def mixed(rows, gen):
    """Half of the rows hops, half copying; the third result is 1 or 2 for hops and 3 for copying."""
    parts = zip(hops(rows // 2, gen), copy(rows - rows // 2, gen))
    return tuple(torch.cat(pair) for pair in parts)


def two_hops(rows, gen, chains=None):
    """
    Chains as in hops(), 2 to 8 of them, with as many questions as recall() has: which learns what a single row of hops()
    asks too seldom. 24 ask for two hops (kind 2), 16 for one: a for b, or b for c (kind 1).
    """
    if chains is None:
        chains = (2, 4, 8)[int(torch.randint(3, (1,), generator=gen, device=gen.device))]
    x, y, kind, a, b, c, asked = linked(rows, gen, chains, 40)
    which = torch.randint(chains, (rows, 40), generator=gen, device=gen.device)
    is_two = torch.arange(40, device=gen.device) < 24
    of_b = torch.rand(rows, 40, generator=gen, device=gen.device) < 0.5
    key = torch.where(is_two | ~of_b, a.gather(1, which), b.gather(1, which))
    value = torch.where(is_two | of_b, c.gather(1, which), b.gather(1, which))
    x.scatter_(1, asked, (is_two * TWO_HOPS).expand(rows, -1)).scatter_(1, asked + 1, key)
    y.scatter_(1, asked + 1, value)
    kind.scatter_(1, asked + 1, (1 + is_two.long()).expand(rows, -1))
    return x, y, kind


def needle(rows, gen, data, needles=None):
    """
    Real text, in whose first half pairs of a key and a value stand, bytes that no text has; 32 questions in the second.
    The third result is the distance from the question to its key.
    """
    if needles is None:
        needles = (1, 2, 4, 8)[int(torch.randint(4, (1,), generator=gen, device=gen.device))]
    x, y, distance = text(rows, gen, data)[0].clone(), *blank(rows, gen)[1:]
    keys = choose(rows, 32, needles, gen) + 128
    values = torch.randint(160, 160 + VALUES, (rows, needles), generator=gen, device=gen.device)
    placed = choose(rows, CONTEXT // 4, needles, gen) * 2
    x.scatter_(1, placed, keys).scatter_(1, placed + 1, values)
    asked = choose(rows, CONTEXT // 4, 32, gen) * 2 + CONTEXT // 2
    which = torch.randint(needles, (rows, 32), generator=gen, device=gen.device)
    x.scatter_(1, asked, keys.gather(1, which))
    y.scatter_(1, asked, values.gather(1, which))
    distance.scatter_(1, asked, asked - placed.gather(1, which))
    return x, y, distance


def text(rows, gen, data):
    """The next byte of real text; data is a tensor of bytes without NUL."""
    begin = torch.randint(len(data) - CONTEXT - 1, (rows, 1), generator=gen, device=gen.device)
    window = data[begin + torch.arange(CONTEXT + 1, device=gen.device)].long()
    return window[:, :-1], window[:, 1:], torch.ones_like(window[:, 1:])
