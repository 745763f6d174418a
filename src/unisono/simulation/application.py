"""The simulated application: what each member sends, when, and how much."""

from __future__ import annotations

from random import Random
from typing import Protocol

from unisono.simulation.machine import Machine
from unisono.simulation.scenario import Workload
from unisono.simulation.streams import stream
from unisono.units import MICROSECOND, MILLISECOND, SECOND

SEND_COST = 100 * MICROSECOND
"""Between two messages of a sender that sends as fast as it may."""
ANSWER_DELAY = 20 * MILLISECOND
"""The longest that an application takes to answer a block."""


class Timetable(Protocol):
    """What a sender needs of the world."""

    now: int

    def call_at(self, at: int, sender: Sender) -> None: ...


class Sender:
    """One workload at one member: sends by the clock, or again when the last send was accepted."""

    __slots__ = (
        "_by_clock",
        "_count",
        "_gap",
        "_proxy",
        "_random",
        "_size",
        "_stop",
        "_world",
        "group",
        "machine",
        "waiting",
    )

    def __init__(
        self, world: Timetable, machine: Machine, workload: Workload, stop: int, seed: int, index: int
    ) -> None:
        self._world = world
        self.machine = machine
        self._random: Random = stream(seed, f"workload/{index}/{machine.index}")
        self._proxy = workload.proxy
        self._size = workload.size
        self._stop = stop
        self._by_clock = workload.rate != "max"
        self._gap = int(SECOND / workload.rate) if isinstance(workload.rate, int | float) else SEND_COST
        self._count = 0
        self.group = workload.group
        self.waiting = False
        first = workload.start + int(self._random.random() * self._gap)
        if first < stop:
            world.call_at(first, self)

    def run(self) -> None:
        """Send the next message, unless the process is away; then come again."""
        if self._world.now >= self._stop:
            return
        machine = self.machine
        if machine.alive and self.group in machine.groups:
            self._count += 1
            self.waiting = not self._by_clock
            message = payload(self._random, machine.name, self._count, self._size)
            machine.send(self.group, self._count, (message,), self._proxy)
            if not self._by_clock:
                return
        self._world.call_at(self._world.now + (self._gap if machine.alive else max(self._gap, SECOND // 10)), self)

    def answered(self) -> None:
        """The last send was accepted or refused, or its process is gone."""
        if self.waiting:
            self.waiting = False
            self._world.call_at(self._world.now + self._gap, self)


def payload(random: Random, name: str, count: int, size: int | tuple[int, int]) -> bytes:
    """A message that says where it comes from, filled up to its size with noise."""
    length = size if isinstance(size, int) else random.randint(*size)
    head = f"{name} {count} ".encode()[:length]
    return head + random.randbytes(length - len(head))
