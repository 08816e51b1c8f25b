"""The other side of `s2 validate DESIGN --kernel 'python3 adapter.py'`: requests in, tensors by shared files, answers out.

An adapter is a file of its own that imports this one first, then what it adapts, and ends with serve():

    import s2_adapter
    import torch

    def forward(p):                      # p.q [B, H, Tq, D], p.k and p.v [B, G, Tk, D], p.mask() [H, Tq, Tk], p.scale ...
        return o, lse                    # [B, H, Tq, D] and fp32 [B, H, Tq]; or o alone, with serve(lse=False)

    s2_adapter.serve("mine", forward)

The queries are the last Tq of Tk positions. Raise Unsupported("why") for what the kernel is not made for. Everything that is
printed goes to stderr: stdout belongs to the protocol (docs/judging-your-kernel.md). Needs torch only where a request is
served as its tensors: serve(arrays=True) takes NumPy's arrays, and raw() serves bytes with the standard library alone.
"""
import json
import mmap
import os
import random
import statistics
import subprocess
import sys
import time

VERSION = 1
COPIES = 8  # of the runs in a graph that is timed
SETTLE_S = 0.25  # a GPU runs so long before it is timed: in the first tenth of a second its clock is higher than it can hold
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # what libraries print is no answer


class Unsupported(Exception):
    """This problem is not for this kernel: the outcome is `unsupported`."""


class WrongShape(Exception):
    """The result has another shape than it must have."""


class File:
    """A file that s2 shares, mapped whole."""

    def __init__(self, path):
        fd = os.open(path, os.O_RDWR)
        self.inode = os.fstat(fd).st_ino
        self.bytes = mmap.mmap(fd, 0)
        os.close(fd)


class Problem:
    """Sequences of one length, as tensors on the adapter's device."""

    def __init__(self, request, seqs, first, device, cache):
        import torch
        self.torch, self.dtype = torch, getattr(torch, DTYPES[request["dtype"]])
        self._read(request, seqs, first, device, cache)

    def _read(self, request, seqs, first, device, cache):
        self.request, self.seqs, self.first, self.device, self.cache = request, seqs, first, device, cache
        self.n_seqs, (self.q_tok, self.k_tok) = len(seqs), seqs[0][:2]
        for name in ("heads", "kv_heads", "head_dim", "scale", "pattern", "layer", "block", "shape", "window"):
            setattr(self, name, request[name])
        self.group = self.heads // self.kv_heads
        self.launched = []
        for name in request["tensors"]:
            if name not in ("lse", "o", "d_q", "d_k", "d_v") or (request["pass"] == "backward" and name in ("lse", "o")):
                setattr(self, name, self._given(name))

    def _given(self, name):
        return self._view(name).to(self.device)

    def _place(self, name):
        """Where a tensor lies in its file: shape and strides of [B, heads, tokens, D], of lse [B, heads, tokens], and its first element."""
        about = self.request["tensors"][name]
        strides, keys = about["strides"], name in ("k", "v", "d_k", "d_v")
        heads, tokens = (self.kv_heads, self.k_tok) if keys else (self.heads, self.q_tok)
        begin = self.seqs[0][3 if keys else 2]
        at = begin * (strides[1] if name != "lse" else 1) if begin >= 0 else self.first * strides[0]
        if name == "lse":
            return (self.n_seqs, heads, tokens), (strides[0], strides[1], 1), at
        return (self.n_seqs, heads, tokens, self.head_dim), (strides[0], strides[2], strides[1], 1), at

    def _view(self, name):
        """A tensor where it lies."""
        about = self.request["tensors"][name]
        dtype = self.torch.float32 if name == "lse" else self.dtype
        raw = self.torch.frombuffer(File(about["file"]).bytes, dtype=dtype, offset=about["offset"])
        return raw.as_strided(*self._place(name))

    def mask(self):
        """bool [H, Tq, Tk]: who reads what."""
        if "mask" not in self.cache:
            width = (self.k_tok + 7) // 8
            file = File(self.request["mask"]["file"])
            packed = self.torch.frombuffer(file.bytes, dtype=self.torch.uint8, offset=self.seqs[0][4],
                                           count=self.heads * self.q_tok * width).to(self.device)
            bits = packed.view(self.heads, self.q_tok, width, 1) >> self.torch.arange(7, -1, -1, device=self.device) & 1
            self.cache["mask"] = bits.view(self.heads, self.q_tok, width * 8)[..., : self.k_tok].bool()
        return self.cache["mask"]

    def keep(self, name, make):
        """make(), once for all calls with this pattern and these lengths."""
        if name not in self.cache:
            self.cache[name] = make()
        return self.cache[name]

    def launch(self, run):
        """run(), which is what is timed where times are asked for; without it all of forward() is."""
        self.launched.append(run)
        return run()

    def repeated(self, x):
        """K or V with the KV head of each query head: [B, H, Tk, D]."""
        return x.repeat_interleave(self.group, dim=1)

    def put(self, name, value):
        out = self._view(name)
        if value is None or tuple(value.shape) != tuple(out.shape):
            got = "missing" if value is None else list(value.shape)
            raise WrongShape(f"{name} is {got} where {list(out.shape)} is due")
        out.copy_(value.detach())


# Patterns that --times=N --patterns draws, in blocks of 64: who reads what, beside causality; g: the KV head
DRAWN = {"": lambda h, g, q, k: q >= k, "local 256t": lambda h, g, q, k: q - k < 256, "local 4 | sink 1": lambda h, g, q, k: (q // 64 - k // 64 < 4) | (k < 64),
         "local 2 | stride 8 phase kv": lambda h, g, q, k: (q // 64 - k // 64 < 2) | ((k // 64 + g) % 8 == 0),
         "local 4 | stride 4 phase head": lambda h, g, q, k: (q // 64 - k // 64 < 4) | ((k // 64 + h) % 4 == 0)}


class Arrays(Problem):
    """The same as NumPy arrays in fp32, whatever the type is: what is returned is rounded to it, and rounded(x) rounds on the way."""

    def __init__(self, request, seqs, first, device, cache):
        import numpy
        self.numpy, self.dtype = numpy, request["dtype"]
        self._read(request, seqs, first, device, cache)

    def _view(self, name):
        about, np = self.request["tensors"][name], self.numpy
        stored = "f4" if name == "lse" else {"fp32": "f4", "fp16": "f2", "bf16": "u2"}[self.dtype]
        raw = np.frombuffer(File(about["file"]).bytes, dtype=stored, offset=about["offset"])
        shape, strides, at = self._place(name)
        return np.lib.stride_tricks.as_strided(raw[at:], shape, [stride * raw.itemsize for stride in strides])

    def _given(self, name):
        view = self._view(name)
        if view.dtype != "u2":
            return view.astype("f4")
        return (view.astype("u4") << 16).view("f4")

    def _bits(self, x):
        """fp32 as bf16, to nearest and ties to even; NaN stays NaN."""
        bits = self.numpy.ascontiguousarray(x, dtype="f4").view("u4")
        return self.numpy.where(self.numpy.isnan(x), 0x7FC0, (bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("u2")

    def rounded(self, x):
        """x in fp32 as the storage type holds it."""
        if self.dtype == "bf16":
            return (self._bits(x).astype("u4") << 16).view("f4")
        return x.astype("f2").astype("f4") if self.dtype == "fp16" else x.astype("f4")

    def mask(self):
        if "mask" not in self.cache:
            np, width = self.numpy, (self.k_tok + 7) // 8
            packed = np.frombuffer(File(self.request["mask"]["file"]).bytes, dtype="u1", offset=self.seqs[0][4],
                                   count=self.heads * self.q_tok * width).reshape(self.heads, self.q_tok, width)
            self.cache["mask"] = np.unpackbits(packed, axis=2)[..., : self.k_tok].astype(bool)
        return self.cache["mask"]

    def repeated(self, x):
        return self.numpy.repeat(x, self.group, axis=1)

    def put(self, name, value):
        out = self._view(name)
        if value is None or tuple(value.shape) != tuple(out.shape):
            got = "missing" if value is None else list(value.shape)
            raise WrongShape(f"{name} is {got} where {list(out.shape)} is due")
        out[...] = self._bits(value) if out.dtype == "u2" else value


class Drawn(Problem):
    """Random data, causal, and no s2 behind it: what --times times. mod: the mask as a function of tensors (b, h, q, k)."""

    def __init__(self, device, batch, heads, kv_heads, head_dim, n_tok, body=""):
        import torch
        self.torch, self.device, self.request, self.cache, self.launched = torch, device, {"pass": "forward"}, {}, []
        self.stream = torch.cuda.Stream() if str(device).startswith("cuda") else None
        self.n_seqs, self.heads, self.kv_heads, self.head_dim, self.q_tok, self.k_tok = batch, heads, kv_heads, head_dim, n_tok, n_tok
        self.group, self.scale, self.dtype, self.shape, self.window = heads // kv_heads, head_dim ** -0.5, torch.bfloat16, "causal", 0
        self.block, self.layer, self.pattern = 64, 0, f"heads {heads}; kv-heads {kv_heads}; head-dim {head_dim}; layers all: {body or 'dense'}"
        self.shape, reads, group = "mask" if body else "causal", DRAWN[body], self.group
        self.mod = lambda b, h, q, k: (q >= k) & reads(h, h // group, q, k)
        self.q = torch.randn(batch, heads, n_tok, head_dim, device=device, dtype=self.dtype)
        self.k, self.v = (torch.randn(batch, kv_heads, n_tok, head_dim, device=device, dtype=self.dtype) for _ in range(2))

    def differentiate(self, kernel):
        """What is timed from now on are the gradients alone, where torch differentiates the kernel. They run on the stream of its forward."""
        self.q, self.k, self.v = wanted = tuple(x.requires_grad_() for x in (self.q, self.k, self.v))
        with self.torch.cuda.stream(self.stream):
            made = kernel(self)
            o = made[0] if isinstance(made, tuple) else made
            d_o = self.torch.randn_like(o)
            self.launched = [lambda: self.torch.autograd.grad(o, wanted, d_o, retain_graph=True)]
            self.launched[0]()

    def mask(self):
        h, q, k = (self.torch.arange(n, device=self.device) for n in (self.heads, self.q_tok, self.k_tok))
        return self.mod(0, h[:, None, None], q[:, None], k).expand(self.heads, -1, -1)


def _option(word, otherwise):
    """--word=value of the command line; --word alone is "1"."""
    for said in sys.argv:
        if said == f"--{word}" or said.startswith(f"--{word}="):
            return said.partition("=")[2] or "1"
    return otherwise


def _shapes(n, most_flop, seed, bodies):
    """n shapes, the same ones for a seed: lengths from 256 to 32k, most of them no power of 2. Every second one is dense, the others read one of the patterns."""
    rng, made = random.Random(seed), []
    while len(made) < n:
        batch, heads, group, head_dim = rng.choice((1, 1, 2, 4, 8)), rng.choice((8, 16, 32, 40)), rng.choice((1, 1, 4, 8)), rng.choice((64, 128))
        n_tok = int(2 ** rng.uniform(8, 15)) // 64 * 64
        if 2 * batch * heads * head_dim * n_tok ** 2 <= most_flop:
            made.append((batch, heads, heads // group, head_dim, n_tok, bodies[len(made) // 2 % len(bodies)] if len(made) % 2 else ""))
    return made


def _drawn(kernel, device, shape, word):
    """A launch that has run once, so whatever is compiled for it is; or what went wrong."""
    try:
        p = Drawn(device, *shape)
        p.differentiate(kernel) if word == "backward" else kernel(p)
        p.torch.cuda.empty_cache()  # what making the mask took is for the processes beside this one
        return p
    except Exception as error:  # one shape less
        return error


def _print_times(name, kernel, versions, device, n, word):
    """A table for `s2 calibrate --from`: the median of ten runs of each shape; a shape that is refused is a comment."""
    jobs, share = int(_option("jobs", "1")), _option("share", "")
    if jobs > 1 and not share:
        return _print_shares(jobs)
    most = float(_option("flop", "2e13" if str(device).startswith("cuda") else "2e8")) / (2.5 if word == "backward" else 1)
    bodies = [body for body in DRAWN if body] if _option("patterns", "") else [""]
    shapes = _shapes(n, most, int(_option("seed", "1")), bodies)
    if share in ("", "0"):
        _answers.write(f"# {name}, {versions}: attention, bf16, medians of 10 runs\nbatch,heads,kv_heads,head_dim,n_tok,pattern,us,caches,pass\n")
    mine = shapes[int(share or 0)::jobs]
    ready = [_drawn(kernel, device, shape, word) for shape in mine] if share else []
    if share:
        _answers.write("ready\n")
        sys.stdin.readline()
    for nth, shape in enumerate(mine):
        try:
            p = ready[nth] if ready else None
            if p is None or isinstance(p, Exception):  # which may have been for want of memory beside the others
                p = _drawn(kernel, device, shape, word)
            if isinstance(p, Exception):
                raise p
            us = statistics.median(_samples(p, kernel, 10)) * 1e3
            _answers.write(",".join(map(str, shape)) + f",{us:.3f},warm,{word}\n")
        except Exception as error:
            _answers.write(f"# {','.join(map(str, shape))}: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:100]}\n")


def _print_shares(jobs):
    """The shapes in shares: what a kernel compiles is compiled beside each other, then one share after the other is timed, alone on the device."""
    shares = [subprocess.Popen([sys.executable, *sys.argv, f"--share={nth}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for nth in range(jobs)]
    said = [[] for _ in shares]
    for share, lines in zip(shares, said):
        for line in iter(share.stdout.readline, "ready\n"):
            if not line:
                break
            lines.append(line)
    for share, lines in zip(shares, said):
        _answers.writelines(lines)
        rest, _ = share.communicate("go\n")
        _answers.write(rest)


def _graph(p, launched):
    """COPIES of the runs as a CUDA graph, so that what a launch from Python takes is not timed; None where they cannot be captured."""
    cuda = p.torch.cuda
    try:
        graph = cuda.CUDAGraph()
        with cuda.graph(graph, stream=getattr(p, "stream", None)):
            for _ in range(COPIES):
                for run in launched:
                    run()
        graph.replay()
        cuda.synchronize()
        return graph
    except Exception:  # a kernel that waits for the host, or launches on a stream of its own
        cuda.synchronize()
        return None


def _samples(p, kernel, n):
    """n runs in ms by the GPU's own timer where there is one, there by a graph if they can be captured; of a backward pass its forward is part, so none."""
    if p.request["pass"] == "backward":
        return []
    launched = list(p.launched) or [lambda: kernel(p)]
    samples, gpu, copies = [], str(p.device).startswith("cuda"), 1
    graph = _graph(p, launched) if gpu else None
    if graph:
        launched, copies = [graph.replay], COPIES
    began = time.perf_counter()
    while gpu and time.perf_counter() - began < SETTLE_S:
        for run in launched:
            run()
        p.torch.cuda.synchronize()
    for _ in range(n + 3):
        if gpu:  # behind a run that is not timed, which hides how long the host takes to launch
            begin, end = (p.torch.cuda.Event(enable_timing=True) for _ in range(2))
            for run in launched:
                run()
            begin.record()
        began = time.perf_counter()
        for run in launched:
            run()
        if gpu:
            end.record()
            p.torch.cuda.synchronize()
        samples.append((begin.elapsed_time(end) if gpu else (time.perf_counter() - began) * 1e3) / copies)
    return samples[3:]


def _serve_one(request, kernels, lse, device, caches, problem):
    seqs = request["seqs"]
    alike = all(seq[:2] == seqs[0][:2] for seq in seqs) and seqs[0][2] < 0
    samples = []
    for first in range(1 if alike else len(seqs)):
        key = (File(request["mask"]["file"]).inode, first)
        if key not in caches:
            while len(caches) >= 64:
                caches.pop(next(iter(caches)))
            caches[key] = {}
        p = problem(request, seqs if alike else [seqs[first]], first, device, caches[key])
        made = kernels[request["pass"]](p)
        if request["pass"] == "backward":
            names = ("d_q", "d_k", "d_v")
        else:
            names, made = (("o", "lse"), made) if lse else (("o",), (made,))
        for name, value in zip(names, tuple(made) + (None,) * 3):
            p.put(name, value)
        if alike and request.get("times", 0) > 0:
            samples = _samples(p, kernels[request["pass"]], request["times"])
    return {"outcome": "ok", "samples_ms": samples}


def _failure(error, refusals):
    text = f"{type(error).__name__}: {error}".replace("\n", " ")
    if isinstance(error, Unsupported):
        return {"outcome": "unsupported", "reason": str(error)[:190]}
    if isinstance(error, WrongShape):
        return {"outcome": "wrong_shape", "reason": str(error)[:190]}
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return {"outcome": "out_of_memory", "reason": text[:190]}
    for words in refusals:
        if words in text:
            return {"outcome": "unsupported", "reason": text[:190]}
    return {"outcome": "failed", "reason": text[:190]}


def _say(answer):
    _answers.write(json.dumps(answer) + "\n")


def refuse(reason):
    """In place of serve(): there is no such kernel on this machine."""
    _say({"outcome": "unsupported", "reason": reason[:190]})
    sys.exit(0)


def raw(name, passes, answer, **about):
    """Serve requests as they come: answer(request) returns {"outcome": ...}. The standard library is enough."""
    _say({"s2": VERSION, "name": name, "passes": ",".join(passes), "lse": True, "deterministic": True, "versions": "",
          "rounds": "weights", **about})
    for line in sys.stdin:
        request = json.loads(line)
        _say({"id": request["id"], **answer(request)})


def versions_of(*modules, device="cpu", packages=()):
    """"torch 2.11.0, triton 3.6.0 on NVIDIA H200": of modules, and of packages by the names that pip knows them by."""
    from importlib.metadata import version
    said = [f"{m.__name__} {getattr(m, '__version__', '?')}" for m in modules]
    said = ", ".join(said + [f"{name} {version(name)}" for name in packages])
    if str(device).startswith("cuda"):
        import torch
        return f"{said} on {torch.cuda.get_device_name()}"
    return f"{said} on CPU"


def pick_device():
    """cuda where torch sees one, unless S2_ADAPTER_DEVICE says otherwise."""
    import torch
    return os.environ.get("S2_ADAPTER_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")


def serve(name, forward, backward=None, decode=None, lse=True, deterministic=True, rounds="weights", versions="",
          device=None, refusals=(), batch_invariant=False, recomputes=True, arrays=False):
    """Serve until s2 ends; with --times[=N] on the command line, print a table of times (of gradients: --pass=backward) and end. rounds: what passes through the storage type: "output", "weights" too, or "scores" too. recomputes: backward() runs a forward of its own, as gradients() does; False: it uses p.o and p.lse. arrays: NumPy's in place of torch's, without torch."""
    device = device or ("cpu" if arrays else pick_device())
    asked = int(_option("times", "0"))
    if asked:
        _print_times(name, forward, versions, device, 96 if asked == 1 else asked, _option("pass", "forward"))
        return
    kernels = {"forward": forward, "backward": backward, "decode": decode or forward}
    caches = {}

    def answer(request):
        try:
            return _serve_one(request, kernels, lse, device, caches, Arrays if arrays else Problem)
        except Exception as error:  # whatever a kernel does is an outcome
            return _failure(error, refusals)

    raw(name, [word for word, kernel in kernels.items() if kernel], answer, lse=lse, deterministic=deterministic,
        rounds=rounds, versions=versions, device=str(device).partition(":")[0], batch_invariant=batch_invariant,
        recomputes=recomputes)


def gradients(p, forward):
    """dQ, dK, dV of an attention that torch differentiates: forward(p) of tensors that want gradients."""
    q, k, v = (x.detach().clone().requires_grad_() for x in (p.q, p.k, p.v))
    p.q, p.k, p.v = q, k, v
    made = forward(p)
    (made[0] if isinstance(made, tuple) else made).backward(p.d_o)
    return q.grad, k.grad, v.grad
