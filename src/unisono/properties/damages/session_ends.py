"""Damages of the end of sessions: what never comes, what is never released, and views without somebody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.properties.damages.passages import delivery_at, life, members_of, view_at, without
from unisono.properties.damages.reading import send_of
from unisono.properties.damages.session_deliveries import deliveries_of, sending_view, without_one_of
from unisono.properties.damages.sessions import ANEW, is_optimistic, seat
from unisono.properties.promises import SESSIONS, SETTLING_NANOSECONDS, STRONG
from unisono.properties.violation import moment
from unisono.trace.schema import FaultRow, MembershipRow, SendRow, ViewRow

if TYPE_CHECKING:
    from random import Random


def _calm_ends(rows: Rows) -> list[MembershipRow]:
    """Ends of sessions long after the last fault, where nobody is away."""
    faults = [row for row in rows if isinstance(row, FaultRow)]
    heals = [moment(row) for row in faults if row.fault == "heal"]
    begun = sum(row.edge == "begin" for row in faults if row.members)
    ended = sum(row.edge == "end" for row in faults if row.members)
    ends = [row for row in rows if isinstance(row, MembershipRow) and row.kind == "END" and ":" not in row.process]
    if not heals or begun != ended:
        return []
    return [row for row in ends if max(heals) <= moment(row) - SETTLING_NANOSECONDS]


def _last_view(rows: Rows, end: MembershipRow, service: str) -> int | None:
    mine = [index for index, row in enumerate(rows) if life(row) == life(end) and row.service == service]
    turns = [index for index in mine if isinstance(rows[index], ViewRow) or rows[index].kind in ANEW]
    return turns[-1] if turns and isinstance(rows[turns[-1]], ViewRow) else None


@damage("At the end a session lacks a message that was sent in its last view.", "L2")
def session_deaf_at_the_end(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    living = {life(end) for end in _calm_ends(rows)}
    for end, service in [(end, service) for end in _calm_ends(rows) for service in sorted(SESSIONS)]:
        view = _last_view(rows, end, service)
        if view is None or moment(rows[view]) > moment(end) - SETTLING_NANOSECONDS:
            continue
        for index in deliveries_of(rows, service):
            row = delivery_at(rows, index)
            sent = send_of(rows, row)
            if life(row) != life(end) or sending_view(rows, index) != rows[view].view or sent is None:
                continue
            if set(members_of(view_at(rows, view))) <= living and _settled_sender(rows, sent, rows[view].view):
                candidates.append(index)
    return without_one_of(rows, random, candidates)


def _settled_sender(rows: Rows, sent: int, view: str | None) -> bool:
    """Whether the sender of a message has its view as its last one."""
    views = [row.view for row in rows if isinstance(row, ViewRow) and seat(row) == seat(rows[sent])]
    return bool(views) and views[-1] == view


@damage("A session never releases what it sent in its last view.", "L4")
def session_never_releases(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for end in _calm_ends(rows):
        view = _last_view(rows, end, STRONG)
        if view is None or moment(rows[view]) > moment(end) - SETTLING_NANOSECONDS:
            continue
        mine = [
            index for index, row in enumerate(rows) if seat(row) == seat(rows[view]) and row.view == rows[view].view
        ]
        if any(isinstance(rows[index], SendRow) and not is_optimistic(rows[index]) for index in mine):
            candidates.append([index for index in mine if rows[index].kind == "GC"])
    released = one_of(random, [found for found in candidates if found])
    return None if released is None else without(rows, *released)


@damage("The last view of a session lacks somebody who is there.", "L1")
def session_missing_in_the_last_view(rows: Rows, random: Random) -> Rows | None:
    candidates: list[tuple[int, tuple[str, int]]] = []
    for end in _calm_ends(rows):
        for service in sorted(SESSIONS):
            view = _last_view(rows, end, service)
            if view is not None and moment(rows[view]) <= moment(end) - 5 * SETTLING_NANOSECONDS:
                others = [one for one in members_of(view_at(rows, view)) if one != life(end)]
                candidates.extend((view, one) for one in others)
    found = one_of(random, candidates)
    if found is None:
        return None
    return _without_member(rows, *found)


@damage("A session installs a view without being in it.", "M1", "M4")
def session_without_itself(rows: Rows, random: Random) -> Rows | None:
    views = [index for index, row in enumerate(rows) if isinstance(row, ViewRow) and row.service in SESSIONS]
    shared = [index for index in views if sum(rows[one].view == rows[index].view for one in views) > 1]
    index = one_of(random, shared)
    if index is None:
        return None
    return _without_member(rows, index, life(rows[index]))


def _without_member(rows: Rows, index: int, member: tuple[str, int]) -> Rows:
    view = view_at(rows, index)
    rows[index] = replace(view, start=[one for one in view.start if (one.source, one.incarnation) != member])
    return rows
