"""Why a member is gone, as the views of those who go on say it: what the servers know, and never more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.session_worlds import SITUATIONS, moment, run_session, session, session_situation
from unisono.simulation.cast import controller, server
from unisono.simulation.scenario import Fault, Workload
from unisono.simulation.world import World
from unisono.trace.schema import ViewRow
from unisono.units import MILLISECOND, SECOND

CAME = "joined"
AT = SECOND
LOST_SERVER = Fault(kind="crash", at=AT, members=(server(0),))
PARTED = Fault(kind="partition", at=AT, groups=((0, 1, server(0)), (2, 3, server(1))), lasts=2 * SECOND)


def goings(world: World) -> list[tuple[str, str, str]]:
    """Who says of whom why it is gone, in order."""
    rows = [row for row in world.rows if isinstance(row, ViewRow)]
    return [(row.process, one.process, one.reason) for row in rows for one in row.reasons if one.reason != CAME]


def happens(kind: Any, member: int, at: int = AT, **more: Any) -> Fault:
    return Fault(kind=kind, at=at, members=(member,), **more)


CAUSES: dict[str, tuple[str, dict[str, Any]]] = {
    "it left": ("left", {"faults": (happens("leave", 3),)}),
    "it left a weak group": ("left", {"faults": (happens("leave", 3),), "semantics": "weak"}),
    "it left while another died": (
        "left",
        {"faults": (happens("crash", 2), happens("leave", 3, AT + SECOND)), "failover": 2 * SECOND},
    ),
    "it left, with another server than at first": (
        "left",
        {"faults": (LOST_SERVER, happens("leave", 3, AT + 2 * SECOND))},
    ),
    "it crashed": ("suspected", {"faults": (happens("crash", 3),)}),
    "it crashed in a weak group": ("suspected", {"faults": (happens("crash", 3),), "semantics": "weak"}),
    "it was stopped": ("suspected", {"faults": (happens("pause", 3, lasts=4 * SECOND),)}),
    "it crashed with the first server": ("suspected", {"faults": (happens("crash", 3), LOST_SERVER)}),
    "it crashed with the second server": (
        "suspected",
        {"faults": (happens("crash", 3), happens("crash", server(1)))},
    ),
    "others do not hear it": (
        "suspected",
        {"faults": (Fault(kind="lose", at=AT, rate=1.0, sources=(3,), targets=(0, 1, 2), lasts=2 * SECOND),)},
    ),
    "the servers are parted": ("suspected", {"faults": (PARTED,)}),
    "the servers are parted, and nobody is kept": ("suspected", {"faults": (PARTED,), "failover": 0}),
    "it came back as another process": ("restarted", {"faults": (happens("crash", 3, restart=300 * MILLISECOND),)}),
    "it left its controller": ("left", {"faults": (happens("leave", 3),), "controllers": 2}),
    "it left its controller, which goes too": ("left", {"faults": (happens("leave", 3),), "controllers": 4}),
    "it crashed, and its controller goes": ("suspected", {"faults": (happens("crash", 3),), "controllers": 4}),
    "its controller hears nothing of it": (
        "suspected",
        {"faults": (happens("pause", 3, lasts=4 * SECOND),), "controllers": 2},
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_those_who_go_on_say_why_one_is_gone(cause: str) -> None:
    reason, situation = CAUSES[cause]
    drawn = session(
        settle=3 * SECOND,
        workloads=(Workload(group="g", rate=10.0, size=50),),
        **situation,
    )
    world = run_session(drawn)
    assert not world.monitors.violations
    said = {(by, why) for by, gone, why in goings(world) if gone == "p3"}
    assert said >= {("p0", reason), ("p1", reason)}
    assert {why for _, why in said} == {reason}


def test_a_server_that_knows_nothing_says_nothing() -> None:
    """The only server begins anew, and those who come to it first go on without the others."""
    world = run_session(
        session(servers=1, faults=(happens("crash", server(0), restart=200 * MILLISECOND),), settle=3 * SECOND)
    )
    assert not world.monitors.violations
    assert {why for _, _, why in goings(world)} == {"gone"}


def test_who_crashes_with_its_controller_is_suspected() -> None:
    faults = (happens("crash", controller(1)), happens("crash", 1), happens("crash", 3))
    world = run_session(session(servers=1, controllers=2, faults=faults, settle=3 * SECOND))
    assert not world.monitors.violations
    assert {(gone, why) for _, gone, why in goings(world)} == {("p1", "suspected"), ("p3", "suspected")}


@pytest.mark.parametrize("name", SITUATIONS)
def test_only_who_left_has_left_and_only_who_has_a_later_life_restarted(name: str) -> None:
    world = run_session(session_situation(name, 3))
    left: dict[tuple[str, int], int] = {}
    lives: dict[str, list[int]] = {}
    told = 0
    for row in world.rows:
        if row.kind == "LEAVE":
            left.setdefault((row.process, row.incarnation), moment(row))
        elif row.kind == "JOIN":
            lives.setdefault(row.process, []).append(row.incarnation)
        if isinstance(row, ViewRow):
            for one in row.reasons:
                told += one.reason != CAME
                if one.reason == "left":
                    assert left[one.process, one.incarnation] <= moment(row)
                elif one.reason == "restarted":
                    assert max(lives[one.process]) > one.incarnation
    assert told
