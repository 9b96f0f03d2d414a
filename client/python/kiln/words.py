"""PyTorch's words in the wire's (dtypes, devices, memory formats), and errors in words."""

from __future__ import annotations

import torch

from . import _native
from .settings import WrongSetting


class Unsupported(Exception):
    """What the wire cannot say, in words. ``node`` is the FX node that is the matter, if one is."""

    def __init__(self, what: str, node: torch.fx.Node | None = None) -> None:
        super().__init__(what)
        self.node = node


def words_of(error: Exception) -> str:
    """An error in words, with its reason where Kiln gave one."""
    if isinstance(error, (_native.Error, Unsupported, WrongSetting)):
        return str(error)
    return f"{type(error).__name__}: {error}"


# The enumerators of kiln.wire.DType that Kiln computes with.
_DTYPES = {
    torch.bool: 1,
    torch.uint8: 2,
    torch.int8: 3,
    torch.int16: 4,
    torch.int32: 5,
    torch.int64: 6,
    torch.float16: 7,
    torch.bfloat16: 8,
    torch.float32: 9,
    torch.float64: 10,
}

_DEVICES = {"cpu": 1, "cuda": 2}

_MEMORY_FORMATS = {
    torch.contiguous_format: 1,
    torch.preserve_format: 2,
    torch.channels_last: 3,
    torch.channels_last_3d: 4,
}


def dtype_number(dtype: torch.dtype) -> int:
    """kiln.wire.DType of a PyTorch dtype."""
    number = _DTYPES.get(dtype)
    if number is None:
        raise Unsupported(f"dtype {str(dtype).removeprefix('torch.')}")
    return number


def device_number(device: torch.device) -> int:
    """kiln.wire.DeviceType of a PyTorch device. The ordinal is no part of a graph."""
    number = _DEVICES.get(device.type)
    if number is None:
        raise Unsupported(f"device {device.type}")
    return number


def memory_format_number(memory_format: torch.memory_format) -> int:
    """kiln.wire.MemoryFormat of a PyTorch memory format."""
    return _MEMORY_FORMATS[memory_format]
