"""What a gateway keeps of its group: one entry an event, in the order in which it was given, in a retained log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from unisono.errors import TraceError

EntryKind = Literal["message", "view", "gap", "excluded", "dropped out", "left behind", "unavailable", "started"]
"""A message, a view, or what a gateway says of itself: it started, or messages that it did not get stand here."""


class Entry(Struct, frozen=True, array_like=True):
    """One event of a group; what does not apply is None.

    `source` with its `incarnation` sent the `number`th message, or is whom a view change, a gap or another event is
    about. `timestamp` is logical. `data` is the message; of another event, JSON with what else is to be said. A message
    that is a row of a sink has the `query` and `batch` that it comes from and its number there (`row`); its `data` is
    the row.
    """

    kind: EntryKind
    group: str
    source: str | None
    incarnation: int | None
    number: int | None
    timestamp: int | None
    view: str | None
    data: bytes
    query: str | None = None
    batch: int | None = None
    row: int | None = None
    carrier: tuple[str, int, int] | None = None
    """Who sent it for its source, and as its how manieth message; no column of the table, and neither is the next."""
    rows: int | None = None
    """How many rows the batch has."""


_decoder = msgspec.msgpack.Decoder(Entry)
_encoder = msgspec.msgpack.Encoder()


def encode(entry: Entry) -> bytes:
    """One payload of the log."""
    return _encoder.encode(entry)


def decode(payload: bytes) -> Entry:
    """The entry in a payload; anything else is an error that says so."""
    try:
        return _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise TraceError("this is not the log of a gateway; a collector is read with the option `collector`") from None


def decode_all(payloads: Sequence[bytes]) -> list[Entry]:
    """The entries of many payloads, in order."""
    return [decode(payload) for payload in payloads]
