"""A run of virtual synchrony sessions to draw and to measure, with what a benchmark would say of its messages."""

from __future__ import annotations

from msgspec.structs import replace

from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.world import World
from unisono.trace.schema import AnyRow, StatisticRow, Value

OVERHEADS = [5000.0 + 100 * number for number in range(50)]


def session_rows() -> list[AnyRow]:
    """Clients that come and go for some seconds."""
    world = World(
        draw(load("vs-servers", ("duration=10s", "settle=4s", "fault=[]", "workload[0].rate=3")), 1), keep_rows=True
    )
    world.run()
    told = next(row for row in world.rows if row.group)
    life = (told.process, told.incarnation)
    index, end = next(
        (index, row)
        for index, row in enumerate(world.rows)
        if row.kind == "END" and (row.process, row.incarnation) == life
    )
    return [
        *world.rows[:index],
        *(
            StatisticRow(
                kind="SESSION_OVERHEAD",
                run=told.run,
                group=told.group,
                process=told.process,
                incarnation=told.incarnation,
                position=end.position + number,
                at=end.at,
                host=end.host,
                truth=end.truth,
                values=[Value("nanoseconds", overhead)],
            )
            for number, overhead in enumerate(OVERHEADS)
        ),
        replace(end, position=end.position + len(OVERHEADS)),
        *world.rows[index + 1 :],
    ]
