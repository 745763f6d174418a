"""For whom a message was sent: in front of its payload, who asked for it and the number that it has there."""

from __future__ import annotations

from struct import Struct

from unisono.identity import NAME_LIMIT_BYTES, ProcessId, why_bad_name

_HEAD = Struct("<QQB")
ORIGIN_ROOM_BYTES = _HEAD.size + NAME_LIMIT_BYTES
"""The most that it takes."""


def put_origin(origin: ProcessId, number: int, data: bytes) -> bytes:
    name = origin.name.encode()
    return _HEAD.pack(origin.incarnation, number, len(name)) + name + data


def take_origin(payload: bytes) -> tuple[ProcessId, int, bytes] | None:
    """Who asked for it, its number there, and the rest; None for what cannot be understood."""
    if len(payload) < _HEAD.size:
        return None
    incarnation, number, length = _HEAD.unpack_from(payload)
    end = _HEAD.size + length
    try:
        name = payload[_HEAD.size : end].decode()
    except UnicodeDecodeError:
        return None
    if why_bad_name(name) is not None or len(payload) < end or incarnation >> 63 or not 0 < number < 1 << 63:
        return None
    return ProcessId(name, incarnation), number, payload[end:]
