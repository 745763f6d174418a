"""What the oracles read from a trace: rows in order, views, faults and clocks, each looked up as often as it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from unisono.properties.promises import SESSIONS, Role, promised
from unisono.properties.violation import Violation, message_name, moment
from unisono.trace.schema import (
    AnyRow,
    DeliverRow,
    FaultRow,
    GaugeRow,
    MembershipRow,
    ProxyRow,
    RepairRow,
    SendRow,
    Start,
    ViewRow,
)

Kind = TypeVar("Kind", SendRow, DeliverRow, ViewRow, MembershipRow, RepairRow, ProxyRow, GaugeRow, FaultRow)

Key = tuple[int, str, int]
"""What orders messages: timestamp, source, incarnation of the source."""


def of(rows: Sequence[AnyRow], family: type[Kind], *kinds: str) -> list[Kind]:
    """Rows of one family and these kinds, each process in its own order."""
    return sorted((row for row in rows if isinstance(row, family) and row.kind in kinds), key=lambda row: row.position)


def held(row: AnyRow, property_id: str, role: Role | None = None) -> bool:
    """Whether the service of a row promises the property."""
    return promised(row.service, property_id, role)


def deliveries(rows: Sequence[AnyRow], property_id: str) -> list[DeliverRow]:
    """The deliveries whose service promises the property to receivers."""
    return [row for row in of(rows, DeliverRow, "DELIVER") if held(row, property_id, "receiver")]


def same_process(one: AnyRow, other: AnyRow) -> bool:
    return (one.process, one.incarnation) == (other.process, other.incarnation)


def same_member(one: AnyRow, other: AnyRow) -> bool:
    return one.group == other.group and same_process(one, other)


def same_stream(one: DeliverRow, other: DeliverRow) -> bool:
    """Deliveries at one process of one source."""
    sources_agree = (one.source, one.source_incarnation) == (other.source, other.source_incarnation)
    return sources_agree and same_member(one, other)


def name_of(row: DeliverRow) -> str:
    return message_name(row.source, row.source_incarnation, row.number)


def key_of(row: DeliverRow) -> Key:
    return (row.timestamp, row.source, row.source_incarnation)


def sent_key(row: SendRow) -> Key:
    return (row.timestamp, row.process, row.incarnation)


def first_sends(rows: Sequence[AnyRow], group: str, source: tuple[str, int]) -> dict[int, SendRow]:
    """What a source sent to a group, by number: the first SEND of each."""
    found: dict[int, SendRow] = {}
    for row in of(rows, SendRow, "SEND"):
        if row.group == group and (row.process, row.incarnation) == source:
            found.setdefault(row.number, row)
    return found


def at(row: AnyRow, property_id: str, message: str | None, text: str) -> Violation:
    return Violation(property_id, row.group, row.process, row.incarnation, row.position, message, text)


def last_view(rows: Sequence[AnyRow], row: AnyRow) -> ViewRow | None:
    """The view that a row was written in: the last one that its process installed in that group before it."""
    before = [view for view in of(rows, ViewRow, "VIEW") if same_member(view, row) and view.position < row.position]
    return before[-1] if before else None


def current_view(rows: Sequence[AnyRow], row: AnyRow) -> ViewRow | None:
    """The view that a row of a reliable service is in: of the same stretch, with no JOIN since."""
    view = last_view(rows, row)
    joins = [join for join in of(rows, MembershipRow, "JOIN") if same_member(join, row)]
    if view is None or any(view.position < join.position < row.position for join in joins):
        return None
    return view if view.stretch == row.stretch else None


def continued_view(rows: Sequence[AnyRow], view: ViewRow) -> ViewRow | None:
    """The view before, where spells of its sources may go on in this one."""
    before = last_view(rows, view)
    breaks = [row for row in of(rows, MembershipRow, "JOIN", *FRESH) if same_member(row, view)]
    if before is None or any(before.position < row.position < view.position for row in breaks):
        return None
    return before if view.stretch - before.stretch in (0, 1) and held(before, "O2") else None


FRESH = ("SELF_FAIL", "BOOTSTRAP")
"""The rows after which a process begins anew in its group."""


TELLING = ("JOIN", "VIEW", "SEND", "DELIVER", "GAUGE")
"""The rows that tell which service a member has, and by their stretch that it changed it or was away."""


def fresh_between(rows: Sequence[AnyRow], before: AnyRow, after: AnyRow) -> bool:
    """Whether the process of two rows began anew in its group between them."""
    return any(
        same_member(row, before) and before.position < row.position < after.position
        for row in of(rows, MembershipRow, *FRESH)
    )


def agreed_views(rows: Sequence[AnyRow], property_id: str) -> list[ViewRow]:
    """The views whose service promises the property to anybody."""
    return [view for view in of(rows, ViewRow, "VIEW") if held(view, property_id)]


def view_before(rows: Sequence[AnyRow], property_id: str, view: ViewRow) -> ViewRow | None:
    """The VIEW before this one in its stretch."""
    before = [
        one
        for one in agreed_views(rows, property_id)
        if same_member(one, view) and one.stretch == view.stretch and one.position < view.position
    ]
    return before[-1] if before else None


def era_of(view: ViewRow) -> str | None:
    """The era that a view belongs to: that of the agreed view that it followed by the order, or its own."""
    return view.view if view.era is None else view.era


def era_at(rows: Sequence[AnyRow], row: AnyRow) -> str | None:
    """The era that a row was written in, as its own process has it."""
    view = last_view(rows, row)
    return era_of(view) if view is not None and view.view == row.view else row.view


def spans(rows: Sequence[AnyRow], property_id: str, like: AnyRow) -> list[list[ViewRow]]:
    """The views of a stretch, those of one era together; a fresh start ends a span."""
    found: list[list[ViewRow]] = []
    for view in agreed_views(rows, property_id):
        if not same_member(view, like) or view.stretch != like.stretch:
            continue
        before = found[-1][-1] if found else None
        if (
            before is not None
            and view.era is not None
            and view.era == era_of(before)
            and not fresh_between(rows, before, view)
        ):
            found[-1].append(view)
        else:
            found.append([view])
    return found


def start_in(span: Sequence[ViewRow], source: tuple[str, int]) -> Start | None:
    """Where a source begins in a span: in the first view that has it."""
    return next((start for view in span if (start := start_of(view, *source)) is not None), None)


def members_of(view: ViewRow) -> set[tuple[str, int]]:
    return {(start.source, start.incarnation) for start in view.start}


def goes_on_in(view: ViewRow, source: tuple[str, int]) -> bool:
    """Whether what a process hears of a source goes on over this view of it."""
    if start_of(view, *source) is None:
        return False
    if not held(view, "M5") or view.transitional is None or source == (view.process, view.incarnation):
        return True
    return source in {(one.process, one.incarnation) for one in view.transitional}


def row_key(row: AnyRow) -> tuple[str, int, int]:
    return (row.process, row.incarnation, row.position)


def is_outside(mine: Sequence[AnyRow]) -> bool:
    """Whether the last that rows of one member say is that it left."""
    moves = [row.kind for row in sorted(mine, key=lambda row: row.position) if row.kind in ("JOIN", "LEAVE")]
    return bool(moves) and moves[-1] == "LEAVE"


def role_at(mine: Sequence[AnyRow], latest: int | None = None) -> str | None:
    """What the rows of one member, up to a time, say last of its role since it joined: an agreed view, or ROLE."""
    joined = max((row.position for row in of(mine, MembershipRow, "JOIN")), default=-1)
    told: list[ViewRow | MembershipRow] = [*agreed_views(mine, "M2"), *of(mine, MembershipRow, "ROLE")]
    told = [row for row in told if row.position > joined and (latest is None or moment(row) <= latest)]
    return max(told, key=lambda row: row.position).role if told else None


def only_receives(mine: Sequence[AnyRow], due: int, joined_as: str | None = None) -> bool:
    """Whether a member is a receiver at its end, or was one when it should have been heard by all."""
    return "receiver" in (role_at(mine) or joined_as, role_at(mine, due) or joined_as)


def start_of(view: ViewRow, source: str, incarnation: int) -> Start | None:
    found = [start for start in view.start if (start.source, start.incarnation) == (source, incarnation)]
    return found[-1] if found else None


def comparable(one: AnyRow, other: AnyRow) -> bool:
    if one.truth is None or other.truth is None:
        return one.truth is other.truth and one.host == other.host
    return True


def servers(rows: Sequence[AnyRow]) -> set[str]:
    """Who serves sessions: names with a colon that start and never join, in a run that has sessions."""
    joins = of(rows, MembershipRow, "JOIN")
    names = {row.process for row in of(rows, MembershipRow, "START")} - {row.process for row in joins}
    return {name for name in names if ":" in name and any(row.service in SESSIONS for row in joins)}


def one_of_each_kind(names: set[str], present: set[str]) -> bool:
    """Whether of servers and of controllers, where there are any, one is present."""
    return {name.split(":")[0] for name in names} == {name.split(":")[0] for name in names & present}


def cut_off(rows: Sequence[AnyRow]) -> set[str]:
    """Names in a fault that began and never ended."""
    faults = [row for row in of(rows, FaultRow, "FAULT") if row.fault not in ("load", "heal")]
    names = {name for row in faults for name in row.members}

    def edges(name: str, edge: str) -> int:
        return len([row for row in faults if row.edge == edge and name in row.members])

    return {name for name in names if edges(name, "begin") > edges(name, "end")}
