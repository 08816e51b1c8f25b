"""A decode step of a whole model, captured once as a CUDA graph and run again as the sequences grow."""
from __future__ import annotations

import collections
import sys
from typing import Any, Callable, Optional, Sequence, Union

from . import _lib
from ._arrays import is_torch, lasting
from ._lib import ArgumentError
from .attention import Plan
from .cache import Cache


class Step(_lib.Fixed):
    """Runs `body()` once for each call, after room was made for `tokens` more tokens of `sequences`:

        def body():
            ids.copy_(model(ids, position).argmax(-1))      # with cache.write(sequences, ...) and cache.attend(..., sequences, ...)
            position.add_(1)
        step = s2.Step(cache, sequences, body)
        step()                                              # a token of each sequence

    On a GPU the second call captures what `body` queues, and later calls run that again: it must do the same work each time, on the same tensors,
    and never look at a number of the GPU's. What a step changes, the lists of keys and the places to write to, is brought up to
    date in place before. Where that cannot be, as where the cache's arrays have grown, `body` runs as it is and is captured
    again; `captures` counts how often. On a CPU it runs as it is. The call returns what `body` returned when it was captured, tensors whose contents
    are new; work is queued, nothing waits.
    """

    _fixed = frozenset(("cache", "sequences", "tokens"))

    def __init__(self, cache: Cache, sequences: Union[int, Sequence[int]], body: Callable[[], Any], tokens: int = 1) -> None:
        if not isinstance(cache, Cache):
            raise ArgumentError(f"cache: an s2.Cache is wanted, not {type(cache).__name__}")
        if not callable(body):
            raise ArgumentError(f"body: a function is wanted, not {type(body).__name__}")
        self.cache, self.body = cache, body
        self.sequences = cache._listed(sequences, "sequences")
        self.tokens = _lib.integer(tokens, "tokens", 1, cache.step)
        self.captures = 0
        self.plans: collections.OrderedDict[tuple[Any, ...], tuple[Plan, Any]] = collections.OrderedDict()
        self.calls: list[tuple[Plan, _lib.CCall, Any]] = []  # of the last time that body ran
        self._graph: Any = None
        self._result: Any = None
        self._made: Optional[tuple[Any, ...]] = None  # what the graph was captured of
        self._written: Any = None  # [layer][place], where it has lain since the first step
        self._stream: Any = None
        if is_torch(cache.keys) and cache.keys.is_cuda:
            self._stream = sys.modules["torch"].cuda.Stream(cache.keys.device)

    def _places(self, numbers: list[int], layer: int, tokens: int) -> Any:
        if numbers != self.sequences or tokens != self.tokens:
            raise ArgumentError(f"sequence: a step of {self.tokens} tokens of {self.sequences} writes those, not {tokens} of {numbers}")
        return self._written[layer]

    def __call__(self) -> Any:
        self.cache._idle("a step")
        with self.cache._lock:
            if self._stream is None:
                self._begin()
                return self._run_body()
            torch = sys.modules["torch"]
            current = torch.cuda.current_stream(self._stream.device)
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                result = self._queue(torch)
            current.wait_stream(self._stream)
            return result

    def _begin(self) -> None:
        """Room for the tokens, and where they are written."""
        cache = self.cache
        cache._handle.value
        cache._append_each(self.sequences, self.tokens, "sequences")
        places = cache._find_places(self.sequences, 0, cache.pattern.layers, self.tokens)
        if self._written is None or not is_torch(places):
            with lasting(places):
                self._written = places.to(cache.keys.device, copy=True) if is_torch(places) else places
        else:
            self._written.copy_(places, non_blocking=True)

    def _run_body(self) -> Any:
        self.calls = []
        self.cache._step = self
        try:
            result = self.body()
        except BaseException:
            self.calls = []  # a part of them is not what a step calls
            raise
        finally:
            self.cache._step = None
        return result

    def _follow(self) -> tuple[Any, ...]:
        """Bring the lists of all layers to the cache as it is; a graph serves as long as the answer is the same."""
        pools = (self.cache.keys.data_ptr(), self.cache.values.data_ptr())
        return (*pools, *(plan.follow(call) for plan, call, _ in self.calls))

    def _queue(self, torch: Any) -> Any:
        pools = (self.cache.keys.data_ptr(), self.cache.values.data_ptr())
        self._begin()
        if not self.calls or pools != (self.cache.keys.data_ptr(), self.cache.values.data_ptr()):
            self._graph = None
            return self._run_body()
        made = self._follow()
        if self._graph is None or made != self._made:
            self._graph = torch.cuda.CUDAGraph()
            self.captures += 1
            with torch.cuda.graph(self._graph, stream=self._stream, capture_error_mode="thread_local"):
                self._result = self._run_body()
            self._made = made
        self._graph.replay()
        return self._result
