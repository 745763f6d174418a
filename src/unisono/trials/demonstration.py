"""Five real processes on the loopback of this machine: one joins late, one is killed, the rest part and meet again.

What happens is a scenario, so that the simulator can run the same; the members are processes of their own, in a realm
of their own, and speak over multicast that does not leave the machine. While they are parted, those of each side throw
away what comes from the other.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import msgspec
from msgspec import Struct

from unisono.runtime.interfaces import LOOPBACK
from unisono.runtime.tracing import host_mark
from unisono.simulation.scenario import DEFAULT_GROUP, Fault, MemberPlan, Scenario, Workload
from unisono.simulation.scenario_text import write_scenario
from unisono.trace.recorder import Recorder
from unisono.trace.run_directory import write_run
from unisono.trace.schema import AnyRow, FaultRow
from unisono.trials.charge import Charge, Load
from unisono.trials.gathering import Kill, gather
from unisono.trials.process import MemberProcess
from unisono.units import SECOND

LEAD = SECOND
"""From the moment when all processes run to the first message: by then those who are there have met."""

_WORKLOAD = Workload(group=DEFAULT_GROUP, rate=50.0, size=(20, 2000))
_LATE, _LATE_AT = 4, 3 * SECOND // 2
_KILLED, _KILLED_AT = 3, 3 * SECOND
_SIDES, _PARTED_AT, _PARTED_FOR = ((0, 1, 3), (2, 4)), 5 * SECOND, 5 * SECOND // 2

SCENARIO = Scenario(
    name="demo",
    says="Five processes send; the fifth joins late, the fourth is killed, the others part and meet again.",
    seed=0,
    members=5,
    duration=10 * SECOND,
    settle=8 * SECOND,
    options={"service": "timestamp", "patience": 2 * SECOND, "source_timeout": 2 * SECOND},
    workloads=(_WORKLOAD,),
    member_plans=(MemberPlan(index=_LATE, joins=_LATE_AT),),
    faults=(
        Fault(kind="crash", at=_KILLED_AT, members=(_KILLED,)),
        Fault(kind="partition", at=_PARTED_AT, lasts=_PARTED_FOR, groups=_SIDES),
    ),
)

Progress = Callable[[float, str], None]
"""Told which part of the time is over, and what happens."""


class Facts(Struct, frozen=True):
    """What the processes did."""

    events: int
    sent: int
    delivered: int


class _Demonstration:
    """The processes and the clock of one run."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        assert isinstance(SCENARIO.members, int), "the scenario leaves nothing to draw"
        self._folder = folder
        self._progress = progress
        self._began = 0
        self._realm = f"demo-{os.getpid()}-{time.monotonic_ns()}"
        self._recorder = Recorder(SCENARIO.name, "", host_mark())
        self._truths: list[AnyRow] = []
        self._kills: list[Kill] = []
        self.members = [self._member(index) for index in range(SCENARIO.members)]

    def _member(self, index: int) -> MemberProcess:
        name = f"p{index}"
        charge = Charge(
            name=name,
            life=0,
            seed=0,
            realm=self._realm,
            interface=LOOPBACK,
            port=0,
            seeds=[],
            trace=str(self._folder / "spool"),
            storage=str(self._folder / "disk" / name),
            groups=[] if index == _LATE else [_WORKLOAD.group],
            settings=SCENARIO.options,
            loads=[],
            transport="multicast",
        )
        return MemberProcess(index, charge, [], self._folder / f"{name}.log")

    async def run(self) -> list[AnyRow]:
        """All of it in real time, and then the trace."""
        late, killed = self.members[_LATE], self.members[_KILLED]
        self._progress(0.0, "starting processes")
        await asyncio.gather(*(member.start() for member in self.members))
        self._began = time.monotonic_ns() + LEAD
        for member in self.members:
            if member is not late:
                self._load(member, 0)
        await self._wait_until(0, "the processes meet")
        self._note("load", "begin")
        await self._wait_until(_LATE_AT, f"{len(self.members) - 1} processes send to one another")
        late.command("join", _WORKLOAD.group)
        self._load(late, _LATE_AT + SECOND)
        await self._wait_until(_KILLED_AT, f"{late.name} has joined; {len(self.members)} processes send")
        killed.kill()
        self._kills.append((killed.name, time.monotonic_ns()))
        self._note("crash", "begin")
        await self._wait_until(_PARTED_AT, f"{killed.name} was killed; the others go on")
        small = [self.members[index].name for index in _SIDES[1]]
        self._note("partition", "begin", small)
        self._part(_SIDES)
        await self._wait_until(_PARTED_AT + _PARTED_FOR, f"{' and '.join(small)} are cut off; both sides go on")
        self._part(())
        self._note("partition", "end", small)
        self._note("heal", "begin")
        await self._wait_until(SCENARIO.duration, "the two sides meet again")
        self._note("load", "end")
        await self._wait_until(SCENARIO.duration + SCENARIO.settle, "the last messages arrive")
        await asyncio.gather(*(member.end() for member in self.members))
        names = [member.name for member in self.members]
        return gather(self._folder / "spool", SCENARIO.name, names, self._kills, self._truths)

    def _load(self, member: MemberProcess, start: int) -> None:
        rate = None if _WORKLOAD.rate == "max" else _WORKLOAD.rate
        stop = self._began + SCENARIO.duration
        member.load([Load(_WORKLOAD.group, rate, _WORKLOAD.size, self._began + start, stop)])

    def _part(self, sides: tuple[tuple[int, ...], ...]) -> None:
        """Let nobody hear those who are on another side; without sides everybody hears everybody."""
        for member in self.members:
            behind = [self.members[index].address for side in sides if member.index not in side for index in side]
            member.command("sever", data=msgspec.json.encode(behind))

    async def kill_all(self) -> None:
        living = [member for member in self.members if member.alive]
        for member in living:
            member.kill()
        await asyncio.gather(*(member.gone() for member in living))

    async def _wait_until(self, at: int, phase: str) -> None:
        whole = LEAD + SCENARIO.duration + SCENARIO.settle
        while (left := self._began + at - time.monotonic_ns()) > 0:
            self._progress((LEAD + at - left) / whole, phase)
            await asyncio.sleep(min(left / SECOND, 0.25))

    def _note(self, fault: str, edge: Literal["begin", "end"], members: Sequence[str] = ()) -> None:
        row = FaultRow(kind="FAULT", fault=fault, edge=edge, members=list(members))
        self._truths.append(self._recorder.stamp(row, time.monotonic_ns(), None))


def demonstrate(out: Path, progress: Progress = lambda part, phase: None) -> Facts:
    """Run the processes and write their trace to a run directory; an interrupt ends them."""
    with TemporaryDirectory(prefix="unisono-demo-") as folder:
        rows = asyncio.run(_run(Path(folder), progress))
    counters = Counter(row.kind for row in rows)
    summary = {"scenario": SCENARIO.name, "seed": 0, "events": len(rows), "counters": dict(sorted(counters.items()))}
    write_run(out, rows, scenario_text=write_scenario(SCENARIO), summary=summary)
    return Facts(len(rows), counters["SEND"], counters["DELIVER"])


async def _run(folder: Path, progress: Progress) -> list[AnyRow]:
    demonstration = _Demonstration(folder, progress)
    try:
        return await demonstration.run()
    finally:
        await demonstration.kill_all()
