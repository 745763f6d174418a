"""The monitor of progress of each (L9): no connected member stands still while another one sends."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors.connected import Connected, Listener, turn_at
from unisono.properties.monitors.moments import any_within, note
from unisono.properties.monitors.monitor import Handler, Member, Source
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS, exempt_services
from unisono.properties.violation import message_name, moment
from unisono.trace.schema import DeliverRow, SendRow, ViewRow


class Sent(Struct, frozen=True, order=True):
    """A message as it was sent."""

    time: int
    source: str
    incarnation: int
    number: int
    clock: str | None


class ProgressOfEach(Connected):
    """L9. Keeps the moments of all sends, and of what came to whom only those that can bound a standstill."""

    property_id: ClassVar[str] = "L9"
    exempt: ClassVar[frozenset[str]] = exempt_services("L9")

    sent: dict[Member, list[tuple[int, int, str | None]]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {**Connected.handlers(self), "SEND": self.on_send, "DELIVER": self.on_deliver}

    def on_send(self, row: SendRow) -> None:
        clock = row.host if row.truth is None else None
        self.sent.setdefault((row.group, row.process, row.incarnation), []).append((moment(row), row.number, clock))

    def on_deliver(self, row: DeliverRow) -> None:
        if row.source != row.process:
            note(self._listener(row).progress, moment(row))

    def on_view(self, row: ViewRow) -> None:
        Connected.on_view(self, row)
        note(self._listener(row).progress, moment(row))

    def conclude(self) -> None:
        Connected.conclude(self)
        for sends in self.sent.values():
            sends.sort()
        for key, listener in self.listeners.items():
            found: dict[int, list[Sent]] = {}
            for source in sorted({one for turn in listener.turns for one in turn.sources or ()}):
                if source[0] != key[1]:
                    self._look(key, listener, source, found)
            for position in sorted(found):
                first = min(found[position])
                message = message_name(first.source, first.incarnation, first.number)
                text = f"{message} was sent, and for long neither it nor anything else came, nor another view."
                self.report(*key, position, message, text)

    def _look(self, key: Member, listener: Listener, source: Source, found: dict[int, list[Sent]]) -> None:
        """What a source sent while a member of its group stood still, by the view that the member was in."""
        sends = self.sent.get((key[0], *source), [])
        for begin, end in _gaps(listener.progress):
            low = 0 if begin is None else bisect_right(sends, (begin, 1 << 64))
            high = len(sends) if end is None else bisect_left(sends, (end - STALL_LIMIT_NANOSECONDS,))
            for time, number, clock in sends[low:high]:
                view = turn_at(listener.turns, time, clock)
                if view is None or view.sources is None or source not in view.sources:
                    continue
                if not any_within(listener.progress, time) and self.is_connected(key, source, time, clock):
                    found.setdefault(view.position, []).append(Sent(time, *source, number, clock))


def _gaps(moments: list[int]) -> list[tuple[int | None, int | None]]:
    """The times without progress that are longer than the limit, and those before the first and after the last."""
    inner = [(one, other) for one, other in pairwise(moments) if other - one > STALL_LIMIT_NANOSECONDS]
    return [(None, moments[0]), *inner, (moments[-1], None)] if moments else [(None, None)]
