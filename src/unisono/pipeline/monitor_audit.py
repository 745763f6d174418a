"""The audit without Spark: the monitors of the simulator over stored traces, one run after the other."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from time import perf_counter

from unisono.errors import TraceError
from unisono.pipeline.report import AuditReport, RunFacts, RunReport, run_report
from unisono.pipeline.runs import Progress, RunFiles, find_runs, read_rows
from unisono.properties.registry import MonitorSuite
from unisono.trace.schema import FAMILIES, AnyRow, family_of

_LOOKED_AT = 100_000
"""Monitors keep what they find first, a report what stands first in the trace: it chooses from so many."""


def audit_with_monitors(
    directories: Sequence[str | os.PathLike[str]], progress: Progress = lambda *_: None
) -> AuditReport:
    """Hold every run below these paths to every property."""
    begun = perf_counter()
    reading = judging = 0.0
    reports: list[tuple[RunFiles, RunReport]] = []
    runs = find_runs(directories)
    for index, run in enumerate(runs):
        progress("runs audited", index, len(runs))
        began = perf_counter()
        rows = read_rows(run)
        if not rows:
            raise TraceError(f"{run.path} is a run without a row: there is nothing in it to audit")
        read = perf_counter()
        reports.extend((run, report) for report in audit_rows(rows))
        reading += read - began
        judging += perf_counter() - read
    seconds = {"reading": reading, "monitors": judging}
    return AuditReport("monitor", told_apart(reports), seconds, perf_counter() - begun)


def audit_rows(rows: Sequence[AnyRow]) -> list[RunReport]:
    """The reports of the runs that these rows belong to; each process's rows are in its own order."""
    by_run: dict[str, list[AnyRow]] = defaultdict(list)
    for row in rows:
        by_run[row.run].append(row)
    reports = []
    for run, mine in sorted(by_run.items()):
        suite = MonitorSuite(keep=_LOOKED_AT)
        for row in mine:
            suite.observe(row)
        suite.finish()
        families = Counter(family_of(row) for row in mine)
        services = {row.service for row in mine if row.service is not None}
        facts = RunFacts({family: families[family] for family in FAMILIES}, tuple(sorted(services)))
        reports.append(run_report(run, facts, suite.counts, suite.violations))
    return reports


def told_apart(reports: list[tuple[RunFiles, RunReport]], elsewhere: Collection[str] = ()) -> list[RunReport]:
    """Runs by name; where two have the same, here or `elsewhere`, where they are is added to it."""
    from msgspec.structs import replace

    names = Counter([*(report.run for _, report in reports), *elsewhere])
    named = [
        replace(report, run=f"{report.run} in {run.path}") if names[report.run] > 1 else report
        for run, report in reports
    ]
    return sorted(named, key=lambda report: report.run)
