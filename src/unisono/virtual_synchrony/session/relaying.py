"""A message that a controller sends for a client: in front of it, who sent it, with which number and timestamp."""

from __future__ import annotations

from unisono.identity import ProcessId
from unisono.wire.origins import ORIGIN_ROOM_BYTES, put_origin, take_origin

_TIMESTAMP_BYTES = 8
RELAY_ROOM_BYTES = ORIGIN_ROOM_BYTES + _TIMESTAMP_BYTES
"""By so much a message grows at most: as large as a client may send, it is still taken."""


def wrap(source: ProcessId, number: int, timestamp: int, data: bytes) -> bytes:
    return put_origin(source, number, timestamp.to_bytes(_TIMESTAMP_BYTES, "big") + data)


def unwrap(payload: bytes) -> tuple[ProcessId, int, int, bytes] | None:
    """Source, number, timestamp and data; None for what cannot be understood."""
    found = take_origin(payload)
    if found is None or len(found[2]) < _TIMESTAMP_BYTES:
        return None
    source, number, rest = found
    timestamp = int.from_bytes(rest[:_TIMESTAMP_BYTES], "big")
    return (source, number, timestamp, rest[_TIMESTAMP_BYTES:]) if timestamp < 1 << 63 else None
