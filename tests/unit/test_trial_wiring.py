"""What the processes of a trial are started with: the same parts as in simulation, each with the others' endpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from unisono.simulation.cast import Cast, cast_of
from unisono.simulation.scenario import MemberPlan, Scenario
from unisono.trials.charge import Charge
from unisono.trials.wiring import charges
from unisono.units import MILLISECOND, SECOND


def started(cast: Cast, namespaces: bool) -> list[Charge]:
    scenario = Scenario(
        name="wiring",
        seed=1,
        protocol="virtual_synchrony" if cast.servers else "intergroup",
        members=cast.members,
        servers=cast.servers,
        controllers=cast.controllers,
        options={"block": "ask", "block_timeout": 300 * MILLISECOND} if cast.servers else {},
        member_plans=(MemberPlan(index=1, joins=SECOND),),
    )
    assert cast_of(scenario) == cast
    return charges(scenario, cast, "r", Path("trial"), namespaces)


def test_a_session_in_namespaces_has_an_endpoint_for_each_and_knows_its_servers() -> None:
    made = started(Cast(2, 2), namespaces=True)
    assert [(one.name, one.part) for one in made] == [
        ("p0", "client"),
        ("p1", "client"),
        ("server:0", "server"),
        ("server:1", "server"),
    ]
    endpoints = [f"{one.interface}:{one.port}" for one in made]
    assert len(set(endpoints)) == 4
    assert all(one.servers == endpoints[2:] and one.controllers == [] for one in made)
    assert [one.seeds for one in made[:2]] == [[endpoints[1]], [endpoints[0]]]
    assert [one.groups for one in made] == [["g"], ["g"], [], []]
    assert [one.later for one in made] == [False, True, False, False]
    assert made[3].written_settings == {"block": "ask", "block_timeout": "300ms"}


def test_clients_of_controllers_are_told_of_these_and_controllers_find_each_other() -> None:
    made = started(Cast(2, 1, 2), namespaces=True)
    endpoints = [f"{one.interface}:{one.port}" for one in made]
    assert [one.part for one in made] == ["client", "client", "server", "controller", "controller"]
    assert all(one.controllers == endpoints[3:] for one in made)
    assert [one.seeds for one in made[3:]] == [[endpoints[4]], [endpoints[3]]]


@pytest.mark.parametrize("cast", [Cast(2, 2, 1), Cast(2)])
def test_on_the_loopback_only_those_who_serve_have_endpoints_beforehand(cast: Cast) -> None:
    made = started(cast, namespaces=False)
    assert [one.port == 0 for one in made] == [True] * cast.members + [False] * cast.others
    assert len({one.port for one in made[cast.members :]}) == cast.others
    assert all(one.transport == "multicast" and one.seeds == [] for one in made)
