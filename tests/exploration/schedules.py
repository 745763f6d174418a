"""Leaving and a change of role, in every order within bounds: the whole engine on a network that an adversary delays.

The calm run of a start is the schedule from which orders depart. Its packets are numbered from the command on, and each
may be lost, or come after those that follow it, or be the last that its receiver takes before it crashes. Bounds: how
many such departures an order has, and how far apart. Every property is watched; in the end all who stay are in
one view, and what was sent before a leave is with all who stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, product
from typing import NamedTuple

from unisono.engine import Address
from unisono.simulation.ether import Ether
from unisono.simulation.machine import Stay
from unisono.simulation.network import Arrival
from unisono.simulation.scenario import Fault, MemberPlan, Network, Scenario, Workload
from unisono.simulation.world import World
from unisono.trace.schema import AnyRow, DeliverRow, SendRow, ViewRow
from unisono.units import MILLISECOND, SECOND

COMMAND = 700 * MILLISECOND
"""When the calm run has its command: all are in one view by then."""
WINDOW = 400 * MILLISECOND
"""For so long from the command on packets are numbered."""
HELD = 60 * MILLISECOND
"""How long a packet is held back: past all that answers those that follow it."""
KINDS = ("lost", "late", "crash")
"""What may become of a packet; `crash`: its receiver dies of it."""


class Departure(NamedTuple):
    """What becomes of one packet of the calm run."""

    packet: int
    kind: str


Order = tuple[Departure, ...]


def _scenario(commands: tuple[Fault, ...], plans: tuple[MemberPlan, ...] = ()) -> Scenario:
    return Scenario(
        name="schedule",
        seed=1,
        members=3,
        duration=COMMAND + SECOND,
        settle=6 * SECOND,
        network=Network(latency=2 * MILLISECOND),
        workloads=(Workload(group="g", rate=8.0, size=100, start=300 * MILLISECOND),),
        member_plans=plans,
        faults=commands,
        options={"service": "timestamp", "suspicion": 400 * MILLISECOND, "patience": SECOND},
    )


SEND = Fault(kind="send", at=COMMAND, members=(2,), size=2500, count=2)
AUTO = MemberPlan(index=2, options={"role": "auto", "idle": 30 * SECOND})

STARTS: dict[str, Scenario] = {
    "leaves": _scenario((SEND, Fault(kind="leave", at=COMMAND, members=(2,)))),
    "stops sending": _scenario((SEND, Fault(kind="become_receiver", at=COMMAND, members=(2,)))),
    "begins to send": _scenario((SEND,), (AUTO,)),
    "leaves while another stops": _scenario(
        (
            SEND,
            Fault(kind="become_receiver", at=COMMAND, members=(1,)),
            Fault(kind="leave", at=COMMAND + MILLISECOND, members=(2,)),
        )
    ),
}


class Scheduled(World):
    """A world in which some packets after the command depart from the calm schedule."""

    def __init__(self, scenario: Scenario, order: Order = ()) -> None:
        self.packets = 0
        self._order = {departure.packet: departure.kind for departure in order}
        super().__init__(scenario, keep_rows=False, watch=self._look)
        self._ether = _Adversary(self)
        self.last: dict[str, ViewRow] = {}
        self.left: set[str] = set()
        self.crashed: set[str] = set()
        self._sent: dict[str, set[int]] = {}
        self._delivered: dict[str, set[tuple[str, int]]] = {}

    def _look(self, row: AnyRow) -> None:
        if isinstance(row, ViewRow):
            self.last[row.process] = row
        elif isinstance(row, SendRow):
            self._sent.setdefault(row.process, set()).add(row.number)
        elif isinstance(row, DeliverRow):
            self._delivered.setdefault(row.process, set()).add((row.source, row.number))
        elif row.kind == "LEAVE":
            self.left.add(row.process)
        elif row.kind == "CRASH":
            self.crashed.add(row.process)

    def fate(self) -> str | None:
        """What becomes of the next packet."""
        if not COMMAND <= self.now < COMMAND + WINDOW:
            return None
        self.packets += 1
        return self._order.get(self.packets)

    def complaints(self) -> list[str]:
        """What is wrong with how the run went, and with how it ended."""
        wrong = [str(violation) for violation in self.monitors.violations]
        staying = [machine.name for machine in self.machines if machine.name not in self.left | self.crashed]
        views = {self.last[name].view for name in staying}
        if len(views) > 1:
            wrong.append(f"{' and '.join(staying)} end in {len(views)} views")
        for leaver in sorted(self.left - self.crashed):
            said = {(leaver, number) for number in self._sent[leaver]}
            wrong += [f"{name} lacks what {leaver} sent" for name in staying if not said <= self._delivered[name]]
        leaving = (one for one in self.machines if one.alive and one.groups.get("g") is Stay.LEAVING)
        wrong += [f"{machine.name} never comes to an end of leaving" for machine in leaving]
        return wrong


class _Adversary(Ether):
    """The sockets, and what becomes of the packets on their way to them."""

    __slots__ = ("_world",)

    def __init__(self, world: Scheduled) -> None:
        super().__init__(world)
        self._world = world

    def _arrival(self, source: Address, destination: Address, arrival: Arrival) -> Callable[[int], None]:
        arrive = super()._arrival(source, destination, arrival)
        world = self._world
        fate = world.fate()
        if fate is None:
            return arrive
        if fate == "lost":
            return lambda now: None
        if fate == "late":
            return lambda now: world.schedule(now + HELD, arrive)

        def die(now: int) -> None:
            arrive(now)
            if world.machines[arrival.receiver].alive:
                world.crash(world.machines[arrival.receiver])

        return die


class Tried(NamedTuple):
    """What an exploration came to."""

    orders: int
    packets: int
    complaint: str | None
    order: Order


def orders(packets: int, departures: int, near: int) -> Iterator[Order]:
    """Every order with so many departures at most; two of them are no further apart than `near` packets."""
    yield ()
    for count in range(1, departures + 1):
        for places in combinations(range(1, packets + 1), count):
            if places[-1] - places[0] > near:
                continue
            for kinds in product(KINDS, repeat=count):
                if kinds.count("crash") < 2:  # two are left to agree
                    yield tuple(map(Departure, places, kinds))


def explore(name: str, departures: int = 1, near: int = 6, limit: int | None = None, every: int = 1) -> Tried:
    """Try the orders of a start, each `every`-th of them and `limit` at most, until one has a complaint."""
    calm = Scheduled(STARTS[name])
    calm.run()
    tried = 0
    for number, order in enumerate(orders(calm.packets, departures, near)):
        if number % every:
            continue
        if limit is not None and tried >= limit:
            break
        world = Scheduled(STARTS[name], order)
        world.run()
        tried += 1
        if wrong := world.complaints():
            return Tried(tried, calm.packets, wrong[0], order)
    return Tried(tried, calm.packets, None, ())
