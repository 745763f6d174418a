"""Rows on their way from a gateway into its group: a batch that was taken on is sent whole, also by the next life.

A batch is written to a log before anything of it is sent, so that it is the same rows in the same order whenever it is
sent. How far sending is, is noted now and then. A life that begins sends again from the note on, which is behind
everything that a member may lack: a sender has at most a window of what not everybody has. In the same way rows are
sent again for a member that was out of the view for a while, when it is back.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import msgspec
from msgspec import Struct

from unisono.errors import GroupError, StorageError
from unisono.events import View, ViewReason
from unisono.identity import ProcessId
from unisono.rows import BATCH_LIMIT, ROWS_LIMIT, check_query, encode
from unisono.trace.log.retained import RetainedLog, sync_directory

_LOG = logging.getLogger(__name__)

_ROW, _BEGIN, _VOID = b"R", b"B", b"V"
"""The first byte of a payload: a message to send, the beginning of a batch, the end of one that stayed incomplete."""
NOTE = "sent.json"
CHUNK_BYTES = 256 << 10
NOTE_BYTES = 16 << 20
"""In a long batch it is noted about every so many bytes how far sending is."""
SEGMENT_BYTES = 4 << 20
HOLD_BYTES = 64 << 20
HOLD_SECONDS = 120.0
"""So much, and for so long, is kept for members that are out of the view."""


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


class _Place(NamedTuple):
    """Where sending begins again, and the beginning of the batch that this is in."""

    offset: int
    begin: int


class _Sent(NamedTuple):
    """Messages that have left, and the number of the last of them in this life."""

    place: _Place
    size: int
    last_number: int


class Outgoing:
    """The rows that one gateway was given to send. Used by one thread at a time, but for what comes from the group."""

    def __init__(self, directory: Path, window_bytes: int) -> None:
        self._log = RetainedLog(directory, SEGMENT_BYTES)
        self._path = directory / NOTE
        self._window_bytes = window_bytes
        self._sent: deque[_Sent] = deque()
        self._unnoted_bytes = 0
        self._lock = threading.Lock()
        """Over what is sent and what is recorded."""
        self._members: tuple[ProcessId, ...] = ()
        self._away: dict[ProcessId, tuple[_Place, float]] = {}
        """Since where, and when, members are out of the view."""
        self._back_from: _Place | None = None
        self._end = 0
        """Up to here everything has been sent."""
        self._number = 0
        self._recorded_number = 0
        try:
            self.note = self._read_note()
            self.again, incomplete = self._parse(self.note.parse_from)
            if incomplete:
                self._log.append([_VOID])
                self._log.sync()
        except BaseException:
            self._log.close()
            raise
        for taken in self.again:
            self._remember(taken.batch)
        self._life_from = _Place(self.note.send_from, self.note.parse_from)
        self._life_since = monotonic()
        self._met: set[ProcessId] | None = set() if self.again else None
        """Whom this life has met; None when it no longer matters who met the one before."""

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

    def messages(self, taken: Taken, send_from: int | None = None) -> Iterator[tuple[int, list[bytes]]]:
        """The messages of a batch in chunks, each with the offset after it; in the first one, what is to send again."""
        offset = max(taken.first, self.note.send_from if send_from is None else send_from)
        while offset < taken.end:
            payloads = self._log.read(offset, CHUNK_BYTES)[: taken.end - offset]
            offset += len(payloads)
            yield offset, [payload[1:] for payload in payloads]

    def on_sent(self, taken: Taken, end: int, messages: list[bytes]) -> None:
        """These messages have left, up to this offset."""
        size = sum(map(len, messages))
        with self._lock:
            self._number += len(messages)
            self._sent.append(_Sent(_Place(end - len(messages), taken.begin), size, self._number))
        self._end = max(self._end, end)
        self._unnoted_bytes += size
        if end < taken.end and self._unnoted_bytes >= NOTE_BYTES:
            self.write_note()

    def on_recorded(self, number: int) -> None:
        """This life's own messages up to this number came back, and are in the gateway's log."""
        with self._lock:
            self._recorded_number = max(self._recorded_number, number)

    def on_view(self, view: View) -> bool:
        """A view begins, after what was recorded. Whether somebody is back that may lack rows, to be sent again.

        Who comes from the same view as this process has what was sent in it. Of what was recorded by now, who is away
        may lack a window; and everything after that. Whom this life has not met may have met the one before, and lacks
        all that was sent since.
        """
        if view.transitional is None:
            return False
        left = {process for process, reason in view.reasons if reason is ViewReason.LEFT}
        with self._lock:
            place = self._unsure()
            for process in self._members:
                if process not in view.transitional and process not in left:
                    self._away.setdefault(process, (place, monotonic()))
            self._members = view.members
            for process in view.members:
                since, _ = self._away.pop(process, (None, 0.0))
                if since is None and self._met is not None and process not in self._met and self._recorded_number:
                    since = self._life_from
                if since is not None:
                    self._back_from = since if self._back_from is None else min(since, self._back_from)
            if self._met is not None:
                self._met.update(view.members)
            return self._back_from is not None

    def lacking(self) -> tuple[int, list[Taken]]:
        """What is to be sent again for those who are back: from which offset on, in which batches."""
        with self._lock:
            place, self._back_from = self._back_from, None
        if place is None or place.begin < self._log.begin:
            return 0, []
        return place.offset, [taken for taken in self._parse(place.begin)[0] if taken.end <= self._end]

    def write_note(self) -> None:
        """Note how far sending is, on disk; what is behind is dropped."""
        with self._lock:
            self._forget()
            places = [sent.place for sent in self._sent] + [place for place, _ in self._away.values()]
            if self._back_from is not None:
                places.append(self._back_from)
            if self._met is not None:
                places.append(self._life_from)
        if places:
            self.note.send_from, self.note.parse_from = min(places)
        self._unnoted_bytes = 0
        new = self._path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(msgspec.json.encode(self.note))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        sync_directory(self._path.parent)
        self._log.retain_from(self.note.parse_from)

    def _unsure(self) -> _Place:
        """From where on not everybody may have what was sent: a window before what came back."""
        return min((sent.place for sent in self._sent), default=self._life_from)

    def _forget(self) -> None:
        """Drop what everybody has that is in the view, and those who have been away for too long."""
        behind = sum(sent.size for sent in self._sent if sent.last_number <= self._recorded_number)
        while self._sent and self._sent[0].last_number <= self._recorded_number:
            behind -= self._sent[0].size
            if behind < self._window_bytes:
                break
            self._sent.popleft()
        latest = monotonic() - HOLD_SECONDS
        too_much = self._log.kept_bytes > HOLD_BYTES
        if self._life_since < latest or too_much:
            self._met = None
        for process, (_, since) in list(self._away.items()):
            if since < latest or too_much:
                _LOG.warning("rows are no longer kept for %s, which is out of the view", process)
                del self._away[process]

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

    def _parse(self, start: int) -> tuple[list[Taken], bool]:
        """The whole batches from where one begins, and whether the last one is incomplete."""
        found: list[Taken] = []
        batch: Batch | None = None
        begin = offset = start
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
