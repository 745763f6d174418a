"""The tables beside a space-time diagram: what each process has, and the rows of the trace around the place."""

from __future__ import annotations

from msgspec import Struct

from unisono.pipeline.pages.disagreements import life_of, once
from unisono.pipeline.pages.evidence import message_of
from unisono.pipeline.pages.row_words import row_words
from unisono.pipeline.pages.scene import NEAREST, Scene, Surroundings
from unisono.trace.schema import AnyRow, DeliverRow
from unisono.units import SECOND

_AROUND = NEAREST + 2
_ELSEWHERE = 16


class Heard(Struct, frozen=True):
    """What one life delivered of the messages concerned, in its order, and what of them it did not."""

    name: str
    order: list[str]
    lacks: list[str]
    offending: bool


class TracedRow(Struct, frozen=True):
    """One row of the trace in words."""

    offending: bool
    name: str
    position: int
    at: str
    kind: str
    words: str


def heard_by(built: Scene) -> list[Heard]:
    """Who has the messages concerned, and in which order; for what is not about messages nothing."""
    subject = built.subject
    if not subject.messages or subject.proxied:
        return []
    found = []
    for life in built.lanes:
        mine = [row for row in subject.told if isinstance(row, DeliverRow) and life_of(row) == life]
        order = [message_of(row) for row in sorted(mine, key=lambda row: row.position)]
        found.append(
            Heard(
                built.names.get(life, life[0]),
                [built.name(message) for message in order if message is not None and message in subject.messages],
                [built.name(message) for message in subject.messages if message not in order],
                life == subject.life or any(life == lacking for lacking, _ in subject.gaps),
            )
        )
    return found


def rows_around(built: Scene, around: Surroundings) -> list[TracedRow]:
    """The rows of the same life around the place; where there is no one place, those that are drawn."""
    subject = built.subject
    place = subject.violation.position
    rows: list[AnyRow] = [row for row in subject.near if abs(row.position - place) <= _AROUND]
    if not rows:
        rows = sorted((dot.row for dot in built.dots), key=around.clock.when)[: 2 * _AROUND]
    return [_traced(row, built, around) for row in rows]


def rows_elsewhere(built: Scene, around: Surroundings) -> list[TracedRow]:
    """The rows of other lives that the place must be held against."""
    subject = built.subject
    about = [row for row in subject.told if message_of(row) in subject.messages]
    rows = [row for row in once([*subject.marked, *subject.views, *about]) if life_of(row) != subject.life]
    return [_traced(row, built, around) for row in sorted(rows, key=around.clock.when)[:_ELSEWHERE]]


def _traced(row: AnyRow, built: Scene, around: Surroundings) -> TracedRow:
    return TracedRow(
        row is built.subject.row,
        built.names.get(life_of(row), row.process),
        row.position,
        f"{around.clock.when(row) / SECOND:.6f} s",
        row.kind,
        row_words(row),
    )
