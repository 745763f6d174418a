"""The order within one source: it never goes back (O1), and within a spell it skips nothing (O2)."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.properties.oracles.reading import (
    at,
    continued_view,
    current_view,
    deliveries,
    goes_on_in,
    held,
    name_of,
    of,
    same_member,
    same_stream,
    start_of,
)
from unisono.properties.oracles.session_streams import session_gaps
from unisono.properties.promises import SESSIONS
from unisono.properties.violation import Violation, message_name
from unisono.trace.schema import AnyRow, Start, ViewRow


def fifo(rows: Sequence[AnyRow]) -> list[Violation]:
    """O1: each delivery against the one before it, among the reliable ones and among the others of a stretch."""
    violations = []
    ordered = deliveries(rows, "O1")
    for row in ordered:
        earlier = [
            other
            for other in ordered
            if same_stream(row, other) and other.position < row.position and held(row, "O2") == held(other, "O2")
        ]
        if earlier and (held(row, "O2") or earlier[-1].stretch == row.stretch) and earlier[-1].number >= row.number:
            violations.append(at(row, "O1", name_of(row), f"delivered after {name_of(earlier[-1])}"))
    return violations


def reliable_fifo(rows: Sequence[AnyRow]) -> list[Violation]:
    """O2: every delivery and every start point of a spell continues the item before it; sessions by themselves."""
    violations = session_gaps(rows)
    rows = [row for row in rows if row.service not in SESSIONS]
    ordered = deliveries(rows, "O2")

    def continued(view: ViewRow, start: Start, until: AnyRow) -> int:
        """The number that is due at `until`, where `view` is the last view before it."""
        since = [
            row.number
            for row in ordered
            if same_member(row, view)
            and (row.source, row.source_incarnation) == (start.source, start.incarnation)
            and view.position < row.position < until.position
        ]
        return since[-1] + 1 if since else start.number

    for row in ordered:
        view = current_view(rows, row)
        start = None if view is None else start_of(view, row.source, row.source_incarnation)
        if view is None or start is None:
            violations.append(at(row, "O2", name_of(row), "delivered from a source outside the view"))
        elif row.number != continued(view, start, row):
            violations.append(at(row, "O2", name_of(row), f"delivered where {continued(view, start, row)} was due"))
    for later in of(rows, ViewRow, "VIEW"):
        view = continued_view(rows, later)
        if view is None or not held(later, "O2"):
            continue
        for start in later.start:
            before = start_of(view, start.source, start.incarnation)
            goes_on = before is not None and goes_on_in(later, (start.source, start.incarnation))
            if before is not None and goes_on and start.number != continued(view, before, later):
                name = message_name(start.source, start.incarnation, start.number)
                text = f"the view begins there, but {continued(view, before, later)} was due"
                violations.append(at(later, "O2", name, text))
    return violations
