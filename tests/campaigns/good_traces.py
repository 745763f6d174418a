"""No false alarm: many sampled good traces, judged by the monitors one by one and by the Spark forms as one table.

`make good-traces` runs it over 10,000; `python -m tests.campaigns.good_traces --traces 500` over fewer.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from time import perf_counter

from tests.pipeline.traces import good_rows, good_session_rows, of_run
from unisono.pipeline.audit import audit_tables
from unisono.pipeline.spark.session import running
from unisono.pipeline.tables import read_tables
from unisono.properties.registry import MonitorSuite
from unisono.trace.parquet import write_tables
from unisono.trace.schema import AnyRow


def judged(rows: list[AnyRow]) -> dict[str, int]:
    suite = MonitorSuite()
    for row in rows:
        suite.observe(row)
    suite.finish()
    return suite.counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1_000_000)
    arguments = parser.parse_args()
    everything: list[AnyRow] = []
    by_monitors: Counter[str] = Counter()
    began = perf_counter()
    for index in range(arguments.traces):
        good = good_session_rows if index % 4 == 3 else good_rows
        rows = of_run(good(Random(arguments.seed + index)), f"{arguments.seed + index}")
        by_monitors.update(judged(rows).keys())
        everything += rows
    made = perf_counter()
    print(
        f"{arguments.traces} good traces, {len(everything)} rows: made and judged by monitors in {made - began:.0f} s"
    )
    print(f"  alarms of monitors: {dict(by_monitors) or 'none'}")
    with tempfile.TemporaryDirectory() as folder:
        write_tables(folder, everything)
        with running("local") as session:
            report = audit_tables(read_tables(session, [Path(folder)]))
    by_spark: Counter[str] = Counter(property_id for run in report.runs for property_id in run.counts)
    wrong = [run.run for run in report.runs if not run.held]
    print(f"  alarms of Spark in {len(report.runs)} runs: {dict(by_spark) or 'none'} ({perf_counter() - made:.0f} s)")
    print(f"  runs: {wrong[:10]}" if wrong else "  every run held")
    return 1 if by_monitors or wrong or len(report.runs) != arguments.traces else 0


if __name__ == "__main__":
    sys.exit(main())
