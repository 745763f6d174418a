"""Makes every random choice of a seed, so that what is left is a plain scenario that can be written out.

Each choice has a stream of its own; a scenario without choices comes back as it is, with the seed.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from unisono.simulation.cast import Cast
from unisono.simulation.churn import draw_churn
from unisono.simulation.random_faults import draw_faults
from unisono.simulation.scenario import Fault, Network, Scenario
from unisono.simulation.scenario_keys import SHAPES
from unisono.simulation.streams import stream


def draw(scenario: Scenario, seed: int) -> Scenario:
    """The scenario as this seed has it: members a number, options single values, all that is random listed."""
    cast = Cast(
        _drawn(scenario.members, seed, "members"),
        _drawn(scenario.servers, seed, "servers"),
        _drawn(scenario.controllers, seed, "controllers"),
    )
    drawn = replace(
        _fit(scenario, cast),
        seed=seed,
        options=_draw_options(scenario.options, seed, "options"),
        network=_draw_network(scenario.network, seed),
    )
    if drawn.random is not None:
        drawn = replace(drawn, faults=(*drawn.faults, *draw_faults(drawn, seed)), random=None)
    plans = tuple(
        replace(plan, options=_draw_options(plan.options, seed, f"member/{plan.index}")) for plan in drawn.member_plans
    )
    drawn = replace(drawn, member_plans=plans)
    return draw_churn(drawn, seed) if drawn.churns else drawn


def _drawn(count: int | tuple[int, ...], seed: int, name: str) -> int:
    """One number, one of a range, or one of several to choose from."""
    if isinstance(count, int):
        return count
    choice = stream(seed, name)
    return choice.randint(*count) if len(count) == 2 else choice.choice(count)


def _draw_options(options: dict[str, Any], seed: int, name: str) -> dict[str, Any]:
    return {
        key: stream(seed, f"{name}/{key}").choice(value) if isinstance(value, list) else value
        for key, value in options.items()
    }


def _draw_network(network: Network, seed: int) -> Network:
    if not isinstance(network.shape, tuple):
        return network
    shape = stream(seed, "network/shape").choice(network.shape)
    return replace(network, shape=shape, **SHAPES[shape])


def _fit(scenario: Scenario, cast: Cast) -> Scenario:
    """The scenario with so many of each: whoever is not there is left out, and what was about them alone."""

    def there(indexes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(filter(cast.has, indexes))

    workloads = (
        workload if workload.senders == "all" else replace(workload, senders=there(workload.senders))
        for workload in scenario.workloads
    )
    churns = (
        replace(churn, members=there(churn.members)) if isinstance(churn.members, tuple) else churn
        for churn in scenario.churns
    )
    faults = (_fit_fault(fault, cast) for fault in scenario.faults)
    return replace(
        scenario,
        members=cast.members,
        servers=cast.servers,
        controllers=cast.controllers,
        groups=tuple(replace(group, members=there(group.members)) for group in scenario.groups),
        workloads=tuple(workload for workload in workloads if workload.senders),
        churns=tuple(churn for churn in churns if churn.members != ()),
        member_plans=tuple(plan for plan in scenario.member_plans if cast.has(plan.index)),
        faults=tuple(fault for fault in faults if fault is not None),
    )


def _fit_fault(fault: Fault, cast: Cast) -> Fault | None:
    kept: dict[str, tuple[int, ...]] = {}
    for field in ("sources", "targets", "members"):
        named: tuple[int, ...] = getattr(fault, field)
        kept[field] = tuple(filter(cast.has, named))
        if named and not kept[field]:
            return None
    sides = (tuple(filter(cast.has, group)) for group in fault.groups)
    groups = tuple(side for side in sides if side)
    if fault.groups and len(groups) < 2:
        return None
    if fault.when is not None and fault.when.member is not None and not cast.has(fault.when.member):
        return None
    return replace(fault, groups=groups, sources=kept["sources"], targets=kept["targets"], members=kept["members"])
