"""What the monitors of agreed views have in common: which rows they read, and where one view follows another."""

from __future__ import annotations

from functools import lru_cache

from msgspec import field

from unisono.properties.monitors.monitor import Handler, Member, Monitor, Source
from unisono.properties.promises import exempt_services
from unisono.trace.schema import DeliverRow, MembershipRow, ViewRow

NOT_AGREED = exempt_services("M5")
"""The services whose members do not agree on what was delivered before a view."""

NOT_COMMON = exempt_services("M2")
"""The services whose views are each process's own; weak sessions have common ones, and agree on nothing else."""

UNORDERED_VIEWS = exempt_services("O5")
"""The services without a total order in agreed views."""

assert all(exempt_services(property_id) == NOT_AGREED for property_id in ("D3", "D4", "D5", "D9"))
assert all(exempt_services(property_id) == NOT_COMMON for property_id in ("M1", "M4", "L1"))
assert all(exempt_services(property_id) == UNORDERED_VIEWS for property_id in ("M7", "M9", "L5", "L10"))

FRESH = ("SELF_FAIL", "BOOTSTRAP")
"""The rows after which a process begins anew in its group."""

BECAME_SENDER = "sends now"
"""The reason for which a receiver of a view is in the next one."""

RowKey = tuple[str, int, int]
"""Where a row stands: name, incarnation, position."""

ViewKey = tuple[str, str | None]
"""One view of one group, in words."""

Members = frozenset[Source]
"""Who is in a view, or came into it."""

Identifier = tuple[int, str, int, int]
"""What orders views: start time, leader, its incarnation and sequence."""


def identifier(row: ViewRow) -> Identifier:
    return (row.start_time, row.leader, row.leader_incarnation, row.leader_sequence)


@lru_cache(maxsize=256)
def one_for_all(members: Members) -> Members:
    """The same set as one object: a thousand members that install a view are a thousand, not a million."""
    return members


_asked_last: list[tuple[ViewRow, Members]] = []
"""The monitors of a suite ask about the same row one after the other."""


def members_of(row: ViewRow) -> Members:
    if not _asked_last or _asked_last[0][0] is not row:
        members = one_for_all(frozenset((start.source, start.incarnation) for start in row.start))
        _asked_last[:] = [(row, members)]
    return _asked_last[0][1]


def along_with(row: ViewRow) -> Members:
    """Who came into a view along with its process, as it says."""
    return one_for_all(frozenset((one.process, one.incarnation) for one in row.transitional or ()))


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
