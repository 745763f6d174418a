"""Rows that a Spark query sends into a group: each is had once, although gateways and queries start again.

    async for row in unisono.rows.rows(group):
        print(row.query, row.batch, row.number, row.data)

A row says of which query and batch it is and its number in there. A gateway that starts again repeats the rows that
perhaps not everybody has, in the same order, and the members drop those that they had.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator

import msgspec
from msgspec import Struct
from xxhash import xxh3_64_intdigest

from unisono.errors import SettingError
from unisono.events import Message
from unisono.identity import NAME_LIMIT_BYTES, ProcessId, why_bad_name
from unisono.reliable.spans import Spans

MAGIC = b"\x93row"
_HEADER = struct.Struct("<4sIQIIB")
"""The magic word, a check over the rest of the header, batch, number, the batch's count, the query's length."""
_CHECKED_FROM = 8
HEADER_LIMIT_BYTES = _HEADER.size + NAME_LIMIT_BYTES
ROWS_LIMIT = (1 << 32) - 1
"""A batch has at most so many rows."""
BATCH_LIMIT = (1 << 63) - 1
QUERIES_LIMIT = 1024
"""Of so many queries it is remembered what was had; the one that was silent for longest is forgotten first."""
GAPS_LIMIT = 256


class Row(Struct, frozen=True):
    """One row: `number` of the `count` rows in this batch of a query, and its bytes; `gateway` sent it."""

    query: str
    batch: int
    number: int
    count: int
    data: bytes
    gateway: ProcessId | None = None


def encode(query: str, batch: int, number: int, count: int, data: bytes) -> bytes:
    """A row as the message that carries it."""
    name = query.encode()
    header = _HEADER.pack(MAGIC, 0, batch, number, count, len(name)) + name
    check = xxh3_64_intdigest(header[_CHECKED_FROM:]) >> 32
    return header[:4] + check.to_bytes(4, "little") + header[_CHECKED_FROM:] + data


def decode(data: bytes, gateway: ProcessId | None = None) -> Row | None:
    """The row in a message, or None: any other message is none, whatever its bytes are."""
    if not data.startswith(MAGIC) or len(data) < _HEADER.size:
        return None
    _, check, batch, number, count, length = _HEADER.unpack_from(data)
    end = _HEADER.size + length
    if len(data) < end or xxh3_64_intdigest(data[_CHECKED_FROM:end]) >> 32 != check:
        return None
    try:
        query = data[_HEADER.size : end].decode()
    except UnicodeDecodeError:
        return None
    return Row(query, batch, number, count, data[end:], gateway)


def check_query(query: str) -> str:
    """The name of a query, if it can be one."""
    if (complaint := why_bad_name(query)) is not None:
        raise SettingError("query", complaint)
    return query


class _Had:
    """What was had of one query: everything of earlier batches, and these numbers of the newest."""

    __slots__ = ("batch", "numbers")

    def __init__(self, batch: int, below: int) -> None:
        self.batch = batch
        self.numbers = Spans(GAPS_LIMIT)
        if below:
            self.numbers.add(0, below - 1)


class RowFilter:
    """Gives each row once. One for each member and group, kept for as long as the member lives.

    It remembers of each query its newest batch, and the numbers that came of that. Rows of a query come in the order in
    which they were sent; so a row of an earlier batch was had, or was sent before this member came. The first row that
    comes of a query is where this member came in: what is before it is not for it, also when it is repeated later.
    """

    def __init__(self, queries_limit: int = QUERIES_LIMIT) -> None:
        self._limit = queries_limit
        self._had: dict[str, _Had] = {}
        self.taken = 0
        """How many rows were given."""
        self.repeated = 0
        """How many were dropped."""

    def take(self, event: object) -> Row | None:
        """The row in a message, if there is one in it that was not had before; of any other event None."""
        if not isinstance(event, Message):
            return None
        row = decode(event.data, event.source)
        return row if row is not None and self.is_new(row) else None

    def is_new(self, row: Row) -> bool:
        """Whether this row comes for the first time; from now on it was had."""
        had = self._had.pop(row.query, None)
        if had is None:
            had = _Had(row.batch, row.number)
            if len(self._had) >= self._limit:
                del self._had[next(iter(self._had))]
        elif row.batch > had.batch:
            had = _Had(row.batch, 0)
        self._had[row.query] = had
        if row.batch < had.batch or row.number in had.numbers:
            self.repeated += 1
            return False
        had.numbers.add(row.number, row.number)
        self.taken += 1
        return True

    def save(self) -> bytes:
        """What was had, for who keeps it over a restart or hands it to a newcomer with the group's state."""
        told = {query: (had.batch, had.numbers.spans()) for query, had in self._had.items()}
        return msgspec.msgpack.encode(told)

    def load(self, saved: bytes) -> None:
        """Take what was saved in place of what is remembered now."""
        told = msgspec.msgpack.decode(saved, type=dict[str, tuple[int, list[tuple[int, int]]]])
        self._had.clear()
        for query, (batch, spans) in told.items():
            had = self._had[query] = _Had(batch, 0)
            for first, last in spans:
                had.numbers.add(first, last)


async def rows(group: AsyncIterable[object], had: RowFilter | None = None) -> AsyncIterator[Row]:
    """The rows that come to a group, each once; other messages and events are passed over.

    Who wants those too iterates over the group and asks a `RowFilter` about each event.
    """
    had = RowFilter() if had is None else had
    async for event in group:
        if (row := had.take(event)) is not None:
            yield row


def rows_of(events: Iterable[object], had: RowFilter | None = None) -> Iterator[Row]:
    """The same for `unisono.sync` groups, or a list of events."""
    had = RowFilter() if had is None else had
    for event in events:
        if (row := had.take(event)) is not None:
            yield row
