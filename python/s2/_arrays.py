"""NumPy arrays and torch tensors as what the library takes: an address, distances, a type and a device."""
from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
from typing import Any, Collection

from ._lib import DTYPES, ArgumentError, CRows, CTensor, MemoryFullError


@dataclasses.dataclass(frozen=True)
class View:
    name: str  # of the argument, for messages
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    dtype: str
    device: str  # "cpu" or "gpu:N"

    def tensor(self) -> CTensor:
        """As [sequence][token][head][d]; the last three or four axes are (sequence,) head, token, d."""
        sequence = self.strides[0] if len(self.shape) == 4 else 0
        return CTensor(self.address, sequence, self.strides[-2], self.strides[-3])

    def rows(self) -> CRows:
        """An lse: (sequence,) head, token."""
        return CRows(self.address, self.strides[0] if len(self.shape) == 3 else 0, self.strides[-2])


def is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _torch_view(value: Any, name: str) -> View:
    torch = sys.modules["torch"]
    if value.layout is not torch.strided or value.device.type not in ("cpu", "cuda"):
        raise ArgumentError(f"{name}: a dense tensor on a CPU or a CUDA device is wanted, not {value.layout} on {value.device}")
    if value.is_nested:
        raise ArgumentError(f"{name}: a dense tensor is wanted, not a nested one")
    if value.is_neg() or value.is_conj():
        raise ArgumentError(f"{name}: a view that is yet to be negated or conjugated; resolve it first")
    device = "cpu" if value.device.type == "cpu" else f"gpu:{value.device.index}"
    return View(name, value.data_ptr(), tuple(value.shape), tuple(value.stride()), str(value.dtype).removeprefix("torch."), device)


def _numpy_view(value: Any, name: str) -> View:
    if any(stride % value.itemsize for stride in value.strides):
        raise ArgumentError(f"{name}: strides must be whole elements")
    if hasattr(value, "mask"):
        raise ArgumentError(f"{name}: a masked array, whose mask would be ignored; fill it first")
    if not value.dtype.isnative:
        raise ArgumentError(f"{name}: bytes are in the other order")
    return View(name, value.ctypes.data, value.shape, tuple(stride // value.itemsize for stride in value.strides),
                value.dtype.name, "cpu")


def _any_view(value: Any, name: str) -> View:
    if is_torch(value):
        return _torch_view(value, name)
    if type(value).__module__.split(".")[0] == "numpy" and hasattr(value, "ctypes"):
        return _numpy_view(value, name)
    raise ArgumentError(f"{name}: a NumPy array or a torch tensor is wanted, not {type(value).__name__}")


def view(value: Any, name: str, dims: tuple[int, ...] = (3, 4), dtypes: Collection[str] = DTYPES) -> View:
    """Checked as far as an argument can be by itself."""
    found = _any_view(value, name)
    if found.dtype not in dtypes:
        raise ArgumentError(f"{name}: dtype {found.dtype} is not {'one of ' if len(dtypes) > 1 else ''}{', '.join(dtypes)}")
    if len(found.shape) not in dims:
        raise ArgumentError(f"{name}: {' or '.join(map(str, dims))} dimensions are wanted, not {len(found.shape)}")
    if any(extent < 1 for extent in found.shape):
        raise ArgumentError(f"{name}: shape {found.shape} is empty")
    if found.strides[-1] != 1 and found.shape[-1] > 1:
        raise ArgumentError(f"{name}: stride {found.strides[-1]} in the last dimension, which must be contiguous")
    if any(stride < 0 for stride in found.strides):
        raise ArgumentError(f"{name}: a stride is negative")
    if found.address % 16 != 0:
        raise ArgumentError(f"{name}: its data must begin at a multiple of 16 bytes")
    return found


def like(first: Any, value: Any, name: str, dims: tuple[int, ...] = (3, 4)) -> View:
    """The same, of the kind of the first: a NumPy array beside a tensor would lose the tensor's gradients without a word."""
    found = view(value, name, dims)
    _same_kind(first, value, name)
    return found


def _same_kind(first: Any, value: Any, name: str) -> None:
    if is_torch(first) is not is_torch(value):
        kind = "a torch tensor" if is_torch(first) else "a NumPy array"
        raise ArgumentError(f"{name}: {kind} is wanted, as the first argument is, not {type(value).__name__}")


def numbers(first: Any, value: Any, name: str, dims: int) -> View:
    """Whole numbers, int32 and contiguous, of the kind of the first and where it is."""
    found = _any_view(value, name)
    _same_kind(first, value, name)
    behind = [math.prod(found.shape[at + 1:]) for at in range(len(found.shape))]
    together = all(stride == step for extent, stride, step in zip(found.shape, found.strides, behind) if extent > 1)
    if found.dtype != "int32" or len(found.shape) != dims or 0 in found.shape or not together or found.address % 4 != 0:
        raise ArgumentError(f"{name}: contiguous int32 of {dims} dimensions is wanted, not {found.dtype} of shape {found.shape}, strides {found.strides}")
    where = _any_view(first, "q").device
    if found.device != where:
        raise ArgumentError(f"{name}: on {found.device}, and q is on {where}")
    return found


def alike(first: View, other: View) -> None:
    """All arrays have one type and lie on one device."""
    if other.dtype != first.dtype:
        raise ArgumentError(f"{other.name}: dtype {other.dtype}, and {first.name} has {first.dtype}")
    if other.device != first.device:
        raise ArgumentError(f"{other.name}: on {other.device}, and {first.name} is on {first.device}")


def same_shape(first: View, other: View) -> None:
    alike(first, other)
    if other.shape != first.shape:
        raise ArgumentError(f"{other.name}: shape {other.shape}, and {first.name} has {first.shape}")


def lasting(like: Any) -> Any:
    """A context whose tensors are written to at any time later: one that is made in torch.inference_mode only there."""
    return sys.modules["torch"].inference_mode(False) if is_torch(like) else contextlib.nullcontext()


def empty(like: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """A new array of the same kind on the same device, aligned, rows of d contiguous."""
    if is_torch(like):
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, dtype), device=like.device)
    import numpy

    kind = like.dtype if dtype == like.dtype.name else numpy.dtype(dtype)
    count = 1
    for extent in shape:
        count *= extent
    try:
        raw = numpy.empty(count * kind.itemsize + 16, dtype=numpy.uint8)
    except (MemoryError, ValueError) as failure:  # the latter of more bytes than an address has
        raise MemoryFullError(f"no memory for an array of shape {shape} of {dtype}") from failure
    start = -raw.ctypes.data % 16
    return raw[start:start + count * kind.itemsize].view(kind).reshape(shape)
