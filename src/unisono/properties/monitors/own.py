"""Monitors of self delivery: a sender hears its own messages, before the view changes (D6) and before the end (L3)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors import intervals
from unisono.properties.monitors.agreed import FRESH, NOT_AGREED
from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source
from unisono.properties.promises import SETTLING_NANOSECONDS, STRONG, exempt_services
from unisono.properties.violation import message_name, moment
from unisono.trace.schema import DeliverRow, GaugeRow, MembershipRow, SendRow, ViewRow

_EXEMPT = exempt_services("D6")
assert exempt_services("L3") == _EXEMPT, "both are promised by the same services"


class Waiting(Struct, frozen=True):
    """A message that its own sender has not heard."""

    position: int
    time: int
    clock: str | None
    agreed: bool


class Listener(Struct):
    """One sender: what it asked for, all that it sent, and by stretch what it waits for and what it heard of itself."""

    wants: str | None = None
    sent: list[int] = field(default_factory=list)
    waiting: dict[int, dict[int, Waiting]] = field(default_factory=dict)
    heard: dict[int, list[int]] = field(default_factory=dict)


class Own(Monitor):
    """What both have in common. Keeps what each sender waits for, and the numbers of its own that it heard."""

    listeners: dict[Member, Listener] = field(default_factory=dict)
    ends: dict[Source, tuple[int, str | None]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {
            "SEND": self.on_send,
            "DELIVER": self.on_deliver,
            "VIEW": self.on_view,
            "JOIN": self.on_join,
            "GAUGE": self.on_gauge,
            **dict.fromkeys(("LEAVE", "EXCLUDED", *FRESH), self.on_giving_up),
            "END": self.on_end,
        }

    def _of(self, row: SendRow | DeliverRow | ViewRow | MembershipRow | GaugeRow) -> Listener:
        """Whoever wrote a row; it waits for nothing that it sent in an earlier stretch."""
        member = (row.group, row.process, row.incarnation)
        listener = self.listeners.get(member)
        if listener is None:
            listener = self.listeners[member] = Listener()
        elif listener.waiting:
            for stretch in [stretch for stretch in listener.waiting if stretch < row.stretch]:
                del listener.waiting[stretch]
        return listener

    def on_join(self, row: MembershipRow) -> None:
        self._of(row).wants = row.reason

    def on_gauge(self, row: GaugeRow) -> None:
        self._of(row)

    def on_send(self, row: SendRow) -> None:
        listener = self._of(row)
        if not intervals.add(listener.sent, row.number) or row.service in _EXEMPT:
            return
        if row.service == STRONG and row.agreed != row.view:  # D12 follows what is for a view to come
            return
        agreed = row.service not in NOT_AGREED
        if not agreed and not _asks_for(listener.wants, row.process):
            return
        if not intervals.holds(listener.heard.get(row.stretch, []), row.number):
            clock = row.host if row.truth is None else None
            waiting = listener.waiting.setdefault(row.stretch, {})
            waiting[row.number] = Waiting(row.position, moment(row), clock, agreed)

    def on_deliver(self, row: DeliverRow) -> None:
        listener = self._of(row)
        if row.source == row.process and row.source_incarnation == row.incarnation:
            intervals.add(listener.heard.setdefault(row.stretch, []), row.number)
            waiting = listener.waiting.get(row.stretch)
            if waiting is not None:
                waiting.pop(row.number, None)

    def on_view(self, row: ViewRow) -> None:
        waiting = self._of(row).waiting.get(row.stretch, {})
        if row.service not in NOT_AGREED and row.era is None:
            for number in [number for number, one in waiting.items() if one.agreed]:
                self.too_late((row.group, row.process, row.incarnation), number, waiting.pop(number), row.view)

    def too_late(self, member: Member, number: int, waiting: Waiting, view: str | None) -> None:
        """The view changes before a message is heard."""

    def on_giving_up(self, row: MembershipRow) -> None:
        if row.kind != "EXCLUDED" or row.service == STRONG:
            self._of(row).waiting.clear()

    def on_end(self, row: MembershipRow) -> None:
        self.ends[row.process, row.incarnation] = (moment(row), row.host if row.truth is None else None)

    def conclude(self) -> None:
        for member, listener in self.listeners.items():
            time, clock = self.ends.get(member[1:], (0, ""))
            for waiting in listener.waiting.values() if member[1:] in self.ends else ():
                for number, one in waiting.items():
                    if one.clock == clock and one.time <= time - SETTLING_NANOSECONDS:
                        message = message_name(*member[1:], number)
                        text = f"{message} was never delivered to its own sender."
                        self.report(*member, one.position, message, text)


def _asks_for(wants: str | None, name: str) -> bool:
    return wants is not None and (wants == "all" or name in {one.strip() for one in wants.split(",")})


class SelfDelivery(Own):
    """D6."""

    property_id: ClassVar[str] = "D6"

    def too_late(self, member: Member, number: int, waiting: Waiting, view: str | None) -> None:
        message = message_name(*member[1:], number)
        text = f"{message} was not delivered to its own sender before {view}."
        self.report(*member, waiting.position, message, text)


class SelfDeliveryLiveness(Own):
    """L3."""

    property_id: ClassVar[str] = "L3"
