"""Protobuf's wire format, as much of it as proto/graph.proto needs.

Written by hand so that no protobuf package stands in the user's process, where it might clash with
another version. A message is ``bytes``; each function gives one field of one, with its tag. Tests
hold the result against the real parser.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

_VARINT = 0
_FIXED64 = 1
_BYTES = 2


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def uint(number: int, value: int) -> bytes:
    """A field of type uint32, uint64, bool or enum. OverflowError below 0 and beyond 64 bits."""
    if not 0 <= value < 1 << 64:
        raise OverflowError(f"{value} does not fit 64 bits without a sign")
    return _varint(number << 3 | _VARINT) + _varint(value)


def sint(number: int, value: int) -> bytes:
    """A field of type sint64. OverflowError beyond 64 bits."""
    if not -(1 << 63) <= value < 1 << 63:
        raise OverflowError(f"{value} does not fit 64 bits")
    return uint(number, value << 1 if value >= 0 else (-value << 1) - 1)


def double(number: int, value: float) -> bytes:
    """A field of type double."""
    return _varint(number << 3 | _FIXED64) + struct.pack("<d", value)


def data(number: int, value: bytes) -> bytes:
    """A field of type bytes, or of a message that is written already."""
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def text(number: int, value: str) -> bytes:
    """A field of type string."""
    return data(number, value.encode())


def each(number: int, values: Iterable[bytes]) -> bytes:
    """A repeated message field."""
    return b"".join(data(number, value) for value in values)
