"""What a gateway writes down of its group: every event it is given, each message once over all of its lives.

Of every source it knows how far it has got, so that a message that came before is left out, and one that is missing is
told as a gap, with its numbers. That knowledge is saved now and then, and else read from the log itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from unisono.errors import StorageError
from unisono.events import DroppedOut, Excluded, LeftBehind, Message, SourceUnavailable, View
from unisono.identity import ProcessId
from unisono.rows import Row, RowFilter, decode
from unisono.trace import group_log
from unisono.trace.group_log import Entry
from unisono.trace.log.retained import RetainedLog, sync_directory

KNOWN = "known.msgpack"
SOURCES_LIMIT = 10_000
"""Of so many sources it is known how far they are; the one that was silent for longest is forgotten first."""
SAVED_EVERY_BYTES = 16 << 20


class _Saved(Struct, array_like=True):
    version: int
    offset: int
    sources: list[tuple[str, int, int]]
    rows: bytes


class Recording:
    """The log of one gateway, and what of its group is in it. Used by one thread at a time."""

    def __init__(self, directory: Path, group: str, retain_bytes: int | None = None) -> None:
        self.group = group
        self.log = RetainedLog(directory, retain_bytes=retain_bytes)
        self._path = directory / KNOWN
        self._last: dict[ProcessId, int] = {}
        self._rows = RowFilter()
        self._unsaved_bytes = 0
        self.messages = self.repeated = self.gaps = 0
        """How many messages this life wrote, left out because they were there, and found to be missing."""
        try:
            self._recall()
        except BaseException:
            self.log.close()
            raise

    @property
    def repeated_rows(self) -> int:
        return self._rows.repeated

    def begin_life(self, process: ProcessId) -> None:
        """Say that a new life begins here: what was sent since the last one ended may not be in the log."""
        told = {"says": "the gateway joined here; what was sent while it was away is not in its log"}
        self.write([self._entry("started", process, told)])

    def write(self, entries: Sequence[Entry]) -> None:
        """Put entries behind the others; on disk when this returns."""
        if not entries:
            return
        payloads = [group_log.encode(entry) for entry in entries]
        self.log.append(payloads)
        self.log.sync()
        self._unsaved_bytes += sum(map(len, payloads))
        if self._unsaved_bytes >= SAVED_EVERY_BYTES:
            self.save()

    def entries(self, events: Sequence[object]) -> list[Entry]:
        """What is to be written of these events, in their order."""
        found: list[Entry] = []
        for event in events:
            if isinstance(event, Message):
                self._on_message(event, found)
            elif isinstance(event, View):
                found.append(self._view(event))
            elif isinstance(event, Excluded):
                found.append(self._entry("excluded", None, {}, view=str(event.view)))
            elif isinstance(event, DroppedOut):
                found.append(self._entry("dropped out", None, {"reason": event.reason}))
            elif isinstance(event, LeftBehind):
                found.append(self._entry("left behind", event.source, {}))
            elif isinstance(event, SourceUnavailable):
                found.append(self._entry("unavailable", event.source, {}))
        return found

    def save(self) -> None:
        """Keep what is known, so that the next life need not read the whole log."""
        sources = [(source.name, source.incarnation, number) for source, number in self._last.items()]
        saved = msgspec.msgpack.encode(_Saved(1, self.log.end, sources, self._rows.save()))
        new = self._path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(saved)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        sync_directory(self._path.parent)
        self._unsaved_bytes = 0

    def close(self) -> None:
        self.save()
        self.log.close()

    def _on_message(self, message: Message, found: list[Entry]) -> None:
        carrier, number = message.carrier, message.carrier_number
        last = self._advance(carrier, number)
        if last is not None and number <= last:
            self.repeated += 1
            return
        if last is not None and number > last + 1:
            self.gaps += number - last - 1
            missing = {"first": last + 1, "last": number - 1}
            found.append(self._entry("gap", carrier, missing, number=last + 1))
        row = decode(message.data)
        if row is not None and not self._rows.is_new(row):
            return
        self.messages += 1
        found.append(self._message(message, row))

    def _advance(self, source: ProcessId, number: int) -> int | None:
        """Note how far a source is; how far it was."""
        last = self._last.pop(source, None)
        if last is None and len(self._last) >= SOURCES_LIMIT:
            del self._last[next(iter(self._last))]
        self._last[source] = number if last is None else max(last, number)
        return last

    def _message(self, message: Message, row: Row | None) -> Entry:
        return Entry(
            "message",
            self.group,
            message.source.name,
            message.source.incarnation,
            message.number,
            message.timestamp,
            None if message.view is None else str(message.view),
            message.data if row is None else row.data,
            None if row is None else row.query,
            None if row is None else row.batch,
            None if row is None else row.number,
            None if message.by is None else (*message.by, message.by_number),
            None if row is None else row.count,
        )

    def _view(self, view: View) -> Entry:
        told = {
            "members": [str(process) for process in view.members],
            "reasons": {str(process): str(reason) for process, reason in view.reasons},
        }
        return self._entry("view", None, told, view=str(view.id))

    def _entry(
        self,
        kind: group_log.EntryKind,
        source: ProcessId | None,
        told: Mapping[str, object],
        number: int | None = None,
        view: str | None = None,
    ) -> Entry:
        name, incarnation = (None, None) if source is None else source
        data = json.dumps(told, ensure_ascii=False).encode()
        return Entry(kind, self.group, name, incarnation, number, None, view, data)

    def _recall(self) -> None:
        """Know what the lives before knew: what they saved, and what they wrote after that."""
        offset = self.log.begin
        try:
            saved = msgspec.msgpack.decode(self._path.read_bytes(), type=_Saved)
        except FileNotFoundError:
            pass
        except (OSError, msgspec.DecodeError) as error:
            raise StorageError(f"cannot read {self._path}: {error}; remove it, and it is made anew") from error
        else:
            if saved.version == 1 and offset <= saved.offset <= self.log.end:
                offset = saved.offset
                self._last = {ProcessId(name, incarnation): number for name, incarnation, number in saved.sources}
                self._rows.load(saved.rows)
        while offset < self.log.end:
            payloads = self.log.read(offset)
            for payload in payloads:
                self._recall_entry(group_log.decode(payload))
            offset += len(payloads)

    def _recall_entry(self, entry: Entry) -> None:
        if entry.group != self.group:
            raise StorageError(
                f"this is the log of group {entry.group!r}, not of {self.group!r}; choose another --data"
            )
        if entry.kind != "message" or entry.source is None or entry.incarnation is None or entry.number is None:
            return
        name, incarnation, number = entry.carrier or (entry.source, entry.incarnation, entry.number)
        self._advance(ProcessId(name, incarnation), number)
        if entry.query is not None and entry.batch is not None and entry.row is not None and entry.rows is not None:
            self._rows.is_new(Row(entry.query, entry.batch, entry.row, entry.rows, b""))
