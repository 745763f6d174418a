"""The obvious form of every property: look at all rows of one run, as often as it takes.

Slow on purpose. These functions share no checking code with the monitors, which are tested against them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

from unisono.properties.promises import PROTOCOL, SETTLING_NANOSECONDS, STALL_LIMIT_NANOSECONDS, promised
from unisono.properties.violation import Violation, message_name, moment, process_name
from unisono.trace.schema import (
    AnyRow,
    DeliverRow,
    FaultRow,
    GaugeRow,
    MembershipRow,
    SendRow,
    Start,
    ViewRow,
)

Kind = TypeVar("Kind", SendRow, DeliverRow, ViewRow, MembershipRow, GaugeRow, FaultRow)


def _of(rows: Sequence[AnyRow], family: type[Kind], *kinds: str) -> list[Kind]:
    """Rows of one family and these kinds, each process in its own order."""
    return sorted((row for row in rows if isinstance(row, family) and row.kind in kinds), key=lambda row: row.position)


def _deliveries(rows: Sequence[AnyRow], property_id: str) -> list[DeliverRow]:
    return [row for row in _of(rows, DeliverRow, "DELIVER") if promised(PROTOCOL, row.service, property_id)]


def _same_process(one: AnyRow, other: AnyRow) -> bool:
    return (one.process, one.incarnation) == (other.process, other.incarnation)


def _same_member(one: AnyRow, other: AnyRow) -> bool:
    return one.group == other.group and _same_process(one, other)


def _same_stream(one: DeliverRow, other: DeliverRow) -> bool:
    """Deliveries at one process of one source."""
    sources_agree = (one.source, one.source_incarnation) == (other.source, other.source_incarnation)
    return sources_agree and _same_member(one, other)


def _name(row: DeliverRow) -> str:
    return message_name(row.source, row.source_incarnation, row.number)


def _at(row: AnyRow, property_id: str, message: str | None, text: str) -> Violation:
    return Violation(property_id, row.group, row.process, row.incarnation, row.position, message, text)


def delivery_integrity(rows: Sequence[AnyRow]) -> list[Violation]:
    """D1."""
    violations = []
    for delivery in _deliveries(rows, "D1"):
        sends = [
            row
            for row in _of(rows, SendRow, "SEND")
            if (row.group, row.process, row.incarnation, row.number)
            == (delivery.group, delivery.source, delivery.source_incarnation, delivery.number)
        ]
        if not sends:
            violations.append(_at(delivery, "D1", _name(delivery), "delivered, but never sent"))
            continue
        sent = sends[0]
        wrong = [
            part for part in ("sequence", "size", "body", "timestamp") if getattr(sent, part) != getattr(delivery, part)
        ]
        if sent.truth is not None and delivery.truth is not None and sent.truth > delivery.truth:
            wrong.append("time")
        if wrong:
            violations.append(
                _at(delivery, "D1", _name(delivery), f"delivered otherwise than sent: {', '.join(wrong)}")
            )
    return violations


def no_duplication(rows: Sequence[AnyRow]) -> list[Violation]:
    """D2."""
    deliveries = _deliveries(rows, "D2")
    return [
        _at(row, "D2", _name(row), "delivered again")
        for row in deliveries
        if any(
            _same_stream(row, other) and row.number == other.number and other.position < row.position
            for other in deliveries
        )
    ]


def _last_view(rows: Sequence[AnyRow], row: AnyRow) -> ViewRow | None:
    """The view that a row was written in: the last one that its process installed in that group before it."""
    before = [view for view in _of(rows, ViewRow, "VIEW") if _same_member(view, row) and view.position < row.position]
    return before[-1] if before else None


def _view_since_join(rows: Sequence[AnyRow], row: AnyRow) -> ViewRow | None:
    """The same, unless the process joined anew since: spells do not reach across an absence."""
    view = _last_view(rows, row)
    joins = [join for join in _of(rows, MembershipRow, "JOIN") if _same_member(join, row)]
    if view is not None and any(view.position < join.position < row.position for join in joins):
        return None
    return view


def _is_outside(mine: Sequence[AnyRow]) -> bool:
    """Whether the last that rows of one member say is that it left."""
    moves = [row.kind for row in sorted(mine, key=lambda row: row.position) if row.kind in ("JOIN", "LEAVE")]
    return bool(moves) and moves[-1] == "LEAVE"


def in_a_view(rows: Sequence[AnyRow]) -> list[Violation]:
    """M3."""
    violations = []
    held: list[SendRow | DeliverRow] = [*_of(rows, SendRow, "SEND"), *_of(rows, DeliverRow, "DELIVER")]
    for row in held:
        if not promised(PROTOCOL, row.service, "M3"):
            continue
        view = _last_view(rows, row)
        if row.view is None or view is None or view.view != row.view:
            name = _name(row) if isinstance(row, DeliverRow) else message_name(row.process, row.incarnation, row.number)
            current = None if view is None else view.view
            violations.append(_at(row, "M3", name, f"written in view {row.view}, installed is {current}"))
    return violations


def fifo(rows: Sequence[AnyRow]) -> list[Violation]:
    """O1."""
    violations = []
    deliveries = _deliveries(rows, "O1")
    for row in deliveries:
        earlier = [other for other in deliveries if _same_stream(row, other) and other.position < row.position]
        if earlier and earlier[-1].number >= row.number:
            violations.append(_at(row, "O1", _name(row), f"delivered after {_name(earlier[-1])}"))
    return violations


def _start_of(view: ViewRow, source: str, incarnation: int) -> Start | None:
    found = [start for start in view.start if (start.source, start.incarnation) == (source, incarnation)]
    return found[-1] if found else None


def reliable_fifo(rows: Sequence[AnyRow]) -> list[Violation]:
    """O2: every delivery and every start point of a spell continues the item before it."""
    violations = []
    deliveries = _deliveries(rows, "O2")

    def continued(view: ViewRow, start: Start, until: AnyRow) -> int:
        """The number that is due at `until`, where `view` is the last view before it."""
        since = [
            row.number
            for row in deliveries
            if _same_member(row, view)
            and (row.source, row.source_incarnation) == (start.source, start.incarnation)
            and view.position < row.position < until.position
        ]
        return since[-1] + 1 if since else start.number

    for row in deliveries:
        view = _view_since_join(rows, row)
        start = None if view is None else _start_of(view, row.source, row.source_incarnation)
        if view is None or start is None:
            violations.append(_at(row, "O2", _name(row), "delivered from a source outside the view"))
        elif row.number != continued(view, start, row):
            violations.append(_at(row, "O2", _name(row), f"delivered where {continued(view, start, row)} was due"))
    for later in _of(rows, ViewRow, "VIEW"):
        view = _view_since_join(rows, later)
        if view is None or not promised(PROTOCOL, later.service, "O2"):
            continue
        for start in later.start:
            before = _start_of(view, start.source, start.incarnation)
            if before is not None and start.number != continued(view, before, later):
                name = message_name(start.source, start.incarnation, start.number)
                text = f"the view begins there, but {continued(view, before, later)} was due"
                violations.append(_at(later, "O2", name, text))
    return violations


def _comparable(one: AnyRow, other: AnyRow) -> bool:
    if one.truth is None or other.truth is None:
        return one.truth is other.truth and one.host == other.host
    return True


def _cut_off(rows: Sequence[AnyRow]) -> set[str]:
    """Names in a fault that began and never ended."""
    faults = [row for row in _of(rows, FaultRow, "FAULT") if row.fault not in ("load", "heal")]
    names = {name for row in faults for name in row.members}

    def edges(name: str, edge: str) -> int:
        return len([row for row in faults if row.edge == edge and name in row.members])

    return {name for name in names if edges(name, "begin") > edges(name, "end")}


def multicast_liveness(rows: Sequence[AnyRow]) -> list[Violation]:
    """L2."""
    violations = []
    ends = _of(rows, MembershipRow, "END")
    groups = sorted({row.group for row in rows if row.group})
    pairs = [(group, end, other) for group in groups for end in ends for other in ends if _comparable(end, other)]
    for group, end, other in pairs:
        mine = sorted(
            (row for row in rows if row.group == group and _same_process(row, end)), key=lambda row: row.position
        )
        theirs = [row for row in rows if row.group == group and _same_process(row, other)]
        services = [row.service for row in mine if row.kind in ("JOIN", "VIEW") and row.service is not None]
        if not any(row.kind in ("JOIN", "VIEW") for row in mine) or _is_outside(mine):
            continue
        if not promised(PROTOCOL, services[-1] if services else None, "L2"):
            continue
        joined = max((row.position for row in _of(mine, MembershipRow, "JOIN")), default=-1)
        views = [view for view in _of(mine, ViewRow, "VIEW") if view.position > joined]
        last_due = moment(end) - SETTLING_NANOSECONDS
        due = [row for row in _of(theirs, SendRow, "SEND") if moment(row) <= last_due]
        if views and _start_of(views[-1], other.process, other.incarnation) is not None:
            first = _spell_start(views, other)
            got = {
                row.number
                for row in _deliveries(mine, "L2")
                if (row.source, row.source_incarnation) == (other.process, other.incarnation)
            }
            missing = sorted(row.number for row in due if row.number >= first and row.number not in got)
            if missing:
                name = message_name(other.process, other.incarnation, missing[0])
                text = f"{len(missing)} messages never delivered"
                violations.append(Violation("L2", group, end.process, end.incarnation, end.position, name, text))
        elif due and _must_know(rows, mine, theirs, end, other):
            text = f"{process_name(other.process, other.incarnation)} is not in the last view"
            violations.append(Violation("L2", group, end.process, end.incarnation, end.position, None, text))
    return violations


def _spell_start(views: list[ViewRow], source: MembershipRow) -> int:
    """Where the current spell of a source in the last view began."""
    number = 0
    for view in reversed(views):
        start = _start_of(view, source.process, source.incarnation)
        if start is None:
            break
        number = start.number
    return number


def _must_know(
    rows: Sequence[AnyRow], mine: list[AnyRow], theirs: list[AnyRow], end: MembershipRow, other: MembershipRow
) -> bool:
    """Whether the process that wrote `end` must have the other one in its view at the end."""
    my_joins, their_joins = _of(mine, MembershipRow, "JOIN"), _of(theirs, MembershipRow, "JOIN")
    if not my_joins or not their_joins or _is_outside(theirs):
        return False
    if not any(row.fault == "heal" for row in _of(rows, FaultRow, "FAULT")):
        return False
    if {end.process, other.process} & _cut_off(rows):
        return False
    if max(moment(my_joins[-1]), moment(their_joins[-1])) > moment(end) - SETTLING_NANOSECONDS:
        return False
    reason = my_joins[-1].reason
    if reason is None or reason == "once":
        return False
    return reason == "all" or other.process in [name.strip() for name in reason.split(",")]


def _eligible(history: Sequence[AnyRow]) -> bool:
    """Whether progress is due after these rows: loaded, and most of the names started so far are present."""
    load = 0
    started: dict[str, bool] = {}
    joined: dict[str, set[str]] = {}
    gone: set[str] = set()
    taken: dict[str, int] = {}
    for row in history:
        if isinstance(row, FaultRow) and row.kind == "FAULT":
            step = 1 if row.edge == "begin" else -1
            if row.fault == "load":
                load = max(0, load + step)
            elif row.fault != "heal":
                for name in row.members:
                    taken[name] = max(0, taken.get(name, 0) + step)
        elif row.kind == "START":
            started[row.process] = True
        elif row.kind == "CRASH":
            started[row.process] = False
            joined[row.process] = set()
        elif row.kind == "JOIN":
            joined.setdefault(row.process, set()).add(row.group)
            gone.discard(row.process)
        elif row.kind == "LEAVE":
            joined.setdefault(row.process, set()).discard(row.group)
            if not joined[row.process]:
                gone.add(row.process)
    names = {row.process for row in history if row.kind == "START"}
    present = [name for name in names if started[name] and name not in gone and not taken.get(name)]
    return load > 0 and len(present) >= 2 and 2 * len(present) > len(names)


def no_deadlock(rows: Sequence[AnyRow]) -> list[Violation]:
    """L6."""
    read = [row for row in rows if row.kind in ("START", "JOIN", "LEAVE", "CRASH", "END", "VIEW", "DELIVER", "FAULT")]
    read.sort(key=lambda row: (moment(row), row.process, row.incarnation, row.position))
    times = sorted({moment(row) for row in read})
    progress = {
        moment(row) for row in read if row.kind == "VIEW" or (isinstance(row, DeliverRow) and row.source != row.process)
    }
    violations = []
    quiet_since: int | None = None
    for time, following in pairwise(times):
        if not _eligible([row for row in read if moment(row) <= time]):
            quiet_since = None
            continue
        if quiet_since is None or time in progress:
            quiet_since = time
        stretch_goes_on = following != times[-1] and _eligible([row for row in read if moment(row) <= following])
        gap_ends = following in progress or not stretch_goes_on
        if gap_ends and following - quiet_since > STALL_LIMIT_NANOSECONDS:
            text = f"no progress from {quiet_since} to {following}"
            violations.append(Violation("L6", "", "", 0, 0, None, text))
    return violations


def bounded_resources(rows: Sequence[AnyRow]) -> list[Violation]:
    """L7."""
    return [
        _at(row, "L7", None, f"{row.name} is {row.value}, its cap is {row.cap}")
        for row in _of(rows, GaugeRow, "GAUGE")
        if promised(PROTOCOL, row.service, "L7") and row.cap is not None and row.value > row.cap
    ]
