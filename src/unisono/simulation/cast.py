"""Who takes part in a run: members, then membership servers, then controllers, each on a machine of its own.

A scenario names a member by its index, and the others as "server:0" and "controller:1". So that one number stands for
anybody, servers and controllers have numbers beyond those of all members, however many members a seed draws.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from unisono.simulation.scenario import Fault, Scenario, When

FIRST_SERVER = 100_000
FIRST_CONTROLLER = 200_000
_FIRST = {"member": 0, "server": FIRST_SERVER, "controller": FIRST_CONTROLLER}
_NAMED = re.compile(r"(server|controller):(0|[1-9]\d{0,3})")


def server(number: int) -> int:
    """What stands for a server in a scenario."""
    return FIRST_SERVER + number


def controller(number: int) -> int:
    """What stands for a controller in a scenario."""
    return FIRST_CONTROLLER + number


def is_member(who: int) -> bool:
    return who < FIRST_SERVER


def kind_of(who: int) -> Literal["member", "server", "controller"]:
    if is_member(who):
        return "member"
    return "server" if who < FIRST_CONTROLLER else "controller"


def read_name(text: str) -> int | None:
    """Who has that name, or None where it is the name of no server or controller."""
    match = _NAMED.fullmatch(text)
    if match is None:
        return None
    return server(int(match[2])) if match[1] == "server" else controller(int(match[2]))


def name_of(who: int) -> str:
    """How a scenario names somebody."""
    kind = kind_of(who)
    return str(who) if kind == "member" else f"{kind}:{who - _FIRST[kind]}"


class Cast(Struct, frozen=True):
    """How many there are of each. Machines are counted through: members, servers, controllers."""

    members: int
    servers: int = 0
    controllers: int = 0

    @property
    def size(self) -> int:
        return self.members + self.servers + self.controllers

    @property
    def others(self) -> int:
        """How many are no members."""
        return self.servers + self.controllers

    @property
    def server_machines(self) -> range:
        return range(self.members, self.members + self.servers)

    @property
    def controller_machines(self) -> range:
        return range(self.members + self.servers, self.size)

    def everybody(self) -> tuple[int, ...]:
        """As a scenario names them, in the order of their machines."""
        return (
            *range(self.members),
            *map(server, range(self.servers)),
            *map(controller, range(self.controllers)),
        )

    def has(self, who: int) -> bool:
        kind = kind_of(who)
        many = {"member": self.members, "server": self.servers, "controller": self.controllers}
        return who - _FIRST[kind] < many[kind]

    def machine(self, who: int) -> int:
        """The index of somebody's machine."""
        assert self.has(who), "a checked scenario names who is there"
        kind = kind_of(who)
        before = {"member": 0, "server": self.members, "controller": self.members + self.servers}
        return before[kind] + who - _FIRST[kind]

    def process_name(self, machine: int) -> str:
        """The name of the process that lives on a machine."""
        return f"p{machine}" if machine < self.members else name_of(self.everybody()[machine])

    def on_machines(self, fault: Fault) -> Fault:
        """The fault with machines in place of names.

        Servers and controllers that no group of a partition names are reached from all of them: a partition of
        members does not take the servers away.
        """
        if not self.others:
            return fault
        groups = tuple(self._machines(group) for group in fault.groups)
        if groups:
            named = {machine for group in groups for machine in group}
            between = tuple(machine for machine in range(self.members, self.size) if machine not in named)
            groups = tuple(group + between for group in groups)
        when = fault.when
        if when is not None and when.member is not None:
            when = When(kind=when.kind, member=self.machine(when.member), count=when.count)
        return replace(
            fault,
            when=when,
            groups=groups,
            sources=self._machines(fault.sources),
            targets=self._machines(fault.targets),
            members=self._machines(fault.members),
        )

    def _machines(self, named: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(map(self.machine, named))


def cast_of(scenario: Scenario) -> Cast:
    """Who takes part in a drawn scenario."""
    assert isinstance(scenario.members, int), "members are drawn"
    assert isinstance(scenario.servers, int), "servers are drawn"
    assert isinstance(scenario.controllers, int), "controllers are drawn"
    return Cast(scenario.members, scenario.servers, scenario.controllers)


def largest_cast(scenario: Scenario) -> Cast:
    """As many of each as a seed may draw."""

    def most(count: int | tuple[int, ...]) -> int:
        return count if isinstance(count, int) else max(count)

    return Cast(most(scenario.members), most(scenario.servers), most(scenario.controllers))
