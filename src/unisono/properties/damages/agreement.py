"""Damages of agreed views: not the same for all, in the wrong order, or wrong about who came along."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.properties.damages.passages import (
    AGREED,
    agreed_views,
    life,
    members_of,
    passages_of,
    view_at,
    with_a_made_up_view,
    without,
)
from unisono.trace.schema import Member, ViewRow

if TYPE_CHECKING:
    from random import Random


@damage("A sender installs a view without itself.", "M1")
def without_itself(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for index in agreed_views(rows) if view_at(rows, index).role == "sender"])
    if index is None:
        return None
    view = view_at(rows, index)
    kept = [start for start in view.start if (start.source, start.incarnation) != life(view)]
    rows[index] = replace(view, start=kept)
    return rows


@damage("A view has a lower identifier than the one before it.", "M2")
def lower_view(rows: Rows, random: Random) -> Rows | None:
    passage = one_of(random, passages_of(rows))
    if passage is None:
        return None
    before, view = view_at(rows, passage.before), view_at(rows, passage.after)
    rows[passage.after] = replace(view, start_time=before.start_time - random.randint(1, 1000))
    return rows


@damage("A view is installed twice in a row.", "M2")
def repeated_view(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, agreed_views(rows))
    return None if index is None else [*rows[: index + 1], *rows[index:]]


def _shared(rows: Rows, whole: bool) -> list[int]:
    """Views that another process installed too; where asked for, both from the beginning."""
    views = [index for index in agreed_views(rows) if view_at(rows, index).whole or not whole]
    names = [(rows[index].group, rows[index].view) for index in views]
    return [index for index, name in zip(views, names, strict=True) if names.count(name) > 1]


@damage("One identifier stands for two sets of members.", "M4")
def reused_identifier(rows: Rows, random: Random) -> Rows | None:
    candidates = [
        (index, source)
        for index in _shared(rows, whole=False)
        for source in members_of(view_at(rows, index))
        if source != life(rows[index])
    ]
    found = one_of(random, candidates)
    if found is None:
        return None
    index, source = found
    view = view_at(rows, index)
    kept = [start for start in view.start if (start.source, start.incarnation) != source]
    rows[index] = replace(view, start=kept)
    return rows


@damage("One process has another start point for a member than the others.", "M4")
def other_start_point(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for index in _shared(rows, whole=True) if view_at(rows, index).start])
    if index is None:
        return None
    view = view_at(rows, index)
    which = random.randrange(len(view.start))
    part = random.choice(("sequence", "number"))
    changed = replace(view.start[which], **{part: getattr(view.start[which], part) + 1})
    rows[index] = replace(view, start=[*view.start[:which], changed, *view.start[which + 1 :]])
    return rows


@damage("One process believes that a view came out of another one, too.", "M4")
def other_origin(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, _shared(rows, whole=True))
    if index is None:
        return None
    view = view_at(rows, index)
    rows[index] = replace(view, merged=sorted([*view.merged, "0/nobody~0/0"]))
    return rows


@damage("One process takes a view for primary, or not, unlike the others.", "M4")
def disputed_primary(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, _shared(rows, whole=True))
    if index is None:
        return None
    view = view_at(rows, index)
    rows[index] = replace(view, primary=not view.primary)
    return rows


def _installers(rows: Rows, view: ViewRow) -> list[tuple[str, int]]:
    """The senders that installed a view from its beginning."""
    same = [view_at(rows, index) for index in agreed_views(rows) if rows[index].view == view.view]
    return [life(one) for one in same if one.group == view.group and one.role == "sender" and one.whole]


def _came_along(view: ViewRow) -> list[tuple[str, int]]:
    return [(one.process, one.incarnation) for one in view.transitional or ()]


def _with_set(rows: Rows, index: int, along: list[tuple[str, int]]) -> Rows:
    rows[index] = replace(view_at(rows, index), transitional=[Member(*one) for one in along])
    return rows


@damage("A process says that somebody came along who did not.", "M5")
def one_too_many_came_along(rows: Rows, random: Random) -> Rows | None:
    candidates: list[tuple[int, tuple[str, int]]] = []
    for index in agreed_views(rows):
        view = view_at(rows, index)
        if view.whole and view.role == "sender":
            others = [one for one in _installers(rows, view) if one not in _came_along(view)]
            candidates.extend((index, one) for one in others)
    found = one_of(random, candidates)
    return None if found is None else _with_set(rows, found[0], [*_came_along(view_at(rows, found[0])), found[1]])


@damage("A process leaves out somebody who came along.", "M5")
def one_too_few_came_along(rows: Rows, random: Random) -> Rows | None:
    candidates: list[tuple[int, tuple[str, int]]] = []
    for index in agreed_views(rows):
        view = view_at(rows, index)
        if view.whole and view.role == "sender":
            candidates.extend((index, one) for one in _installers(rows, view) if one in _came_along(view))
    found = one_of(random, candidates)
    if found is None:
        return None
    index, gone = found
    return _with_set(rows, index, [one for one in _came_along(view_at(rows, index)) if one != gone])


@damage("A receiver has another transitional set than the senders that it follows.", "M5")
def receiver_knows_better(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for index in agreed_views(rows):
        view = view_at(rows, index)
        if view.role == "receiver" and view.whole and view.transitional:
            leaders = [view_at(rows, other) for other in agreed_views(rows) if rows[other].view == view.view]
            if any(
                one.role == "sender" and one.whole and (one.group, one.previous) == (view.group, view.previous)
                for one in leaders
            ):
                candidates.append(index)
    found = one_of(random, candidates)
    return None if found is None else _with_set(rows, found, _came_along(view_at(rows, found))[1:])


@damage("A stranger is in a transitional set.", "M5")
def stranger_came_along(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for index in agreed_views(rows) if view_at(rows, index).whole])
    return None if index is None else _with_set(rows, index, [*_came_along(view_at(rows, index)), ("nobody", 1)])


@damage("An agreed view does not say who came along.", "M5")
def untold_set(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for index in agreed_views(rows) if view_at(rows, index).whole])
    if index is None:
        return None
    rows[index] = replace(view_at(rows, index), transitional=None)
    return rows


def _names(view: ViewRow) -> set[str]:
    return {start.source for start in view.start}


def _apart(rows: Rows) -> list[tuple[ViewRow, ViewRow]]:
    """Two views of one group without a name in common."""
    views = [view_at(rows, index) for index in agreed_views(rows)]
    return [
        (one, two)
        for one in views
        for two in views
        if one.group == two.group and one.view != two.view and not _names(one) & _names(two)
    ]


def _only_primary(rows: Rows, one: ViewRow, two: ViewRow) -> Rows:
    """Of a group just these two views are primary."""
    for index in agreed_views(rows):
        view = view_at(rows, index)
        if view.group == one.group:
            rows[index] = replace(view, primary=view.view in (one.view, two.view))
    return rows


@damage("Two views one after the other are primary and have nobody in common.", "M7")
def disjoint_primary(rows: Rows, random: Random) -> Rows | None:
    pair = one_of(random, _apart(rows))
    return None if pair is None else _only_primary(rows, *pair)


@damage("Two views of the same time are primary and have nobody in common, though a third has both.", "M7")
def rival_primary(rows: Rows, random: Random) -> Rows | None:
    pair = one_of(random, _apart(rows))
    if pair is None:
        return None
    one, two = pair
    between = replace(one, view="between", leader="", start=[*one.start, *two.start], primary=True)
    rows = _only_primary(rows, one, two)
    for index in agreed_views(rows):
        view = view_at(rows, index)
        if view.group == one.group and view.view in (one.view, two.view):
            sequence = 1 if view.view == one.view else 3
            named = {"start_time": one.start_time, "leader": "", "leader_incarnation": 0, "leader_sequence": sequence}
            rows[index] = replace(view, **named)
    between = replace(between, leader_incarnation=0, leader_sequence=2)
    place_of_one = next(index for index in agreed_views(rows) if rows[index].view == one.view)
    return [*rows[:place_of_one], between, *rows[place_of_one:]]


def _strange(rows: Rows, group: str) -> set[tuple[str, int]]:
    """Who ever had another service in a group."""
    telling = ("JOIN", "VIEW", "SEND", "DELIVER", "GAUGE")
    return {life(row) for row in rows if row.group == group and row.kind in telling and row.service != AGREED}


def _followed(rows: Rows) -> list[int]:
    """Views of receivers whose senders all write down their views."""
    return [
        index
        for index in agreed_views(rows)
        if view_at(rows, index).role == "receiver"
        and view_at(rows, index).era is None
        and not _strange(rows, rows[index].group) & set(members_of(view_at(rows, index)))
    ]


@damage("A receiver leaves out a view that its senders installed between two others.", "M9")
def skipped_view(rows: Rows, random: Random) -> Rows | None:
    passages = passages_of(rows)
    steps = {(rows[one.before].group, rows[one.before].view, rows[one.after].view) for one in passages}
    followed = _followed(rows)
    candidates = []
    for one in passages:
        for two in passages:
            if two.before == one.after and two.after in followed and view_at(rows, one.before).role == "receiver":
                ends = (rows[one.before].group, rows[one.before].view, rows[two.after].view)
                if ends not in steps:
                    candidates.append((one, two))
    found = one_of(random, candidates)
    if found is None:
        return None
    one, two = found
    return without(rows, one.after, *two.deliveries)


@damage("A receiver installs a view that no sender has.", "M9")
def made_up_view(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, _followed(rows))
    if index is None:
        return None
    return with_a_made_up_view(rows, index)
