"""Receivers that come and go around senders, at any size, and what that does to the others."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.scenario import Churn, Scenario
from unisono.simulation.world import World
from unisono.trace.schema import DeliverRow, SendRow
from unisono.units import MILLISECOND, SECOND

ROUND_TRIP = 2 * (2 * MILLISECOND + MILLISECOND // 5)
"""There and back on the network of `receiver-churn`."""
BEGINS = 2 * SECOND
"""When receivers begin to come."""


def receiver_churn(seed: int, rate: float, seconds: int, churn: bool = True, **options: Any) -> Scenario:
    """The built-in scenario with so many joins a second, for so long; or the same without any."""
    whole = load("receiver-churn")
    senders = len(whole.member_plans)
    members = senders + int(2 * rate)
    small = replace(
        whole,
        members=members,
        sites=min(members, 16),
        duration=seconds * SECOND,
        options={**whole.options, **options},
        churns=(Churn(rate=rate, stay=(SECOND // 2, 3 * SECOND // 2), start=BEGINS),),
    )
    drawn = draw(small, seed)
    if not churn:  # nobody comes: those who would have are not there
        plans = tuple(plan for plan in drawn.member_plans if plan.index < senders)
        drawn = replace(drawn, members=senders, sites=senders, member_plans=plans, faults=())
    return drawn


def repairs(world: World, since: int) -> int:
    """How often the membership was repaired since then."""
    return sum(row.kind == "MRA" and (row.truth or 0) > since for row in world.rows)


def latencies(world: World, since: int) -> dict[str, int]:
    """The longest time from a send to its delivery at each process that delivered something."""
    sent = {(row.process, row.number): row.truth for row in world.rows if isinstance(row, SendRow)}
    longest: dict[str, int] = {}
    for row in world.rows:
        if isinstance(row, DeliverRow) and row.truth is not None:
            at = sent[row.source, row.number]
            if at is not None and at > since:
                longest[row.process] = max(longest.get(row.process, 0), row.truth - at)
    return longest


def longest_pause(world: World, since: int, until: int) -> int:
    """The longest time in which a sender, that sends by the clock, sent nothing."""
    sent: dict[str, list[int]] = {}
    for row in world.rows:
        if isinstance(row, SendRow) and row.truth is not None and since < row.truth < until:
            sent.setdefault(row.process, []).append(row.truth)
    return max(later - earlier for moments in sent.values() for earlier, later in pairwise(moments))
