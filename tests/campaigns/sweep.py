"""A sweep of 2,000 seeds keeps the cores busy, and a cluster of two workers gives the same verdicts as this machine.

`make sweep` runs it: first on all cores of this machine, then the same seeds on a standalone cluster whose workers have
neither this checkout nor what it needs. It prints how much of the processors the sweep took, and compares seed by seed.
On a machine with other work the share of what was free is what tells: the processor time of the sweep, against that
and what stayed idle. A smaller one: `python -m tests.campaigns.sweep --seeds 200`.
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
from time import monotonic

from tests.pipeline.standalone import Standalone
from unisono.sweeps.result import SeedRow
from unisono.sweeps.store import RESULTS, read_piece

GOAL = 0.85
SAMPLE_SECONDS = 0.5
TICKS = os.sysconf("SC_CLK_TCK")
SCENARIO = ["quiet-lan", "--set", "duration=2s", "--set", "settle=2s", "--set", "loss=0.05"]


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

    def share(self, since: float = 0.0) -> tuple[float, float, float]:
        """From a moment on: of all cores, and of what others left free; and the seconds that is about."""
        (began, taken, idle), (ended, taken_then, idle_then) = (
            next(one for one in self.samples if one[0] >= since),
            self.samples[-1],
        )
        mine, free = taken_then - taken, idle_then - idle
        seconds = ended - began
        return mine / TICKS / seconds / (os.cpu_count() or 1), mine / max(1, mine + free), seconds

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
        self.samples.append((monotonic(), sum(self._taken.values()), idle))


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


def sweep(out: Path, seeds: int, master: str | None = None, python: Path | None = None) -> Usage:
    """Run the command; its usage is measured from the first results on."""
    command = [sys.executable, "-m", "unisono", "sweep", *SCENARIO, "--seeds", f"0:{seeds}", "--out", str(out)]
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
    parser.add_argument("--local", action="store_true", help="leave the cluster out")
    options = parser.parse_args()
    complaints = []
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    with TemporaryDirectory(prefix="unisono-sweep-") as folder:
        began = monotonic()
        usage = sweep(Path(folder) / "here", options.seeds)
        here = results(Path(folder) / "here")
        first = min(path.stat().st_mtime for path in (Path(folder) / "here" / RESULTS).iterdir())
        work = first - (Path(folder) / "here" / "sweep.json").stat().st_mtime
        for name, since in (("the whole command", 0.0), ("from the first results on", began + work)):
            of_all, of_free, seconds = usage.share(since)
            print(f"{name}: {of_all:.1%} of all cores, {of_free:.1%} of what others left free, {seconds:.0f} s")
        busy = sum(row.seconds for row in here.values())
        print(f"{len(here)} seeds, {busy / len(here) * 1000:.0f} ms each by the clock, load {os.getloadavg()[0]:.1f}")
        if of_free < GOAL:
            complaints.append(f"the cores were busy for {of_free:.1%} and not {GOAL:.0%} of the time")
        if not options.local:
            with Standalone(Path(folder) / "spark", memory="2g") as spark:
                sweep(Path(folder) / "there", options.seeds, spark.master, spark.python)
            there = results(Path(folder) / "there")
            different = [seed for seed in here if verdict(here[seed]) != verdict(there[seed])]
            print(f"on the cluster: {len(there)} seeds, {len(different)} with another verdict")
            if different or len(there) != len(here):
                complaints.append(f"on the cluster these seeds come out otherwise: {different[:20]}")
    print("\n".join(complaints) if complaints else "as demanded")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
