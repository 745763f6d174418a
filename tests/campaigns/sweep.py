"""A sweep of 2,000 seeds keeps the cores busy, and a cluster of two workers gives the same verdicts as this machine.

`make sweep` runs it: first on all cores of this machine, then the same seeds on a standalone cluster whose workers have
neither this checkout nor what it needs. It prints how much of the processors the sweep took, and compares seed by seed.
A machine with other work cannot show the goal: then the sweep's share of the processors is small whatever it does, and
that is said instead of a verdict. What other work does not hide is how much of the time workers had a seed to run.
A smaller one: `python -m tests.campaigns.sweep --seeds 200`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time

from tests.pipeline.standalone import Standalone
from unisono.sweeps.result import SeedRow
from unisono.sweeps.store import RESULTS, read_piece

GOAL = 0.85
OTHERS = 0.05
"""With more than this the machine is not quiet enough to tell."""
SAMPLE_SECONDS = 0.5
TICKS = os.sysconf("SC_CLK_TCK")


class Usage:
    """Processor time while this is open: of a process and all that it starts, and what the machine left idle."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._taken: dict[tuple[int, int], int] = {}
        self.samples: list[tuple[float, int, int]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def shares(self, began: float, ended: float) -> tuple[float, float, float]:
        """Between two moments, of all cores: what the sweep took, what others took, and what stayed idle."""
        inside = [one for one in self.samples if began <= one[0] <= ended]
        (first, taken, idle), (last, taken_then, idle_then) = inside[0], inside[-1]
        all_ticks = (last - first) * TICKS * (os.cpu_count() or 1)
        mine, free = (taken_then - taken) / all_ticks, (idle_then - idle) / all_ticks
        return mine, max(0.0, 1 - mine - free), free

    def _run(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        children: dict[int, list[int]] = {}
        found: dict[int, tuple[int, int]] = {}
        for process, parent, began, ticks in _processes():
            children.setdefault(parent, []).append(process)
            found[process] = (began, ticks)
        waiting = [self._process]
        while waiting:
            process = waiting.pop()
            waiting += children.get(process, ())
            if process in found:
                began, ticks = found[process]
                self._taken[process, began] = ticks
        idle = sum(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[4:6]))
        self.samples.append((time(), sum(self._taken.values()), idle))


def _processes() -> Iterator[tuple[int, int, int, int]]:
    """Process, parent, when it began, and its own processor time."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        yield int(entry.name), int(fields[1]), int(fields[19]), int(fields[11]) + int(fields[12])


def sweep(out: Path, seeds: int, duration: str, master: str | None = None, python: Path | None = None) -> Usage:
    """Run the command, and watch what it uses."""
    command = [sys.executable, "-m", "unisono", "sweep", "quiet-lan", "--seeds", f"0:{seeds}", "--out", str(out)]
    for change in (f"duration={duration}", f"settle={duration}", "loss=0.05"):
        command += ["--set", change]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if master is not None:
        command += ["--master", master]
        environment["PYSPARK_PYTHON"] = str(python)
        environment.pop("SPARK_LOCAL_IP", None)
    process = subprocess.Popen(command, env=environment)
    usage = Usage(process.pid)
    code = process.wait()
    usage.end()
    if code not in (0, 1):
        raise SystemExit(f"the sweep ended with {code}")
    return usage


def judge_usage(usage: Usage, rows: list[SeedRow]) -> list[str]:
    """What is wrong with how busy the cores were while seeds ran, the last and slowest included."""
    began, ended = min(row.began for row in rows), max(row.began + row.seconds for row in rows)
    cores = os.cpu_count() or 1
    occupied = sum(row.seconds for row in rows) / (ended - began) / cores
    mine, others, idle = usage.shares(began, ended)
    print(f"{len(rows)} seeds in {ended - began:.0f} s, {1000 * sum(r.seconds for r in rows) / len(rows):.0f} ms each")
    print(f"of {cores} cores the sweep took {mine:.1%}, others {others:.1%}, {idle:.1%} stayed idle")
    print(f"workers had a seed to run for {occupied:.1%} of the time; load {os.getloadavg()[0]:.1f}")
    if mine >= GOAL:
        return []
    if others > OTHERS:
        return [f"not shown: others took {others:.1%} of the cores, so that the sweep could not have {GOAL:.0%}"]
    return [f"the sweep took {mine:.1%} of the cores and not {GOAL:.0%}"]


def results(out: Path) -> dict[int, SeedRow]:
    rows = [row for path in (out / RESULTS).iterdir() for row in read_piece(path)]
    by_seed = {row.seed: row for row in rows}
    assert len(by_seed) == len(rows), "no seed has run twice"
    return by_seed


def verdict(row: SeedRow) -> tuple[object, ...]:
    return row.verdict, row.violations, row.counters, row.marks, row.latency_p99_ms


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many")
    parser.add_argument("--duration", default="2s", help="how long a seed simulates, before it settles as long")
    parser.add_argument("--local", action="store_true", help="leave the cluster out")
    options = parser.parse_args()
    complaints: list[str] = []
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    with TemporaryDirectory(prefix="unisono-sweep-") as folder:
        usage = sweep(Path(folder) / "here", options.seeds, options.duration)
        here = results(Path(folder) / "here")
        complaints += judge_usage(usage, list(here.values()))
        if not options.local:
            with Standalone(Path(folder) / "spark", memory="2g") as spark:
                sweep(Path(folder) / "there", options.seeds, options.duration, spark.master, spark.python)
            there = results(Path(folder) / "there")
            different = [seed for seed in here if verdict(here[seed]) != verdict(there[seed])]
            print(f"on the cluster: {len(there)} seeds, {len(different)} with another verdict")
            if different or len(there) != len(here):
                complaints.append(f"on the cluster these seeds come out otherwise: {different[:20]}")
    print("\n".join(complaints) if complaints else "as demanded")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
