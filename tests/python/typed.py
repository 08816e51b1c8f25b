"""A user's program, whose types `mypy --strict` checks against the package's (run.sh). It runs, too: what it says of types is so."""
from __future__ import annotations

import numpy
import torch

import s2
import s2.transformers


def priced(pattern: s2.Pattern) -> tuple[float, int]:
    price: s2.Price = pattern.simulate(4096, gpu="h100-sxm", phase="decode")
    return price.time_us, price.kv_bytes


def witnesses(pattern: s2.Pattern) -> list[str]:
    found: s2.Check = pattern.check("rows,union", length=512)
    return [f"{one.name} {one.verdict} {one.witness}" for one in found.findings if not found]


def on_arrays(pattern: s2.Pattern, q: numpy.ndarray, k: numpy.ndarray) -> numpy.ndarray:
    o, lse = s2.attention(q, k, k, pattern, return_lse=True)
    gradients: tuple[numpy.ndarray, ...] = s2.attention_backward(o, q, k, k, o, lse, pattern)
    return s2.attention(gradients[0], k, k, pattern, 0, scale=0.1, softcap=3.0)


class Layer(torch.nn.Module):
    def __init__(self, pattern: s2.Pattern) -> None:
        super().__init__()
        self.pattern = pattern

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return s2.attention(q, k, v, self.pattern, deterministic=False)


def of_rank(pattern: s2.Pattern, weight: torch.Tensor) -> torch.Tensor:
    share = s2.parallel.Share(pattern, 2, 1, pattern.deal(2, 256))
    return share.take(weight, 0, kv=True)


def decoded(pattern: s2.Pattern) -> torch.Tensor:
    cache = s2.Cache(pattern, torch.zeros(1), head_dim=8)
    rows = [cache.open()]

    def body() -> torch.Tensor:
        k = torch.ones(1, pattern.kv_heads, 1, 8)
        cache.write(rows, 0, k, k)
        return cache.attend(torch.ones(1, pattern.heads, 1, 8), rows, 0)

    step = s2.Step(cache, rows, body)
    held: s2.Usage = cache.usage
    o: torch.Tensor = step()
    return o if held.pages == 0 else -o


def main() -> None:
    pattern = s2.Pattern("layers 2; heads 2; kv-heads 2; head-dim 8; block 16; layers all: local 2; layers 1: dense")
    q, k = numpy.ones((1, 2, 40, 8), "f4"), numpy.ones((1, 2, 40, 8), "f4")
    rows = torch.from_numpy(q)
    listed = s2.block_attention(rows, rows, rows, pattern, torch.ones(1, 2, 3, dtype=torch.int32), torch.zeros(1, 2, 3, 1, dtype=torch.int32), 1,
                                query_block=16)
    writes: list[str] = [one.name for one in s2.formats() if one.writes]
    try:
        s2.Pattern("layers all: nothing")
    except s2.RefusedError as refused:
        print(refused.line, refused.column, priced(pattern), witnesses(pattern), on_arrays(pattern, q, k).shape, Layer(pattern)(rows, rows, rows).shape,
              of_rank(pattern, torch.ones(16, 3)).shape, decoded(pattern).shape, listed.shape, len(writes))


if __name__ == "__main__":
    main()
