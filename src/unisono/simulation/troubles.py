"""Carries out the faults of a scenario: begins them, ends them, and writes both into the trace as ground truth."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal, Protocol

from msgspec.structs import replace

from unisono.settings import Role, Service
from unisono.simulation.application import payload
from unisono.simulation.cast import Cast
from unisono.simulation.machine import Machine
from unisono.simulation.network import Network
from unisono.simulation.packet_rules import HELPFUL_NAMES, PacketRule
from unisono.simulation.scenario import FOREVER, Fault
from unisono.simulation.streams import stream
from unisono.trace.schema import FaultRow
from unisono.units import MILLISECOND

PACKET_FAULTS = frozenset(("lose", "duplicate", "reorder", "corrupt", "delay", "limit", "replay", "oversize"))
LINK_FAULTS = frozenset(("partition", "one_way", "isolate"))
HOLDS = frozenset(("isolate", "pause", "slow", "stop_reading"))
"""Faults that keep their members from everybody."""
HOPELESS_LOSS = 0.9
"""A network that loses this much is no network: nothing is expected of it."""
ROUGH_LOSS = 0.05
"""A link that loses this much may seem dead to one who waits for a keep-alive."""
ROUGH_DELAY = 100 * MILLISECOND
"""A link that is so much slower for a while may seem dead too."""
LEAST_DATAGRAM = 576
"""A network that carries no datagram of so many bytes is none; where larger ones are lost, small ones go on."""
_MILLION = 1_000_000


_COMMANDS = ("leave", "join", "send", "change", "become_receiver", "become_sender", "count_audience")
INSTANT = ("crash", "clock_step", *_COMMANDS)
"""Faults that have no end of their own."""


class Stage(Protocol):
    """What faults act on."""

    @property
    def now(self) -> int: ...

    end_of_faults: int
    seed: int
    datagram_bytes: int
    """No datagram of any member is larger."""
    mere_receivers: frozenset[int]
    """The members that begin as ones that only receive."""
    cast: Cast
    machines: list[Machine]
    network: Network

    def schedule(self, at: int, call: Callable[[int], None]) -> None: ...
    def note_fault(self, row: FaultRow) -> None: ...
    def crash(self, machine: Machine) -> None: ...
    def restart(self, machine: Machine, disk: bool) -> None: ...
    def leave(self, machine: Machine, group: str | None) -> None: ...
    def join(self, machine: Machine, group: str | None) -> None: ...
    def change(self, machine: Machine, group: str | None, service: Service) -> None: ...
    def become(self, machine: Machine, group: str | None, role: Role) -> None: ...
    def count_audience(self, machine: Machine, group: str | None) -> None: ...


class Troubles:
    """The faults of one run."""

    __slots__ = ("_active", "_doomed", "_links", "_stage")

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._active: dict[int, Fault] = {}
        self._links: dict[int, Fault] = {}
        self._doomed: set[int] = set()
        """Who crashes for good at some time."""
        stage.network.set_connectivity(self._connected)

    def arrange(self, faults: tuple[Fault, ...]) -> None:
        """Begin each fault at its time; those that wait for a row begin when the world says so."""
        self._doomed = {who for fault in faults if fault.kind == "crash" and not fault.restart for who in fault.members}
        for number, fault in enumerate(faults):
            if fault.at is not None:
                self._stage.schedule(fault.at, self._beginner(number, fault))

    def _beginner(self, number: int, fault: Fault) -> Callable[[int], None]:
        return lambda now: self.begin(number, fault)

    def begin(self, number: int, fault: Fault) -> None:
        stage = self._stage
        if stage.now >= stage.end_of_faults:
            return
        if fault.kind == "clog":
            self._clog(number, fault)
            return
        self._start(number, fault)
        end = stage.end_of_faults if not isinstance(fault.lasts, int) else stage.now + fault.lasts
        if fault.lasts == FOREVER:
            return
        if fault.flaps is not None:
            self._flap(number, fault, min(end, stage.end_of_faults), True)
        elif end < stage.end_of_faults:
            stage.schedule(end, lambda now: self.end(number))

    def end_all(self) -> None:
        """Heal: everything ends but what is to last forever."""
        for number in [number for number, fault in self._active.items() if fault.lasts != FOREVER]:
            self.end(number)

    def _flap(self, number: int, fault: Fault, end: int, active: bool) -> None:
        assert fault.flaps is not None, "only flapping faults flap"
        turn = self._stage.now + fault.flaps
        if turn >= end:
            self._stage.schedule(end, lambda now: self.end(number))
            return

        def toggle(now: int) -> None:
            if active:
                self.end(number)
            else:
                self._start(number, fault)
            self._flap(number, fault, end, not active)

        self._stage.schedule(turn, toggle)

    def _clog(self, number: int, fault: Fault) -> None:
        """Cut members off one after another, and let them back in another order."""
        stage = self._stage
        assert fault.each is not None, "a clog has a pace"
        end = stage.end_of_faults if not isinstance(fault.lasts, int) else stage.now + fault.lasts
        back = list(range(len(fault.members)))
        stream(stage.seed, f"clog/{number}").shuffle(back)
        for place, member in enumerate(fault.members):
            isolation = replace(fault, kind="isolate", members=(member,), each=None, lasts=None)
            key = (number + 1) * 100_000 + place
            stage.schedule(stage.now + place * fault.each, self._beginner(key, isolation))
            opens = end + back[place] * fault.each
            stage.schedule(min(opens, stage.end_of_faults), self._ender(key))

    def _ender(self, number: int) -> Callable[[int], None]:
        return lambda now: self.end(number)

    def _start(self, number: int, fault: Fault) -> None:
        stage = self._stage
        if fault.kind in LINK_FAULTS:
            self._links[number] = fault
        elif fault.kind in PACKET_FAULTS:
            stage.network.rules.append(PacketRule(fault))
        momentary = self._strike(fault)
        self._note(fault, "begin")
        if not momentary:
            self._active[number] = fault
        if momentary:
            self._act(fault)

    def end(self, number: int) -> None:
        fault = self._active.pop(number, None)
        if fault is None:
            return
        stage = self._stage
        self._links.pop(number, None)
        if fault.kind in PACKET_FAULTS:
            stage.network.rules[:] = [rule for rule in stage.network.rules if rule.fault is not fault]
        for machine in self._machines(fault):
            if fault.kind == "pause":
                machine.resume()
            elif fault.kind == "slow":
                machine.slowness = 0.0
            elif fault.kind == "stop_reading":
                machine.read_again()
            elif fault.kind == "stop_answering":
                machine.answering = True
                machine.answer_blocks()
            elif fault.kind == "clock_drift":
                machine.wall.run_at(0, stage.now)
            elif fault.kind == "timer_drift":
                machine.monotonic.run_at(0, stage.now)
                machine.wake(stage.now)
            elif fault.kind == "disk":
                assert fault.what is not None, "a disk fault says what"
                machine.disk.end(fault.what)
        self._note(fault, "end")

    def _strike(self, fault: Fault) -> bool:
        """Begin a lasting fault on machines; True when the fault is a momentary act instead."""
        stage = self._stage
        for machine in self._machines(fault):
            if fault.kind == "pause":
                machine.paused += 1
            elif fault.kind == "slow":
                machine.slowness = fault.times or 1.0
            elif fault.kind == "stop_reading":
                machine.reading = False
            elif fault.kind == "stop_answering":
                machine.answering = False
            elif fault.kind == "clock_drift":
                machine.wall.run_at(int((fault.by or 0) * _MILLION), stage.now)
            elif fault.kind == "timer_drift":
                machine.monotonic.run_at(int((fault.by or 0) * _MILLION), stage.now)
                machine.wake(stage.now)
            elif fault.kind == "disk":
                assert fault.what is not None, "a disk fault says what"
                machine.disk.begin(fault.what)
        return fault.kind in INSTANT

    def _act(self, fault: Fault) -> None:
        stage = self._stage
        for machine in self._machines(fault):
            if fault.kind == "crash":
                stage.crash(machine)
                if fault.restart is not None:
                    self._restart_later(machine, stage.now + fault.restart, fault.disk)
            elif fault.kind == "clock_step":
                machine.wall.step(int(fault.by or 0))
            elif fault.kind == "leave":
                stage.leave(machine, fault.group)
            elif fault.kind == "join":
                stage.join(machine, fault.group)
            elif fault.kind == "send":
                self._send(machine, fault)
            elif fault.kind == "change":
                assert fault.service is not None, "a change says to what"
                stage.change(machine, fault.group, fault.service)
            elif fault.kind == "become_receiver":
                stage.become(machine, fault.group, "receiver")
            elif fault.kind == "become_sender":
                stage.become(machine, fault.group, "sender")
            elif fault.kind == "count_audience":
                stage.count_audience(machine, fault.group)

    def _restart_later(self, machine: Machine, at: int, disk: bool) -> None:
        self._stage.schedule(at, lambda now: self._stage.restart(machine, disk))

    def _send(self, machine: Machine, fault: Fault) -> None:
        random = stream(self._stage.seed, f"send/{machine.index}/{self._stage.now}")
        for group in [fault.group] if fault.group is not None else list(machine.groups):
            for count in range(fault.count or 1):
                machine.send(group, 0, (payload(random, f"{machine.name} extra", count, fault.size or 200),))

    def _machines(self, fault: Fault) -> list[Machine]:
        return [self._stage.machines[member] for member in fault.members]

    def _connected(self, a: int, b: int) -> bool:
        return not any(_cuts(fault, a, b) for fault in self._links.values())

    def _note(self, fault: Fault, edge: Literal["begin", "end"]) -> None:
        members, sides = self._taken_away(fault), self._sides(fault)
        self._stage.note_fault(FaultRow(kind="FAULT", fault=fault.kind, edge=edge, members=members, sides=sides))

    def _least_datagram(self, fault: Fault) -> int:
        """What a network must carry; sessions cannot go on without a member whose messages are too large.

        Where it carries no more for ever, nobody can be in one view with who sends what is too large.
        """
        whole = fault.lasts == FOREVER or self._stage.cast.server_machines
        return self._stage.datagram_bytes if whole else LEAST_DATAGRAM

    def _weight(self, side: Collection[int]) -> tuple[int, int, int]:
        """How much of a group one side of a partition holds; who misses one of its senders cannot follow its order."""
        living = set(side) - self._doomed
        return len(living - self._stage.mere_receivers), len(living), len(side)

    def _taken_away(self, fault: Fault) -> list[str]:
        """The members of whom nothing is expected while the fault lasts."""
        stage = self._stage
        names = [machine.name for machine in stage.machines]
        away: set[int] = set()
        if fault.kind == "partition":
            away = set(range(len(names))) - set(sorted(fault.groups, key=self._weight)[-1])
        elif fault.kind == "one_way":
            sides = sorted((side for side in (fault.sources, fault.targets) if side), key=len)
            away = set(sides[0])
        elif fault.kind in HOLDS:
            away = set(fault.members)
        elif fault.kind == "oversize" and fault.above is not None and fault.above >= self._least_datagram(fault):
            pass  # what is too large for it must not hold up the rest
        elif fault.kind in ("limit", "oversize") or _loses(fault, HOPELESS_LOSS):
            away = set(fault.members or fault.targets or range(len(names)))
        if away.issuperset(servers := stage.cast.server_machines) and servers:
            away = set(range(len(names)))  # without a server nobody gets another view
        return [names[member] for member in sorted(away)]

    def _sides(self, fault: Fault) -> list[list[str]]:
        """Which processes hear each other as far as the fault goes: those that one side has both of."""
        everybody = range(len(self._stage.machines))
        if fault.kind == "partition":
            sides: list[Collection[int]] = list(fault.groups)
        elif fault.kind in HOLDS:
            sides = [set(everybody) - set(fault.members)]
        elif fault.kind == "one_way" or self._is_rough(fault):
            targets = (*fault.targets, *fault.members)
            sides = [set(everybody) - set(ends or everybody) for ends in (fault.sources, targets)]
        else:
            sides = []
        return [[self._stage.machines[member].name for member in sorted(side)] for side in sides]

    def _is_rough(self, fault: Fault) -> bool:
        """Packets are lost, or come late, in such numbers that who lives may seem dead."""
        if fault.kind in ("lose", "corrupt"):
            return _loses(fault, 0 if fault.count is not None else ROUGH_LOSS)
        if fault.kind == "delay":
            return (fault.by or 0) >= ROUGH_DELAY
        return fault.kind == "limit" or (fault.kind == "oversize" and (fault.above or 0) < self._stage.datagram_bytes)


def _loses(fault: Fault, least: float) -> bool:
    """A fault loses that part, or more, of what a group needs."""
    rate = 1.0 if fault.rate is None else fault.rate
    return fault.kind in ("lose", "corrupt") and rate >= least and fault.message not in HELPFUL_NAMES


def _cuts(fault: Fault, a: int, b: int) -> bool:
    """Whether a fault keeps a packet of `a` from reaching `b`."""
    if fault.kind == "partition":
        return not any(a in group and b in group for group in fault.groups)
    if fault.kind == "isolate":
        return a in fault.members or b in fault.members
    return (not fault.sources or a in fault.sources) and (not fault.targets or b in fault.targets)
