"""Damages of eras: what is sent between two repairs is not delivered there, whoever sends meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.properties.damages.passages import (
    AGREED,
    agreed_views,
    delivery_at,
    era_of,
    life,
    message_at,
    passages_of,
    place,
    view_at,
    with_a_made_up_view,
    without,
)
from unisono.properties.damages.reading import FRESH, in_place_of, send_of
from unisono.trace.schema import DeliverRow, RepairRow, ViewRow

if TYPE_CHECKING:
    from random import Random


class Era(Struct):
    """The views of one era at one process, the deliveries in each, and the view after them, where there is one.

    A process that began `anew` owes nothing of the era any more.
    """

    views: list[int]
    deliveries: list[list[int]]
    after: int | None = None
    anew: bool = False

    @property
    def all_deliveries(self) -> list[int]:
        return [index for deliveries in self.deliveries for index in deliveries]


def _eras(rows: Rows) -> list[Era]:
    """Every era that somebody saw more than one view of."""
    current: dict[tuple[str, str, int, int], Era] = {}
    found = []
    for index, row in enumerate(rows):
        where = place(row)
        era = current.get(where)
        if row.kind in FRESH:
            current.pop(where, None)
            if era is not None:
                era.anew = True
        elif row.service != AGREED:
            continue
        elif isinstance(row, ViewRow):
            if era is not None and row.era is not None and row.era == era_of(view_at(rows, era.views[-1])):
                era.views.append(index)
                era.deliveries.append([])
                continue
            if era is not None:
                era.after = index
            current[where] = Era([index], [[]])
            found.append(current[where])
        elif isinstance(row, DeliverRow) and era is not None:
            era.deliveries[-1].append(index)
    return [era for era in found if len(era.views) > 1]


def _after(rows: Rows, era: Era, delivery: int) -> Rows:
    """A message is delivered only after the next view that is agreed."""
    assert era.after is not None, "an era that is over"
    late = in_place_of(rows[delivery], rows[era.after])
    return [*rows[:delivery], *rows[delivery + 1 : era.after + 1], late, *rows[era.after + 1 :]]


@damage("A message of an era with several views is delivered in the next era.", "D3", "D4")
def delivered_in_the_next_era(rows: Rows, random: Random) -> Rows | None:
    heard: dict[tuple[object, ...], int] = {}
    for index, row in enumerate(rows):
        if isinstance(row, DeliverRow) and row.service == AGREED:
            message = (row.group, *message_at(rows, index))
            heard[message] = heard.get(message, 0) + 1
    candidates = [
        (era, index)
        for era in _eras(rows)
        if era.after is not None
        for index in era.all_deliveries
        if heard[rows[index].group, *message_at(rows, index)] > 1 and send_of(rows, rows[index]) is not None
    ]
    found = one_of(random, candidates)
    return None if found is None else _after(rows, *found)


@damage("A sender hears its own message only after the next view that is agreed.", "D6")
def own_message_in_the_next_era(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for era in _eras(rows):
        ends = era.after is not None and view_at(rows, era.after).era is None
        for index in era.all_deliveries if ends else ():
            row = delivery_at(rows, index)
            sent = send_of(rows, row)
            if (row.source, row.source_incarnation) != life(row) or sent is None:
                continue
            if place(rows[sent]) == place(row) and rows[sent].service == AGREED:
                candidates.append((era, index))
    found = one_of(random, candidates)
    return None if found is None else _after(rows, *found)


@damage("A message of an earlier view of the era is left out, though it was answered for at its end.", "D9")
def era_message_left_out(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for era in _eras(rows):
        if era.after is None or not view_at(rows, era.views[-1]).whole:
            continue
        after = view_at(rows, era.after)
        if after.role != "sender" or after.era is not None or after.previous != rows[era.views[-1]].view:
            continue
        cuts = [
            row
            for row in rows[era.views[-1] : era.after]
            if isinstance(row, RepairRow) and row.kind == "CUT" and place(row) == place(rows[era.after])
        ]
        answered = {(row.source, row.source_incarnation): row.last for row in cuts if row.peer == cuts[-1].peer}
        for index in era.all_deliveries[: -len(era.deliveries[-1]) or None]:
            row = delivery_at(rows, index)
            sent = send_of(rows, row)
            last = answered.get((row.source, row.source_incarnation), 0)
            if row.sequence <= last and sent is not None and getattr(rows[sent], "agreed", None) == _word(rows, era):
                candidates.append(index)
    gone = one_of(random, candidates)
    return None if gone is None else without(rows, gone)


def _word(rows: Rows, era: Era) -> str | None:
    return era_of(view_at(rows, era.views[0]))


@damage("The last message of a source in one view is missing, though the next view of its era has later ones.", "O7")
def gap_across_views_of_an_era(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for era in _eras(rows):
        goes_on = set() if era.after is None else set(_along(view_at(rows, era.after)))
        for number, deliveries in enumerate(era.deliveries[:-1]):
            later = [index for more in era.deliveries[number + 1 :] for index in more]
            for index in deliveries[-1:] if later else ():
                row, sent = delivery_at(rows, index), send_of(rows, rows[index])
                source = (row.source, row.source_incarnation)
                is_last = all(message_at(rows, other)[:2] != source for other in later)
                stays = not era.anew and (era.after is None or source in goes_on)
                if is_last and stays and sent is not None and getattr(rows[sent], "agreed", None) == _word(rows, era):
                    candidates.append(index)
    gone = one_of(random, candidates)
    return None if gone is None else without(rows, gone)


def _along(view: ViewRow) -> list[tuple[str, int]]:
    members = {(start.source, start.incarnation) for start in view.start}
    along = [*((one.process, one.incarnation) for one in view.transitional or ()), life(view)]
    return [one for one in along if one in members]


@damage("Somebody who came along into a view was not in the one before, and is only said to have joined.", "M5")
def came_along_by_joining(rows: Rows, random: Random) -> Rows | None:
    candidates = [
        index
        for index in agreed_views(rows)
        if view_at(rows, index).whole and any(one.reason == "sends now" for one in view_at(rows, index).reasons)
    ]
    index = one_of(random, candidates)
    if index is None:
        return None
    view = view_at(rows, index)
    rows[index] = replace(view, reasons=[replace(one, reason="joined") for one in view.reasons])
    return rows


@damage("A receiver goes from a view that followed by the order into one that no sender installed.", "M9")
def made_up_after_the_order(rows: Rows, random: Random) -> Rows | None:
    strange = {
        (row.group, life(row))
        for row in rows
        if row.kind in ("JOIN", "VIEW", "SEND", "DELIVER", "GAUGE") and row.service != AGREED
    }
    candidates = []
    for passage in passages_of(rows):
        before, after = view_at(rows, passage.before), view_at(rows, passage.after)
        members = {(after.group, (start.source, start.incarnation)) for start in after.start}
        if before.era is not None and after.era is None and after.role == "receiver" and not members & strange:
            candidates.append(passage.after)
    index = one_of(random, candidates)
    if index is None:
        return None
    return with_a_made_up_view(rows, index)


@damage("One process takes a view for another one's follower than the others.", "M4")
def other_era(rows: Rows, random: Random) -> Rows | None:
    views = agreed_views(rows)
    names = [(rows[index].group, rows[index].view) for index in views]
    shared = [index for index, name in zip(views, names, strict=True) if names.count(name) > 1]
    index = one_of(random, [index for index in shared if view_at(rows, index).era is not None])
    if index is None:
        return None
    rows[index] = replace(view_at(rows, index), era=random.choice((None, "0/nobody~0/0")))
    return rows
