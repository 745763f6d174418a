"""How long the audit of a large trace takes, and how much memory: 16 receivers, views, crashes, every property.

Makes a trace of each size, audits it with `unisono audit` as a process of its own, and prints wall and CPU seconds, the
peak memory of that process with all that it starts (resident, Java and Python together), and the seconds by property.
Then how much longer the largest takes than the smallest, beyond what an audit of next to nothing takes: the median of
three, since the larger part of ten million is start-up too. Two properties are judged at a time, so that their seconds
add up to more than the whole.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

from unisono.pipeline.large import LargeTrace, write_large_run

MILLION = 1_000_000
SIZES = (10 * MILLION, 50 * MILLION)
START_UP = 30_000
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


def children() -> dict[int, list[tuple[int, float, int]]]:
    """Of every process its children: number, CPU seconds, resident bytes."""
    found: dict[int, list[tuple[int, float, int]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue  # it is over
            fields = text[text.rindex(")") + 2 :].split()
            seconds = (int(fields[11]) + int(fields[12])) / TICKS
            found.setdefault(int(fields[1]), []).append((int(entry.name), seconds, int(fields[21]) * PAGE))
    return found


def below(process: int) -> list[tuple[int, float, int]]:
    """A process's descendants."""
    known, found, waiting = children(), [], [process]
    while waiting:
        for one in known.get(waiting.pop(), []):
            found.append(one)
            waiting.append(one[0])
    return found


def audited(directory: Path) -> tuple[dict[str, object], float, float, int]:
    """What the command says of a run; wall seconds, CPU seconds, and the most memory that all its processes had."""
    began, peak = perf_counter(), 0
    seconds: dict[int, float] = {}
    with tempfile.TemporaryFile("w+") as out:
        command = [sys.executable, "-m", "unisono", "audit", str(directory), "--json"]
        process = subprocess.Popen(command, stdout=out)
        while process.poll() is None:
            mine = below(os.getpid())
            peak = max(peak, sum(memory for _, _, memory in mine))
            seconds |= {number: max(spent, seconds.get(number, 0.0)) for number, spent, _ in mine}
            sleep(0.1)
        wall = perf_counter() - began
        out.seek(0)
        report = json.load(out)
    return report, wall, sum(seconds.values()), peak


def measure(folder: Path, deliveries: int) -> float:
    """One size: what it took, beside the seconds by property."""
    directory = folder / f"{deliveries}"
    began = perf_counter()
    count = write_large_run(directory, LargeTrace(deliveries))
    made = perf_counter() - began
    report, wall, spent, peak = audited(directory)
    shutil.rmtree(directory)
    print(
        f"\n{count:,} deliveries, made in {made:.0f} s: {report['verdict']} in {wall:.1f} s,"
        f" {spent:.0f} s of CPU, {peak / 2**30:.2f} GiB at most"
    )
    properties = report["properties"]
    assert isinstance(properties, list)
    slowest = sorted(properties, key=lambda one: -float(one["seconds"]))
    print("  " + "  ".join(f"{one['id']} {one['seconds']:.1f}" for one in slowest))
    if report["verdict"] != "held":
        raise SystemExit(f"a valid trace of {count:,} deliveries does not hold")
    return wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="deliveries")
    parser.add_argument("--folder", type=Path, help="where traces are made; a temporary folder unless given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="unisono-", dir=arguments.folder) as folder:
        start_up = median(measure(Path(folder), START_UP) for _ in range(3))
        walls = {size: measure(Path(folder), size) for size in sorted(arguments.sizes)}
    least, most = min(walls), max(walls)
    if least != most:
        growth = (walls[most] - start_up) / (walls[least] - start_up)
        print(f"\nbeyond start-up {most:,} take {growth:.2f} times as long as {least:,}")


if __name__ == "__main__":
    main()
