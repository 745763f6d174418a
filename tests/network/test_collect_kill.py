"""kill -9 of the collector, again and again, while processes report: nothing that it acknowledged is lost or twice."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.network.processes import PATIENCE_SECONDS, Talker, until
from tests.network.test_collector import free_port
from unisono.trace.log.retained import LogReader
from unisono.trace.reports import Report, decode
from unisono.trace.run_directory import read_run

NAMES = ("ada", "bob", "cat")
KILLS = 3
MORE = 25
"""So many reports come between two kills."""


def collector(data: Path, port: int) -> Talker:
    talker = Talker(
        "collector",
        [
            "-m",
            "unisono",
            "collect",
            "--data",
            str(data),
            "--listen",
            f"127.0.0.1:{port}",
            "--json",
            "--settle",
            "50ms",
        ],
    )
    talker.wait(lambda lines: any('"listening"' in line for line in lines), "that it listens")
    return talker


def logged(data: Path) -> list[Report]:
    with LogReader(data / "log") as log:
        found: list[bytes] = []
        while payloads := log.read(len(found)):
            found += payloads
    return [decode(payload) for payload in found]


def end_of(data: Path) -> int:
    with LogReader(data / "log") as log:
        return log.end


@pytest.mark.slow
def test_a_collector_that_is_killed_loses_and_repeats_nothing(tmp_path: Path) -> None:
    data, port = tmp_path / "data", free_port()
    talkers = [collector(data, port)]
    reporters = []
    try:
        for name in NAMES:
            command = ["-m", "tests.network.reporting", f"127.0.0.1:{port}", "r", name, str(tmp_path / name)]
            reporters.append(Talker(name, command))
        for _ in range(KILLS):
            wanted = end_of(data) + MORE
            until(lambda wanted=wanted: end_of(data) >= wanted, "more reports")  # type: ignore[misc]  # a default binds it
            talkers[-1].kill()
            talkers[-1].process.wait(PATIENCE_SECONDS)
            talkers.append(collector(data, port))
        for one in reporters:
            one.tell("end")
        for one in reporters:
            one.wait(lambda lines: any(line.startswith("rows ") for line in lines), "how much it reported")
            assert one.process.wait(PATIENCE_SECONDS) == 0
        talkers[-1].wait(lambda lines: any('"run complete"' in line for line in lines), "that the run is complete")
        talkers[-1].process.send_signal(signal.SIGTERM)
        assert talkers[-1].process.wait(PATIENCE_SECONDS) == 0
        until(lambda: any('"stopped"' in line for line in talkers[-1].lines), "that it stopped")
    finally:
        for talker in (*reporters, *talkers):
            talker.close()

    reports = logged(data)
    ids = Counter(report.id for report in reports)
    assert set(ids.values()) == {1}
    rows = read_run(data / "runs" / "r")
    for one in reporters:
        numbers = sorted(report.number for report in reports if report.process == one.name)
        assert numbers == list(range(len(numbers)))
        acknowledged = {int(line) for line in (tmp_path / one.name).read_text().split()}
        assert acknowledged == set(numbers)
        told = next(line for line in one.lines if line.startswith("rows ")).split()
        assert told[2:] == ["unacknowledged", "0"]
        assert [row.position for row in rows if row.process == one.name] == list(range(int(told[1])))
    stopped = json.loads(next(line for line in talkers[-1].lines if '"stopped"' in line))
    assert (stopped["lake"], stopped["open"]) == (len(reports), [])
