"""A running trace is watched live while damage is put into it, and the watching is killed with SIGKILL again and again.

`make live` prints how long after its row each violation was written, and whether the tables, after all kills, say what
the log does: every report once, every damage once. A violation is to be flagged within two seconds of its event, once
Spark has started; this depends on the load of the machine, which is printed too. Without Spark:
`python -m tests.campaigns.live --engine monitor --seconds 20`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from contextlib import closing
from functools import partial
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from tests.pipeline.running_trace import RunningTrace, deliveries_in, deliveries_of, reports_of, wait_until
from unisono.pipeline.live.outputs import Flagged
from unisono.pipeline.live.tables import read_lines
from unisono.runtime.tracing import host_mark
from unisono.spelling import split_endpoint
from unisono.trace import reports
from unisono.trace.log.client import LogClient
from unisono.trace.report_messages import GREETING, Stored, decode_answer
from unisono.units import SECOND
from unisono.wire.frames import CHECKSUM_BYTES, LENGTH_BYTES, frame, read_frames

GOAL_SECONDS = 2.0
DEADLINE_SECONDS = 600.0
PROPERTIES = ("D1", "D2", "M2", "M4", "O2", "O6", "never sent")
REPORT_SECONDS = 0.1
DAMAGE_SECONDS = 0.7


class Collector:
    """`unisono collect`, and for every process that reports a connection to it."""

    def __init__(self, data: Path) -> None:
        command = [sys.executable, "-m", "unisono", "collect", "--data", str(data), "--listen", "127.0.0.1:0", "--json"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.address: str = json.loads(self._process.stdout.readline())["address"]
        self._client = LogClient(self.address)
        self._connections: dict[str, socket.socket] = {}

    @property
    def end(self) -> int:
        return self._client.bounds()[1]

    def read(self, offset: int) -> list[bytes]:
        return self._client.read(offset)

    def take(self, made: list[bytes]) -> None:
        """Send reports, and wait until each is acknowledged."""
        for payload in made:
            report = reports.decode(payload)
            connection = self._connections.get(report.process)
            if connection is None:
                connection = socket.create_connection(split_endpoint(self.address), timeout=60.0)
                connection.sendall(frame(GREETING))
                self._connections[report.process] = connection
            connection.sendall(frame(payload))
            answer = decode_answer(next(read_frames(_one_frame(connection))))
            assert answer == Stored([report.number]), f"{report.id}: {answer}"

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._client.close()
        self._process.terminate()
        self._process.communicate()


def _one_frame(connection: socket.socket) -> bytes:
    data = b""
    size = LENGTH_BYTES
    while len(data) < size:
        part = connection.recv(size - len(data))
        assert part, "the collector closed the connection"
        data += part
        if len(data) == LENGTH_BYTES:
            size = LENGTH_BYTES + int.from_bytes(data, "little") + CHECKSUM_BYTES
    return data


class Watching:
    """`unisono watch` as a process group of its own, so that a kill takes Java and all workers along."""

    def __init__(self, address: str, data: Path, engine: str) -> None:
        command = [sys.executable, "-m", "unisono", "watch", address, "--data", str(data), "--engine", engine, "--json"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        self._process.send_signal(signal.SIGINT)
        return self._process.wait()


class Feeding:
    """Reports every so often for a while, and damages in turn."""

    def __init__(self, collector: Collector, trace: RunningTrace, rate: int) -> None:
        self._collector, self._trace, self._rate = collector, trace, rate
        self._turn = cycle(PROPERTIES)
        self._damaged = monotonic()

    def once(self, damage: bool = True) -> bool:
        """One round of reports; true, so that it can be put into conditions."""
        began = monotonic()
        self._trace.send(max(1, round(self._rate * REPORT_SECONDS)))
        if damage and began - self._damaged >= DAMAGE_SECONDS:
            self._trace.damage(next(self._turn))
            self._trace.send(1)
            self._damaged = began
        self._collector.take(self._trace.reports())
        sleep(max(0.0, REPORT_SECONDS - (monotonic() - began)))
        return True

    def until(self, seconds: float) -> None:
        end = monotonic() + seconds
        while monotonic() < end:
            self.once()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long damage is put in before the kills")
    parser.add_argument("--rate", type=int, default=500, help="messages a second, each delivered by all")
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--engine", choices=("spark", "monitor"), default="spark")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores before the start", flush=True)
    with (
        TemporaryDirectory(prefix="unisono-live-") as directory,
        closing(Collector(Path(directory) / "collected")) as collector,
    ):
        trace = RunningTrace("watched", options.members, host=host_mark())
        complaints = run(collector, trace, Path(directory) / "data", options)
    print("\n".join(complaints) if complaints else "as demanded")
    return 1 if complaints else 0


def run(collector: Collector, trace: RunningTrace, data: Path, options: argparse.Namespace) -> list[str]:
    """What was not as demanded."""
    tables = data / "tables"
    feeding = Feeding(collector, trace, options.rate)
    near = partial(_is_near, feeding, collector, tables)
    watching = Watching(collector.address, data, options.engine)
    try:
        wait_until(near, "the stream to start", DEADLINE_SECONDS)
        feeding.until(options.seconds)
        wait_until(near, "the stream to catch up", DEADLINE_SECONDS)
        complaints = _judge_delays(tables, options.rate * options.members)
        for _ in range(options.kills):
            feeding.until(2.0)
            watching.kill()
            before = reports_of(tables)
            feeding.until(1.0)
            watching = Watching(collector.address, data, options.engine)
            wait_until(partial(_goes_on, feeding, tables, before), "the stream to go on", DEADLINE_SECONDS)
        trace.end()
        collector.take(trace.reports())
        wait_until(lambda: reports_of(tables) >= collector.end, "all reports", DEADLINE_SECONDS)
        code = watching.stop()
    except BaseException:
        watching.kill()
        raise
    return [*complaints, *_judge_tables(collector, trace, tables, options.kills, code)]


def _goes_on(feeding: Feeding, tables: Path, before: int) -> bool:
    return feeding.once() and reports_of(tables) > before


def _is_near(feeding: Feeding, collector: Collector, tables: Path) -> bool:
    feeding.once(damage=False)
    counted = reports_of(tables)
    return counted > 0 and collector.end - counted < 50


def _flagged(tables: Path) -> list[Flagged]:
    return [line for line in read_lines(tables, "violations") if isinstance(line, Flagged)]


def _judge_delays(tables: Path, deliveries: int) -> list[str]:
    delays = sorted(line.delay / SECOND for line in _flagged(tables) if line.delay is not None)
    if not delays:
        return ["nothing was flagged"]
    print(
        f"{len(delays)} violations at {deliveries} deliveries a second, flagged after"
        f" p50 {_percentile(delays, 50):.2f} s, p90 {_percentile(delays, 90):.2f} s,"
        f" p99 {_percentile(delays, 99):.2f} s, at most {delays[-1]:.2f} s;"
        f" load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
        flush=True,
    )
    late = sum(delay > GOAL_SECONDS for delay in delays)
    return [f"{late} of {len(delays)} were flagged later than {GOAL_SECONDS} s after their event"] if late else []


def _judge_tables(collector: Collector, trace: RunningTrace, tables: Path, kills: int, code: int) -> list[str]:
    flagged = _flagged(tables)
    print(
        f"{kills} kills, {collector.end} reports acknowledged, {reports_of(tables)} in the tables;"
        f" {len(trace.damaged)} damages, {len(flagged)} lines of violations",
        flush=True,
    )
    complaints = []
    if reports_of(tables) != collector.end:
        complaints.append(f"{reports_of(tables)} reports in the tables, {collector.end} in the log")
    if deliveries_of(tables) != deliveries_in(collector.read):
        complaints.append("the deliveries in the tables are not those in the log")
    places = Counter((line.property, line.process, line.position, line.message) for line in flagged)
    twice = [place for place, count in places.items() if count > 1]
    if twice:
        complaints.append(f"flagged twice: {twice[:5]}")
    if any(line.verdict != "violated" for line in flagged):
        complaints.append("something was called unknown, though everybody reported")
    found = Counter(line.property for line in flagged)
    put_in = Counter("D1" if damage == "never sent" else damage for damage in trace.damaged)
    missing = {name: count - found[name] for name, count in put_in.items() if found[name] < count}
    if missing:
        complaints.append(f"not flagged: {missing}")
    if code != 1:
        complaints.append(f"watch ended with {code}, though there were violations")
    return complaints


def _percentile(ordered: list[float], percent: int) -> float:
    return ordered[(len(ordered) * percent + 99) // 100 - 1]


if __name__ == "__main__":
    sys.exit(main())
