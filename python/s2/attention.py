"""Attention with a pattern: forward, gradients, and the plans that are kept for the next call."""
from __future__ import annotations

import collections
import contextlib
import ctypes
import math
import numbers
import sys
import threading
from typing import Any, Callable, Literal, Optional, Sequence, TypeVar, overload

from . import _lib
from ._arrays import View, alike, empty, is_torch, like, numbers as whole_numbers, same_shape, view
from ._lib import ArgumentError
from .pattern import Pattern

Lengths = dict[str, Any]  # q_tok, k_tok, q_begin and k_begin of the sequences; the last two are None where there is a batch
Array = TypeVar("Array")  # a NumPy array or a torch tensor, as q is
PLANS = 64  # kept for each thread
FORWARD, BACKWARD, DECODING = 0, 1, 2


class _Kept(threading.local):
    """Devices and plans belong to one thread."""

    def __init__(self) -> None:
        self.devices: dict[str, _lib.Handle] = {}
        self.plans: collections.OrderedDict[tuple[Any, ...], Plan] = collections.OrderedDict()
        self.ready: dict[tuple[Any, ...], Ready] = {}
        self.again: dict[tuple[Any, ...], list[Any]] = {}  # of torch_ops: by pattern, layer and, inside of autograd, "within" or "backward"


_kept = _Kept()


def open_device(spec: str) -> _lib.Handle:
    """One of the caller's own; a GPU is the current one while it is opened, and the caller's is again afterwards."""
    handle = _lib.Handle("device", "device")
    with on(spec):
        _lib.call("device_open", spec.encode(), ctypes.byref(handle.pointer))
    return handle


def device(spec: str) -> _lib.Handle:
    """This thread's."""
    handle = _kept.devices.get(spec)
    if handle is None:
        handle = _kept.devices[spec] = open_device(spec)
    return handle


def on(spec: str) -> Any:
    """A context in which the device is torch's current one."""
    if spec == "cpu":
        return contextlib.nullcontext()
    return sys.modules["torch"].cuda.device(int(spec.removeprefix("gpu:")))


def stream_of(spec: str) -> tuple[Optional[int], bool]:
    """torch's current stream there, and whether a graph is being captured of it."""
    if spec == "cpu":
        return None, False
    torch = sys.modules["torch"]
    return torch._C._cuda_getCurrentRawStream(int(spec.removeprefix("gpu:"))), torch._C._cuda_isCurrentStreamCapturing()


def _numbers(values: Optional[Sequence[int]]) -> Any:
    return None if values is None else (ctypes.c_int32 * len(values))(*values)


class Plan:
    """Which kernel runs, with which lists, on one stream."""

    def __init__(self, where: _lib.Handle, pattern: Pattern, options: dict[str, Any], lengths: Lengths, stream: Optional[int]) -> None:
        self._device = where  # must outlive the plan
        self._stream = stream  # None on a CPU; 0 is a stream, too
        self._handle = _lib.Handle("plan", "plan")
        numbers = {name: _numbers(values) for name, values in lengths.items()}
        cast = {name: ctypes.cast(values, ctypes.POINTER(ctypes.c_int32)) for name, values in numbers.items() if values is not None}
        asked = _lib.CPlanOptions(**options, **cast)
        _lib.call("plan_open", where.value, pattern._handle.value, ctypes.byref(asked), ctypes.byref(self._handle.pointer))
        self.kernel = _lib.kernel_name(self._handle)

    def enter(self) -> None:
        """What the device is given from now on is queued on this plan's stream."""
        if self._device.stream != self._stream and self._stream is not None:
            _lib.call("device_stream", self._device.value, self._stream)
            self._device.stream = self._stream

    def prepared(self, call: _lib.CCall) -> _lib.Run:
        return _lib.Run(self._handle, call)

    def run(self, call: _lib.CCall) -> None:
        self.enter()
        self.prepared(call)()

    def follow(self, call: _lib.CCall) -> int:
        """Bring its lists to the call's cache; the number changes where graphs of such calls must be captured anew."""
        made = ctypes.c_int64()
        self.enter()
        _lib.call("plan_follow", self._handle.value, ctypes.byref(call), ctypes.byref(made))
        return made.value

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            self._handle.close()  # before the device


def new_plan(pattern: Pattern, passes: int, phase: str, layer: int, first: View, lengths: Lengths, deterministic: bool = True,
             softcap: float = 0.0, sinks: bool = False, lists: Optional[Lists] = None, where: Optional[_lib.Handle] = None) -> Plan:
    options = {"pass": passes, "phase": _lib.PHASES[phase], "layer": layer, "dtype": _lib.DTYPES[first.dtype],
               "head_dim": first.shape[-1], "n_sequences": len(lengths["q_tok"]), "deterministic": int(deterministic),
               "cap": softcap, "sinks": int(sinks), **(lists.options() if lists else {})}
    with on(first.device):
        return Plan(where or device(first.device), pattern, options, lengths, stream_of(first.device)[0])


def plan_for(call: "Call", passes: int, others: tuple[View, ...]) -> Plan:
    """The plan of a shape on a stream, made once. Layers whose heads read the same share it; so do calls with the same distances.

    What a graph was captured of is kept as long as the pattern: it may run again at any time."""
    first, pattern = call.q, call.pattern
    kind = pattern.kinds(call.phase)[call.layer]
    stream, captures = stream_of(first.device)
    key = (pattern.number, passes, call.phase, kind, first.dtype, first.shape[-1], first.device, stream, call.scale, call.deterministic,
           call.softcap, call.sinks and call.sinks.address, call.lists and call.lists.shape, *call.lengths.values(), *(one.strides for one in (call.q, call.k, call.v, *others)))
    plans = pattern.captured if captures else _kept.plans
    plan = plans.get(key)
    if plan is None:
        plan = plans[key] = new_plan(pattern, passes, call.phase, kind, first, call.lengths, call.deterministic, call.softcap,
                                     call.sinks is not None, call.lists)
    if not captures:
        _kept.plans.move_to_end(key)
        while len(_kept.plans) > PLANS:
            _forget(_kept.plans.popitem(last=False)[1])
    return plan


def _forget(plan: Plan) -> None:
    for key in [key for key, ready in _kept.ready.items() if ready.plan is plan]:
        del _kept.ready[key]
    for key, kept in _kept.again.items():
        _kept.again[key] = [one for one in kept if one.apply is not None or one.ready.plan is not plan]


class Ready:
    """A call that was checked; the next one of the same shapes differs by addresses alone."""

    def __init__(self, plan: Plan, call: _lib.CCall, names: Sequence[str]) -> None:
        self.plan, self.names = plan, tuple(names)
        self.call = plan.prepared(call)
        self.words = (ctypes.c_int64 * (ctypes.sizeof(call) // 8)).from_buffer(call)
        self.places = tuple(getattr(_lib.CCall, name).offset // 8 for name in names)  # an address is the first member

    def run(self, *tensors: Any) -> None:
        words, every = self.words, 0
        for place, one in zip(self.places, tensors):
            words[place] = address = one.data_ptr()
            every |= address
        if every & 15:
            self.refuse(*tensors)
        self.plan.enter()
        self.call()

    def copy(self) -> Ready:
        """One whose addresses nobody else changes."""
        return Ready(self.plan, _lib.CCall.from_buffer_copy(self.words), self.names)

    def refuse(self, *tensors: Any) -> None:
        name = next(name for name, one in zip(self.names, tensors) if one.data_ptr() & 15)
        raise ArgumentError(f"{name}: its data must begin at a multiple of 16 bytes")


def check_heads(pattern: Pattern, q: View, k: View, v: View) -> None:
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
    if len(begins) < 2 or begins[0] != 0 or begins[-1] != total or any(a > b for a, b in zip(begins, begins[1:])):
        raise ArgumentError(f"{name}: {begins} does not ascend from 0 to {total}, the tokens that there are")
    return begins


def _lengths(q: View, k: View, begins_q: Optional[Sequence[int]], begins_k: Optional[Sequence[int]]) -> Lengths:
    if len(q.shape) == 3:
        begins = _begins([0, q.shape[1]] if begins_q is None else begins_q, "cu_seqlens_q", q.shape[1])
        if begins_k is None and begins_q is not None and k.shape[1] == q.shape[1]:
            begins_k = begins_q
        keys = _begins([0, k.shape[1]] if begins_k is None else begins_k, "cu_seqlens_k", k.shape[1])
        if len(begins) != len(keys):
            raise ArgumentError(f"cu_seqlens_k: {len(keys) - 1} sequences, and cu_seqlens_q has {len(begins) - 1}")
        lengths: Lengths = {"q_tok": tuple(b - a for a, b in zip(begins, begins[1:])),
                   "k_tok": tuple(b - a for a, b in zip(keys, keys[1:])), "q_begin": begins, "k_begin": keys}
        if any(queries == 0 < tokens for queries, tokens in zip(lengths["q_tok"], lengths["k_tok"])):
            raise ArgumentError("cu_seqlens_q: a sequence has keys and no query; leave it out, or its keys")
    elif begins_q is not None or begins_k is not None:
        raise ArgumentError("cu_seqlens_q: only with q of three dimensions (heads, tokens, d)")
    else:
        lengths = {"q_tok": (q.shape[2],) * q.shape[0], "k_tok": (k.shape[2],) * q.shape[0], "q_begin": None, "k_begin": None}
    if any(a > b for a, b in zip(lengths["q_tok"], lengths["k_tok"])):
        raise ArgumentError("k: fewer keys than queries; the queries are the last positions of the keys")
    if max(lengths["k_tok"]) > _lib.LIMIT_TOK:
        raise ArgumentError(f"k: a sequence of {max(lengths['k_tok'])} keys; the most is {_lib.LIMIT_TOK}")
    return lengths


def _scale(scale: Optional[float], head_dim: int) -> float:
    if scale is None:
        return 1.0 / math.sqrt(head_dim)
    if isinstance(scale, bool) or not isinstance(scale, numbers.Real) or not abs(scale) < 1e30:
        raise ArgumentError(f"scale: {_lib.shown(scale)} is not a number between -1e30 and 1e30")
    return float(scale)


def _softcap(softcap: Optional[float]) -> float:
    if softcap is None:
        return 0.0
    if isinstance(softcap, bool) or not isinstance(softcap, numbers.Real) or not 1e-30 < softcap < 1e30:
        raise ArgumentError(f"softcap: {_lib.shown(softcap)} is neither None nor a number between 1e-30 and 1e30")
    return float(softcap)


def _sinks(sinks: Any, q: View, heads: int) -> Optional[View]:
    if sinks is None:
        return None
    found = view(sinks, "sinks", (1,), ("float32",))
    if found.shape != (heads,) or found.device != q.device:
        raise ArgumentError(f"sinks: float32 of shape ({heads},) on {q.device} is wanted, not {found.dtype} of shape {found.shape} on {found.device}")
    return found


class Lists:
    """What query blocks read: counts (sequences, heads, lists) and blocks (sequences, heads, lists, most)."""

    def __init__(self, q: Any, counts: Any, blocks: Any, query_block: int) -> None:
        self.counts, self.blocks = whole_numbers(q, counts, "counts", 3), whole_numbers(q, blocks, "blocks", 4)
        if self.counts.shape != self.blocks.shape[:3]:
            raise ArgumentError(f"blocks: shape {self.blocks.shape} does not go with counts' {self.counts.shape}")
        self.shape = (*self.blocks.shape[1:], _lib.integer(query_block, "query_block", 16))

    def options(self) -> dict[str, int]:
        return dict(zip(("list_heads", "list_q_blocks", "list_most", "list_q_tok"), self.shape))


class Call:
    """The arguments of one attention, checked."""

    lists: Optional[Lists] = None

    def __init__(self, q: Any, k: Any, v: Any, pattern: Pattern, layer: int, scale: Optional[float], phase: str,
                 cu_seqlens_q: Optional[Sequence[int]], cu_seqlens_k: Optional[Sequence[int]], deterministic: bool = True,
                 softcap: Optional[float] = None, sinks: Any = None) -> None:
        if not isinstance(pattern, Pattern):
            raise ArgumentError(f"pattern: an s2.Pattern is wanted, not {type(pattern).__name__}")
        self.q, self.k, self.v = (like(q, one, name) for one, name in ((q, "q"), (k, "k"), (v, "v")))
        self.pattern, self.layer = pattern, _lib.integer(layer, "layer", 0, pattern.layers - 1)
        _lib.word(phase, "phase", _lib.PHASES)
        self.phase, self.scale = phase, _scale(scale, self.q.shape[-1])
        self.deterministic = _lib.flag(deterministic, "deterministic")
        check_heads(pattern, self.q, self.k, self.v)
        self.lengths = _lengths(self.q, self.k, cu_seqlens_q, cu_seqlens_k)
        self.softcap, self.sinks = _softcap(softcap), _sinks(sinks, self.q, pattern.heads)

    def _run(self, passes: int, rows: View, others: dict[str, View], d_sinks: Optional[View] = None) -> Ready:
        plan = plan_for(self, passes, tuple(others.values()))
        tensors = {"q": self.q, "k": self.k, "v": self.v, **others}
        call = _lib.CCall(scale=self.scale, lse=rows.rows(), sink=self.sinks and self.sinks.address, d_sink=d_sinks and d_sinks.address,
                          list_counts=self.lists and self.lists.counts.address, list_blocks=self.lists and self.lists.blocks.address,
                          **{name: one.tensor() for name, one in tensors.items()})
        with on(self.q.device):
            plan.run(call)
        return Ready(plan, call, ["q", "k", "v", "lse", *others])

    def forward(self, o: Any, lse: Any) -> Ready:
        return self._run(FORWARD, view(lse, "lse", (2, 3)), {"o": view(o, "o")})

    def backward(self, o: Any, lse: Any, d_o: Any, d_q: Any, d_k: Any, d_v: Any, d_sinks: Any = None) -> Ready:
        given = {"o": view(o, "o"), "d_o": view(d_o, "d_o")}
        for one in given.values():
            same_shape(self.q, one)
        rows = view(lse, "lse", (2, 3), ("float32",))
        if rows.shape != self.q.shape[:-1] or rows.device != self.q.device:
            raise ArgumentError(f"lse: float32 of shape {self.q.shape[:-1]} on {self.q.device} is wanted")
        made = {"d_q": d_q, "d_k": d_k, "d_v": d_v}
        return self._run(BACKWARD, rows, {**given, **{name: view(one, name) for name, one in made.items()}},
                         _sinks(d_sinks if self.sinks else None, self.q, self.pattern.heads))


# Of torch_ops, once there was a tensor: an import inside of each call would cost half a microsecond.
_of_tensors: Optional[Callable[..., Any]] = None
_again: Any = None
_modes: Any = None
_compiles: Any = None
_TENSOR: Any = ()


def import_torch_ops() -> Callable[..., Any]:
    global _of_tensors, _again, _modes, _compiles, _TENSOR
    if _of_tensors is not None:
        return _of_tensors
    from . import torch_ops

    torch = sys.modules["torch"]
    _of_tensors, _modes, _TENSOR = torch_ops.attention, torch_ops._modes, torch.Tensor
    _compiles = getattr(torch.compiler, "is_dynamo_compiling", torch.compiler.is_compiling)  # what else compiles does so in a mode
    _again = torch_ops.quick if _modes is not None else None
    return _of_tensors


@overload
def attention(q: Array, k: Array, v: Array, pattern: Pattern, layer: int = 0, *, scale: Optional[float] = None, phase: str = "prefill",
              cu_seqlens_q: Optional[Sequence[int]] = None, cu_seqlens_k: Optional[Sequence[int]] = None, return_lse: Literal[False] = False,
              deterministic: bool = True, softcap: Optional[float] = None, sinks: Optional[Array] = None) -> Array: ...


@overload
def attention(q: Array, k: Array, v: Array, pattern: Pattern, layer: int = 0, *, scale: Optional[float] = None, phase: str = "prefill",
              cu_seqlens_q: Optional[Sequence[int]] = None, cu_seqlens_k: Optional[Sequence[int]] = None, return_lse: Literal[True],
              deterministic: bool = True, softcap: Optional[float] = None, sinks: Optional[Array] = None) -> tuple[Array, Array]: ...


def attention(q: Any, k: Any, v: Any, pattern: Pattern, layer: int = 0, *, scale: Optional[float] = None,
              phase: str = "prefill", cu_seqlens_q: Optional[Sequence[int]] = None,
              cu_seqlens_k: Optional[Sequence[int]] = None, return_lse: bool = False, deterministic: bool = True,
              softcap: Optional[float] = None, sinks: Any = None) -> Any:
    """Attention of one layer of a pattern.

    q is (batch, heads, tokens, d), k and v (batch, KV heads, tokens, d); queries are the last positions of the keys. Any
    strides will do, with d contiguous: nothing is copied. Without the batch, sequences lie one after the other and begin where
    cu_seqlens_q and cu_seqlens_k say, from 0 to the number of tokens; some may have no tokens at all. NumPy arrays are computed on the CPU; torch tensors where
    they are, with gradients, by the operator s2::attention. deterministic=False lets gradients take a kernel that is faster in long
    contexts and gives other bits each time. With softcap a score is softcap * tanh(score / softcap); sinks, float32 of one number a
    head, are logits that the softmax's denominator has besides the keys', and that no value belongs to.

    Returns o, or (o, lse): lse is the logarithm of the softmax's denominator, float32, and minus infinity where a query
    reads nothing, whose o is 0. scale is 1 / sqrt(d) unless it is given.

    Raises ArgumentError, which names the argument (shape, stride, dtype, device, alignment to 16 bytes), UnsupportedError where no kernel of the
    device takes it, DeviceError where the GPU reports an error.
    """
    if (_again is not None and cu_seqlens_q is None and cu_seqlens_k is None and sinks is None and type(pattern) is Pattern and type(layer) is int
            and not _compiles() and not _modes()):
        made = _again(_kept.again.get((pattern.number, layer), ()), q, k, v, scale, phase, deterministic, return_lse, softcap)
        if made is not None:
            return made
    if isinstance(q, _TENSOR) or is_torch(q):
        return (_of_tensors or import_torch_ops())(q, k, v, pattern, layer, scale, phase, cu_seqlens_q, cu_seqlens_k, return_lse, deterministic,
                                                    softcap, sinks)
    _lib.flag(return_lse, "return_lse")
    call = Call(q, k, v, pattern, layer, scale, phase, cu_seqlens_q, cu_seqlens_k, deterministic, softcap, sinks)
    o, lse = empty(q, call.q.shape, call.q.dtype), empty(q, call.q.shape[:-1], "float32")
    call.forward(o, lse)
    return (o, lse) if return_lse else o


@overload
def block_attention(q: Array, k: Array, v: Array, pattern: Pattern, counts: Array, blocks: Array, layer: int = 0, *, query_block: int = 64,
                    scale: Optional[float] = None, cu_seqlens_q: Optional[Sequence[int]] = None, cu_seqlens_k: Optional[Sequence[int]] = None,
                    return_lse: Literal[False] = False, softcap: Optional[float] = None, sinks: Optional[Array] = None) -> Array: ...


@overload
def block_attention(q: Array, k: Array, v: Array, pattern: Pattern, counts: Array, blocks: Array, layer: int = 0, *, query_block: int = 64,
                    scale: Optional[float] = None, cu_seqlens_q: Optional[Sequence[int]] = None, cu_seqlens_k: Optional[Sequence[int]] = None,
                    return_lse: Literal[True], softcap: Optional[float] = None, sinks: Optional[Array] = None) -> tuple[Array, Array]: ...


def block_attention(q: Any, k: Any, v: Any, pattern: Pattern, counts: Any, blocks: Any, layer: int = 0, *, query_block: int = 64,
                    scale: Optional[float] = None, cu_seqlens_q: Optional[Sequence[int]] = None,
                    cu_seqlens_k: Optional[Sequence[int]] = None, return_lse: bool = False, softcap: Optional[float] = None,
                    sinks: Any = None) -> Any:
    """Attention over blocks that are chosen at run time: attention() of a dense layer of which each query block reads what its list names.

    counts is int32 (sequences, heads, lists), blocks int32 (sequences, heads, lists, most), where q is; heads are those of q, or the KV
    heads, whose query heads then share lists. A list is that of query_block queries, from multiples of query_block on; the first is that
    of the first query. It names key blocks of pattern.block tokens in any order; a row reads those at or before its own position if the
    pattern is causal. Duplicates count once, numbers of no block nothing, and a count is taken into 0 to most. Tensors go to the operator
    s2::block_attention, which torch.compile and fake tensors know; it has no gradients, and refuses q, k, v or sinks that want them.

    Raises ArgumentError, which names the argument, and UnsupportedError on a GPU before Hopper, or outside of the limits in docs/kernels.md.
    """
    _lib.flag(return_lse, "return_lse")
    if is_torch(q):
        from . import torch_ops

        o, lse = torch_ops.block_attention(q, k, v, pattern, counts, blocks, layer, query_block, scale, cu_seqlens_q, cu_seqlens_k, softcap, sinks)
    else:
        o, lse = listed_forward(q, k, v, pattern, counts, blocks, layer, query_block, scale, cu_seqlens_q, cu_seqlens_k, softcap, sinks)
    return (o, lse) if return_lse else o


def listed_forward(q: Any, k: Any, v: Any, pattern: Pattern, counts: Any, blocks: Any, layer: int, query_block: int, scale: Optional[float],
                   cu_seqlens_q: Optional[Sequence[int]], cu_seqlens_k: Optional[Sequence[int]], softcap: Optional[float], sinks: Any) -> tuple[Any, Any]:
    """block_attention's o and lse."""
    call = Call(q, k, v, pattern, layer, scale, "prefill", cu_seqlens_q, cu_seqlens_k, True, softcap, sinks)
    call.lists = Lists(q, counts, blocks, query_block)
    if 0 in call.lengths["q_tok"]:
        raise ArgumentError("cu_seqlens_q: a sequence has no tokens; lists of blocks are of sequences that have")
    if call.lists.counts.shape[0] != len(call.lengths["q_tok"]):
        raise ArgumentError(f"counts: {call.lists.counts.shape[0]} sequences, and q has {len(call.lengths['q_tok'])}")
    o, lse = empty(q, call.q.shape, call.q.dtype), empty(q, call.q.shape[:-1], "float32")
    call.forward(o, lse)
    return o, lse


def attention_backward(d_o: Array, q: Array, k: Array, v: Array, o: Array, lse: Array, pattern: Pattern, layer: int = 0, *,
                       scale: Optional[float] = None, phase: str = "prefill", cu_seqlens_q: Optional[Sequence[int]] = None,
                       cu_seqlens_k: Optional[Sequence[int]] = None, deterministic: bool = True, softcap: Optional[float] = None,
                       sinks: Optional[Array] = None) -> tuple[Array, ...]:
    """(d_q, d_k, d_v), with sinks (d_q, d_k, d_v, d_sinks), for the gradient d_o of o; o and lse are the forward's. The same inputs give the same bits, unless
    deterministic is False. Shapes and errors are attention()'s; gradients have the shapes and types of what they are of, d_sinks is float32."""
    call = Call(q, k, v, pattern, layer, scale, phase, cu_seqlens_q, cu_seqlens_k, deterministic, softcap, sinks)
    made = tuple(empty(q, one.shape, one.dtype) for one in (call.q, call.k, call.v, call.sinks) if one is not None)
    call.backward(o, lse, d_o, *made)
    return made
