"""Members that hear each other stay in one view (L10)."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.properties.oracles.reading import at, held, members_of, of, same_member
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS
from unisono.properties.violation import Violation, moment
from unisono.trace.schema import AnyRow, FaultRow, MembershipRow, ViewRow

Life = tuple[str, int]


def kept_together(rows: Sequence[AnyRow]) -> list[Violation]:
    """L10."""
    rows = [row for row in rows if row.truth is not None]
    moves = of(rows, MembershipRow, "JOIN", "LEAVE")
    turns: list[AnyRow] = sorted([*of(rows, ViewRow, "VIEW"), *moves], key=lambda row: row.position)
    violations = []
    for row in of(rows, ViewRow, "VIEW"):
        before = [one for one in turns if same_member(one, row) and one.position < row.position][-1:]
        for view in before:
            if not isinstance(view, ViewRow) or not held(view, "L10") or row.stretch not in _next(rows, view, row):
                continue
            if held(row, "L10") and row.era is None:
                alone = _left_out_for_nothing(rows, view, row)
                if alone:
                    violations.append(at(row, "L10", None, f"{sorted(alone)} left out for no reason"))
    return violations


def _left_out_for_nothing(rows: Sequence[AnyRow], view: ViewRow, row: ViewRow) -> list[Life]:
    after = set(members_of(row))
    others = set(members_of(view)) - {(row.process, row.incarnation)}
    left_out = [life for life in others - after if _is_there(rows, view, row, life)]
    between = _between(rows, view, row)
    told = [one.peer for one in of(between, MembershipRow, "LEFT_BEHIND") if one.peer is not None]
    if view.role == row.role == "receiver" and len(left_out) > len(after & set(members_of(view))):
        followed = {name for name, _ in after}
        theirs = [name for life in left_out for name in _last_members(rows, row, life)]
        beside = [name for name in theirs if name not in followed]
        company = [row.process, *told, *(name for name, _ in left_out), *beside]
        return left_out if _hear_each_other(rows, row, company) else []
    if of(between, MembershipRow, "SELF_FAIL"):
        return []
    company = [row.process, *told, *(name for name, _ in after)]
    return [life for life in left_out if _hear_each_other(rows, row, [*company, life[0]])]


def _last_members(rows: Sequence[AnyRow], row: ViewRow, life: Life) -> list[str]:
    """Whom one that was left out had beside it then: who follows it follows all of these."""
    theirs = [
        one for one in of(rows, ViewRow, "VIEW") if (one.group, one.process, one.incarnation) == (row.group, *life)
    ]
    seen = [one for one in theirs if held(one, "L10") and moment(one) <= moment(row)]
    return [name for name, _ in members_of(max(seen, key=lambda one: one.position))] if seen else []


def _next(rows: Sequence[AnyRow], view: ViewRow, row: AnyRow) -> set[int]:
    """The stretches in which what follows a view is judged."""
    failed = of(_between(rows, view, row), MembershipRow, "SELF_FAIL")
    return {view.stretch, view.stretch + 1} if failed else {view.stretch}


def _between(rows: Sequence[AnyRow], view: ViewRow, row: AnyRow) -> list[AnyRow]:
    return [one for one in rows if same_member(one, row) and view.position < one.position < row.position]


def _is_there(rows: Sequence[AnyRow], view: ViewRow, row: AnyRow, life: Life) -> bool:
    theirs = [one for one in rows if (one.process, one.incarnation) == life]
    if any(moment(one) <= moment(row) for one in of(theirs, MembershipRow, "END")):
        return False
    if any(moment(one) <= moment(row) + STALL_LIMIT_NANOSECONDS for one in of(theirs, MembershipRow, "CRASH")):
        return False
    theirs = [one for one in theirs if one.group == row.group]
    soon = [one for one in theirs if abs(moment(one) - moment(row)) <= STALL_LIMIT_NANOSECONDS]
    if of(soon, MembershipRow, "LEAVE", "SELF_FAIL"):
        return False
    words = of(soon, MembershipRow, "PLEAVE", "ROLE")
    if any((one.kind == "PLEAVE" or one.role == "receiver") and moment(one) <= moment(row) for one in words):
        return False
    if not of(_between(rows, view, row), MembershipRow, "EXCLUDED"):
        return True
    saw = [one.era or one.view for one in of(theirs, ViewRow, "VIEW")]
    told = [one.reason for one in of(theirs, MembershipRow, "AGREED")]
    return (view.era or view.view) not in (*saw, *told)


def _hear_each_other(rows: Sequence[AnyRow], row: AnyRow, company: Sequence[str]) -> bool:
    """Every fault that is felt has a side with all of them."""
    faults = [one for one in of(rows, FaultRow, "FAULT") if one.fault not in ("load", "heal") and one.sides]
    for fault in faults:
        same = [one for one in faults if (one.fault, one.sides) == (fault.fault, fault.sides)]
        begun = [one for one in same if one.edge == "begin" and moment(one) <= moment(row)]
        over = [one for one in same if one.edge == "end" and moment(one) < moment(row) - STALL_LIMIT_NANOSECONDS]
        if len(begun) > len(over) and not any(set(company) <= set(side) for side in fault.sides):
            return False
    return True
