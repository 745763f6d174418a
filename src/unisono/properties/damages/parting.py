"""Damages of who stays together: members part, and no fault says why."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.properties.damages.lives import life_of
from unisono.properties.damages.passages import AGREED, members_of, view_at
from unisono.properties.damages.reading import with_start
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS
from unisono.properties.violation import moment
from unisono.trace.schema import AnyRow, FaultRow, MembershipRow, ViewRow

if TYPE_CHECKING:
    from random import Random

Life = tuple[str, int]
Cut = tuple[str, tuple[tuple[str, ...], ...]]
"""The name of a fault and its sides."""


class _Excuses:
    """All that may excuse members that part: who is gone, and when, and the faults that are felt."""

    def __init__(self, rows: Rows) -> None:
        self.ends: dict[Life, int] = {}
        self.moves: dict[tuple[str, Life], list[int]] = defaultdict(list)
        self.farewells: dict[tuple[str, Life], list[int]] = defaultdict(list)
        self.told: dict[tuple[str, Life], list[int]] = defaultdict(list)
        """Where one is told that others went on without it."""
        self.failed: dict[tuple[str, Life], list[int]] = defaultdict(list)
        self.begins: dict[Cut, list[int]] = defaultdict(list)
        self.stops: dict[Cut, list[int]] = defaultdict(list)
        for row in rows:
            where = (row.group, life_of(row))
            if isinstance(row, FaultRow):
                if row.sides and row.fault not in ("load", "heal"):
                    (self.begins if row.edge == "begin" else self.stops)[_cut(row)].append(moment(row))
            elif row.kind in ("CRASH", "END"):
                since = moment(row) - (STALL_LIMIT_NANOSECONDS if row.kind == "CRASH" else 0)
                self.ends[life_of(row)] = min(since, self.ends.get(life_of(row), since))
            elif row.kind in ("LEAVE", "SELF_FAIL"):
                self.moves[where].append(moment(row))
                if row.kind == "SELF_FAIL":
                    self.failed[where].append(row.position)
            elif _says_farewell(row):
                self.farewells[where].append(moment(row))
            elif row.kind in ("EXCLUDED", "LEFT_BEHIND"):
                self.told[where].append(row.position)

    def felt(self, at: int) -> list[Cut]:
        """The faults that go on, or ended shortly before."""
        since = at - STALL_LIMIT_NANOSECONDS
        return [
            cut
            for cut, begins in self.begins.items()
            if sum(begin <= at for begin in begins) > sum(stop < since for stop in self.stops.get(cut, ()))
        ]

    def fail(self, before: ViewRow, after: ViewRow, without_faults: bool = False) -> bool:
        """One surely goes on without another that is there and that all hear, or would hear without faults."""
        where, at = (before.group, life_of(before)), moment(after)
        told, failed = (
            any(before.position < position < after.position for position in positions.get(where, ()))
            for positions in (self.told, self.failed)
        )
        if told or after.stretch - before.stretch not in ((0, 1) if failed else (0,)):
            return False
        old, new = set(members_of(before)), set(members_of(after))
        missed = [life[0] for life in old - new - {life_of(before)} if self._is_there(before.group, life, at)]
        alone = before.role == after.role == "receiver" and len(missed) > len(old & new)
        if failed and not alone:
            return False
        along = set(missed) if alone else {name for name, _ in new}
        cuts = [] if without_faults else self.felt(at)
        return any(
            all(any(along.union((before.process, name)).issubset(side) for side in sides) for _, sides in cuts)
            for name in missed
        )

    def _is_there(self, group: str, life: Life, at: int) -> bool:
        """A life goes on, and goes out of the views of a group neither shortly before nor after."""
        since, until = at - STALL_LIMIT_NANOSECONDS, at + STALL_LIMIT_NANOSECONDS
        moves, farewells = self.moves.get((group, life), ()), self.farewells.get((group, life), ())
        left = any(since <= time <= until for time in moves) or any(since <= time <= at for time in farewells)
        return not left and (life not in self.ends or self.ends[life] > at)


def _says_farewell(row: AnyRow) -> bool:
    """A sender says its last word there, or that it only receives now."""
    return isinstance(row, MembershipRow) and (row.kind == "PLEAVE" or (row.kind, row.role) == ("ROLE", "receiver"))


def _cut(row: FaultRow) -> Cut:
    return row.fault, tuple(tuple(side) for side in row.sides)


def _partings(rows: Rows) -> list[tuple[int, int]]:
    """Where one goes from an agreed view into the next one that is agreed, by the global time."""
    last: dict[tuple[str, Life], int] = {}
    found = []
    for index, row in enumerate(rows):
        if row.kind not in ("VIEW", "JOIN", "LEAVE") or row.truth is None:
            continue
        where = (row.group, life_of(row))
        before = last.pop(where, None)
        if isinstance(row, ViewRow) and row.service == AGREED:
            if before is not None and row.era is None:
                found.append((before, index))
            last[where] = index
    return found


@damage("The fault is not told that explains why members part.", "L10")
def parted_without_fault(rows: Rows, random: Random) -> Rows | None:
    excuses = _Excuses(rows)
    ways = [(view_at(rows, before), view_at(rows, after)) for before, after in _partings(rows)]
    found = one_of(random, [way for way in ways if excuses.fail(*way, without_faults=True)])
    if found is None:
        return None
    felt = set(excuses.felt(moment(found[1])))
    untold = random.random() < 0.5
    kept: Rows = []
    for row in rows:
        if not isinstance(row, FaultRow) or row.fault in ("load", "heal") or _cut(row) not in felt:
            kept.append(row)
        elif row.members or not untold:
            kept.append(replace(row, sides=[]))
    return kept


@damage("A member that all hear is missing from a view that another one installs.", "L10")
def left_out(rows: Rows, random: Random) -> Rows | None:
    excuses = _Excuses(rows)
    candidates: list[tuple[int, Life]] = []
    for before, after in _partings(rows):
        view, new = view_at(rows, before), view_at(rows, after)
        members = sorted(set(members_of(view)) & set(members_of(new)) - {life_of(view)})
        candidates += [(after, member) for member in members if excuses.fail(view, with_start(new, member, None))]
    found = one_of(random, candidates)
    if found is None:
        return None
    index, member = found
    rows[index] = with_start(rows[index], member, None)
    return rows
