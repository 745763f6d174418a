"""Damages of the end after the last fault: a last view that is not that of all, and messages that never come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.properties.damages.passages import AGREED, agreed_views, life, members_of, place, view_at, without
from unisono.properties.damages.reading import FRESH, send_of
from unisono.properties.promises import PRECISION_NANOSECONDS
from unisono.properties.violation import moment
from unisono.trace.schema import AnyRow, DeliverRow, FaultRow, Start

if TYPE_CHECKING:
    from random import Random


class Settled(Struct):
    """A process that lives in a group from long before the last moments to the end, and where its last view stands."""

    group: str
    life: tuple[str, int]
    view: int
    end: AnyRow

    @property
    def due(self) -> int:
        return moment(self.end) - PRECISION_NANOSECONDS


def _settled(rows: Rows) -> list[Settled]:
    """Who must have the right last view: joined once, with agreed views only, with no fault of its name."""
    heals = [moment(row) for row in rows if isinstance(row, FaultRow) and row.fault == "heal"]
    faulty = {name for row in rows if isinstance(row, FaultRow) for name in row.members}
    agreed = set(agreed_views(rows))
    found = []
    for end in [row for row in rows if row.kind == "END"]:
        due = moment(end) - PRECISION_NANOSECONDS
        if not heals or max(heals) > due or end.process in faulty:
            continue
        for group in sorted({row.group for row in rows if row.group}):
            mine = [index for index, row in enumerate(rows) if row.group == group and life(row) == life(end)]
            joins = [rows[index] for index in mine if rows[index].kind == "JOIN"]
            views = [index for index in mine if index in agreed]
            if len(joins) != 1 or moment(joins[0]) > due or not views or moment(rows[views[0]]) > due:
                continue
            if all(rows[index].kind != "LEAVE" and rows[index].service == AGREED for index in mine):
                found.append(Settled(group, life(end), views[-1], end))
    return found


def _senders(rows: Rows) -> list[Settled]:
    return [one for one in _settled(rows) if view_at(rows, one.view).role == "sender"]


@damage("Two that live have different last views.", "L1")
def different_last_view(rows: Rows, random: Random) -> Rows | None:
    settled, senders = _settled(rows), _senders(rows)
    one = one_of(
        random,
        [
            one
            for one in settled
            if any(other.group == one.group and other.life != one.life for other in settled)
            and any(other.group == one.group for other in senders)
        ],
    )
    if one is None:
        return None
    last = rows[one.view].view

    def inside(row: AnyRow) -> bool:
        return row.group == one.group and life(row) == one.life and row.view == last

    return [replace(row, view="another") if inside(row) else row for row in rows]


@damage("A living sender is not in the last view of another process.", "L1")
def missing_in_the_last_view(rows: Rows, random: Random) -> Rows | None:
    pairs = [
        (one, sender.life)
        for one in _settled(rows)
        for sender in _senders(rows)
        if one.group == sender.group and one.life != sender.life
    ]
    pair = one_of(random, pairs)
    if pair is None:
        return None
    one, gone = pair
    view = view_at(rows, one.view)
    kept = [start for start in view.start if (start.source, start.incarnation) != gone]
    rows[one.view] = replace(view, start=kept)
    return rows


@damage("One that crashed long ago is in a last view.", "L1")
def ghost_in_the_last_view(rows: Rows, random: Random) -> Rows | None:
    senders = _senders(rows)
    pairs = [
        (one, row)
        for one in _settled(rows)
        for row in rows
        if row.kind == "CRASH" and moment(row) <= one.due and any(other.group == one.group for other in senders)
    ]
    pair = one_of(random, pairs)
    if pair is None:
        return None
    one, row = pair
    view = view_at(rows, one.view)
    rows[one.view] = replace(view, start=[*view.start, Start(row.process, row.incarnation, 1, 1)])
    return rows


def _begin(rows: Rows, one: Settled) -> int:
    """Where the last view stands that was agreed, and not installed by the order."""
    mine = [index for index in agreed_views(rows) if place(rows[index]) == place(rows[one.view])]
    return max((index for index in mine if view_at(rows, index).era is None), default=one.view)


def _owed(rows: Rows) -> list[tuple[int, Settled, Settled]]:
    """Deliveries, between two senders with the same last view, of what was sent in it in good time."""
    senders = _senders(rows)
    found = []
    for one in senders:
        for source in senders:
            if source.group != one.group or rows[source.view].view != rows[one.view].view or source.life == one.life:
                continue
            mine = [index for index in agreed_views(rows) if place(rows[index]) == place(rows[one.view])]
            since = [index for index in mine if index >= _begin(rows, one)]
            if not all({one.life, source.life} <= set(members_of(view_at(rows, index))) for index in since):
                continue
            for index, row in enumerate(rows):
                if not isinstance(row, DeliverRow) or (row.group, life(row)) != (one.group, one.life):
                    continue
                sent = send_of(rows, row)
                if (row.source, row.source_incarnation) != source.life or sent is None or sent < _begin(rows, source):
                    continue
                later = [row for row in rows[sent:] if row.group == one.group and life(row) == source.life]
                if moment(rows[sent]) <= one.due and not any(row.kind in FRESH for row in later):
                    found.append((index, one, source))
    return found


@damage("A message never comes to a member of the view in which its sender stays.", "L5", "L2")
def never_delivered_in_the_view(rows: Rows, random: Random) -> Rows | None:
    found = one_of(random, _owed(rows))
    return None if found is None else without(rows, found[0])


@damage("Nothing that is sent in its last view comes to a member.", "L5", "L2")
def deaf_at_the_end(rows: Rows, random: Random) -> Rows | None:
    owed = _owed(rows)
    found = one_of(random, owed)
    return None if found is None else without(rows, *[index for index, one, _ in owed if one.life == found[1].life])
