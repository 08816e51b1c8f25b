#!/usr/bin/env python3
"""A mask_mod, f(b, h, q, k) as FlexAttention takes it, into a mask that s2 reads, proves, explains and says in terms.

usage: trace_mask.py FILE.py:FUNCTION OUT.npy [--heads=8] [--len=512] [--batch=0]

An option's value may stand behind a blank too, and lengths end in k (1024) as everywhere in s2. `s2 import OUT.npy --terms --set block=1` then
names a short pattern text that reads the same pairs, or says that there is none. Others may read the same ones up to this length and go
on differently: trace 1000 tokens or more, and several periods of the longest stride. The function is asked for every pair: with torch's tensors where torch is installed, else number by number.
"""
import importlib.util
import os
import struct
import sys


OPTIONS = {"heads": 8, "len": 512, "batch": 0}


def number(name, word):
    try:
        value = int(word[:-1]) * 1024 if word[-1:] in ("k", "K") else int(word)
    except ValueError:
        value = -1
    if value < (0 if name == "batch" else 1):
        sys.exit(f"trace_mask.py: --{name} {word}: expected a number, such as {OPTIONS[name] or 3} or 1k")
    return value


def arguments(words):
    """The two names, and the options by their names."""
    plain, options, rest = [], dict(OPTIONS), list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word[2:].partition("=")
        if not word.startswith("--"):
            plain.append(word)
        elif name not in OPTIONS:
            sys.exit(f"trace_mask.py: {word}: the options are --{', --'.join(OPTIONS)}")
        elif not equals and not rest:
            sys.exit(f"trace_mask.py: {word} needs a number")
        else:
            options[name] = number(name, value if equals else rest.pop(0))
    if len(plain) != 2 or ":" not in plain[0]:
        sys.exit(__doc__)
    return plain, options


def load(place):
    """What goes wrong inside the user's file is Python's to say; what it lacks is said here."""
    path, _, name = place.rpartition(":")
    if not os.path.isfile(path):
        sys.exit(f"trace_mask.py: there is no file {path}")
    spec = importlib.util.spec_from_file_location("traced", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        sys.exit(f"trace_mask.py: {path} has no function {name}")
    return function


def by_tensors(f, batch, heads, n_tok):
    import torch
    h, q, k = torch.arange(heads), torch.arange(n_tok), torch.arange(n_tok)
    made = f(torch.tensor(batch), h[:, None, None], q[None, :, None], k[None, None, :])
    return torch.as_tensor(made).bool().expand(heads, n_tok, n_tok).contiguous().view(torch.uint8).numpy().tobytes()


def by_numbers(f, batch, heads, n_tok):
    return bytes(bool(f(batch, h, q, k)) for h in range(heads) for q in range(n_tok) for k in range(n_tok))


def main():
    (place, out_path), options = arguments(sys.argv[1:])
    heads, n_tok, f = options["heads"], options["len"], load(place)
    trace = by_tensors if importlib.util.find_spec("torch") else by_numbers
    pairs = trace(f, options["batch"], heads, n_tok)
    head = f"{{'descr': '|b1', 'fortran_order': False, 'shape': ({heads}, {n_tok}, {n_tok}), }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    try:
        with open(out_path, "wb") as out:
            out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + pairs)
    except OSError as why:
        sys.exit(f"trace_mask.py: {out_path}: {why.strerror}")


main()
