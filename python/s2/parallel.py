"""Tensor parallelism: which heads of a pattern each GPU of several has, and what they read. Context parallelism: which tokens.

With torch.distributed a layer of rank `rank` is its own rows of the projections, attention with its own pattern, and one sum over ranks:

    share = s2.parallel.Share(pattern, ranks, rank, pattern.deal(ranks, length))
    q = F.linear(x, share.take(w_q, layer)); k = F.linear(x, share.take(w_k, layer, kv=True)); ...
    o = s2.attention(q, k, v, share.pattern, layer)                     # of the rank's heads
    y = s2.parallel.summed(F.linear(o, share.take(w_o.t(), layer).t()))  # by all ranks at once

where x is s2.parallel.copied(x) for gradients, which then are those of one GPU.

With one sequence cut between ranks, each has the queries and keys of its own tokens, and is sent those earlier keys that its queries read:

    context = s2.parallel.Context(pattern, rank, s2.parallel.cut(pattern, ranks, length))
    q, k, v = ...                                                       # of tokens context.begin to context.end
    o = context.attention(q, k, v, layer)                               # by all ranks at once
"""
from __future__ import annotations

import functools
from typing import Any, Callable, Optional, Sequence

from ._lib import LIMIT_TOK, ArgumentError, Fixed, UnsupportedError, flag, integer, integers, word
from .attention import Array, attention
from .cache import Cache
from .pattern import Pattern


def _whole(pattern: Pattern) -> Pattern:
    if not isinstance(pattern, Pattern):
        raise ArgumentError(f"pattern: an s2.Pattern is wanted, not {type(pattern).__name__}")
    return pattern


class Share:
    """Part `rank` of `ranks`, whose KV heads are dealt out in numerical order or as `deal` (`Pattern.deal`) has them: `pattern` has its heads
    alone; `heads[layer]` and `kv_heads[layer]` are their numbers in `whole`."""

    def __init__(self, pattern: Pattern, ranks: int, rank: int, deal: Optional[Sequence[Sequence[int]]] = None) -> None:
        self.whole, self.pattern = _whole(pattern), pattern.share(ranks, rank, deal)
        group, each = pattern.heads // pattern.kv_heads, pattern.heads // ranks
        self.heads: list[list[int]] = []
        self.kv_heads: list[list[int]] = []
        for layer in range(pattern.layers):
            order = list(range(pattern.kv_heads)) if deal is None else list(deal[layer])
            places = range(rank * each, (rank + 1) * each)
            self.heads.append([order[at // group] * group + at % group for at in places])
            self.kv_heads.append(list(dict.fromkeys(order[at // group] for at in places)))

    def take(self, weight: Array, layer: int, kv: bool = False) -> Array:
        """The rows of a projection, (heads * d, anything), that belong to this rank's heads of a layer."""
        count, layer = self.whole.kv_heads if flag(kv, "kv") else self.whole.heads, integer(layer, "layer", 0, self.whole.layers - 1)
        rows: Any = weight
        if not getattr(rows, "shape", ()):
            raise ArgumentError(f"weight: an array or a tensor with rows is wanted, not {type(weight).__name__}")
        if rows.shape[0] % count:
            raise ArgumentError(f"weight: {rows.shape[0]} rows are not equally many for {count} heads")
        wanted = (self.kv_heads if kv else self.heads)[layer]
        try:
            rows = rows.reshape(count, rows.shape[0] // count, *rows.shape[1:])[wanted]
            made: Array = rows.reshape(rows.shape[0] * rows.shape[1], *rows.shape[2:])
            return made
        except (RuntimeError, NotImplementedError) as failure:  # torch's: it is sparse
            raise ArgumentError(f"weight: {str(failure).splitlines()[0]}") from failure


def copied(x: Array, process_group: Any = None) -> Array:
    """x, which each rank has whole, as its own rows of a projection take it: the same tensor, whose gradient is summed over the ranks."""
    made: Array = _exchange().copied(x, process_group)
    return made


def summed(y: Array, process_group: Any = None) -> Array:
    """What each rank's heads add to a layer's output, summed over the ranks in place; all ranks call it at once, and then each has the whole, and
    the whole of its gradient. y is contiguous."""
    made: Array = _exchange().summed(y, process_group)
    return made


def _exchange() -> Any:
    try:
        from . import exchange
    except ModuleNotFoundError as missing:
        raise UnsupportedError(f"torch.distributed goes between ranks: install torch ({missing})") from missing
    return exchange


def cut(pattern: Pattern, ranks: int, length: int, by: str = "tokens") -> list[int]:
    """Where each rank's tokens begin, and the end: multiples of the pattern's block, so that ranks have about as many tokens each, or as
    many pairs (by="pairs": early tokens read little)."""
    block, length = _whole(pattern).block, integer(length, "length", 1, LIMIT_TOK)
    word(by, "by", {"tokens": 0, "pairs": 1})
    ranks = integer(ranks, "ranks", 1, max(1, length // block))

    @functools.lru_cache(maxsize=None)
    def work(tokens: int) -> int:
        return tokens if by == "tokens" or tokens == 0 else pattern.simulate(tokens).pairs

    bounds = [0]
    for rank in range(1, ranks):
        last = bounds[-1] // block
        bounds.append(block * _first(lambda at: work(at * block) * ranks - work(length) * rank, last, max(last + 1, length // block - (ranks - rank))))
    return [*bounds, length]


def _first(above: Callable[[int], int], low: int, high: int) -> int:
    """The first number behind low at which what rises is 0 or more, at most high. Each look prices a pattern, so it is where a line says: regula
    falsi, of which an end that stays counts half (the Illinois method); halves where that takes long."""
    below, over, kept = float(above(low)), float(above(high)), 0
    for tries in range(high - low):
        if high - low <= 1 or over < 0:
            break
        ahead = (high - low) // 2 if tries > 8 or over <= below else round((high - low) * -below / (over - below))
        at = low + max(1, min(high - low - 1, ahead))
        found = above(at)
        if found >= 0:
            high, over, below, kept = at, float(found), below / 2 if kept > 0 else below, 1
        else:
            low, below, over, kept = at, float(found), over / 2 if kept < 0 else over, -1
    return high


class Context(Fixed):
    """One rank's tokens of a sequence, `begin` to `end`, and which earlier keys it is sent. `bounds` are as `cut` gives them, one more than there are
    ranks; keys are sent in whole pages of `page` tokens (0: the pattern's block, at least 16).

    Those are what a cache holds at its first token: all that a later query may read (docs/kv-cache.md), for any length, whichever ranks there are.
    So a rank's queries miss no key, which `prove` says of this length pair by pair, and what a rank receives is what `simulate(begin, phase="decode")`
    says that a cache keeps.
    """

    _fixed = frozenset(("pattern", "bounds", "rank", "ranks", "begin", "end"))

    def __init__(self, pattern: Pattern, rank: int, bounds: Sequence[int], *, page: int = 0) -> None:
        self.pattern, self.bounds = _whole(pattern), tuple(integers(bounds, "bounds", 0, LIMIT_TOK))
        if len(self.bounds) < 2 or self.bounds[0] != 0 or any(a >= b for a, b in zip(self.bounds, self.bounds[1:])):
            raise ArgumentError(f"bounds: {list(self.bounds)} does not ascend from 0")
        if pattern.has_phases:
            raise UnsupportedError("pattern: it reads other keys in decoding, and what a rank is sent is what a cache keeps for that")
        self.ranks = len(self.bounds) - 1
        self.rank = integer(rank, "rank", 0, self.ranks - 1)
        self.begin, self.end = self.bounds[self.rank:self.rank + 2]
        self._needs: list[dict[int, list[Any]]] = [self._held(begin, page) for begin in self.bounds[:-1]]

    def _held(self, begin: int, page: int) -> dict[int, list[Any]]:
        """For each kind of layer and KV head the keys before `begin` that a later query may read."""
        import numpy

        none = numpy.zeros(0, dtype=numpy.int64)
        kinds = sorted(set(self.pattern.kinds()))
        if begin == 0:
            return {kind: [none] * self.pattern.kv_heads for kind in kinds}
        index = Cache(self.pattern, numpy.zeros(1, numpy.float16), head_dim=1, page=page)  # for its slots alone
        sequence = index.open()
        index.append(sequence, begin)
        found = {kind: [numpy.flatnonzero(numpy.array(index.slots(sequence, kind, head, 0, begin)) >= 0) for head in range(self.pattern.kv_heads)]
                 for kind in kinds}
        index.close()
        return found

    def _between(self, source: int, target: int, layer: int) -> list[Any]:
        """For each KV head the keys of one rank that another is sent."""
        begin, end = self.bounds[source:source + 2]
        return [keys[(keys >= begin) & (keys < end)] for keys in self._needs[target][self.pattern.kinds()[layer]]]

    def traffic(self, head_dim: int, itemsize: int, batch: int = 1) -> list[list[int]]:
        """Bytes of K and V from each rank to each, over all layers; gradients take the same way back."""
        each = 2 * integer(head_dim, "head_dim", 1) * integer(itemsize, "itemsize", 1) * integer(batch, "batch", 1)
        return [[each * sum(len(keys) for layer in range(self.pattern.layers) for keys in self._between(source, target, layer)) if source < target else 0
                 for target in range(self.ranks)] for source in range(self.ranks)]

    def work(self) -> list[int]:
        """Pairs that the queries of each rank read."""
        whole = [0 if tokens == 0 else self.pattern.simulate(tokens).pairs for tokens in self.bounds]
        return [b - a for a, b in zip(whole, whole[1:])]

    def prove(self) -> None:
        """Look at each pair that this rank's queries read, by the definition: an error where its key is not there."""
        import numpy

        group = self.pattern.heads // self.pattern.kv_heads
        for layer in range(self.pattern.layers):
            there = numpy.zeros((self.pattern.kv_heads, self.end), dtype=bool)
            there[:, self.begin:] = True
            for head, keys in enumerate(self._needs[self.rank][self.pattern.kinds()[layer]]):
                there[head, keys] = True
            for query in range(self.begin, self.end, 64):
                last = min(query + 64, self.end)
                missed = self.pattern.mask(layer, self.end, queries=(query, last)).any(1) & ~numpy.repeat(there, group, 0)
                if missed.any():
                    head, key = (int(one) for one in numpy.argwhere(missed)[0])
                    raise ArgumentError(f"bounds: layer {layer}, head {head}: a query of {query} to {last} reads key {key}, which rank {self.rank} is not sent")

    def attention(self, q: Any, k: Any, v: Any, layer: int = 0, *, process_group: Any = None, **options: Any) -> Any:
        """s2.attention of this rank's queries (batch, heads, tokens, d) and its share of keys; all ranks call it at once, with torch.distributed.
        Gradients go back to the ranks that the keys came from. `options` are s2.attention's."""
        layer = integer(layer, "layer", 0, self.pattern.layers - 1)
        exchange = _exchange()
        exchange.check(q, k, v, self, process_group)
        keys, values = exchange.gathered(k, v, [self._between(self.rank, target, layer) for target in range(self.rank + 1, self.ranks)],
                                         [self._between(source, self.rank, layer) for source in range(self.rank)], self, process_group)
        return attention(q, keys, values, self.pattern, layer, **options)
