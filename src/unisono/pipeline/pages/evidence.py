"""Finds the rows that a counter-example is about in tables of any length: all questions are answered in one pass.

Only the rows that somebody asks for become rows; everything else is compared by column and left behind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from unisono.pipeline.pages.trace_columns import MOMENT, Numbers, Piece, TraceTables
from unisono.properties.violation import moment
from unisono.trace.schema import FAMILIES, AnyRow, DeliverRow, ProxyRow, RepairRow, SendRow

Mask = NDArray[np.bool_]
Life = tuple[str, int]
Message = tuple[str, int, int]
"""Name and incarnation of the source, and the number of the message."""

MOST_ROWS = 4000
"""A question is answered with the first so many rows, and no more."""


class Positions(Struct, frozen=True):
    """All rows of one life from a position to another."""

    life: Life
    first: int
    last: int

    families = tuple(FAMILIES)
    columns = ("process", "incarnation", "position")
    most = MOST_ROWS

    def mask(self, tables: TraceTables, family: str, piece: Piece) -> Mask:
        position = piece["position"]
        return _life(tables, piece, self.life) & (position >= self.first) & (position <= self.last)

    def takes(self, row: AnyRow) -> bool:
        return (row.process, row.incarnation) == self.life and self.first <= row.position <= self.last


class About(Struct, frozen=True):
    """The SENDs and DELIVERs of one message; of a proxied one the ASKEDs and HANDEDs."""

    group: str
    message: Message
    proxied: bool = False

    @property
    def families(self) -> tuple[str, ...]:
        return ("proxy",) if self.proxied else ("send", "deliver")

    columns = (
        "group",
        "process",
        "incarnation",
        "source",
        "source_incarnation",
        "origin",
        "origin_incarnation",
        "number",
    )
    most = MOST_ROWS

    def mask(self, tables: TraceTables, family: str, piece: Piece) -> Mask:
        names = {
            "send": ("process", "incarnation"),
            "deliver": ("source", "source_incarnation"),
            "proxy": ("origin", "origin_incarnation"),
        }[family]
        same = (piece["number"] == self.message[2]) & (piece["group"] == tables.code(self.group))
        return _both(same, _life(tables, piece, self.message[:2], *names))

    def takes(self, row: AnyRow) -> bool:
        if row.group != self.group:
            return False
        if isinstance(row, ProxyRow):
            return self.proxied and (row.origin, row.origin_incarnation, row.number) == self.message
        return not self.proxied and message_of(row) == self.message


class Repairs(Struct, frozen=True):
    """Rows of one kind about sequences of one source that overlap a range, of all processes or of one."""

    kind: str
    group: str
    source: Life
    first: int
    last: int
    most: int

    families = ("repair",)
    columns = ("kind", "group", "source", "source_incarnation", "first", "last")

    def mask(self, tables: TraceTables, family: str, piece: Piece) -> Mask:
        same = (piece["kind"] == tables.code(self.kind)) & (piece["group"] == tables.code(self.group))
        overlap = (piece["last"] >= self.first) & (piece["first"] <= self.last)
        return _both(same & overlap, _life(tables, piece, self.source, "source", "source_incarnation"))

    def takes(self, row: AnyRow) -> bool:
        return (
            isinstance(row, RepairRow)
            and (row.kind, row.group, row.source, row.source_incarnation) == (self.kind, self.group, *self.source)
            and row.last >= self.first
            and row.first <= self.last
        )


class Between(Struct, frozen=True):
    """The first SENDs and DELIVERs from a moment to another, both in the numbers that the rows have."""

    begin: int
    end: int
    most: int

    families = ("send", "deliver")
    columns = (MOMENT,)

    def mask(self, tables: TraceTables, family: str, piece: Piece) -> Mask:
        return (piece[MOMENT] >= self.begin) & (piece[MOMENT] <= self.end)

    def takes(self, row: AnyRow) -> bool:
        return isinstance(row, SendRow | DeliverRow) and self.begin <= moment(row) <= self.end


Question = Positions | About | Repairs | Between


def message_of(row: AnyRow) -> Message | None:
    """The message that a row sends or delivers."""
    if isinstance(row, SendRow):
        return (row.process, row.incarnation, row.number)
    if isinstance(row, DeliverRow):
        return (row.source, row.source_incarnation, row.number)
    return None


def answers(tables: TraceTables, questions: Sequence[Question]) -> dict[Question, list[AnyRow]]:
    """For each question its rows, in the order of the tables."""
    found: dict[Question, list[AnyRow]] = {question: [] for question in questions}
    for family, kind in FAMILIES.items():
        asked = [question for question in found if family in question.families]
        if asked:
            there = (*kind.__struct_fields__, MOMENT)
            columns = sorted({name for question in asked for name in question.columns if name in there})
            for row in tables.rows(family, columns, _any_of(tables, family, asked)):
                for question in asked:
                    if len(found[question]) < question.most and question.takes(row):
                        found[question].append(row)
    return found


def _any_of(tables: TraceTables, family: str, asked: Sequence[Question]) -> Callable[[Piece], Mask]:
    taken: dict[Question, int] = defaultdict(int)

    def wanted(piece: Piece) -> Mask:
        rows = len(next(iter(piece.values())))
        result = np.zeros(rows, dtype=bool)
        for question in asked:
            if taken[question] < question.most:
                mask = question.mask(tables, family, piece)
                (places,) = np.nonzero(mask)
                result[places[: question.most - taken[question]]] = True
                taken[question] += len(places)
        return result

    return wanted


class Heard(Struct, frozen=True):
    """What one life delivered in one view, in its order: the source of each message by code, and its number."""

    source: Numbers
    incarnation: Numbers
    number: Numbers

    def messages(self, tables: TraceTables, begin: int, end: int) -> list[Message]:
        """Those from one place of the order up to another."""
        some = (column[begin:end].tolist() for column in (self.source, self.incarnation, self.number))
        return [(tables.words[source], incarnation, number) for source, incarnation, number in zip(*some, strict=True)]

    def has(self, tables: TraceTables, message: Message) -> bool:
        name, incarnation, number = message
        same = _both(self.source == tables.code(name), self.incarnation == incarnation)
        return bool(_both(same, self.number == number).any())


class InView(Struct, frozen=True):
    """What one life delivered in one view."""

    group: str
    life: Life
    view: str


def heard_in(tables: TraceTables, questions: Sequence[InView]) -> dict[InView, Heard]:
    """What lives delivered in views."""
    columns = ("source", "source_incarnation", "number", "position")
    kept: dict[InView, list[Piece]] = {question: [] for question in questions}
    if questions:
        for piece in tables.pieces("deliver", ["group", "process", "incarnation", "view", *columns]):
            for question, pieces in kept.items():
                there = _both(
                    piece["group"] == tables.code(question.group), piece["view"] == tables.code(question.view)
                )
                mine = _both(there, _life(tables, piece, question.life))
                pieces.append({name: piece[name][mine] for name in columns})
    found = {}
    for question, pieces in kept.items():
        empty: Piece = {name: np.zeros(0, dtype=np.int64) for name in columns}
        merged = {name: np.concatenate([piece[name] for piece in (empty, *pieces)]) for name in columns}
        order = np.argsort(merged["position"], kind="stable")
        found[question] = Heard(*(merged[name][order] for name in columns[:3]))
    return found


def _life(
    tables: TraceTables, piece: Piece, life: Life, name: str = "process", incarnation: str = "incarnation"
) -> Mask:
    return _both(piece[name] == tables.code(life[0]), piece[incarnation] == life[1])


def _both(one: Mask, other: Mask) -> Mask:
    return np.logical_and(one, other)
