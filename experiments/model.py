"""Many small decoders at once: every parameter has a leading dimension of models, every product is batched.

A position is given its token and the one before it, so that association needs no head for the previous token: that
makes learning fast enough to compare many patterns. RMS norm before attention and before the MLP, rotary positions, grouped-query attention, no biases. The models share
nothing but the kernels they run in.
"""
import math

import torch
import torch.nn.functional as F

from tasks import CONTEXT, VOCAB


class Shape:
    def __init__(self, layers=4, heads=8, kv_heads=4, head_dim=32, width=128, hidden=256):
        self.layers, self.heads, self.kv_heads = layers, heads, kv_heads
        self.head_dim, self.width, self.hidden = head_dim, width, hidden

    @property
    def qkv(self):
        return (self.heads + 2 * self.kv_heads) * self.head_dim


def parameters(shape, seeds, device):
    """One model for each seed; equal seeds give equal models."""
    drawn = {}
    for seed in set(seeds):
        gen = torch.Generator().manual_seed(1000003 * seed + 17)
        d, small = shape.width, 0.02 / math.sqrt(2 * shape.layers)
        sizes = {"embed": (VOCAB, d, 0.02), "before": (VOCAB, d, 0.02), "head": (d, VOCAB, 0.02)}
        for layer in range(shape.layers):
            sizes |= {f"qkv{layer}": (d, shape.qkv, 0.02), f"out{layer}": (shape.heads * shape.head_dim, d, small),
                      f"up{layer}": (d, shape.hidden, 0.02), f"down{layer}": (shape.hidden, d, small)}
        drawn[seed] = {name: torch.randn(n, m, generator=gen) * scale for name, (n, m, scale) in sizes.items()}
        for norm in [f"{kind}{layer}" for layer in range(shape.layers) for kind in ("norm_a", "norm_m")] + ["norm"]:
            drawn[seed][norm] = torch.ones(1, d)
    return {name: torch.stack([drawn[seed][name] for seed in seeds]).to(device).requires_grad_()
            for name in drawn[seeds[0]]}


def normed(x, gain):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * gain).to(x.dtype)


def rotary(head_dim, device):
    half = head_dim // 2
    angle = torch.arange(CONTEXT, device=device)[:, None] * 10000.0 ** (-torch.arange(half, device=device) / half)
    return angle.cos(), angle.sin()


def rotate(x, turn):
    cos, sin = (part.to(x.dtype) for part in turn)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def attend_plain(shape, mask):
    """Softmax over a mask [models, heads, T, T] as written; a query that reads nothing gets zeros."""
    def attend(q, k, v, models):
        k, v = (t.repeat_interleave(shape.heads // shape.kv_heads, 1) for t in (k, v))
        score = (q @ k.transpose(-1, -2)).float() / math.sqrt(shape.head_dim)
        allowed = mask[:, None].expand(models, q.shape[0] // models, -1, -1, -1).flatten(0, 1)
        weight = score.masked_fill(~allowed, -1e9).softmax(-1) * allowed
        return weight.to(v.dtype) @ v
    return attend


def attend_flex(shape, mask, rows):
    from torch.nn.attention.flex_attention import BlockMask, flex_attention

    tiles = CONTEXT // 128
    number = torch.arange(1, tiles + 1, device=mask.device, dtype=torch.int32)[None, None]
    index = torch.arange(tiles, device=mask.device, dtype=torch.int32).expand(1, 1, tiles, tiles).contiguous()

    def reads(b, h, q, k):
        return mask[b // rows, h, q, k]

    block_mask = BlockMask.from_kv_blocks(number, index, BLOCK_SIZE=128, mask_mod=reads)

    def attend(q, k, v, models):
        return flex_attention(q, k, v, block_mask=block_mask, enable_gqa=True)
    return attend


def attend_s2(patterns, layer):
    """
    s2.attention (docs/python.md) of each model's own pattern. It stays outside of compiled code, which would hold on to
    the patterns that it was compiled with; a new batch has others.
    """
    import s2

    @torch.compiler.disable
    def attend(q, k, v, models):
        parts = zip(*(t.chunk(models) for t in (q, k, v)), patterns)
        return torch.cat([s2.attention(*part, pattern, layer) for *part, pattern in parts])
    return attend


def one_hot(x, kind):
    return (x.flatten(1)[..., None] == torch.arange(VOCAB, device=x.device)).to(kind)


def forward(shape, p, x, attends, turn):
    """Logits [models, rows * T, VOCAB] of tokens x [models, rows, T]."""
    models, rows, _ = x.shape
    kind = torch.bfloat16 if x.is_cuda else torch.float32
    weights = {name: value.to(kind) for name, value in p.items()}
    before = F.pad(x, (1, 0))[..., :-1]
    h = one_hot(x, kind) @ weights["embed"] + one_hot(before, kind) @ weights["before"]
    for layer, attend in enumerate(attends):
        qkv = normed(h, p[f"norm_a{layer}"]) @ weights[f"qkv{layer}"]
        qkv = qkv.view(models * rows, CONTEXT, -1, shape.head_dim).transpose(1, 2)
        q, k, v = qkv.split([shape.heads, shape.kv_heads, shape.kv_heads], 1)
        out = attend(rotate(q, turn), rotate(k, turn), v, models)
        h = h + out.transpose(1, 2).reshape(models, rows * CONTEXT, -1) @ weights[f"out{layer}"]
        up = F.gelu(normed(h, p[f"norm_m{layer}"]) @ weights[f"up{layer}"])
        h = h + up @ weights[f"down{layer}"]
    return normed(h, p["norm"]) @ weights["head"]


def losses(shape, p, x, y, attends, turn):
    """Mean loss of each model over the targets that are not 0."""
    logits = forward(shape, p, x, attends, turn).float()
    target = y.flatten(1)
    nll = torch.logsumexp(logits, -1) - logits.gather(-1, target[..., None])[..., 0]
    asked = (target != 0).float()
    return (nll * asked).sum(1) / asked.sum(1)


def judged(shape, p, x, y, attends, turn):
    """Per position: whether the most likely token is the target, and the loss."""
    logits = forward(shape, p, x, attends, turn).float()
    target = y.flatten(1)
    nll = torch.logsumexp(logits, -1) - logits.gather(-1, target[..., None])[..., 0]
    return (logits.argmax(-1) == target).view_as(x), nll.view_as(x)


def adamw(p, grads, first, second, rate, step, decay=0.05, betas=(0.9, 0.98)):
    """One step of AdamW for each model by itself: its own learning rate, its own clipping at norm 1."""
    norm = sum(g.square().sum((1, 2)) for g in grads.values()).sqrt()
    scale = (1.0 / norm.clamp(min=1.0))[:, None, None]
    rate = rate[:, None, None]
    for name, value in p.items():
        g = grads[name] * scale
        first[name].lerp_(g, 1 - betas[0])
        second[name].lerp_(g * g, 1 - betas[1])
        mean, square = first[name] / (1 - betas[0] ** step), second[name] / (1 - betas[1] ** step)
        value.mul_(1 - rate * decay).sub_(rate * mean / (square.sqrt() + 1e-8))
