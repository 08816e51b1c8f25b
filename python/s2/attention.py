"""Attention with a pattern: forward, gradients, and the plans that are kept for the next call."""
from __future__ import annotations

import collections
import ctypes
import math
import sys
import threading
from typing import Any, Optional, Sequence

from . import _lib
from ._arrays import View, alike, empty, same_shape, view
from ._lib import ArgumentError
from .pattern import Pattern

PLANS = 64  # kept for each thread
FORWARD, BACKWARD, DECODING = 0, 1, 2


class _Kept(threading.local):
    """Devices and plans belong to one thread."""

    def __init__(self) -> None:
        self.devices: dict[str, _lib.Handle] = {}
        self.plans: collections.OrderedDict[tuple, Plan] = collections.OrderedDict()


_kept = _Kept()


def device(spec: str) -> _lib.Handle:
    """This thread's, queueing on torch's current stream where it is a GPU."""
    handle = _kept.devices.get(spec)
    if handle is None:
        handle = _lib.Handle("device", "device")
        _lib.call("device_open", spec.encode(), ctypes.byref(handle.pointer))
        _kept.devices[spec] = handle
    if spec != "cpu":
        stream = sys.modules["torch"].cuda.current_stream(int(spec.removeprefix("gpu:")))
        _lib.call("device_stream", handle.value, stream.cuda_stream)
    return handle


def _numbers(values: Optional[Sequence[int]]) -> Any:
    return None if values is None else (ctypes.c_int32 * len(values))(*values)


class Plan:
    """Which kernel runs, with which lists."""

    def __init__(self, where: _lib.Handle, pattern: Pattern, options: dict, lengths: dict) -> None:
        self._device = where  # must outlive the plan
        self._handle = _lib.Handle("plan", "plan")
        numbers = {name: _numbers(values) for name, values in lengths.items()}
        cast = {name: ctypes.cast(values, ctypes.POINTER(ctypes.c_int32)) for name, values in numbers.items() if values is not None}
        asked = _lib.CPlanOptions(deterministic=1, **options, **cast)
        _lib.call("plan_open", where.value, pattern._handle.value, ctypes.byref(asked), ctypes.byref(self._handle.pointer))
        self.kernel = _lib.kernel_name(self._handle)

    def run(self, **members: Any) -> None:
        _lib.call("plan_run", self._handle.value, ctypes.byref(_lib.CCall(**members)))

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            self._handle.close()  # before the device


def plan_for(pattern: Pattern, passes: int, phase: str, layer: int, first: View, lengths: dict, keep: bool = True) -> Plan:
    """The plan of a shape, made once. Layers whose heads read the same share it."""
    where = device(first.device)
    kind = pattern.kinds(phase)[layer] if keep else layer
    key = (pattern._handle.value, passes, phase, kind, first.dtype, first.shape[-1], first.device, *lengths.values())
    plan = _kept.plans.get(key) if keep else None
    if plan is None:
        options = {"pass": passes, "phase": _lib.PHASES[phase], "layer": kind, "dtype": _lib.DTYPES[first.dtype],
                   "head_dim": first.shape[-1], "n_sequences": len(lengths["q_tok"])}
        plan = Plan(where, pattern, options, lengths)
    if keep:
        _kept.plans[key] = plan
        _kept.plans.move_to_end(key)
        while len(_kept.plans) > PLANS:
            _kept.plans.popitem(last=False)
    return plan


def _check_heads(pattern: Pattern, q: View, k: View, v: View) -> None:
    alike(q, k)
    same_shape(k, v)
    if len(q.shape) != len(k.shape) or q.shape[-1] != k.shape[-1] or (len(q.shape) == 4 and q.shape[0] != k.shape[0]):
        raise ArgumentError(f"k: shape {k.shape} does not go with q's {q.shape}")
    if q.shape[-3] != pattern.heads:
        raise ArgumentError(f"pattern: it has {pattern.heads} query heads, and q has {q.shape[-3]}")
    if k.shape[-3] != pattern.kv_heads:
        raise ArgumentError(f"pattern: it has {pattern.kv_heads} KV heads, and k has {k.shape[-3]}")


def _begins(values: Sequence[int], name: str, total: int) -> tuple[int, ...]:
    begins = tuple(_lib.integers(values, name, 0, total))
    if len(begins) < 2 or begins[0] != 0 or begins[-1] != total or any(a >= b for a, b in zip(begins, begins[1:])):
        raise ArgumentError(f"{name}: {begins} does not ascend from 0 to {total}, the tokens that there are")
    return begins


def _lengths(q: View, k: View, begins_q: Optional[Sequence[int]], begins_k: Optional[Sequence[int]]) -> dict:
    if len(q.shape) == 3:
        begins = _begins([0, q.shape[1]] if begins_q is None else begins_q, "cu_seqlens_q", q.shape[1])
        if begins_k is None and begins_q is not None and k.shape[1] == q.shape[1]:
            begins_k = begins_q
        keys = _begins([0, k.shape[1]] if begins_k is None else begins_k, "cu_seqlens_k", k.shape[1])
        if len(begins) != len(keys):
            raise ArgumentError(f"cu_seqlens_k: {len(keys) - 1} sequences, and cu_seqlens_q has {len(begins) - 1}")
        lengths = {"q_tok": tuple(b - a for a, b in zip(begins, begins[1:])),
                   "k_tok": tuple(b - a for a, b in zip(keys, keys[1:])), "q_begin": begins, "k_begin": keys}
    elif begins_q is not None or begins_k is not None:
        raise ArgumentError("cu_seqlens_q: only with q of three dimensions (heads, tokens, d)")
    else:
        lengths = {"q_tok": (q.shape[2],) * q.shape[0], "k_tok": (k.shape[2],) * q.shape[0], "q_begin": None, "k_begin": None}
    if any(a > b for a, b in zip(lengths["q_tok"], lengths["k_tok"])):
        raise ArgumentError("k: fewer keys than queries; the queries are the last positions of the keys")
    return lengths


def _scale(scale: Optional[float], head_dim: int) -> float:
    if scale is None:
        return 1.0 / math.sqrt(head_dim)
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not abs(scale) < 1e30:
        raise ArgumentError(f"scale: {scale!r} is not a finite number")
    return float(scale)


class Call:
    """The arguments of one attention, checked."""

    def __init__(self, q: Any, k: Any, v: Any, pattern: Pattern, layer: int, scale: Optional[float], phase: str,
                 cu_seqlens_q: Optional[Sequence[int]], cu_seqlens_k: Optional[Sequence[int]]) -> None:
        if not isinstance(pattern, Pattern):
            raise ArgumentError(f"pattern: an s2.Pattern is wanted, not {type(pattern).__name__}")
        self.q, self.k, self.v = view(q, "q"), view(k, "k"), view(v, "v")
        self.pattern, self.layer = pattern, _lib.integer(layer, "layer", 0, pattern.layers - 1)
        _lib.word(phase, "phase", _lib.PHASES)
        self.phase, self.scale = phase, _scale(scale, self.q.shape[-1])
        _check_heads(pattern, self.q, self.k, self.v)
        self.lengths = _lengths(self.q, self.k, cu_seqlens_q, cu_seqlens_k)

    def forward(self, o: Any, lse: Any) -> None:
        plan = plan_for(self.pattern, FORWARD, self.phase, self.layer, self.q, self.lengths)
        plan.run(scale=self.scale, q=self.q.tensor(), k=self.k.tensor(), v=self.v.tensor(), o=view(o, "o").tensor(),
                 lse=view(lse, "lse", (2, 3)).rows())

    def backward(self, o: Any, lse: Any, d_o: Any, d_q: Any, d_k: Any, d_v: Any) -> None:
        given = {"o": view(o, "o"), "d_o": view(d_o, "d_o")}
        for one in given.values():
            same_shape(self.q, one)
        rows = view(lse, "lse", (2, 3))
        if rows.shape != self.q.shape[:-1] or rows.dtype != "float32" or rows.device != self.q.device:
            raise ArgumentError(f"lse: float32 of shape {self.q.shape[:-1]} on {self.q.device} is wanted")
        made = {"d_q": d_q, "d_k": d_k, "d_v": d_v}
        plan = plan_for(self.pattern, BACKWARD, self.phase, self.layer, self.q, self.lengths)
        plan.run(scale=self.scale, q=self.q.tensor(), k=self.k.tensor(), v=self.v.tensor(), lse=rows.rows(),
                 **{name: one.tensor() for name, one in given.items()},
                 **{name: view(one, name).tensor() for name, one in made.items()})


def attention(q: Any, k: Any, v: Any, pattern: Pattern, layer: int = 0, *, scale: Optional[float] = None,
              phase: str = "prefill", cu_seqlens_q: Optional[Sequence[int]] = None,
              cu_seqlens_k: Optional[Sequence[int]] = None, return_lse: bool = False) -> Any:
    """Attention of one layer of a pattern.

    q is (batch, heads, tokens, d), k and v (batch, KV heads, tokens, d); queries are the last positions of the keys. Any
    strides will do, with d contiguous: nothing is copied. Without the batch, sequences lie one after the other and begin where
    cu_seqlens_q and cu_seqlens_k say, from 0 to the number of tokens. NumPy arrays are computed on the CPU; torch tensors where
    they are, with gradients, by the operator s2::attention.

    Returns o, or (o, lse): lse is the logarithm of the softmax's denominator, float32, and minus infinity where a query
    reads nothing, whose o is 0.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(q, torch.Tensor):
        from . import torch_ops

        return torch_ops.attention(q, k, v, pattern, layer, scale=scale, phase=phase, cu_seqlens_q=cu_seqlens_q,
                                   cu_seqlens_k=cu_seqlens_k, return_lse=return_lse)
    call = Call(q, k, v, pattern, layer, scale, phase, cu_seqlens_q, cu_seqlens_k)
    o, lse = empty(q, call.q.shape, call.q.dtype), empty(q, call.q.shape[:-1], "float32")
    call.forward(o, lse)
    return (o, lse) if return_lse else o


def attention_backward(d_o: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, pattern: Pattern, layer: int = 0, *,
                       scale: Optional[float] = None, phase: str = "prefill", cu_seqlens_q: Optional[Sequence[int]] = None,
                       cu_seqlens_k: Optional[Sequence[int]] = None) -> tuple[Any, Any, Any]:
    """(d_q, d_k, d_v) for the gradient d_o of o; o and lse are the forward's. The same inputs give the same bits."""
    call = Call(q, k, v, pattern, layer, scale, phase, cu_seqlens_q, cu_seqlens_k)
    made = tuple(empty(q, one.shape, one.dtype) for one in (call.q, call.k, call.v))
    call.backward(o, lse, d_o, *made)
    return made
