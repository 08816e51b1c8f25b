#!/usr/bin/env python3
"""A mask_mod, f(b, h, q, k) as FlexAttention takes it, into a mask that s2 reads, proves, explains and says in terms.

usage: trace_mask.py FILE.py:FUNCTION OUT.npy [--heads=8] [--len=512] [--batch=0]

Then `s2 import OUT.npy --terms --set block=1` names the shortest pattern text that reads the same pairs, or says that there is none. The
function is asked for every pair: with torch's tensors where torch is installed, else number by number.
"""
import importlib.util
import struct
import sys


def option(name, default):
    return next((int(word.split("=", 1)[1]) for word in sys.argv if word.startswith(f"--{name}=")), default)


def load(place):
    path, _, name = place.rpartition(":")
    spec = importlib.util.spec_from_file_location("traced", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def by_tensors(f, batch, heads, n_tok):
    import torch
    h, q, k = torch.arange(heads), torch.arange(n_tok), torch.arange(n_tok)
    made = f(torch.tensor(batch), h[:, None, None], q[None, :, None], k[None, None, :])
    return torch.as_tensor(made).bool().expand(heads, n_tok, n_tok).contiguous().view(torch.uint8).numpy().tobytes()


def by_numbers(f, batch, heads, n_tok):
    return bytes(bool(f(batch, h, q, k)) for h in range(heads) for q in range(n_tok) for k in range(n_tok))


def main():
    if len(sys.argv) < 3 or ":" not in sys.argv[1]:
        sys.exit(__doc__)
    heads, n_tok, f = option("heads", 8), option("len", 512), load(sys.argv[1])
    trace = by_tensors if importlib.util.find_spec("torch") else by_numbers
    pairs = trace(f, option("batch", 0), heads, n_tok)
    head = f"{{'descr': '|b1', 'fortran_order': False, 'shape': ({heads}, {n_tok}, {n_tok}), }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    with open(sys.argv[2], "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + pairs)


main()
