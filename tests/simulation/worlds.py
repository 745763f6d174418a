"""Small scenarios from code, for tests that need a certain situation and not a whole file."""

from __future__ import annotations

from typing import Any

from unisono.simulation.scenario import Burst, Fault, Network, Scenario, Workload
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
    "bursts": {
        "settle": 20 * SECOND,  # on a quiet link a burst takes its time
        "network": Network(latency=MILLISECOND, burst=Burst(every=5 * SECOND, packets=30)),
    },
}
"""Situations by name: what `scenario` takes."""


def situation(name: str, seed: int) -> Scenario:
    return scenario(seed=seed, **SITUATIONS[name])
