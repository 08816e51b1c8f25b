"""libs2 through ctypes: the structures and functions of s2.h, and its errors as exceptions.

Nothing here is for callers; the other modules of the package are thin over it.
"""
from __future__ import annotations

import ctypes
import ctypes.util
import os
import pathlib
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from typing import Any, Iterator, Optional

API_VERSION = 1  # the soname that this package is written for
LEAST_VERSION = 1007  # S2_API_VERSION of the s2.h that the structures below are copied from


class Error(Exception):
    """What the library refuses or cannot do; the message names the argument."""


class ArgumentError(Error, ValueError):
    """An argument is wrong: its type, shape, stride, device, or range."""


class RefusedError(Error, ValueError):
    """A text or file is refused; `line` and `column` count from 1, 0 where they are not known."""

    line = 0
    column = 0

    def __str__(self) -> str:
        said = super().__str__()
        return f"line {self.line}, column {self.column}: {said}" if self.line > 0 else said


class UnsupportedError(Error, NotImplementedError):
    """Right, and not possible here: no kernel takes it, or a format cannot hold it."""


class ReleasedError(Error, RuntimeError):
    """The object was closed."""


class FileError(Error, OSError):
    """A file could not be read or written."""


class MemoryFullError(Error, MemoryError):
    """No memory, or a cache whose pages are all in use."""


class LimitError(Error, RuntimeError):
    """A stated limit of work was hit before the answer was known."""


class DeviceError(Error, RuntimeError):
    """The GPU reported an error, or two computations of one fact disagree."""


_BY_CODE = {-1: ArgumentError, -2: MemoryFullError, -3: RefusedError, -4: LimitError, -5: UnsupportedError, -6: FileError}


# What s2.h names otherwise than the functions of the package.
_NAMED = {"net": "model", "context_tok": "length", "page_tok": "page", "key_begin, key_end": "begin, end", "list_heads": "counts",
          "list_q_tok": "query_block", "list_q_blocks, list_most": "blocks"}


class CError(Structure):
    _fields_ = [("code", c_int32), ("line", c_int32), ("column", c_int32), ("message", c_char * 240)]


class CText(Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t)]


class _Sized(Structure):
    """Begins with its own size."""

    def __init__(self, **members: Any) -> None:
        super().__init__(**members)
        self.size = ctypes.sizeof(self)


class CSource(_Sized):
    _fields_ = [("size", c_uint32), ("text", c_char_p), ("text_size", c_size_t), ("path", c_char_p), ("format", c_char_p),
                ("settings", POINTER(c_char_p)), ("n_settings", c_int32)]


class CShape(_Sized):
    _fields_ = [("size", c_uint32), ("layers", c_int32), ("heads", c_int32), ("kv_heads", c_int32), ("head_dim", c_int32),
                ("block", c_int32), ("causal", c_int32), ("has_phases", c_int32), ("limit_tok", c_int64),
                ("hash", c_char * 65), ("name", c_char * 201)]


class CPriceOptions(_Sized):
    _fields_ = [("size", c_uint32), ("gpu", c_char_p), ("net", c_char_p), ("phase", c_int32), ("dtype", c_int32),
                ("context_tok", c_int64), ("batch", c_int64), ("page_tok", c_int32), ("ranks", c_int32), ("device_lists", c_int32)]


class CPrice(_Sized):
    _fields_ = [("size", c_uint32), ("predicted", c_int32), ("measured", c_int32), ("time_us", c_double), ("bound_us", c_double),
                ("dense_time_us", c_double), ("error_pct", c_double), ("end_to_end_us", c_double),
                ("dense_end_to_end_us", c_double), ("density", c_double), ("pairs", c_int64), ("kv_bytes", c_int64),
                ("kv_used_bytes", c_int64), ("kv_dense_bytes", c_int64), ("fit_batch", c_int64), ("dense_fit_batch", c_int64),
                ("error_is", c_int32)]


class CCacheOptions(_Sized):
    _fields_ = [("size", c_uint32), ("layout", c_int32), ("page_tok", c_int32), ("layer_begin", c_int32), ("layer_end", c_int32),
                ("step_tok", c_int32), ("cap_pages", c_int64)]


class CMove(Structure):
    _fields_ = [("from_slot", c_int64), ("to_slot", c_int64), ("n_slots", c_int64)]


class CUsage(_Sized):
    _fields_ = [("size", c_uint32), ("page_slots", c_int32), ("pages", c_int64), ("peak_pages", c_int64), ("pool_slots", c_int64),
                ("slots", c_int64)]


class CPlanOptions(_Sized):
    _fields_ = [("size", c_uint32), ("pass", c_int32), ("phase", c_int32), ("layer", c_int32), ("dtype", c_int32),
                ("head_dim", c_int32), ("n_sequences", c_int32), ("deterministic", c_int32), ("q_tok", POINTER(c_int32)),
                ("k_tok", POINTER(c_int32)), ("q_begin", POINTER(c_int32)), ("k_begin", POINTER(c_int32)),
                ("cap", c_float), ("sinks", c_int32), ("list_heads", c_int32), ("list_q_tok", c_int32),
                ("list_q_blocks", c_int32), ("list_most", c_int32)]


class CTensor(Structure):
    _fields_ = [("data", c_void_p), ("sequence", c_int64), ("token", c_int64), ("head", c_int64)]


class CRows(Structure):
    _fields_ = [("data", c_void_p), ("sequence", c_int64), ("head", c_int64)]


class CCall(_Sized):
    _fields_ = [("size", c_uint32), ("scale", c_float), ("q", CTensor), ("k", CTensor), ("v", CTensor), ("o", CTensor),
                ("lse", CRows), ("d_o", CTensor), ("d_q", CTensor), ("d_k", CTensor), ("d_v", CTensor), ("cache", c_void_p),
                ("sequences", POINTER(c_int32)), ("sink", c_void_p), ("d_sink", c_void_p), ("of_layer", c_int32),
                ("list_counts", c_void_p), ("list_blocks", c_void_p)]


# Each function's arguments but the last, an s2_api_error; those that cannot fail stand below.
_FALLIBLE: dict[str, list[Any]] = {
    "pattern_read": [POINTER(CSource), POINTER(c_void_p)],
    "pattern_shape": [c_void_p, POINTER(CShape)],
    "pattern_share": [c_void_p, c_int32, c_int32, c_int32, c_int32, POINTER(c_int32), POINTER(c_void_p)],
    "pattern_text": [c_void_p, POINTER(CText)],
    "pattern_notes": [c_void_p, POINTER(CText)],
    "pattern_mask": [c_void_p, c_int32, c_int32, c_int32, c_int64, c_int64, c_int64, c_void_p],
    "pattern_kinds": [c_void_p, c_int32, POINTER(c_int32)],
    "pattern_check": [c_void_p, c_char_p, c_int64, POINTER(c_int32), POINTER(CText)],
    "pattern_price": [c_void_p, POINTER(CPriceOptions), POINTER(CPrice)],
    "pattern_write": [c_void_p, c_char_p, c_int64, c_char_p, POINTER(CText)],
    "formats": [POINTER(CText)],
    "cache_open": [c_void_p, POINTER(CCacheOptions), POINTER(c_void_p)],
    "cache_sequence": [c_void_p, POINTER(c_int32)],
    "cache_drop": [c_void_p, c_int32],
    "cache_fork": [c_void_p, c_int32, POINTER(c_int32)],
    "cache_append": [c_void_p, c_int32, c_int32, POINTER(POINTER(CMove)), POINTER(c_int32)],
    "cache_slots": [c_void_p, c_int32, c_int32, c_int32, c_int64, c_int64, POINTER(c_int64)],
    "cache_places": [c_void_p, POINTER(c_int32), c_int32, c_int32, c_int32, c_int32, c_void_p],
    "cache_tokens": [c_void_p, c_int32, POINTER(c_int32)],
    "cache_usage": [c_void_p, POINTER(CUsage)],
    "device_open": [c_char_p, POINTER(c_void_p)],
    "device_stream": [c_void_p, c_void_p],
    "device_wait": [c_void_p],
    "plan_open": [c_void_p, c_void_p, POINTER(CPlanOptions), POINTER(c_void_p)],
    "plan_run": [c_void_p, POINTER(CCall)],
    "plan_follow": [c_void_p, POINTER(CCall), POINTER(c_int64)],
}
_CLOSING = ["pattern_close", "cache_close", "device_close", "plan_close"]


def _candidates() -> Iterator[str]:
    """$S2_LIBRARY, the library that the wheel carries, and one that was installed."""
    if os.environ.get("S2_LIBRARY"):
        yield os.environ["S2_LIBRARY"]
        return
    beside = pathlib.Path(__file__).parent / f"libs2.so.{API_VERSION}"
    if beside.exists():
        yield str(beside)
    yield f"libs2.so.{API_VERSION}"


def _lack_of(library: Any) -> Optional[str]:
    """Why it is not the library that this package is written for, or None."""
    names = [f"s2_api_{name}" for name in ("version", "text_free", "plan_kernel", *_CLOSING, *_FALLIBLE)]
    absent = [name for name in names if not hasattr(library, name)]
    if absent:
        return f"it has no {absent[0]}"
    version = library.s2_api_version()
    if LEAST_VERSION <= version < (API_VERSION + 1) * 1000:
        return None
    return f"its interface is version {version}, and this package needs {LEAST_VERSION} to {API_VERSION}999"


def _load() -> ctypes.CDLL:
    failures = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as failure:
            failures.append(str(failure))
            continue
        lack = _lack_of(library)
        if lack is None:
            return library
        failures.append(f"{path}: {lack}")
    raise ImportError("libs2 is not here: " + "; ".join(failures) + " (make wheel, make install, or S2_LIBRARY=FILE)")


_library = _load()
for _name, _arguments in _FALLIBLE.items():
    getattr(_library, f"s2_api_{_name}").argtypes = [*_arguments, POINTER(CError)]
for _name in _CLOSING:
    getattr(_library, f"s2_api_{_name}").argtypes = [c_void_p]
    getattr(_library, f"s2_api_{_name}").restype = None
_library.s2_api_text_free.argtypes = [POINTER(CText)]
_library.s2_api_text_free.restype = None
_library.s2_api_plan_kernel.argtypes = [c_void_p]
_library.s2_api_plan_kernel.restype = c_char_p


plan_run = _library["s2_api_plan_run"]  # one more, without types: its arguments are converted already


class Run:
    """call("plan_run", ...), where every microsecond counts: again and again, with one structure whose members change."""

    def __init__(self, plan: "Handle", prepared: "CCall") -> None:
        self._why = CError()
        self.arguments = c_void_p(plan.value), byref(prepared), byref(self._why)

    def __call__(self) -> None:
        code = plan_run(*self.arguments)
        if code:
            self.fail(code)

    def fail(self, code: int) -> None:
        _fail(code, self._why)


def call(name: str, *arguments: Any) -> None:
    """Call a function of the library; an exception for every code but 0."""
    why = CError()
    code = getattr(_library, f"s2_api_{name}")(*arguments, byref(why))
    if code:
        _fail(code, why)


def _fail(code: int, why: CError) -> None:
    message = why.message.decode("utf-8", "replace")
    name, colon, said = message.partition(": ")
    if code == -1 and colon:
        message = f"{_NAMED.get(name, name)}: {said}"
    error = _BY_CODE.get(code, DeviceError)(message)
    if isinstance(error, RefusedError):
        error.line, error.column = why.line, why.column
    raise error


def text(name: str, *arguments: Any) -> str:
    """The same for functions whose last output is a text."""
    out = CText()
    call(name, *arguments, byref(out))
    try:
        return ctypes.string_at(out.data, out.size).decode("utf-8", "replace")
    finally:
        _library.s2_api_text_free(byref(out))


def kernel_name(plan: "Handle") -> str:
    name: bytes = _library.s2_api_plan_kernel(plan.value)
    return name.decode()


class Handle:
    """An object of the library's, closed when it is collected."""

    def __init__(self, kind: str, what: str) -> None:
        self._close = getattr(_library, f"s2_api_{kind}_close")
        self._what = what
        self.stream: Any = None  # of a device: the last that it was told; before, it has one of its own
        self.pointer = c_void_p()

    @property
    def value(self) -> int:
        if not self.pointer.value:
            raise ReleasedError(f"{self._what}: it was closed")
        return self.pointer.value

    def close(self) -> None:
        pointer, self.pointer = self.pointer, type(self.pointer)()  # no name of this module: at the end of the process it has none
        if pointer.value:
            self._close(pointer)

    def __del__(self) -> None:
        if hasattr(self, "pointer"):
            self.close()


class Fixed:
    """What the library was told of an object stays: addresses are reckoned from these members, which callers may read."""

    _fixed: frozenset[str] = frozenset()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._fixed and name in self.__dict__:
            raise ArgumentError(f"{name}: a {type(self).__name__}'s cannot be changed; make another")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self._fixed:
            raise ArgumentError(f"{name}: a {type(self).__name__}'s cannot be taken away")
        object.__delattr__(self, name)


def shown(value: Any) -> str:
    """For a message."""
    try:
        return repr(value)[:200]
    except ValueError:  # a number of more than 4300 digits
        return f"this {type(value).__name__}"


def integer(value: Any, name: str, least: int, most: int = 2**31 - 1) -> int:
    """A whole number in a range: neither a bool nor a float, which ctypes would wrap or cut in silence."""
    try:
        number: int = value.__index__()
    except (AttributeError, TypeError):
        raise ArgumentError(f"{name}: a whole number is wanted, not {type(value).__name__}") from None
    if isinstance(value, bool) or not least <= number <= most:
        raise ArgumentError(f"{name}: {shown(value)} is not between {least} and {most}")
    return number


def flag(value: Any, name: str) -> bool:
    if value is not True and value is not False:
        raise ArgumentError(f"{name}: {shown(value)} is neither True nor False")
    return value


def integers(values: Any, name: str, least: int, most: int = 2**31 - 1) -> list[int]:
    """A list of such numbers, or an array's."""
    try:
        values = values.tolist() if hasattr(values, "tolist") else values
    except (RuntimeError, TypeError) as failure:  # a tensor without numbers: on the meta device, sparse, of a symbol
        raise ArgumentError(f"{name}: a list of whole numbers is wanted ({str(failure).splitlines()[0]})") from failure
    if not isinstance(values, (list, tuple, range)):
        raise ArgumentError(f"{name}: a list of whole numbers is wanted, not {type(values).__name__}")
    return [integer(value, name, least, most) for value in values]


def encoded(value: Any, name: str) -> bytes:
    if not isinstance(value, (str, os.PathLike)):
        raise ArgumentError(f"{name}: a text is wanted, not {type(value).__name__}")
    try:
        raw = os.fsencode(value) if isinstance(value, os.PathLike) else str.encode(value, "utf-8", "surrogateescape")
    except UnicodeEncodeError as failure:
        raise ArgumentError(f"{name}: {failure.reason}") from None
    except TypeError as failure:  # a path that is neither text nor bytes
        raise ArgumentError(f"{name}: {failure}") from None
    if b"\0" in raw:
        raise ArgumentError(f"{name}: a NUL byte")
    return raw


def word(value: Any, name: str, words: dict[str, int]) -> int:
    if not isinstance(value, str) or value not in words:
        raise ArgumentError(f"{name}: {shown(value)} is not one of {', '.join(words)}")
    return words[value]


PHASES = {"prefill": 0, "decode": 1}
DTYPES = {"float32": 0, "bfloat16": 1, "float16": 2}
LIMIT_TOK = 1 << 24


