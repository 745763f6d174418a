"""Rows on their way from a gateway into its group: a batch that was taken on is sent whole, also by the next life.

A batch is written to a log before anything of it is sent, so that it is the same rows in the same order whenever it is
sent. How far sending is, is noted now and then. A life that begins sends again from the note on, which is behind
everything that a member may lack: a sender has at most a window of what not everybody has.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from unisono.errors import GroupError, StorageError
from unisono.rows import BATCH_LIMIT, ROWS_LIMIT, check_query, encode
from unisono.trace.log import RetainedLog, sync_directory

_ROW, _BEGIN, _VOID = b"R", b"B", b"V"
"""The first byte of a payload: a message to send, the beginning of a batch, the end of one that stayed incomplete."""
NOTE = "sent.json"
CHUNK_BYTES = 256 << 10
NOTE_BYTES = 16 << 20
"""In a long batch it is noted about every so many bytes how far sending is."""


class Batch(Struct, frozen=True, array_like=True):
    """A batch of a query that was taken on; its rows follow in the log."""

    query: str
    checkpoint: str
    number: int
    count: int


class QueryNote(Struct):
    """The newest batch of a query that was taken on, and the checkpoint that counts its batches, if that is known."""

    batch: int
    checkpoint: str


class Note(Struct):
    """What is known without reading the log: the queries, and where sending begins again.

    `parse_from` is the beginning of the batch that `send_from` is in.
    """

    version: int = 1
    parse_from: int = 0
    send_from: int = 0
    queries: dict[str, QueryNote] = {}


class Taken(Struct, frozen=True):
    """A batch in the log: its rows have the offsets from `first` to before `end`."""

    batch: Batch
    begin: int
    end: int

    @property
    def first(self) -> int:
        return self.begin + 1


class _Sent(Struct, frozen=True):
    offset: int
    begin: int
    size: int
    last_number: int


class Outgoing:
    """The rows that one gateway was given to send. Used by one thread at a time."""

    def __init__(self, directory: Path, window_bytes: int) -> None:
        self._log = RetainedLog(directory)
        self._path = directory / NOTE
        self._window_bytes = window_bytes
        self._sent: deque[_Sent] = deque()
        self._sent_bytes = 0
        self._unnoted_bytes = 0
        self._number = 0
        self._recorded_number = 0
        try:
            self.note = self._read_note()
            self.again, incomplete = self._parse()
            if incomplete:
                self._log.append([_VOID])
                self._log.sync()
        except BaseException:
            self._log.close()
            raise
        for taken in self.again:
            self._remember(taken.batch)

    def close(self) -> None:
        self._log.close()

    def is_known(self, query: str, checkpoint: str, batch: int) -> bool:
        """Whether this batch was taken on before. An error where the number cannot belong to what was."""
        check_query(query)
        known = self.note.queries.get(query)
        if known is None:
            return False
        if checkpoint and known.checkpoint and checkpoint != known.checkpoint:
            raise GroupError(
                f"query {query!r} was sent here with another checkpoint, up to batch {known.batch}: batches of this one"
                ' would be taken for those; give it another name with .option("query", ...)'
            )
        if batch < known.batch and not (checkpoint and known.checkpoint):
            raise GroupError(
                f"batch {batch} of query {query!r} comes after batch {known.batch}: the checkpoint was removed or set"
                ' back; give the query another name with .option("query", ...)'
            )
        return batch <= known.batch

    def take(self, batch: Batch, rows: Iterable[bytes]) -> Taken:
        """Take a batch on: it is on disk whole when this returns, or not there."""
        if not 0 <= batch.count <= ROWS_LIMIT or not 0 <= batch.number <= BATCH_LIMIT:
            raise GroupError(f"a batch has at most {ROWS_LIMIT} rows, this one has {batch.count}")
        begin = self._log.append([_BEGIN + msgspec.msgpack.encode(batch)])
        written = 0
        try:
            for chunk in _chunks(rows):
                self._log.append(
                    [
                        _ROW + encode(batch.query, batch.number, written + place, batch.count, row)
                        for place, row in enumerate(chunk)
                    ]
                )
                written += len(chunk)
            if written != batch.count:
                raise GroupError(f"batch {batch.number} of {batch.query!r} has {written} rows, not {batch.count}")
        except BaseException:
            self._log.append([_VOID])
            raise
        self._log.sync()
        self._remember(batch)
        return Taken(batch, begin, self._log.end)

    def messages(self, taken: Taken) -> Iterator[tuple[int, list[bytes]]]:
        """The messages of a batch in chunks, each with the offset after it; of the first one, what is to send again."""
        offset = max(taken.first, self.note.send_from)
        while offset < taken.end:
            payloads = self._log.read(offset, CHUNK_BYTES)[: taken.end - offset]
            offset += len(payloads)
            yield offset, [payload[1:] for payload in payloads]

    def on_sent(self, taken: Taken, end: int, messages: list[bytes]) -> None:
        """These messages have left, up to this offset."""
        self._number += len(messages)
        size = sum(map(len, messages))
        self._sent.append(_Sent(end - len(messages), taken.begin, size, self._number))
        self._sent_bytes += size
        self._unnoted_bytes += size
        if end < taken.end and self._unnoted_bytes >= NOTE_BYTES:
            self.write_note()

    def on_recorded(self, number: int) -> None:
        """This life's own messages up to this number are in the gateway's log."""
        self._recorded_number = max(self._recorded_number, number)

    def write_note(self) -> None:
        """Note how far sending is, on disk; what is behind is dropped."""
        while self._sent:
            oldest = self._sent[0]
            behind = self._sent_bytes - oldest.size
            if behind < self._window_bytes or oldest.last_number > self._recorded_number:
                self.note.parse_from, self.note.send_from = oldest.begin, oldest.offset
                break
            self._sent_bytes = behind
            self._sent.popleft()
        self._unnoted_bytes = 0
        new = self._path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(msgspec.json.encode(self.note))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        sync_directory(self._path.parent)
        self._log.retain_from(self.note.parse_from)

    def _remember(self, batch: Batch) -> None:
        known = self.note.queries.get(batch.query)
        if known is None or batch.number >= known.batch:
            checkpoint = batch.checkpoint or (known.checkpoint if known is not None else "")
            self.note.queries[batch.query] = QueryNote(batch.number, checkpoint)

    def _read_note(self) -> Note:
        try:
            note = msgspec.json.decode(self._path.read_bytes(), type=Note)
        except FileNotFoundError:
            return Note()
        except (OSError, msgspec.DecodeError, json.JSONDecodeError) as error:
            raise StorageError(f"cannot read {self._path}: {error}; restore it, or begin anew elsewhere") from error
        if note.version != 1:
            raise StorageError(f"{self._path} has version {note.version}, this one reads 1")
        return note

    def _parse(self) -> tuple[list[Taken], bool]:
        """The whole batches from the note on, and whether the last one is incomplete."""
        found: list[Taken] = []
        batch: Batch | None = None
        begin = offset = self.note.parse_from
        while payloads := self._log.read(offset):
            for payload in payloads:
                kind = payload[:1]
                if kind == _BEGIN:
                    batch, begin = msgspec.msgpack.decode(payload[1:], type=Batch), offset
                elif kind == _VOID:
                    batch = None
                offset += 1
                if batch is not None and offset == begin + 1 + batch.count:
                    found.append(Taken(batch, begin, offset))
                    batch = None
        return found, batch is not None


def _chunks(rows: Iterable[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += len(row)
        if size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
