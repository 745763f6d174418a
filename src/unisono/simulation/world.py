"""The world of a simulation: virtual time, the machines, the network between them, and the trace of it all.

One thread, one heap of future calls, every choice from a named stream of the seed. First a safety phase under faults,
then everything heals and the group must converge while the monitors still watch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path
from time import perf_counter
from typing import Literal

from unisono.engine import (
    SITE,
    Address,
    BlockOk,
    ChangeRole,
    ChangeService,
    CountAudience,
    Engine,
    Fact,
    FrameReceived,
    Join,
    Leave,
    Listen,
    OpenChannel,
    SendDatagram,
    SendFrame,
    StopListening,
)
from unisono.node import Node
from unisono.properties.registry import MonitorSuite
from unisono.settings import Role, Service, Settings
from unisono.simulation.application import ANSWER_DELAY, Sender
from unisono.simulation.cast import cast_of
from unisono.simulation.channels import Channels
from unisono.simulation.disk import Disk
from unisono.simulation.ether import Ether, member_address
from unisono.simulation.hierarchy import HierarchyObserver
from unisono.simulation.machine import ChannelEffect, Machine, Stay
from unisono.simulation.network import Network
from unisono.simulation.outcome import Outcome, verdicts
from unisono.simulation.scenario import DEFAULT_GROUP, GroupPlan, MemberPlan, Scenario, Workload
from unisono.simulation.scenario_text import write_scenario
from unisono.simulation.streams import stream
from unisono.simulation.troubles import Troubles
from unisono.simulation.wiring import node_arguments
from unisono.step_watch import StepWatch
from unisono.trace.recorder import Recorder
from unisono.trace.run_directory import write_run
from unisono.trace.schema import AnyRow, FaultRow, GaugeRow, MembershipRow
from unisono.units import MILLISECOND

START_SPREAD = 20 * MILLISECOND
"""Members that join at the same time start within this long of each other; servers and controllers before them."""


class World:
    """One run of one scenario with all its draws made."""

    def __init__(
        self,
        scenario: Scenario,
        keep_rows: bool,
        node: Callable[..., Engine] = Node,
        watch: Callable[[AnyRow], None] | None = None,
    ) -> None:
        assert scenario.seed is not None, "a world runs a drawn scenario"
        self._scenario = scenario
        self._node = node
        self.seed = scenario.seed
        self.cast = cast_of(scenario)
        self.run_name = f"{scenario.name}-{scenario.seed}"
        self.now = 0
        self.end_of_faults = scenario.duration
        self.rows: list[AnyRow] = []
        self.monitors = MonitorSuite()
        self.counters: Counter[str] = Counter()
        self.marks: Counter[str] = Counter()
        self.events = 0
        self.step_watch = StepWatch()
        self._keep_rows = keep_rows
        self._watch = watch
        self._heap: list[tuple[int, int, Callable[[int], None]]] = []
        self._serial = 0
        self._recorder = Recorder(self.run_name, "", "")
        self._plans = {plan.index: plan for plan in scenario.member_plans}
        self._groups = scenario.groups or (GroupPlan(name=DEFAULT_GROUP, members=tuple(range(self.cast.members))),)
        self._faults = tuple(map(self.cast.on_machines, scenario.faults))
        self._waiting = [(number, fault) for number, fault in enumerate(self._faults) if fault.when is not None]
        self._seen: Counter[tuple[str, str | None]] = Counter()
        remember = any(fault.kind == "replay" for fault in scenario.faults)
        sites = scenario.sites or self.cast.members
        self.network = Network(scenario.network, self.cast.members, sites, self.seed, remember, self.cast.others)
        self.machines = [self._machine(index) for index in range(self.cast.size)]
        self.datagram_bytes = scenario.datagram_bytes
        self.mere_receivers = scenario.mere_receivers
        self._ether = Ether(self)
        self._channels = Channels(self.network, self.schedule, self._give_to_life, member_address)
        self._troubles = Troubles(self)
        self._senders = [
            Sender(
                self, machine, workload, min(workload.stop or scenario.duration, scenario.duration), self.seed, index
            )
            for index, workload in enumerate(scenario.workloads)
            for machine in self.machines[: self.cast.members]
            if self._takes_part(workload, machine)
        ]

        settings = Settings(**scenario.options)
        self.hierarchy = HierarchyObserver(self, settings) if settings.control and not self.cast.servers else None

    def _takes_part(self, workload: Workload, machine: Machine) -> bool:
        """Whether a member sends in a workload; `all` are all who may send, or who only receive and ask others to."""
        if workload.senders == "all":
            return (self._settings(machine).role == "sender") != workload.proxy
        return machine.index in workload.senders

    def _machine(self, index: int) -> Machine:
        clock_offset = stream(self.seed, f"wall/{index}").randint(-5 * MILLISECOND, 5 * MILLISECOND)
        disk = Disk(stream(self.seed, f"disk/{index}"))
        return Machine(index, self.cast.process_name(index), disk, self._scenario.network.queue, clock_offset, self)

    # ── running ──

    def run(self) -> None:
        """The safety phase, then healing, then the time to converge."""
        with self.step_watch:
            self._run()

    def _run(self) -> None:
        scenario = self._scenario
        for machine in self.machines:
            self._arrange_life(machine)
        for workload in scenario.workloads:
            self.schedule(workload.start, lambda now: self._note("load", "begin"))
            stop = min(workload.stop or scenario.duration, scenario.duration)
            self.schedule(stop, lambda now: self._note("load", "end"))
        self._troubles.arrange(self._faults)
        self._run_until(scenario.duration)
        self._troubles.end_all()
        self._note("heal", "begin")
        self._run_until(scenario.duration + scenario.settle)
        for machine in self.machines:
            if machine.alive:
                self._membership(machine, "END")
        self.monitors.finish()

    def _run_until(self, end: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= end:
            self.now, _, call = heappop(heap)
            self.events += 1
            call(self.now)
        self.now = end

    def schedule(self, at: int, call: Callable[[int], None]) -> None:
        self._serial += 1
        heappush(self._heap, (max(at, self.now), self._serial, call))

    def call_at(self, at: int, sender: Sender) -> None:
        self.schedule(at, lambda now: sender.run())

    def give_later(self, machine: Machine, at: int, fact: Fact) -> None:
        life = machine.life
        self.schedule(at, lambda now: self._give_to_life(machine.index, life, fact))

    def _give_to_life(self, index: int, life: int, fact: Fact) -> None:
        machine = self.machines[index]
        if machine.life == life:
            if isinstance(fact, FrameReceived):
                machine.received_bytes += len(fact.data)
            machine.give(fact)

    # ── lives ──

    def _arrange_life(self, machine: Machine) -> None:
        plan = self._plans.get(machine.index, MemberPlan(index=machine.index))
        spread = int(stream(self.seed, f"start/{machine.index}").random() * START_SPREAD)
        if self.cast.servers and machine.index < self.cast.members:
            spread += START_SPREAD
        self.schedule(plan.joins + spread, lambda now: self._start(machine))
        if plan.leaves is not None:
            self.schedule(plan.leaves, lambda now: self.leave(machine, None))

    def _start(self, machine: Machine) -> None:
        life = machine.life + 1
        settings = self._settings(machine)
        engine = self._node(
            machine.name,
            stream(self.seed, f"engine/{machine.index}/{life}"),
            stream(self.seed, f"entropy/{machine.index}/{life}").randbytes,
            **node_arguments(self._scenario, self.cast, machine.index, settings),
        )
        machine.start(engine, self.run_name)
        self.join(machine, None)

    def _settings(self, machine: Machine) -> Settings:
        plan = self._plans.get(machine.index)
        return Settings(**{**self._scenario.options, **(plan.options if plan else {})})

    def join(self, machine: Machine, group: str | None) -> None:
        for plan in self._groups:
            if machine.index not in plan.members or group not in (None, plan.name):
                continue
            if plan.name not in machine.groups:
                machine.groups[plan.name] = Stay.MEMBER
                settings, state = self._settings(machine), self._scenario.state
                stateful = state is not None and settings.service == "timestamp"
                if state is not None and stateful:
                    machine.carry_state(plan.name, state)
                machine.give(Join(plan.name, settings, self._scenario.protocol, stateful=stateful))
            elif machine.groups[plan.name] is Stay.LEAVING:
                machine.groups[plan.name] = Stay.RETURNING

    def leave(self, machine: Machine, group: str | None) -> None:
        for name in list(machine.groups):
            if group in (None, name):
                machine.groups[name] = Stay.LEAVING
                machine.give(Leave(name))

    def change(self, machine: Machine, group: str | None, service: Service) -> None:
        for name in list(machine.groups):
            if group in (None, name):
                machine.give(ChangeService(name, service))

    def become(self, machine: Machine, group: str | None, role: Role) -> None:
        for name in list(machine.groups):
            if group in (None, name):
                machine.give(ChangeRole(name, role))

    def count_audience(self, machine: Machine, group: str | None) -> None:
        for name in list(machine.groups):
            if group in (None, name):
                machine.give(CountAudience(name))

    def answer_block(self, machine: Machine, group: str) -> None:
        """The application of a session has sent its last, and says so after a moment."""
        wait = stream(self.seed, f"answer/{machine.index}/{self.now}").random() * ANSWER_DELAY
        self.give_later(machine, self.now + int(wait), BlockOk(group))

    def crash(self, machine: Machine) -> None:
        if not machine.alive:
            return
        self._membership(machine, "CRASH")
        machine.disk.crash()
        machine.stop()
        self._channels.crash(self.now, machine.index)
        self._answer_senders(machine, None)

    def restart(self, machine: Machine, disk: bool) -> None:
        if machine.alive:
            return
        if not disk:
            machine.disk.wipe()
        self._start(machine)

    # ── the network ──

    def transmit(self, machine: Machine, effect: SendDatagram) -> None:
        machine.sent_bytes += len(effect.data)
        self._ether.transmit(machine, effect)

    def listen(self, machine: Machine, address: Address, listens: bool) -> None:
        self._ether.listen(machine, address, listens)

    def channel_effect(self, machine: Machine, effect: ChannelEffect) -> None:
        index, life, channels = machine.index, machine.life, self._channels
        if isinstance(effect, Listen):
            if effect.at == SITE:
                channels.listen_at_site(self.now, index, life)
            else:
                channels.listen(index, life)
        elif isinstance(effect, StopListening):
            assert effect.at == SITE, "a process listens on its own endpoint as long as it lives"
            channels.stop_listening_at_site(index)
        elif isinstance(effect, OpenChannel):
            to = None if effect.to == SITE else self._ether.at(effect.to).index
            channels.open(self.now, index, life, effect.channel, to)
        elif isinstance(effect, SendFrame):
            machine.sent_bytes += len(effect.data)
            channels.send(self.now, index, effect.channel, effect.data)
        else:
            channels.close(self.now, index, effect.channel)

    # ── the trace ──

    def write(self, row: AnyRow) -> None:
        self.monitors.observe(row)
        if self._keep_rows:
            self.rows.append(row)
        if self._watch is not None:
            self._watch(row)
        if isinstance(row, GaugeRow):
            if row.kind == "MARK":
                self.marks[row.name] += 1
            elif self.hierarchy is not None:
                self.hierarchy.on_gauge(row)
        else:
            self.counters[row.kind] += 1
        if self._waiting:
            self._trigger(row)

    def _trigger(self, row: AnyRow) -> None:
        """Begin the faults that waited for this row."""
        self._seen[row.kind, None] += 1
        self._seen[row.kind, row.process] += 1
        for number, fault in list(self._waiting):
            when = fault.when
            assert when is not None, "only such faults wait"
            key = (when.kind, None if when.member is None else self.machines[when.member].name)
            if row.kind == when.kind and self._seen[key] == when.count and key[1] in (None, row.process):
                self._waiting.remove((number, fault))
                self._troubles.begin(number, fault)

    def count(self, name: str) -> None:
        self.counters[name] += 1

    def send_answered(self, machine: Machine, group: str, accepted: bool) -> None:
        if not accepted:
            self.counters["send refused"] += 1
        self._answer_senders(machine, group)

    def _answer_senders(self, machine: Machine, group: str | None) -> None:
        for sender in self._senders:
            if sender.machine is machine and group in (None, sender.group):
                sender.answered()

    def _note(self, fault: str, edge: Literal["begin", "end"]) -> None:
        self.note_fault(FaultRow(kind="FAULT", fault=fault, edge=edge))

    def note_fault(self, row: FaultRow) -> None:
        self.write(self._recorder.stamp(row, self.now, self.now))

    def _membership(self, machine: Machine, kind: str) -> None:
        assert machine.recorder is not None, "a living process has a recorder"
        row = MembershipRow(kind=kind)
        self.write(machine.recorder.stamp(row, machine.monotonic.read(self.now), self.now))


def run(scenario: Scenario, out: Path | None = None, watch: Callable[[AnyRow], None] | None = None) -> Outcome:
    """Run a drawn scenario; the trace goes to `out` where given, and `watch` is told every row of it."""
    began = perf_counter()
    world = World(scenario, keep_rows=out is not None, watch=watch)
    world.run()
    outcome = Outcome(
        scenario=scenario.name,
        seed=world.seed,
        verdicts=verdicts(scenario, world.monitors.counts),
        violations=world.monitors.violations,
        marks=dict(sorted(world.marks.items())),
        counters=dict(sorted((world.counters + world.network.counters).items())),
        events=world.events,
        seconds=perf_counter() - began,
        hierarchy=None if world.hierarchy is None else world.hierarchy.figures(),
    )
    if out is not None:
        write_run(out, world.rows, scenario_text=write_scenario(scenario), summary=outcome.summary())
    return outcome
