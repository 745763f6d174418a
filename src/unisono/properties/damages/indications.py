"""The damage of a stable indication: what a source released never comes to one that it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.properties.damages.damage import Rows, damage, one_of
from unisono.properties.damages.passages import delivery_at, era_of, life, members_of
from unisono.properties.damages.reading import FRESH
from unisono.properties.violation import moment
from unisono.trace.schema import AnyRow, DeliverRow, MembershipRow, RepairRow, SendRow, ViewRow

if TYPE_CHECKING:
    from random import Random

Source = tuple[str, int]
Pair = tuple[ViewRow, ViewRow, Source]


def _passed(rows: Rows) -> list[Pair]:
    """Two views of a process, one after the other, and a source of which it gets no more of the first then."""
    found: list[Pair] = []
    last: dict[tuple[str, Source], ViewRow] = {}
    for row in rows:
        member = (row.group, life(row))
        if row.kind == "JOIN" or row.kind in FRESH:
            last.pop(member, None)
        elif isinstance(row, ViewRow):
            view, last[member] = last.get(member), row
            if view is None or view.stretch != row.stretch:
                continue
            if view.service == "RTO" and view.role == "sender" and row.era is None:
                found.extend((view, row, one) for one in members_of(view) if one != life(row))
            elif view.service == "RSO":
                found.extend((view, row, one) for one in members_of(view) if one not in members_of(row))
    return found


def _released(rows: Rows, pair: Pair) -> set[int]:
    """The numbers that a source released while it counted a process, and while it was in the same era."""
    view, after, source = pair
    counted: int | None = None
    sent: dict[int, int] = {}
    found: set[int] = set()
    for row in rows:
        if row.group != view.group or life(row) != source:
            continue
        if row.kind == "AGREED" or (isinstance(row, ViewRow) and row.service == "RTO" and row.era is None):
            sent = {} if view.service == "RTO" else sent
        elif row.kind == "LEAVE":
            counted = None
        elif isinstance(row, MembershipRow) and row.kind in ("GRANT", "SUSPECT"):
            if (row.peer, row.peer_incarnation) == life(view):
                counted = row.sequence if row.kind == "GRANT" else None
        elif isinstance(row, SendRow) and (view.service == "RSO" or row.agreed == era_of(view)):
            sent[row.number] = row.sequence
        elif isinstance(row, RepairRow) and row.kind == "GC" and moment(row) <= moment(after) and counted is not None:
            found |= {number for number, it in sent.items() if max(row.first, counted) <= it <= row.last}
    return found


@damage("One goes on without the last of what its source released, though it counted there.", "D7")
def released_and_never_delivered(rows: Rows, random: Random) -> Rows | None:
    candidates: list[tuple[int, Pair]] = []
    for view, after, source in _passed(rows):
        released = _released(rows, (view, after, source))
        here, gone = rows.index(view), rows.index(after)
        candidates += [
            (delivery_at(rows, index).number, (view, after, source))
            for index in range(here, gone)
            if _is_of(rows[index], view, source) and delivery_at(rows, index).number in released
        ]
    found = one_of(random, candidates)
    if found is None:
        return None
    number, (view, _, source) = found
    return [
        row for row in rows if not (isinstance(row, DeliverRow) and _is_of(row, view, source) and row.number >= number)
    ]


def _is_of(row: AnyRow, view: ViewRow, source: Source) -> bool:
    """Whether a process delivers something of a source in the stretch of a view."""
    return (
        isinstance(row, DeliverRow)
        and (row.group, *life(row), row.stretch) == (view.group, *life(view), view.stretch)
        and (row.source, row.source_incarnation) == source
    )
