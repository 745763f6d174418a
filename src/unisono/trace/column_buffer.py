"""Rows of one process while they are gathered: deliveries straight into columns, many at a time; the rest as rows."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from xxhash import xxh3_64_digest

from unisono.events import Message
from unisono.identity import ProcessId
from unisono.trace.columns import COLUMNS, Column, Plain, Runs, Spans, pack, unpack
from unisono.trace.reports import Report, Table, table_of
from unisono.trace.schema import AnyRow, family_of

_source = attrgetter("source")
_DELIVERY_BYTES = 48
"""About what a delivery takes in a report."""
_ROW_BYTES = 160


class Circumstances(NamedTuple):
    """What a run of deliveries has in common."""

    group: str
    at: int
    view: str | None
    service: str | None
    stretch: int


class Deliveries:
    """The columns of the deliveries so far."""

    __slots__ = (
        "bodies",
        "circumstances",
        "count",
        "indexes",
        "lengths",
        "numbers",
        "positions",
        "sequences",
        "sizes",
        "sources",
        "timestamps",
    )

    def __init__(self) -> None:
        self.count = 0
        self.circumstances: list[Circumstances] = []
        self.positions: list[int] = []
        """Where each run of deliveries begins, and beside it in `lengths` how many it has."""
        self.lengths: list[int] = []
        self.sources: list[tuple[ProcessId, int]] = []
        self.sequences: list[int] = []
        self.numbers: list[int] = []
        self.timestamps: list[int] = []
        self.sizes: list[int] = []
        self.bodies: list[bytes] = []
        self.indexes: list[int] = []

    def add(self, messages: Sequence[Message], position: int, circumstances: Circumstances) -> None:
        """Messages that were handed over one after the other, none of which was sent for another process."""
        count = len(messages)
        self.count += count
        self.circumstances.append(circumstances)
        self.positions.append(position)
        self.lengths.append(count)
        self.sources += [(source, len(list(run))) for source, run in groupby(messages, _source)]
        self.sequences += [message.sequence for message in messages]
        self.numbers += [message.number for message in messages]
        self.timestamps += [message.timestamp for message in messages]
        payloads = [message.data for message in messages]
        self.sizes += map(len, payloads)
        self.bodies += map(xxh3_64_digest, payloads)
        self.indexes += [message.index for message in messages]

    def extend(self, other: Deliveries) -> None:
        self.count += other.count
        self.circumstances += other.circumstances
        self.positions += other.positions
        self.lengths += other.lengths
        self.sources += other.sources
        self.sequences += other.sequences
        self.numbers += other.numbers
        self.timestamps += other.timestamps
        self.sizes += other.sizes
        self.bodies += other.bodies
        self.indexes += other.indexes

    def table(self) -> Table:
        groups, ats, views, services, stretches = zip(*self.circumstances, strict=True)
        lengths = self.lengths
        sources, runs = zip(*self.sources, strict=True)
        bodies = struct.unpack(f">{self.count}q", b"".join(self.bodies))
        columns: dict[str, Column] = {
            "kind": Runs(["DELIVER"], [self.count]),
            "group": self._runs(groups, lengths),
            "position": Spans(self.positions, lengths),
            "at": Runs(ats, lengths),
            "truth": Runs([None], [self.count]),
            "view": self._runs(views, lengths),
            "service": self._runs(services, lengths),
            "stretch": self._runs(stretches, lengths),
            "source": self._runs([source.name for source in sources], runs),
            "source_incarnation": self._runs([source.incarnation for source in sources], runs),
            "sequence": Plain(self.sequences),
            "number": Plain(self.numbers),
            "timestamp": Plain(self.timestamps),
            "size": pack(self.sizes),
            "body": Plain(bodies),
            "index": Plain(self.indexes),
            "origin": Runs([None], [self.count]),
        }
        return Table(self.count, [columns[name] for name in COLUMNS["deliver"]])

    def _runs(self, values: Sequence[Any], lengths: Sequence[int]) -> Runs:
        if values.count(values[0]) == len(values):
            return Runs([values[0]], [self.count])
        return Runs(values, lengths)


class ColumnBuffer:
    """What was gathered since it was last taken."""

    __slots__ = ("deliveries", "rows")

    def __init__(self) -> None:
        self.deliveries = Deliveries()
        self.rows: dict[str, list[AnyRow]] = {}

    @property
    def count(self) -> int:
        return self.deliveries.count + sum(map(len, self.rows.values()))

    @property
    def about_bytes(self) -> int:
        """Roughly how long a report of it is."""
        return self.deliveries.count * _DELIVERY_BYTES + sum(map(len, self.rows.values())) * _ROW_BYTES

    def add(self, row: AnyRow) -> None:
        """A row, stamped."""
        family = family_of(row)
        found = self.rows.get(family)
        if found is None:
            self.rows[family] = [row]
        else:
            found.append(row)

    def extend(self, other: ColumnBuffer) -> None:
        """Take over what another gathered later."""
        self.deliveries.extend(other.deliveries)
        for family, rows in other.rows.items():
            self.rows.setdefault(family, []).extend(rows)

    def take(self, run: str, process: str, incarnation: int, host: str, number: int) -> Report:
        """A report of everything; the buffer is empty then."""
        tables = {family: table_of(family, rows) for family, rows in self.rows.items()}
        if self.deliveries.count:
            other = tables.get("deliver")
            table = self.deliveries.table()
            tables["deliver"] = table if other is None else _merged(table, other)
        self.deliveries = Deliveries()
        self.rows = {}
        return Report(run=run, process=process, incarnation=incarnation, host=host, number=number, tables=tables)


def _merged(one: Table, other: Table) -> Table:
    """Two tables of one family, in the order of positions."""
    place = COLUMNS["deliver"].index("position")
    rows = [*zip(*map(unpack, one.columns), strict=True), *zip(*map(unpack, other.columns), strict=True)]
    rows.sort(key=lambda row: row[place])
    return Table(len(rows), [pack(column) for column in zip(*rows, strict=True)])
