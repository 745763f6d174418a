"""Damages of deliveries: missing, repeated, out of order, or from where nothing should come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.properties.damages.reading import (
    ORDERED,
    at_time_of,
    deliveries_in,
    delivery_in_place,
    in_place_of,
    owed_until,
    send_of,
    spells_of,
)
from unisono.properties.violation import moment
from unisono.trace.schema import SendRow, ViewRow

if TYPE_CHECKING:
    from random import Random


@damage("A delivery in the middle of a spell is missing.", "O2")
def removed_delivery(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, [index for spell in spells_of(rows) for index in spell.deliveries[:-1]])
    return None if index is None else rows[:index] + rows[index + 1 :]


@damage("The last delivery of a source that lives to the end is missing.", "L2")
def removed_last_delivery(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for spell in spells_of(rows):
        owed = owed_until(rows, spell)
        if owed is not None and spell.deliveries:
            sent = send_of(rows, rows[spell.deliveries[-1]])
            if sent is not None and moment(rows[sent]) <= owed:
                candidates.append(spell.deliveries[-1])
    index = one_of(random, candidates)
    return None if index is None else rows[:index] + rows[index + 1 :]


@damage("A message is delivered twice in a row.", "D2", "O1", "O2")
def doubled_delivery(rows: Rows, random: Random) -> Rows | None:
    found = one_of(random, deliveries_in(rows, ordered=True))
    return None if found is None else [*rows[: found[0] + 1], *rows[found[0] :]]


@damage("A message is delivered again after later ones.", "D2", "O1", "O2")
def late_duplicate(rows: Rows, random: Random) -> Rows | None:
    spell = one_of(random, [spell for spell in spells_of(rows) if len(spell.deliveries) > 1])
    if spell is None:
        return None
    first, last = random.choice(spell.deliveries[:-1]), spell.deliveries[-1]
    again = in_place_of(rows[first], rows[last])
    return [*rows[: last + 1], again, *rows[last + 1 :]]


@damage("Two neighbours of one source change places.", "O1", "O2")
def swapped_deliveries(rows: Rows, random: Random) -> Rows | None:
    pairs = [pair for spell in spells_of(rows) for pair in zip(spell.deliveries, spell.deliveries[1:], strict=False)]
    pair = one_of(random, pairs)
    if pair is None:
        return None
    first, second = rows[pair[0]], rows[pair[1]]
    rows[pair[0]] = in_place_of(second, first)
    rows[pair[1]] = in_place_of(first, second)
    return rows


@damage("A delivery comes before the view that introduces its source.", "O2")
def delivery_before_view(rows: Rows, random: Random) -> Rows | None:
    spell = one_of(random, [spell for spell in spells_of(rows) if spell.deliveries and not spell.known])
    if spell is None:
        return None
    view, delivery = spell.views[0], spell.deliveries[0]
    early = at_time_of(rows[delivery], rows[view])
    return [*rows[:view], early, *rows[view:delivery], *rows[delivery + 1 :]]


@damage("A source outside the view is heard.", "O2")
def stranger(rows: Rows, random: Random) -> Rows | None:
    pairs: list[tuple[int, SendRow]] = []
    for index, view in enumerate(rows):
        if isinstance(view, ViewRow) and view.service in ORDERED:
            inside = {(start.source, start.incarnation) for start in view.start}
            sends = [row for row in rows[:index] if isinstance(row, SendRow) and row.group == view.group]
            pairs.extend((index, row) for row in sends if (row.process, row.incarnation) not in inside)
    pair = one_of(random, pairs)
    if pair is None:
        return None
    index, sent = pair
    view = rows[index]
    heard = delivery_in_place(view, sent, view.view)
    return [*rows[: index + 1], heard, *rows[index + 1 :]]
