"""Structured sessions of any size, and what one join in them costs a client that was there before."""

from __future__ import annotations

from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.world import World
from unisono.trace.schema import AnyRow, ViewRow
from unisono.units import SECOND

WATCHED, LATE = 0, 2
"""The client whose bytes are counted, and the one that joins after five seconds."""


def bytes_of_a_join(members: int, controllers: int, seed: int = 1) -> int:
    """What a client sends and receives more in two seconds with a join than in the two before."""
    changes = (f"members={members}", f"controllers={controllers}", "workload=[]")
    sizes: list[int] = []
    newest: dict[str, int] = {}

    def watch(row: AnyRow) -> None:
        if isinstance(row, ViewRow):
            newest[row.process] = len(row.start)
            if row.process == f"p{WATCHED}":
                sizes.append(len(row.start))

    world = World(draw(load("vs-large-1000", changes), seed), keep_rows=False, watch=watch)
    client = world.machines[WATCHED]
    counted: list[int] = []
    for second in (3, 5, 7):
        world.schedule(second * SECOND, lambda now: counted.append(client.sent_bytes + client.received_bytes))
    world.run()
    assert world.monitors.violations == []
    assert sizes[-2:] == [members - 1, members], "all were there, and then one joined"
    assert newest == {f"p{index}": members for index in range(members)}, "the join is complete at everybody"
    before, until, after = counted
    return (after - until) - (until - before)
