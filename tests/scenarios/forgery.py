"""Datagrams that are sealed well and that no engine would send."""

from __future__ import annotations

import msgspec

from tests.scenarios.world import DEFAULT_GROUP, Station
from unisono.identity import ProcessId
from unisono.sealing import NullSeal
from unisono.wire.layout import CONTROL, CONTROL_HEAD, HEADER, MAGIC, VERSION, group_number
from unisono.wire.messages import FRAGMENT, DataMessage, Deactivation
from unisono.wire.writing import DatagramWriter

_GROUP = group_number("", DEFAULT_GROUP)


def fragment(sender: Station, sequence: int, index: int, count: int, payload: bytes) -> bytes:
    """A fragment of any index and count."""
    writer = DatagramWriter(_process(sender), _GROUP, NullSeal(), 1400)
    return writer.data([DataMessage(sequence, 1, sender.clock_offset + 1, FRAGMENT, index, count, payload)])


def bad_name(sender: Station) -> bytes:
    """A deactivation for a process whose name is not UTF-8."""
    body = msgspec.msgpack.encode(Deactivation(ProcessId("?", 1), 1)).replace(b"?", b"\xff")
    name, incarnation = _process(sender)
    header = HEADER.pack(MAGIC, VERSION, CONTROL, _GROUP, incarnation, len(name.encode())) + name.encode()
    return NullSeal().seal(header + CONTROL_HEAD.pack(Deactivation.code, len(body)) + body)


def _process(station: Station) -> ProcessId:
    assert station.node is not None
    assert station.node.process is not None
    return station.node.process
