"""What a process sent before it left reaches those who are told that it left (D13)."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.properties.oracles.reading import (
    FRESH,
    at,
    comparable,
    era_of,
    first_sends,
    held,
    last_view,
    of,
    same_member,
    start_of,
)
from unisono.properties.promises import SESSIONS
from unisono.properties.violation import Violation, message_name, moment
from unisono.trace.schema import AnyRow, DeliverRow, MembershipRow, SendRow, ViewRow


def last_sends(rows: Sequence[AnyRow]) -> list[Violation]:
    """D13."""
    violations = []
    for view in of(rows, ViewRow, "VIEW"):
        before = last_view(rows, view)
        if before is None or before.stretch != view.stretch or not held(view, "D13") or not held(before, "D13"):
            continue
        turns = [row for row in of(rows, MembershipRow, "JOIN", *FRESH) if same_member(row, view)]
        if any(before.position < row.position < view.position for row in turns):
            continue
        gone = {(one.process, one.incarnation) for one in view.reasons if one.reason == "left"}
        for source in sorted(gone - {(view.process, view.incarnation)}):
            missing = _missing(rows, before, view, source)
            if missing:
                text = f"{len(missing)} messages of one that left were never delivered"
                violations.append(at(view, "D13", message_name(*source, missing[0]), text))
    return violations


def _missing(rows: Sequence[AnyRow], before: ViewRow, view: ViewRow, source: tuple[str, int]) -> list[int]:
    start = start_of(before, *source)
    theirs = [row for row in rows if row.group == view.group and (row.process, row.incarnation) == source]
    leaves = of(theirs, MembershipRow, "LEAVE")
    if start is None or len(leaves) != 1 or leaves[0].reason is not None:
        return []
    moved = [row for row in of(theirs, ViewRow, "VIEW") if held(row, "M5") and row.era is None]
    turned = [*moved, *of(theirs, MembershipRow, "AGREED")]

    def is_owed(sent: SendRow) -> bool:
        if sent.position > leaves[0].position or not comparable(sent, view) or moment(sent) > moment(view):
            return False
        if not held(before, "M5"):
            return True
        went_on = any(sent.position < row.position < leaves[0].position for row in turned)
        return sent.agreed == era_of(before) and not went_on

    first = 1 if before.service in SESSIONS else start.number
    got = {
        row.number
        for row in of(rows, DeliverRow, "DELIVER")
        if same_member(row, view)
        and (row.source, row.source_incarnation) == source
        and row.stretch == view.stretch
        and row.position < view.position
    }
    sent = first_sends(rows, view.group, source)
    return sorted(number for number, row in sent.items() if number >= first and number not in got and is_owed(row))
