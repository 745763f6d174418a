"""Damages of delivery in agreed views: in another view, not the same for all, in another order, or never."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.properties.damages.passages import (
    AGREED,
    Passage,
    agreed_views,
    delivery_at,
    ends_an_era,
    era_of,
    life,
    message_at,
    passages_of,
    place,
    together,
    view_at,
    without,
)
from unisono.properties.damages.reading import FRESH, delivery_in_place, in_place_of, membership_row, send_of
from unisono.properties.promises import SETTLING_NANOSECONDS
from unisono.properties.violation import moment
from unisono.trace.schema import DeliverRow, RepairRow, SendRow, ViewRow

if TYPE_CHECKING:
    from random import Random


def _in_the_next_view(rows: Rows, passage: Passage, delivery: int) -> Rows:
    """A message is delivered only after the view that it belongs to."""
    late = in_place_of(rows[delivery], rows[passage.after])
    return [*rows[:delivery], *rows[delivery + 1 : passage.after + 1], late, *rows[passage.after + 1 :]]


@damage("A message is delivered in the view after the one in which it was sent and others deliver it.", "D3", "D4")
def delivered_in_the_next_view(rows: Rows, random: Random) -> Rows | None:
    counts: dict[tuple[object, ...], int] = {}
    for index, row in enumerate(rows):
        if isinstance(row, DeliverRow) and row.service == AGREED:
            message = (row.group, *message_at(rows, index))
            counts[message] = counts.get(message, 0) + 1
    candidates = [
        (passage, delivery)
        for passage in passages_of(rows)
        if ends_an_era(rows, passage)
        for delivery in passage.deliveries
        if counts[rows[delivery].group, *message_at(rows, delivery)] > 1 and send_of(rows, rows[delivery]) is not None
    ]
    found = one_of(random, candidates)
    return None if found is None else _in_the_next_view(rows, *found)


@damage("A message was sent in another view than all deliver it in.", "D3")
def sent_in_another_view(rows: Rows, random: Random) -> Rows | None:
    timed = [row for row in rows if isinstance(row, DeliverRow) and row.service == AGREED]
    index = one_of(random, [index for row in timed if (index := send_of(rows, row)) is not None])
    if index is None:
        return None
    rows[index] = replace(rows[index], agreed=random.choice((None, "elsewhere")))
    return rows


@damage("A delivery moves across a view that two install together.", "D3", "D5")
def moved_across_the_view(rows: Rows, random: Random) -> Rows | None:
    ways = [
        (passage, index)
        for passages in together(rows)
        for passage in passages
        if ends_an_era(rows, passage)
        for index in passage.deliveries
    ]
    found = one_of(random, ways)
    return None if found is None else _in_the_next_view(rows, *found)


@damage("One of two that go on together lacks a message of the view before.", "D5")
def skipped_before_the_view(rows: Rows, random: Random) -> Rows | None:
    index = one_of(
        random, [index for passages in together(rows) for passage in passages for index in passage.deliveries]
    )
    return None if index is None else without(rows, index)


@damage("One of two that go on together delivers what the other does not.", "D5")
def extra_before_the_view(rows: Rows, random: Random) -> Rows | None:
    candidates: list[tuple[int, SendRow]] = []
    for passages in together(rows):
        for passage in passages:
            before = view_at(rows, passage.before)
            got = {message_at(rows, index) for index in passage.deliveries}
            candidates.extend(
                (passage.after, row)
                for row in rows
                if isinstance(row, SendRow)
                and (row.group, row.agreed) == (before.group, era_of(before))
                and (*life(row), row.number) not in got
            )
    found = one_of(random, candidates)
    if found is None:
        return None
    index, sent = found
    view = view_at(rows, index)
    heard = delivery_in_place(view, sent, view.previous)
    return [*rows[:index], heard, *rows[index:]]


@damage("Who came into the middle of a view lacks something after its start points.", "D5")
def skipped_after_the_middle(rows: Rows, random: Random) -> Rows | None:
    passages = passages_of(rows)
    candidates = []
    for one in passages:
        if view_at(rows, one.before).whole:
            continue
        for other in passages:
            ways = [(rows[way.before].view, rows[way.after].view, rows[way.after].group) for way in (one, other)]
            if ways[0] == ways[1] and view_at(rows, other.before).whole:
                candidates.extend(one.deliveries)
    index = one_of(random, candidates)
    return None if index is None else without(rows, index)


def _swappable(rows: Rows) -> list[tuple[int, int]]:
    """Neighbours in what one of two that go on together delivers before."""
    return [pair for passages in together(rows) for passage in passages for pair in pairwise(passage.deliveries)]


@damage("Two that go on together deliver two messages in different orders.", "O5")
def another_order_before_the_view(rows: Rows, random: Random) -> Rows | None:
    pair = one_of(random, _swappable(rows))
    if pair is None:
        return None
    first, second = rows[pair[0]], rows[pair[1]]
    rows[pair[0]], rows[pair[1]] = in_place_of(second, first), in_place_of(first, second)
    return rows


@damage("One of two that go on together delivers everything in the opposite order.", "O5", "O6")
def opposite_order_before_the_view(rows: Rows, random: Random) -> Rows | None:
    candidates = [passage for passages in together(rows) for passage in passages if len(passage.deliveries) > 1]
    passage = one_of(random, candidates)
    if passage is None:
        return None
    originals = [rows[index] for index in passage.deliveries]
    for index, row, like in zip(passage.deliveries, reversed(originals), originals, strict=True):
        rows[index] = in_place_of(row, like)
    return rows


def _answers(rows: Rows, passage: Passage) -> list[int]:
    """What a process answered for before it left a view: the last time that it did."""
    cuts = [
        index
        for index in range(passage.before, passage.after)
        if isinstance(rows[index], RepairRow)
        and rows[index].kind == "CUT"
        and place(rows[index]) == place(rows[passage.after])
    ]
    return [index for index in cuts if _proposal(rows, index) == _proposal(rows, cuts[-1])]


def _proposal(rows: Rows, index: int) -> str | None:
    row = rows[index]
    assert isinstance(row, RepairRow)
    return row.peer


def _answering(rows: Rows) -> list[Passage]:
    return [
        passage
        for passage in passages_of(rows)
        if view_at(rows, passage.before).whole
        and view_at(rows, passage.after).role == "sender"
        and ends_an_era(rows, passage)
    ]


@damage("A message that a process answered for is left out.", "D9")
def cut_message_left_out(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for passage in _answering(rows):
        for index in _answers(rows, passage):
            cut = rows[index]
            assert isinstance(cut, RepairRow)
            for delivery in passage.deliveries:
                row = delivery_at(rows, delivery)
                same = (row.source, row.source_incarnation) == (cut.source, cut.source_incarnation)
                if same and row.sequence <= cut.last:
                    candidates.append(delivery)
    gone = one_of(random, candidates)
    return None if gone is None else without(rows, gone)


@damage("A process answers for more than those who go on with it deliver.", "D9")
def answered_for_too_much(rows: Rows, random: Random) -> Rows | None:
    candidates: list[tuple[int, int]] = []
    for passage in _answering(rows):
        before = view_at(rows, passage.before)
        views = [view_at(rows, index) for index in agreed_views(rows) if place(rows[index]) == place(before)]
        if not all(view.whole for view in views if era_of(view) == era_of(before)):
            continue
        got = {
            message_at(rows, index)
            for index, row in enumerate(rows)
            if isinstance(row, DeliverRow) and place(row) == place(before)
        }
        for index in _answers(rows, passage):
            cut = rows[index]
            assert isinstance(cut, RepairRow)
            source = (cut.source, cut.source_incarnation)
            beyond = [
                row.sequence
                for row in rows
                if isinstance(row, SendRow)
                and (row.group, row.agreed) == (before.group, era_of(before))
                and life(row) == source
                and (*source, row.number) not in got
            ]
            candidates.extend((index, sequence) for sequence in beyond)
    found = one_of(random, candidates)
    if found is None:
        return None
    rows[found[0]] = replace(rows[found[0]], last=found[1])
    return rows


@damage("A sender does not hear its own message before the view changes.", "D6")
def own_message_unheard_before_a_view(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for passage in passages_of(rows):
        for index in passage.deliveries if ends_an_era(rows, passage) else ():
            row = delivery_at(rows, index)
            sent = send_of(rows, row)
            if (row.source, row.source_incarnation) == life(row) and sent is not None:
                candidates.append(index)
    gone = one_of(random, candidates)
    return None if gone is None else without(rows, gone)


@damage("A sender that lives never hears its own message.", "D6", "L3")
def own_message_unheard_at_the_end(rows: Rows, random: Random) -> Rows | None:
    candidates = []
    for index, row in enumerate(rows):
        if not isinstance(row, DeliverRow) or (row.source, row.source_incarnation) != life(row):
            continue
        sent, end = send_of(rows, row), membership_row(rows, "END", life(row))
        if sent is None or end is None or row.service not in ("RSO", AGREED) or rows[sent].service != row.service:
            continue
        later = [one for one in rows[sent + 1 :] if (one.group, *life(one)) == (row.group, *life(row))]
        over = [one for one in later if one.kind in ("LEAVE", *FRESH) or one.stretch > row.stretch]
        over += [one for one in later if isinstance(one, ViewRow) and one.era is None and row.service == AGREED]
        joins = [
            one for one in rows[:sent] if one.kind == "JOIN" and (one.group, *life(one)) == (row.group, *life(row))
        ]
        wants = getattr(joins[-1], "reason", None) if joins else None
        asked = row.service == AGREED or (wants is not None and (wants == "all" or row.process in wants.split(",")))
        same = rows[sent].stretch == row.stretch
        if not over and asked and same and moment(rows[sent]) <= moment(end) - SETTLING_NANOSECONDS:
            candidates.append(index)
    gone = one_of(random, candidates)
    return None if gone is None else without(rows, gone)
