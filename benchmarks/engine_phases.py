"""The engine's paths, one after another, for a counter of instructions that watches from outside; see engine_hooks.py.

    valgrind --tool=callgrind --dump-before=getppid python benchmarks/engine_phases.py

Every path begins and ends with a call of getppid, where callgrind writes down its count and begins anew: imports, joins
and the first messages, at which the interpreter still adapts its code and the window opens, are in no path's count.
Prints as JSON where unisono is, which rows it writes when asked to, and what each workload came to.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from engine_path import PATIENCE, Bench

import unisono
from unisono.engine import Effect, EventsTaken, Leave, Record, Send, TimePassed
from unisono.settings import Settings
from unisono.units import MILLISECOND


class Workload(NamedTuple):
    service: Any
    size: int
    datagram_bytes: int
    batch: int
    turns: int
    """So many batches make a path."""


WORKLOADS = (
    Workload("source", 1000, 60_000, 50, 8),
    Workload("source", 100, 60_000, 300, 3),
    Workload("source", 1000, 1400, 50, 4),
    Workload("source", 1000, 60_000, 1, 100),
    Workload("timestamp", 1000, 60_000, 50, 8),
)
PATHS = ("send", "receive")
IN_A_ROW = 4
REPORTED = 100 * MILLISECOND
"""After so long `b` has said what it has, and `a` keeps it no more."""


def boundary() -> None:
    os.getppid()


def send(bench: Bench, workload: Workload) -> None:
    """Let `a` send what a path has, and take its own."""
    payloads = (bytes(workload.size),) * workload.batch
    for turn in range(workload.turns):
        bench.now += MILLISECOND
        bench.step("a", Send("g", turn, payloads))
        bench.step("a", EventsTaken("g", workload.batch))


def receive(bench: Bench) -> int:
    """Let `b` take everything that was sent and `a` what `b` reports; how many messages came of it."""
    count = 0
    while bench.waiting:
        delivered, effects = bench.take(bench.waiting.popleft())
        bench.carry_out("b", effects)
        count += delivered
    bench.now += REPORTED
    for name in bench.nodes:
        bench.step(name, TimePassed())
    return count


def warm_up(bench: Bench, workload: Workload) -> None:
    """Go both paths until what a path has leaves at once, several times in a row."""
    total, at_once = workload.batch * workload.turns, 0
    for _ in range(PATIENCE):
        send(bench, workload)
        count = receive(bench)
        at_once = at_once + 1 if count == total else 0
        for _ in range(PATIENCE):  # the window may hold something back until a report has come
            if count == total:
                break
            count += receive(bench)
        assert count == total, f"{count} of {total} delivered"
        if at_once == IN_A_ROW:
            return
    raise AssertionError(f"the window never takes {total} messages at once")


def measure(workload: Workload) -> dict[str, int]:
    settings = Settings(
        service=workload.service, datagram_bytes=workload.datagram_bytes, window_bytes=64 << 20, trace=False
    )
    bench = Bench(settings)
    warm_up(bench, workload)
    boundary()
    send(bench, workload)
    boundary()
    datagrams, size = len(bench.waiting), sum(map(len, bench.waiting))
    delivered = receive(bench)
    boundary()
    assert delivered == workload.batch * workload.turns, f"{delivered} messages in one path"
    return {"messages": delivered, "datagrams": datagrams, "bytes": size}


class Traced(Bench):
    """Two nodes of which a trace is asked for; gathers the kinds of rows that their groups write."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        super().__init__(Settings(trace=True))

    def carry_out(self, name: str, effects: list[Effect]) -> None:
        rows = (effect.row for effect in effects if isinstance(effect, Record))
        self.kinds |= {row.kind for row in rows if row.kind != "START"}  # that one is the node's, and has no switch
        super().carry_out(name, effects)


def kinds_of_rows() -> list[str]:
    """What a group writes of its life, where a trace is asked for: it joins, sends, receives, rests and leaves."""
    bench = Traced()
    send(bench, WORKLOADS[0])
    for _ in range(20):
        receive(bench)
    for name in bench.nodes:
        bench.step(name, Leave("g"))
    return sorted(bench.kinds)


def main() -> None:
    workloads = [measure(workload) for workload in WORKLOADS]
    print(json.dumps({"package": unisono.__file__, "rows": kinds_of_rows(), "workloads": workloads}))


if __name__ == "__main__":
    main()
