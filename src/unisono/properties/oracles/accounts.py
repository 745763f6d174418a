"""What the rows of one member say of each other: its counts (W4), where it is and as what (W5)."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.properties.oracles.reading import FRESH, at, held, last_view, name_of, of, same_member
from unisono.properties.promises import STRONG
from unisono.properties.violation import Violation, message_name, process_name
from unisono.trace.schema import (
    AnyRow,
    DeliverRow,
    FaultRow,
    MembershipRow,
    SendRow,
    StatisticRow,
    ViewRow,
)

OF_APPLICATIONS = ("STATE", "SAVED", "LOADED")
"""Rows that an application writes, which may still be where it was before."""


def dense_counts(rows: Sequence[AnyRow]) -> list[Violation]:
    """W4."""
    violations = []
    for row in of(rows, DeliverRow, "DELIVER"):
        before = [one for one in of(rows, DeliverRow, "DELIVER") if _is_before(one, row)]
        last = max(before, key=lambda one: (one.position, one.index), default=None)
        goes_on = last is not None and (last.view, last.stretch) == (row.view, row.stretch)
        if last is not None and goes_on:
            goes_on = not any(
                same_member(view, row) and last.position < view.position < row.position for view in _views(rows)
            )
        due = last.index + 1 if last is not None and goes_on else 0
        if row.index != due:
            violations.append(at(row, "W4", name_of(row), f"its place in the view is {row.index}, not {due}"))
    for sent in of(rows, SendRow, "SEND"):
        earlier = [one for one in of(rows, SendRow, "SEND") if _is_before(one, sent)]
        latest = max(earlier, key=lambda one: (one.position, one.number), default=None)
        number = 0 if latest is None else latest.number
        sequence = latest.sequence if latest is not None and latest.stretch == sent.stretch else 0
        if sent.number != number + 1 or (sent.sequence <= sequence and sent.service != STRONG):
            name = message_name(sent.process, sent.incarnation, sent.number)
            violations.append(at(sent, "W4", name, f"it comes after number {number}, sequence {sequence}"))
    return violations


def _is_before(one: AnyRow, row: AnyRow) -> bool:
    return same_member(one, row) and one.position < row.position


def _views(rows: Sequence[AnyRow]) -> list[ViewRow]:
    return of(rows, ViewRow, "VIEW")


def one_account(rows: Sequence[AnyRow]) -> list[Violation]:
    """W5."""
    violations = []
    for row in rows:
        if not row.group or isinstance(row, StatisticRow | FaultRow) or row.kind in OF_APPLICATIONS:
            continue
        for text in (_wrong_view(rows, row), _wrong_stretch(rows, row), *_wrong_parts(rows, row)):
            if text is not None:
                violations.append(at(row, "W5", None, text))
                break
    return violations


def _wrong_view(rows: Sequence[AnyRow], row: AnyRow) -> str | None:
    """The view that a row says it is in, or that a view says it follows, is the last one, or none yet."""
    last = last_view(rows, row)
    said = row.previous if isinstance(row, ViewRow) else row.view
    if said is None:
        anew = [one for one in of(rows, MembershipRow, "JOIN", *FRESH) if same_member(one, row)]
        if last is None or last.view is None or last.stretch < row.stretch:
            return None
        begun = any(last.position < one.position <= row.position for one in anew)
        return None if begun else f"it says no view, installed was {last.view}"
    return None if last is not None and last.view == said else f"it says {said}, installed was another view"


def _wrong_stretch(rows: Sequence[AnyRow], row: AnyRow) -> str | None:
    before = [
        one
        for one in rows
        if _is_before(one, row) and not isinstance(one, StatisticRow | FaultRow) and one.kind not in OF_APPLICATIONS
    ]
    if not before:
        return None
    position = max(one.position for one in before)
    last = max((one for one in before if one.position == position), key=lambda one: (one.stretch, one.service or ""))
    if row.stretch not in (last.stretch, last.stretch + 1):
        return f"stretch {row.stretch} comes after {last.stretch}"
    return "another service in one stretch" if row.stretch == last.stretch and row.service != last.service else None


def _wrong_parts(rows: Sequence[AnyRow], row: AnyRow) -> list[str | None]:
    if isinstance(row, MembershipRow) and row.kind == "ROLE" and row.view is not None and held(row, "M2"):
        view = last_view(rows, row)
        return ["it has another role in its view" if view is not None and view.role != row.role else None]
    if not isinstance(row, ViewRow):
        return []
    words = f"{row.start_time}/{process_name(row.leader, row.leader_incarnation)}/{row.leader_sequence}"
    members = [(start.source, start.incarnation) for start in row.start]
    along = [(one.process, one.incarnation) for one in row.transitional or ()]
    own = (row.process, row.incarnation)
    return [
        f"its parts are those of {words}" if row.view != words else None,
        "somebody is in it twice" if len(set(members)) < len(members) or len(set(along)) < len(along) else None,
        "a member of it only receives"
        if held(row, "M2") and row.previous is not None and row.role == "receiver" and own in members
        else None,
    ]
