"""What two traces that are nearly alike differ in: the rows that only one of them has, and who has them reordered."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import msgspec
from msgspec import Struct

from unisono.pipeline.pages.row_words import row_words
from unisono.pipeline.pages.story import Story
from unisono.pipeline.pages.story_counts import Life
from unisono.pipeline.pages.trace_columns import TraceTables
from unisono.properties.violation import process_name
from unisono.trace.schema import FAMILIES, AnyRow
from unisono.units import SECOND

MOST_ROWS = 200_000
"""Longer traces are not held against each other row by row."""
SHOWN_ROWS = 12
_NEARLY = 0.9
"""So much of the rows must be the same; else these are two runs, not a run and a changed copy."""


class DifferentRow(Struct, frozen=True):
    """A row that one trace has and the other has not."""

    process: str
    at: str
    words: str


class Difference(Struct, frozen=True):
    """Rows of the first trace that the second lacks, the other way round, and lives whose rows are in another order."""

    only_first: list[DifferentRow]
    only_second: list[DifferentRow]
    count_first: int
    count_second: int
    reordered: list[str]


def difference(first: TraceTables, story: Story, second: TraceTables, other: Story) -> Difference | None:
    """What two traces differ in, or None where they are too long or not nearly alike.

    Positions, and places in a view, are left out: where one row is missing, all that follow it have others.
    """
    if max(story.rows, other.rows) > MOST_ROWS:
        return None
    one, two = _rows(first), _rows(second)
    counts, others = Counter(one.values_in_order()), Counter(two.values_in_order())
    missing, added = counts - others, others - counts
    if missing.total() + added.total() > (1 - _NEARLY) * max(story.rows, other.rows):
        return None
    reordered = [
        process_name(*life)
        for life in one.lives
        if [row for row in one.lives[life] if row not in missing]
        != [row for row in two.lives[life] if row not in added]
    ]
    return Difference(
        _told(missing, one, story), _told(added, two, other), missing.total(), added.total(), sorted(reordered)
    )


class _Rows(Struct):
    """The rows of a trace as bytes, by life and in the order of each, beside one row for each of them."""

    lives: defaultdict[Life, list[bytes]]
    meaning: dict[bytes, AnyRow]

    def values_in_order(self) -> list[bytes]:
        return [row for rows in self.lives.values() for row in rows]


def _rows(tables: TraceTables) -> _Rows:
    placed: dict[Life, list[tuple[int, bytes]]] = defaultdict(list)
    found = _Rows(defaultdict(list), {})
    for family in FAMILIES:
        for row in tables.all_rows(family):
            plain: dict[str, Any] = msgspec.structs.asdict(row)
            position = plain.pop("position")
            plain.pop("index", None)
            plain.pop("run")
            key = msgspec.msgpack.encode((family, plain))
            found.meaning[key] = row
            placed[row.process, row.incarnation].append((position, key))
    for life, some in placed.items():
        found.lives[life] = [key for _, key in sorted(some)]
    return found


def _told(rows: Counter[bytes], trace: _Rows, story: Story) -> list[DifferentRow]:
    some = sorted((trace.meaning[key] for key in rows), key=story.clock.when)[:SHOWN_ROWS]
    return [
        DifferentRow(
            process_name(row.process, row.incarnation) if row.process else "",
            f"{story.clock.when(row) / SECOND:.6f} s",
            row_words(row),
        )
        for row in some
    ]
