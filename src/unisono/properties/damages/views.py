"""Damages of views: wrong start points, lost sources, and rows that name another view."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.properties.damages.reading import ORDERED, spells_of, with_start
from unisono.trace.schema import AnyRow, DeliverRow, SendRow, ViewRow

if TYPE_CHECKING:
    from random import Random


@damage("A view lacks a source that is delivered in it.", "O2")
def forgotten_source(rows: Rows, random: Random) -> Rows | None:
    candidates = [
        (spell, max(view for view in spell.views if view < delivery))
        for spell in spells_of(rows)
        for delivery in spell.deliveries
    ]
    found = one_of(random, candidates)
    if found is None:
        return None
    spell, view = found
    rows[view] = with_start(rows[view], spell.source, None)
    return rows


@damage("A spell begins one number before or after the point that its view gives.", "O2")
def wrong_start(rows: Rows, random: Random) -> Rows | None:
    spell = one_of(random, [spell for spell in spells_of(rows) if spell.deliveries])
    if spell is None:
        return None
    rows[spell.views[0]] = with_start(rows[spell.views[0]], spell.source, random.choice((-1, 1)))
    return rows


@damage("A later view of a spell gives another number than the next one.", "O2")
def wrong_continuation(rows: Rows, random: Random) -> Rows | None:
    spell = one_of(random, [spell for spell in spells_of(rows) if len(spell.views) > 1])
    if spell is None:
        return None
    view = random.choice(spell.views[1:])
    rows[view] = with_start(rows[view], spell.source, random.choice((-1, 1)))
    return rows


def _in_view(rows: Rows) -> list[int]:
    return [index for index, row in enumerate(rows) if isinstance(row, SendRow | DeliverRow) and row.service in ORDERED]


@damage("A message is sent or delivered outside any view.", "M3")
def lost_view(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, _in_view(rows))
    if index is None:
        return None
    rows[index] = replace(rows[index], view=None)
    return rows


@damage("A row names another view than the installed one.", "M3")
def wrong_view(rows: Rows, random: Random) -> Rows | None:
    index = one_of(random, _in_view(rows))
    if index is None:
        return None
    others = [row.view for row in rows if isinstance(row, ViewRow) and row.view != rows[index].view]
    rows[index] = replace(rows[index], view=one_of(random, others) or "elsewhere")
    return rows


@damage("A view in which something happens was never installed.", "M3")
def removed_view(rows: Rows, random: Random) -> Rows | None:
    def installed(row: AnyRow) -> tuple[str, str, int, str | None]:
        return (row.group, row.process, row.incarnation, row.view)

    used = {installed(rows[index]) for index in _in_view(rows)}
    views = [index for index, row in enumerate(rows) if isinstance(row, ViewRow)]
    times = Counter(installed(rows[index]) for index in views)
    once = [index for index in views if times[installed(rows[index])] == 1]
    index = one_of(random, [index for index in once if installed(rows[index]) in used])
    return None if index is None else rows[:index] + rows[index + 1 :]
