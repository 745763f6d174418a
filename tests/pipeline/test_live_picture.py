"""What `watch` shows: added up from batches, and after a restart from the tables, every batch once."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from random import Random

from rich.console import Console

from unisono.cli.watch_report import show_watch
from unisono.pipeline.live.outputs import Counted, Delivered, Flagged, Gauged, Latencies, Line, Process, Standing
from unisono.pipeline.live.picture import Picture
from unisono.pipeline.live.run import LIVE, LiveRun
from unisono.pipeline.live.tables import LiveTables
from unisono.pipeline.monitor_audit import audit_rows
from unisono.properties.generator import good_session_trace


def delivered(window: int, process: str, messages: int) -> Line:
    return Delivered("run", "here", window, "g", process, 1, 100, messages, 0, 1)


def standing(unknown: int = 0) -> Standing:
    return Standing(
        "run", [Process("p", 1, "here", "reporting", False, 9, 5, "here")], [("g", "p~1", "v1")], unknown, 0, 0, 0
    )


def test_a_rate_is_that_of_the_slowest_member_over_seconds_that_are_over() -> None:
    picture = Picture()
    lines = [delivered(window, process, count) for window in range(10, 16) for process, count in (("p", 50), ("q", 40))]
    picture.take(0, [*lines, delivered(16, "p", 1)], [standing()])
    (run,) = picture.as_json(0)["runs"]
    (group,) = run["groups"]
    assert group["messages_per_second"] == 40
    assert group["delivered"] == 6 * 90 + 1
    assert group["views"] == [{"view": "v1", "members": 1}]


def test_percentiles_are_latencies_of_messages() -> None:
    picture = Picture()
    picture.take(0, [Latencies("run", "here", 1, "g", list(range(1, 101)))], [])
    latency = picture.as_json(None)["runs"][0]["groups"][0]["latency_nanoseconds"]
    assert latency == {"messages": 100, "p50": 50, "p90": 90, "p99": 99, "max": 100}


def test_what_is_unknown_is_no_violation() -> None:
    picture = Picture()
    line = Flagged("run", "D1", "unknown", "g", "p", 1, 2, "q~1/3", "whether it was sent is unknown.", 1, "here")
    picture.take(0, [line], [standing(unknown=1)])
    integrity = picture.as_json(0)["runs"][0]["properties"]["D1"]
    assert (integrity["verdict"], integrity["unknown"], integrity["violations"]) == ("unknown", 1, 0)
    assert not picture.violated


def test_what_no_service_promises_is_not_promised_as_an_audit_says(tmp_path: Path) -> None:
    rows = good_session_trace(Random(1), events=15)
    live = LiveRun(rows[0].run)
    for life in sorted({(row.process, row.incarnation) for row in rows}):
        live.take(*life, "here", 0, [row for row in rows if (row.process, row.incarnation) == life], 1)
    lines, found = live.finish_batch(1)
    LiveTables(tmp_path).write(0, lines)
    fresh, restored = Picture(), Picture()
    restored.restore(tmp_path)
    restored.take(1, [], [])
    fresh.take(0, lines, [found])
    (audited,) = audit_rows(rows)
    for picture in (fresh, restored):
        shown = picture.as_json(0)
        told = {name: one["verdict"] for name, one in shown["runs"][0]["properties"].items()}
        assert told == {name: audited.verdicts[name] for name in LIVE}
        assert told["O6"] == "not promised"
        Console(file=StringIO()).print(show_watch(shown, "here:1"))


def test_after_a_restart_the_last_batch_counts_once_whether_it_is_done_again_or_not(tmp_path: Path) -> None:
    tables = LiveTables(tmp_path)
    for batch in range(3):
        tables.write(batch, [Counted("run", "O2", 1), Gauged("run", None, 1, "g", "p", 1, "datagrams sent", 10)])
    for following in (2, 3):
        picture = Picture()
        picture.restore(tmp_path)
        assert picture.violated
        picture.take(following, [Counted("run", "O2", 1)], [])
        (run,) = picture.as_json(0)["runs"]
        assert run["properties"]["O2"]["violations"] == following + 1


def test_a_violation_in_the_last_batch_alone_is_one_before_the_stream_goes_on(tmp_path: Path) -> None:
    LiveTables(tmp_path).write(0, [Counted("run", "O2", 1)])
    picture = Picture()
    picture.restore(tmp_path)
    assert picture.violated
