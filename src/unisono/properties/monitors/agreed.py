"""What the monitors of agreed views have in common: which rows they read, and where one view follows another."""

from __future__ import annotations

from msgspec import field

from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source
from unisono.properties.promises import PROTOCOL, exempt_services
from unisono.trace.schema import DeliverRow, MembershipRow, ViewRow

NOT_AGREED = exempt_services(PROTOCOL, "M5")
"""The services without agreed views."""

assert all(
    exempt_services(PROTOCOL, property_id) == NOT_AGREED
    for property_id in ("M1", "M2", "M4", "M7", "M9", "D3", "D4", "D5", "D9", "O5", "L1", "L5")
), "all of these are promised by the same services"

FRESH = ("SELF_FAIL", "BOOTSTRAP")
"""The rows after which a process begins anew in its group."""

BECAME_SENDER = "sends now"
"""The reason for which a receiver of a view is in the next one."""

RowKey = tuple[str, int, int]
"""Where a row stands: name, incarnation, position."""

ViewKey = tuple[str, str | None]
"""One view of one group, in words."""

Identifier = tuple[int, str, int, int]
"""What orders views: start time, leader, its incarnation and sequence."""


def identifier(row: ViewRow) -> Identifier:
    return (row.start_time, row.leader, row.leader_incarnation, row.leader_sequence)


def members_of(row: ViewRow) -> list[Source]:
    return sorted({(start.source, start.incarnation) for start in row.start})


def going_on(row: ViewRow) -> set[Source] | None:
    """The sources that what a process hears goes on of, over this view; None where that is all members."""
    if row.service in NOT_AGREED or row.transitional is None:
        return None
    going = {(one.process, one.incarnation) for one in row.transitional}
    going.add((row.process, row.incarnation))
    return going


class Eras(Monitor):
    """Which era a process is in: that of the agreed view that its view followed by the order, or of its own."""

    following: dict[Member, ViewRow] = field(default_factory=dict)

    def follow(self, row: ViewRow) -> None:
        member = (row.group, row.process, row.incarnation)
        if row.era is not None:
            self.following[member] = row
        else:
            self.following.pop(member, None)

    def era(self, row: DeliverRow) -> str | None:
        """The era that a message is delivered in."""
        view = self.following.get((row.group, row.process, row.incarnation)) if self.following else None
        return row.view if view is None or view.view != row.view else view.era


class Restarts(Eras):
    """Counts how often each member began anew."""

    restarts: dict[Member, int] = field(default_factory=dict)

    def fresh_handlers(self) -> dict[str, Handler]:
        return dict.fromkeys(FRESH, self.on_fresh)

    def on_fresh(self, row: MembershipRow) -> None:
        member = (row.group, row.process, row.incarnation)
        self.restarts[member] = self.restarts.get(member, 0) + 1


def era_of(row: ViewRow) -> str | None:
    """The era that a view belongs to."""
    return row.view if row.era is None else row.era


def new_senders(row: ViewRow) -> list[Source]:
    """Who came into a view as a receiver of the one before."""
    return [(one.process, one.incarnation) for one in row.reasons if one.reason == BECAME_SENDER]
