"""What rows say of lives: the order of their rows (W1), where they begin and end (W2), and whom others name (W3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from unisono.properties.oracles.reading import at, of, same_member
from unisono.properties.violation import Violation, moment, process_name
from unisono.trace.schema import (
    AnyRow,
    FaultRow,
    GaugeRow,
    MembershipRow,
    ProxyRow,
    RepairRow,
    SendRow,
    StatisticRow,
    ViewRow,
)

Life = tuple[str, int]


def lives_of(rows: Sequence[AnyRow]) -> dict[Life, list[AnyRow]]:
    """The rows of each life by position; of two that claim one position the earlier comes first."""
    lives: dict[Life, list[AnyRow]] = {}
    for row in sorted(rows, key=_by_position):
        lives.setdefault((row.process, row.incarnation), []).append(row)
    return lives


def _by_position(row: AnyRow) -> tuple[int, int, int, str]:
    return (row.position, row.at, -1 if row.truth is None else row.truth, row.host)


def own_order(rows: Sequence[AnyRow]) -> list[Violation]:
    """W1."""
    violations = []
    for life, mine in lives_of(rows).items():
        wrong = [
            *((position, "its position is not the one after that before it") for position in _out_of_line(mine)),
            *((position, "it says another host, or another sort of clock") for position in _elsewhere(mine)),
            *((position, "its time is not between those around it") for position in _out_of_time(mine)),
        ]
        for position, text in dict(reversed(wrong)).items():
            violations.append(Violation("W1", "", *life, position, None, text))
    return violations


def _out_of_line(mine: list[AnyRow]) -> list[int]:
    positions = [row.position for row in mine]
    return [there for before, there in zip([-1, *positions], positions, strict=False) if there != before + 1]


def _elsewhere(mine: list[AnyRow]) -> list[int]:
    """The first row of every clock that is not that of most rows; of two with as many, that of the earlier row."""
    clocks = [(row.host, row.truth is None) for row in mine]
    most = max(Counter(clocks).items(), key=lambda item: (item[1], -clocks.index(item[0])))[0]
    return [mine[clocks.index(clock)].position for clock in set(clocks) if clock != most]


def _out_of_time(mine: list[AnyRow]) -> list[int]:
    """Where a time is below the one before; the one before is wrong if without it all is in order."""
    first_at_each = list({row.position: row for row in reversed(mine)}.values())[::-1]
    found = []
    for index, row in enumerate(first_at_each):
        before = first_at_each[max(index - 2, 0) : index]
        for clock in ("at", "truth"):
            times = [_time(one, clock, row.host) for one in [*before, row]]
            if len(times) < 2 or times[-1] is None or times[-2] is None or times[-1] >= times[-2]:
                continue
            outlier = len(times) == 3 and times[0] is not None and times[0] <= times[-1]
            found.append(before[-1].position if outlier else row.position)
    return found


def _time(row: AnyRow, clock: str, host: str) -> int | None:
    if clock == "truth":
        return row.truth
    return row.at if row.host == host else None


def lives(rows: Sequence[AnyRow]) -> list[Violation]:
    """W2."""
    violations = []
    for life, mine in lives_of(rows).items():
        if all(isinstance(row, FaultRow) for row in mine):
            continue
        for row in mine:
            text = _why_out_of_life(mine, row)
            if text is not None:
                violations.append(Violation("W2", "", *life, row.position, None, text))
        joined = [row for row in mine if row.group and not isinstance(row, StatisticRow | GaugeRow)]
        violations.extend(at(row, "W2", None, text) for row in joined if (text := _why_outside(joined, row)))
    return list({violation.place(): violation for violation in [*violations, *_overlapping(rows)]}.values())


def _why_out_of_life(mine: list[AnyRow], row: AnyRow) -> str | None:
    first = row.position == mine[0].position
    if (row.kind == "START") != first:
        return "it is the first row, and no START" if first else "the life began before"
    if any(one.kind in ("END", "CRASH") and one.position < row.position for one in mine):
        return "the life was over"
    return None


def _why_outside(mine: Sequence[AnyRow], row: AnyRow) -> str | None:
    """Why a row of a group cannot be: its process is not there, or joins again."""
    moves = [
        one
        for one in mine
        if same_member(one, row) and one.position < row.position and one.kind in ("JOIN", "LEAVE", "EXCLUDED")
    ]
    last = next((one.kind for one in reversed(moves) if one.kind != "EXCLUDED" or row.kind == "JOIN"), None)
    if row.kind == "JOIN":
        return "it had joined" if last == "JOIN" else None
    return None if last == "JOIN" else "it had not joined" if last is None else "it had left"


def _overlapping(rows: Sequence[AnyRow]) -> list[Violation]:
    """Lives of one process that began while another one went on."""
    spans = []
    for life, mine in lives_of(rows).items():
        if not all(isinstance(row, FaultRow) for row in mine):
            first = min(mine, key=lambda row: (row.position, moment(row)))
            last = max(mine, key=lambda row: (row.position, moment(row)))
            spans.append((life, first, last))
    return [
        Violation("W2", "", *life, first.position, None, f"it began while {process_name(*other)} lived")
        for life, first, _ in spans
        for other, begun, ended in spans
        if other[0] == life[0]
        and (first.truth is None, begun.truth is None, ended.truth is None) in ((True,) * 3, (False,) * 3)
        and (first.truth is not None or first.host == begun.host == ended.host)
        and (moment(begun), other[1]) < (moment(first), life[1])
        and moment(first) < moment(ended)
    ]


def named_have_rows(rows: Sequence[AnyRow]) -> list[Violation]:
    """W3."""
    lives = {(row.process, row.incarnation) for row in rows}
    asked = {(row.group, process_name(row.process, row.incarnation)) for row in rows if row.kind == "ASKED"}
    violations = [
        at(row, "W3", None, f"there is no row of {process_name(*min(missing))}")
        for row in rows
        if (missing := _named(row) - lives)
    ]
    violations.extend(
        at(row, "W3", None, f"{row.origin} asked for nothing")
        for row in of(rows, SendRow, "SEND")
        if row.origin is not None and (row.group, row.origin) not in asked
    )
    return violations


def _named(row: AnyRow) -> set[Life]:
    """The processes that a row speaks of as being there."""
    found: set[tuple[str | None, int | None]] = set()
    if isinstance(row, ViewRow):
        found = {(start.source, start.incarnation) for start in row.start}
    elif isinstance(row, MembershipRow):
        found = {(row.peer, row.peer_incarnation), *((one.process, one.incarnation) for one in row.members or ())}
    elif isinstance(row, RepairRow):
        found = {(row.source, row.source_incarnation)}
    elif isinstance(row, ProxyRow):
        found = {(row.by, row.by_incarnation)}
    return {(name, incarnation) for name, incarnation in found if name is not None and incarnation is not None}
