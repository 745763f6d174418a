"""What the process of each machine of a trial is started with: its part, its endpoint, and where the others are."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from unisono.runtime.interfaces import LOOPBACK
from unisono.simulation.cast import Cast
from unisono.simulation.scenario import DEFAULT_GROUP, GroupPlan, MemberPlan, Scenario
from unisono.spelling import split_endpoint
from unisono.trials.charge import Charge, Part
from unisono.trials.hosts import address_of

PORT = 4700


def charges(scenario: Scenario, cast: Cast, realm: str, folder: Path, namespaces: bool) -> list[Charge]:
    """In the order of their machines. What they write is in the folder."""
    endpoints = [f"{address_of(machine)}:{PORT}" for machine in range(cast.size)]
    if not namespaces:
        endpoints = [f"{LOOPBACK}:0"] * cast.members + free_endpoints(cast.others)
    return [_charge(scenario, cast, machine, realm, folder, endpoints, namespaces) for machine in range(cast.size)]


def _charge(
    scenario: Scenario, cast: Cast, machine: int, realm: str, folder: Path, endpoints: Sequence[str], mesh: bool
) -> Charge:
    assert scenario.seed is not None, "a trial runs a drawn scenario"
    name, part = cast.process_name(machine), _part(cast, machine)
    interface, port = split_endpoint(endpoints[machine], 0)
    plans = {plan.index: plan for plan in scenario.member_plans}
    plan = plans.get(machine, MemberPlan(index=machine))
    groups = scenario.groups or (GroupPlan(name=DEFAULT_GROUP, members=tuple(range(cast.members))),)
    fellows = [other for other in range(cast.size) if other != machine and _part(cast, other) == part]
    return Charge(
        name=name,
        life=0,
        seed=scenario.seed,
        realm=realm,
        interface=interface,
        port=port,
        seeds=[endpoints[other] for other in fellows] if mesh else [],
        trace=str(folder / "spool"),
        storage=str(folder / "disk" / name),
        groups=[group.name for group in groups if machine in group.members],
        settings={**scenario.options, **plan.options},
        loads=[],
        transport="mesh" if mesh else "multicast",
        later=plan.joins > 0,
        part=part,
        servers=[endpoints[server] for server in cast.server_machines],
        controllers=[endpoints[controller] for controller in cast.controller_machines],
    )


def _part(cast: Cast, machine: int) -> Part:
    if machine in cast.server_machines:
        return "server"
    if machine in cast.controller_machines:
        return "controller"
    return "client" if cast.servers else "peer"


def free_endpoints(count: int) -> list[str]:
    """Endpoints of this machine that nobody uses at the moment, for datagrams as for channels."""
    with ExitStack() as stack:
        found: list[str] = []
        while len(found) < count:
            channels = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            datagrams = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            channels.bind((LOOPBACK, 0))
            port = channels.getsockname()[1]
            try:
                datagrams.bind((LOOPBACK, port))
            except OSError:
                continue  # somebody has it for datagrams
            found.append(f"{LOOPBACK}:{port}")
        return found
