"""The live query on Spark: a stream, its restarts, and that every report counts once, as a batch over the log says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.conftest import Call
from tests.pipeline.running_trace import (
    GROUP,
    HOST,
    RunningTrace,
    Served,
    deliveries_in,
    deliveries_of,
    reports_of,
    wait_until,
)
from unisono.errors import UnisonoError
from unisono.pipeline.live.outputs import Delivered, Flagged, Line, Standing
from unisono.pipeline.live.plain import PlainQuery
from unisono.pipeline.live.tables import read_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path / "log") as log:
        yield log


class Failing:
    """Lets some batches through, then fails after the tables of one were written and before Spark has committed it."""

    def __init__(self, after: int) -> None:
        self.left = after
        self.failed = False

    def __call__(self, batch: int, lines: list[Line], standings: list[Standing]) -> None:
        if not self.failed and any(isinstance(line, Delivered) for line in lines):
            self.left -= 1
            if self.left < 0:
                self.failed = True
                raise RuntimeError("cut short")


def test_a_stream_that_dies_between_its_tables_and_its_commit_counts_every_report_once(
    spark: SparkSession, served: Served, tmp_path: Path
) -> None:
    from unisono.pipeline.live.query import LiveQuery
    from unisono.pipeline.source.datasource import register

    data = tmp_path / "data"
    trace = RunningTrace("one")
    trace.send(50)
    served.take(trace.reports())
    failing = Failing(after=1)
    query = LiveQuery(spark, served.address, data, failing, HOST)

    def failed() -> bool:
        trace.send(20)
        served.take(trace.reports())
        return failing.failed

    wait_until(failed, "a batch that fails")

    def ended() -> bool:
        try:
            query.check()
        except UnisonoError as error:
            return "the live query ended" in str(error)
        return False

    wait_until(ended, "the end of the query")
    query.stop()
    trace.damage("O2")
    trace.send(50)
    served.take(trace.reports())
    with closing(Stopping(LiveQuery(spark, served.address, data, host=HOST))) as again:
        wait_until(lambda: again.reports(data) == served.log.end, "all reports")
    register(spark)
    stored = spark.read.format("unisono").option("collector", served.address).option("family", "deliver").load()
    by_batch = Counter(
        {(row.process, row.size): row["count"] for row in stored.groupBy("process", "size").count().collect()}
    )
    assert deliveries_of(data / "tables") == by_batch == deliveries_in(served.log.read)
    flagged = [line for line in read_lines(data / "tables", "violations") if isinstance(line, Flagged)]
    assert [(line.property, line.verdict, line.process) for line in flagged] == [("O2", "violated", trace.names[-1])]
    assert flagged[0].delay is not None


class Stopping:
    """A query that is stopped at the end, and looked at until then."""

    def __init__(self, query: object) -> None:
        self.query = query

    def reports(self, data: Path) -> int:
        self.query.check()  # type: ignore[attr-defined]  # Spark is imported where it is used
        return reports_of(data / "tables")

    def close(self) -> None:
        self.query.stop()  # type: ignore[attr-defined]  # as above


def test_a_collector_is_read_as_rows_of_all_families_or_of_one(spark: SparkSession, served: Served) -> None:
    from unisono.pipeline.source.collected import COMMON, decode_row
    from unisono.pipeline.source.datasource import register
    from unisono.pipeline.tables import schema_of

    trace = RunningTrace("rows")
    trace.send(3)
    trace.end()
    served.take(trace.reports())
    register(spark)
    reader = spark.read.format("unisono").option("collector", served.address)
    rows = reader.load().collect()
    assert reader.load().columns == COMMON.names
    assert Counter(row.kind for row in rows) == {"VIEW": 4, "SEND": 3, "DELIVER": 12, "END": 4}
    for row in rows:
        whole = decode_row(bytes(row.row))
        assert (whole.process, whole.position, whole.kind, whole.at) == (row.process, row.position, row.kind, row.at)
    sends = reader.option("family", "send").load()
    assert sends.columns == ["offset", *schema_of("send").names]
    assert [(row.process, row.number, row.offset) for row in sends.collect()] == [("p0", n, 3) for n in (1, 2, 3)]
    with pytest.raises(Exception, match="there is no family 'sends'; did you mean"):
        reader.option("family", "sends").load()


def test_the_monitors_go_on_where_they_were_killed(served: Served, tmp_path: Path) -> None:
    """kill -9 of the command in mid-run, twice; in the end the tables say what the log does."""
    data = tmp_path / "data"
    trace = RunningTrace("killed")
    command = [sys.executable, "-m", "unisono", "watch", served.address, "--engine", "monitor", "--data", str(data)]
    for _ in range(2):
        before = reports_of(data / "tables")
        with subprocess.Popen([*command, "--json"], stdout=subprocess.DEVNULL) as process:

            def counted(before: int = before) -> bool:
                trace.send(10)
                served.take(trace.reports())
                return reports_of(data / "tables") > before

            wait_until(counted, "a report that is counted")
            os.kill(process.pid, signal.SIGKILL)
    trace.damage("D2")
    trace.end()
    served.take(trace.reports())
    ended = subprocess.run([*command, "--until-violation", "--for", "60"], capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    query = PlainQuery(served.address, data)
    wait_until(lambda: query.offset == served.log.end, "the end of the log")
    query.stop()
    assert reports_of(data / "tables") == served.log.end
    assert deliveries_of(data / "tables") == deliveries_in(served.log.read)


def test_watch_says_what_it_sees_until_it_is_ended(served: Served) -> None:
    trace = RunningTrace("seen")
    trace.send(20)
    trace.end()
    served.take(trace.reports())
    command = [sys.executable, "-m", "unisono", "watch", served.address, "--engine", "monitor", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            found = json.loads(line)
            if found["runs"] and found["behind_reports"] == 0:
                break
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 0
    (run,) = found["runs"]
    assert (run["run"], found["violated"]) == ("seen", False)
    assert {one["state"] for one in run["processes"]} == {"ended"}
    (group,) = run["groups"]
    assert (group["group"], group["sent"], group["delivered"]) == (GROUP, 20, 80)
    assert group["latency_nanoseconds"]["messages"] == 20
    assert {one["verdict"] for one in run["properties"].values()} == {"held"}


def test_watch_ends_with_the_first_violation_and_shows_it(call: Call, served: Served) -> None:
    trace = RunningTrace("seen")
    trace.damage("D2")
    served.take(trace.reports())
    code, out, _ = call("watch", served.address, "--engine", "monitor", "--until-violation")
    assert code == 1
    assert "violated (1)" in out
    assert "p0~7/1 was delivered before." in " ".join(out.split())


def test_watch_says_what_is_wrong_with_how_it_was_called(call: Call, served: Served) -> None:
    code, _, error = call("watch", served.address, "--for", "soon")
    assert code == 2
    assert "for: " in error
    code, _, error = call("watch", served.address, "--master", "spark://elsewhere:7077")
    assert code == 2
    assert "--data" in error
    code, _, error = call("watch", "nowhere", "--engine", "monitor")
    assert code == 2
    assert "nowhere" in error
