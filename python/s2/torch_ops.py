"""The operators s2::attention, s2::attention_output and s2::attention_backward of torch.

Autograd, fake tensors and torch.compile see them as they see torch's own. A pattern travels as the number that this process
gave it, since operators take no objects; `attention` here and in the package hands it over.
"""
from __future__ import annotations

import ctypes
import functools
import importlib
import operator
from typing import Any, Callable, NoReturn, Optional, Sequence

import torch

from torch.autograd import forward_ad

from . import _lib
from ._lib import ArgumentError, UnsupportedError, plan_run
from .attention import Call, Ready, _kept, _scale, _softcap, listed_forward, on, stream_of
from .pattern import Pattern, with_number

# torch.library.custom_op would declare the same and add some 40 us of Python to each call.
_torch_library: Any = torch.library  # which gives its functions no types
if hasattr(torch.ops.s2, "attention"):
    raise ImportError("s2.torch_ops: this process has the operators already, and graphs and patterns that belong to them; to load the package again takes a new process")
_library = _torch_library.Library("s2", "DEF")
_OPTIONS = ("SymInt pattern, SymInt layer, float? scale, str phase, SymInt[]? cu_seqlens_q, SymInt[]? cu_seqlens_k, "
            "bool deterministic=True, float? softcap=None, Tensor? sinks=None")
_library.define(f"attention(Tensor q, Tensor k, Tensor v, {_OPTIONS}) -> (Tensor, Tensor)", tags=(torch.Tag.pt2_compliant_tag,))
_library.define(f"attention_output(Tensor q, Tensor k, Tensor v, {_OPTIONS}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
_library.define(f"attention_backward(Tensor d_o, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, {_OPTIONS})"
                " -> (Tensor, Tensor, Tensor, Tensor)", tags=(torch.Tag.pt2_compliant_tag,))
_library.define("block_attention(Tensor q, Tensor k, Tensor v, Tensor counts, Tensor blocks, SymInt pattern, SymInt layer, SymInt query_block, "
                "float? scale, SymInt[]? cu_seqlens_q, SymInt[]? cu_seqlens_k, float? softcap=None, Tensor? sinks=None) -> (Tensor, Tensor)",
                tags=(torch.Tag.pt2_compliant_tag,))


def _pattern(number: int) -> Pattern:
    pattern = with_number(number)
    if pattern is None:
        raise ArgumentError("pattern: that of this graph does not live in this process; keep it as long as a compiled function is called, or read the same "
                            "text again where a saved one is loaded")
    return pattern


def _begins(values: Optional[Sequence[int]], name: str) -> Optional[tuple[int, ...]]:
    if values is None:
        return None
    if torch.compiler.is_compiling() and isinstance(values, (list, tuple)):
        return tuple(values)  # some may stand for any number; the operator looks at them when it runs
    return tuple(_lib.integers(values, name, 0))


def _spec(device: torch.device) -> str:
    if device.type not in ("cpu", "cuda"):
        raise ArgumentError(f"q: on {device}, neither a CPU nor a CUDA device")
    return "cpu" if device.type == "cpu" else f"gpu:{device.index}"


def _signature(one: torch.Tensor) -> tuple[Any, ...]:
    return one.shape, one.stride(), one.dtype, one.device, one.layout, one.is_neg() or one.is_conj()


def _sink_place(sinks: Optional[torch.Tensor]) -> Any:
    """A checked call has their address for good."""
    return None if sinks is None else (sinks.data_ptr(), _signature(sinks))


def _run(name: str, tensors: tuple[torch.Tensor, ...], o: torch.Tensor, lse: torch.Tensor, rest: tuple[Any, ...], more: tuple[Any, ...] = (),
         sinks: Optional[torch.Tensor] = None, d_sinks: Optional[torch.Tensor] = None) -> Ready:
    """Call.forward or .backward, or what they checked before: then addresses alone are new."""
    number, layer, scale, phase, begins_q, begins_k, deterministic, softcap = rest
    spec, device = _spec(tensors[0].device), tensors[0].device
    pattern = _pattern(number)
    signed = tensors if name == "forward" else (*tensors, o, lse, *more)  # a forward's o and lse are as q says
    key = (name, number, layer, scale, phase, deterministic, _begins(begins_q, "cu_seqlens_q"), _begins(begins_k, "cu_seqlens_k"),
           stream_of(spec), softcap, _sink_place(sinks), _sink_place(d_sinks), *map(_signature, signed))
    ready: Optional[Ready] = _kept.ready.get(key)
    if ready is None:
        q, k, v = tensors
        call = Call(q, k, v, pattern, layer, scale, phase, key[6], key[7], deterministic, softcap, sinks)
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


# ---------------------------------------------------------------- calls like one that was checked

_guards: Any = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
_modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
_now: tuple[Any, ...] = tuple(getattr(torch._C, f"_cuda_{name}", None) for name in ("getDevice", "getCurrentRawStream", "isCurrentStreamCapturing"))
_device, _raw_stream, _captures = _now
_transforms: Any = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None)
_traces: Any = getattr(torch._C, "_get_tracing_state", None)
_PLAIN = (torch.Tensor, torch.nn.Parameter)
SPARE = 1 << 16  # numbers of an lse that is kept instead of allocated
LOOKS = 16  # calls that are kept of each layer, those whose gradients are wanted beside those of the same shape that want none


def _compiled() -> Any:
    """again() without the interpreter in between (python/again.c), where the wheel has it and torch (2.10 and later) says in C where tensors are; or None."""
    try:
        made = importlib.import_module("s2._again")
        exchange: Any = torch.Tensor.__dlpack_c_exchange_api__
        functions = torch.is_grad_enabled, _captures, torch._C._len_torch_dispatch_stack, torch._C._len_torch_function_stack
        return made if made.use(exchange, vars(forward_ad), vars(torch.autograd.profiler), *functions) else None
    except (ImportError, AttributeError):
        return None


_in_c: Any = _compiled()


def look_of(*tensors: torch.Tensor, sized: bool = True) -> Optional[Callable[..., bool]]:
    """Whether other tensors have these types, devices, shapes and distances (unless it is not `sized`), ask for gradients alike, and are watched alike by
    transforms, tracers and casts: one call of what guards torch.compile's code, in place of 20 attributes. None: this torch has no such thing."""
    first = [next(at for at, other in enumerate(tensors) if other is one) for one in tensors]
    apart = sorted(set(first))
    if len(apart) < len(tensors):  # keys that are values, too: guards want each tensor once
        guard = look_of(*(tensors[at] for at in apart), sized=sized)
        return guard and (lambda *given: all(given[at] is one for at, one in zip(first, given)) and guard(*(given[at] for at in apart)))
    try:
        sizes, strides = ([[number if sized else None for number in each] for each in every]
                          for every in ((one.shape for one in tensors), (one.stride() for one in tensors)))
        look: Callable[..., bool] = _guards.TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
        return look
    except (AttributeError, TypeError, RuntimeError, SystemError):
        return None


def is_plain(one: Any) -> bool:
    """One at which a look is safe: that at a nested tensor ends the process."""
    return type(one) in _PLAIN and not one.is_nested


class Known:
    """What was checked of a call, for tensors that look the same."""

    index: Optional[int] = None  # of the GPU that must be the current one
    captures = False  # made while a graph was captured
    apply: Optional[Callable[..., Any]] = None  # what answers, where gradients are wanted
    prepared: Any = None  # the same for the compiled part

    def __init__(self, tensors: tuple[torch.Tensor, ...], rest: tuple[Any, ...]) -> None:
        self.rest = rest
        self.scale, self.phase, self.deterministic, self.softcap = rest[2], rest[3], rest[6], rest[7]
        self.look: Any = look_of(*tensors)
        wants = any(one.requires_grad for one in tensors)
        self.grads: Optional[bool] = torch.is_grad_enabled() if wants else None  # None: it does not matter

    def for_compiled(self, tensors: tuple[torch.Tensor, ...], of_call: tuple[Any, ...] = (None,) * 4, places: tuple[int, ...] = (),
                     rooms: Sequence[functools.partial[torch.Tensor]] = (), addresses: Sequence[Any] = (0,) * 4, may_spare: bool = False) -> Any:
        """What the compiled part takes for this, or None: of_call are the stream, whether it is captured, the device, and what brings it to the stream."""
        if _in_c is None or self.look is None or not {*map(type, tensors)} <= {*_PLAIN} or any(room.keywords for room in rooms):
            return None
        held = (*of_call, look_of(*tensors, sized=False), self.grads, (self.scale, self.phase, self.deterministic, self.softcap), self.rest, self.apply,
                places, tuple(part for room in rooms for part in (room.func, room.args)))
        return _in_c.prepare(tensors, held, addresses, may_spare)


class Wanting(Known):
    """A forward whose gradients are wanted."""

    def __init__(self, tensors: tuple[torch.Tensor, ...], rest: tuple[Any, ...]) -> None:
        super().__init__(tensors, rest)
        self.apply = _with_plain_gradients
        self.prepared = self.for_compiled(tensors)


class Prepared(Known):
    """With the call, whose addresses alone are new."""

    def __init__(self, ready: Ready, tensors: tuple[torch.Tensor, ...], rest: tuple[Any, ...]) -> None:
        super().__init__(tensors, rest)
        self.ready, self.device = ready.copy(), ready.plan._device
        first = tensors[0]
        self.index = first.device.index if first.is_cuda else None
        self.stream, self.captures = stream_of(_spec(first.device))

    def compiled(self, tensors: tuple[torch.Tensor, ...], given: str, made: str, rooms: Sequence[functools.partial[torch.Tensor]], may_spare: bool = False) -> Any:
        """The same for the compiled part: tensors by their names in the call, and what allocates those that are made."""
        places = dict(zip(self.ready.names, self.ready.places))
        plan, _, why = self.ready.call.arguments
        addresses = ctypes.addressof(self.ready.words), plan.value, ctypes.cast(why, ctypes.c_void_p).value, ctypes.cast(plan_run, ctypes.c_void_p).value
        return self.for_compiled(tensors, (self.stream, self.captures, self.device, self.ready.plan.enter),
                                 tuple(places[name] for name in f"{given} {made}".split()), rooms, addresses, may_spare)

    def fail(self, code: int, *tensors: torch.Tensor) -> None:
        """Of the library's call."""
        if any(one.data_ptr() & 15 for one in tensors):  # which the library found, and tells in other words
            self.ready.refuse(*tensors)
        self.ready.call.fail(code)


class Again(Prepared):
    """A forward."""

    def __init__(self, ready: Ready, tensors: tuple[torch.Tensor, ...], rest: tuple[Any, ...], o: torch.Tensor, lse: torch.Tensor) -> None:
        super().__init__(ready, tensors, rest)
        self.spare: Optional[torch.Tensor] = None  # an lse that nobody asked for
        self.may_spare = lse.numel() <= SPARE and not self.captures
        self.lse = _room(lse)
        self.parts = (_room(o), self.ready.words, *self.ready.places, self.ready.call.arguments)
        self.prepared = self.compiled(tensors, "q k v", "o lse", (self.parts[0], self.lse), self.may_spare)

    def new_lse(self, keep: bool) -> torch.Tensor:
        """One that the next call writes to; it is kept for all later ones that nobody asks for theirs: they are of one stream, on which
        every call that writes it waits for the last."""
        made = self.lse()
        self.ready.words[self.ready.places[3]] = made.data_ptr()
        self.spare = made if keep and self.may_spare else None
        return made


def _room(like: torch.Tensor) -> functools.partial[torch.Tensor]:
    """Allocates one more of this shape on the current device."""
    shape, strides = tuple(like.shape), like.stride()
    quick = getattr(_guards, "_empty_strided_cuda" if like.is_cuda else "_empty_strided_cpu", None)
    if quick is not None:
        return functools.partial(quick, shape, strides, like.dtype)
    return functools.partial(torch.empty_strided, shape, strides, dtype=like.dtype, device=like.device)


def _move_to_front(known: Any, one: Known) -> None:
    """The next call is likely to be like this one."""
    if known[0] is not one:
        known.remove(one)
        known.insert(0, one)


def again(known: Sequence[Any], q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: Optional[float], phase: str, deterministic: bool,
          return_lse: bool, softcap: Optional[float]) -> Any:
    """A call like one of those known, or None. All is written out, since a function that is called costs the host a tenth of a microsecond. Numbers that
    are equal to right ones are not right: those are checked, and refused, at each call."""
    try:
        if not known or q.is_nested or k.is_nested or v.is_nested or forward_ad._current_level >= 0:
            return None  # a look at a nested tensor ends the process
    except AttributeError:  # no tensor: who checks says so
        return None
    for one in known:
        if (not one.look(q, k, v) or deterministic is not one.deterministic or type(return_lse) is not bool
                or one.grads is not None and one.grads is not torch.is_grad_enabled()
                or not (phase is one.phase or type(phase) is str and phase == one.phase)
                or not (scale is one.scale or type(scale) is float and scale == one.scale)
                or not (softcap is one.softcap or type(softcap) is float and softcap == one.softcap)):
            continue
        if one.apply is not None:
            _move_to_front(known, one)
            return one.apply(q, k, v, None, one.rest, return_lse)
        index = one.index
        if index is not None and (_device() != index or _raw_stream(index) != one.stream or one.stream and _captures() is not one.captures):
            continue  # stream 0, the default one, is never captured
        room, words, at_q, at_k, at_v, at_lse, at_o, arguments = one.parts
        o, lse = room(), one.spare
        if return_lse or lse is None:
            lse = one.new_lse(not return_lse)
        words[at_q] = q.data_ptr()
        words[at_k] = k.data_ptr()
        words[at_v] = v.data_ptr()
        words[at_o] = o.data_ptr()
        if one.device.stream != one.stream:
            one.ready.plan.enter()
        code = plan_run(*arguments)
        if code:
            one.fail(code, q, k, v)
        _move_to_front(known, one)
        return (o, lse) if return_lse else o
    return None


quick: Callable[..., Any] = again if _in_c is None else _in_c.again


def remember(one: Known, every: dict[Any, list[Any]], key: Any, most: int) -> None:
    """Among the known of that key; of too many keys none is."""
    if one.look is None:
        return
    if len(every) > most and not one.captures:  # a plan that goes frees memory of the device, which ends a capture
        every.clear()
    known = every.setdefault(key, [])
    known.insert(0, one)
    if not one.captures:
        del known[LOOKS:]


def _compute(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rest: tuple[Any, ...], sinks: Optional[torch.Tensor], return_lse: bool, where: tuple[str, ...] = ()) -> Any:
    """o, or o and lse; where: what is known of calls inside of autograd is apart from what is known of others, of which each finds the other kind first."""
    number, layer, scale, phase, begins_q, begins_k, deterministic, softcap = rest
    simple = begins_q is None and begins_k is None and sinks is None and type(layer) is int
    if simple:
        made = quick(_kept.again.get((number, layer, *where), ()), q, k, v, scale, phase, deterministic, return_lse, softcap)
        if made is not None:
            return made
    o, lse = torch.empty_like(q), q.new_empty(q.shape[:-1], dtype=torch.float32)
    ready = _run("forward", (q, k, v), o, lse, rest, sinks=sinks)
    if simple:
        remember(Again(ready, (q, k, v), rest, o, lse), _kept.again, (number, layer, *where), 1024)
    return (o, lse) if return_lse else o


def _forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, number: int, layer: int, scale: Optional[float], phase: str,
             cu_seqlens_q: Optional[Sequence[int]], cu_seqlens_k: Optional[Sequence[int]], deterministic: bool = True,
             softcap: Optional[float] = None, sinks: Optional[torch.Tensor] = None, *, return_lse: bool = True) -> Any:
    return _compute(q, k, v, (number, layer, scale, phase, cu_seqlens_q, cu_seqlens_k, deterministic, softcap), sinks, return_lse)


_output: Callable[..., Any] = functools.partial(_forward, return_lse=False)


# ---------------------------------------------------------------- the operators around torch's dispatcher

_NUMBER = (float, type(None))
_AFTER = ((int,), (int,), _NUMBER, (str,), (type(None),), (type(None),), (bool,), _NUMBER, (type(None),))  # what a call has after its tensors, that asks for no more
_DEFAULTS = (("deterministic", True), ("softcap", None), ("sinks", None))  # of the last of these; inductor gives them by name
_PLACED = len(_AFTER) - len(_DEFAULTS)


def _is_seen(*tensors: torch.Tensor) -> bool:
    """Whether torch's dispatcher has something to add to a call of an operator."""
    return (_is_watched(*tensors) or _transforms() is not None or forward_ad._current_level >= 0 or any(one.is_neg() or one.is_conj() for one in tensors)
            or torch.is_grad_enabled() and any(one.requires_grad for one in tensors)
            or bool(torch._C._len_torch_function_stack()) or vars(torch.autograd.profiler).get("_is_profiler_enabled") is not False)


def _go_around(op: Any, body: Callable[..., Any], n_tensors: int, which: int) -> None:
    """Compiled code calls op, which hands its arguments to `_op`, the way into torch's dispatcher. From there to `body` they become C++ values and Python's
    again, which costs more than the call itself. So `_op` becomes a function of the compiled part: it answers a call like one before, and `otherwise` the rest.
    An operator's hash is that of its `_op`: this comes before anybody else sees the operator."""
    dispatched = op._op

    def otherwise(*args: Any, **named: Any) -> Any:
        by_name = _DEFAULTS[max(len(args) - n_tensors - _PLACED, 0):]
        tensors, after = args[:n_tensors], (*args[n_tensors:], *(named.get(name, default) for name, default in by_name))
        direct = len(after) == len(_AFTER) and named.keys() <= dict(by_name).keys() and all(type(one) in types for one, types in zip(after, _AFTER))
        if direct and all(map(is_plain, tensors)) and not _is_seen(*tensors):
            return body(*tensors, *after)
        return dispatched(*args, **named)

    op._op = _in_c.operator(_kept, otherwise, which)


if _in_c is not None and hasattr(torch.ops.s2.attention.default, "_op"):
    _go_around(torch.ops.s2.attention.default, lambda *given: _forward(*given), 3, 0)
    _go_around(torch.ops.s2.attention_backward.default, lambda *given: _backward(*given), 6, 1)
    _go_around(torch.ops.s2.attention_output.default, lambda *given: _output(*given), 3, 2)


# ---------------------------------------------------------------- the operators

_library.impl("attention", _forward, "CompositeExplicitAutograd")
_library.impl("attention_output", _output, "CompositeExplicitAutograd")


def _fake_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
    _check(q, k, v, None)
    return torch.empty_like(q), q.new_empty(q.shape[:-1], dtype=torch.float32)


def _fake_output(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any) -> torch.Tensor:
    _check(q, k, v, None)
    return torch.empty_like(q)


_torch_library.register_fake("s2::attention", _fake_attention, lib=_library)
_torch_library.register_fake("s2::attention_output", _fake_output, lib=_library)


def _laid_out(d_o: torch.Tensor) -> torch.Tensor:
    """Autograd gives a sum's gradient as one number, repeated, and that of a part of a tensor as a part: no caller can mend that."""
    item = d_o.element_size()
    if d_o.stride(-1) == 1 and d_o.data_ptr() % 16 == 0 and not any(stride * item % 16 for stride in d_o.stride()[:-1]):
        return d_o
    return d_o.clone(memory_format=torch.contiguous_format)


def _backward(d_o: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor,
              number: int, layer: int, scale: Optional[float], phase: str, cu_seqlens_q: Optional[Sequence[int]],
              cu_seqlens_k: Optional[Sequence[int]], deterministic: bool = True, softcap: Optional[float] = None,
              sinks: Optional[torch.Tensor] = None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    rest = (number, layer, scale, phase, cu_seqlens_q, cu_seqlens_k, deterministic, softcap)
    return *_three_gradients(d_o, q, k, v, o, lse, sinks, rest, d_sinks := _sink_gradient(q, sinks)), d_sinks


class Gradients(Prepared):
    """A backward."""

    def __init__(self, ready: Ready, tensors: tuple[torch.Tensor, ...], rest: tuple[Any, ...], made: tuple[torch.Tensor, ...]) -> None:
        super().__init__(ready, tensors, rest)
        self.rooms = tuple(map(_room, made))
        self.prepared = self.compiled(tensors, "d_o q k v o lse", "d_q d_k d_v", (*self.rooms, _room(_sink_gradient(tensors[1], None))))


def gradients_again(known: Sequence[Any], d_o: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor,
                    rest: tuple[Any, ...]) -> Optional[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Those of q, k and v of a call like one of those known, or None."""
    if not known or d_o.is_nested or q.is_nested or k.is_nested or v.is_nested or o.is_nested or lse.is_nested:
        return None
    for one in known:
        if (rest != one.rest or not one.look(d_o, q, k, v, o, lse) or (d_o.data_ptr() | o.data_ptr()) & 15
                or one.grads is not None and one.grads is not torch.is_grad_enabled()):
            continue
        index = one.index
        if index is not None and (_device() != index or _raw_stream(index) != one.stream or one.stream and _captures() is not one.captures):
            continue
        d_q, d_k, d_v = (room() for room in one.rooms)
        one.ready.run(q, k, v, lse, o, d_o, d_q, d_k, d_v)
        _move_to_front(known, one)
        return d_q, d_k, d_v
    return None


quick_gradients: Callable[..., Any] = gradients_again if _in_c is None else _in_c.gradients_again


def _three_gradients(d_o: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, sinks: Optional[torch.Tensor],
                     rest: tuple[Any, ...], d_sinks: Optional[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Those of q, k and v, that of sinks into its place; a call like one before is recognised by its tensors' look."""
    simple = rest[4] is None and rest[5] is None and sinks is None
    key = (*rest[:2], "backward")
    known: Optional[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = quick_gradients(_kept.again.get(key, ()), d_o, q, k, v, o, lse, rest) if simple else None
    if known is not None:
        return known
    made, d_o = (torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)), _laid_out(d_o)
    ready = _run("backward", (q, k, v), o, lse, rest, (d_o, *made), sinks, d_sinks if sinks is not None else None)
    if simple:
        remember(Gradients(ready, (d_o, q, k, v, o, lse), rest, made), _kept.again, key, 1024)
    return made


_library.impl("attention_backward", _backward, "CompositeExplicitAutograd")


def _sink_gradient(q: torch.Tensor, sinks: Optional[torch.Tensor]) -> torch.Tensor:
    """Operators give no None: without sinks it is empty."""
    return q.new_empty(0 if sinks is None else sinks.shape[0], dtype=torch.float32)


def _fake_backward(d_o: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, pattern: int,
      layer: int, scale: Optional[float], phase: str, cu_seqlens_q: Optional[Sequence[int]], cu_seqlens_k: Optional[Sequence[int]],
      deterministic: bool = True, softcap: Optional[float] = None, sinks: Optional[torch.Tensor] = None) -> tuple[torch.Tensor, ...]:
    _check(q, k, v, None)
    _check_beside(q, d_o=d_o, o=o, lse=lse)
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), _sink_gradient(q, sinks)


_torch_library.register_fake("s2::attention_backward", _fake_backward, lib=_library)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    q, k, v, *ctx.rest, sinks = inputs
    ctx.pattern = with_number(ctx.rest[0]) if type(ctx.rest[0]) is int else None  # held until the gradients are done; a tracer has a symbol
    ctx.save_for_backward(q, k, v, *output, sinks)
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx: Any, d_o: torch.Tensor, _: Any, backward: Callable[..., tuple[Any, ...]] = torch.ops.s2.attention_backward.default) -> tuple[Any, ...]:
    q, k, v, o, lse, sinks = ctx.saved_tensors
    *made, d_sinks = backward(d_o, q, k, v, o, lse, *ctx.rest, sinks)
    return (*made, *(None for _ in ctx.rest), None if sinks is None else d_sinks)


def _keep_inputs(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    q, k, v, *ctx.rest, sinks = inputs
    ctx.pattern = with_number(ctx.rest[0]) if type(ctx.rest[0]) is int else None
    ctx.save_for_backward(q, k, v, sinks)


def _gradients_of_output(ctx: Any, d_o: torch.Tensor) -> tuple[Any, ...]:
    """Of a graph that was made where nobody wanted gradients, and that somebody wants them of: lse is computed again."""
    q, k, v, sinks = ctx.saved_tensors
    o, lse = torch.ops.s2.attention.default(q, k, v, *ctx.rest, sinks)
    *made, d_sinks = torch.ops.s2.attention_backward.default(d_o, q, k, v, o, lse, *ctx.rest, sinks)
    return (*made, *(None for _ in ctx.rest), None if sinks is None else d_sinks)


def _no_second(ctx: Any, *gradients: torch.Tensor) -> NoReturn:
    raise UnsupportedError("d_o: gradients of gradients are not computed")


_torch_library.register_autograd("s2::attention", _gradients, setup_context=_keep, lib=_library)
_torch_library.register_autograd("s2::attention_output", _gradients_of_output, setup_context=_keep_inputs, lib=_library)
_torch_library.register_autograd("s2::attention_backward", _no_second, lib=_library)


# ---------------------------------------------------------------- lists of blocks

def _listed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, counts: torch.Tensor, blocks: torch.Tensor, number: int, layer: int,
            query_block: int, scale: Optional[float], cu_seqlens_q: Optional[Sequence[int]], cu_seqlens_k: Optional[Sequence[int]],
            softcap: Optional[float] = None, sinks: Optional[torch.Tensor] = None) -> tuple[torch.Tensor, torch.Tensor]:
    return listed_forward(q, k, v, _pattern(number), counts, blocks, layer, query_block, scale, _begins(cu_seqlens_q, "cu_seqlens_q"),
                          _begins(cu_seqlens_k, "cu_seqlens_k"), softcap, sinks)


_library.impl("block_attention", _listed, "CompositeExplicitAutograd")


def _fake_listed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, counts: torch.Tensor, blocks: torch.Tensor, *rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
    _check(q, k, v, None)
    _check_beside(q, counts=counts, blocks=blocks)
    return q.new_empty(q.shape), q.new_empty(q.shape[:-1], dtype=torch.float32)


_torch_library.register_fake("s2::block_attention", _fake_listed, lib=_library)


def _no_gradients(ctx: Any, *gradients: torch.Tensor) -> None:
    raise UnsupportedError("q: lists of blocks have no gradients; detach it, or use torch.no_grad()")


_torch_library.register_autograd("s2::block_attention", _no_gradients, lib=_library)


def _check_beside(q: torch.Tensor, **others: torch.Tensor) -> None:
    for name, one in others.items():
        if not isinstance(one, torch.Tensor):
            raise ArgumentError(f"{name}: a torch tensor is wanted, as q is, not {type(one).__name__}")
        if one.device != q.device:
            raise ArgumentError(f"{name}: on {one.device}, and q is on {q.device}")


def block_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pattern: Pattern, counts: torch.Tensor, blocks: torch.Tensor, layer: int,
                    query_block: int, scale: Optional[float], cu_seqlens_q: Optional[Sequence[int]], cu_seqlens_k: Optional[Sequence[int]],
                    softcap: Optional[float], sinks: Optional[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """s2.block_attention of tensors; that says what it takes."""
    if not isinstance(pattern, Pattern):
        raise ArgumentError(f"pattern: an s2.Pattern is wanted, not {type(pattern).__name__}")
    _check(q, k, v, sinks)
    _check_beside(q, counts=counts, blocks=blocks)
    if _wants_gradients(q, k, v, sinks):
        raise ArgumentError("q: it requires gradients, and lists of blocks have none; detach it, or use torch.no_grad()")
    if forward_ad._current_level >= 0:
        raise UnsupportedError("q: gradients in forward mode are not computed")
    q, k, v = _cast(q, k, v)
    if not torch.compiler.is_compiling():  # there a number may stand for any; the operator looks at it when it runs
        layer, query_block = _lib.integer(layer, "layer", 0, pattern.layers - 1), _lib.integer(query_block, "query_block", 16)
    scale, softcap = None if scale is None else _scale(scale, 1), None if softcap is None else _softcap(softcap)
    begins = _begins(cu_seqlens_q, "cu_seqlens_q"), _begins(cu_seqlens_k, "cu_seqlens_k")
    made: tuple[torch.Tensor, torch.Tensor] = torch.ops.s2.block_attention.default(q, k, v, counts, blocks, pattern.number, layer, query_block, scale,
                                                                                   *begins, softcap, sinks)
    return made


def _one_by_one(function: Any, info: Any, in_dims: tuple[Any, ...], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """torch.vmap of a function of ours: a call for each."""
    made = [function.apply(*(one if at is None else one.select(at, number).contiguous() for one, at in zip(inputs, in_dims)))
            for number in range(info.batch_size)]
    return tuple(torch.stack(each) for each in zip(*made)), (0,) * len(made[0])


class _Gradients(torch.autograd.Function):
    """attention_backward, of which nobody may ask for gradients."""

    @staticmethod
    def forward(*inputs: Any) -> tuple[torch.Tensor, ...]:
        return _backward(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        _no_second(ctx, *gradients)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, ...]:
        return _one_by_one(_Gradients, info, in_dims, inputs)


class _WithGradients(torch.autograd.Function):
    """The operator with its gradients, without the dispatcher, and as torch.func's transforms want it."""

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return _forward(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        _keep(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, d_o: torch.Tensor, d_lse: Any) -> tuple[Any, ...]:
        return _gradients(ctx, d_o, d_lse, _Gradients.apply if torch.is_grad_enabled() else _backward)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
        raise UnsupportedError("q: gradients in forward mode are not computed")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, ...]:
        return _one_by_one(_WithGradients, info, in_dims, inputs)


class _WithPlainGradients(torch.autograd.Function):
    """The same where no transform looks on, with few arguments: torch looks at each. A function that takes its context apart has its signature examined at
    each call, which costs more than all else."""

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sinks: Optional[torch.Tensor], rest: tuple[Any, ...], return_lse: bool) -> Any:
        o, lse = _compute(q, k, v, rest, sinks, True, _WITHIN)
        ctx.rest, ctx.pattern = rest, with_number(rest[0])  # held until the gradients are done
        ctx.save_for_backward(q, k, v, o, lse, sinks)
        if not return_lse:
            return o
        ctx.mark_non_differentiable(lse)
        ctx.set_materialize_grads(False)  # else torch fills a tensor with zeros for lse
        return o, lse

    @staticmethod
    def backward(ctx: Any, d_o: torch.Tensor, d_lse: Any = None) -> tuple[Any, ...]:
        q, k, v, o, lse, sinks = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody may ask for gradients of these
            *made, d_sinks = _applied(_Gradients)(d_o, q, k, v, o, lse, *ctx.rest, sinks)
        else:
            d_sinks = None if sinks is None else _sink_gradient(q, sinks)
            made = _three_gradients(d_o, q, k, v, o, lse, sinks, ctx.rest, d_sinks)
        return (*made, None if sinks is None else d_sinks, None, None)


_WITHIN = ("within",)
# As _WithPlainGradients.apply without what torch.func needs, which looks at each argument and costs a third of all: it is called where no transform looks on.
_with_plain_gradients: Callable[..., Any] = getattr(super(torch.autograd.Function, _WithPlainGradients), "apply")


def _applied(function: Any) -> Any:
    """Of torch's, which has no types."""
    return function.apply


def _is_watched(*tensors: torch.Tensor) -> bool:
    """A tracer, a mode or a subclass watches, which must see the operator; else torch's dispatcher has nothing to add but gradients."""
    if torch.compiler.is_compiling() or _modes is None or _transforms is None or _traces is None:
        return True
    if _modes() or _traces() is not None or any(type(one) not in _PLAIN or one.is_meta for one in tensors):
        return True
    transform = _transforms()
    return transform is not None and transform.key() == torch._C._functorch.TransformType.Functionalize


def _wants_gradients(*tensors: Optional[torch.Tensor]) -> bool:
    return torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in tensors)


def _unwatched(tensors: tuple[torch.Tensor, ...], sinks: Optional[torch.Tensor], rest: tuple[Any, ...], return_lse: bool) -> Any:
    """The operator as who asks for these gradients needs it."""
    q, k, v = tensors
    if _transforms() is not None or forward_ad._current_level >= 0:
        made = _applied(_WithGradients)(q, k, v, *rest, sinks)
        return made if return_lse else made[0]
    if _wants_gradients(*tensors, sinks):
        return _applied(_WithPlainGradients)(q, k, v, sinks, rest, return_lse)
    return _compute(q, k, v, rest, sinks, return_lse)


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sinks: Optional[torch.Tensor]) -> None:
    for name, one in (("q", q), ("k", k), ("v", v)):
        if not isinstance(one, torch.Tensor):
            raise ArgumentError(f"{name}: a torch tensor is wanted, as q is, not {type(one).__name__}")
        if one.layout is not torch.strided or one.is_nested:
            raise ArgumentError(f"{name}: a dense tensor is wanted, not {'a nested one' if one.is_nested else one.layout}")
        if one.device != q.device:
            raise ArgumentError(f"{name}: on {one.device}, and q is on {q.device}")
    if sinks is not None and not isinstance(sinks, torch.Tensor):
        raise ArgumentError(f"sinks: a torch tensor is wanted, as q is, not {type(sinks).__name__}")


def _cast(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """As torch's own attention: autocast decides the type."""
    kind = tensors[0].device.type
    if kind not in ("cpu", "cuda") or not torch.is_autocast_enabled(kind):
        return tensors
    wanted = torch.get_autocast_dtype(kind)
    return tuple(one.to(wanted) if one.dtype in _CAST else one for one in tensors)


_CAST = (torch.float32, torch.bfloat16, torch.float16)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pattern: Pattern, layer: int, scale: Optional[float], phase: str,
              cu_seqlens_q: Optional[Sequence[int]], cu_seqlens_k: Optional[Sequence[int]], return_lse: bool, deterministic: bool,
              softcap: Optional[float], sinks: Optional[torch.Tensor]) -> Any:
    """s2.attention of tensors; that says what it takes."""
    if not isinstance(pattern, Pattern):
        raise ArgumentError(f"pattern: an s2.Pattern is wanted, not {type(pattern).__name__}")
    _check(q, k, v, sinks)
    _lib.flag(return_lse, "return_lse")
    given, (q, k, v) = (q, k, v), _cast(q, k, v)
    softcap = None if softcap is None else _softcap(softcap)
    scale = None if scale is None else _scale(scale, 1)
    inputs = (q, k, v) if sinks is None else (q, k, v, sinks)
    begins = _begins(cu_seqlens_q, "cu_seqlens_q"), _begins(cu_seqlens_k, "cu_seqlens_k")
    if _is_watched(*inputs):
        given_op = (q, k, v, pattern.number, layer, scale, phase, *begins, deterministic, softcap, sinks)
        if not return_lse and not _wants_gradients(*inputs):
            return torch.ops.s2.attention_output.default(*given_op)
        o, lse = torch.ops.s2.attention.default(*given_op)
        return (o, lse) if return_lse else o
    layer = _lib.integer(layer, "layer", 0, pattern.layers - 1)
    _lib.word(phase, "phase", _lib.PHASES)
    _lib.flag(deterministic, "deterministic")
    rest = (pattern.number, layer, scale, phase, *begins, deterministic, softcap)
    made = _unwatched((q, k, v), sinks, rest, return_lse)
    o = made[0] if return_lse else made
    if o.grad_fn is not None and sinks is None and begins == (None, None) and all(map(operator.is_, given, (q, k, v))) and _transforms() is None:
        remember(Wanting(given, rest), _kept.again, (pattern.number, layer), 1024)
    return made
