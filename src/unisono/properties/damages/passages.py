"""How a damage finds agreed views in a trace: who went from which to which, and what it delivered before."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from unisono.properties.damages.damage import Rows
from unisono.properties.damages.reading import FRESH
from unisono.trace.schema import AnyRow, DeliverRow, ViewRow

AGREED = "RTO"
"""The service with agreed views."""

Place = tuple[str, str, int, int]
"""Group, process, incarnation, stretch."""


class Passage(Struct):
    """Where a process goes from one agreed view to the next, and its deliveries in the first."""

    before: int
    after: int
    deliveries: list[int]


def place(row: AnyRow) -> Place:
    return (row.group, row.process, row.incarnation, row.stretch)


def life(row: AnyRow) -> tuple[str, int]:
    return (row.process, row.incarnation)


def view_at(rows: Rows, index: int) -> ViewRow:
    row = rows[index]
    assert isinstance(row, ViewRow)
    return row


def delivery_at(rows: Rows, index: int) -> DeliverRow:
    row = rows[index]
    assert isinstance(row, DeliverRow)
    return row


def agreed_views(rows: Rows) -> list[int]:
    """Where agreed views are installed."""
    return [index for index, row in enumerate(rows) if isinstance(row, ViewRow) and row.service == AGREED]


def members_of(view: ViewRow) -> list[tuple[str, int]]:
    return [(start.source, start.incarnation) for start in view.start]


def message_at(rows: Rows, index: int) -> tuple[str, int, int]:
    row = delivery_at(rows, index)
    return (row.source, row.source_incarnation, row.number)


def passages_of(rows: Rows) -> list[Passage]:
    last: dict[Place, Passage] = {}
    found = []
    for index, row in enumerate(rows):
        where = place(row)
        if row.kind in FRESH:
            last.pop(where, None)
        elif row.service != AGREED:
            continue
        elif isinstance(row, ViewRow):
            passage = last.pop(where, None)
            if passage is not None:
                passage.after = index
                found.append(passage)
            last[where] = Passage(index, index, [])
        elif isinstance(row, DeliverRow) and where in last:
            last[where].deliveries.append(index)
    return found


def era_of(view: ViewRow) -> str | None:
    """The era that a view belongs to."""
    return view.view if view.era is None else view.era


def ends_an_era(rows: Rows, passage: Passage) -> bool:
    """Whether a process goes into a view that was agreed, and not into one that follows by the order."""
    return view_at(rows, passage.after).era is None


def together(rows: Rows) -> list[list[Passage]]:
    """Passages from one view to another of at least two processes that had the first from its beginning."""
    ways: dict[tuple[str, str | None, str | None], list[Passage]] = {}
    for passage in passages_of(rows):
        before, after = view_at(rows, passage.before), view_at(rows, passage.after)
        if before.whole:
            ways.setdefault((after.group, before.view, after.view), []).append(passage)
    return [passages for passages in ways.values() if len(passages) > 1]


def without(rows: Rows, *gone: int) -> Rows:
    return [row for index, row in enumerate(rows) if index not in gone]


def with_a_made_up_view(rows: Rows, index: int) -> Rows:
    """The view of that row, and what its process delivered in it, under a name that nobody else has."""
    view = rows[index]

    def inside(row: AnyRow) -> bool:
        return place(row) == place(view) and row.view == view.view and isinstance(row, ViewRow | DeliverRow)

    return [replace(row, view="made up") if inside(row) else row for row in rows]
