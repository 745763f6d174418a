"""Small situations of virtual synchrony sessions, for tests that need a certain one and not a whole file."""

from __future__ import annotations

from typing import Any

from unisono.simulation.cast import controller, server
from unisono.simulation.scenario import Fault, MemberPlan, Network, Scenario, Workload
from unisono.simulation.world import World
from unisono.trace.schema import AnyRow
from unisono.units import MICROSECOND, MILLISECOND, SECOND

NEAR = Network(latency=(200 * MICROSECOND, MILLISECOND), jitter=300 * MICROSECOND)
LOSSY = Network(latency=(200 * MICROSECOND, 2 * MILLISECOND), jitter=MILLISECOND, loss=0.1)


def session(
    *,
    seed: int = 1,
    members: int = 4,
    servers: int = 2,
    controllers: int = 0,
    duration: int = 4 * SECOND,
    settle: int = 12 * SECOND,
    network: Network = NEAR,
    workloads: tuple[Workload, ...] = (Workload(group="g", rate=60.0, size=(20, 300)),),
    member_plans: tuple[MemberPlan, ...] = (),
    faults: tuple[Fault, ...] = (),
    **options: Any,
) -> Scenario:
    """A drawn scenario of a session with the given parts; keyword options are settings."""
    return Scenario(
        name="session",
        protocol="virtual_synchrony",
        seed=seed,
        members=members,
        servers=servers,
        controllers=controllers,
        duration=duration,
        settle=settle,
        network=network,
        workloads=workloads,
        member_plans=member_plans,
        faults=faults,
        options=options,
    )


def run_session(drawn: Scenario) -> World:
    """Run it and keep every row."""
    world = World(drawn, keep_rows=True)
    world.run()
    return world


def moment(row: AnyRow) -> int:
    """When a row was written, by the clock of the world."""
    assert row.truth is not None, "a simulated row has it"
    return row.truth


def comings_and_goings(every: int, count: int) -> tuple[Fault, ...]:
    """Members 1 to 3 leave and come back, one after the other."""
    faults: list[Fault] = []
    for number in range(count):
        at, member = SECOND + number * every, 1 + number % 3
        faults.append(Fault(kind="leave", at=at, members=(member,)))
        faults.append(Fault(kind="join", at=at + every // 2, members=(member,)))
    return tuple(faults)


SITUATIONS: dict[str, dict[str, Any]] = {
    "one dies": {
        "workloads": (
            Workload(group="g", rate=60.0, size=(20, 300)),
            Workload(group="g", senders=(3,), rate=300.0, size=100, start=SECOND, stop=2 * SECOND),
        ),
        "faults": (
            Fault(kind="lose", at=1400 * MILLISECOND, rate=1.0, sources=(3,), targets=(1, 2), lasts=100 * MILLISECOND),
            Fault(kind="crash", at=1500 * MILLISECOND, members=(3,)),
        ),
        "failover": 50 * MILLISECOND,
        "forward_timeout": 20 * MILLISECOND,
    },
    "one dies where much is lost": {
        "network": Network(latency=(200 * MICROSECOND, 2 * MILLISECOND), jitter=MILLISECOND, loss=0.2),
        "faults": (Fault(kind="crash", at=2 * SECOND, members=(3,)),),
    },
    "one hears nothing of another": {
        "network": Network(latency=(MILLISECOND, 20 * MILLISECOND), jitter=MILLISECOND),
        "workloads": (
            Workload(group="g", rate=20.0, size=50),
            Workload(group="g", senders=(3,), rate=300.0, size=50),
        ),
        "faults": (Fault(kind="lose", at=SECOND, rate=1.0, sources=(3,), targets=(1,), lasts=2 * SECOND),),
        "suspicion": 500 * MILLISECOND,
    },
    "come and go": {"network": LOSSY, "faults": comings_and_goings(400 * MILLISECOND, 6)},
    "parted and met": {
        "network": LOSSY,
        "faults": (
            Fault(
                kind="partition",
                at=SECOND,
                groups=((0, 1, server(0)), (2, 3, server(1))),
                lasts=2 * SECOND,
            ),
        ),
    },
    "sending goes on": {
        "network": Network(latency=(5 * MILLISECOND, 30 * MILLISECOND), jitter=5 * MILLISECOND, loss=0.02),
        "faults": comings_and_goings(130 * MILLISECOND, 18),
        "optimistic": True,
        "optimistic_policy": "return",
    },
    "the only server restarts": {
        "servers": 1,
        "faults": (
            *comings_and_goings(150 * MILLISECOND, 10),
            Fault(kind="crash", at=3 * SECOND, members=(server(0),), restart=200 * MILLISECOND),
            Fault(kind="crash", at=3800 * MILLISECOND, members=(2,)),
        ),
    },
    "long messages": {
        "network": Network(latency=(10 * MILLISECOND, 20 * MILLISECOND), jitter=MILLISECOND),
        "workloads": (Workload(group="g", senders=(0,), rate=4.0, size=(150_000, 300_000)),),
        "faults": comings_and_goings(300 * MILLISECOND, 8),
        "window_bytes": 64 * 1024,
    },
    "controllers": {
        "controllers": 2,
        "members": 5,
        "workloads": (Workload(group="g", rate=25.0, size=(20, 300)),),
        "faults": (
            Fault(kind="crash", at=1500 * MILLISECOND, members=(controller(0),), restart=SECOND),
            Fault(kind="leave", at=3 * SECOND, members=(1,)),
            Fault(kind="join", at=3001 * MILLISECOND, members=(1,)),
        ),
    },
    "weak": {"network": LOSSY, "faults": comings_and_goings(250 * MILLISECOND, 10), "semantics": "weak"},
    "the application is asked": {
        "network": LOSSY,
        "faults": comings_and_goings(300 * MILLISECOND, 8),
        "block": "ask",
    },
}
"""Situations by name: what `session` takes."""


def session_situation(name: str, seed: int) -> Scenario:
    return session(seed=seed, **SITUATIONS[name])
