"""Datagrams that are sealed well and that no engine would send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tests.scenarios.world import DEFAULT_GROUP, EPOCH, World
from unisono.identity import NO_VIEW, ProcessId
from unisono.sealing import NullSeal
from unisono.units import parse_duration
from unisono.wire.layout import CONTROL, CONTROL_HEAD, HEADER, MAGIC, VERSION, group_number
from unisono.wire.messages import FRAGMENT, DataMessage, Deactivation, KeepAlive, Range, RepairRequest, Whereabouts
from unisono.wire.writing import DatagramWriter

_GROUP = group_number("", DEFAULT_GROUP)
Options = Mapping[str, str]


class Forger:
    """Writes in the name of any process of a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def datagrams(self, sender: ProcessId, kind: str, details: Sequence[str], options: Options) -> list[bytes]:
        """What a `forge` command describes; raises ValueError when it describes nothing."""
        match kind, *details:
            case ["fragment", sequence, part, text]:
                index, _, count = part.partition("/")
                message = DataMessage(int(sequence), 1, 1, FRAGMENT, int(index) - 1, int(count), text.encode())
                return [_writer(sender).data([message])]
            case ["data", sequence, text]:
                self._world.sent.add(text.encode())
                number = int(options.get("number", sequence))
                message = DataMessage(int(sequence), number, self._time(options), 0, 0, 1, text.encode())
                sealed = _writer(sender).data([message], int(options.get("stable", "0")))
                return [_writer(self._life(options["by"])).repair(sealed) if "by" in options else sealed]
            case ["keep-alive", sequence]:
                stable, listeners = int(options.get("stable", "0")), int(options.get("listeners", "1"))
                reporting = int(options.get("reporting", "0"))
                at, where = self._time(options), _whereabouts(options)
                alive = KeepAlive(int(sequence), at, stable, listeners, reporting, False, False, where, NO_VIEW)
                return _writer(sender).control([alive])
            case ["repair-request", target, spans]:
                attempt, tries = int(options.get("attempt", "0")), int(options.get("tries", "0"))
                to_source = int(options["to_source"]) if "to_source" in options else None
                ranges = tuple(map(_range, spans.split(",")))
                request = RepairRequest(self._life(target), attempt, ((1, 1),), tries, to_source, _whereabouts(options))
                msgspec.structs.force_setattr(request, "ranges", ranges)
                return _writer(sender).control([request]) * int(options.get("count", "1"))
            case ["bad-name"]:
                return [_bad_name(sender)]
        raise ValueError(kind)

    def _time(self, options: Options) -> int:
        at = options.get("at", "0s")
        return int(at) if at.isdigit() else EPOCH + self._world.now + parse_duration(at)

    def _life(self, name: str) -> ProcessId:
        return next(process for process, called in self._world.lives.items() if called == name)


def _writer(sender: ProcessId) -> DatagramWriter:
    return DatagramWriter(sender, _GROUP, NullSeal(), 1400)


def _range(span: str) -> Range:
    first, _, last = span.partition("-")
    return int(first), int(last or first)


def _whereabouts(options: Options) -> Whereabouts | None:
    return Whereabouts(*map(int, options["whereabouts"].split(","))) if "whereabouts" in options else None


def _bad_name(sender: ProcessId) -> bytes:
    """A deactivation for a process whose name is not UTF-8."""
    body = msgspec.msgpack.encode(Deactivation(ProcessId("?", 1), 1)).replace(b"?", b"\xff")
    name, incarnation = sender
    header = HEADER.pack(MAGIC, VERSION, CONTROL, _GROUP, incarnation, len(name.encode())) + name.encode()
    return NullSeal().seal(header + CONTROL_HEAD.pack(Deactivation.code, len(body)) + body)
