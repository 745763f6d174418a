"""One view change taken apart: somebody is killed after each event of it, and the group must go on as if nothing were.

Three members and three servers. The third member dies with messages on their way that only the first has, so that it
must forward them; the second is the slowest. Where controllers take part for the members, these are killed too. The
steps are the events that the simulated world goes through from the first start-change to the last view: a frame or a
datagram that arrives, a timer, a send.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unisono.simulation.cast import cast_of
from unisono.simulation.scenario import Fault, MemberPlan, Network, Scenario, Workload
from unisono.simulation.world import World
from unisono.trace.schema import AnyRow, ViewRow
from unisono.units import MICROSECOND, MILLISECOND, SECOND

FORWARDER, SLOWEST, DEAD, JOINER = 0, 1, 2, 3
SERVERS = 3
DEATH = 400 * MILLISECOND
"""When the third member dies; nothing of what it said in the last part of its life reached the second."""
UNHEARD = 60 * MILLISECOND
SETTLE = 11 * SECOND

SITUATIONS: dict[str, dict[str, Any]] = {
    "a member is gone": {},
    "a member is gone and another joins": {"joins": True},
    "the application is asked to finish": {"block": "ask"},
    "sending goes on": {"joins": True, "optimistic": True, "optimistic_policy": "resend"},
    "controllers take part": {"joins": True, "controllers": 2},
    "clients of controllers are asked to finish": {"joins": True, "controllers": 2, "block": "ask"},
}


def scenario(joins: bool = False, controllers: int = 0, **options: Any) -> Scenario:
    """The view change, with one who joins in the middle of it or without, and by controllers or without."""
    last = DEATH - UNHEARD
    return Scenario(
        name="every-step",
        protocol="virtual_synchrony",
        seed=1,
        members=4 if joins else 3,
        servers=SERVERS,
        controllers=controllers,
        duration=1500 * MILLISECOND,
        settle=SETTLE,
        network=Network(latency=200 * MICROSECOND, jitter=100 * MICROSECOND),
        workloads=(
            Workload(group="g", rate=40.0, size=(50, 300), stop=SECOND),
            Workload(group="g", senders=(DEAD,), rate=200.0, size=100, start=last, stop=SECOND),
        ),
        member_plans=(MemberPlan(index=JOINER, joins=DEATH),) if joins else (),
        faults=(
            Fault(kind="slow", at=last, members=(SLOWEST,), times=10, lasts=SECOND),
            Fault(kind="lose", at=last, rate=1.0, sources=(DEAD,), targets=(SLOWEST,), lasts=UNHEARD),
            Fault(kind="crash", at=DEATH, members=(DEAD,)),
        ),
        options={"failover": 100 * MILLISECOND, "forward_timeout": 20 * MILLISECOND, **options},
    )


def victims(drawn: Scenario) -> list[int]:
    """Who may be killed, by machine: the forwarder, the slowest client, the joiner, each server and each controller."""
    return [machine for machine in range(cast_of(drawn).size) if machine != DEAD]


class SteppedWorld(World):
    """A world that counts the steps of the view change after the death, and kills somebody after one of them."""

    def __init__(self, drawn: Scenario, kill_after: int | None = None, victim: int = 0) -> None:
        self.steps = 0
        self.last_step = 0
        """The step at which the last view of the change was installed."""
        self._kill_after = kill_after
        self._victim = victim
        self._counting = False
        super().__init__(drawn, keep_rows=True, watch=self._look)

    def schedule(self, at: int, call: Callable[[int], None]) -> None:
        def step(now: int) -> None:
            counts = self._counting
            call(now)
            if counts:
                self.steps += 1
                if self.steps == self._kill_after:
                    self.crash(self.machines[self._victim])

        super().schedule(at, step)

    def _look(self, row: AnyRow) -> None:
        if row.kind == "START_CHANGE" and self.now > DEATH:
            self._counting = True
        elif row.kind == "VIEW" and self._counting and self.now < self.end_of_faults:
            self.last_step = self.steps + 1


def steps_of(drawn: Scenario) -> int:
    """How many steps the view change has if nobody is killed; it needs what it is about."""
    world = SteppedWorld(drawn)
    world.run()
    assert world.counters["FORWARD"] or drawn.controllers, "what only one has is forwarded"
    assert not complaints(world)
    return world.last_step


def complaints(world: World) -> list[str]:
    """What is wrong with how a run went, and with how it ended: the living are in one view with just the living."""
    wrong = [str(violation) for violation in world.monitors.violations]
    living = {machine.name for machine in world.machines[: world.cast.members] if machine.alive}
    last: dict[str, ViewRow] = {}
    for row in world.rows:
        if isinstance(row, ViewRow):
            last[row.process] = row
    for name in sorted(living):
        members = {start.source for start in last[name].start} if name in last else set()
        if members != living:
            wrong.append(f"{name} ends in a view of {sorted(members)}, and {sorted(living)} live")
    if len({last[name].view for name in living if name in last}) > 1:
        wrong.append("the living end in different views")
    return wrong


def kill(drawn: Scenario, step: int, victim: int) -> list[str]:
    """Run it with that one killed after that step; what is wrong with the run."""
    world = SteppedWorld(drawn, step, victim)
    world.run()
    who = world.machines[victim].name
    return [f"{who} killed after step {step}: {complaint}" for complaint in complaints(world)]
