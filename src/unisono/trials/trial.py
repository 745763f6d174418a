"""A trial: a scenario with all its draws made, run by the clock on real processes.

The faults are those of the simulator, carried out by the same code; what cannot be made on one machine is refused
beforehand. Afterwards the spools of all lives become one trace, which the same monitors judge. The processes are in
namespaces with a hub between them, or on the loopback of this machine: see unisono.trials.loopback.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, cast

from unisono.errors import ScenarioError
from unisono.properties.registry import MonitorSuite
from unisono.runtime.tracing import host_mark
from unisono.settings import Role, Service
from unisono.simulation.campaign import usable_cores
from unisono.simulation.cast import cast_of
from unisono.simulation.machine import Machine
from unisono.simulation.network import Network
from unisono.simulation.outcome import Outcome, verdicts
from unisono.simulation.scenario import MemberPlan, Scenario
from unisono.simulation.scenario_text import write_scenario
from unisono.simulation.troubles import Troubles
from unisono.trace.recorder import Recorder
from unisono.trace.run_directory import write_run
from unisono.trace.schema import AnyRow, FaultRow, GaugeRow
from unisono.trials.charge import Charge, Load
from unisono.trials.gathering import Kill, gather
from unisono.trials.hosts import MOST_HOSTS, Hosts
from unisono.trials.hub import Hub
from unisono.trials.process import READY_SECONDS, MemberProcess
from unisono.trials.wiring import charges
from unisono.units import SECOND

NOT_REAL = ("slow", "clock_step", "clock_drift", "timer_drift", "disk", "replay")
"""Faults that only the simulator makes."""
LEAD = SECOND
"""From the moment when all members have joined until the clock of the scenario starts."""
STARTS = 2
"""So many processes start at a time on each core: a start is not to take longer because there are many."""

Progress = Callable[[float, str], None]


def refuse_what_cannot_be_made(scenario: Scenario) -> None:
    """Raise for the first thing in a scenario that one machine cannot do."""
    for index, fault in enumerate(scenario.faults):
        if fault.kind in NOT_REAL:
            raise ScenarioError(
                f"fault[{index}].kind", f"{fault.kind!r} cannot be made with real processes; simulate it"
            )
        if fault.when is not None:
            raise ScenarioError(f"fault[{index}].when", "rows of real processes come too late for this; give a time")


class Trial:
    """One run on real processes; also the stage on which the faults of the simulator act.

    Without hosts they are on the loopback, and nothing is done to their packets.
    """

    def __init__(self, scenario: Scenario, hosts: Hosts | None, folder: Path, realm: str | None = None) -> None:
        assert isinstance(scenario.members, int), "a trial runs a drawn scenario"
        assert scenario.seed is not None, "a trial runs a drawn scenario"
        self._scenario = scenario
        self._folder = folder
        self.cast = cast_of(scenario)
        self._began = time.monotonic_ns() + self.cast.size * int(READY_SECONDS * SECOND)  # not known yet, but not later
        self._loop = asyncio.get_running_loop()
        self._recorder = Recorder(f"{scenario.name}-{scenario.seed}", "", host_mark())
        self._restarting: set[asyncio.Task[None]] = set()
        self._kills: list[Kill] = []
        self._down: set[int] = set()
        """Machines whose process was killed, and is not to be started again so far."""
        self.rows: list[AnyRow] = []
        self.seed = scenario.seed
        self.end_of_faults = scenario.duration
        self.datagram_bytes = scenario.datagram_bytes
        self.mere_receivers = scenario.mere_receivers
        sites = scenario.sites or scenario.members
        self.network = Network(scenario.network, scenario.members, sites, self.seed, False, self.cast.others)
        realm = realm or f"trial-{self._began}"
        self.processes = [
            self._process(machine, charge, hosts)
            for machine, charge in enumerate(charges(scenario, self.cast, realm, folder, hosts is not None))
        ]
        self._members = self.processes[: scenario.members]
        self._services = self.processes[scenario.members :]
        self.machines = cast(list[Machine], self.processes)  # as far as the faults that are let in go
        self.hub = None if hosts is None else Hub(self.network, hosts.descriptors, lambda: self.now)
        self.troubles = Troubles(self)

    @property
    def now(self) -> int:
        return time.monotonic_ns() - self._began

    def _process(self, machine: int, charge: Charge, hosts: Hosts | None) -> MemberProcess:
        command = [] if hosts is None else hosts.command(machine)
        return MemberProcess(machine, charge, command, self._folder / f"{charge.name}.log")

    def _loads(self, index: int) -> Iterator[Load]:
        for workload in self._scenario.workloads:
            if workload.senders == "all" or index in workload.senders:
                stop = min(workload.stop or self._scenario.duration, self._scenario.duration)
                rate = None if workload.rate == "max" else float(workload.rate)
                yield Load(workload.group, rate, workload.size, self._began + workload.start, self._began + stop)

    async def run(self, progress: Progress) -> None:
        """The safety phase, then healing, then the time to converge, all in real time."""
        scenario = self._scenario
        progress(0.0, "starting processes")
        await self._start_all()
        self._began = min(self._began, time.monotonic_ns() + LEAD)
        for member in self._members:
            member.load(list(self._loads(member.index)))
        for workload in scenario.workloads:
            stop = min(workload.stop or scenario.duration, scenario.duration)
            self.schedule(workload.start, lambda now: self._note("load", "begin"))
            self.schedule(stop, lambda now: self._note("load", "end"))
        for plan in scenario.member_plans:
            self._arrange(self.machines[plan.index], plan)
        self.troubles.arrange(tuple(map(self.cast.on_machines, scenario.faults)))
        await self._wait_until(scenario.duration, progress, "under faults")
        self.troubles.end_all()
        self._note("heal", "begin")
        await self._wait_until(scenario.duration + scenario.settle, progress, "settling")
        await asyncio.gather(*self._restarting)
        await self._end_all()
        if self.hub is not None:
            self.hub.close()

    async def _start_all(self) -> None:
        """Those who serve before those who come to them."""
        room = asyncio.Semaphore(STARTS * usable_cores())

        async def start(process: MemberProcess) -> None:
            async with room:
                await process.start()

        await asyncio.gather(*map(start, self._services))
        await asyncio.gather(*map(start, self._members))

    async def _end_all(self) -> None:
        """All at once, as far as members can tell: who serves them stands still, and tells nobody of another's end."""
        for service in self._services:
            service.paused += 1
        await asyncio.gather(*(member.end() for member in self._members))
        await asyncio.gather(*(service.end() for service in self._services))

    def _arrange(self, machine: Machine, plan: MemberPlan) -> None:
        """When a member comes and goes, where its plan says so."""
        if plan.joins:
            self.schedule(plan.joins, lambda now: self.join(machine, None))
        if plan.leaves is not None:
            self.schedule(plan.leaves, lambda now: self.leave(machine, None))

    async def _wait_until(self, at: int, progress: Progress, phase: str) -> None:
        whole = self._scenario.duration + self._scenario.settle
        while (left := at - self.now) > 0:
            progress(max(0, self.now) / whole, phase)
            await asyncio.sleep(min(left / SECOND, 0.5))

    async def kill_all(self) -> None:
        living = [process for process in self.processes if process.alive]
        for process in living:
            process.kill()
        await asyncio.gather(*(process.gone() for process in living))

    # The stage of the faults.

    def schedule(self, at: int, call: Callable[[int], None]) -> None:
        self._loop.call_later(max(0, at - self.now) / SECOND, lambda: call(self.now))

    def note_fault(self, row: FaultRow) -> None:
        self.rows.append(self._recorder.stamp(row, time.monotonic_ns(), None))

    def crash(self, machine: Machine) -> None:
        process = self.processes[machine.index]
        if process.alive and machine.index not in self._down:
            process.kill()
            self._down.add(machine.index)
            self._kills.append((process.name, time.monotonic_ns()))

    def restart(self, machine: Machine, disk: bool) -> None:
        if machine.index not in self._down:
            return
        self._down.discard(machine.index)
        task = asyncio.ensure_future(self._restart(self.processes[machine.index], disk))
        self._restarting.add(task)

    async def _restart(self, process: MemberProcess, disk: bool) -> None:
        await process.gone()
        if not disk:
            process.forget_disk()
        await process.start()

    def leave(self, machine: Machine, group: str | None) -> None:
        self.processes[machine.index].command("leave", group)

    def join(self, machine: Machine, group: str | None) -> None:
        self.processes[machine.index].join(group)

    def change(self, machine: Machine, group: str | None, service: Service) -> None:
        self.processes[machine.index].command("change", group, service.encode())

    def become(self, machine: Machine, group: str | None, role: Role) -> None:
        self.processes[machine.index].command("become", group, role.encode())

    def count_audience(self, machine: Machine, group: str | None) -> None:
        self.processes[machine.index].command("count_audience", group)

    def _note(self, fault: str, edge: Literal["begin", "end"]) -> None:
        self.note_fault(FaultRow(kind="FAULT", fault=fault, edge=edge))

    def trace(self) -> list[AnyRow]:
        """The rows of all lives and of the faults, by the clock that they share."""
        run = f"{self._scenario.name}-{self.seed}"
        names = [process.name for process in self.processes]
        return gather(self._folder / "spool", run, names, self._kills, self.rows)


def _nothing(part: float, phase: str) -> None:
    """Nobody wants to know how far a trial is."""


def run_trial(scenario: Scenario, out: Path | None = None, progress: Progress = _nothing) -> Outcome:
    """Run a drawn scenario on real processes in namespaces; the trace goes to `out` where given."""
    refuse_what_cannot_be_made(scenario)
    machines = cast_of(scenario).size
    if machines > MOST_HOSTS:
        raise ScenarioError("members", f"{machines} namespaces are too many; at most {MOST_HOSTS} processes are tried")
    with Hosts(machines) as hosts:
        return conduct(scenario, hosts, None, out, progress)


def conduct(
    scenario: Scenario, hosts: Hosts | None, realm: str | None, out: Path | None, progress: Progress
) -> Outcome:
    """Run a drawn scenario that can be made here, and judge it."""
    began = time.perf_counter()
    with TemporaryDirectory(prefix="unisono-trial-") as folder:
        rows, counters = asyncio.run(_run(scenario, hosts, Path(folder), realm, progress))
    monitors = MonitorSuite()
    marks: Counter[str] = Counter()
    for row in rows:
        monitors.observe(row)
        if isinstance(row, GaugeRow) and row.kind == "MARK":
            marks[row.name] += 1
        elif not isinstance(row, GaugeRow):
            counters[row.kind] += 1
    monitors.finish()
    outcome = Outcome(
        scenario=scenario.name,
        seed=scenario.seed or 0,
        verdicts=verdicts(scenario, monitors.counts),
        violations=monitors.violations,
        marks=dict(sorted(marks.items())),
        counters=dict(sorted(counters.items())),
        events=len(rows),
        seconds=time.perf_counter() - began,
    )
    if out is not None:
        write_run(out, rows, scenario_text=write_scenario(scenario), summary=outcome.summary())
    return outcome


async def _run(
    scenario: Scenario, hosts: Hosts | None, folder: Path, realm: str | None, progress: Progress
) -> tuple[list[AnyRow], Counter[str]]:
    trial = Trial(scenario, hosts, folder, realm)
    try:
        await trial.run(progress)
    except BaseException:
        await trial.kill_all()
        raise
    counters = Counter(trial.network.counters)
    for process in trial.processes:
        counters.update(process.counters)
    return trial.trace(), counters
