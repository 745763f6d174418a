"""What sessions deliver and release, stream by stream: without gaps (O2), and at the end all of it (L2, L4)."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.properties.oracles.reading import (
    at,
    comparable,
    current_view,
    cut_off,
    first_sends,
    members_of,
    of,
    same_member,
    start_of,
)
from unisono.properties.promises import SESSIONS, SETTLING_NANOSECONDS, STRONG
from unisono.properties.violation import Violation, message_name, moment
from unisono.trace.schema import AnyRow, DeliverRow, FaultRow, MembershipRow, RepairRow, SendRow, ViewRow


def session_gaps(rows: Sequence[AnyRow]) -> list[Violation]:
    """O2 of sessions."""
    rows = [row for row in rows if row.service in SESSIONS]
    violations = []
    heard: dict[tuple[object, ...], list[DeliverRow]] = {}
    for row in of(rows, DeliverRow, "DELIVER"):
        view = current_view(rows, row)
        inside = view is not None and start_of(view, row.source, row.source_incarnation) is not None
        if not inside:
            name = message_name(row.source, row.source_incarnation, row.number)
            violations.append(at(row, "O2", name, "delivered from a source outside the view"))
        if row.service == STRONG or inside:
            where = row.view if row.service == STRONG else _spell_begin(rows, row)
            key = (row.group, row.process, row.incarnation, row.source, row.source_incarnation, row.service, where)
            heard.setdefault(key, []).append(row)
    for found in heard.values():
        first = found[0]
        source = (first.source, first.source_incarnation)
        sends = first_sends(rows, first.group, source).values()
        got = {row.number for row in found}
        for stream in _streams(rows, first, list(sends)):
            both = got & stream
            lowest = 0 if first.service == STRONG else min(both, default=0)
            missing = [number for number in stream - got if lowest <= number < max(both, default=0)]
            if missing:
                violations.append(at(first, "O2", message_name(*source, min(missing)), "left out"))
    return violations


def _streams(rows: Sequence[AnyRow], like: DeliverRow, sends: list[SendRow]) -> list[set[int]]:
    """The numbers that belong together, by the view that they were sent for; in a strong session, this one."""
    if like.service == STRONG:
        returned = {
            row.number
            for row in of(rows, MembershipRow, "RETURNED")
            if row.group == like.group and (row.process, row.incarnation) == (like.source, like.source_incarnation)
        }
        return [{send.number for send in sends if send.agreed == like.view} - returned]
    views = dict.fromkeys(send.agreed for send in sends)
    return [{send.number for send in sends if send.agreed == view} for view in views]


def _spell_begin(rows: Sequence[AnyRow], row: DeliverRow) -> int:
    """Where the run of views that have the source of a delivery began."""
    joins = [join.position for join in of(rows, MembershipRow, "JOIN") if same_member(join, row)]
    since = max((position for position in joins if position < row.position), default=-1)
    begin = row.position
    for view in reversed(of(rows, ViewRow, "VIEW")):
        if same_member(view, row) and since < view.position < row.position:
            if view.stretch != row.stretch or start_of(view, row.source, row.source_incarnation) is None:
                break
            begin = view.position
    return begin


def _last_view(rows: Sequence[AnyRow], group: str, life: tuple[str, int]) -> ViewRow | None:
    """The last view of a process that is there at the end of its life; none where it left, or lost its place."""
    mine = [
        row for row in rows if row.group == group and (row.process, row.incarnation) == life and row.service in SESSIONS
    ]
    moves = of(mine, MembershipRow, "JOIN", "LEAVE", "EXCLUDED")
    joins = [row for row in moves if row.kind != "EXCLUDED"]
    if not joins or joins[-1].kind == "LEAVE":
        return None
    views = [view for view in of(mine, ViewRow, "VIEW") if view.position > moves[-1].position]
    return views[-1] if views else None


def _is_strong(rows: Sequence[AnyRow], group: str, life: tuple[str, int]) -> bool:
    joins = [
        row
        for row in of(rows, MembershipRow, "JOIN")
        if row.group == group and (row.process, row.incarnation) == life and row.service in SESSIONS
    ]
    return joins[-1].service == STRONG


def session_undelivered(rows: Sequence[AnyRow]) -> list[Violation]:
    """L2 of sessions."""
    violations = []
    ends = of(rows, MembershipRow, "END")
    sessions = [row for row in rows if row.service in SESSIONS]
    groups = sorted({row.group for row in sessions})
    for group, end, other in [(group, end, other) for group in groups for end in ends for other in ends]:
        life, source = (end.process, end.incarnation), (other.process, other.incarnation)
        mine, theirs = _last_view(rows, group, life), _last_view(rows, group, source)
        if mine is None or theirs is None or source not in members_of(mine) or not comparable(end, other):
            continue
        if {life[0], source[0]} & cut_off(rows):
            continue
        due = min(moment(end), moment(other)) - SETTLING_NANOSECONDS
        if mine.view != theirs.view or max(moment(mine), moment(theirs)) > due:
            continue
        sends = [row for row in first_sends(sessions, group, source).values() if row.agreed == mine.view]
        owed = [row for row in sends if comparable(row, end) and moment(row) <= due]
        got = {
            row.number
            for row in of(sessions, DeliverRow, "DELIVER")
            if (row.group, row.process, row.incarnation) == (group, *life)
            and (row.source, row.source_incarnation) == source
        }
        missing = [row.number for row in owed if row.number not in got]
        if missing:
            name, text = message_name(*source, min(missing)), f"{len(missing)} messages never delivered"
            violations.append(Violation("L2", group, *life, end.position, name, text))
    return violations


def session_unreleased(rows: Sequence[AnyRow]) -> list[Violation]:
    """L4 of sessions."""
    violations = []
    sessions = [row for row in rows if row.service in SESSIONS]
    for group in sorted({row.group for row in sessions}):
        for end in of(rows, MembershipRow, "END"):
            life = (end.process, end.incarnation)
            last = _last_view(rows, group, life)
            if last is None or not _is_strong(rows, group, life) or not _all_have_it(rows, last, end):
                continue
            due = moment(end) - SETTLING_NANOSECONDS
            mine = [row for row in sessions if same_member(row, last)]
            released = [
                row.last
                for row in of(mine, RepairRow, "GC")
                if row.view == last.view and (row.source, row.source_incarnation) == life
            ]
            missing = [
                row.number
                for row in first_sends(sessions, group, life).values()
                if row.agreed == last.view and moment(row) <= due and row.sequence > max(released, default=0)
            ]
            if missing:
                name, text = message_name(*life, min(missing)), f"not released, nor {len(missing) - 1} more"
                violations.append(Violation("L4", group, *life, end.position, name, text))
    return violations


def _all_have_it(rows: Sequence[AnyRow], view: ViewRow, end: MembershipRow) -> bool:
    """Whether all members of the last view of a session have had it for long, and nothing disturbs them."""
    due = moment(end) - SETTLING_NANOSECONDS
    heals = [moment(row) for row in of(rows, FaultRow, "FAULT") if row.fault == "heal" and comparable(row, end)]
    changes = [
        row
        for row in of(rows, MembershipRow, "START_CHANGE")
        if same_member(row, view) and row.service in SESSIONS and row.position > view.position
    ]
    if not heals or max(heals) > due or moment(view) > due or changes or end.process in cut_off(rows):
        return False
    for life in members_of(view) - {(end.process, end.incarnation)}:
        ends = [row for row in of(rows, MembershipRow, "END") if (row.process, row.incarnation) == life]
        last = _last_view(rows, view.group, life)
        if not ends or not comparable(ends[-1], end) or life[0] in cut_off(rows) or last is None:
            return False
        if moment(ends[-1]) < moment(end) - SETTLING_NANOSECONDS // 2:
            return False
        if last.view != view.view or moment(last) > due:
            return False
    return True
