"""States in the simulator: crashes, disks, partitions and slow applications, and what a broken transfer looks like."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.events import Message
from unisono.simulation import state
from unisono.simulation.draw import draw
from unisono.simulation.scenario_file import read_scenario
from unisono.simulation.world import World
from unisono.transfer.kept import after

SMALL = """
name = "small-states"
members = 4
state = "60kB"
duration = "8s"
settle = "12s"

[options]
service = "timestamp"
state_chunk_bytes = "1KiB"
state_rate_bytes = "40kB"
state_patience = "2s"

[[workload]]
rate = 20

[[member]]
index = 3
joins = "2500ms"
"""

FAULTS = {
    "nothing happens": "",
    "providers crash": '[[fault]]\nat = "3200ms"\nkind = "crash"\nmember = [0, 1]\nrestart = "1s"\n',
    "the newcomer crashes": '[[fault]]\nat = "3200ms"\nkind = "crash"\nmember = 3\nrestart = "1s"\n',
    "the newcomer is cut off": '[[fault]]\nat = "3s"\nkind = "isolate"\nmember = 3\nlasts = "3s"\n',
    "its disk is full": '[[fault]]\nat = "3s"\nkind = "disk"\nmember = 3\nwhat = "full"\n',
    "its disk flips a bit": '[[fault]]\nat = "3500ms"\nkind = "disk"\nmember = 3\nwhat = "flip"\n',
    "the others' disks are full": '[[fault]]\nat = "2s"\nkind = "disk"\nmember = [0, 1]\nwhat = "full"\n',
    "nobody reads": '[[fault]]\nat = "2s"\nkind = "stop_reading"\nmember = [0, 1, 2]\nlasts = "2s"\n',
    "two sides": '[[fault]]\nat = "3s"\nkind = "partition"\ngroups = [[0, 3], [1, 2]]\nlasts = "3s"\n',
    "a receiver": '[[member]]\nindex = 2\nrole = "receiver"\njoins = "3s"\n',
}


def play(text: str, seed: int = 1) -> World:
    world = World(draw(read_scenario(text), seed), keep_rows=True)
    world.run()
    return world


def loaded(world: World) -> list[str]:
    return [row.process for row in world.rows if row.kind == "LOADED"]


@pytest.mark.parametrize("fault", FAULTS)
def test_who_joins_late_has_the_state_in_the_end(fault: str) -> None:
    world = play(SMALL + FAULTS[fault])
    assert world.monitors.violations == []
    assert "p3" in loaded(world), "the newcomer was given the state"
    has = {machine.name: machine.states["g"].has for machine in world.machines}
    assert all(has.values()), has
    if fault not in ("two sides", "the newcomer is cut off"):  # sides that part may differ from then on
        assert len({machine.states["g"].digest for machine in world.machines}) == 1
    assert world.counters["transfer: a chunk came again"] == 0


def test_the_disk_of_a_newcomer_is_held_against_the_digests() -> None:
    found = 0
    for seed in range(6):
        world = play(SMALL + FAULTS["its disk flips a bit"], seed)
        found += world.counters["transfer: a state was not taken"]
    assert found, "some flip hit a chunk that was there already"


def test_a_newcomer_that_misses_a_message_after_its_point_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The property is no formality: a transfer that loses one message breaks it."""
    right = after

    def wrong(*arguments: Any) -> Any:
        skipped = False
        for event in right(*arguments):
            if isinstance(event, Message) and not skipped:
                skipped = True
                continue
            yield event

    monkeypatch.setattr(state, "after", wrong)
    world = play(SMALL)
    assert "D10" in {violation.property for violation in world.monitors.violations}


def test_a_newcomer_that_takes_a_message_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "after", lambda point, events: list(events)[1:])
    world = play(SMALL)
    assert "D10" in {violation.property for violation in world.monitors.violations}
