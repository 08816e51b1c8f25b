"""A KV cache that holds what some later query may read, and nothing else."""
from __future__ import annotations

import collections
import ctypes
import dataclasses
import marshal
import sys
import threading
from typing import Any, Callable, Literal, Optional, Sequence, Union, overload

from . import _lib
from ._arrays import View, alike, empty, is_torch, lasting, view
from ._lib import ArgumentError, MemoryFullError, ReleasedError, UnsupportedError
from .attention import DECODING, Array, Plan, Ready, _scale, _sinks, _softcap, new_plan, on, open_device, stream_of
from .pattern import Pattern

LAYOUTS = {"pages": 0, "ring": 1, "shared": 2}
STEP_LIMIT = 16  # query tokens of a decode step
AT_ONCE = 1 << 20  # places of new tokens that are looked up for all layers together
WRITES = 64  # lists of sequences whose writes are known
_INT = {int}
# Of whole numbers in a list or tuple what nothing else gives: True and 1.0, which equal 1, give others. Quicker than a look at the type of each.
_exactly: Callable[[Any, int], bytes] = marshal.dumps


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a cache holds, of all layers and sequences."""

    pages: int
    peak_pages: int
    slots: int  # keys that fit the pages in use; values likewise
    bytes: int  # of K and V in the pages in use


class Cache(_lib.Fixed):
    """Keys and values of a pattern's layers, in two arrays of the kind of `like` (a NumPy array or a torch tensor, of which type and
    device count). The arrays grow as they must, or have room for `pages` from the start; pages that no later query needs go back to the
    pool at every append.

    A step appends tokens to a sequence, writes keys and values of each layer, and attends:

        cache.append(sequence, 1)
        cache.write(sequence, layer, k, v)          # (KV heads, 1, d)
        o = cache.attend(q, [sequence], layer)      # (1, heads, 1, d)

    Lists of sequences do all of this at once: then k and v are (sequences, KV heads, tokens, d).
    One thread at a time: others wait.
    """

    _fixed = frozenset(("pattern", "head_dim", "step", "_handle", "_lock"))

    def __init__(self, pattern: Pattern, like: Any, *, head_dim: Optional[int] = None, layout: str = "pages", page: int = 0,
                 step: int = 1, pages: int = 0) -> None:
        if not isinstance(pattern, Pattern):
            raise ArgumentError(f"pattern: an s2.Pattern is wanted, not {type(pattern).__name__}")
        self._lock: Any = threading.RLock()
        self.pattern = pattern
        self.head_dim = _lib.integer(pattern.head_dim if head_dim is None else head_dim, "head_dim", 1, 4096)
        self.step = _lib.integer(step, "step", 1, STEP_LIMIT)
        self.keys: Any = self._room(like, 16)  # the last slot takes what nobody will read
        self.values: Any = self._room(like, 16)
        self._plans: collections.OrderedDict[tuple[Any, ...], tuple[Plan, Any]] = collections.OrderedDict()
        self._places: dict[tuple[Any, ...], Any] = {}  # of the tokens of the last append
        self._device: Optional[_lib.Handle] = None  # its own: threads that take turns with it have theirs for themselves
        self._known: dict[Any, list[Any]] = {}  # by layer and sequences, _exactly: what torch_ops.again takes
        self._writes: dict[tuple[int, ...], tuple[int, Any]] = {}  # by sequences: tokens, and a look at keys and values that were right
        self._ops: Any = None  # torch_ops, where this torch can look at tensors
        self._step: Any = None  # the Step that runs at this moment
        self._options: dict[str, Any] = {"layout": layout, "page": page, "pages": pages}
        options = _lib.CCacheOptions(layout=_lib.word(layout, "layout", LAYOUTS), page_tok=_lib.integer(page, "page", 0, 65536),
                                     step_tok=self.step, cap_pages=_lib.integer(pages, "pages", 0))
        self._handle = _lib.Handle("cache", "cache")
        if is_torch(like):
            from . import torch_ops

            self._ops = torch_ops if torch_ops._modes is not None else None
        self._fresh: dict[int, int] = {}  # sequence: the tokens of the last append
        self._held: dict[int, int] = {}  # sequence: all its tokens
        self._unsure: set[int] = set()  # sequences whose append was cut off: by an error of torch's, or a key of the user's
        self._short = False  # the arrays may be smaller than what the library counts on
        self._rows = 0  # what they have had since they grew last
        _lib.call("cache_open", pattern._handle.value, ctypes.byref(options), ctypes.byref(self._handle.pointer))
        if pages:
            self._grow(pages * self._usage().page_slots)

    def _room(self, like: Any, slots: int) -> Any:
        probe = like if is_torch(like) else getattr(like, "dtype", None)
        if probe is None:
            raise ArgumentError(f"like: a NumPy array or a torch tensor is wanted, not {type(like).__name__}")
        dtype = str(like.dtype).removeprefix("torch.")
        if dtype not in _lib.DTYPES:
            raise ArgumentError(f"like: dtype {dtype} is not one of {', '.join(_lib.DTYPES)}")
        if is_torch(like) and like.device.type not in ("cpu", "cuda"):
            raise ArgumentError(f"like: on {like.device}, neither a CPU nor a CUDA device")
        try:
            with lasting(like):
                made = empty(like, (slots, self.head_dim), dtype)
        except (MemoryError, RuntimeError) as failure:
            raise MemoryFullError(f"pages: no memory for {slots} keys of {self.head_dim}: {str(failure).splitlines()[0]}") from failure
        made[:] = 0
        return made

    def __deepcopy__(self, memo: Any) -> "Cache":
        """The same sequences, by the same numbers, in arrays of its own."""
        with self._lock:
            self._handle.value
            self._whole(list(self._held))
            made = Cache(self.pattern, self.keys, head_dim=self.head_dim, step=self.step, **self._options)
            for number in range(max(self._held, default=-1) + 1):
                made.open()
            for number in set(made._held) - set(self._held):
                made.drop(number)
            for number, tokens in self._held.items():
                if tokens:
                    made.append(number, tokens)
                for layer in range(self.pattern.layers if tokens else 0):
                    made.write(number, layer, *self.read(number, layer))
            made._fresh = dict(self._fresh)
        return made

    def __copy__(self) -> "Cache":
        raise UnsupportedError("cache: it has arrays that only one object may have; fork() copies a sequence, copy.deepcopy() all of it")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise UnsupportedError("cache: its pages are of this process, and cannot be pickled")

    def close(self) -> None:
        """Give everything back; later calls raise ReleasedError."""
        self._idle("close")
        with self._lock:
            for kept in (self._plans, self._places, self._known, self._writes):
                kept.clear()
            self._handle.close()
            self.keys = self.values = None

    def _idle(self, what: str) -> None:
        """Before what changes pages: no other call of this thread is under way, as one is when a signal's handler calls."""
        if self._step is not None and self._lock._is_owned():
            raise ArgumentError(f"body: {what} inside of a step, which makes the room for its tokens itself")
        if self._lock._is_owned():
            raise ArgumentError(f"cache: {what} inside of another of its calls")

    @property
    def closed(self) -> bool:
        """Whether close() was called; every other call then raises ReleasedError."""
        return not self._handle.pointer.value

    def _sequence(self, sequence: Any, name: str = "sequence") -> int:
        """Of a call for one sequence; one whose append was cut off can only be dropped."""
        number = _lib.integer(sequence, name, 0)
        if number in self._unsure:
            raise ArgumentError(f"{name}: an append to {number} was cut off, so it can only be dropped")
        return number

    def _whole(self, numbers: Sequence[int], name: str = "sequence") -> None:
        """Before the arrays are read or written: they have room for all that the library counts on."""
        if self._unsure and not self._unsure.isdisjoint(numbers):
            self._sequence(next(one for one in numbers if one in self._unsure), name)
        if self._short:
            self._grow(self._usage().pool_slots)
        if min(self.keys.shape[0], self.values.shape[0]) < self._rows:
            raise ArgumentError(f"keys, values: {self._rows} rows were here, which the cache's pages lie in")

    def open(self) -> int:
        """An empty sequence."""
        self._idle("open")
        out = ctypes.c_int32()
        with self._lock:
            _lib.call("cache_sequence", self._handle.value, ctypes.byref(out))
            self._held[out.value] = 0
        return out.value

    def fork(self, sequence: int) -> int:
        """A second sequence with the same tokens, sharing pages until one of the two has more: neither may be written to before."""
        self._idle("fork")
        out = ctypes.c_int32()
        with self._lock:
            number = self._sequence(sequence)
            _lib.call("cache_fork", self._handle.value, number, ctypes.byref(out))
            self._held[out.value] = self._held[number]
            self._fresh.pop(number, None)
            self._places.clear()
        return out.value

    def drop(self, sequence: int) -> None:
        """End a sequence; its pages go back."""
        self._idle("drop")
        with self._lock:
            number = _lib.integer(sequence, "sequence", 0)
            _lib.call("cache_drop", self._handle.value, number)
            self._held.pop(number)
            self._places.clear()
            self._fresh.pop(number, None)
            self._unsure.discard(number)

    def tokens(self, sequence: int) -> int:
        """How many a sequence has; ArgumentError where there is no such sequence."""
        out = ctypes.c_int32()
        with self._lock:
            _lib.call("cache_tokens", self._handle.value, self._sequence(sequence), ctypes.byref(out))
        return out.value

    def _usage(self) -> _lib.CUsage:
        usage = _lib.CUsage()
        with self._lock:
            _lib.call("cache_usage", self._handle.value, ctypes.byref(usage))
        return usage

    @property
    def usage(self) -> Usage:
        """Pages, keys and bytes that are in use, of all layers and sequences."""
        found = self._usage()
        item = self.keys.itemsize if not is_torch(self.keys) else self.keys.element_size()
        return Usage(found.pages, found.peak_pages, found.slots, found.slots * 2 * self.head_dim * item)

    def append(self, sequence: Union[int, Sequence[int]], tokens: int) -> None:
        """Room for so many more tokens of each sequence; pages that nobody needs any more go back.

        Wrong arguments change nothing. Raises MemoryFullError where `pages` are all in use: then the sequences before the one that it names
        have their tokens, those behind it have none, and it can only be dropped."""
        self._idle("append")
        with self._lock:
            self._handle.value
            self._append_each(self._listed(sequence), _lib.integer(tokens, "tokens", 1, _lib.LIMIT_TOK))

    def _append_each(self, numbers: Sequence[int], tokens: int, name: str = "sequence") -> None:
        for one in numbers:  # all of them before any has room
            self._sequence(one, name)
            if one not in self._held:
                raise ArgumentError(f"{name}: the cache has no sequence {one}")
            if self._held[one] + tokens > _lib.LIMIT_TOK:
                raise ArgumentError(f"tokens: sequence {one} would have more than {_lib.LIMIT_TOK}")
        self._places.clear()
        for nth, one in enumerate(numbers):
            try:
                self._append(one, tokens)
            except MemoryFullError as full:
                raise MemoryFullError(f"pages: no room for {tokens} more tokens of sequence {one}, which can only be dropped ({full}); "
                                      f"{list(numbers[:nth])} have theirs, {list(numbers[nth + 1:])} are as before") from full
        self._grow(self._usage().pool_slots)

    def _append(self, number: int, tokens: int) -> None:
        moves, count = ctypes.POINTER(_lib.CMove)(), ctypes.c_int32()
        self._fresh.pop(number, None)
        self._unsure.add(number)  # until all is done: a signal may come between any two lines
        self._short = True
        _lib.call("cache_append", self._handle.value, number, tokens, ctypes.byref(moves), ctypes.byref(count))
        if count.value:
            self._grow(self._usage().pool_slots)
            self._move(moves[:count.value])
        self._fresh[number] = tokens
        self._held[number] += tokens
        self._unsure.discard(number)

    def _listed(self, sequences: Union[int, Sequence[int]], name: str = "sequence") -> list[int]:
        """One sequence or several, each once."""
        if not _is_list(sequences):
            return [self._sequence(sequences, name)]
        numbers = _lib.integers(sequences, name, 0)
        if len(set(numbers)) != len(numbers) or not numbers:
            raise ArgumentError(f"{name}: {numbers}; at least one, and each once")
        return numbers

    def _move(self, moves: Sequence[_lib.CMove]) -> None:
        for move in moves:
            for pool in (self.keys, self.values):
                kept = pool[move.from_slot:move.from_slot + move.n_slots]
                pool[move.to_slot:move.to_slot + move.n_slots] = kept.clone() if is_torch(kept) else kept.copy()

    def _grow(self, slots: int) -> None:
        have = self.keys.shape[0]
        if slots >= have:
            rows = slots + 1 if have <= 16 else max(slots + 1, have + have // 2)
            grown = []
            for old in (self.keys, self.values):
                grown.append(self._room(old, rows))
                grown[-1][:have] = old
            self.keys, self.values = grown
        self._short, self._rows = False, self.keys.shape[0]

    def slots(self, sequence: int, layer: int, kv_head: int, begin: int, end: int) -> list[int]:
        """Where keys lie in `keys` and `values`, or -1: not held, because no later query reads them."""
        begin = _lib.integer(begin, "begin", 0, _lib.LIMIT_TOK)
        end = _lib.integer(end, "end", begin, _lib.LIMIT_TOK)
        out = (ctypes.c_int64 * max(end - begin, 1))()
        with self._lock:
            _lib.call("cache_slots", self._handle.value, self._sequence(sequence), _lib.integer(layer, "layer", 0),
                      _lib.integer(kv_head, "kv_head", 0), begin, end, out)
        return out[:end - begin]

    def read(self, sequence: int, layer: int) -> tuple[Any, Any]:
        """Keys and values (KV heads, tokens, d) of a layer, copied; zeros where they went back, which no later query reads."""
        import numpy

        with self._lock:
            tokens = self.tokens(sequence)
            self._whole([sequence])
            if not tokens:
                raise ArgumentError(f"sequence: {sequence} has no tokens")
            shape = (self.pattern.kv_heads, tokens, self.head_dim)
            made = [empty(self.keys, shape, str(self.keys.dtype).removeprefix("torch.")) for _ in range(2)]
            for head in range(shape[0]):
                slots = numpy.array(self.slots(sequence, layer, head, 0, tokens))
                gone, slots = slots < 0, numpy.maximum(slots, 0)
                if is_torch(self.keys):
                    gone, slots = (sys.modules["torch"].from_numpy(one).to(self.keys.device) for one in (gone, slots))
                for one, pool in zip(made, (self.keys, self.values)):
                    one[head] = pool[slots]
                    one[head][gone] = 0
        return made[0], made[1]

    def write(self, sequence: Union[int, Sequence[int]], layer: int, k: Any, v: Any) -> None:
        """Keys and values (KV heads, tokens, d) of one layer, of the tokens that were appended last."""
        with self._lock:
            if self._write_again(sequence, layer, k, v):
                return
            self._handle.value  # a closed cache is said first
            numbers = self._listed(sequence)
            self._whole(numbers)
            layer = _lib.integer(layer, "layer", 0, self.pattern.layers - 1)
            fresh = {self._fresh.get(one, 0) for one in numbers}
            if 0 in fresh:
                none = next(one for one in numbers if one not in self._fresh)
                raise ArgumentError(f"sequence: nothing was appended to {none} since it was opened, forked or dropped")
            if len(fresh) > 1:
                raise ArgumentError(f"sequence: different numbers of tokens were appended to {numbers}")
            wanted = (self.pattern.kv_heads, *fresh, self.head_dim)
            wanted = (len(numbers), *wanted) if _is_list(sequence) else wanted
            for name, one in (("k", k), ("v", v)):
                found = view(one, name, (len(wanted),))
                self._goes_with(one, found)
                if found.shape != wanted:
                    raise ArgumentError(f"{name}: shape {found.shape}, and {wanted[-2]} tokens were appended: {wanted} is wanted")
            places = self._written(numbers, layer, wanted[-2]) if self._step is None else self._step._places(numbers, layer, wanted[-2])
            for pool, one in ((self.keys, k), (self.values, v)):
                if is_torch(pool):
                    pool.index_copy_(0, places, one.detach().reshape(-1, self.head_dim))
                else:
                    pool[places] = one.reshape(-1, self.head_dim)
            if self._ops is not None and type(sequence) in (list, tuple) and not k.requires_grad and not v.requires_grad:
                if len(self._writes) > WRITES:
                    self._writes.clear()
                self._writes[tuple(numbers)] = wanted[-2], self._ops.look_of(k, v, self.keys, self.values)

    def _write_again(self, sequence: Any, layer: Any, k: Any, v: Any) -> bool:
        """Whether it was a write like one before, of tokens whose places are known: then it is done."""
        if self._ops is None or self._step is not None or type(layer) is not int or type(sequence) not in (list, tuple) or {*map(type, sequence)} != _INT:
            return False
        numbers = tuple(sequence)
        tokens, look = self._writes.get(numbers, (0, None))
        places = self._places.get((numbers, tokens, None))
        if look is None or places is None or not 0 <= layer < len(places) or not self._ops.is_plain(k) or not self._ops.is_plain(v):
            return False
        if not look(k, v, self.keys, self.values):
            return False
        self.keys.index_copy_(0, places[layer], k.reshape(-1, self.head_dim))
        self.values.index_copy_(0, places[layer], v.reshape(-1, self.head_dim))
        return True

    def _written(self, numbers: list[int], layer: int, tokens: int) -> Any:
        """The places of the last tokens in one layer, [sequence][KV head][token]; those that nobody reads are the last slot."""
        import numpy

        each = len(numbers) * self.pattern.kv_heads * tokens
        together = each * self.pattern.layers <= AT_ONCE
        key = (tuple(numbers), tokens, None if together else layer)
        found = self._places.get(key)
        if found is None:
            begin, end = (0, self.pattern.layers) if together else (layer, layer + 1)
            places = self._find_places(numbers, begin, end, tokens)
            found = places.to(self.keys.device, non_blocking=True).unbind() if is_torch(places) else places
            if not together:
                self._places.clear()
            self._places[key] = found
        return found[layer if together else 0]

    def _find_places(self, numbers: list[int], begin: int, end: int, tokens: int) -> Any:
        """[layer][place], an array or, for a GPU, a tensor in memory from which it may be copied while the host goes on."""
        import numpy

        shape = (end - begin, len(numbers) * self.pattern.kv_heads * tokens)
        made = None
        if is_torch(self.keys):
            torch = sys.modules["torch"]
            made = torch.empty(shape, dtype=torch.int64, pin_memory=self.keys.is_cuda)
        places = numpy.empty(shape, dtype=numpy.int64) if made is None else made.numpy()
        listed = (ctypes.c_int32 * len(numbers))(*numbers)
        _lib.call("cache_places", self._handle.value, listed, len(numbers), begin, end, tokens, places.ctypes.data)
        places[places < 0] = self.keys.shape[0] - 1
        return places if made is None else made

    def _goes_with(self, one: Any, found: View) -> None:
        """Of the cache's kind, type and device, and with no gradient that would be lost."""
        if is_torch(one) is not is_torch(self.keys):
            raise ArgumentError(f"{found.name}: a {type(self.keys).__name__} is wanted, as the cache has, not a {type(one).__name__}")
        pool = view(self.keys, "keys", (2,))
        alike(View("the cache", 0, (), (), pool.dtype, pool.device), found)
        if is_torch(one) and one.requires_grad and sys.modules["torch"].is_grad_enabled():
            raise UnsupportedError(f"{found.name}: gradients do not pass through a cache; call it under torch.no_grad(), or detach()")

    @overload
    def attend(self, q: Array, sequences: Sequence[int], layer: int, *, scale: Optional[float] = None, softcap: Optional[float] = None,
               sinks: Optional[Array] = None, return_lse: Literal[False] = False) -> Array: ...

    @overload
    def attend(self, q: Array, sequences: Sequence[int], layer: int, *, scale: Optional[float] = None, softcap: Optional[float] = None,
               sinks: Optional[Array] = None, return_lse: Literal[True]) -> tuple[Array, Array]: ...

    def attend(self, q: Any, sequences: Sequence[int], layer: int, *, scale: Optional[float] = None,
               softcap: Optional[float] = None, sinks: Any = None, return_lse: bool = False) -> Any:
        """o (sequences, heads, tokens, d) for the last queries of each sequence, at most `step` of them; softcap and sinks as
        s2.attention has them. q has o's shape, and the cache's type and device.

        Raises ArgumentError, which names the argument, UnsupportedError for more tokens than `step`, ReleasedError after close()."""
        with self._lock:
            if not (sinks is not None or self._ops is None or self._step is not None or self._unsure or self._short or self._ops._modes()):
                # a call like one before, though the cache may have grown since, and its arrays may be others
                try:
                    known = self._known.get(_exactly((layer, sequences), 2))
                except ValueError:  # neither numbers nor lists of them
                    known = None
                made = self._ops.quick(known, q, self.keys, self.values, scale, "decode", True, return_lse, softcap) if known else None
                if made is not None:
                    return made
            _lib.flag(return_lse, "return_lse")
            handle = self._handle.value
            found = view(q, "q", (4,))
            self._goes_with(q, found)
            layer = _lib.integer(layer, "layer", 0, self.pattern.layers - 1)
            numbers = _lib.integers(sequences, "sequences", 0)
            if len(set(numbers)) != len(numbers) or len(numbers) != found.shape[0]:
                raise ArgumentError(f"sequences: {numbers}, and q has {found.shape[0]}; each once")
            if not self._held.keys() >= set(numbers):
                raise ArgumentError("sequences: the cache has no such sequence")
            self._whole(numbers, "sequences")
            if found.shape[1] != self.pattern.heads or found.shape[3] != self.head_dim:
                raise ArgumentError(f"q: shape {found.shape}; {self.pattern.heads} heads of {self.head_dim} are wanted")
            if found.shape[2] > self.step:
                raise UnsupportedError(f"q: {found.shape[2]} tokens, and the cache was made for steps of {self.step} (step=)")
            factor = _scale(scale, self.head_dim)
            cap, sink = _softcap(softcap), _sinks(sinks, found, self.pattern.heads)
            plan, listed = self._plan(found, numbers, layer, factor, cap, sink is not None)
            o, lse = empty(q, found.shape, found.dtype), empty(q, found.shape[:-1], "float32")
            call = _lib.CCall(scale=factor, q=found.tensor(), k=_pool(self.keys), v=_pool(self.values), o=view(o, "o").tensor(),
                              lse=view(lse, "lse", (3,)).rows(), cache=handle,
                              sequences=ctypes.cast(listed, ctypes.POINTER(ctypes.c_int32)), of_layer=layer + 1,
                              sink=sink and sink.address)
            with on(found.device):
                plan.run(call)
            if self._step is not None:
                self._step.calls.append((plan, call, listed))
            elif self._ops is not None and sinks is None and type(sequences) in (list, tuple) and {*map(type, sequences)} == _INT:
                made = self._ops.Again(Ready(plan, call, ("q", "k", "v", "lse", "o")), (q, self.keys, self.values),
                                        (None, None, scale, "decode", None, None, True, softcap), o, lse)
                made.listed = listed  # where the call points
                self._ops.remember(made, self._known, _exactly((layer, sequences), 2), 4 * self.pattern.layers)
        return (o, lse) if return_lse else o

    def _plan(self, q: View, numbers: list[int], layer: int, scale: float, softcap: float,
              sinks: bool) -> tuple[Plan, Any]:
        """One of all layers that read alike, which follows the sequences as they grow."""
        stream, captures = stream_of(q.device)
        if captures and self._step is None:
            raise UnsupportedError("sequences: a graph of a cache would read what is there now; s2.Step captures one that follows it")
        plans = self._plans if self._step is None else self._step.plans
        kind = self.pattern.kinds("decode")[layer]
        key = (tuple(numbers), kind, q.shape, q.strides, scale, stream, softcap, sinks)
        kept = plans.get(key)
        if kept is None:
            lengths = {"q_tok": (q.shape[2],) * len(numbers), "k_tok": tuple(max(self.tokens(one), q.shape[2]) for one in numbers),
                       "q_begin": None, "k_begin": None}
            listed = (ctypes.c_int32 * len(numbers))(*numbers)
            self._device = self._device or open_device(q.device)
            kept = plans[key] = new_plan(self.pattern, DECODING, "decode", kind, q, lengths, softcap=softcap, sinks=sinks, where=self._device), listed
        plans.move_to_end(key)
        while len(plans) > 4 * self.pattern.layers:
            plans.popitem(last=False)
        return kept


def _is_list(sequences: Any) -> bool:
    """Several sequences, not one that numpy or torch holds."""
    return isinstance(sequences, (list, tuple, range)) or getattr(sequences, "ndim", 0) > 0


def _pool(pool: Any) -> _lib.CTensor:
    found = view(pool, "pool", (2,))
    return _lib.CTensor(found.address, 0, found.strides[0], 0)
