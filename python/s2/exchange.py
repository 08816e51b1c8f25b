"""What goes between ranks with torch.distributed: sums of a layer whose heads were dealt out, keys and values of a sequence that was cut; gradients
go the same way back."""
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from . import _lib
from ._arrays import view
from ._lib import ArgumentError
from .attention import check_heads


def _swap(sent: list[tuple[int, torch.Tensor]], wanted: list[tuple[int, torch.Tensor]], group: Any) -> None:
    """Each (rank, tensor) of the first is sent, each of the second received; none may be empty. gloo sends what is in the host's memory."""
    if dist.get_backend(group) == "gloo" and any(one.is_cuda for _, one in [*sent, *wanted]):
        found = [(rank, torch.empty(one.shape, dtype=one.dtype)) for rank, one in wanted]
        _swap([(rank, one.cpu()) for rank, one in sent], found, group)
        for (_, one), (_, there) in zip(wanted, found):
            one.copy_(there)
        return

    def number(rank: int) -> int:
        return rank if group is None else dist.get_global_rank(group, rank)

    ways = [dist.P2POp(dist.isend, one, number(rank), group) for rank, one in sent] + [dist.P2POp(dist.irecv, one, number(rank), group) for rank, one in wanted]
    for work in dist.batch_isend_irecv(ways) if ways else []:
        work.wait()


def _sum(x: torch.Tensor, group: Any) -> None:
    dist.all_reduce(x, group=group)


class _Copied(torch.autograd.Function):
    """The same forward; a gradient is summed over the ranks."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, d_x: torch.Tensor) -> tuple[torch.Tensor, None]:
        d_x = d_x.clone(memory_format=torch.contiguous_format)  # others may hold it, too
        _sum(d_x, ctx.group)
        return d_x, None


class _Summed(torch.autograd.Function):
    """Summed over the ranks in place; a gradient goes on as it is, since each rank has the whole of it."""

    @staticmethod
    def forward(ctx: Any, y: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.mark_dirty(y)
        _sum(y, group)
        return y

    @staticmethod
    def backward(ctx: Any, d_y: torch.Tensor) -> tuple[torch.Tensor, None]:
        return d_y, None


_copied: Any = _Copied  # whose apply torch gives no types
_summed: Any = _Summed


def _wanted(one: Any, name: str) -> None:
    if not isinstance(one, torch.Tensor) or not one.is_floating_point() or one.layout is not torch.strided or one.is_nested:
        raise ArgumentError(f"{name}: a dense tensor of floating-point numbers is wanted, not {getattr(one, 'dtype', type(one).__name__)}")


def _check_group(group: Any) -> None:
    if not dist.is_available() or not dist.is_initialized():
        raise ArgumentError("process_group: torch.distributed has none; call init_process_group first")
    if group is not None and not isinstance(group, dist.ProcessGroup) or dist.get_rank(group) < 0:
        raise ArgumentError(f"process_group: {_lib.shown(group)} is not a group that this process is in")


def copied(x: torch.Tensor, group: Any) -> Any:
    _wanted(x, "x")
    _check_group(group)
    return _copied.apply(x, group)


def summed(y: torch.Tensor, group: Any) -> Any:
    _wanted(y, "y")
    _check_group(group)
    if not y.is_contiguous():
        raise ArgumentError(f"y: strides {y.stride()}; it is summed in place, which wants it contiguous")
    if y.is_leaf and y.requires_grad and torch.is_grad_enabled():
        raise ArgumentError("y: it is summed in place, and is a leaf that requires gradients")
    return _summed.apply(y, group)


class _Exchange(torch.autograd.Function):
    """(own rows, rows for later ranks) -> (own rows, rows of earlier ranks), each (2, batch, rows, d). A rank that is sent nothing has its own
    rows here, since gradients must come by for it to wait for the others'."""

    @staticmethod
    def forward(ctx: Any, about: tuple[Any, ...], own: torch.Tensor, *rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.about, ctx.shapes = about, [one.shape for one in rows]
        targets, sources, group = about
        made = [(rank, own.new_empty((2, own.shape[1], count, own.shape[3]))) for rank, count in sources]
        _swap([(rank, one.contiguous()) for rank, one in zip(targets, rows)], made, group)
        return (own.view_as(own), *(one for _, one in made))

    @staticmethod
    def backward(ctx: Any, d_own: torch.Tensor, *gradients: torch.Tensor) -> tuple[Any, ...]:
        targets, sources, group = ctx.about
        made = [(rank, d_own.new_empty(shape)) for rank, shape in zip(targets, ctx.shapes)]
        _swap([(rank, one.contiguous()) for (rank, _), one in zip(sources, gradients)], made, group)
        return (None, d_own, *(one for _, one in made))


_exchange: Any = _Exchange


def _flat(keys: list[Any], rows: int, begin: int, device: torch.device) -> torch.Tensor:
    """Where the keys of each KV head lie in (KV head, row)."""
    places = [torch.from_numpy(one) - begin + head * rows for head, one in enumerate(keys)]
    return torch.cat(places).to(device)


def check(q: Any, k: Any, v: Any, context: Any, group: Any) -> None:
    """What is sent is right before anything is."""
    views = []
    for name, one in (("q", q), ("k", k), ("v", v)):
        if not isinstance(one, torch.Tensor):
            raise ArgumentError(f"{name}: a torch tensor is wanted, not {type(one).__name__}")
        views.append(view(one, name, (4,)))
        if views[-1].shape[2] != context.end - context.begin:
            raise ArgumentError(f"{name}: (batch, heads, {context.end - context.begin}, d) is wanted, the tokens {context.begin} to {context.end}, "
                                f"not {views[-1].shape}")
    _check_group(group)
    if (dist.get_world_size(group), dist.get_rank(group)) != (context.ranks, context.rank):
        raise ArgumentError(f"process_group: rank {context.rank} of {context.ranks} is wanted")
    check_heads(context.pattern, *views)


def gathered(k: torch.Tensor, v: torch.Tensor, to_later: list[list[Any]], from_earlier: list[list[Any]], context: Any, group: Any) -> tuple[Any, Any]:
    """Keys and values 0 to context.end: this rank's own, those that it is sent, and zeros, which its queries do not read."""
    batch, heads, own, d = k.shape
    flat = torch.stack([k, v]).reshape(2, batch, heads * own, d)
    sends = [(context.rank + 1 + nth, _flat(keys, own, context.begin, k.device)) for nth, keys in enumerate(to_later)]
    sends = [(rank, places) for rank, places in sends if len(places)]
    wants = [(rank, _flat(keys, context.end, 0, k.device)) for rank, keys in enumerate(from_earlier)]
    wants = [(rank, places) for rank, places in wants if len(places)]
    about = ([rank for rank, _ in sends], [(rank, len(places)) for rank, places in wants], group)
    flat, *found = _exchange.apply(about, flat, *(flat.index_select(2, places) for _, places in sends))
    whole = torch.nn.functional.pad(flat.reshape(2, batch, heads, own, d), (0, 0, context.begin, 0)).reshape(2, batch, heads * context.end, d)
    for (_, places), rows in zip(wants, found):
        whole = whole.index_copy(2, places, rows)
    whole = whole.reshape(2, batch, heads, context.end, d)
    return whole[0], whole[1]
