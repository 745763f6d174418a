"""Damages of one life's own rows: positions, clocks, and where it begins, joins, leaves and ends."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, as_it_stands, one_of
from unisono.trace.schema import AnyRow, FaultRow, GaugeRow, MembershipRow, SendRow, StatisticRow, ViewRow

if TYPE_CHECKING:
    from random import Random

HOUR = 3_600_000_000_000


def life_of(row: AnyRow) -> tuple[str, int]:
    return (row.process, row.incarnation)


def lives_in(rows: Rows) -> dict[tuple[str, int], list[int]]:
    """Where the rows of each life stand, but of whoever writes of faults alone."""
    lives: dict[tuple[str, int], list[int]] = {}
    for index, row in enumerate(rows):
        lives.setdefault(life_of(row), []).append(index)
    return {life: mine for life, mine in lives.items() if not all(isinstance(rows[index], FaultRow) for index in mine)}


def inner_rows(rows: Rows) -> list[int]:
    """Rows with at least two of their own life before them, and one after."""
    return sorted(index for mine in lives_in(rows).values() for index in mine[2:-1])


def later(row: AnyRow, nanoseconds: int) -> AnyRow:
    return replace(row, at=row.at + nanoseconds, truth=None if row.truth is None else row.truth + nanoseconds)


@as_it_stands("From one row of a process on, all positions are one too high.", "W1")
def missing_position(rows: Rows, random: Random) -> Rows | None:
    found = one_of(random, inner_rows(rows))
    if found is None:
        return None
    life = life_of(rows[found])
    return [
        replace(row, position=row.position + 1) if index >= found and life_of(row) == life else row
        for index, row in enumerate(rows)
    ]


@as_it_stands("The positions of a process do not begin with 0.", "W1")
def positions_from_one(rows: Rows, random: Random) -> Rows | None:
    life = one_of(random, sorted(lives_in(rows)))
    if life is None:
        return None
    return [replace(row, position=row.position + 1) if life_of(row) == life else row for row in rows]


@as_it_stands("A row has the position of the one before it.", "W1")
def doubled_position(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, inner_rows(rows))
    if index is None:
        return None
    rows[index] = replace(rows[index], position=rows[index].position - 1)
    return rows


@as_it_stands("One row is an hour ahead of those around it.", "W1")
def an_hour_ahead(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, inner_rows(rows))
    if index is None:
        return None
    rows[index] = later(rows[index], HOUR)
    return rows


@as_it_stands("From one row on, the clock of a process stands an hour back.", "W1")
def an_hour_back(rows: Rows, random: Random) -> Rows | None:
    found = one_of(random, inner_rows(rows))
    if found is None:
        return None
    life = life_of(rows[found])
    return [
        replace(row, at=row.at - HOUR) if index >= found and life_of(row) == life else row
        for index, row in enumerate(rows)
    ]


@as_it_stands("One row of a process is by another host's clock.", "W1")
def another_host(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, inner_rows(rows))
    if index is None:
        return None
    rows[index] = replace(rows[index], host=f"{rows[index].host}'")
    return rows


@as_it_stands("One row of a process has a global time where the others have none, or none where they have one.", "W1")
def another_clock(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, inner_rows(rows))
    if index is None:
        return None
    rows[index] = replace(rows[index], truth=rows[index].at if rows[index].truth is None else None)
    return rows


def _inserted(rows: Rows, index: int, row: AnyRow) -> Rows:
    """With a row behind another one of its life, at its time, and positions that are dense."""
    like = rows[index]
    life = life_of(like)
    placed = replace(row, position=like.position + 1, at=like.at, truth=like.truth)
    moved = [
        replace(one, position=one.position + 1) if life_of(one) == life and one.position > like.position else one
        for one in rows
    ]
    return [*moved[: index + 1], placed, *moved[index + 1 :]]


def _without(rows: Rows, index: int) -> Rows:
    gone = rows[index]
    left = rows[:index] + rows[index + 1 :]
    return [
        replace(row, position=row.position - 1)
        if life_of(row) == life_of(gone) and row.position > gone.position
        else row
        for row in left
    ]


def _again_behind(rows: Rows, random: Random, kinds: tuple[str, ...], ends: tuple[str, ...]) -> Rows | None:
    """A row of one of these kinds once more behind one that ends what it could be in."""
    pairs: list[tuple[int, int]] = []
    for mine in lives_in(rows).values():
        last: dict[str, int] = {}
        for index in mine:
            row = rows[index]
            if row.kind in kinds:
                last[row.group] = index
            elif row.kind in ends:
                pairs.extend((index, last[group]) for group in sorted(last) if row.group in ("", group))
    pair = one_of(random, pairs)
    return None if pair is None else _inserted(rows, pair[0], rows[pair[1]])


@as_it_stands("A process delivers in a group that it has left.", "W2")
def delivery_after_leave(rows: Rows, random: Random) -> Rows | None:
    return _again_behind(rows, random, ("DELIVER",), ("LEAVE",))


@as_it_stands("A process sends in a group that it has left.", "W2")
def send_after_leave(rows: Rows, random: Random) -> Rows | None:
    return _again_behind(rows, random, ("SEND",), ("LEAVE",))


@as_it_stands("A process does something after its end, or its crash.", "W2")
def row_after_the_end(rows: Rows, random: Random) -> Rows | None:
    return _again_behind(rows, random, ("SEND", "DELIVER", "VIEW", "GAUGE"), ("END", "CRASH"))


@as_it_stands("A life begins twice.", "W2")
def second_start(rows: Rows, random: Random) -> Rows | None:
    pairs = [(random.choice(mine[1:]), mine[0]) for mine in lives_in(rows).values() if len(mine) > 1]
    pair = one_of(random, pairs)
    return None if pair is None else _inserted(rows, pair[0], rows[pair[1]])


@as_it_stands("Nothing says that a life began.", "W2")
def removed_start(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [mine[0] for mine in lives_in(rows).values() if len(mine) > 1])
    return None if index is None else _without(rows, index)


def _stays(rows: Rows) -> list[int]:
    """Every JOIN that something follows before the next move: not statistics and gauges alone."""
    found = []
    for index, join in enumerate(rows):
        if join.kind == "JOIN":
            following = [row for row in rows[index + 1 :] if life_of(row) == life_of(join) and row.group == join.group]
            here = takewhile(lambda row: row.kind not in ("JOIN", "LEAVE"), following)
            if any(not isinstance(row, StatisticRow | GaugeRow) for row in here):
                found.append(index)
    return found


@as_it_stands("A member does something in a group that it never joined, or has left.", "W2")
def removed_join(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, _stays(rows))
    return None if index is None else _without(rows, index)


@as_it_stands("A member joins a group that it is in.", "W2")
def joined_twice(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for index, row in enumerate(rows) if row.kind == "JOIN"])
    return None if index is None else _inserted(rows, index, rows[index])


@as_it_stands("A life begins while another one of the process goes on.", "W2")
def two_lives_at_once(rows: Rows, random: Random) -> Rows | None:
    """Half of a life's rows, with a START of its own, become another life."""
    lives = {life: mine for life, mine in lives_in(rows).items() if len(mine) > 4}
    life = one_of(random, sorted(lives))
    if life is None:
        return None
    mine = lives[life]
    start, inner = rows[mine[0]], [index for index in mine[1:-1] if isinstance(rows[index], GaugeRow | SendRow)]
    if not inner or not isinstance(start, MembershipRow):
        return None
    other = replace(start, incarnation=life[1] + 1, at=rows[mine[1]].at, truth=rows[mine[1]].truth)
    return [*rows[: mine[1] + 1], other, *rows[mine[1] + 1 :]] if _moves(rows, mine) else None


def _moves(rows: Rows, mine: list[int]) -> bool:
    """Whether time passes between the second and the last row of a life."""
    return rows[mine[1]].at < rows[mine[-1]].at


@as_it_stands("A member of a view has not one row.", "W3")
def member_without_rows(rows: Rows, random: Random) -> Rows | None:
    lives = lives_in(rows)
    named = {
        (start.source, start.incarnation)
        for row in rows
        if isinstance(row, ViewRow)
        for start in row.start
        if (start.source, start.incarnation) != life_of(row)
    }
    life = one_of(random, sorted(named & lives.keys()))
    return None if life is None else [row for row in rows if life_of(row) != life]
