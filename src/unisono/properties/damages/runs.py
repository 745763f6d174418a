"""Damages of a whole run: standstill, full buffers, and a source that nobody lets in."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.properties.damages.reading import (
    FRESH,
    ORDERED,
    Spell,
    membership_row,
    only_receives,
    owed_until,
    spells_of,
    stretches_due,
    with_start,
)
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS
from unisono.properties.violation import moment
from unisono.trace.schema import AnyRow, DeliverRow, FaultRow, GaugeRow, SendRow, ViewRow

if TYPE_CHECKING:
    from random import Random


@damage("A buffer grows above its cap.", "L7")
def gauge_above_cap(rows: Rows, random: Random) -> Rows | None:
    gauges = [
        (index, row, row.cap) for index, row in enumerate(rows) if isinstance(row, GaugeRow) and row.cap is not None
    ]
    found = one_of(random, gauges)
    if found is None:
        return None
    index, row, cap = found
    rows[index] = replace(row, value=cap + random.randint(1, 100))
    return rows


@damage("Everything stands still for longer than allowed, under load.", "L6")
def stalled(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for begin, end in stretches_due(rows) for index in range(begin, end)])
    if index is None or not any(row.kind in ("END", "VIEW", "DELIVER", "FAULT") for row in rows[index + 1 :]):
        return None
    return _with_a_pause(rows, index, random)


@damage("Nothing is delivered or installed for longer than allowed, under load.", "L6")
def silenced(rows: Rows, random: Random) -> Rows | None:
    long = [
        (begin, end)
        for begin, end in stretches_due(rows)
        if moment(rows[end]) - moment(rows[begin]) > STALL_LIMIT_NANOSECONDS
    ]
    stretch = one_of(random, long)
    if stretch is None:
        return None
    begin, end = stretch
    kept = [row for row in rows[begin : end + 1] if not isinstance(row, ViewRow | DeliverRow)]
    return rows[:begin] + kept + rows[end + 1 :]


@damage("Nothing comes to a member for longer than allowed, though another one sends.", "L9")
def one_kept_waiting(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for index in range(len(rows)) if _waiting(rows, index)])
    return None if index is None else _with_a_pause(rows, index, random)


@damage("The new life of a process is not heard for longer than allowed by one that knew it before.", "L11")
def unheard_life(rows: Rows, random: Random) -> Rows | None:
    lives: dict[tuple[str, str, int], int] = {}
    for index, row in enumerate(rows):
        if isinstance(row, SendRow):
            lives.setdefault((row.group, row.process, row.incarnation), index)
    pairs = [(index, view) for index in lives.values() for view in _connected(rows, index) if _knew(rows, index, view)]
    found = one_of(random, pairs)
    if found is None:
        return None
    index, view = found
    source = (rows[index].process, rows[index].incarnation)
    for place, row in enumerate(rows[:index]):
        mine = (row.group, row.process, row.incarnation) == (view.group, view.process, view.incarnation)
        if isinstance(row, ViewRow) and mine:
            rows[place] = with_start(row, source, None)
    return _with_a_pause(rows, index, random)


def _with_a_pause(rows: Rows, index: int, random: Random) -> Rows:
    """What comes after a row comes later by more than is allowed."""
    pause = STALL_LIMIT_NANOSECONDS + random.randint(1, STALL_LIMIT_NANOSECONDS)
    later: Rows = [
        replace(row, at=row.at + pause, truth=None if row.truth is None else row.truth + pause)
        for row in rows[index + 1 :]
    ]
    return rows[: index + 1] + later


def _waiting(rows: Rows, index: int) -> bool:
    """Whether a message is sent there to one that is in a view with its source, with no fault of either."""
    source = (rows[index].process, rows[index].incarnation)
    return any((start.source, start.incarnation) == source for view in _connected(rows, index) for start in view.start)


def _knew(rows: Rows, index: int, view: ViewRow) -> bool:
    """Whether another life of the source was in a view of that stretch."""
    sent = rows[index]
    return any(
        start.source == sent.process and start.incarnation != sent.incarnation
        for row in rows[:index]
        if isinstance(row, ViewRow) and _place(row) == _place(view)
        for start in row.start
    )


def _connected(rows: Rows, index: int) -> list[ViewRow]:
    """The views that others have where a message is sent, of those that stay, with no fault of them or its source."""
    sent = rows[index]
    if not isinstance(sent, SendRow):
        return []
    away: Counter[str] = Counter()
    for row in rows[:index]:
        if isinstance(row, FaultRow):
            away.update(dict.fromkeys(row.members, 1 if row.edge == "begin" else -1))
    stays = {(row.process, row.incarnation) for row in rows[index:] if row.kind in ("CRASH", "END")}
    last: dict[tuple[str, int], AnyRow] = {}
    for row in rows[:index]:
        told = isinstance(row, GaugeRow) and row.service not in ORDERED
        if row.group == sent.group and (told or isinstance(row, ViewRow) or row.kind in ("JOIN", "LEAVE", *FRESH)):
            last[row.process, row.incarnation] = row
    if (sent.process, sent.incarnation) not in stays or away[sent.process] > 0:
        return []
    return [
        row
        for life, row in last.items()
        if isinstance(row, ViewRow)
        and row.service in ORDERED
        and life in stays
        and life[0] != sent.process
        and away[life[0]] <= 0
    ]


@damage("A living source stays out of the view of a member that wants it.", "L2")
def shut_out(rows: Rows, random: Random) -> Rows | None:
    faults = [row for row in rows if isinstance(row, FaultRow)]
    if not any(row.fault == "heal" for row in faults):
        return None
    cut_off: Counter[str] = Counter()
    for row in faults:
        cut_off.update(dict.fromkeys(row.members, 1 if row.edge == "begin" else -1))
    spells = [spell for spell in spells_of(rows) if not cut_off[spell.member[1]] and not cut_off[spell.source[0]]]
    spell = one_of(random, [spell for spell in spells if _wanted(rows, spell)])
    if spell is None:
        return None
    for view in spell.views:
        rows[view] = with_start(rows[view], spell.source, None)
    return [row for index, row in enumerate(rows) if index not in spell.deliveries]


def _wanted(rows: Rows, spell: Spell) -> bool:
    """Whether the member must have the source in its last view."""
    owed = owed_until(rows, spell)
    group, name, incarnation = spell.member
    join = membership_row(rows, "JOIN", (name, incarnation), group)
    their_join = membership_row(rows, "JOIN", spell.source, group)
    if only_receives(rows, spell.source, group):
        return False
    if owed is None or join is None or their_join is None or max(moment(join), moment(their_join)) > owed:
        return False
    if membership_row(rows, "LEAVE", spell.source, group) is not None:
        return False
    last = rows[spell.views[-1]]
    stretch = [row for row in rows if isinstance(row, ViewRow) and _place(row) == _place(last)]
    if moment(stretch[0]) > owed:
        return False
    sends = [row for row in rows if isinstance(row, SendRow) and (row.process, row.incarnation) == spell.source]
    if not any(row.group == group and moment(row) <= owed for row in sends):
        return False
    return join.reason == "all" or spell.source[0] in (join.reason or "").split(",")


def _place(row: AnyRow) -> tuple[str, str, int, int]:
    return (row.group, row.process, row.incarnation, row.stretch)
