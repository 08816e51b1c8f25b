"""What calls from Python cost the host, the kernel left out: microseconds on a CPU, the least mean of 100 calls in a row, which other programs hardly change.

usage: calls.py [FOLDER...]     each with a package s2 (unzipped wheels of two commits, say), measured in turns, three times; none: the one that is installed"""
import ctypes
import os
import subprocess
import sys
import timeit

ROUNDS = 3


def empty():
    """A function of the C library that does nothing and returns 0."""
    return ctypes.CDLL(None)["pthread_condattr_destroy"]


def draw(torch, batch, tokens):
    return [torch.randn(batch, tokens, heads, 128).bfloat16().transpose(1, 2) for heads in (8, 2, 2)]


def cases():
    import importlib

    import torch

    import s2
    import s2._lib
    import s2.torch_ops

    torch.set_num_threads(1)
    pattern = s2.Pattern("layers 1; heads 8; kv-heads 2; head-dim 128; block 16; layers all: local 2 | stride 4 phase kv")
    tensors, fresh = draw(torch, 1, 64), draw(torch, 8, 1)
    leaves = [one.clone().requires_grad_() for one in tensors]
    o = s2.attention(*leaves, pattern)
    ones = torch.ones_like(o)
    torch.autograd.grad(o, leaves, ones, retain_graph=True)
    s2.attention(*tensors, pattern)
    ready = next(iter(importlib.import_module("s2.attention")._kept.ready.values()))
    cache = s2.Cache(pattern, fresh[0])
    rows = [cache.open() for _ in range(8)]
    cache.append(rows, 1)
    cache.write(rows, 0, *fresh[1:])
    cache.attend(fresh[0], rows, 0)
    s2._lib.plan_run = s2.torch_ops.plan_run = empty()
    below = torch.ops.s2.attention.default

    def compiled():
        with torch._C._AutoDispatchBelowAutograd():
            below(*tensors, pattern.number, 0, None, "prefill", None, None)

    q, k, v = tensors
    look, room = s2.torch_ops.look_of(q, k, v), s2.torch_ops._room(o)
    return {"an empty call of the library": ready.call,
            "attention": lambda: s2.attention(q, k, v, pattern),
            "  of it: a new tensor": room,
            "  the look at three tensors": lambda: look(q, k, v),
            "  four addresses": lambda: (q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr()),
            "  whether one is nested": lambda: q.is_nested or k.is_nested or v.is_nested,
            "attention, with lse": lambda: s2.attention(q, k, v, pattern, return_lse=True),
            "attention, gradients wanted": lambda: s2.attention(*leaves, pattern),
            "the gradients": lambda: torch.autograd.grad(o, leaves, ones, retain_graph=True),
            "the operator in compiled code": compiled,
            "attend, 8 sequences": lambda: cache.attend(fresh[0], rows, 0),
            "write, 8 sequences": lambda: cache.write(rows, 0, *fresh[1:])}


def measure():
    for name, call in cases().items():
        call()
        print(f"{name}\t{min(timeit.repeat(call, number=100, repeat=100)) * 1e4:.2f}")


def main(folders):
    found = {}
    for _ in range(ROUNDS):
        for folder in folders:
            path = {"PYTHONPATH": os.path.abspath(folder)} if folder else {}
            said = subprocess.run([sys.executable, __file__, "--measure"], env={**os.environ, **path}, check=True, stdout=subprocess.PIPE, text=True)
            for line in said.stdout.splitlines():
                name, took = line.split("\t")
                found.setdefault(name, {}).setdefault(folder, []).append(float(took))
    for name, by_folder in found.items():
        print(f"{name:32}", *(f"{min(took):9.2f}" for took in by_folder.values()))


if __name__ == "__main__":
    measure() if sys.argv[1:] == ["--measure"] else main(sys.argv[1:] or [""])
