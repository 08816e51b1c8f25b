"""Sharded sparse attention: patterns, proofs, prices, attention, and a cache that evicts.

Thin over libs2, which the wheel carries. NumPy is needed for masks and arrays, torch for tensors (docs/python.md).
"""
from ._lib import (ArgumentError, DeviceError, Error, FileError, LimitError, MemoryFullError, RefusedError, ReleasedError,
                   UnsupportedError)
from . import parallel
from .attention import attention, attention_backward, block_attention
from .cache import Cache, Usage
from .pattern import Check, Finding, Format, Pattern, Price, formats
from .step import Step

__version__ = "0.1.0"
__all__ = ["ArgumentError", "Cache", "Check", "DeviceError", "Error", "FileError", "Finding", "Format", "LimitError",
           "MemoryFullError", "Pattern", "Price", "RefusedError", "ReleasedError", "Step", "UnsupportedError", "Usage", "attention",
           "attention_backward", "block_attention", "formats", "parallel"]
