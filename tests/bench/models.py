"""Whole models with random weights on one GPU: prefill, tokens a second, memory and a training step.

usage: models.py OUT.jsonl [--figures prefill,decode,train] [--models llama-3.1-8b,phi-3-small] [--lengths 32768,131072] [--ways pattern,...]
Needs the package (make wheel) and torch; `make bench-models` runs it. A row is written as soon as it is known: device, commit,
the median of `times` runs in seconds with the least and the most, memory, and what kernels of which kind took of one run.
`make table-models` sets the rows beside the simulator's prediction."""
import argparse
import collections
import gc
import importlib.util
import json
import math
import os
import re
import subprocess
import time
import traceback

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

import s2
import s2.torch_ops  # noqa: F401

SHAPES = {"llama-3.1-8b": dict(layers=32, hidden=4096, heads=32, kv_heads=8, dim=128, inner=14336, vocab=128256),
          "phi-3-small": dict(layers=32, hidden=4096, heads=32, kv_heads=8, dim=128, inner=14336, vocab=100352),
          "1.3b": dict(layers=24, hidden=2048, heads=16, kv_heads=16, dim=128, inner=5504, vocab=50304),
          "8b-8-layers": dict(layers=8, hidden=4096, heads=32, kv_heads=8, dim=128, inner=14336, vocab=128256),
          "tiny": dict(layers=2, hidden=256, heads=4, kv_heads=2, dim=64, inner=512, vocab=1000)}
# what `s2 search 'MODEL, H200, 32k, vLLM' --minimize us,kv_bytes,unread` puts first
PATTERNS = {"llama-3.1-8b": "local 16 | stride 32 phase head+1", "phi-3-small": "local 16 | stride 32 phase head+1",
            "1.3b": "local 16 | stride 16 phase head+1", "8b-8-layers": "local 16 | stride 16 phase head+1", "tiny": "local 2 | stride 4 phase head+1"}
TRAINED = {"llama-3.1-8b": "local 16 | stride 16 phase head+1"}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GIB = 2.0 ** 30
SHORT = 1984  # tokens of a step in which all is compiled; no width of a model: torch.compile takes sizes that are equal for the same


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
    global rotate, gate, add_norm, norm, adam
    if DEVICE == "cuda":
        rotate, gate, add_norm, norm, adam = (torch.compile(one, dynamic=True) for one in (rotate, gate, add_norm, norm, adam))


def pattern_of(name, body):
    at = SHAPES[name]
    return s2.Pattern(f"layers {at['layers']}; heads {at['heads']}; kv-heads {at['kv_heads']}; head-dim {at['dim']}; block 64; layers all: {body}")


class Model(torch.nn.Module):
    """A decoder of this shape: what the simulator prices; or, of a class that says how ranks sum, one of several GPUs' part of it."""

    def __init__(self, name, ranks=1):
        super().__init__()
        self.at = at = {name: n // ranks if name in ("heads", "kv_heads", "inner") else n for name, n in SHAPES[name].items()}
        self.heads, self.kv_heads, self.dim = at["heads"], at["kv_heads"], at["dim"]

        def weight(*shape):
            made = torch.empty(*shape, device=DEVICE, dtype=torch.bfloat16).normal_(0, 0.02)
            return torch.nn.Parameter(made)

        def ones():
            return torch.nn.Parameter(torch.ones(at["hidden"], device=DEVICE, dtype=torch.bfloat16))

        width = (self.heads + 2 * self.kv_heads) * self.dim
        self.embed, self.head, self.last = weight(at["vocab"], at["hidden"]), weight(at["vocab"] // ranks, at["hidden"]), ones()
        self.blocks = torch.nn.ModuleList()
        for _ in range(at["layers"]):
            block = torch.nn.Module()
            block.qkv, block.out = weight(width, at["hidden"]), weight(at["hidden"], self.heads * self.dim)
            block.up, block.down = weight(2 * at["inner"], at["hidden"]), weight(at["hidden"], at["inner"])
            block.first, block.second = ones(), ones()
            self.blocks.append(block)

    def reduce(self, y):
        """Summed over ranks."""
        return y

    def copied(self, x):
        """With gradients that are summed over ranks."""
        return x

    def entropy(self, h, wanted):
        """The sum of the losses of some tokens."""
        return F.cross_entropy(F.linear(h, self.head).float(), wanted, reduction="sum")

    def angles(self, positions):
        rate = 1.0 / 10000 ** (torch.arange(0, self.dim, 2, device=DEVICE).float() / self.dim)
        angle = positions.float()[:, None] * rate
        return angle.cos()[None, :, None], angle.sin()[None, :, None]

    def one(self, block, index, x, y, cos, sin, attend):
        """One layer of (batch, tokens, hidden); y is what the layer before adds to x, or None where it did so itself."""
        batch, tokens = x.shape[:2]
        x, h = (x, norm(x, block.first)) if y is None else add_norm(x, y, block.first)
        qkv = F.linear(self.copied(h), block.qkv).view(batch, tokens, -1, self.dim)
        turned = rotate(qkv[:, :, :self.heads + self.kv_heads], cos, sin)
        q, k = turned.split([self.heads, self.kv_heads], 2)
        o = attend(index, q.transpose(1, 2), k.transpose(1, 2), qkv[:, :, -self.kv_heads:].transpose(1, 2))
        x, h = add_norm(x, self.reduce(F.linear(o.transpose(1, 2).reshape(batch, tokens, -1), block.out)), block.second)
        return x, self.reduce(F.linear(gate(F.linear(self.copied(h), block.up)), block.down))

    def whole(self, block, index, x, cos, sin, attend):
        x, y = self.one(block, index, x, None, cos, sin, attend)
        return x + y

    def forward(self, ids, positions, attend, recompute=False):
        """The last layer's output, normed; with recompute the input of each layer is all that is kept for the gradients, in one array:
        its two summands would save an addition and take twice the memory."""
        x = F.embedding(ids, self.embed)
        y = torch.zeros_like(x)
        cos, sin = self.angles(positions)
        for index, block in enumerate(self.blocks):
            if recompute:
                x = checkpoint(self.whole, block, index, x, cos, sin, attend, use_reentrant=False)
            else:
                x, y = self.one(block, index, x, y, cos, sin, attend)
        return norm(x + y, self.last)

    def logits(self, ids, positions, attend):
        """Of the last token."""
        return F.linear(self.forward(ids, positions, attend)[:, -1:], self.head)

    def loss(self, ids, attend, recompute, begin=0, whole=None):
        """A few thousand tokens at a time: logits of all would be larger than the model. Of a part of a sequence from `begin` on, its part of
        the mean over `whole` tokens."""
        h = self.forward(ids[:, :-1], torch.arange(begin, begin + ids.shape[1] - 1, device=DEVICE), attend, recompute)[0]

        return sum(checkpoint(self.entropy, some, wanted, use_reentrant=False)
                   for some, wanted in zip(h.split(4096), ids[0, 1:].split(4096))) / (whole or h.shape[0])


class MasterAdamW:
    """AdamW with weights and moments of 32 bits beside the model's of 16: 16 bytes a weight, gradients included."""

    def __init__(self, parameters, rate=1e-4):
        self.held = [(one, one.detach().float(), *(torch.zeros_like(one, dtype=torch.float32) for _ in range(2))) for one in parameters]
        self.rate, self.turn = rate, 0

    @torch.no_grad()
    def step(self):
        self.turn += 1
        rates = torch.tensor([self.rate / (1 - 0.9 ** self.turn), 1 - 0.999 ** self.turn], device=DEVICE)
        for one, master, mean, square in self.held:
            adam(one.view(-1), one.grad.view(-1), master.view(-1), mean.view(-1), square.view(-1), rates)
            one.grad = None


def adam(one, grad, master, mean, square, rates):
    g = grad.float()
    mean.mul_(0.9).add_(g, alpha=0.1)
    square.mul_(0.999).addcmul_(g, g, value=0.001)
    master.mul_(1 - 1e-6).sub_(rates[0] * mean / ((square / rates[1]).sqrt() + 1e-8))
    one.copy_(master)


def with_backend(backend):
    def attend(_, q, k, v):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1, enable_gqa=q.shape[1] != k.shape[1])
    return attend


def with_fa_cute():
    """FlashAttention CuTe (PyPI flash-attn-4), which takes tokens before heads."""
    from flash_attn.cute.interface import flash_attn_func

    return lambda _, q, k, v: flash_attn_func(*(one.transpose(1, 2) for one in (q, k, v)), causal=True)[0].transpose(1, 2)


def with_pattern(pattern, deterministic=True):
    return lambda index, q, k, v: s2.attention(q, k, v, pattern, index, deterministic=deterministic)


def with_flex(name, body, tokens):
    """FlexAttention, compiled, with the pattern's blocks in lists: tiles of 128 queries by 64 keys, those that are read whole apart."""
    from torch.nn.attention.flex_attention import BlockMask, flex_attention

    heads = SHAPES[name]["heads"]
    window, stride = map(int, re.fullmatch(r"local (\d+) \| stride (\d+) phase head\+1", body).groups())
    row = torch.arange(0, -(-tokens // 64), 2, device=DEVICE)[:, None]
    key = torch.arange(-(-tokens // 64), device=DEVICE)[None, :]
    lists = [[], [], [], []]
    for head in range(heads):
        strided = (key + head + 1) % stride == 0
        first, second = ((key <= blk) & ((blk - key < window) | strided) for blk in (row, row + 1))
        whole = first & second & (key < row)
        for at, tiles in ((0, (first | second) & ~whole), (2, whole)):
            lists[at].append(tiles.sum(1).int())
            lists[at + 1].append(torch.argsort(tiles.int(), dim=1, descending=True, stable=True).int())

    def reads(_, head, q, k):
        return (q >= k) & ((q // 64 - k // 64 < window) | ((k // 64 + head + 1) % stride == 0))

    mask = BlockMask.from_kv_blocks(*(torch.stack(one)[None] for one in lists), BLOCK_SIZE=(128, 64), mask_mod=reads, seq_lengths=(tokens, tokens))
    compiled = torch.compile(flex_attention, dynamic=False) if DEVICE == "cuda" else flex_attention
    return lambda index, q, k, v: compiled(q, k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1])


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def spread(found):
    return {"s": sorted(found)[len(found) // 2], "mean_s": sum(found) / len(found), "least_s": min(found), "most_s": max(found), "times": len(found)}


def seconds(call, times, before=1):
    """Of so many runs, after those that are not counted."""
    found = []
    for _ in range(times + before):
        wait()
        begin = time.perf_counter()
        call()
        wait()
        found.append(time.perf_counter() - begin)
    return spread(found[before:])


KINDS = (("attention", ("s2::", "decode", "fwd_sm", "bwd_sm", "edit_words", "cudnn", "flash", "fmha", "attention")),
         ("products", ("gemm", "nvjet", "cutlass", "cublas", "splitk", "xmma")), ("all-reduce", ("nccl",)))


def kernels(call):
    """Seconds of GPU time of one run by kind of kernel."""
    if DEVICE == "cpu":
        return {}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        call()
        wait()
    found = collections.Counter()
    for one in seen.key_averages():
        name = one.key.lower()
        kind = next((kind for kind, words in KINDS if any(word in name for word in words)), "the rest")
        found[kind] += one.device_time_total / 1e6
    return {"kernels_s": {kind: round(s, 6) for kind, s in found.items()}}


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


def peaks():
    """The most that tensors took, and the most that torch took of the GPU for them, with what lies unused between them."""
    if DEVICE == "cpu":
        return {"peak_gib": 0.0, "reserved_gib": 0.0}
    return {"peak_gib": torch.cuda.max_memory_allocated() / GIB, "reserved_gib": torch.cuda.max_memory_reserved() / GIB}


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


@torch.no_grad()
def prefill(rows, model, name, tokens, ways):
    ids = torch.randint(0, model.at["vocab"], (1, tokens), device=DEVICE)
    positions = torch.arange(tokens, device=DEVICE)
    for way, (attend, body) in ways.items():
        def run():
            model.logits(ids, positions, attend)

        def measure():
            took = seconds(run, 2 if tokens > 65536 else 4)
            return {**took, **peaks(), **kernels(run)}
        rows.attempt(measure, figure="prefill", model=name, tokens=tokens, batch=1, way=way, pattern=body)


def timed_steps(step, count):
    """Steps queued one after the other, each timed by the GPU; then steps for each of which the host waits."""
    if DEVICE == "cpu":
        return seconds(step, count)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    wait()
    begin = time.perf_counter()
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    host = (time.perf_counter() - begin) / count
    wait()
    took = spread([a.elapsed_time(b) / 1e3 for a, b in zip(marks, marks[1:])])
    took["mean_s"] = (time.perf_counter() - begin) / count
    waited = seconds(step, 20)
    return {**took, "host_s": host, "waited_s": waited["s"], "waited_most_s": waited["most_s"]}


def decode(rows, model, about, batch, store, attend, cache, steps):
    """Tokens of all sequences, each made of the one before; `store` makes room and runs a body once."""
    ids = torch.randint(0, model.at["vocab"], (batch, 1), device=DEVICE)
    position = torch.full((1,), about["tokens"] - steps - 30, device=DEVICE)

    def body():
        ids.copy_(model.logits(ids, position, attend)[:, -1].argmax(-1, keepdim=True))
        position.add_(1)

    step = store(body)
    for _ in range(3):
        step()
    took = timed_steps(step, steps)
    return {**took, "tokens_per_s": batch / took["mean_s"], "cache_gib": cache() / GIB, "used_gib": used_gib(),
            "captures": getattr(step, "captures", 1), **kernels(step)}


def filled(pattern, like, tokens, batch, pages=0):
    """A cache of random keys, its sequences, and attention that writes to it and reads from it."""
    cache = s2.Cache(pattern, like, pages=pages)
    sequences = [cache.open() for _ in range(batch)]
    cache.append(sequences, tokens)
    for pool in (cache.keys, cache.values):
        pool.normal_()

    def attend(index, q, k, v):
        cache.write(sequences, index, k, v)
        return cache.attend(q, sequences, index)
    return cache, sequences, attend


@torch.no_grad()
def decode_paged(rows, model, name, tokens, batch, body, way, steps, captured=True):
    """From a cache that gives pages back; the last steps end at `tokens`."""
    pattern = pattern_of(name, body)
    about = {"figure": "decode", "model": name, "tokens": tokens, "way": way, "batch": batch, "pattern": body}

    def measure():
        per = pattern.simulate(tokens, phase="decode", page=pattern.block).kv_bytes / (4 * pattern.head_dim) / pattern.block
        pages = math.ceil(per * batch * 1.02) + 64
        cache, sequences, attend = filled(pattern, model.embed, tokens - steps - 30, batch, pages)

        def one_by_one(run):
            def step():
                cache.append(sequences, 1)
                run()
            return step

        store = (lambda run: s2.Step(cache, sequences, run)) if captured else one_by_one
        try:
            return decode(rows, model, about, batch, store, attend, lambda: cache.usage.bytes, steps)
        finally:
            cache.close()
    return rows.attempt(measure, **about)


@torch.no_grad()
def decode_dense(rows, model, name, tokens, batch, under, way, steps):
    """A dense cache in two arrays and somebody else's attention. Its graph is of one length, `tokens`: it costs what one of all lengths would at
    the last, and nothing for the host to make."""
    about = {"figure": "decode", "model": name, "tokens": tokens, "way": way, "batch": batch, "pattern": "dense"}

    def measure():
        shape = (model.at["layers"], batch, model.kv_heads, tokens, model.dim)
        keys, values = (torch.empty(shape, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
        for layer in range(shape[0]):
            keys[layer].normal_()
            values[layer].normal_()

        def attend(index, q, k, v):
            keys[index, :, :, -1:] = k
            values[index, :, :, -1:] = v
            return under(index, q, keys[index], values[index])

        def store(run):
            if DEVICE == "cpu":
                return run
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                run()
            wait()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                run()
            return graph.replay
        return decode(rows, model, about, batch, store, attend, lambda: 2 * keys.numel() * 2, steps)
    return rows.attempt(measure, **about)


def warm(model, attend, tokens, step):
    """What a first step makes and compiles, at less than its price: a short step, and attention of one layer."""
    step(SHORT)
    q, k, v = (torch.zeros(1, tokens, heads, model.dim, device=DEVICE, dtype=torch.bfloat16).transpose(1, 2).requires_grad_()
               for heads in (model.heads, model.kv_heads, model.kv_heads))
    o = attend(0, q, k, v)
    o.backward(torch.zeros_like(o))


def train(rows, model, name, tokens, ways, recompute, asked):
    ids = torch.randint(0, model.at["vocab"], (1, tokens + 1), device=DEVICE)
    optimizer = MasterAdamW(model.parameters())
    for way, (attend, body) in ways.items():
        losses = []

        def step(first=tokens):
            loss = model.loss(ids[:, :first + 1], attend, recompute)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())

        def measure():
            if asked.once:
                warm(model, attend, tokens, step)
                took = []
                by_kind = kernels(lambda: took.append(seconds(step, 1, 0)))
                took = took[0] if took else seconds(step, 1, 0)
            elif asked.times:  # the step that is not counted is the one that is watched
                by_kind = kernels(step)
                took = seconds(step, asked.times, 0)
            else:
                took = seconds(step, 3 if tokens <= 32768 else 2)
                by_kind = kernels(step)
            return {**took, **peaks(), "losses": [round(float(x), 3) for x in losses], **by_kind}
        rows.attempt(measure, figure="train", model=name, tokens=tokens, batch=1, way=way, pattern=body, recompute=recompute)


def fit(name, body, tokens):
    """The largest batch that the simulator says fits."""
    known = name if name in ("llama-3.1-8b", "phi-3-small") else None
    return pattern_of(name, body).simulate(tokens, phase="decode", model=known, page=64).fit_batch


def about():
    commit = os.environ.get("S2_COMMIT") or subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    device = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"
    return {"device": device, "torch": torch.__version__, "commit": commit}


def wants(asked, way):
    return not asked.ways or way in asked.ways.split(",")


def trained(name):
    return TRAINED.get(name, PATTERNS[name])


def ask():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--figures", default="prefill,decode,train")
    parser.add_argument("--models", default="llama-3.1-8b,phi-3-small")
    parser.add_argument("--lengths", default="32768,131072")
    parser.add_argument("--train", default="1.3b:8192,1.3b:32768,llama-3.1-8b:8192,llama-3.1-8b:16384")
    parser.add_argument("--times", type=int, default=0, help="training steps that are timed; 0: two or three")
    parser.add_argument("--once", action="store_true", help="one training step, which is watched and timed, after a short one and attention of one layer")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--ways", default="", help="these alone, as rows name them")
    parser.add_argument("--batch", type=int, default=0, help="of decoding; 0: the largest that fits, of each side")
    return parser.parse_args()


def largest(batch, attempt):
    """The largest batch that fits, from above."""
    for tenths in (97, 94, 90, 80):
        tried = max(1, batch * tenths // 100)
        if attempt(tried):
            return tried
        clear()
    return 1


def infer(rows, name, asked):
    model, body = Model(name), PATTERNS[name]
    torchs = SDPBackend.CUDNN_ATTENTION if DEVICE == "cuda" else SDPBackend.MATH
    for tokens in map(int, asked.lengths.split(",")):
        if "prefill" in asked.figures:
            prefill(rows, model, name, tokens, ways_of(name, body, tokens, torchs, asked))
        if "decode" in asked.figures:
            generate(rows, model, name, tokens, torchs, asked)


def generate(rows, model, name, tokens, torchs, asked):
    body = PATTERNS[name]

    def paged(batch, body, way, steps=asked.steps, captured=True):
        return not wants(asked, way) or decode_paged(rows, model, name, tokens, batch, body, way, steps, captured)

    few = asked.batch or largest(fit(name, "dense", tokens), lambda batch: paged(batch, "dense", "dense"))
    if asked.batch:
        paged(few, "dense", "dense")
    for way, make in rivals(torchs).items():
        if wants(asked, way):
            decode_dense(rows, model, name, tokens, few, make(), way, 20)
    paged(few, body, "pattern")
    paged(few, body, "pattern, no graph", 20, captured=False)
    if not asked.batch:
        largest(fit(name, body, tokens), lambda batch: paged(batch, body, "pattern"))


def rivals(torchs):
    """Other people's dense attention."""
    return {"dense cuDNN": lambda: with_backend(torchs), **({"dense FA-CuTe": with_fa_cute} if importlib.util.find_spec("flash_attn") else {})}


def ways_of(name, body, tokens, torchs, asked, fused=False):
    """What is measured, by its name: how attention is computed, and its pattern."""
    made = {"pattern": lambda: (with_pattern(pattern_of(name, body)), body),
            "pattern, fused": lambda: (with_pattern(pattern_of(name, body), False), body),
            "pattern, FlexAttention": lambda: (with_flex(name, body, tokens), body),
            **{way: lambda make=make: (make(), "dense") for way, make in rivals(torchs).items()},
            "dense": lambda: (with_pattern(pattern_of(name, "dense")), "dense")}
    return {way: make() for way, make in made.items() if wants(asked, way) and (fused or way != "pattern, fused")}


def recomputed(name, tokens):
    """What lets a step fit 139.8 GiB: 8 x 10^9 weights take 119.7 of them. Rows say "one array", since older ones, of true, kept two."""
    return "one array" if name in ("llama-3.1-8b", "phi-3-small") or tokens > 32768 else False


def trains(rows, asked):
    for one in filter(None, asked.train.split(",")):
        name, tokens = one.split(":")
        body = trained(name)
        model = Model(name)
        torchs = SDPBackend.CUDNN_ATTENTION if DEVICE == "cuda" else SDPBackend.MATH
        train(rows, model, name, int(tokens), ways_of(name, body, int(tokens), torchs, asked, fused=int(tokens) <= 32768),
              recomputed(name, int(tokens)), asked)
        del model
        clear()


def main():
    asked = ask()
    torch.manual_seed(1)
    fuse()
    rows = Rows(asked.out, about())
    for name in filter(None, asked.models.split(",")):
        if "prefill" in asked.figures or "decode" in asked.figures:
            infer(rows, name, asked)
            clear()
    if "train" in asked.figures:
        trains(rows, asked)


if __name__ == "__main__":
    main()
