"""Small scenarios from code, for tests that need a certain situation and not a whole file."""

from __future__ import annotations

from typing import Any

from tests.simulation.role_situations import ROLE_SITUATIONS
from unisono.simulation.scenario import Burst, Fault, GroupPlan, MemberPlan, Network, Scenario, Workload
from unisono.simulation.world import World
from unisono.units import KIB, MICROSECOND, MILLISECOND, SECOND

LAN = Network(latency=100 * MICROSECOND, jitter=50 * MICROSECOND)


def scenario(
    *,
    seed: int = 1,
    members: int = 3,
    duration: int = 5 * SECOND,
    settle: int = 5 * SECOND,
    network: Network = LAN,
    workloads: tuple[Workload, ...] = (Workload(group="g", rate=20.0, size=(20, 300)),),
    faults: tuple[Fault, ...] = (),
    sites: int | None = None,
    groups: tuple[GroupPlan, ...] = (),
    member_plans: tuple[MemberPlan, ...] = (),
    **options: Any,
) -> Scenario:
    """A drawn scenario with the given parts; keyword options are settings."""
    return Scenario(
        name="test",
        seed=seed,
        members=members,
        duration=duration,
        settle=settle,
        network=network,
        workloads=workloads,
        faults=faults,
        sites=sites,
        groups=groups,
        member_plans=member_plans,
        options=options,
    )


def run_world(drawn: Scenario) -> World:
    """Run it and keep every row."""
    world = World(drawn, keep_rows=True)
    world.run()
    return world


SITUATIONS: dict[str, dict[str, Any]] = {
    "loss": {"network": Network(latency=MILLISECOND, jitter=MILLISECOND, loss=0.15)},
    "corruption": {"network": Network(latency=MILLISECOND, corrupt=0.1)},
    "last message": {
        "network": LAN,
        "workloads": (Workload(group="g", senders=(0,), rate=1.0, size=50, stop=2 * SECOND),),
        "faults": (Fault(kind="lose", at=0, rate=1.0, message="data", sources=(0,), targets=(1,)),),
    },
    "restarts": {
        "faults": (
            Fault(kind="crash", at=1500 * MILLISECOND, members=(0,), restart=100 * MILLISECOND, disk=False),
            Fault(kind="crash", at=3 * SECOND, members=(1,), restart=300 * MILLISECOND),
        ),
        "patience": 2 * SECOND,
    },
    "fragments": {
        "workloads": (Workload(group="g", rate=20.0, size=(100, 60_000)),),
        "faults": (
            Fault(kind="crash", at=1500 * MILLISECOND, members=(0,), restart=100 * MILLISECOND),
            Fault(kind="crash", at=3 * SECOND, members=(1,), restart=100 * MILLISECOND),
        ),
        "network": Network(latency=MILLISECOND, jitter=MILLISECOND, bandwidth=20_000_000),
        "window_bytes": 64 * KIB,
    },
    "stopped reader": {
        "workloads": (Workload(group="g", rate=40.0, size=(1000, 3000)),),
        "faults": (Fault(kind="stop_reading", at=SECOND, members=(2,), lasts=3 * SECOND),),
        "window_bytes": 64 * KIB,
        "receive_buffer_bytes": 128 * KIB,
        "event_limit": 10,
    },
    "cut off": {
        "duration": 8 * SECOND,
        "faults": (Fault(kind="isolate", at=SECOND, members=(1,), lasts=4 * SECOND),),
        "patience": SECOND,
        "source_timeout": 30 * SECOND,
    },
    "crash for good": {
        "duration": 20 * SECOND,
        "workloads": (Workload(group="g", rate=40.0, size=(1000, 3000)),),
        "faults": (Fault(kind="crash", at=2 * SECOND, members=(2,)),),
        "patience": 2 * SECOND,
        "window_bytes": 64 * KIB,
    },
    "timestamp order": {
        "network": Network(latency=MILLISECOND, jitter=MILLISECOND, loss=0.15),
        "service": "timestamp",
    },
    "timestamp order with newcomers": {
        "members": 4,
        "duration": 8 * SECOND,
        "network": Network(latency=(MILLISECOND, 20 * MILLISECOND), jitter=MILLISECOND),
        "workloads": (Workload(group="g", rate=100.0, size=50),),
        "faults": (
            Fault(kind="leave", at=2 * SECOND, members=(1,)),
            Fault(kind="join", at=3 * SECOND, members=(1,)),
            Fault(kind="crash", at=4 * SECOND, members=(2,), restart=300 * MILLISECOND),
        ),
        "service": "timestamp",
        "source_timeout": 2 * SECOND,
        "patience": SECOND,
    },
    "changing services": {
        "network": Network(latency=MILLISECOND, jitter=MILLISECOND, loss=0.1),
        "workloads": (Workload(group="g", rate=50.0, size=(20, 3000)),),
        "faults": (
            Fault(kind="change", at=1500 * MILLISECOND, members=(1,), service="timestamp"),
            Fault(kind="change", at=2500 * MILLISECOND, members=(1,), service="source"),
            Fault(kind="change", at=3500 * MILLISECOND, members=(2,), service="timestamp"),
        ),
        "event_limit": 20,
    },
    "latest of each source": {"network": Network(latency=MILLISECOND, reorder=0.2), "service": "source-latest"},
    "latest of all": {"network": Network(latency=MILLISECOND, reorder=0.2), "service": "timestamp-latest"},
    "framed": {"network": Network(latency=MILLISECOND, duplicate=0.2, loss=0.05), "service": "framed"},
    "two groups in one order": {
        "members": 4,
        "network": Network(latency=(MILLISECOND, 10 * MILLISECOND)),
        "workloads": (Workload(group="g", rate=20.0, size=50), Workload(group="h", rate=20.0, size=50)),
        "groups": (GroupPlan(name="g", members=(0, 1, 2)), GroupPlan(name="h", members=(1, 2, 3))),
        "service": "timestamp",
        "across": "both",
    },
    "many receivers": {
        "members": 24,
        "duration": 6 * SECOND,
        "network": Network(latency=2 * MILLISECOND, loss=0.2),
        "workloads": (Workload(group="g", senders=(0,), rate=50.0, size=200),),
        "member_plans": (MemberPlan(index=0, options={"role": "sender"}),),
        "role": "receiver",
        "sources": ("p0",),
    },
    "gathered reports": {
        "members": 12,
        "duration": 12 * SECOND,
        "network": Network(latency=2 * MILLISECOND, loss=0.05),
        "workloads": (Workload(group="g", senders=(0,), rate=50.0, size=200),),
        "faults": (Fault(kind="isolate", at=8 * SECOND, members=(5,), lasts=1500 * MILLISECOND),),
        "member_plans": (MemberPlan(index=0, options={"role": "sender"}),),
        "role": "receiver",
        "sources": ("p0",),
        "control": True,
        "control_interval": 300 * MILLISECOND,
        "direct_reports": 2,
    },
    "one dies": {
        "duration": 5 * SECOND,
        "settle": 12 * SECOND,
        "network": Network(latency=(MILLISECOND, 4 * MILLISECOND), jitter=MILLISECOND, loss=0.15),
        "workloads": (Workload(group="g", rate=60.0, size=50, stop=4500 * MILLISECOND),),
        "faults": (
            Fault(kind="crash", at=1500 * MILLISECOND, members=(2,)),
            Fault(kind="crash", at=3 * SECOND, members=(1,), restart=100 * MILLISECOND),
        ),
        "service": "timestamp",
    },
    "parted and met": {
        "members": 4,
        "duration": 5 * SECOND,
        "settle": 12 * SECOND,
        "network": Network(latency=(MILLISECOND, 4 * MILLISECOND), jitter=MILLISECOND, loss=0.05),
        "workloads": (Workload(group="g", rate=40.0, size=50, stop=6 * SECOND),),
        "faults": (Fault(kind="isolate", at=1500 * MILLISECOND, members=(1,), lasts=1800 * MILLISECOND),),
        "service": "timestamp",
    },
    "receivers follow": {
        "members": 5,
        "duration": 6 * SECOND,
        "settle": 12 * SECOND,
        "network": Network(latency=(MILLISECOND, 4 * MILLISECOND), jitter=MILLISECOND, loss=0.1),
        "workloads": (Workload(group="g", senders=(0, 1, 2), rate=40.0, size=50, stop=6 * SECOND),),
        "member_plans": (
            MemberPlan(index=3, options={"role": "receiver"}),
            MemberPlan(index=4, options={"role": "receiver"}),
        ),
        "faults": (
            Fault(kind="isolate", at=1500 * MILLISECOND, members=(4,), lasts=1500 * MILLISECOND),
            Fault(kind="crash", at=2 * SECOND, members=(2,), restart=300 * MILLISECOND),
        ),
        "service": "timestamp",
    },
    "even split": {
        "members": 4,
        "duration": 5 * SECOND,
        "settle": 12 * SECOND,
        "workloads": (Workload(group="g", rate=20.0, size=50, stop=6 * SECOND),),
        "faults": (Fault(kind="partition", at=1500 * MILLISECOND, groups=((0, 1), (2, 3)), lasts=3 * SECOND),),
        "service": "timestamp",
        "primary": 4,
    },
    "roles change": {
        "members": 5,
        "duration": 6 * SECOND,
        "settle": 12 * SECOND,
        "network": Network(latency=(MILLISECOND, 4 * MILLISECOND), jitter=MILLISECOND, loss=0.05),
        "workloads": (Workload(group="g", senders=(0, 1, 2, 3), rate=25.0, size=(50, 3000), stop=6 * SECOND),),
        "member_plans": (MemberPlan(index=4, options={"role": "receiver"}),),
        "faults": (
            *(
                Fault(kind="become_receiver", at=SECOND + step * 90 * MILLISECOND, members=(step % 4,))
                for step in range(50)
            ),
            Fault(kind="leave", at=3 * SECOND, members=(4,)),
            Fault(kind="join", at=3500 * MILLISECOND, members=(4,)),
        ),
        "service": "timestamp",
    },
    "roles change and one dies": {
        "members": 5,
        "duration": 6 * SECOND,
        "settle": 12 * SECOND,
        "network": Network(latency=(MILLISECOND, 4 * MILLISECOND), jitter=MILLISECOND, loss=0.05),
        "workloads": (Workload(group="g", rate=25.0, size=(50, 3000), stop=6 * SECOND),),
        "faults": (
            *(
                Fault(kind="become_receiver", at=SECOND + step * 70 * MILLISECOND, members=(step % 5,))
                for step in range(60)
            ),
            Fault(kind="crash", at=2 * SECOND, members=(2,), restart=500 * MILLISECOND),
            Fault(kind="crash", at=4 * SECOND, members=(0,), restart=500 * MILLISECOND),
        ),
        "service": "timestamp",
    },
    "all but one step back and part": {
        "members": 3,
        "duration": 8 * SECOND,
        "settle": 12 * SECOND,
        "workloads": (
            Workload(group="g", senders=(0,), rate=20.0, size=50, stop=8 * SECOND),
            Workload(group="g", senders=(1, 2), rate=20.0, size=50, start=3 * SECOND, stop=8 * SECOND),
        ),
        "faults": (
            Fault(kind="become_receiver", at=1500 * MILLISECOND, members=(1, 2)),
            Fault(kind="partition", at=2500 * MILLISECOND, groups=((0,), (1, 2)), lasts=5 * SECOND),
        ),
        "service": "timestamp",
        "primary": 3,
        "patience": SECOND,
    },
    "bursts": {
        "settle": 20 * SECOND,  # on a quiet link a burst takes its time
        "network": Network(latency=MILLISECOND, burst=Burst(every=5 * SECOND, packets=15)),
    },
    **ROLE_SITUATIONS,
}
"""Situations by name: what `scenario` takes."""


def situation(name: str, seed: int) -> Scenario:
    return scenario(seed=seed, **SITUATIONS[name])
