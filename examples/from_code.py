"""A scenario from code: one receiver is cut off for longer than the others wait, is told so, and follows again.

Run it with `python examples/from_code.py`.
"""

from __future__ import annotations

from unisono.simulation.draw import draw
from unisono.simulation.scenario import Fault, Network, Scenario, Workload
from unisono.simulation.world import World
from unisono.trace.schema import MembershipRow, ViewRow
from unisono.units import MILLISECOND, SECOND

SCENARIO = Scenario(
    name="cut-off",
    members=3,
    duration=12 * SECOND,
    settle=5 * SECOND,
    options={"patience": 2 * SECOND},
    network=Network(latency=2 * MILLISECOND, jitter=MILLISECOND, loss=0.01),
    workloads=(Workload(group="g", rate=10.0, size=(20, 200)),),
    faults=(Fault(kind="isolate", at=4 * SECOND, members=(2,), lasts=5 * SECOND),),
)


def main() -> World:
    """Run it, and print what the receiver that was cut off got to know."""
    world = World(draw(SCENARIO, seed=1), keep_rows=True)
    world.run()
    for row in world.rows:
        if row.process != "p2" or row.truth is None:
            continue
        at = row.truth / SECOND
        if isinstance(row, ViewRow):
            members = " ".join(start.source for start in row.start)
            why = ", ".join(f"{reason.process} {reason.reason}" for reason in row.reasons)
            print(f"{at:6.2f} s  follows {members}  ({why})")
        elif isinstance(row, MembershipRow) and row.kind == "LEFT_BEHIND":
            print(f"{at:6.2f} s  left behind by {row.peer}")
    verdict = world.monitors.counts or "every promise held"
    print(f"{world.counters['SEND']} messages sent, {world.counters['DELIVER']} delivered: {verdict}")
    return world


if __name__ == "__main__":
    main()
