"""The lake: of each run, or batch of runs, the raw tables, the joined ones, verdicts and measures, as plain Parquet.

A run is one directory: `raw` is a run directory, `joined` has messages and views, `results` has verdicts and measures.
It is made aside and takes its place by renames, so that it is whole or not there; building it again replaces it whole.
Later capabilities add tables to a layer: transactions are to stand among the joined ones.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints
from urllib.parse import quote

from msgspec import Struct

from unisono.errors import TraceError
from unisono.pipeline.audit import audit_tables, read_to_the_end, sized_for
from unisono.pipeline.measures.value import Value, in_order
from unisono.pipeline.measures.values import Measured, measured, measures
from unisono.pipeline.monitor_audit import audit_with_monitors
from unisono.pipeline.report import AuditReport, Engine
from unisono.pipeline.runs import Progress, RunFiles, as_tables, find_runs, stored_bytes
from unisono.pipeline.tables import read_tables
from unisono.pipeline.workplace import Workplace
from unisono.trace import catalogue
from unisono.trace.parquet import merge_tables, names_of_runs, table_files, table_path
from unisono.trace.run_directory import SCENARIO, SUMMARY, canonical_json, write_marker
from unisono.trace.schema import FAMILIES, SCHEMA_VERSION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RAW, JOINED, RESULTS = LAYERS = ("raw", "joined", "results")
FORMAT = 1
"""Of the joined tables and the results: it grows when a column changes its meaning or goes."""

BUILT = "BUILT"
"""The marker of a directory of the lake, which tells what is in it."""

JOINED_TABLES: dict[str, Callable[[Measured], DataFrame]] = {
    "messages": lambda run: run.messages,
    "views": lambda run: run.views,
}
"""Every joined table by its name; a later capability adds its own here."""


class Verdict(Struct, frozen=True):
    """One property in one run, as it was audited: by whom and when, in UTC as in ISO 8601."""

    run: str
    property: str
    verdict: str
    violations: int
    engine: str
    made: str


class Built(Struct, frozen=True):
    """One directory of the lake that was made, with the runs in it; `source` is where the one run came from."""

    name: str
    path: Path
    source: Path | None
    runs: tuple[str, ...]
    rows: int
    verdicts: list[Verdict]

    def violations(self) -> dict[str, int]:
        """By property that some run promises, how often it was violated."""
        found: dict[str, int] = {}
        for one in self.verdicts:
            if one.verdict != "not promised":
                found[one.property] = found.get(one.property, 0) + one.violations
        return found


def build(
    session: SparkSession,
    directories: Sequence[str | os.PathLike[str]],
    lake: str | os.PathLike[str],
    batch: str | None = None,
    progress: Progress = lambda *_: None,
    engine: Engine = "spark",
) -> list[Built]:
    """Bring runs into the lake, each under its own name; with `batch`, all of them together under that one.

    `engine` says who audits them; the rest is made by Spark.
    """
    runs = find_runs(directories)
    target = Path(lake)
    target.mkdir(parents=True, exist_ok=True)
    with Workplace(target) as work:
        folders = as_tables(runs, work / "tables", progress)
        together = [list(range(len(runs)))] if batch is not None else [[index] for index in range(len(runs))]
        named = [names_of_runs(folder) for folder in folders]
        _refuse_equal_names(runs, named)
        built: list[Built] = []
        for done, members in enumerate(together):
            progress("brought into the lake", done, len(together))
            aside = work / "aside"
            _write_raw([runs[index] for index in members], [folders[index] for index in members], aside / RAW)
            names = sorted(set().union(*(named[index] for index in members)))
            name = batch or (names[0] if len(names) == 1 else runs[members[0]].path.resolve().name)
            source = runs[members[0]].path.resolve() if len(members) == 1 else None
            final = target / _directory_name(name)
            if final.exists() and not (final / BUILT).is_file():
                raise TraceError(f"{final} is in the way: it is not a directory of a lake")
            built.append(_build_one(session, Place(aside, final, source, tuple(names)), engine))
        return built


class Place(Struct, frozen=True):
    """Where one directory is made, where it goes, and what it is made of."""

    aside: Path
    final: Path
    source: Path | None
    runs: tuple[str, ...]


def _refuse_equal_names(runs: Sequence[RunFiles], named: Sequence[set[str]]) -> None:
    seen: dict[str, Path] = {}
    for run, names in zip(runs, named, strict=True):
        for name in sorted(names):
            if name in seen:
                both = f"{seen[name]} and {run.path} are both called {name}"
                raise TraceError(f"{both}: one would replace the other; build a lake of each")
            seen[name] = run.path


def _write_raw(runs: Sequence[RunFiles], folders: Sequence[Path], raw: Path) -> None:
    """The raw layer: the tables of one run as they are, or those of several put together."""
    raw.mkdir(parents=True)
    if len(folders) == 1:
        for family in FAMILIES:
            _take(table_path(folders[0], family), table_path(raw, family))
    else:
        merge_tables(raw, folders)
    for name in (SCENARIO, SUMMARY):
        source = runs[0].path / name
        if len(runs) == 1 and source.is_file():
            shutil.copyfile(source, raw / name)
    write_marker(raw)


def _take(source: Path, target: Path) -> None:
    """A table under another name without a second copy, where the file system can; else a copy."""
    if source.is_dir():
        target.mkdir()
        for part in table_files(source.parent, source.stem):
            _take(part, target / part.name)
        return
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


def _build_one(session: SparkSession, place: Place, engine: Engine) -> Built:
    aside = place.aside
    tables = read_tables(session, [aside / RAW])
    made = catalogue.now()
    with sized_for(session, stored_bytes([aside / RAW])), read_to_the_end():
        report = audit_tables(tables) if engine == "spark" else audit_with_monitors([aside / RAW])
        with measured(tables) as run:
            for name, make in JOINED_TABLES.items():
                make(run).write.option("compression", "zstd").parquet(str(aside / JOINED / f"{name}.parquet"))
            values = in_order(Value(*row) for row in measures(run).collect())
    verdicts = verdicts_of(report, made)
    results = aside / RESULTS
    results.mkdir()
    write_results(results / "verdicts.parquet", Verdict, verdicts)
    write_results(results / "measures.parquet", Value, values)
    text = canonical_json({"format": FORMAT, "schema": SCHEMA_VERSION, "runs": list(place.runs), "made": made})
    (aside / BUILT).write_text(text, encoding="utf-8")
    _replace(aside, place.final)
    rows = sum(sum(one.facts.rows.values()) for one in report.runs)
    return Built(place.final.name, place.final, place.source, place.runs, rows, verdicts)


def _replace(aside: Path, place: Path) -> None:
    """Put a directory in its place; the one that was there is moved out of the way first, then removed."""
    former = aside.with_name(f"{aside.name}.former")
    try:
        if place.exists():
            place.rename(former)
        aside.rename(place)
    except OSError as error:
        raise TraceError(f"cannot put {place} in its place: {error.strerror or error}") from error
    shutil.rmtree(former, ignore_errors=True)


def verdicts_of(report: AuditReport, made: str) -> list[Verdict]:
    """A report as rows, by run and in the order of the registry."""
    return [
        Verdict(run.run, property_id, verdict, run.counts.get(property_id, 0), report.engine, made)
        for run in report.runs
        for property_id, verdict in run.verdicts.items()
    ]


def write_results(path: Path, kind: type[Struct], rows: Sequence[Struct]) -> None:
    """Write a small table whose columns are those of a Struct."""
    import pyarrow
    from pyarrow import parquet

    columns = {name: [getattr(row, name) for row in rows] for name in kind.__struct_fields__}
    parquet.write_table(pyarrow.table(columns, schema=results_schema(kind)), path, compression="zstd")


def results_schema(kind: type[Struct]) -> Any:
    import pyarrow

    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    return pyarrow.schema([(name, types[hint]) for name, hint in get_type_hints(kind).items()])


def _directory_name(name: str) -> str:
    """A run's name as that of a directory; one that begins with a dot would be hidden."""
    safe = quote(name, safe=" ,=+@") or "run"
    return f"%2E{safe[1:]}" if safe.startswith(".") else safe
