"""Whole models with random weights on one GPU: prefill, tokens a second, memory and a training step, beside the simulator's prediction.

usage: models.py OUT.jsonl [--figures prefill,decode,train] [--models llama-3.1-8b,phi-3-small] [--lengths 32768,131072]
Needs the package (make wheel) and torch; `make bench-models` runs it. A row is written as soon as it is known."""
import argparse
import gc
import json
import math
import os
import subprocess
import time
import traceback

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import s2
import s2.torch_ops  # noqa: F401

SHAPES = {"llama-3.1-8b": dict(layers=32, hidden=4096, heads=32, kv_heads=8, dim=128, inner=14336, vocab=128256),
          "phi-3-small": dict(layers=32, hidden=4096, heads=32, kv_heads=8, dim=128, inner=14336, vocab=100352),
          "1.3b": dict(layers=24, hidden=2048, heads=16, kv_heads=16, dim=128, inner=5504, vocab=50304),
          "tiny": dict(layers=2, hidden=256, heads=4, kv_heads=2, dim=64, inner=512, vocab=1000)}
# what `s2 search 'MODEL, H200, 32k, vLLM'` puts first
PATTERNS = {"llama-3.1-8b": "local 16 | stride 32 phase head+1", "phi-3-small": "local 16 | stride 32 phase head+1",
            "1.3b": "local 16 | stride 16 phase head+1", "tiny": "local 2 | stride 4 phase head+1"}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GIB = 2.0 ** 30


def rotate(x, cos, sin):
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


def gate(both):
    a, b = both.chunk(2, -1)
    return F.silu(a) * b


def add_norm(x, y, weight):
    x = x + y
    return x, F.rms_norm(x, x.shape[-1:], weight, 1e-5)


def norm(x, weight):
    return F.rms_norm(x, x.shape[-1:], weight, 1e-5)


def fuse():
    """The elementwise parts as one kernel each."""
    global rotate, gate, add_norm, norm
    if DEVICE == "cuda":
        rotate, gate, add_norm, norm = (torch.compile(one, dynamic=True) for one in (rotate, gate, add_norm, norm))


def pattern_of(name, body):
    at = SHAPES[name]
    return s2.Pattern(f"layers {at['layers']}; heads {at['heads']}; kv-heads {at['kv_heads']}; head-dim {at['dim']}; block 64; layers all: {body}")


class Model(torch.nn.Module):
    """A decoder of this shape: what the simulator prices."""

    def __init__(self, name):
        super().__init__()
        self.at = at = SHAPES[name]
        self.heads, self.kv_heads, self.dim = at["heads"], at["kv_heads"], at["dim"]

        def weight(*shape):
            made = torch.empty(*shape, device=DEVICE, dtype=torch.bfloat16).normal_(0, 0.02)
            return torch.nn.Parameter(made)

        def ones():
            return torch.nn.Parameter(torch.ones(at["hidden"], device=DEVICE, dtype=torch.bfloat16))

        width = (self.heads + 2 * self.kv_heads) * self.dim
        self.embed, self.head, self.last = weight(at["vocab"], at["hidden"]), weight(at["vocab"], at["hidden"]), ones()
        self.blocks = torch.nn.ModuleList()
        for _ in range(at["layers"]):
            block = torch.nn.Module()
            block.qkv, block.out = weight(width, at["hidden"]), weight(at["hidden"], self.heads * self.dim)
            block.up, block.down = weight(2 * at["inner"], at["hidden"]), weight(at["hidden"], at["inner"])
            block.first, block.second = ones(), ones()
            self.blocks.append(block)

    def angles(self, begin, end):
        rate = 1.0 / 10000 ** (torch.arange(0, self.dim, 2, device=DEVICE).float() / self.dim)
        angle = torch.arange(begin, end, device=DEVICE).float()[:, None] * rate
        return angle.cos()[None, :, None], angle.sin()[None, :, None]

    def one(self, block, index, x, y, cos, sin, attend):
        """One layer of (batch, tokens, hidden); y is what the layer before adds to x."""
        batch, tokens = x.shape[:2]
        x, h = add_norm(x, y, block.first)
        qkv = F.linear(h, block.qkv).view(batch, tokens, -1, self.dim)
        turned = rotate(qkv[:, :, :self.heads + self.kv_heads], cos, sin)
        q, k = turned.split([self.heads, self.kv_heads], 2)
        o = attend(index, q.transpose(1, 2), k.transpose(1, 2), qkv[:, :, -self.kv_heads:].transpose(1, 2))
        x, h = add_norm(x, F.linear(o.transpose(1, 2).reshape(batch, tokens, -1), block.out), block.second)
        return x, F.linear(gate(F.linear(h, block.up)), block.down)

    def forward(self, ids, begin, attend, all_logits=False, angles=None):
        x = F.embedding(ids, self.embed)
        y = torch.zeros_like(x)
        cos, sin = angles or self.angles(begin, begin + ids.shape[1])
        for index, block in enumerate(self.blocks):
            x, y = self.one(block, index, x, y, cos, sin, attend)
        h = norm(x + y if all_logits else (x + y)[:, -1:], self.last)
        return F.linear(h, self.head)


def with_backend(backend):
    def attend(_, q, k, v):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1, enable_gqa=q.shape[1] != k.shape[1])
    return attend


def with_pattern(pattern, deterministic=True):
    return lambda index, q, k, v: s2.attention(q, k, v, pattern, index, deterministic=deterministic)


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def seconds(call, times):
    """The median of so many, after one that is not counted."""
    found = []
    for _ in range(times + 1):
        wait()
        begin = time.perf_counter()
        call()
        wait()
        found.append(time.perf_counter() - begin)
    return sorted(found[1:])[times // 2]


def clear():
    gc.collect()
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def used_gib():
    """What the whole process has, with what no allocator of torch's counts."""
    if DEVICE == "cpu":
        return 0.0
    free, total = torch.cuda.mem_get_info()
    return (total - free) / GIB


class Rows:
    def __init__(self, path, about):
        self.path, self.about = path, about

    def add(self, **row):
        row = {name: round(value, 6) if isinstance(value, float) else value for name, value in {**self.about, **row}.items()}
        with open(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)

    def attempt(self, call, **about):
        clear()
        try:
            self.add(**about, **call())
            return True
        except (RuntimeError, s2.Error) as failure:
            traceback.print_exc()
            self.add(**about, failed=str(failure)[:300])
            return False


def priced(pattern, name, tokens, phase, batch=1):
    net = name if name in ("llama-3.1-8b", "phi-3-small") else None
    price = pattern.simulate(tokens, phase=phase, batch=batch, model=net)
    return {"predicted_s": price.end_to_end_us / 1e6 if net else None, "predicted_attention_s": price.time_us / 1e6}


@torch.no_grad()
def prefill(rows, model, name, tokens, ways, dense):
    ids = torch.randint(0, model.at["vocab"], (1, tokens), device=DEVICE)
    for way, (attend, pattern) in ways.items():
        def measure():
            took = seconds(lambda: model(ids, 0, attend), 1 if tokens > 65536 else 3)
            return {"s": took, "peak_gib": torch.cuda.max_memory_allocated() / GIB if DEVICE == "cuda" else 0.0}
        rows.attempt(measure, figure="prefill", model=name, tokens=tokens, way=way, **priced(pattern or dense, name, tokens, "prefill"))


@torch.no_grad()
def decode_paged(rows, model, name, tokens, batch, pattern, way, steps):
    """Steps of one token each for all sequences, from a cache that gives pages back; the last ones end at `tokens`."""
    def measure():
        per = pattern.simulate(tokens, phase="decode", page=pattern.block).kv_bytes / (4 * pattern.head_dim) / pattern.block
        cache = s2.Cache(pattern, model.embed, pages=math.ceil(per * batch * 1.02) + 64)
        sequences = [cache.open() for _ in range(batch)]
        cache.append(sequences, tokens - steps - 2)
        for pool in (cache.keys, cache.values):
            pool.normal_()
        ids = torch.randint(0, model.at["vocab"], (batch, 1), device=DEVICE)
        at = tokens - steps - 2

        def attend(index, q, k, v):
            cache.write(sequences, index, k, v)
            return cache.attend(q, sequences, index)

        def step():
            nonlocal at, ids
            cache.append(sequences, 1)
            ids = model(ids, at, attend)[:, -1].argmax(-1, keepdim=True)
            at += 1

        step()
        step()
        took = []
        for _ in range(steps):
            wait()
            begin = time.perf_counter()
            step()
            wait()
            took.append(time.perf_counter() - begin)
        answer = {"s": sum(took) / steps, "median_s": sorted(took)[steps // 2], "longest_s": max(took), "tokens_per_s": batch * steps / sum(took),
                  "cache_gib": cache.usage.bytes / GIB, "used_gib": used_gib()}
        cache.close()
        return answer
    return rows.attempt(measure, figure="decode", model=name, tokens=tokens, way=way, batch=batch, **priced(pattern, name, tokens, "decode", batch))


@torch.no_grad()
def decode_dense(rows, model, name, tokens, batch, backend, way, steps, dense):
    """The same with a dense cache in two arrays and torch's own attention."""
    def measure():
        shape = (model.at["layers"], batch, model.kv_heads, tokens, model.dim)
        keys, values = (torch.empty(shape, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
        for layer in range(shape[0]):
            keys[layer].normal_()
            values[layer].normal_()
        ids = torch.randint(0, model.at["vocab"], (batch, 1), device=DEVICE)
        at = tokens - steps - 2
        under = with_backend(backend)

        def attend(index, q, k, v):
            keys[index, :, :, at:at + 1] = k
            values[index, :, :, at:at + 1] = v
            return under(index, q, keys[index, :, :, :at + 1], values[index, :, :, :at + 1])

        def step():
            nonlocal at, ids
            ids = model(ids, at, attend)[:, -1].argmax(-1, keepdim=True)
            at += 1

        step()
        step()
        took = seconds(lambda: [step() for _ in range(steps // 2 - 1)], 1) / (steps // 2 - 1)
        return {"s": took, "tokens_per_s": batch / took, "cache_gib": 2 * keys.numel() * 2 / GIB, "used_gib": used_gib()}
    return rows.attempt(measure, figure="decode", model=name, tokens=tokens, way=way, batch=batch, **priced(dense, name, tokens, "decode", batch))


def train(rows, model, name, tokens, ways):
    ids = torch.randint(0, model.at["vocab"], (1, tokens + 1), device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    for way, (attend, pattern) in ways.items():
        losses = []

        def step():
            optimizer.zero_grad(set_to_none=True)
            logits = model(ids[:, :-1], 0, attend, all_logits=True)[0]
            loss = torch.stack([F.cross_entropy(a.float(), b, reduction="sum") for a, b in zip(logits.split(4096), ids[0, 1:].split(4096))]).sum() / tokens
            loss.backward()
            optimizer.step()
            losses.append(loss.item())

        def measure():
            took = seconds(step, 2)
            return {"s": took, "peak_gib": torch.cuda.max_memory_allocated() / GIB if DEVICE == "cuda" else 0.0, "losses": [round(x, 3) for x in losses]}
        rows.attempt(measure, figure="train", model=name, tokens=tokens, way=way, **priced(pattern, name, tokens, "train"))


def fit(pattern, name, tokens):
    """The largest batch that the simulator says fits, less what a process needs besides."""
    price = pattern.simulate(tokens, phase="decode", model=name if name in ("llama-3.1-8b", "phi-3-small") else None, page=pattern.block)
    return price.fit_batch


def about():
    commit = os.environ.get("S2_COMMIT") or subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    device = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"
    return {"device": device, "torch": torch.__version__, "commit": commit}


def ask():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--figures", default="prefill,decode,train")
    parser.add_argument("--models", default="llama-3.1-8b,phi-3-small")
    parser.add_argument("--lengths", default="32768,131072")
    parser.add_argument("--train", default="1.3b")
    parser.add_argument("--train-lengths", default="8192,32768")
    parser.add_argument("--steps", type=int, default=66)
    parser.add_argument("--batch", type=int, default=0)
    return parser.parse_args()


def largest(batch, attempt):
    """The largest batch that fits, from above."""
    for tenths in (100, 97, 94, 90, 80):
        if attempt(max(1, batch * tenths // 100)):
            break
        clear()
    return max(1, batch * tenths // 100)


def infer(rows, name, asked):
    model = Model(name)
    sparse, dense = pattern_of(name, PATTERNS[name]), pattern_of(name, "dense")
    ways = {"pattern": (with_pattern(sparse), sparse), "dense cuDNN": (with_backend(SDPBackend.CUDNN_ATTENTION), None),
            "dense": (with_pattern(dense), dense)}
    if DEVICE == "cpu":
        ways["dense cuDNN"] = (with_backend(SDPBackend.MATH), None)
    for tokens in map(int, asked.lengths.split(",")):
        if "prefill" in asked.figures:
            prefill(rows, model, name, tokens, ways, dense)
        if "decode" in asked.figures:
            few, many = (asked.batch, asked.batch) if asked.batch else (fit(dense, name, tokens), fit(sparse, name, tokens))
            largest(many, lambda batch: decode_paged(rows, model, name, tokens, batch, sparse, "pattern", asked.steps))
            few = largest(few, lambda batch: decode_paged(rows, model, name, tokens, batch, dense, "dense", asked.steps))
            if few != many:
                decode_paged(rows, model, name, tokens, few, sparse, "pattern", asked.steps)
            decode_dense(rows, model, name, tokens, few, SDPBackend.CUDNN_ATTENTION if DEVICE == "cuda" else SDPBackend.MATH, "dense cuDNN",
                         min(asked.steps, 20), dense)


def main():
    asked = ask()
    torch.manual_seed(1)
    fuse()
    rows = Rows(asked.out, about())
    for name in filter(None, asked.models.split(",")):
        infer(rows, name, asked)
        clear()
    if "train" in asked.figures:
        name = asked.train
        model = Model(name)
        sparse, dense = pattern_of(name, PATTERNS[name]), pattern_of(name, "dense")
        cudnn = SDPBackend.CUDNN_ATTENTION if DEVICE == "cuda" else SDPBackend.MATH
        for tokens in map(int, asked.train_lengths.split(",")):
            train(rows, model, name, tokens, {"pattern": (with_pattern(sparse), sparse), "pattern, fused": (with_pattern(sparse, False), sparse),
                                              "dense cuDNN": (with_backend(cudnn), dense), "dense": (with_pattern(dense), dense)})


if __name__ == "__main__":
    main()
