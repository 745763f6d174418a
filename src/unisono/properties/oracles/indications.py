"""What a source released has been received by all whom it counted, and they deliver it before they go on (D7)."""

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
    members_of,
    of,
    same_member,
    start_of,
)
from unisono.properties.violation import Violation, message_name, moment
from unisono.trace.schema import AnyRow, DeliverRow, MembershipRow, RepairRow, SendRow, ViewRow


def stable_indication(rows: Sequence[AnyRow]) -> list[Violation]:
    """D7."""
    violations = []
    for view in of(rows, ViewRow, "VIEW"):
        before = last_view(rows, view)
        if before is None or before.stretch != view.stretch or not held(view, "D7") or not held(before, "D7"):
            continue
        turns = [row for row in of(rows, MembershipRow, "JOIN", *FRESH) if same_member(row, view)]
        if any(before.position < row.position < view.position for row in turns):
            continue
        for source in sorted(_ended(before, view) - {(view.process, view.incarnation)}):
            missing = _missing(rows, before, view, source)
            if missing:
                text = f"{len(missing)} messages that their source had released were never delivered"
                violations.append(at(view, "D7", message_name(*source, missing[0]), text))
    return violations


def _ended(before: ViewRow, view: ViewRow) -> set[tuple[str, int]]:
    """The sources of which a process has all that it will get of one view, once it is in the next."""
    if held(before, "M5"):
        return members_of(before) if before.role == "sender" and view.era is None else set()
    return members_of(before) - members_of(view)


def _missing(rows: Sequence[AnyRow], before: ViewRow, view: ViewRow, source: tuple[str, int]) -> list[int]:
    theirs = [row for row in rows if row.group == view.group and (row.process, row.incarnation) == source]
    moved = [row for row in of(theirs, ViewRow, "VIEW") if held(row, "M5") and row.era is None]
    turned = [*moved, *of(theirs, MembershipRow, "AGREED")]
    releases = [
        (release, granted)
        for release in of(theirs, RepairRow, "GC")
        if (release.source, release.source_incarnation) == source
        and comparable(release, view)
        and moment(release) <= moment(view)
        and (granted := _granted(theirs, release, view)) is not None
    ]

    def was_received(sent: SendRow) -> bool:
        for release, granted in releases:
            if sent.position > release.position or not max(release.first, granted) <= sent.sequence <= release.last:
                continue
            if not held(before, "M5"):
                return True
            went_on = any(sent.position < row.position < release.position for row in turned)
            if sent.agreed == era_of(before) and not went_on:
                return True
        return False

    start = start_of(before, *source)
    got = {
        row.number
        for row in of(rows, DeliverRow, "DELIVER")
        if same_member(row, view)
        and (row.source, row.source_incarnation) == source
        and row.stretch == view.stretch
        and row.position < view.position
    }
    return sorted(
        number
        for number, row in first_sends(rows, view.group, source).items()
        if start is not None and number >= start.number and number not in got and was_received(row)
    )


def _granted(theirs: Sequence[AnyRow], release: RepairRow, view: ViewRow) -> int | None:
    """The sequence from which on a source counted a process when it released something."""
    counted = [
        row
        for row in of(theirs, MembershipRow, "GRANT", "SUSPECT", "LEAVE")
        if row.position < release.position
        and (row.kind == "LEAVE" or (row.peer, row.peer_incarnation) == (view.process, view.incarnation))
    ]
    return counted[-1].sequence if counted and counted[-1].kind == "GRANT" else None
