"""The audit of whole traces with Spark: every property over all runs at once, or all monitors over each small run."""

from __future__ import annotations

import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import reduce
from time import perf_counter

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.errors import TraceError, UnisonoError
from unisono.pipeline.audits.forms import spark_form
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.many_runs import audit_many, many_and_small
from unisono.pipeline.monitor_audit import told_apart
from unisono.pipeline.report import KEPT_VIOLATIONS, AuditReport, RunFacts, RunReport, run_report
from unisono.pipeline.runs import SMALL_BYTES, Progress, RunFiles, as_tables, find_runs, names_in
from unisono.pipeline.spark.cluster import refuse_unseen, why_workers_fail
from unisono.pipeline.tables import Tables, read_tables
from unisono.properties.registry import PROPERTIES
from unisono.properties.violation import Violation
from unisono.trace.schema import FAMILIES

_AT_A_TIME = 2
_BYTES_A_PART = 1_000_000
_PARTITIONS = "spark.sql.shuffle.partitions"
_UNREAD = re.compile(r"\[FAILED_READ_FILE[.\w]*\]\s*(.*?)\s*(?:SQLSTATE|\n|$)|TraceError: (.*)")
"""What an error says that comes from reading a file: Spark's, or that of a task of ours."""
_SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For a trace of one part: to plan again and to compile would take longer than the work."""


def audit(
    session: SparkSession, directories: Sequence[str | os.PathLike[str]], progress: Progress = lambda *_: None
) -> AuditReport:
    """Hold every run below these paths to every property."""
    began = perf_counter()
    runs = find_runs(directories)
    small = many_and_small(runs)
    if not small:
        return _audit_at_once(session, runs, progress, began)
    refuse_unseen(session, [run.path for run in small])
    with read_to_the_end():
        judged = audit_many(session, small, progress)
    seconds = {"monitors": perf_counter() - began}
    own = {run.path for run in small}
    large = [run for run in runs if run.path not in own]
    if not large:
        return AuditReport("spark", told_apart(judged), seconds, perf_counter() - began)
    names = {report.run for _, report in judged}
    at_once = _audit_at_once(session, large, progress, perf_counter(), names)
    apart = told_apart(judged, {name for run in large for name in names_in(run)})
    reports = sorted([*apart, *at_once.runs], key=lambda report: report.run)
    return AuditReport("spark", reports, seconds | at_once.seconds, perf_counter() - began)


def _audit_at_once(
    session: SparkSession, runs: Sequence[RunFiles], progress: Progress, began: float, elsewhere: Collection[str] = ()
) -> AuditReport:
    """Every property over all of these runs together."""
    with tempfile.TemporaryDirectory(prefix="unisono-") as folder:
        folders = as_tables(runs, folder, progress)
        refuse_unseen(session, folders)
        tables = read_tables(session, folders, elsewhere)
        with read_to_the_end():
            return audit_tables(tables, progress, perf_counter() - began)


@contextmanager
def read_to_the_end() -> Iterator[None]:
    """What Spark cannot read of a trace is what whoever gave it the trace has to look at.

    An error of a task comes as Java's own, wrapped as often as it was passed on.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if (told := why_workers_fail(str(error))) is not None:
            raise UnisonoError(told) from error
        unread = _UNREAD.search(str(error))
        if unread is None and isinstance(error, Py4JJavaError):
            raise UnisonoError(f"Spark failed: {_first_line(error)}") from error
        what = _first_line(error) if unread is None else unread[1] or unread[2]
        raise TraceError(f"the trace cannot be read to its end: {what}") from error


@contextmanager
def sized_for(session: SparkSession, stored_bytes: int) -> Iterator[None]:
    """While this is open, work is cut by the size of the traces: a small one is not worth what many tasks cost."""
    parts = 1 if stored_bytes < SMALL_BYTES else stored_bytes // _BYTES_A_PART + 1
    changed = {_PARTITIONS: str(parts)} if parts < int(session.conf.get(_PARTITIONS) or "") else {}
    if parts == 1:
        changed |= _SMALL
    before = {key: session.conf.get(key) for key in changed}
    try:
        for key, value in changed.items():
            session.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            session.conf.set(key, old or "")


def audit_tables(tables: Tables, progress: Progress = lambda *_: None, reading_seconds: float = 0.0) -> AuditReport:
    """The same, of tables that are open."""
    began = perf_counter()
    progress("traces condensed", 0, 1)
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    kept: dict[str, list[Violation]] = defaultdict(list)
    with closing(Projections(tables)) as trace, sized_for(trace.session, trace.condensed_bytes):
        facts = run_facts(trace)
        seconds = {"reading": reading_seconds + perf_counter() - began}

        def judge(property_id: str) -> tuple[list[tuple[str, int, Violation]], float]:
            begun = perf_counter()
            return first_violations(spark_form(property_id)(trace)), perf_counter() - begun

        # To plan so many small queries takes one core: two at a time take two.
        with ThreadPoolExecutor(_AT_A_TIME) as threads:
            for index, (property_id, found) in enumerate(zip(PROPERTIES, threads.map(judge, PROPERTIES), strict=True)):
                progress("properties checked", index, len(PROPERTIES))
                seconds[property_id] = found[1]
                for run, count, violation in found[0]:
                    counts[run][property_id] = count
                    kept[run].append(violation)
    runs: list[RunReport] = [run_report(run, facts[run], counts[run], kept[run]) for run in sorted(facts)]
    return AuditReport("spark", runs, seconds, reading_seconds + perf_counter() - began)


def first_violations(found: DataFrame) -> list[tuple[str, int, Violation]]:
    """Of the violations of one property, the first in each run, beside the count of all in that run."""
    one_run = Window.partitionBy("run")
    in_order = one_run.orderBy("group", "process", "incarnation", "position", "message", "text")
    rows = (
        found.select("*", F.count(F.lit(1)).over(one_run).alias("count"), F.row_number().over(in_order).alias("rank"))
        .where(F.col("rank") <= KEPT_VIOLATIONS)
        .collect()
    )
    return [(row["run"], row["count"], Violation(*(row[name] for name in Violation.__struct_fields__))) for row in rows]


def run_facts(trace: Projections) -> dict[str, RunFacts]:
    """What is in each run."""
    many = F.sum("got").alias("rows")
    counted = [
        trace.tables.family(family)
        .groupBy("run", "service")
        .agg(many if family in ("send", "deliver") else F.count(F.lit(1)).alias("rows"))
        .select("run", "service", F.lit(family).alias("family"), "rows")
        for family in FAMILIES
    ]
    rows: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(FAMILIES, 0))
    services: dict[str, set[str]] = defaultdict(set)
    for row in reduce(DataFrame.unionByName, counted).collect():
        rows[row["run"]][row["family"]] += row["rows"]
        if row["service"] is not None:
            services[row["run"]].add(row["service"])
    return {run: RunFacts(dict(rows[run]), tuple(sorted(services[run]))) for run in rows}


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
