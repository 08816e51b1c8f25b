"""A KV cache that holds what some later query may read, and nothing else."""
from __future__ import annotations

import ctypes
import dataclasses
import sys
import threading
from typing import Any, Optional, Sequence

from . import _lib
from ._arrays import View, alike, empty, is_torch, view
from ._lib import ArgumentError, ReleasedError, UnsupportedError
from .attention import DECODING, _scale, plan_for
from .pattern import Pattern

LAYOUTS = {"pages": 0, "ring": 1, "shared": 2}
STEP_LIMIT = 16  # query tokens of a decode step


@dataclasses.dataclass(frozen=True)
class Usage:
    pages: int
    peak_pages: int
    slots: int  # keys that fit the pages in use; values likewise
    bytes: int  # of K and V in the pages in use


class Cache:
    """Keys and values of a pattern's layers, in two arrays of the kind of `like` (a NumPy array or a torch tensor, of which type and
    device count). The arrays grow as they must; pages that no later query needs go back to the pool at every append.

    A step appends tokens to a sequence, writes keys and values of each layer, and attends:

        cache.append(sequence, 1)
        cache.write(sequence, layer, k, v)          # (KV heads, 1, d)
        o = cache.attend(q, [sequence], layer)      # (1, heads, 1, d)

    One thread at a time: others wait.
    """

    def __init__(self, pattern: Pattern, like: Any, *, head_dim: Optional[int] = None, layout: str = "pages", page: int = 0,
                 step: int = 1, pages: int = 0) -> None:
        if not isinstance(pattern, Pattern):
            raise ArgumentError(f"pattern: an s2.Pattern is wanted, not {type(pattern).__name__}")
        self._lock = threading.RLock()
        self.pattern = pattern
        self.head_dim = _lib.integer(pattern.head_dim if head_dim is None else head_dim, "head_dim", 1, 4096)
        self.step = _lib.integer(step, "step", 1, STEP_LIMIT)
        self.keys: Any = self._room(like, 16)
        self.values: Any = self._room(like, 16)
        options = _lib.CCacheOptions(layout=_lib.word(layout, "layout", LAYOUTS), page_tok=_lib.integer(page, "page", 0, 65536),
                                     step_tok=self.step, cap_pages=_lib.integer(pages, "pages", 0))
        self._handle = _lib.Handle("cache", "cache")
        self._fresh: dict[int, tuple[int, int]] = {}  # sequence: the tokens of the last append
        _lib.call("cache_open", pattern._handle.value, ctypes.byref(options), ctypes.byref(self._handle.pointer))

    def _room(self, like: Any, slots: int) -> Any:
        probe = like if is_torch(like) else getattr(like, "dtype", None)
        if probe is None:
            raise ArgumentError(f"like: a NumPy array or a torch tensor is wanted, not {type(like).__name__}")
        dtype = str(like.dtype).removeprefix("torch.")
        if dtype not in _lib.DTYPES:
            raise ArgumentError(f"like: dtype {dtype} is not one of {', '.join(_lib.DTYPES)}")
        if is_torch(like) and like.device.type not in ("cpu", "cuda"):
            raise ArgumentError(f"like: on {like.device}, neither a CPU nor a CUDA device")
        made = empty(like, (slots, self.head_dim), dtype)
        made[:] = 0
        return made

    def close(self) -> None:
        """Give everything back; later calls raise ReleasedError."""
        with self._lock:
            self._handle.close()
            self.keys = self.values = None

    @property
    def closed(self) -> bool:
        return not self._handle.pointer.value

    def _sequence(self, sequence: Any) -> int:
        return _lib.integer(sequence, "sequence", 0)

    def open(self) -> int:
        """An empty sequence."""
        out = ctypes.c_int32()
        with self._lock:
            _lib.call("cache_sequence", self._handle.value, ctypes.byref(out))
            self._fresh.pop(out.value, None)
        return out.value

    def fork(self, sequence: int) -> int:
        """A second sequence with the same tokens, sharing pages until one of the two writes."""
        out = ctypes.c_int32()
        with self._lock:
            _lib.call("cache_fork", self._handle.value, self._sequence(sequence), ctypes.byref(out))
            self._fresh.pop(out.value, None)
        return out.value

    def drop(self, sequence: int) -> None:
        """End a sequence; its pages go back."""
        with self._lock:
            _lib.call("cache_drop", self._handle.value, self._sequence(sequence))
            self._fresh.pop(sequence, None)

    def tokens(self, sequence: int) -> int:
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
        found = self._usage()
        item = self.keys.itemsize if not is_torch(self.keys) else self.keys.element_size()
        return Usage(found.pages, found.peak_pages, found.slots, found.slots * 2 * self.head_dim * item)

    def append(self, sequence: int, tokens: int) -> None:
        """Room for so many more tokens; pages that nobody needs any more go back."""
        moves, count = ctypes.POINTER(_lib.CMove)(), ctypes.c_int32()
        with self._lock:
            before = self.tokens(sequence)
            tokens = _lib.integer(tokens, "tokens", 1, _lib.LIMIT_TOK)
            _lib.call("cache_append", self._handle.value, sequence, tokens, ctypes.byref(moves), ctypes.byref(count))
            self._grow(self._usage().pool_slots)
            for n in range(count.value):
                move = moves[n]
                for pool in (self.keys, self.values):
                    kept = pool[move.from_slot:move.from_slot + move.n_slots]
                    pool[move.to_slot:move.to_slot + move.n_slots] = kept.clone() if is_torch(kept) else kept.copy()
            self._fresh[sequence] = (before, before + tokens)

    def _grow(self, slots: int) -> None:
        have = self.keys.shape[0]
        if slots <= have:
            return
        for name in ("keys", "values"):
            grown = self._room(getattr(self, name), max(slots, 2 * have))
            grown[:have] = getattr(self, name)
            setattr(self, name, grown)

    def slots(self, sequence: int, layer: int, kv_head: int, begin: int, end: int) -> list[int]:
        """Where keys lie in `keys` and `values`, or -1: not held, because no later query reads them."""
        begin = _lib.integer(begin, "begin", 0, _lib.LIMIT_TOK)
        end = _lib.integer(end, "end", begin, _lib.LIMIT_TOK)
        out = (ctypes.c_int64 * max(end - begin, 1))()
        with self._lock:
            _lib.call("cache_slots", self._handle.value, self._sequence(sequence), _lib.integer(layer, "layer", 0),
                      _lib.integer(kv_head, "kv_head", 0), begin, end, out)
        return list(out)[:end - begin]

    def write(self, sequence: int, layer: int, k: Any, v: Any) -> None:
        """Keys and values (KV heads, tokens, d) of one layer, of the tokens that were appended last."""
        with self._lock:
            self._handle.value  # a closed cache is said first
            begin, end = self._fresh.get(self._sequence(sequence), (0, 0))
            for name, one, pool in (("k", k, self.keys), ("v", v, self.values)):
                found = view(one, name, (3,))
                alike(View("the cache", 0, (), (), *self._kind()), found)
                if found.shape != (self.pattern.kv_heads, end - begin, self.head_dim):
                    raise ArgumentError(f"{name}: shape {found.shape}, and {end - begin} tokens were appended: "
                                        f"{(self.pattern.kv_heads, end - begin, self.head_dim)} is wanted")
            for head in range(self.pattern.kv_heads):
                places = self.slots(sequence, layer, head, begin, end)
                held = [n for n, slot in enumerate(places) if slot >= 0]
                if held:
                    self._put(self.keys, [places[n] for n in held], k[head], held)
                    self._put(self.values, [places[n] for n in held], v[head], held)

    @staticmethod
    def _put(pool: Any, slots: list[int], rows: Any, held: list[int]) -> None:
        if is_torch(pool):
            torch = sys.modules["torch"]
            pool.index_copy_(0, torch.tensor(slots, device=pool.device), rows.detach()[torch.tensor(held, device=pool.device)])
        else:
            pool[slots] = rows[held]

    def _kind(self) -> tuple[str, str]:
        pool = view(self.keys, "keys", (2,))
        return pool.dtype, pool.device

    def attend(self, q: Any, sequences: Sequence[int], layer: int, *, scale: Optional[float] = None,
               return_lse: bool = False) -> Any:
        """o (sequences, heads, tokens, d) for the last queries of each sequence, at most `step` of them."""
        with self._lock:
            handle = self._handle.value
            found = view(q, "q", (4,))
            alike(View("the cache", 0, (), (), *self._kind()), found)
            layer = _lib.integer(layer, "layer", 0, self.pattern.layers - 1)
            numbers = _lib.integers(sequences, "sequences", 0)
            if len(set(numbers)) != len(numbers) or len(numbers) != found.shape[0]:
                raise ArgumentError(f"sequences: {numbers}, and q has {found.shape[0]}; each once")
            if found.shape[1] != self.pattern.heads or found.shape[3] != self.head_dim:
                raise ArgumentError(f"q: shape {found.shape}; {self.pattern.heads} heads of {self.head_dim} are wanted")
            if found.shape[2] > self.step:
                raise UnsupportedError(f"q: {found.shape[2]} tokens, and the cache was made for steps of {self.step} (step=)")
            lengths = {"q_tok": (found.shape[2],) * len(numbers), "k_tok": tuple(self.tokens(one) for one in numbers),
                       "q_begin": None, "k_begin": None}
            plan = plan_for(self.pattern, DECODING, "decode", layer, found, lengths, keep=False)
            o, lse = empty(q, found.shape, found.dtype), empty(q, found.shape[:-1], "float32")
            listed = (ctypes.c_int32 * len(numbers))(*numbers)
            plan.run(scale=_scale(scale, self.head_dim), q=found.tensor(), k=_pool(self.keys), v=_pool(self.values),
                     o=view(o, "o").tensor(), lse=view(lse, "lse", (3,)).rows(), cache=handle,
                     sequences=ctypes.cast(listed, ctypes.POINTER(ctypes.c_int32)))
        return (o, lse) if return_lse else o


def _pool(pool: Any) -> _lib.CTensor:
    found = view(pool, "pool", (2,))
    return _lib.CTensor(found.address, 0, found.strides[0], 0)
