"""Monitors of the order within one source: it never goes back (O1), and within a spell it skips nothing (O2)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from unisono.properties.monitors.agreed import FRESH, going_on
from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source, Stream
from unisono.properties.monitors.session_order import SessionOrder
from unisono.properties.promises import SESSIONS, exempt_services
from unisono.properties.violation import message_name
from unisono.trace.schema import DeliverRow, MembershipRow, SendRow, ViewRow

_O1_EXEMPT = exempt_services("O1")
_O2_EXEMPT = exempt_services("O2")


class Fifo(Monitor):
    """O1. Keeps the last number of each source at each member, and that of the last unreliable stretch."""

    property_id: ClassVar[str] = "O1"

    last: dict[Stream, int] = field(default_factory=dict)
    loose: dict[Stream, tuple[int, int]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {"DELIVER": self.on_deliver}

    def on_deliver(self, row: DeliverRow) -> None:
        if row.service in _O1_EXEMPT:
            return
        stream = (row.group, row.process, row.incarnation, row.source, row.source_incarnation)
        number = row.number
        if row.service in _O2_EXEMPT:
            stretch, last_loose = self.loose.get(stream, (-1, 0))
            last = last_loose if stretch == row.stretch else None
            self.loose[stream] = (row.stretch, number)
        else:
            last = self.last.get(stream)
            self.last[stream] = number
        if last is not None and last >= number:
            message = message_name(row.source, row.source_incarnation, number)
            self.report(
                row.group,
                row.process,
                row.incarnation,
                row.position,
                message,
                f"{message} was delivered after number {last}.",
            )


class ReliableFifo(Monitor):
    """O2. Keeps, for each member, the number that is due from each source of its view.

    What was delivered or announced instead is taken as the new beginning, so that one mistake is told once. Sessions
    know no start numbers; what is due there is known at the end.
    """

    property_id: ClassVar[str] = "O2"

    due: dict[Member, dict[Source, int]] = field(default_factory=dict)
    installed: dict[Member, tuple[int, bool]] = field(default_factory=dict)
    restarted: set[Member] = field(default_factory=set)
    sessions: SessionOrder = field(default_factory=SessionOrder)

    def handlers(self) -> dict[str, Handler]:
        anew = dict.fromkeys(FRESH, self.on_fresh)
        rows: dict[str, Handler] = {"SEND": self.on_send, "DELIVER": self.on_deliver, "RETURNED": self.on_returned}
        return {**rows, "VIEW": self.on_view, "JOIN": self.on_join, **anew}

    def on_send(self, row: SendRow) -> None:
        if row.service in SESSIONS:
            self.sessions.on_send(row)

    def on_returned(self, row: MembershipRow) -> None:
        if row.service in SESSIONS:
            self.sessions.on_returned(row)

    def on_fresh(self, row: MembershipRow) -> None:
        """All spells end with the next view."""
        self.restarted.add((row.group, row.process, row.incarnation))

    def on_join(self, row: MembershipRow) -> None:
        self.due.pop((row.group, row.process, row.incarnation), None)
        self.sessions.on_join(row)

    def on_deliver(self, row: DeliverRow) -> None:
        if row.service in _O2_EXEMPT:
            return
        number = row.number
        member = (row.group, row.process, row.incarnation)
        view = self.due.get(member)
        if row.service in SESSIONS:
            self.hear_in_session(row)
            if self.sessions.is_inside(row):
                return
            due = None
        elif view is None:
            due = None
        else:
            source = (row.source, row.source_incarnation)
            due = view.get(source)
            if due is not None:
                view[source] = number + 1
                if self.installed[member][0] != row.stretch:
                    due = None
                elif due == number:
                    return
        message = message_name(row.source, row.source_incarnation, number)
        wrong = "though its source is not in the view" if due is None else f"where number {due} was due"
        self.report(row.group, row.process, row.incarnation, row.position, message, f"{message} was delivered {wrong}.")

    def hear_in_session(self, row: DeliverRow) -> None:
        """Remember a delivery until it is known what belongs to its stream."""
        self.sessions.on_deliver(row)

    def on_view(self, row: ViewRow) -> None:
        if row.service in SESSIONS:
            self.sessions.on_view(row)
            return
        member = (row.group, row.process, row.incarnation)
        held = row.service not in _O2_EXEMPT
        stretch, was_held = self.installed.get(member, (row.stretch, False))
        lasting = was_held and row.stretch - stretch in (0, 1) and member not in self.restarted
        before = self.due.get(member, {}) if lasting else {}
        self.restarted.discard(member)
        going = going_on(row)
        view: dict[Source, int] = {}
        for start in row.start:
            source = (start.source, start.incarnation)
            due = before.get(source) if going is None or source in going else None
            view[source] = start.number
            if held and due is not None and due != start.number:
                message = message_name(start.source, start.incarnation, start.number)
                text = f"The view goes on from {message} where number {due} was due."
                self.report(row.group, row.process, row.incarnation, row.position, message, text)
        self.due[member] = view
        self.installed[member] = (row.stretch, held)

    def conclude(self) -> None:
        for one in self.sessions.missing():
            message = message_name(*one.source, one.number)
            text = f"{message} was left out, though a later one of its stream was delivered."
            self.report(*one.member, one.position, message, text)
