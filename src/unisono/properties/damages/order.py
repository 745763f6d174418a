"""Damages of the order by keys: out of order at one process, across groups, or with something left out."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.properties.damages.passages import era_of
from unisono.properties.damages.reading import FRESH, at_time_of, goes_on, in_place_of, with_start
from unisono.trace.schema import DeliverRow, SendRow, ViewRow

if TYPE_CHECKING:
    from random import Random

TIMED = ("RTO", "UTO")


def _neighbours(rows: Rows) -> list[tuple[int, int]]:
    """Two deliveries under timestamp order of one process with no other delivery or view of it between them."""
    lines: dict[tuple[str, int], list[int]] = {}
    for index, row in enumerate(rows):
        if isinstance(row, DeliverRow | ViewRow):
            lines.setdefault((row.process, row.incarnation), []).append(index)
    pairs = [pair for line in lines.values() for pair in pairwise(line)]
    return [
        pair for pair in pairs if all(isinstance(rows[at], DeliverRow) and rows[at].service in TIMED for at in pair)
    ]


def _swapped(rows: Rows, pair: tuple[int, int] | None) -> Rows | None:
    if pair is None:
        return None
    first, second = rows[pair[0]], rows[pair[1]]
    rows[pair[0]], rows[pair[1]] = in_place_of(second, first), in_place_of(first, second)
    return rows


@damage("Two neighbours in the total order change places at one process.", "O3", "O6")
def swapped_keys(rows: Rows, random: Random) -> Rows | None:
    pairs = [
        (one, two)
        for one, two in _neighbours(rows)
        if (rows[one].group, rows[one].stretch) == (rows[two].group, rows[two].stretch)
    ]
    return _swapped(rows, one_of(random, pairs))


@damage("A message comes after one with a higher timestamp.", "O3", "O6", "O8")
def below_the_horizon(rows: Rows, random: Random) -> Rows | None:
    def timestamp(index: int) -> int:
        row = rows[index]
        assert isinstance(row, DeliverRow)
        return row.timestamp

    pairs = [
        (one, two)
        for one, two in _neighbours(rows)
        if (rows[one].group, rows[one].stretch) == (rows[two].group, rows[two].stretch)
        and timestamp(one) < timestamp(two)
    ]
    return _swapped(rows, one_of(random, pairs))


@damage("Two messages of different groups in one domain change places at one process.", "O6")
def cross_group_inversion(rows: Rows, random: Random) -> Rows | None:
    pairs = []
    for one, two in _neighbours(rows):
        first, second = rows[one], rows[two]
        domains = [_domain(rows, index) for index in (one, two)]
        fresh = any(_is_first(rows, index) for index in (one, two))
        if first.group != second.group and domains[0] is not None and domains[0] == domains[1] and not fresh:
            pairs.append((one, two))
    pair = one_of(random, pairs)
    if pair is None:
        return None
    first, second = rows[pair[0]], rows[pair[1]]
    rows[pair[0]], rows[pair[1]] = at_time_of(second, first), at_time_of(first, second)
    return rows


def _domain(rows: Rows, index: int) -> str | None:
    row = rows[index]
    joins = [
        one
        for one in rows[:index]
        if one.kind == "JOIN" and (one.group, one.process, one.incarnation) == (row.group, row.process, row.incarnation)
    ]
    return getattr(joins[-1], "across", None) if joins else None


def _is_first(rows: Rows, index: int) -> bool:
    """Whether a delivery is the first row of its stretch among deliveries and views."""
    row = rows[index]
    place = (row.group, row.process, row.incarnation, row.stretch)
    return not any(
        isinstance(one, DeliverRow | ViewRow) and (one.group, one.process, one.incarnation, one.stretch) == place
        for one in rows[:index]
    )


class Window(Struct):
    """One view under reliable timestamp order: where it stands, its deliveries, and the next view of its stretch."""

    view: int
    deliveries: list[int] = []
    following: int | None = None

    def of(self, rows: Rows, source: tuple[str, int]) -> list[int]:
        return [index for index in self.deliveries if _source(rows, index) == source]

    def stays(self, rows: Rows, source: tuple[str, int]) -> bool:
        """Whether the source goes on in the next view."""
        return self.following is None or _goes_on(rows, self.following, source)


def _source(rows: Rows, index: int) -> tuple[str, int]:
    row = rows[index]
    assert isinstance(row, DeliverRow)
    return (row.source, row.source_incarnation)


def _sources(rows: Rows, index: int) -> dict[tuple[str, int], int]:
    view = rows[index]
    assert isinstance(view, ViewRow)
    return {(start.source, start.incarnation): start.number for start in view.start}


def _goes_on(rows: Rows, index: int, source: tuple[str, int]) -> bool:
    """Whether what is heard of a source goes on over the view at this place."""
    view = rows[index]
    assert isinstance(view, ViewRow)
    return source in _sources(rows, index) and goes_on(view, source)


def _windows(rows: Rows, by_era: bool = False) -> list[Window]:
    """Every view, or all views of one era together."""
    current: dict[tuple[str, str, int], Window] = {}
    found = []
    for index, row in enumerate(rows):
        member = (row.group, row.process, row.incarnation)
        if isinstance(row, ViewRow):
            if by_era and member in current and _same_era(rows, current[member].view, row):
                continue
            before = current.pop(member, None)
            if before is not None and rows[before.view].stretch == row.stretch:
                before.following = index
            if row.service == "RTO":
                current[member] = Window(index)
                found.append(current[member])
        elif row.kind in FRESH:
            current.pop(member, None)
        elif isinstance(row, DeliverRow) and row.service == "RTO" and member in current:
            current[member].deliveries.append(index)
    return found


def _same_era(rows: Rows, index: int, row: ViewRow) -> bool:
    """Whether a view follows another one of its era by the order."""
    view = rows[index]
    assert isinstance(view, ViewRow)
    return row.era is not None and era_of(view) == row.era and view.stretch == row.stretch


def _without(rows: Rows, gone: list[int]) -> Rows:
    return [row for index, row in enumerate(rows) if index not in gone]


@damage("A message with a lower key than later ones of its source is missing in a view.", "O2", "O4", "O7")
def dropped_lower_key(rows: Rows, random: Random) -> Rows | None:
    candidates = [
        index
        for window in _windows(rows)
        for source in sorted({_source(rows, index) for index in window.deliveries})
        for index in window.of(rows, source)[:-1]
    ]
    index = one_of(random, candidates)
    return None if index is None else _without(rows, [index])


@damage("The last message of a source in an era is missing, though others with higher keys came after it.", "O7")
def dropped_last_of_source(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for window in _windows(rows, by_era=True):
        for source in sorted({_source(rows, index) for index in window.deliveries}):
            last = window.of(rows, source)[-1]
            if last != window.deliveries[-1] and window.stays(rows, source):
                candidates.append(last)
    index = one_of(random, candidates)
    return None if index is None else _without(rows, [index])


@damage("Nothing of a source is delivered in an era, though others with higher keys are.", "O7")
def empty_deliveries(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for window in _windows(rows, by_era=True):
        for source in sorted({_source(rows, index) for index in window.deliveries}):
            mine = window.of(rows, source)
            if window.stays(rows, source) and any(index > mine[0] for index in window.deliveries if index not in mine):
                candidates.append(mine)
    found = one_of(random, candidates)
    return None if found is None else _without(rows, found)


@damage("A later view begins one number too late, and that message is never delivered.", "O2", "O4")
def moved_start(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for window in _windows(rows):
        following = next((one for one in _windows(rows) if one.view == window.following), None)
        for source in [] if following is None else _sources(rows, following.view):
            mine = [] if following is None else following.of(rows, source)
            if following is None or source not in _sources(rows, window.view) or not mine:
                continue
            if not _goes_on(rows, following.view, source):
                continue
            later = len(mine) > 1 or (following.following is None and following.deliveries[-1] != mine[0])
            if later and _number(rows, mine[0]) == _sources(rows, following.view)[source]:
                candidates.append((following.view, source, mine[0]))
    found = one_of(random, candidates)
    if found is None:
        return None
    view, source, delivery = found
    rows[view] = with_start(rows[view], source, 1)
    return _without(rows, [delivery])


def _number(rows: Rows, index: int) -> int:
    row = rows[index]
    assert isinstance(row, DeliverRow | SendRow)
    return row.number
