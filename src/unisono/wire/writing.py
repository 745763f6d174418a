"""Packets to bytes: packs many messages into a datagram and leaves room for seal and repair envelope."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from unisono.identity import NAME_LIMIT_BYTES, NO_VIEW, ProcessId, ViewMark
from unisono.sealing import SEAL_ROOM_BYTES, Seal
from unisono.wire.layout import (
    CONTROL,
    CONTROL_HEAD,
    DATA,
    DATA_HEAD,
    FRAGMENT_HEAD,
    HEADER,
    MAGIC,
    MESSAGE_HEAD,
    REPAIR,
    VERSION,
    body_room,
)
from unisono.wire.messages import FRAGMENT, RANGE_LIMIT, ControlMessage, DataMessage, Report, ReportEntry
from unisono.wire.part_messages import PART_ROOM_BYTES, MessagePart, parted


class DatagramWriter:
    """Writes the datagrams of one process in one group."""

    __slots__ = ("_control", "_data", "_repair", "_room", "_seal", "control_room", "data_room")

    def __init__(self, source: ProcessId, group: int, seal: Seal, datagram_bytes: int) -> None:
        name = source.name.encode()
        self._seal = seal
        self._data, self._control, self._repair = (
            HEADER.pack(MAGIC, VERSION, kind, group, source.incarnation, len(name)) + name
            for kind in (DATA, CONTROL, REPAIR)
        )
        self._room = body_room(datagram_bytes, source.name)
        self.data_room = self._room - DATA_HEAD.size
        self.control_room = datagram_bytes - len(self._control) - SEAL_ROOM_BYTES - CONTROL_HEAD.size
        """The longest body of a control message that is alone in its datagram; nobody repairs those."""
        assert self.fragment_room > 0, "settings bound the datagram size"

    @property
    def fragment_room(self) -> int:
        """The largest payload of a fragment."""
        return self.data_room - MESSAGE_HEAD.size - FRAGMENT_HEAD.size

    @property
    def range_room(self) -> int:
        """How many ranges a repair request may name to fit a datagram, whatever the numbers are."""
        return min(RANGE_LIMIT, max(1, (self._room - _REQUEST_HEAD_BYTES) // _RANGE_BYTES))

    def data(self, batch: Sequence[DataMessage], stable: int = 0, view: ViewMark = NO_VIEW) -> bytes:
        """One sealed data datagram of consecutive messages; all receivers have what the source sent up to `stable`."""
        first = batch[0]
        head = DATA_HEAD.pack(first.sequence, first.number, first.timestamp, stable, *view, len(batch))
        parts = [self._data, head]
        last = first.timestamp
        for message in batch:
            parts.append(MESSAGE_HEAD.pack(message.flags, message.timestamp - last, len(message.payload)))
            last = message.timestamp
            if message.flags & FRAGMENT:
                parts.append(FRAGMENT_HEAD.pack(message.index, message.count))
            parts.append(message.payload)
        return self._seal.seal(b"".join(parts))

    def control(self, messages: Iterable[ControlMessage]) -> list[bytes]:
        """Sealed control datagrams that hold the messages in order, as few as fit; what fits none goes in parts."""
        datagrams: list[bytes] = []
        parts: list[bytes] = []
        left = self._room
        for code, body in self._fitting(messages):
            size = CONTROL_HEAD.size + len(body)
            if parts and size > left:
                datagrams.append(self._seal.seal(self._control + b"".join(parts)))
                parts, left = [], self._room
            parts += (CONTROL_HEAD.pack(code, len(body)), body)
            left = 0 if code == MessagePart.code else left - size  # what follows a part is read after it
        if parts:
            datagrams.append(self._seal.seal(self._control + b"".join(parts)))
        return datagrams

    def _fitting(self, messages: Iterable[ControlMessage]) -> Iterator[tuple[int, bytes]]:
        """Each message by its code and body, or the parts of one that is larger than a datagram."""
        for message in messages:
            body = msgspec.msgpack.encode(message)
            if len(body) <= self.control_room:
                yield message.code, body
                continue
            for part in parted(message.code, body, self.control_room - PART_ROOM_BYTES):
                yield part.code, msgspec.msgpack.encode(part)

    def reports(self, entries: Sequence[ReportEntry]) -> list[Report]:
        """Reports that each fit a datagram, however many sources there are."""
        reports: list[Report] = []
        chunk: list[ReportEntry] = []
        left = self._room - CONTROL_HEAD.size - _REPORT_HEAD_BYTES
        for entry in entries:
            size = len(msgspec.msgpack.encode(entry))
            if chunk and size > left:
                reports.append(Report(tuple(chunk)))
                chunk, left = [], self._room - CONTROL_HEAD.size - _REPORT_HEAD_BYTES
            chunk.append(entry)
            left -= size
        if chunk:
            reports.append(Report(tuple(chunk)))
        return reports

    def repair(self, sealed: bytes) -> bytes:
        """A datagram as it was first sent, in the envelope of a repair."""
        return self._seal.seal(self._repair + sealed)


_REPORT_HEAD_BYTES = 8
_REQUEST_HEAD_BYTES = CONTROL_HEAD.size + NAME_LIMIT_BYTES + 80
_RANGE_BYTES = 19
"""An array of two numbers of nine bytes each."""
