"""A discrete-event model of repair in one group: one source, its receivers, datagrams that are delayed and lost.

It knows nothing of engines. A member decides when to ask and when to repair; the world carries requests and repairs to
all others, counts them, and measures how long each loser waited. All choices come from one seeded generator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from random import Random
from statistics import median
from typing import NamedTuple

from unisono.identity import ProcessId
from unisono.units import MICROSECOND, MILLISECOND, SECOND

PERIOD = 20 * MILLISECOND
"""The source sends fifty packets a second."""

SOURCE = 0
"""The source is member 0; the receivers are 1 to n."""

Distances = list[list[int]]


class Request(NamedTuple):
    """What a request says on the wire."""

    requester: int
    to_source: int
    tries: int
    sequences: tuple[int, ...]


def star(receivers: int, distance: int) -> Distances:
    """Everybody as far from everybody else."""
    return [[0 if a == b else distance for b in range(receivers + 1)] for a in range(receivers + 1)]


def sites(number: int, each: int, random: Random, inside: bool = False) -> Distances:
    """Sites 5 to 40 ms apart, 0.3 ms across; the source at a place of its own, or inside the first site."""
    home = [0 if inside else number] + [site for site in range(number) for _ in range(each)]
    apart = [[0] * (number + 1) for _ in range(number + 1)]
    for a in range(number + 1):
        for b in range(a):
            apart[a][b] = apart[b][a] = int(random.uniform(5, 40) * MILLISECOND)
    within = 300 * MICROSECOND
    return [
        [0 if i == j else within if a == b else apart[a][b] for j, b in enumerate(home)] for i, a in enumerate(home)
    ]


class Losses(NamedTuple):
    """Who loses which packet: packet k of the source is lost by `losers[k]`, and the rest come."""

    losers: dict[int, frozenset[int]]
    packets: int


def common(packets: int, every: int, losers: Iterable[int]) -> Losses:
    """The same members lose the same packet, now and then."""
    lost = frozenset(losers)
    return Losses(dict.fromkeys(range(1, packets, every), lost), packets)


def independent(packets: int, receivers: int, rate: float, random: Random) -> Losses:
    """Every receiver loses packets on its own."""
    everybody = range(1, receivers + 1)
    drawn = {k: frozenset(i for i in everybody if random.random() < rate) for k in range(1, packets)}
    return Losses({k: lost for k, lost in drawn.items() if lost}, packets)


class Member(ABC):
    """One process: told of gaps, requests and repairs, and woken when it wants to be."""

    def __init__(self, number: int, world: World) -> None:
        self.number = number
        self.world = world
        self.process = ProcessId(f"p{number:04}", 1)
        self.missing: dict[int, int | None] = {}
        """Lost and not repaired yet, with the time at which the loss was noticed."""
        self.alive = True
        self.wakes_at: int | None = None

    def estimate(self, other: int) -> int:
        return self.world.estimates[self.number][other]

    @abstractmethod
    def on_gap(self, sequence: int) -> None: ...

    @abstractmethod
    def on_request(self, request: Request) -> None: ...

    @abstractmethod
    def on_repair(self, sequence: int) -> None:
        """A repair came; `missing` no longer has it."""

    @abstractmethod
    def on_wake(self) -> None: ...

    @abstractmethod
    def next_due(self) -> int | None: ...


class Tally:
    """What a run cost and how long it took, for each lost packet."""

    def __init__(self) -> None:
        self.requests: dict[int, int] = {}
        self.named: dict[int, int] = {}
        """How often a packet was named in a request; one request may name several."""
        self.repairs: dict[int, int] = {}
        self.recoveries: dict[int, list[float]] = {}
        """In round trips between the receiver and the source, from the notice of the loss."""
        self.longest = 0
        self.unrepaired = 0

    def part(self, first: int, last: int) -> Part:
        """The figures of the lost packets from first to last."""
        lost = [k for k in self.recoveries if first <= k <= last]
        waits = sorted(wait for k in lost for wait in self.recoveries[k])
        return Part(
            len(lost),
            sum(self.requests.get(k, 0) for k in lost) / len(lost),
            sum(self.named.get(k, 0) for k in lost) / len(lost),
            sum(self.repairs.get(k, 0) for k in lost) / len(lost),
            median(waits),
            waits[int(len(waits) * 0.99)],
        )


class Part(NamedTuple):
    """Figures for each lost packet; waits in round trips."""

    losses: int
    requests: float
    named: float
    repairs: float
    median: float
    p99: float


Make = Callable[[int, "World"], Member]


class World:
    """The network and the clock."""

    def __init__(
        self,
        make: Make,
        distances: Distances,
        losses: Losses,
        seed: int,
        control_loss: float = 0.0,
        error: float = 0.15,
    ) -> None:
        self.random = Random(seed)
        self.now = 0
        self.distances = distances
        self.losses = losses
        self.control_loss = control_loss
        self.receivers = len(distances) - 1
        """What the members believe their number to be."""
        self.tally = Tally()
        self.estimates = [[int(d * self.random.uniform(1 - error, 1 + error)) for d in row] for row in distances]
        self._events: list[tuple[int, int, Callable[[], None] | None, Member | None, Request | int]] = []
        self._serial = count()
        self.members = [make(number, self) for number in range(len(distances))]
        for sequence, losers in losses.losers.items():
            self.tally.recoveries[sequence] = []
            for loser in sorted(losers):
                self._plan_notice(sequence, loser)

    def at(self, time: int, act: Callable[[], None]) -> None:
        heappush(self._events, (time, next(self._serial), act, None, 0))

    def lost(self, sequence: int, loser: int) -> bool:
        return loser in self.losses.losers.get(sequence, ())

    def _plan_notice(self, sequence: int, loser: int) -> None:
        """The loss happens when the packet should have come, and shows with the next packet that does come."""
        later = sequence + 1
        while self.lost(later, loser):
            later += 1
        member = self.members[loser]

        def lose() -> None:
            member.missing[sequence] = None

        self.at(sequence * PERIOD, lose)
        self.at(later * PERIOD + self._delay(SOURCE, loser), lambda: self.notice(member, sequence))

    def notice(self, member: Member, sequence: int) -> None:
        """A member learns of its loss, by a later packet or by another's request."""
        if member.alive and sequence in member.missing and member.missing[sequence] is None:
            member.missing[sequence] = self.now
            member.on_gap(sequence)
            self._plan_wake(member)

    def _delay(self, sender: int, receiver: int) -> int:
        return int(self.distances[sender][receiver] * (1 + 0.1 * self.random.random()) + 50_000 * self.random.random())

    def ask(self, request: Request) -> None:
        """Count the datagram for the first sequence that it names, and the naming for each."""
        tally, first = self.tally, request.sequences[0]
        tally.requests[first] = tally.requests.get(first, 0) + 1
        for sequence in request.sequences:
            tally.named[sequence] = tally.named.get(sequence, 0) + 1
        self._multicast(request.requester, request)

    def repair(self, sender: int, sequence: int) -> None:
        self.tally.repairs[sequence] = self.tally.repairs.get(sequence, 0) + 1
        self._multicast(sender, sequence)

    def _multicast(self, sender: int, packet: Request | int) -> None:
        random, loss, events, serial = self.random.random, self.control_loss, self._events, self._serial
        row, now = self.distances[sender], self.now
        for member in self.members:
            if member.number != sender and member.alive and random() >= loss:
                delay = int(row[member.number] * (1 + 0.1 * random()) + 50_000 * random())
                heappush(events, (now + delay, next(serial), None, member, packet))

    def _plan_wake(self, member: Member) -> None:
        due = member.next_due()
        if due is not None and (member.wakes_at is None or due < member.wakes_at):
            member.wakes_at = due
            self.at(due, lambda: self._wake(member, due))

    def _wake(self, member: Member, due: int) -> None:
        if member.alive and member.wakes_at == due:
            member.wakes_at = None
            member.on_wake()
            self._plan_wake(member)

    def run(self, until: int | None = None) -> Tally:
        """Run to the end of the stream and three seconds more, in which what is missing can still come."""
        end = self.losses.packets * PERIOD + 3 * SECOND if until is None else until
        while self._events and self._events[0][0] <= end:
            self.now, _, act, member, packet = heappop(self._events)
            if act is not None:
                act()
            elif member is not None and member.alive:
                self._arrive(member, packet)
        self.now = end
        self.tally.unrepaired = sum(len(member.missing) for member in self.members if member.alive)
        return self.tally

    def _arrive(self, member: Member, packet: Request | int) -> None:
        if isinstance(packet, int):
            if packet in member.missing:
                noticed = member.missing.pop(packet)
                waited = 0 if noticed is None else self.now - noticed
                self.tally.longest = max(self.tally.longest, waited)
                self.tally.recoveries[packet].append(waited / (2 * self.distances[SOURCE][member.number]))
            member.on_repair(packet)
        else:
            for sequence in packet.sequences:
                self.notice(member, sequence)
            member.on_request(packet)
        self._plan_wake(member)
