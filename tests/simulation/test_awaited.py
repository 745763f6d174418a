"""Nobody waits for one sender for ever: it is heard, its view ends without it, or who waits is told and goes on.

The scenarios that were found are kept, and hold in `test_chaos`; how long they stand still is measured here. With its
mend undone each is violated (`test_mends_undone`).
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from unisono.simulation.draw import draw
from unisono.simulation.scenario_file import read_scenario
from unisono.simulation.world import World
from unisono.trace.schema import AnyRow, DeliverRow, MembershipRow, ViewRow
from unisono.units import SECOND

KEPT = Path(__file__).parent / "kept"
NAMES = ("awaited-receiver", "awaited-crash", "awaited-senders", "stay-alone", "undeliverable")
LONGEST = 7 * SECOND
"""`patience`, `suspicion` and the view that follows."""
AWAITED_SENDERS = """
name = "awaited"
says = "A member that sends once cannot be heard by a receiver, nor the other way round."
members = 4
duration = "20s"
settle = "12s"
options = {service = "timestamp"}
member = [{index = 2, role = "auto", options = {idle = "30s"}}, {index = 3, role = "receiver"}]
workload = [{senders = [0, 1], rate = 10}]
"""
LINK = '{at = "3s", kind = "partition", groups = [[0, 1, 2], [0, 1, 3]], lasts = "LASTS"}'
BEGINS = '{at = "5s", kind = "send", member = 2}'
FATES = {
    "crashes": '{at = "5500ms", kind = "crash", member = 2}',
    "restarts": '{at = "5500ms", kind = "crash", member = 2, restart = "1s"}',
    "leaves": '{at = "5500ms", kind = "leave", member = 2}',
    "only receives": '{at = "6s", kind = "become_receiver", member = 2}',
}
UNOBTAINABLE = """
name = "unobtainable"
says = "Some do not get a message, nor a repair of it."
members = MEMBERS
duration = "20s"
settle = "12s"
options = {service = "timestamp"}
workload = [{senders = [0, 1], rate = 10}]
fault = [
    {at = "5s", kind = "lose", rate = 1, from = 1, to = LACKING, message = "data", lasts = "300ms"},
    {at = "5s", kind = "lose", rate = 1, to = LACKING, message = "repair", lasts = "12s"},
]
"""


def play(text: str, seed: int = 0) -> World:
    world = World(draw(read_scenario(text), seed), keep_rows=True)
    world.run()
    return world


def at(row: AnyRow) -> int:
    assert row.truth is not None, "the simulator knows the time"
    return row.truth


def begun(rows: list[AnyRow]) -> int:
    return min(row.truth for row in rows if row.truth is not None)


def standstill(world: World, member: str) -> int:
    """The longest time in which a member got nothing of another, from the third to the last second of the load."""
    rows = world.rows
    since, until = begun(rows) + 3 * SECOND, begun(rows) + 20 * SECOND
    got = [at(row) for row in rows if isinstance(row, DeliverRow) and row.process == member and row.source != member]
    ends = [at(row) for row in rows if row.kind == "CRASH" and row.process == member]
    times = sorted({since, *(moment for moment in got if since < moment < until), *(ends or [until])})
    return max(later - earlier for earlier, later in pairwise(times))


def members_of(view: ViewRow) -> set[str]:
    return {start.source for start in view.start}


def views_after(world: World, seconds: int, member: str) -> list[ViewRow]:
    since = begun(world.rows) + seconds * SECOND
    views = [row for row in world.rows if isinstance(row, ViewRow) and row.process == member]
    return [view for view in views if view.truth is not None and view.truth > since]


def kept(name: str) -> str:
    return (KEPT / f"{name}.toml").read_text()


def told(world: World, kind: str) -> set[str]:
    return {row.process for row in world.rows if isinstance(row, MembershipRow) and row.kind == kind and row.process}


@pytest.mark.parametrize("name", NAMES)
def test_no_member_stands_still_for_long(name: str) -> None:
    world = play(kept(name))
    receiving = {row.process for row in world.rows if isinstance(row, DeliverRow) and row.process != row.source}
    for member in sorted(receiving):
        assert standstill(world, member) < LONGEST, member


@pytest.mark.parametrize("fate", FATES)
def test_a_receiver_is_told_when_an_awaited_sender_has_gone(fate: str) -> None:
    faults = ", ".join((LINK.replace("LASTS", "12s"), BEGINS, FATES[fate]))
    world = play(f"{AWAITED_SENDERS}fault = [{faults}]")
    assert world.monitors.violations == []
    assert told(world, "SELF_FAIL") == {"p3"}
    assert standstill(world, "p3") < 2 * SECOND


def test_a_receiver_that_never_hears_a_sender_drops_out_and_is_told() -> None:
    world = play(f"{AWAITED_SENDERS}fault = [{LINK.replace('LASTS', '16s')}, {BEGINS}]")
    assert world.monitors.violations == []
    fails = [row for row in world.rows if isinstance(row, MembershipRow) and row.kind == "SELF_FAIL"]
    assert [(row.process, row.reason) for row in fails] == [("p3", "a new sender was not heard")]
    assert fails[0].truth is not None
    assert 5 * SECOND <= fails[0].truth - begun(world.rows) - 5 * SECOND < 6 * SECOND


def test_the_sender_of_a_message_that_reaches_nobody_is_left_out_and_the_others_go_on_together() -> None:
    world = play(kept("undeliverable"))
    assert told(world, "EXCLUDED") == {"p1"}
    for member in ("p0", "p2", "p3"):
        first = views_after(world, 6, member)[0]
        assert members_of(first) == {"p0", "p2", "p3"}
        assert [(reason.process, reason.reason) for reason in first.reasons] == [("p1", "messages did not come")]


@pytest.mark.parametrize(("members", "lacking"), [(4, [3]), (5, [3, 4]), (3, [2])])
def test_who_alone_lacks_a_message_is_left_out(members: int, lacking: list[int]) -> None:
    world = play(UNOBTAINABLE.replace("MEMBERS", str(members)).replace("LACKING", str(lacking)))
    assert world.monitors.violations == []
    for member in set(range(members)) - set(lacking):
        assert standstill(world, f"p{member}") < SECOND, member
    for member in lacking:
        assert standstill(world, f"p{member}") < LONGEST, member


def test_one_broken_link_parts_nobody_else() -> None:
    assert not parted(play(kept("awaited-senders")))


def parted(world: World) -> bool:
    """Whether who hears one another perfectly is in different views once both have become senders."""
    lives = {"p0", "p1", "p3"}
    return any(not lives <= members_of(view) for member in sorted(lives) for view in views_after(world, 6, member))


def test_who_accuses_the_dead_alone_is_not_left_out_in_its_place() -> None:
    assert not split_by_excuse(play(kept("lone-accuser")))


def split_by_excuse(world: World) -> bool:
    """Whether the one that knew of no excuse is left out of a view beside the dead."""
    lives = {"p0", "p1", "p2", "p4"}
    return any(not lives <= members_of(view) for member in sorted(lives) for view in views_after(world, 13, member))


def test_a_merge_that_fails_drops_no_receiver_out() -> None:
    for seed in range(3):
        assert told(play(kept("stay-alone"), seed), "SELF_FAIL") == set()
