"""The operators s2::attention and s2::attention_backward of torch.

Autograd, fake tensors and torch.compile see them as they see torch's own. A pattern travels as the number that this process
gave it, since operators take no objects; `attention` here and in the package hands it over.
"""
from __future__ import annotations

from typing import Any, Optional, Sequence

import torch

from . import _lib
from ._lib import ArgumentError
from .attention import Call, Ready, _kept, _scale, _softcap, on, stream_of
from .pattern import Pattern, with_number


def _pattern(number: int) -> Pattern:
    pattern = with_number(number)
    if pattern is None:
        raise ArgumentError("pattern: it is gone; a compiled function's must live as long as it is called")
    return pattern


def _begins(values: Optional[Sequence[int]], name: str) -> Optional[tuple[int, ...]]:
    return None if values is None else tuple(_lib.integers(values, name, 0))


def _signature(one: torch.Tensor) -> tuple:
    return one.shape, one.stride(), one.dtype, one.device, one.layout, one.is_neg() or one.is_conj()


def _sink_place(sinks: Optional[torch.Tensor]) -> Any:
    """A checked call has their address for good."""
    return None if sinks is None else (sinks.data_ptr(), _signature(sinks))


def _run(name: str, tensors: tuple[torch.Tensor, ...], o: torch.Tensor, lse: torch.Tensor, rest: tuple, more: tuple = (),
         sinks: Optional[torch.Tensor] = None, d_sinks: Optional[torch.Tensor] = None) -> Ready:
    """Call.forward or .backward, or what they checked before: then addresses alone are new."""
    number, layer, scale, phase, begins_q, begins_k, deterministic, softcap = rest
    pattern, device = _pattern(number), tensors[0].device
    spec = "cpu" if device.type == "cpu" else f"gpu:{device.index}"
    signed = tensors if name == "forward" else (*tensors, o, lse, *more)  # a forward's o and lse are as q says
    key = (name, number, layer, scale, phase, deterministic, _begins(begins_q, "cu_seqlens_q"), _begins(begins_k, "cu_seqlens_k"),
           stream_of(spec), softcap, _sink_place(sinks), _sink_place(d_sinks), *map(_signature, signed))
    ready: Optional[Ready] = _kept.ready.get(key)
    if ready is None:
        call = Call(*tensors, pattern, layer, scale, phase, key[6], key[7], deterministic, softcap, sinks)
        ready = getattr(call, name)(o, lse, *more, *(() if d_sinks is None else (d_sinks,)))
        if len(_kept.ready) > 1024:
            _kept.ready.clear()
        _kept.ready[key] = ready
    elif device.type == "cpu" or torch.cuda.current_device() == device.index:
        ready.run(*tensors, lse, o, *more)
    else:
        with on(spec):
            ready.run(*tensors, lse, o, *more)
    return ready


@torch.library.custom_op("s2::attention", mutates_args=())
def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pattern: int, layer: int, scale: Optional[float], phase: str,
               cu_seqlens_q: Optional[Sequence[int]], cu_seqlens_k: Optional[Sequence[int]],
               deterministic: bool = True, softcap: Optional[float] = None,
               sinks: Optional[torch.Tensor] = None) -> tuple[torch.Tensor, torch.Tensor]:
    o, lse = torch.empty_like(q), q.new_empty(q.shape[:-1], dtype=torch.float32)
    _run("forward", (q, k, v), o, lse, (pattern, layer, scale, phase, cu_seqlens_q, cu_seqlens_k, deterministic, softcap), sinks=sinks)
    return o, lse


@_attention.register_fake
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(q), q.new_empty(q.shape[:-1], dtype=torch.float32)


@torch.library.custom_op("s2::attention_backward", mutates_args=())
def _attention_backward(d_o: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor,
                        pattern: int, layer: int, scale: Optional[float], phase: str, cu_seqlens_q: Optional[Sequence[int]],
                        cu_seqlens_k: Optional[Sequence[int]],
                        deterministic: bool = True, softcap: Optional[float] = None,
                        sinks: Optional[torch.Tensor] = None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    d_q, d_k, d_v = (torch.empty_like(one) for one in (q, k, v))
    d_sinks = _sink_gradient(q, sinks)
    _run("backward", (q, k, v), o, lse, (pattern, layer, scale, phase, cu_seqlens_q, cu_seqlens_k, deterministic, softcap),
         (d_o, d_q, d_k, d_v), sinks, None if sinks is None else d_sinks)
    return d_q, d_k, d_v, d_sinks


def _sink_gradient(q: torch.Tensor, sinks: Optional[torch.Tensor]) -> torch.Tensor:
    """Operators give no None: without sinks it is empty."""
    return q.new_empty(0 if sinks is None else sinks.shape[0], dtype=torch.float32)


@_attention_backward.register_fake
def _(d_o: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, pattern: int,
      layer: int, scale: Optional[float], phase: str, cu_seqlens_q: Optional[Sequence[int]], cu_seqlens_k: Optional[Sequence[int]],
      deterministic: bool = True, softcap: Optional[float] = None, sinks: Optional[torch.Tensor] = None) -> tuple[torch.Tensor, ...]:
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), _sink_gradient(q, sinks)


def _keep(ctx: Any, inputs: tuple, output: tuple) -> None:
    q, k, v, *ctx.rest, sinks = inputs
    ctx.pattern = with_number(ctx.rest[0])  # held until the gradients are done
    ctx.save_for_backward(q, k, v, *output, sinks)
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx: Any, d_o: torch.Tensor, _: Any) -> tuple:
    q, k, v, o, lse, sinks = ctx.saved_tensors
    aligned = d_o if d_o.stride(-1) == 1 else d_o.contiguous()  # a sum's gradient is one number, repeated
    *made, d_sinks = torch.ops.s2.attention_backward(aligned, q, k, v, o, lse, *ctx.rest, sinks)
    return (*made, *(None for _ in ctx.rest), None if sinks is None else d_sinks)


_attention.register_autograd(_gradients, setup_context=_keep)


_modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
_transforms = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None)
_traces = getattr(torch._C, "_get_tracing_state", None)
_PLAIN = (torch.Tensor, torch.nn.Parameter)
SPARE = 1 << 16  # numbers of an lse that is kept instead of allocated


def _is_plain(*tensors: torch.Tensor) -> bool:
    """Nobody watches: no gradient, tracer, mode or transform. Then torch's dispatcher, some 40 us of Python, has nothing to add."""
    if torch.compiler.is_compiling() or _modes is None or _transforms is None or _traces is None:
        return False
    if _modes() or _transforms() is not None or _traces() is not None:
        return False
    grad = torch.is_grad_enabled()
    return all(type(one) in _PLAIN and not (grad and one.requires_grad) for one in tensors)


def _shape_key(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rest: tuple) -> Optional[tuple]:
    """All that a checked call depends on but its addresses; None: something is unusual, and each call is checked."""
    _, layer, scale, _, deterministic = rest
    if type(layer) is not int or not (scale is None or type(scale) is float) or not (deterministic is True or deterministic is False):
        return None  # numbers that are equal to right ones are not right
    device = q.device
    if k.device != device or v.device != device or q.is_neg() or k.is_neg() or v.is_neg():
        return None
    stream = None
    if device.type != "cpu":
        if torch._C._cuda_getDevice() != device.index:
            return None
        stream = torch._C._cuda_getCurrentRawStream(device.index), torch._C._cuda_isCurrentStreamCapturing()
    return (rest, stream, q.shape, q.stride(), q.dtype, k.shape, k.stride(), k.dtype, v.shape, v.stride(), v.dtype)


def _again(ready: Ready, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, return_lse: bool) -> Any:
    o, lse = torch.empty_like(q), ready.spare
    if lse is None or return_lse:
        lse = q.new_empty(q.shape[:-1], dtype=torch.float32)
        if not return_lse and lse.numel() <= SPARE and not (q.is_cuda and torch._C._cuda_isCurrentStreamCapturing()):
            ready.spare = lse  # of one stream, on which every call that writes it waits for the last
    ready.run(q, k, v, lse, o)
    return (o, lse) if return_lse else o


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pattern: Pattern, layer: int = 0, *,
              scale: Optional[float] = None, phase: str = "prefill", cu_seqlens_q: Optional[Sequence[int]] = None,
              cu_seqlens_k: Optional[Sequence[int]] = None, return_lse: bool = False, deterministic: bool = True,
              softcap: Optional[float] = None, sinks: Optional[torch.Tensor] = None) -> Any:
    """s2.attention of tensors; that says what it takes."""
    if not isinstance(pattern, Pattern):
        raise ArgumentError(f"pattern: an s2.Pattern is wanted, not {type(pattern).__name__}")
    key = None
    if cu_seqlens_q is cu_seqlens_k is softcap is sinks is None and type(q) is type(k) is type(v) is torch.Tensor and _is_plain(q, k, v):
        if q.layout is k.layout is v.layout is torch.strided and type(phase) is str:
            key = _shape_key(q, k, v, (pattern.number, layer, scale, phase, deterministic))
        ready = None if key is None else _kept.ready.get(key)
        if ready is not None:
            return _again(ready, q, k, v, return_lse)
    for name, one in (("q", q), ("k", k), ("v", v)):
        if not isinstance(one, torch.Tensor):
            raise ArgumentError(f"{name}: a torch tensor is wanted, as q is, not {type(one).__name__}")
        if one.layout is not torch.strided:
            raise ArgumentError(f"{name}: a dense tensor is wanted, not {one.layout}")
    if sinks is not None and not isinstance(sinks, torch.Tensor):
        raise ArgumentError(f"sinks: a torch tensor is wanted, as q is, not {type(sinks).__name__}")
    softcap = None if softcap is None else _softcap(softcap)
    if _is_plain(q, k, v, *(() if sinks is None else (sinks,))):
        layer = _lib.integer(layer, "layer", 0, pattern.layers - 1)
        scale = None if scale is None else _scale(scale, 1)
        _lib.word(phase, "phase", _lib.PHASES)
        if deterministic is not True and deterministic is not False:
            raise ArgumentError(f"deterministic: {deterministic!r} is neither True nor False")
        o, lse = torch.empty_like(q), q.new_empty(q.shape[:-1], dtype=torch.float32)
        ready = _run("forward", (q, k, v), o, lse, (pattern.number, layer, scale, phase, cu_seqlens_q, cu_seqlens_k, deterministic, softcap), sinks=sinks)
        if key is not None:
            _kept.ready[key] = ready
        return (o, lse) if return_lse else o
    begins = [None if one is None else _lib.integers(one, name, 0) for name, one in (("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k))]
    o, lse = torch.ops.s2.attention(q, k, v, pattern.number, layer, scale, phase, *begins, deterministic, softcap, sinks)
    return (o, lse) if return_lse else o
