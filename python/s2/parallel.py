"""Tensor parallelism: which heads of a pattern each GPU of several has, and what they read.

With torch.distributed a layer of rank `rank` is its own rows of the projections, attention with its own pattern, and one sum over ranks:

    share = s2.parallel.Share(pattern, ranks, rank, pattern.deal(ranks, length))
    q = F.linear(x, share.take(w_q, layer)); k = F.linear(x, share.take(w_k, layer, kv=True)); ...
    o = s2.attention(q, k, v, share.pattern, layer)                     # of the rank's heads
    y = F.linear(o, share.take(w_o.t(), layer).t()); torch.distributed.all_reduce(y)
"""
from __future__ import annotations

from typing import Any, Optional, Sequence

from ._lib import ArgumentError, flag, integer
from .pattern import Pattern


class Share:
    """One rank's part: `pattern` has its heads alone; `heads[layer]` and `kv_heads[layer]` are their numbers in the whole."""

    def __init__(self, pattern: Pattern, ranks: int, rank: int, deal: Optional[Sequence[Sequence[int]]] = None) -> None:
        if not isinstance(pattern, Pattern):
            raise ArgumentError(f"pattern: an s2.Pattern is wanted, not {type(pattern).__name__}")
        self.whole, self.pattern = pattern, pattern.share(ranks, rank, deal)
        group, each = pattern.heads // pattern.kv_heads, pattern.heads // ranks
        self.heads: list[list[int]] = []
        self.kv_heads: list[list[int]] = []
        for layer in range(pattern.layers):
            order = list(range(pattern.kv_heads)) if deal is None else list(deal[layer])
            places = range(rank * each, (rank + 1) * each)
            self.heads.append([order[at // group] * group + at % group for at in places])
            self.kv_heads.append(list(dict.fromkeys(order[at // group] for at in places)))

    def take(self, weight: Any, layer: int, kv: bool = False) -> Any:
        """The rows of a projection, (heads * d, anything), that belong to this rank's heads of a layer."""
        count, layer = self.whole.kv_heads if flag(kv, "kv") else self.whole.heads, integer(layer, "layer", 0, self.whole.layers - 1)
        if not getattr(weight, "shape", ()):
            raise ArgumentError(f"weight: an array or a tensor with rows is wanted, not {type(weight).__name__}")
        if weight.shape[0] % count:
            raise ArgumentError(f"weight: {weight.shape[0]} rows are not equally many for {count} heads")
        wanted = (self.kv_heads if kv else self.heads)[layer]
        rows = weight.reshape(count, weight.shape[0] // count, *weight.shape[1:])[wanted]
        return rows.reshape(-1, *weight.shape[1:])
