"""The other side of `s2 validate DESIGN --kernel 'python3 adapter.py'`: requests in, tensors by shared files, answers out.

An adapter is a file of its own that imports this one first, then what it adapts, and ends with serve():

    import s2_adapter
    import torch

    def forward(p):                      # p.q [B, H, Tq, D], p.k and p.v [B, G, Tk, D], p.mask() [H, Tq, Tk], p.scale ...
        return o, lse                    # [B, H, Tq, D] and fp32 [B, H, Tq]; or o alone, with serve(lse=False)

    s2_adapter.serve("mine", forward)

The queries are the last Tq of Tk positions. Raise Unsupported("why") for what the kernel is not made for. Everything that is
printed goes to stderr: stdout belongs to the protocol (docs/judging-your-kernel.md). Needs torch only where a request is
served as tensors; raw() serves bytes with the standard library alone.
"""
import json
import mmap
import os
import sys
import time

VERSION = 1
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
        self.torch, self.request, self.seqs, self.first, self.device, self.cache = torch, request, seqs, first, device, cache
        self.n_seqs, (self.q_tok, self.k_tok) = len(seqs), seqs[0][:2]
        for name in ("heads", "kv_heads", "head_dim", "scale", "pattern", "layer", "block", "shape", "window"):
            setattr(self, name, request[name])
        self.dtype = getattr(torch, DTYPES[request["dtype"]])
        self.group = self.heads // self.kv_heads
        self.written = {}
        for name in request["tensors"]:
            if name not in ("lse", "o", "d_q", "d_k", "d_v") or (request["pass"] == "backward" and name in ("lse", "o")):
                setattr(self, name, self._view(name).to(device))

    def _view(self, name):
        """[B, heads, tokens, D] of a tensor where it lies; [B, heads, tokens] of lse."""
        about = self.request["tensors"][name]
        strides, keys = about["strides"], name in ("k", "v", "d_k", "d_v")
        heads, tokens = (self.kv_heads, self.k_tok) if keys else (self.heads, self.q_tok)
        dtype = self.torch.float32 if name == "lse" else self.dtype
        begin = self.seqs[0][3 if keys else 2]
        at = begin * (strides[1] if name != "lse" else 1) if begin >= 0 else self.first * strides[0]
        raw = self.torch.frombuffer(File(about["file"]).bytes, dtype=dtype, offset=about["offset"])
        if name == "lse":
            return raw.as_strided((self.n_seqs, heads, tokens), (strides[0], strides[1], 1), at)
        return raw.as_strided((self.n_seqs, heads, tokens, self.head_dim), (strides[0], strides[2], strides[1], 1), at)

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

    def repeated(self, x):
        """K or V with the KV head of each query head: [B, H, Tk, D]."""
        return x.repeat_interleave(self.group, dim=1)

    def put(self, name, value):
        out = self._view(name)
        if value is None or tuple(value.shape) != tuple(out.shape):
            got = "missing" if value is None else list(value.shape)
            raise WrongShape(f"{name} is {got} where {list(out.shape)} is due")
        out.copy_(value.detach())


def _clock(device):
    if str(device).startswith("cuda"):
        import torch
        torch.cuda.synchronize()
    return time.perf_counter()


def _serve_one(request, kernels, lse, device, caches):
    seqs = request["seqs"]
    alike = all(seq[:2] == seqs[0][:2] for seq in seqs) and seqs[0][2] < 0
    ms = 0.0
    for first in range(1 if alike else len(seqs)):
        key = (File(request["mask"]["file"]).inode, first)
        if key not in caches:
            while len(caches) >= 64:
                caches.pop(next(iter(caches)))
            caches[key] = {}
        p = Problem(request, seqs if alike else [seqs[first]], first, device, caches[key])
        begin = _clock(device)
        made = kernels[request["pass"]](p)
        ms += (_clock(device) - begin) * 1e3
        if request["pass"] == "backward":
            names = ("d_q", "d_k", "d_v")
        else:
            names, made = (("o", "lse"), made) if lse else (("o",), (made,))
        for name, value in zip(names, tuple(made) + (None,) * 3):
            p.put(name, value)
    return {"outcome": "ok", "ms": ms}


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


def versions_of(*modules, device="cpu"):
    """"torch 2.11.0, triton 3.6.0 on NVIDIA H200"."""
    said = ", ".join(f"{m.__name__} {getattr(m, '__version__', '?')}" for m in modules)
    if str(device).startswith("cuda"):
        import torch
        return f"{said} on {torch.cuda.get_device_name()}"
    return f"{said} on CPU"


def pick_device():
    """cuda where torch sees one, unless S2_ADAPTER_DEVICE says otherwise."""
    import torch
    return os.environ.get("S2_ADAPTER_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")


def serve(name, forward, backward=None, decode=None, lse=True, deterministic=True, rounds="weights", versions="",
          device=None, refusals=()):
    """Serve until s2 ends. rounds: what passes through the storage type: "output", "weights" too, or "scores" too."""
    device = device or pick_device()
    kernels = {"forward": forward, "backward": backward, "decode": decode or forward}
    caches = {}

    def answer(request):
        try:
            return _serve_one(request, kernels, lse, device, caches)
        except Exception as error:  # whatever a kernel does is an outcome
            return _failure(error, refusals)

    raw(name, [word for word, kernel in kernels.items() if kernel], answer, lse=lse, deterministic=deterministic,
        rounds=rounds, versions=versions)


def gradients(p, forward):
    """dQ, dK, dV of an attention that torch differentiates: forward(p) of tensors that want gradients."""
    q, k, v = (x.detach().clone().requires_grad_() for x in (p.q, p.k, p.v))
    p.q, p.k, p.v = q, k, v
    made = forward(p)
    (made[0] if isinstance(made, tuple) else made).backward(p.d_o)
    return q.grad, k.grad, v.grad
