"""Damages of how sessions change their views: blocks, start-changes, cuts, and who came along."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.properties.damages.passages import life, members_of, view_at, without
from unisono.properties.promises import STRONG
from unisono.trace.schema import AnyRow, Member, MembershipRow, RepairRow, SendRow, ViewRow

if TYPE_CHECKING:
    from random import Random

ANEW = ("JOIN", "LEAVE", "EXCLUDED")
"""The rows after which a session has no view to go on from."""


class Step(Struct):
    """Where a strong session goes from one view to the next: both VIEWs, and all of its rows between them."""

    before: int
    after: int
    between: list[int]

    def of(self, rows: Rows, kind: str) -> list[int]:
        return [index for index in self.between if rows[index].kind == kind]


def seat(row: AnyRow) -> tuple[str, str, int]:
    return (row.group, row.process, row.incarnation)


def steps_of(rows: Rows) -> list[Step]:
    """Every passage of a strong session, in the order in which they end."""
    open_steps: dict[tuple[str, str, int], Step] = {}
    found = []
    for index, row in enumerate(rows):
        if row.service != STRONG:
            continue
        step = open_steps.get(seat(row))
        if isinstance(row, ViewRow):
            if step is not None and row.previous is not None:
                step.after = index
                found.append(step)
            open_steps[seat(row)] = Step(index, index, [])
        elif row.kind in ANEW:
            open_steps.pop(seat(row), None)
        elif step is not None:
            step.between.append(index)
    return found


def membership_at(rows: Rows, index: int) -> MembershipRow:
    row = rows[index]
    assert isinstance(row, MembershipRow)
    return row


@damage("A session sends in its view after it agreed to block.", "M8")
def sent_after_block_ok(rows: Rows, random: Random) -> Rows | None:
    candidates = [
        index
        for step in steps_of(rows)
        for blocked in step.of(rows, "BLOCK_OK")[:1]
        for index in step.of(rows, "SEND")
        if index > blocked
    ]
    index = one_of(random, candidates)
    if index is None:
        return None
    rows[index] = replace(rows[index], agreed=rows[index].view)
    return rows


@damage("A view comes without a start-change.", "M8")
def view_without_start_change(rows: Rows, random: Random) -> Rows | None:
    step = one_of(random, steps_of(rows))
    return None if step is None else without(rows, *step.of(rows, "START_CHANGE"))


@damage("A view has a member that its start-change did not expect.", "M8")
def member_beyond_the_estimate(rows: Rows, random: Random) -> Rows | None:
    step = one_of(random, [step for step in steps_of(rows) if step.of(rows, "START_CHANGE")])
    if step is None:
        return None
    index = step.of(rows, "START_CHANGE")[-1]
    gone = random.choice(members_of(view_at(rows, step.after)))
    expected = [one for one in membership_at(rows, index).members or () if (one.process, one.incarnation) != gone]
    rows[index] = replace(rows[index], members=expected)
    return rows


@damage("A start-change has a number that is not above the one before.", "M10")
def falling_start_change(rows: Rows, random: Random) -> Rows | None:
    numbers: dict[tuple[str, str, int], int] = {}
    candidates: list[tuple[int, int]] = []
    for index, row in enumerate(rows):
        if isinstance(row, MembershipRow) and row.kind == "START_CHANGE" and row.service == STRONG:
            if seat(row) in numbers:
                candidates.append((index, numbers[seat(row)]))
            numbers[seat(row)] = row.number or 0
    found = one_of(random, candidates)
    if found is None:
        return None
    index, number = found
    rows[index] = replace(rows[index], number=number - random.randint(0, 1))
    return rows


def _strong_views(rows: Rows) -> list[int]:
    return [index for index, row in enumerate(rows) if isinstance(row, ViewRow) and row.service == STRONG]


@damage("A view names another start-change than its process saw last.", "M10")
def view_of_another_change(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, _strong_views(rows))
    if index is None:
        return None
    change = view_at(rows, index).change
    rows[index] = replace(rows[index], change=None if change is None or random.random() < 0.3 else change + 1)
    return rows


@damage("A cut is for another start-change than the last one.", "M10")
def cut_for_another_change(rows: Rows, random: Random) -> Rows | None:
    step = one_of(random, [step for step in steps_of(rows) if step.of(rows, "CUT")])
    if step is None:
        return None
    cuts = step.of(rows, "CUT")
    other = random.choice(("7000000", None))
    for index in cuts if random.random() < 0.5 else [random.choice(cuts)]:
        rows[index] = replace(rows[index], peer=other)
    return rows


@damage("A cut is of another view than the one that its process has.", "M10")
def cut_of_another_view(rows: Rows, random: Random) -> Rows | None:
    cuts = [index for index, row in enumerate(rows) if isinstance(row, RepairRow) and row.kind == "CUT"]
    index = one_of(random, [index for index in cuts if rows[index].service == STRONG])
    if index is None:
        return None
    rows[index] = replace(rows[index], view="another")
    return rows


@damage("Somebody came along whose cut was for a change before.", "M10")
def came_along_by_an_old_cut(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for step in steps_of(rows):
        view = view_at(rows, step.after)
        for other in view.transitional or ():
            whose = (view.group, other.process, other.incarnation)
            cuts = [
                index
                for index, row in enumerate(rows)
                if row.kind == "CUT" and seat(row) == whose and row.view == view.previous
            ]
            if cuts and (other.process, other.incarnation) != life(view):
                candidates.append(cuts)
    cuts = one_of(random, candidates) or []
    for index in cuts:
        rows[index] = replace(rows[index], peer="0")
    return rows if cuts else None


def _with_transitional(rows: Rows, index: int, along: list[Member]) -> Rows:
    rows[index] = replace(rows[index], transitional=along)
    return rows


@damage("A session is said to have come along that came from elsewhere.", "M5")
def session_came_from_elsewhere(rows: Rows, random: Random) -> Rows | None:
    entered = {(seat(rows[index]), rows[index].view) for index in _strong_views(rows)}
    candidates: list[tuple[int, Member]] = []
    for index in _strong_views(rows):
        view = view_at(rows, index)
        along = [(one.process, one.incarnation) for one in view.transitional or ()]
        others = [one for one in members_of(view) if one not in along]
        candidates.extend((index, Member(*one)) for one in others if ((view.group, *one), view.view) in entered)
    found = one_of(random, candidates)
    if found is None:
        return None
    return _with_transitional(rows, found[0], [*(view_at(rows, found[0]).transitional or ()), found[1]])


@damage("A session is not said to have come along, and did.", "M5")
def session_forgotten_on_the_way(rows: Rows, random: Random) -> Rows | None:
    entered = {(seat(rows[index]), rows[index].view) for index in _strong_views(rows)}
    candidates: list[tuple[int, Member]] = []
    for index in _strong_views(rows):
        view = view_at(rows, index)
        candidates.extend(
            (index, one)
            for one in view.transitional or ()
            if ((view.group, one.process, one.incarnation), view.view) in entered
        )
    found = one_of(random, candidates)
    if found is None:
        return None
    index, gone = found
    return _with_transitional(rows, index, [one for one in view_at(rows, index).transitional or () if one != gone])


def is_optimistic(row: AnyRow) -> bool:
    return isinstance(row, SendRow) and row.service == STRONG and row.agreed not in (None, row.view)
