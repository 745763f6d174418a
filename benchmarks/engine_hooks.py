"""What the hooks for statistics cost the engine alone while they are off: with and without them, in turns.

    make bench-hooks

*Off* is this commit with statistics off. *No hooks* is the same commit without any statement that asks for a trace,
writes a row or keeps what only rows tell (see bare_members.py); before they are compared, both are asked for a trace,
which must have no row without hooks, and both must send the same datagrams. Two nodes in one process send and receive,
without sockets and event loop: a real member does more for a message, and so hooks are a smaller part of what it does.

Counts the instructions of a message by callgrind, whatever else the machine does; every round has another seed for
hashes. Prints for every path the part of its speed that the engine keeps: the mean over the rounds, and the interval in
which 95 of 100 such means lie when the rounds are drawn anew. With --time it is the processor time of one workload
instead, which needs no valgrind, and is less exact than what is asked.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import bare_members
from engine_phases import PATHS, WORKLOADS
from tracing_cost import interval

import unisono

HERE = Path(__file__).parent
WAYS = ("off", "no hooks")
EXPECTED = {"JOIN", "SEND", "GAUGE", "GC", "LEAVE"}
"""Rows that a group writes when it is asked for a trace, unless it has no hooks."""
TIMED = """
from engine_path import measure
print(sum(measure(1000, 60_000, 50, 400, trace=False)))
"""
NO_VALGRIND = """valgrind is not installed: instructions cannot be counted.
Install it (Debian, Ubuntu: apt install valgrind), or say --time to measure processor time, which is less exact.
"""


def write_package(folder: Path, hooks: bool) -> None:
    """Copy unisono into a folder, with its hooks or without."""
    package = Path(unisono.__file__).parent
    shutil.copytree(package, folder / "unisono", ignore=shutil.ignore_patterns("__pycache__"))
    for part in () if hooks else bare_members.HOOKED:
        for path in (folder / "unisono" / part).rglob("*.py"):
            path.write_text(ast.unparse(bare_members.Remover().visit(ast.parse(path.read_bytes()))))


def run(folder: Path, seed: int, *command: str) -> str:
    """Run Python with the unisono of a folder; what it prints."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{HERE}", "PYTHONHASHSEED": str(seed)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def prepare(folder: Path) -> dict[str, Path]:
    """Write unisono in both ways, and see that they are what they are called and do the same."""
    packages = {way: folder / way.replace(" ", "-") for way in WAYS}
    answers: dict[str, Any] = {}
    for way, package in packages.items():
        write_package(package, hooks=way == "off")
        answers[way] = json.loads(run(package, 0, sys.executable, str(HERE / "engine_phases.py")))
        assert Path(answers[way].pop("package")).parent == package / "unisono", "another unisono was measured"
        rows = set(answers[way].pop("rows"))
        as_expected = not rows if way == "no hooks" else rows >= EXPECTED
        assert as_expected, f"{way}: these rows are written: {rows}; do hooks have other names now?"
    assert answers["off"] == answers["no hooks"], f"they do not do the same: {answers}"
    return packages


def instructions(package: Path, seed: int) -> list[float]:
    """Instructions of a message, for every path of every workload."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "count"
        tool = ("valgrind", "--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={out}")
        run(package, seed, *tool, sys.executable, str(HERE / "engine_phases.py"))
        dumps = len(list(Path(folder).glob("count.*")))
        assert dumps == (len(PATHS) + 1) * len(WORKLOADS), f"callgrind wrote {dumps} counts"
        counts = []
        for number in range(1, dumps + 1):
            found = re.search(r"^totals: (\d+)$", out.with_suffix(f".{number}").read_text(), re.MULTILINE)
            assert found is not None, "callgrind writes its sum in another form"
            counts.append(int(found[1]))
    costs = []
    for place, workload in enumerate(WORKLOADS):
        begin = place * (len(PATHS) + 1) + 1  # what was before the path of a workload is not of it
        costs += [count / (workload.batch * workload.turns) for count in counts[begin : begin + len(PATHS)]]
    return costs


def timed(package: Path, seed: int) -> list[float]:
    """Microseconds of processor time for a message, sent and received."""
    return [float(run(package, seed, sys.executable, "-c", TIMED))]


def show_paths(rounds: list[dict[str, list[float]]]) -> None:
    print("service    size  datagram  batch  path     no hooks       off  off keeps, of the speed without hooks")
    paths = [(workload, path) for workload in WORKLOADS for path in PATHS]
    for place, (workload, path) in enumerate(paths):
        bare, off = (sum(one[way][place] for one in rounds) / len(rounds) for way in ("no hooks", "off"))
        mean, low, high = interval([one["no hooks"][place] / one["off"][place] for one in rounds])
        work = f"{workload.service:9}  {workload.size:4}  {workload.datagram_bytes:8}  {workload.batch:5}  {path:7}"
        print(f"{work}  {bare:8.0f}  {off:8.0f}  {mean:.4f} ({low:.4f} to {high:.4f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--time", action="store_true", help="measure processor time, which needs no valgrind")
    chosen = parser.parse_args()
    if not chosen.time and shutil.which("valgrind") is None:
        parser.exit(2, NO_VALGRIND)
    cost = timed if chosen.time else instructions
    rounds: list[dict[str, list[float]]] = []
    with tempfile.TemporaryDirectory() as folder:
        packages = prepare(Path(folder))
        print(f"{bare_members.removed} statements are hooks", file=sys.stderr)
        for turn in range(chosen.rounds):
            order = reversed(WAYS) if turn % 2 else WAYS
            rounds.append({way: cost(packages[way], turn + 1) for way in order})
            print(f"round {turn + 1} of {chosen.rounds}", file=sys.stderr)
    if not chosen.time:
        show_paths(rounds)
    kept = [
        math.prod(bare / off for bare, off in zip(one["no hooks"], one["off"], strict=True)) ** (1 / len(one["off"]))
        for one in rounds
    ]
    mean, low, high = interval(kept)
    measure = "processor time" if chosen.time else "instructions, all paths alike"
    print(
        f"off keeps {mean:.4f} ({low:.4f} to {high:.4f}) of the speed without hooks, {len(rounds)} rounds; by {measure}"
    )


if __name__ == "__main__":
    main()
