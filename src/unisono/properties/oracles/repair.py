"""Repair and release: nobody asks for what was released (D8), all is released (L4), few ask (L8)."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.properties.oracles.reading import (
    at,
    comparable,
    cut_off,
    held,
    is_outside,
    last_view,
    of,
    same_process,
    start_of,
)
from unisono.properties.oracles.session_streams import session_unreleased
from unisono.properties.promises import (
    LEAST_LOSSES,
    REPAIR_LIMIT,
    SESSIONS,
    SETTLING_NANOSECONDS,
    STALL_LIMIT_NANOSECONDS,
    STRONG,
)
from unisono.properties.violation import Violation, message_name, moment
from unisono.trace.schema import AnyRow, FaultRow, MembershipRow, RepairRow, SendRow, ViewRow


def release_safety(rows: Sequence[AnyRow]) -> list[Violation]:
    """D8."""
    violations = []
    for asked in of(rows, RepairRow, "RTR"):
        source = (asked.source, asked.source_incarnation)
        view = last_view(rows, asked)
        if not held(asked, "D8"):
            continue
        if view is not None and view.stretch == asked.stretch and start_of(view, *source) is None:
            continue
        theirs = [row for row in rows if row.group == asked.group and (row.process, row.incarnation) == source]
        counted = [
            row
            for row in of(theirs, MembershipRow, "GRANT", "SUSPECT", "LEAVE")
            if (row.kind == "LEAVE" or (row.peer, row.peer_incarnation) == (asked.process, asked.incarnation))
            and comparable(row, asked)
            and moment(row) <= moment(asked)
        ]
        if not counted or counted[-1].kind != "GRANT" or counted[-1].sequence is None:
            continue
        grant = counted[-1]
        released = [
            row.last
            for row in _releases(theirs)
            if row.position > grant.position and comparable(row, asked) and moment(row) < moment(asked)
        ]
        if released and min(asked.last, max(released)) >= max(asked.first, counted[-1].sequence):
            violations.append(at(asked, "D8", None, f"asks for what was released up to {max(released)}"))
    return violations


def _releases(theirs: Sequence[AnyRow]) -> list[RepairRow]:
    """What a source released of its own."""
    return [
        row
        for row in of(theirs, RepairRow, "GC")
        if (row.source, row.source_incarnation) == (row.process, row.incarnation)
    ]


def stability(rows: Sequence[AnyRow]) -> list[Violation]:
    """L4."""
    violations = session_unreleased(rows)
    rows = [row for row in rows if row.service not in SESSIONS]
    heals = [row for row in of(rows, FaultRow, "FAULT") if row.fault == "heal"]
    for end in of(rows, MembershipRow, "END"):
        due = moment(end) - SETTLING_NANOSECONDS
        healed = [moment(row) for row in heals if comparable(row, end)]
        if not healed or max(healed) > due or end.process in cut_off(rows):
            continue
        for group in sorted({row.group for row in rows if row.group}):
            mine = [row for row in rows if row.group == group and same_process(row, end)]
            joins = of(mine, MembershipRow, "JOIN")
            if not joins or is_outside(mine):
                continue
            mine = [row for row in mine if row.position > joins[-1].position]
            peers = {(row.peer, row.peer_incarnation) for row in of(mine, MembershipRow, "GRANT")}
            if any(_holds_back(rows, mine, end, group, peer) for peer in peers):
                continue
            released = max((row.last for row in _releases(mine)), default=0)
            missing = [
                row.number for row in of(mine, SendRow, "SEND") if moment(row) <= due and row.sequence > released
            ]
            if missing:
                name = message_name(end.process, end.incarnation, min(missing))
                text = f"not released, nor {len(missing) - 1} more"
                violations.append(Violation("L4", group, end.process, end.incarnation, end.position, name, text))
    return violations


def _holds_back(
    rows: Sequence[AnyRow],
    mine: Sequence[AnyRow],
    end: MembershipRow,
    group: str,
    peer: tuple[str | None, int | None],
) -> bool:
    """Whether a receiver may be the reason why something is not released."""
    counted = [row for row in of(mine, MembershipRow, "GRANT", "SUSPECT") if (row.peer, row.peer_incarnation) == peer]
    if counted[-1].kind == "SUSPECT":
        return False
    theirs = [row for row in rows if row.group == group and (row.process, row.incarnation) == peer]
    moves = of(theirs, MembershipRow, "JOIN", "LEAVE")
    if moves and moves[-1].kind == "LEAVE":
        left = moves[-1]
        return not comparable(left, end) or moment(left) > moment(end) - STALL_LIMIT_NANOSECONDS
    ends = [row for row in of(rows, MembershipRow, "END") if (row.process, row.incarnation) == peer]
    views = of(theirs, ViewRow, "VIEW")
    if not ends or not views or peer[0] in cut_off(rows):
        return True
    if not comparable(ends[-1], end) or moment(ends[-1]) < moment(end) - SETTLING_NANOSECONDS // 2:
        return True
    return start_of(views[-1], end.process, end.incarnation) is None


def repair_efficiency(rows: Sequence[AnyRow]) -> list[Violation]:
    """L8."""
    violations: list[Violation] = []
    if any(row.fault not in ("load", "heal") for row in of(rows, FaultRow, "FAULT")):
        return violations
    for group in sorted({row.group for row in rows if row.group}):
        mine = [row for row in rows if row.group == group and row.kind in ("SEND", "RTR", "RTX")]
        sends = of(mine, SendRow, "SEND")
        if not sends or not all(comparable(row, mine[0]) for row in mine):
            continue
        middle = (min(moment(row) for row in sends) + max(moment(row) for row in sends)) // 2
        for kind, word in (("RTR", "requests"), ("RTX", "repairs")):
            late = [row for row in of(mine, RepairRow, kind) if moment(row) > middle]
            count = _ranges(late)
            if count >= LEAST_LOSSES and len(late) > REPAIR_LIMIT * count:
                violations.append(Violation("L8", group, "", 0, 0, None, f"{len(late)} {word} for {count} ranges"))
    return violations


def _ranges(rows: Sequence[RepairRow]) -> int:
    """How many ranges there are when those of one source that share a sequence are one."""
    count = 0
    for stream in {_stream(row) for row in rows}:
        mine = sorted((row.first, row.last) for row in rows if _stream(row) == stream)
        until = mine[0][0] - 1
        for first, last in mine:
            count += first > until
            until = max(until, last)
    return count


def _stream(row: RepairRow) -> tuple[object, ...]:
    """Whose sequences they are: strong sessions count them anew in every view."""
    return (row.source, row.source_incarnation, row.view if row.service == STRONG else None)
