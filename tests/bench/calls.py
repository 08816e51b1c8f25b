"""What calls from Python cost the host, in microseconds.

usage: calls.py [--uncompiled] [FOLDER...]                      the kernel left out, on a CPU: the least mean of 100 calls in a row, which other programs hardly change
       calls.py --library=FILE [--seconds=N] [--uncompiled] [FOLDER...]   with FILE's kernels, on a GPU where there is one: a line of JSON for each kind of call, median
                                                                and quartiles of rounds that take all kinds in turn for N seconds (10); `over_c`: the median, least
                                                                and quartiles of what it took more than the call in C of the same round
--uncompiled leaves out what torch.compile takes a minute for. "A layer of compiled code" is what each of LAYERS more calls in one graph adds to it.
Each FOLDER has a package s2 (python/ of a checkout, or an unzipped wheel), and several are measured in turns. None: the one that is installed; with a library
this checkout's. S2_COMMIT names the commit where git cannot."""
import argparse
import contextlib
import ctypes
import functools
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
import timeit

HERE = os.path.dirname(os.path.abspath(__file__))
TURNS = 3
IN_A_ROW = 100
LAYERS = 8
# Beside which call in C; all else that calls the library is beside "C".
IN_C = {"attention, other addresses": "C, other addresses", "the gradients": "C, gradients", "  of it: without autograd": "C, gradients", "the gradients' operator in compiled code": "C, gradients",
        "torch's gradients": "C, gradients", "attend, 8 sequences": "C, step of 8 sequences"}
NOT_OURS = ("an empty call of the library", "entering and leaving what is below autograd", "  of it: a new tensor", "  the look at three tensors", "  four addresses", "  whether one is nested", "write, 8 sequences")
PATTERN = "layers 1; heads 8; kv-heads 2; head-dim 128; block 16; layers all: local 2 | stride 4 phase kv"


def empty():
    """A function of the C library that does nothing and returns 0."""
    return ctypes.CDLL(None)["pthread_condattr_destroy"]


def draw(torch, batch, tokens):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return [torch.randn(batch, tokens, heads, 128, device=device).bfloat16().transpose(1, 2) for heads in (8, 2, 2)]


def in_c(s2, ready, *tensors):
    """The call at the addresses of these tensors, as a program in C makes it, through ctypes."""
    ready.run(*tensors)
    made = functools.partial(s2._lib.plan_run, *ready.call.arguments)
    made.held = ready, tensors
    return made


def decoding(torch, s2, pattern):
    """Steps of 8 sequences, and the one that the cache would make in C."""
    fresh = draw(torch, 8, 1)
    cache = s2.Cache(pattern, fresh[0])
    rows = [cache.open() for _ in range(8)]
    cache.append(rows, 1)
    cache.write(rows, 0, *fresh[1:])
    cache.attend(fresh[0], rows, 0)
    ready = next(iter(cache._known.values()))[0].ready.copy()
    cache._known.clear()
    return in_c(s2, ready, fresh[0], cache.keys, cache.values, torch.empty(8, 8, 1, device=fresh[0].device), torch.empty_like(fresh[0])), {"attend, 8 sequences": lambda: cache.attend(fresh[0], rows, 0), "write, 8 sequences": lambda: cache.write(rows, 0, *fresh[1:])}


def cases(torch, s2, stubbed, uncompiled=False):
    """By name; where the kernel runs, beside the same call in C and torch's own attention."""
    import importlib

    kept = importlib.import_module("s2.attention")._kept
    ops = s2.torch_ops
    pattern = s2.Pattern(PATTERN)
    tensors, others = draw(torch, 1, 64), draw(torch, 1, 64)
    leaves = [one.clone().requires_grad_() for one in tensors]
    o = s2.attention(*leaves, pattern)
    ones = torch.ones_like(o)
    torch.autograd.grad(o, leaves, ones, retain_graph=True)
    with torch.no_grad():
        o_alone, lse = s2.attention(*tensors, pattern, return_lse=True)
    rest = (pattern.number, 0, None, "prefill", None, None)
    given = (ones, *tensors, o_alone, lse, *rest)
    ops._backward(*given)
    forward, backward = (next(one for key, one in reversed(kept.ready.items()) if key[0] == name).copy() for name in ("forward", "backward"))
    c_forward = in_c(s2, forward, *tensors, lse, o_alone)
    c_backward = in_c(s2, backward, *tensors, lse, o_alone, ones, *(torch.empty_like(one) for one in tensors))
    c_decode, steps = decoding(torch, s2, pattern)
    if stubbed:
        s2._lib.plan_run = ops.plan_run = empty()
        kept.again.clear()  # what is known of a call has the library's address
    operator, operator_backward = torch.ops.s2.attention.default, torch.ops.s2.attention_backward.default
    operator_output = getattr(torch.ops.s2, "attention_output", torch.ops.s2.attention).default  # older packages have none
    turns = itertools.cycle((tensors, others))

    def compiled(operator, *given):
        """As inductor's code calls it, which enters what is below autograd once for a graph."""
        def call():
            operator(*given, *rest, deterministic=True, softcap=None, sinks=None)
        call.within = torch._C._AutoDispatchBelowAutograd
        return call

    def enter():
        with torch._C._AutoDispatchBelowAutograd():
            pass

    q, k, v = tensors
    look, room = ops.look_of(q, k, v), ops._room(o)
    found = {"an empty call of the library": functools.partial(empty(), *forward.call.arguments),
             "attention": lambda: s2.attention(q, k, v, pattern),
             "  of it: a new tensor": room,
             "  the look at three tensors": lambda: look(q, k, v),
             "  four addresses": lambda: (q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr()),
             "  whether one is nested": lambda: q.is_nested or k.is_nested or v.is_nested,
             "attention, with lse": lambda: s2.attention(q, k, v, pattern, return_lse=True),
             "attention, gradients wanted": lambda: s2.attention(*leaves, pattern),
             "the gradients": lambda: torch.autograd.grad(o, leaves, ones, retain_graph=True),
             "  of it: without autograd": lambda: ops._backward(*given),
             "entering and leaving what is below autograd": enter,
             "the operator in compiled code": compiled(operator, *tensors),
             "the operator in compiled code, without lse": compiled(operator_output, *tensors),
             "the gradients' operator in compiled code": compiled(operator_backward, *given[:6]),
             **steps}
    whole = {} if uncompiled else whole_graphs(torch, layers("attention", lambda *x: s2.attention(*x, pattern)), tensors)
    if stubbed:
        return {**found, **whole}
    sdpa = functools.partial(torch.nn.functional.scaled_dot_product_attention, is_causal=True, enable_gqa=True)
    dense = sdpa(*leaves)
    moving = forward.copy()
    if not uncompiled:
        whole |= whole_graphs(torch, layers("torch's", sdpa), tensors)
        whole |= whole_graphs(torch, {"attention, compiled, gradients wanted": lambda *x: s2.attention(*x, pattern), "torch's, compiled, gradients wanted": sdpa}, leaves)
    return {"C": c_forward,
            "C, other addresses": lambda: moving.run(*next(turns), lse, o_alone),
            "C, gradients": c_backward,
            "C, step of 8 sequences": c_decode,
            **found,
            "attention, other addresses": lambda: s2.attention(*next(turns), pattern),
            "torch's": lambda: sdpa(q, k, v),
            "torch's, gradients wanted": lambda: sdpa(*leaves),
            "torch's gradients": lambda: torch.autograd.grad(dense, leaves, ones, retain_graph=True),
            **whole}


def layers(name, call):
    """A graph of one call, and one of LAYERS more, each of what the one before made."""
    def many(q, k, v):
        for _ in range(LAYERS + 1):
            q = call(q, k, v)
        return q
    return {f"{name}, compiled": call, f"{name}, compiled {LAYERS + 1} times": many}


def a_layer(every):
    """What one of the more calls adds, of each kind that has them."""
    for name in [name for name in every if name.endswith("compiled")]:
        many = every.get(f"{name} {LAYERS + 1} times")
        if many:
            every[f"{name.removesuffix(', compiled')}, a layer of compiled code"] = [(one - other) / LAYERS for one, other in zip(many, every[name])]
    return every


def whole_graphs(torch, calls, tensors):
    """Compiled, and called once; one that cannot be compiled here is said and left out."""
    made = {}
    for name, call in calls.items():
        whole = torch.compile(lambda *x, call=call: call(*x), fullgraph=True, dynamic=False)
        try:
            whole(*tensors)
        except Exception as failure:
            print(json.dumps({"row": "call", "call": name, "failed": str(failure).splitlines()[0]}), file=sys.stderr)
        else:
            made[name] = functools.partial(whole, *tensors)
    return made


def setting(torch):
    """What ran here."""
    commit = os.environ.get("S2_COMMIT")
    if not commit:
        commit = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    found = {"device": "cpu", "uuid": "", "driver": ""}
    if torch.cuda.is_available():
        told = subprocess.run(["nvidia-smi", "-i", "0", "--query-gpu=name,uuid,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout
        found = dict(zip(found, told.strip().split(", "))) if told else {**found, "device": torch.cuda.get_device_name()}
    return {**found, "torch": torch.__version__, "python": sys.version.split()[0], "commit": commit or "unknown"}


def within(call):
    """What it is called in."""
    return getattr(call, "within", contextlib.nullcontext)()


def rounds(torch, calls, seconds):
    """Means of calls in a row, of all calls in turn; nothing is queued when a row begins. What warms up is not counted."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    found = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(found["attention"]) < 6:
        for name, call in calls.items():
            wait()
            with within(call):
                begin = time.perf_counter()
                for _ in range(IN_A_ROW):
                    call()
                found[name].append((time.perf_counter() - begin) / IN_A_ROW * 1e6)
    wait()
    return {name: took[1:] for name, took in found.items()}


def measure(library, seconds, uncompiled):
    import torch

    import s2
    import s2.torch_ops

    torch.set_num_threads(1)
    calls = cases(torch, s2, not library, uncompiled)
    if not library:
        least = {}
        for name, call in calls.items():
            with within(call):
                call()
                least[name] = [min(timeit.repeat(call, number=IN_A_ROW, repeat=100)) / IN_A_ROW * 1e6]
        for name, (took,) in a_layer(least).items():
            print(f"{name}\t{took:.2f}")
        return
    about = {**setting(torch), "package": os.path.relpath(os.path.dirname(s2.__file__)), "calls": IN_A_ROW}
    every = a_layer(rounds(torch, calls, seconds))
    for name, took in every.items():
        over = {}
        if name not in NOT_OURS and not name.startswith("C") and not name.endswith("times"):
            over = spread("over_c", [one - other for one, other in zip(took, every[IN_C.get(name, "C")])])
        print(json.dumps({"row": "call", "call": name.strip(), **spread("us", took), **over, "rounds": len(took), **about}), flush=True)


def spread(name, took):
    quarter, median, three = statistics.quantiles(took, n=4)
    return {name: round(median, 2), f"{name}_25": round(quarter, 2), f"{name}_75": round(three, 2), f"{name}_least": round(min(took), 2)}


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--library")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--uncompiled", action="store_true")
    parser.add_argument("--measure", action="store_true")
    asked = parser.parse_args()
    if asked.measure:
        measure(asked.library, asked.seconds, asked.uncompiled)
        return
    folders = asked.folders or [os.path.join(HERE, "../../python") if asked.library else ""]
    options = [*([f"--library={asked.library}", f"--seconds={asked.seconds}"] if asked.library else []), *["--uncompiled"] * asked.uncompiled]
    found = {}
    for _ in range(1 if asked.library and len(folders) == 1 else TURNS):
        for folder in folders:
            more = {"PYTHONPATH": os.path.abspath(folder)} if folder else {}
            more |= {"S2_LIBRARY": os.path.abspath(asked.library)} if asked.library else {"CUDA_VISIBLE_DEVICES": ""}
            said = subprocess.run([sys.executable, __file__, "--measure", *options], env={**os.environ, **more}, check=True, text=True,
                                  stdout=None if asked.library else subprocess.PIPE)
            for line in (said.stdout or "").splitlines():
                name, took = line.split("\t")
                found.setdefault(name, {}).setdefault(folder, []).append(float(took))
    for name, by_folder in found.items():
        print(f"{name:32}", *(f"{min(took):9.2f}" for took in by_folder.values()))


if __name__ == "__main__":
    main()
