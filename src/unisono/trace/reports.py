"""Reports: the trace rows of one process, in columns, as they travel to a collector and stand in its log.

Reports of one life of a process are numbered from 0 without gaps, so that one that is sent twice is stored once. What
came from elsewhere may be anything: `decode` refuses it by name or gives a report of which everything was checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from operator import lt
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, structs

from unisono.errors import BadReport
from unisono.identity import why_bad_name
from unisono.trace.columns import (
    COLUMNS,
    CONSTANTS,
    NUMBER_LIMIT,
    Column,
    RawColumn,
    Runs,
    check,
    expanded_bytes,
    pack,
    unpack,
)
from unisono.trace.schema import FAMILIES, SCHEMA_VERSION, AnyRow, family_of
from unisono.units import MIB

REPORT_LIMIT_BYTES = 8 * MIB
ROWS_LIMIT = 100_000
EXPANDED_LIMIT_BYTES = 256 * MIB
"""The most that the texts of a report take as rows: a run of a long text is short here and long there."""
RUN_LIMIT_BYTES = 80
"""A run's name becomes that of a folder, where some letters take three."""
HOST_LIMIT_BYTES = 64


class ReportId(NamedTuple):
    """Which report of which life of which process."""

    run: str
    process: str
    incarnation: int
    number: int

    def __str__(self) -> str:
        return f"report {self.number} of {self.process}~{self.incarnation:x} in run {self.run!r}"


class Table(Struct, array_like=True, gc=False):
    """The rows of one family, in the order in which they were written; columns as in `COLUMNS`."""

    count: int
    columns: Sequence[Column]


class Report(Struct, array_like=True, kw_only=True):
    """Some rows of one life of one process. `tables` has a table for every family with rows."""

    schema_version: int = SCHEMA_VERSION
    run: str
    process: str
    incarnation: int
    host: str
    number: int
    tables: dict[str, Table]

    @property
    def id(self) -> ReportId:
        return ReportId(self.run, self.process, self.incarnation, self.number)

    @property
    def count(self) -> int:
        """How many rows it has."""
        return sum(table.count for table in self.tables.values())


class RawTable(Struct, array_like=True, forbid_unknown_fields=True):
    count: int
    columns: list[RawColumn]


class RawReport(Struct, array_like=True, forbid_unknown_fields=True):
    """A report as it came: typed, but not yet looked at."""

    schema_version: int
    run: str
    process: str
    incarnation: int
    host: str
    number: int
    tables: dict[str, RawTable]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RawReport).decode
_decode_version = msgspec.msgpack.Decoder(list[Any]).decode


def make_report(rows: Iterable[AnyRow], number: int) -> Report:
    """A report of rows of one process, each stamped; those of one family keep their order."""
    families: dict[str, list[AnyRow]] = {}
    row = None
    for row in rows:
        families.setdefault(family_of(row), []).append(row)
    assert row is not None, "a report has rows"
    tables = {family: table_of(family, found) for family, found in families.items()}
    return Report(
        run=row.run, process=row.process, incarnation=row.incarnation, host=row.host, number=number, tables=tables
    )


def table_of(family: str, rows: Sequence[AnyRow]) -> Table:
    """The columns of rows of one family."""
    columns = zip(*map(structs.astuple, rows), strict=True)
    named = dict(zip(FAMILIES[family].__struct_fields__, columns, strict=True))
    return Table(len(rows), [pack(named[name]) for name in COLUMNS[family]])


def encode(report: Report) -> bytes:
    return _encode(report)


def decode(data: bytes, limited: bool = True) -> Report:
    """The report in these bytes; BadReport, by name, where they are not one that can be taken.

    Without limits it may be as large as it is: for what this machine wrote itself.
    """
    if limited and len(data) > REPORT_LIMIT_BYTES:
        raise BadReport("too large", f"{len(data)} bytes; a report has at most {REPORT_LIMIT_BYTES}")
    try:
        raw = _decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        _refuse_other_version(data)
        raise BadReport("unreadable", str(error)) from None
    if raw.schema_version != SCHEMA_VERSION:
        _refuse_other_version(data)
    _refuse_names(raw)
    tables: dict[str, Table] = {}
    expanded = 0
    for family, table in raw.tables.items():
        names = COLUMNS.get(family)
        if names is None:
            raise BadReport("unknown family", repr(family[:RUN_LIMIT_BYTES]))
        if not 1 <= table.count <= (ROWS_LIMIT if limited else NUMBER_LIMIT):
            raise BadReport("too many rows", f"{family} has {table.count}, from 1 to {ROWS_LIMIT} are taken")
        if len(table.columns) != len(names):
            raise BadReport("columns do not match", f"{family} has {len(table.columns)}, {len(names)} are expected")
        columns = [check(family, name, column, table.count) for name, column in zip(names, table.columns, strict=True)]
        expanded += sum(expanded_bytes(family, name, one) for name, one in zip(names, columns, strict=True))
        if limited and expanded > EXPANDED_LIMIT_BYTES:
            raise BadReport("too large", f"as rows it takes more than {EXPANDED_LIMIT_BYTES} bytes")
        tables[family] = Table(table.count, columns)
    report = Report(
        run=raw.run, process=raw.process, incarnation=raw.incarnation, host=raw.host, number=raw.number, tables=tables
    )
    _refuse_positions(report)
    return report


def rows(report: Report) -> list[AnyRow]:
    """The rows of a report, in the order in which they were written."""
    found: list[AnyRow] = []
    constants = {name: getattr(report, name) for name in CONSTANTS}
    for family, table in report.tables.items():
        kind: Any = FAMILIES[family]
        names = COLUMNS[family]
        found += [
            kind(**dict(zip(names, values, strict=True)), **constants)
            for values in zip(*map(unpack, table.columns), strict=True)
        ]
    found.sort(key=lambda row: row.position)
    return found


def column(report: Report, family: str, name: str) -> Column:
    """One column of a family that the report has rows of."""
    if name in CONSTANTS:
        return Runs([getattr(report, name)], [report.tables[family].count])
    return report.tables[family].columns[COLUMNS[family].index(name)]


def _refuse_other_version(data: bytes) -> None:
    try:
        found = _decode_version(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return
    if found and isinstance(found[0], int) and found[0] != SCHEMA_VERSION:
        raise BadReport("other schema", f"version {found[0]}, this collector takes {SCHEMA_VERSION}")


def _refuse_names(raw: RawReport) -> None:
    if (complaint := why_bad_run(raw.run)) is not None:
        raise BadReport("bad run", complaint)
    if (complaint := why_bad_name(raw.process)) is not None:
        raise BadReport("bad process", complaint)
    if not 1 <= raw.incarnation <= NUMBER_LIMIT:
        raise BadReport("bad incarnation", f"{raw.incarnation} is not from 1 to 2^63 - 1")
    if not 0 <= raw.number <= NUMBER_LIMIT:
        raise BadReport("bad number", f"{raw.number} is not from 0 to 2^63 - 1")
    if len(raw.host.encode()) > HOST_LIMIT_BYTES:
        raise BadReport("bad host", f"a host has at most {HOST_LIMIT_BYTES} bytes")
    if not raw.tables:
        raise BadReport("empty", "a report has rows")


def _refuse_positions(report: Report) -> None:
    """Positions are the order of rows: each once, growing in each family."""
    found: list[int] = []
    for family in report.tables:
        positions = unpack(column(report, family, "position"))
        if positions[0] < 0 or not all(map(lt, positions, islice(positions, 1, None))):
            raise BadReport("positions", f"those of {family} do not grow from 0 on")
        found += positions
    found.sort()
    if not all(map(lt, found, islice(found, 1, None))):
        raise BadReport("positions", "two rows have the same")


def why_bad_run(run: str) -> str | None:
    """What is wrong with the name of a run, or None."""
    if not run or not run.isprintable():
        return "the name of a run is made of printable characters, at least one"
    if len(run.encode()) > RUN_LIMIT_BYTES:
        return f"the name of a run has at most {RUN_LIMIT_BYTES} bytes"
    return None


def record_batches(report: Report) -> dict[str, Any]:
    """The rows of a report as record batches of pyarrow, by family."""
    from unisono.trace.report_batches import record_batch

    return {family: record_batch(report, family) for family in report.tables}
