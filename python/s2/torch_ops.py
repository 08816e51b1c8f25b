"""The operators s2::attention and s2::attention_backward of torch.

Autograd, fake tensors and torch.compile see them as they see torch's own. A pattern travels as the number that this process
gave it, since operators take no objects; `attention` here and in the package hands it over.
"""
from __future__ import annotations

from typing import Any, Optional, Sequence

import torch

from . import _lib
from ._lib import ArgumentError
from .attention import Call
from .pattern import Pattern, with_number


def _pattern(number: int) -> Pattern:
    pattern = with_number(number)
    if pattern is None:
        raise ArgumentError("pattern: it is gone; a compiled function's must live as long as it is called")
    return pattern


def _call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pattern: int, layer: int, scale: Optional[float], phase: str,
          cu_seqlens_q: Optional[Sequence[int]], cu_seqlens_k: Optional[Sequence[int]]) -> Call:
    return Call(q, k, v, _pattern(pattern), layer, scale, phase, cu_seqlens_q, cu_seqlens_k)


@torch.library.custom_op("s2::attention", mutates_args=())
def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pattern: int, layer: int, scale: Optional[float], phase: str,
               cu_seqlens_q: Optional[Sequence[int]], cu_seqlens_k: Optional[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    call = _call(q, k, v, pattern, layer, scale, phase, cu_seqlens_q, cu_seqlens_k)
    o, lse = torch.empty_like(q), q.new_empty(q.shape[:-1], dtype=torch.float32)
    call.forward(o, lse)
    return o, lse


@_attention.register_fake
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(q), q.new_empty(q.shape[:-1], dtype=torch.float32)


@torch.library.custom_op("s2::attention_backward", mutates_args=())
def _attention_backward(d_o: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor,
                        pattern: int, layer: int, scale: Optional[float], phase: str, cu_seqlens_q: Optional[Sequence[int]],
                        cu_seqlens_k: Optional[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    call = _call(q, k, v, pattern, layer, scale, phase, cu_seqlens_q, cu_seqlens_k)
    made = tuple(torch.empty_like(one) for one in (q, k, v))
    call.backward(o, lse, d_o, *made)
    return made


@_attention_backward.register_fake
def _(d_o: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, ...]:
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def _keep(ctx: Any, inputs: tuple, output: tuple) -> None:
    q, k, v, *ctx.rest = inputs
    ctx.pattern = with_number(ctx.rest[0])  # held until the gradients are done
    ctx.save_for_backward(q, k, v, *output)
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx: Any, d_o: torch.Tensor, _: Any) -> tuple:
    q, k, v, o, lse = ctx.saved_tensors
    aligned = d_o if d_o.stride(-1) == 1 else d_o.contiguous()  # a sum's gradient is one number, repeated
    made = torch.ops.s2.attention_backward(aligned, q, k, v, o, lse, *ctx.rest)
    return (*made, *(None for _ in ctx.rest))


_attention.register_autograd(_gradients, setup_context=_keep)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pattern: Pattern, layer: int = 0, *,
              scale: Optional[float] = None, phase: str = "prefill", cu_seqlens_q: Optional[Sequence[int]] = None,
              cu_seqlens_k: Optional[Sequence[int]] = None, return_lse: bool = False) -> Any:
    """s2.attention of tensors; that says what it takes."""
    if not isinstance(pattern, Pattern):
        raise ArgumentError(f"pattern: an s2.Pattern is wanted, not {type(pattern).__name__}")
    for name, one in (("q", q), ("k", k), ("v", v)):
        if not isinstance(one, torch.Tensor):
            raise ArgumentError(f"{name}: a torch tensor is wanted, as q is, not {type(one).__name__}")
    begins = [None if one is None else _lib.integers(one, name, 0) for name, one in (("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k))]
    o, lse = torch.ops.s2.attention(q, k, v, pattern.number, layer, scale, phase, *begins)
    return (o, lse) if return_lse else o
