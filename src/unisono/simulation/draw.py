"""Makes every random choice of a seed, so that what is left is a plain scenario that can be written out.

Each choice has a stream of its own; a scenario without choices comes back as it is, with the seed.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from unisono.simulation.churn import draw_churn
from unisono.simulation.random_faults import draw_faults
from unisono.simulation.scenario import Fault, Scenario
from unisono.simulation.streams import stream


def draw(scenario: Scenario, seed: int) -> Scenario:
    """The scenario as this seed has it: members a number, options single values, all that is random listed."""
    members = scenario.members
    if not isinstance(members, int):
        members = stream(seed, "members").randint(*members)
    drawn = replace(
        _fit(scenario, members),
        seed=seed,
        options=_draw_options(scenario.options, seed, "options"),
    )
    if drawn.random is not None:
        drawn = replace(drawn, faults=(*drawn.faults, *draw_faults(drawn, seed)), random=None)
    plans = tuple(
        replace(plan, options=_draw_options(plan.options, seed, f"member/{plan.index}")) for plan in drawn.member_plans
    )
    drawn = replace(drawn, member_plans=plans)
    return draw_churn(drawn, seed) if drawn.churns else drawn


def _draw_options(options: dict[str, Any], seed: int, name: str) -> dict[str, Any]:
    return {
        key: stream(seed, f"{name}/{key}").choice(value) if isinstance(value, list) else value
        for key, value in options.items()
    }


def _fit(scenario: Scenario, members: int) -> Scenario:
    """The scenario with this many members: whoever is not there is left out, and what was about them alone."""

    def there(indexes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(index for index in indexes if index < members)

    workloads = (
        workload if workload.senders == "all" else replace(workload, senders=there(workload.senders))
        for workload in scenario.workloads
    )
    churns = (
        replace(churn, members=there(churn.members)) if isinstance(churn.members, tuple) else churn
        for churn in scenario.churns
    )
    faults = (_fit_fault(fault, members) for fault in scenario.faults)
    return replace(
        scenario,
        members=members,
        groups=tuple(replace(group, members=there(group.members)) for group in scenario.groups),
        workloads=tuple(workload for workload in workloads if workload.senders),
        churns=tuple(churn for churn in churns if churn.members != ()),
        member_plans=tuple(plan for plan in scenario.member_plans if plan.index < members),
        faults=tuple(fault for fault in faults if fault is not None),
    )


def _fit_fault(fault: Fault, members: int) -> Fault | None:
    kept: dict[str, tuple[int, ...]] = {}
    for field in ("sources", "targets", "members"):
        named: tuple[int, ...] = getattr(fault, field)
        kept[field] = tuple(index for index in named if index < members)
        if named and not kept[field]:
            return None
    sides = (tuple(index for index in group if index < members) for group in fault.groups)
    groups = tuple(side for side in sides if side)
    if fault.groups and len(groups) < 2:
        return None
    if fault.when is not None and fault.when.member is not None and fault.when.member >= members:
        return None
    return replace(fault, groups=groups, sources=kept["sources"], targets=kept["targets"], members=kept["members"])
