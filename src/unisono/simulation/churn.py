"""Draws the comings and goings of [[churn]]: so many members join in a second, and each stays for a while.

What comes out is a plain scenario: the first time that each joins, and a `leave` and a `join` for every turn after it.
Where it is of roles, a `become_receiver` and a `become_sender` for every turn.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from msgspec.structs import replace

from unisono.simulation.scenario import Churn, Fault, MemberPlan, Scenario
from unisono.simulation.streams import stream
from unisono.units import MICROSECOND, MILLISECOND, SECOND

AWAY = 10 * MILLISECOND
"""Who leaves stays away at least so long."""


def churned(scenario: Scenario, churn: Churn) -> tuple[int, ...]:
    """Who comes and goes, or changes its role; `receivers` are all members that only receive."""
    if isinstance(churn.members, tuple):
        return churn.members
    assert isinstance(scenario.members, int), "members are drawn before churn"
    roles = {plan.index: plan.options.get("role") for plan in scenario.member_plans}
    everywhere = scenario.options.get("role")
    receivers = (churn.members or ("receivers" if churn.of == "members" else "senders")) == "receivers"
    every = range(scenario.members)
    return tuple(index for index in every if ((roles.get(index) or everywhere) == "receiver") == receivers)


def draw_churn(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with every turn written out, in place of the tables that ask for it."""
    plans = {plan.index: plan for plan in scenario.member_plans}
    turns: list[Fault] = []
    for number, churn in enumerate(scenario.churns):
        for member, stays in _turns(scenario, churn, seed, number):
            if churn.of == "roles":
                turns += [Fault(kind="become_receiver", at=begins, members=(member,)) for begins, _ in stays]
                turns += [Fault(kind="become_sender", at=ends, members=(member,)) for _, ends in stays if ends]
                continue
            plan = plans.get(member, MemberPlan(index=member))
            plans[member] = replace(plan, joins=stays[0][0])
            turns += [Fault(kind="join", at=joins, members=(member,)) for joins, _ in stays[1:]]
            turns += [Fault(kind="leave", at=leaves, members=(member,)) for _, leaves in stays if leaves is not None]
    return replace(
        scenario,
        member_plans=tuple(plan for _, plan in sorted(plans.items())),
        faults=(*scenario.faults, *sorted(turns, key=lambda fault: (fault.at or 0, fault.members))),
        churns=(),
    )


Stay = tuple[int, int | None]
"""When a member joins and when it leaves, or only receives; None where it does so at the end."""


def _turns(scenario: Scenario, churn: Churn, seed: int, number: int) -> list[tuple[int, list[Stay]]]:
    """Each member with its turns. Whoever was away for longest comes next, so that all have their turn."""
    random = stream(seed, f"churn/{number}")
    stop = scenario.duration if churn.stop is None else churn.stop
    low, high = churn.stay if isinstance(churn.stay, tuple) else (churn.stay, churn.stay)
    moments = sorted(random.randrange(churn.start, stop) for _ in range(joins(scenario, churn)))
    members = list(churned(scenario, churn))
    random.shuffle(members)
    away = [(churn.start, place, member) for place, member in enumerate(members)]
    heapify(away)
    stays: dict[int, list[Stay]] = {}
    for place, moment in enumerate(moments, len(members)):
        free, _, member = heappop(away)
        at = max(moment, free) // MICROSECOND * MICROSECOND
        until = at + random.randint(low, high) // MICROSECOND * MICROSECOND
        if at < stop:
            stays.setdefault(member, []).append((at, until if until < stop else None))
        heappush(away, (until + AWAY, place, member))
    return sorted(stays.items())


def joins(scenario: Scenario, churn: Churn) -> int:
    """How often somebody joins in the whole run."""
    stop = scenario.duration if churn.stop is None else churn.stop
    return int(churn.rate * (stop - churn.start) / SECOND)
