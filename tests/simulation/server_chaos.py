"""A drawn script for membership servers and their clients: everything that can happen, in any order, and then quiet."""

from __future__ import annotations

from tests.simulation.server_clients import Book, check
from tests.simulation.server_model import GROUP, World
from unisono.identity import ProcessId
from unisono.units import MILLISECOND, SECOND


class Chaos:
    """One script, drawn from the generator of its world."""

    def __init__(self, world: World, clients: int) -> None:
        self.world = world
        self._names = [f"c{number}" for number in range(clients)]
        self._left: dict[ProcessId, Book] = {}
        """What a client that left the group knew of it last."""
        self._controllers = self._names[clients // 2 + 1 :: 2]
        self._charges = {name: [ProcessId(f"{name}-{n}", 1) for n in range(3)] for name in self._controllers}
        self._wanderers = [ProcessId(f"w{n}", 1) for n in range(2)]
        """Those who go from one controller to another, which the one that they leave does not notice."""
        self._entries = 1

    def run(self, steps: int) -> None:
        world, random = self.world, self.world.random
        for _ in range(steps):
            drawn = random.random()
            if drawn < 0.80:
                for _ in range(random.randrange(1, 8)):
                    world.deliver()
            elif drawn < 0.90:
                world.pass_time(int(random.random() * 100 * MILLISECOND))
            elif drawn < 0.97:
                self._disturb_clients()
            else:
                self._disturb_servers()

    def calm(self) -> None:
        """All faults end, and every server lives."""
        world = self.world
        world.cuts.clear()
        for name in world.names:
            if name not in world.servers:
                world.start_server(name)
        for client in world.clients.values():
            if client.accused.get(GROUP):
                client.accuse(GROUP)
        world.run(6 * SECOND, 50 * MILLISECOND)
        told = len(world.announced)
        world.run(2 * SECOND, 50 * MILLISECOND)
        check(len(world.announced) == told, "views change, and nothing happens")

    def _disturb_clients(self) -> None:
        world, random = self.world, self.world.random
        name = random.choice(self._names)
        client = world.clients.get(name)
        if client is None:
            client = world.start_client(name, random.choice(world.names), name in self._controllers)
            client.join(GROUP)
            return
        if client.controller and GROUP in client.books and random.random() < 0.5:
            self._entries += 1
            new = [charge for charge in (*self._charges[name], *self._wanderers) if random.random() < 0.5]
            old = [charge for charge in client.charges.get(GROUP, {}) if charge in self._wanderers]
            client.charge(GROUP, *dict.fromkeys((*new, *old)), entry=self._entries)
            return
        match random.randrange(8):
            case 0:
                world.kill(name)
            case 1:
                world.end_client(name)
            case 2 | 3:
                if GROUP in client.books:
                    self._left[client.process] = client.leave(GROUP)
                else:
                    client.join(GROUP, self._left.get(client.process))
            case 4:
                world.move(name, random.choice(world.names), random.random() < 0.5)
            case 5:
                world.break_channels(name, world.places[name])
            case 6:
                others = [other.process for other in world.clients.values() if other is not client]
                accused = random.sample(others, min(len(others), random.randrange(3)))
                if GROUP in client.books:
                    client.accuse(GROUP, *accused)
            case _:
                self._toggle(name, random.choice(world.names))

    def _disturb_servers(self) -> None:
        world, random = self.world, self.world.random
        name, other = random.choice(world.names), random.choice(world.names)
        match random.randrange(4):
            case 0 if name in world.servers:
                world.kill(name)
            case 0:
                world.start_server(name)
            case 1:
                world.break_channels(name, other)
            case _ if name != other:
                self._toggle(name, other)
            case _:
                world.pass_time(int(random.random() * 2 * SECOND))

    def _toggle(self, one: str, other: str) -> None:
        self.world.cuts ^= {frozenset((one, other))}
