"""Damages of a farewell: what a process sent last before it left comes to nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.properties.damages.passages import era_of, life
from unisono.properties.damages.reading import FRESH
from unisono.properties.promises import SESSIONS, STRONG
from unisono.properties.violation import moment
from unisono.trace.schema import AnyRow, DeliverRow, MembershipRow, SendRow, ViewRow

if TYPE_CHECKING:
    from random import Random

Member = tuple[str, str, int]


def _member(row: AnyRow) -> Member:
    return (row.group, row.process, row.incarnation)


def _farewells(rows: Rows) -> dict[Member, int]:
    """Who left once, and where."""
    leaves: dict[Member, list[int]] = {}
    for index, row in enumerate(rows):
        if isinstance(row, MembershipRow) and row.kind == "LEAVE" and row.reason is None:
            leaves.setdefault(_member(row), []).append(index)
    return {member: found[0] for member, found in leaves.items() if len(found) == 1}


def _told(rows: Rows) -> list[tuple[ViewRow, int, Member]]:
    """Views with the index of the next one of that process, which says of a member of the first that it left."""
    found: list[tuple[ViewRow, int, Member]] = []
    before: dict[Member, ViewRow] = {}
    for index, row in enumerate(rows):
        if row.kind == "JOIN" or row.kind in FRESH:
            before.pop(_member(row), None)
        elif isinstance(row, ViewRow):
            view, before[_member(row)] = before.get(_member(row)), row
            if view is None or view.stretch != row.stretch or row.service not in ("RSO", "RTO", STRONG):
                continue
            members = {(start.source, start.incarnation) for start in view.start}
            found.extend(
                (view, index, (row.group, one.process, one.incarnation))
                for one in row.reasons
                if one.reason == "left" and (one.process, one.incarnation) in members - {life(row)}
            )
    return found


def _lost(rows: Rows, random: Random, sessions: bool) -> Rows | None:
    farewells = _farewells(rows)
    candidates: list[SendRow] = []
    for view, told, leaver in _told(rows):
        if leaver not in farewells or (view.service in SESSIONS) != sessions:
            continue
        for index in range(farewells[leaver]):
            row = rows[index]
            if not isinstance(row, SendRow) or _member(row) != leaver or moment(row) > moment(rows[told]):
                continue
            if view.service == "RSO" or (
                row.agreed == era_of(view) and not _moves(rows[index : farewells[leaver]], leaver)
            ):
                heard = [one for one in rows[:told] if _is_of(one, row) and _member(one) == _member(view)]
                if any(one.stretch == view.stretch for one in heard) and _is_in(view, row):
                    candidates.append(row)
    chosen = one_of(random, candidates)
    if chosen is None:
        return None
    sent: SendRow = chosen

    def is_lost(row: AnyRow) -> bool:
        """A delivery of that message, or of a later one before the leave, by another process."""
        if not isinstance(row, DeliverRow) or life(row) == life(sent):
            return False
        return (row.group, row.source, row.source_incarnation) == _member(sent) and row.number >= sent.number

    return [row for row in rows if not is_lost(row)]


def _moves(rows: Rows, member: Member) -> bool:
    """Whether a member comes into another agreed view."""
    mine = [row for row in rows if _member(row) == member]
    return any(row.kind == "AGREED" or (isinstance(row, ViewRow) and row.era is None) for row in mine)


def _is_in(view: ViewRow, sent: SendRow) -> bool:
    """Whether the message is not from before the start points of the view."""
    starts = [one.number for one in view.start if (one.source, one.incarnation) == life(sent)]
    return view.service in SESSIONS or starts[-1] <= sent.number


def _is_of(row: AnyRow, sent: SendRow) -> bool:
    return isinstance(row, DeliverRow) and (row.group, row.source, row.source_incarnation, row.number) == (
        *_member(sent),
        sent.number,
    )


@damage("What a process sent last before it left comes to nobody else.", "D13")
def last_sends_lost(rows: Rows, random: Random) -> Rows | None:
    return _lost(rows, random, sessions=False)


@damage("What a member of a session sent last before it left comes to nobody else.", "D13")
def session_last_sends_lost(rows: Rows, random: Random) -> Rows | None:
    return _lost(rows, random, sessions=True)
