"""Patterns: read, written, proved and priced."""
from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import math
import os
import sys
import weakref
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Union

from . import _lib
from ._lib import ArgumentError, FileError, MemoryFullError, UnsupportedError

if TYPE_CHECKING:
    import numpy

Source = Union[str, "os.PathLike[str]", dict[str, Any], Any]


@dataclasses.dataclass(frozen=True)
class Finding:
    """One property's verdict; `witness` is the smallest place where it fails."""

    name: str
    verdict: str  # "holds", "violated" or "unknown"
    scope: Union[int, str]  # tokens that it is decided up to, or "all"
    witness: Optional[dict[str, Any]]
    reason: Optional[str]  # of unknown


@dataclasses.dataclass(frozen=True)
class Check:
    """What `Pattern.check` found; true when everything that was asked holds."""

    verdict: str
    findings: tuple[Finding, ...]
    json: dict[str, Any]  # the s2check/1 object of docs/json.md

    def __bool__(self) -> bool:
        return self.verdict == "holds"


@dataclasses.dataclass(frozen=True)
class Price:
    """What a pattern costs on a GPU; times in microseconds, of attention alone but for end_to_end_us."""

    predicted: bool  # time_us is a prediction, else a bound
    measured: bool  # with constants that were measured on this GPU, not guessed for it
    time_us: float  # of all layers; of one new token of each sequence in decode, of a step in train
    bound_us: float  # no kernel can be faster
    dense_time_us: float
    error_pct: Optional[float]  # how far off time_us may be; None: not known
    end_to_end_us: float  # 0 without a model
    dense_end_to_end_us: float
    density: float  # pairs read, as a fraction of those that a dense pattern reads: token_density of `s2 sim --json`
    pairs: int  # of a query and a key that are read, of all layers, heads and sequences
    kv_bytes: int  # of all GPUs, in pages per KV head, as Cache holds them by default; with device_lists all keys
    kv_used_bytes: int  # of the keys that are kept, without what is unused of their pages
    kv_dense_bytes: int  # of all keys
    fit_batch: int  # sequences that fit beside the weights: at most 65536, and 0 to train without a model
    dense_fit_batch: int
    error_is: Optional[str]  # of error_pct: "mean", of points that were measured and not fitted, or "allowance", since none was


PAIRS = 1 << 22  # of a mask, between two looks at a signal
_WORK = {**_lib.PHASES, "train": 2}  # what is priced
_ERROR_IS = (None, "mean", "allowance")
_alive: "dict[int, list[weakref.ref[Pattern]]]" = {}  # by number


def with_number(number: int) -> "Optional[Pattern]":
    """A pattern of that number, while one lives."""
    for one in _alive.get(number, ()):
        pattern = one()
        if pattern is not None:
            return pattern
    return None


def _forget(number: int, dead: "weakref.ref[Pattern]") -> None:
    left = [one for one in _alive.get(number, ()) if one is not dead]
    if left:
        _alive[number] = left
    else:
        _alive.pop(number, None)


def _is_text(source: str) -> bool:
    """Not a path: it has what a file's name seldom has, or begins as a configuration does."""
    return any(mark in source for mark in ":;\n") or source.lstrip()[:1] in ("{", "[")


def _path(source: Union[str, "os.PathLike[str]"]) -> bytes:
    path = _lib.encoded(source, "source")
    if not path.strip():
        raise ArgumentError("source: it is empty")
    return path


def _finite(value: Any) -> Any:
    """JSON has no infinity, which some configs have as a limit, and no nan: they are texts."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def _named(source: Source) -> dict[str, bytes]:
    """The text, or the path that it is at."""
    if isinstance(source, str) and _is_text(source):
        return {"text": _lib.encoded(source, "source")}
    if isinstance(source, (str, os.PathLike)):
        return {"path": _path(source)}
    config = source.to_dict() if hasattr(source, "to_dict") and not isinstance(source, type) else source
    if not isinstance(config, dict):
        raise ArgumentError(f"source: a text, a path, a dict or a config is wanted, not {type(source).__name__}")
    try:
        return {"text": json.dumps(_finite(config), default=str).encode()}
    except (TypeError, ValueError, RecursionError) as failure:
        raise ArgumentError(f"source: {failure}") from failure


def _settings(settings: Optional[Mapping[str, Union[str, int, float]]]) -> list[bytes]:
    """KEY=VALUE of each."""
    if settings is None:
        return []
    if not isinstance(settings, Mapping):
        raise ArgumentError(f"settings: a dict is wanted, not {type(settings).__name__}")
    listed = []
    for key, value in settings.items():
        if not isinstance(key, str) or not key or "=" in key or isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ArgumentError(f"settings: {_lib.shown(key)}: {_lib.shown(value)} is not a name with a text or a number")
        listed.append(_lib.encoded(f"{key}={value if isinstance(value, str) else _lib.shown(value)}", "settings"))
    return listed


class Pattern(_lib.Fixed):
    """Which keys each query of each head and layer reads.

    `source` is a text in the pattern language, a path, a dict, or a transformers config; foreign formats are recognised by
    their content, or named with `format`, and `settings` says what they leave unsaid, as `s2 import --set` has it: {"layers": 32}. Of a folder
    what `write` put there is read, or a model's config.json. `notes` says what a foreign format leaves unsaid. Patterns never change, and threads may share
    one. `layers`, `heads`, `kv_heads` and `head_dim` are its shape, `block` the tokens of a block; `hash` is that of the canonical text.
    Patterns of one text are equal.

    Raises RefusedError with line and column where a text is wrong, FileError where a file cannot be read.
    """

    _fixed = frozenset(("layers", "heads", "kv_heads", "head_dim", "block", "causal", "has_phases", "limit", "hash", "name", "number", "_handle"))

    def __init__(self, source: Source, *, format: Optional[str] = None,
                 settings: Optional[Mapping[str, Union[str, int, float]]] = None) -> None:
        named, listed = _named(source), _settings(settings)
        asked = _lib.CSource(**named, text_size=len(named.get("text", b"")), format=None if format is None else _lib.encoded(format, "format"),
                             settings=(ctypes.c_char_p * len(listed))(*listed), n_settings=len(listed))
        handle = _lib.Handle("pattern", "pattern")
        try:
            _lib.call("pattern_read", ctypes.byref(asked), ctypes.byref(handle.pointer))
        except FileError as failure:
            raise FileError(f"source: {failure}") from None
        self._take(handle)

    def _take(self, handle: _lib.Handle) -> None:
        self._handle = handle
        self._kinds: dict[str, tuple[int, ...]] = {}
        shape = _lib.CShape()
        _lib.call("pattern_shape", self._handle.value, ctypes.byref(shape))
        self.layers: int = shape.layers
        self.heads: int = shape.heads
        self.kv_heads: int = shape.kv_heads
        self.head_dim: int = shape.head_dim
        self.block: int = shape.block
        self.causal = bool(shape.causal)
        self.has_phases = bool(shape.has_phases)
        self.limit: int = shape.limit_tok  # tokens that its mask files cover; 0: any number
        self.hash: str = shape.hash.decode()
        self.name: str = shape.name.decode("utf-8", "replace")
        # By which operators name it: the same in every process that reads the same text, so that a graph that was saved finds this pattern
        # elsewhere, or none, and never another.
        self.number = int(self.hash[:15], 16)
        twin = with_number(self.number)
        self.captured: dict[tuple[Any, ...], Any] = {} if twin is None else twin.captured  # plans that graphs were captured of
        number = self.number
        _alive.setdefault(number, []).append(weakref.ref(self, lambda dead: _forget(number, dead)))
        if hasattr(sys.modules.get("torch"), "compiler"):  # else the first function that is compiled with this pattern is compiled twice
            with contextlib.suppress(ImportError, AttributeError):  # of a torch without what tensors need: who hands over a tensor is told
                from .attention import import_torch_ops

                import_torch_ops()

    def __repr__(self) -> str:
        return (f"<s2.Pattern {self.name or self.hash[:12]}: {self.layers} layers, {self.heads} heads on {self.kv_heads} KV heads>")

    def __str__(self) -> str:
        return _lib.text("pattern_text", self._handle.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)

    def __copy__(self) -> Pattern:
        return self

    def __deepcopy__(self, memo: Any) -> Pattern:
        return self

    def __reduce__(self) -> tuple[type[Pattern], tuple[str]]:
        if self.limit:
            raise UnsupportedError("pattern: it has mask files, which its text names and does not hold, and cannot be pickled; read it where it is wanted")
        return Pattern, (str(self),)

    @property
    def notes(self) -> list[str]:
        """What the format that it was read from leaves unsaid, a line each."""
        return _lib.text("pattern_notes", self._handle.value).splitlines()

    def mask(self, layer: int, n: int, *, phase: str = "prefill", queries: Optional[tuple[int, int]] = None) -> "numpy.ndarray":
        """mask[head, query, key] as booleans, in a context of n tokens; `queries` is a range of queries."""
        import numpy

        layer = _lib.integer(layer, "layer", 0, self.layers - 1)
        n = _lib.integer(n, "n", 1, _lib.LIMIT_TOK)
        asked = [0, n] if queries is None else _lib.integers(queries, "queries", 0, n)
        if len(asked) != 2 or asked[1] < asked[0]:
            raise ArgumentError(f"queries: {_lib.shown(queries)} is not a range (begin, end)")
        begin, end = asked
        which = _lib.word(phase, "phase", _lib.PHASES)
        try:
            out = numpy.empty((self.heads, end - begin, n), dtype=numpy.bool_)
        except MemoryError as failure:
            raise MemoryFullError(f"queries: {failure}; ask for fewer of them") from failure
        rows = max(1, PAIRS // n)
        for head in range(self.heads):
            for first in range(begin, end, rows):
                _lib.call("pattern_mask", self._handle.value, which, layer, head, n, first, min(first + rows, end), out[head, first - begin:].ctypes.data)
        return out

    def kinds(self, phase: str = "prefill") -> tuple[int, ...]:
        """For each layer the lowest one whose heads read the same."""
        which = _lib.word(phase, "phase", _lib.PHASES)
        if phase not in self._kinds:
            out = (ctypes.c_int32 * self.layers)()
            _lib.call("pattern_kinds", self._handle.value, which, out)
            self._kinds[phase] = tuple(out)
        return self._kinds[phase]

    def check(self, properties: str = "rows,union,kv", *, length: Optional[int] = None) -> Check:
        """Decide properties (rows, union, kv, group, shards, ranks:N, depth:D), for contexts up to `length` tokens, or for every length.

        Raises ArgumentError for a property that is not known, LimitError where a limit of work was hit."""
        tokens = 0 if length is None else _lib.integer(length, "length", 1, _lib.LIMIT_TOK)
        verdict = ctypes.c_int32()
        answer = json.loads(_lib.text("pattern_check", self._handle.value, _lib.encoded(properties, "properties"), tokens,
                                      ctypes.byref(verdict)))
        findings = tuple(Finding(p["name"], p["verdict"], p["scope"], p.get("witness"), p.get("reason"))
                         for p in answer["properties"])
        return Check(answer["verdict"], findings, answer)

    def simulate(self, length: int, *, gpu: str = "h200", phase: str = "prefill", batch: int = 1, dtype: str = "bfloat16",
                 model: Optional[str] = None, page: int = 16, ranks: int = 1, device_lists: bool = False) -> Price:
        """What it costs at a context of `length` tokens; `phase` is prefill, decode or train. Times are microseconds, sizes bytes. `gpu` and `model`
        are names that `s2 sim --list` has, or paths of their files (`model`: by default the one that the pattern names, if any); `page` is tokens of a page of the cache, `ranks` tensor-parallel GPUs. Of float32
        nothing was measured, so that its times are bounds.
        With `device_lists` blocks are chosen at run time, as `block_attention` takes them: the pattern says how many a query block reads, as
        "local 1 | random 7 seed 1" does, the cache drops nothing, and only prefill has a price.

        Raises ArgumentError, which names what is wrong, and UnsupportedError where the time of a pattern cannot be said."""
        options = _lib.CPriceOptions(
            gpu=_lib.encoded(gpu, "gpu"), net=None if model is None else _lib.encoded(model, "model"),
            phase=_lib.word(phase, "phase", _WORK), dtype=_lib.word(dtype, "dtype", _lib.DTYPES),
            context_tok=_lib.integer(length, "length", 1, _lib.LIMIT_TOK), batch=_lib.integer(batch, "batch", 1),
            page_tok=_lib.integer(page, "page", 1), ranks=_lib.integer(ranks, "ranks", 1), device_lists=_lib.flag(device_lists, "device_lists"))
        price = _lib.CPrice()
        _lib.call("pattern_price", self._handle.value, ctypes.byref(options), ctypes.byref(price))
        fields = {one[0]: getattr(price, one[0]) for one in _lib.CPrice._fields_ if one[0] != "size"}
        fields["predicted"], fields["measured"] = bool(price.predicted), bool(price.measured)
        fields["error_is"] = _ERROR_IS[price.error_is]
        fields["error_pct"] = price.error_pct if price.error_is else None
        return Price(**fields)

    def share(self, ranks: int, rank: int, deal: Optional[Sequence[Sequence[int]]] = None,
              layers: Optional[tuple[int, int]] = None) -> "Pattern":
        """What one GPU of `ranks` has: its equal number of KV heads with their query heads, as a pattern of its own, of all layers or of
        layers (begin, end). With fewer KV heads than ranks each is on several, which split its query heads. `deal`, as `deal()` proposes it, is for each of these layers the order in which KV heads are dealt out."""
        ranks, rank = _lib.integer(ranks, "ranks", 1), _lib.integer(rank, "rank", 0)
        span = [0, self.layers] if layers is None else _lib.integers(layers, "layers", 0, self.layers)
        if len(span) != 2:
            raise ArgumentError(f"layers: {_lib.shown(layers)} is not a range (begin, end)")
        begin, end = span
        order: Any = None
        if deal is not None:
            if not isinstance(deal, (list, tuple)):
                raise ArgumentError(f"deal: a list for each layer is wanted, not {type(deal).__name__}")
            rows = [_lib.integers(row, "deal", 0) for row in deal]
            if len(rows) != end - begin or any(len(row) != self.kv_heads for row in rows):
                raise ArgumentError(f"deal: {self.kv_heads} KV heads for each of {end - begin} layers are wanted")
            order = (ctypes.c_int32 * (len(rows) * self.kv_heads))(*(head for row in rows for head in row))
        handle, own = _lib.Handle("pattern", "pattern"), Pattern.__new__(Pattern)
        _lib.call("pattern_share", self._handle.value, ranks, rank, begin, end, order, ctypes.byref(handle.pointer))
        own._take(handle)
        return own

    def deal(self, ranks: int, length: int, phase: str = "prefill") -> list[list[int]]:
        """For each layer an order of its KV heads that gives each GPU of `ranks` about the same work: the head that reads most goes to
        the GPU that has least and still has room."""
        ranks = _lib.integer(ranks, "ranks", 1)
        orders: dict[int, list[int]] = {}
        if self.kv_heads % ranks:
            raise ArgumentError(f"ranks: {self.kv_heads} KV heads cannot be dealt out equally to {ranks}"
                                + ("; a share without `deal` has copies of them" if ranks > self.kv_heads else ""))
        _lib.word(phase, "phase", _WORK)
        kinds = self.kinds("decode" if phase == "decode" else "prefill")
        for layer in sorted(set(kinds)):
            work = [self.share(self.kv_heads, head, layers=(layer, layer + 1)).simulate(length, phase=phase).pairs
                    for head in range(self.kv_heads)]
            hands: list[list[int]] = [[] for _ in range(ranks)]
            for head in sorted(range(self.kv_heads), key=lambda head: -work[head]):
                room = [hand for hand in hands if len(hand) < self.kv_heads // ranks]
                min(room, key=lambda hand: sum(work[one] for one in hand)).append(head)
            orders[layer] = [head for hand in hands for head in sorted(hand)]
        return [orders[kind] for kind in kinds]

    def write(self, path: Union[str, "os.PathLike[str]"], format: str = "s2", *, length: int = 8192) -> list[str]:
        """Write the text in the language to a file, or a foreign format (`formats()` has them) to a file or folder; returns what the format leaves
        unsaid. `length` is the tokens that formats of one length are written for.

        Raises UnsupportedError where the format cannot hold the pattern, FileError where the file cannot be written."""
        return _lib.text("pattern_write", self._handle.value, _lib.encoded(format, "format"),
                         _lib.integer(length, "length", 1, _lib.LIMIT_TOK), _lib.encoded(path, "path")).splitlines()


@dataclasses.dataclass(frozen=True)
class Format:
    """A foreign format: whether it is read and written."""

    name: str
    reads: bool
    writes: bool
    summary: str


def formats() -> list[Format]:
    """What `Pattern(..., format=)` reads and `Pattern.write` writes."""
    rows = [line.split("\t") for line in _lib.text("formats").splitlines()]
    return [Format(name, "read" in ways.split(), "write" in ways.split(), summary) for name, ways, summary in rows]
