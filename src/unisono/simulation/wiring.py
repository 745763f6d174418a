"""What the node of each machine is started with: its part in the protocol, and where the others are that it needs."""

from __future__ import annotations

from typing import Any

from unisono.settings import Settings
from unisono.simulation.cast import Cast
from unisono.simulation.ether import member_address
from unisono.simulation.scenario import Scenario


def node_arguments(scenario: Scenario, cast: Cast, machine: int, settings: Settings) -> dict[str, Any]:
    """The arguments of a node beside its name and its randomness."""
    arguments: dict[str, Any] = {
        "realm": "simulation",
        "clock_drift_limit": settings.clock_drift_limit,
        "site_timeout": settings.site_timeout,
    }
    if scenario.protocol == "intergroup":
        shared_sites = (scenario.sites or cast.members) < cast.members
        return arguments | {
            "control": settings if settings.control else None,
            "site": settings.control and shared_sites,
        }
    servers = tuple(member_address(other) for other in cast.server_machines if other != machine)
    controllers = tuple(member_address(other) for other in cast.controller_machines)
    arguments["session"] = settings
    if machine in cast.server_machines:
        return arguments | {"servers": servers, "serves": True}
    if machine in cast.controller_machines:
        return arguments | {"servers": servers, "controls": True}
    return arguments | ({"controllers": controllers} if controllers else {"servers": servers})
