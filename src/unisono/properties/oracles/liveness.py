"""Multicast liveness (L2): at the end, who lives has what the living sources of its view sent."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.properties.oracles.reading import (
    comparable,
    cut_off,
    deliveries,
    fresh_between,
    goes_on_in,
    held,
    is_outside,
    of,
    only_receives,
    same_process,
    start_of,
)
from unisono.properties.oracles.session_streams import session_undelivered
from unisono.properties.promises import RIFTS, SESSIONS, SETTLING_NANOSECONDS, promised
from unisono.properties.violation import Violation, message_name, moment, process_name
from unisono.trace.schema import AnyRow, FaultRow, MembershipRow, SendRow, ViewRow

SERVED = ("JOIN", "VIEW", "SEND", "DELIVER", "GAUGE")
"""The rows that tell which service a member has; there is no row for a change of service."""


def multicast_liveness(rows: Sequence[AnyRow]) -> list[Violation]:
    """L2."""
    violations = session_undelivered(rows)
    rows = [row for row in rows if row.service not in SESSIONS]
    ends = of(rows, MembershipRow, "END")
    groups = sorted({row.group for row in rows if row.group})
    pairs = [(group, end, other) for group in groups for end in ends for other in ends if comparable(end, other)]
    for group, end, other in pairs:
        mine = sorted(
            (row for row in rows if row.group == group and same_process(row, end)), key=lambda row: row.position
        )
        theirs = [row for row in rows if row.group == group and same_process(row, other)]
        services = [row.service for row in mine if row.kind in SERVED and row.service is not None]
        if not any(row.kind in ("JOIN", "VIEW") for row in mine) or is_outside(mine):
            continue
        if not promised(services[-1] if services else None, "L2"):
            continue
        joined = max((row.position for row in of(mine, MembershipRow, "JOIN")), default=-1)
        views = [view for view in of(mine, ViewRow, "VIEW") if view.position > joined]
        last_due = moment(end) - SETTLING_NANOSECONDS
        due = [row for row in of(theirs, SendRow, "SEND") if moment(row) <= last_due]
        first = _spell_start(rows, views, other)
        if first is not None:
            got = {
                row.number
                for row in deliveries(mine, "L2")
                if (row.source, row.source_incarnation) == (other.process, other.incarnation)
            }
            missing = sorted(row.number for row in due if row.number >= first and row.number not in got)
            if missing and not _out_of_reach(rows, end.process, other.process):
                name = message_name(other.process, other.incarnation, missing[0])
                text = f"{len(missing)} messages never delivered"
                violations.append(Violation("L2", group, end.process, end.incarnation, end.position, name, text))
        elif due and _must_know(rows, mine, theirs, end, other):
            text = f"{process_name(other.process, other.incarnation)} is not in the last view"
            violations.append(Violation("L2", group, end.process, end.incarnation, end.position, None, text))
    return violations


def _spell_start(rows: Sequence[AnyRow], views: list[ViewRow], source: MembershipRow) -> int | None:
    """Where the current spell of a source began, if it is in the last view or was in an earlier one of its era."""
    number: int | None = None
    later: ViewRow | None = None
    for view in reversed(views):
        start = start_of(view, source.process, source.incarnation)
        if later is not None and not _lasts(rows, view, later, source):
            break
        if start is not None:
            number = start.number
        elif view.era is None:
            break
        later = view
    return number


def _lasts(rows: Sequence[AnyRow], view: ViewRow, later: ViewRow, source: MembershipRow) -> bool:
    """Whether the spell of a source goes on from one view to the next."""
    if later.stretch - view.stretch not in (0, 1) or not held(view, "O2") or fresh_between(rows, view, later):
        return False
    same_era = later.era is not None and later.stretch == view.stretch
    if same_era and start_of(later, source.process, source.incarnation) is None:
        return True  # it only receives now, and has sent all the same
    return goes_on_in(later, (source.process, source.incarnation))


def _must_know(
    rows: Sequence[AnyRow], mine: list[AnyRow], theirs: list[AnyRow], end: MembershipRow, other: MembershipRow
) -> bool:
    """Whether the process that wrote `end` must have the other one in its view at the end."""
    my_joins, their_joins = of(mine, MembershipRow, "JOIN"), of(theirs, MembershipRow, "JOIN")
    if (
        not my_joins
        or not their_joins
        or is_outside(theirs)
        or only_receives(theirs, moment(end) - SETTLING_NANOSECONDS, their_joins[-1].role)
    ):
        return False
    if not any(row.fault == "heal" for row in of(rows, FaultRow, "FAULT")):
        return False
    if {end.process, other.process} & cut_off(rows):
        return False
    if max(moment(my_joins[-1]), moment(their_joins[-1])) > moment(end) - SETTLING_NANOSECONDS:
        return False
    views = [view for view in of(mine, ViewRow, "VIEW") if view.position > my_joins[-1].position]
    entered = [view for view in views if view.stretch == views[-1].stretch]
    if entered and moment(entered[0]) > moment(end) - SETTLING_NANOSECONDS:
        return False
    reason = my_joins[-1].reason
    if reason is None or reason == "once":
        return False
    return reason == "all" or other.process in [name.strip() for name in reason.split(",")]


def _out_of_reach(rows: Sequence[AnyRow], name: str, other: str) -> bool:
    """True if a fault that never ended keeps two apart, and nobody hears both."""
    rifts = [row for row in of(rows, FaultRow, "FAULT") if row.fault in RIFTS and row.sides]
    for rift in rifts:
        same = [row.edge for row in rifts if (row.fault, row.sides) == (rift.fault, rift.sides)]
        near = {one for side in rift.sides if name in side for one in side}
        beside = {one for side in rift.sides if other in side for one in side}
        if name != other and same.count("begin") > same.count("end") and near.isdisjoint(beside):
            return True
    return False
