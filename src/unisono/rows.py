"""Rows that a Spark query sends into a group: each is had once, although gateways and queries start again.

    async for row in unisono.rows.rows(group):
        print(row.query, row.batch, row.number, row.data)

A row says of which query and batch it is and its number in there. A gateway repeats the rows that perhaps not
everybody has, after a restart or when a member comes back, and the members drop those that they had.
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
OPEN_LIMIT = 64
"""Of so many batches that were not had whole it is remembered which rows were."""
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
    """What was had of one query, since its first row that came here."""

    __slots__ = ("done", "first", "open")

    def __init__(self, batch: int, number: int) -> None:
        self.first = (batch, number)
        self.done = Spans(GAPS_LIMIT)
        """Batches of which every row was had."""
        self.open: dict[int, Spans] = {}
        """The rows that were had of the others."""

    def add(self, batch: int, number: int, count: int) -> bool:
        """Take one row; False where it was had."""
        if (batch, number) < self.first or batch in self.done:
            return False
        numbers = self.open.get(batch)
        if numbers is None:
            numbers = self.open[batch] = self._begun(batch)
        if number in numbers:
            return False
        numbers.add(number, number)
        if not numbers.missing(0, count - 1):
            self._end(batch)
        elif len(self.open) > OPEN_LIMIT:
            self._end(min(self.open))
        return True

    def _begun(self, batch: int) -> Spans:
        numbers = Spans(GAPS_LIMIT)
        if batch == self.first[0] and self.first[1]:
            numbers.add(0, self.first[1] - 1)
        return numbers

    def _end(self, batch: int) -> None:
        del self.open[batch]
        self.done.add(batch, batch)


class _Saved(Struct, array_like=True):
    first: tuple[int, int]
    done: list[tuple[int, int]]
    open: dict[int, list[tuple[int, int]]]


class RowFilter:
    """Gives each row once. One for each member and group, kept for as long as the member lives.

    It remembers of each query which batches were had whole, and of those that were not, which rows: so a row that was
    missed is taken when it is sent again, also after later ones. Both lists are bounded; what does not fit counts as
    had. The first row that comes of a query is where this member came in: what is before it is not for it.
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
        self._had[row.query] = had
        if had.add(row.batch, row.number, row.count):
            self.taken += 1
            return True
        self.repeated += 1
        return False

    def save(self) -> bytes:
        """What was had, for who keeps it over a restart or hands it to a newcomer with the group's state."""
        return msgspec.msgpack.encode(
            {
                query: _Saved(
                    had.first, had.done.spans(), {batch: numbers.spans() for batch, numbers in had.open.items()}
                )
                for query, had in self._had.items()
            }
        )

    def load(self, saved: bytes) -> None:
        """Take what was saved in place of what is remembered now."""
        self._had.clear()
        for query, told in msgspec.msgpack.decode(saved, type=dict[str, _Saved]).items():
            had = self._had[query] = _Had(*told.first)
            for first, last in told.done:
                had.done.add(first, last)
            for batch, spans in told.open.items():
                numbers = had.open[batch] = Spans(GAPS_LIMIT)
                for first, last in spans:
                    numbers.add(first, last)


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
