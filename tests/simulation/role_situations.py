"""Situations in which who sends changes while something else goes wrong; `worlds.SITUATIONS` takes them in."""

from __future__ import annotations

from typing import Any

from unisono.simulation.scenario import Fault, MemberPlan, Network, Workload
from unisono.units import MILLISECOND, SECOND

_FAR = Network(latency=40 * MILLISECOND, jitter=MILLISECOND)
"""A sponsor's word takes longer than its asker waits before it asks another."""
_SILENT = MemberPlan(index=2, options={"role": "auto", "idle": 30 * SECOND})

ROLE_SITUATIONS: dict[str, dict[str, Any]] = {
    "two sponsors": {
        "members": 4,
        "duration": 6 * SECOND,
        "settle": 12 * SECOND,
        "network": _FAR,
        "workloads": (
            Workload(group="g", senders=(0, 1, 3), rate=20.0, size=50, stop=6 * SECOND),
            Workload(group="g", senders=(2,), rate=100.0, size=50, start=SECOND, stop=1200 * MILLISECOND),
        ),
        "member_plans": (_SILENT,),
        "faults": tuple(
            Fault(kind=kind, at=2 * SECOND + turn * 1500 * MILLISECOND + wait, members=(2,))
            for turn in range(3)
            for kind, wait in (("become_receiver", 0), ("become_sender", 1000 * MILLISECOND))
        ),
        "service": "timestamp",
    },
    "a sponsor speaks late": {
        "members": 4,
        "duration": 6 * SECOND,
        "settle": 12 * SECOND,
        "network": _FAR,
        "workloads": (Workload(group="g", senders=(0, 1, 3), rate=20.0, size=50, stop=6 * SECOND),),
        "member_plans": (_SILENT,),
        "faults": (
            Fault(
                kind="delay",
                at=500 * MILLISECOND,
                message="add_request",
                targets=(1,),
                by=SECOND,
                lasts=2 * SECOND,
            ),
            Fault(kind="become_sender", at=SECOND, members=(2,)),
            Fault(kind="lose", at=1100 * MILLISECOND, rate=1.0, sources=(3,), targets=(1,), lasts=1200 * MILLISECOND),
            Fault(
                kind="lose",
                at=1100 * MILLISECOND,
                rate=1.0,
                message="repair",
                targets=(1,),
                lasts=1200 * MILLISECOND,
            ),
            Fault(kind="become_receiver", at=1300 * MILLISECOND, members=(2,)),
        ),
        "service": "timestamp",
        "suspicion": 3 * SECOND,
    },
    "a new sender dies": {
        "members": 4,
        "duration": 5 * SECOND,
        "settle": 12 * SECOND,
        "workloads": (Workload(group="g", senders=(0, 1, 3), rate=20.0, size=50, stop=5 * SECOND),),
        "member_plans": (_SILENT,),
        "faults": (
            Fault(kind="become_sender", at=SECOND, members=(2,)),
            Fault(kind="crash", at=1500 * MILLISECOND, members=(2,)),
        ),
        "service": "timestamp",
    },
    "a last word comes in a repair": {
        "members": 4,
        "duration": 6 * SECOND,
        "settle": 12 * SECOND,
        "network": Network(latency=5 * MILLISECOND, jitter=MILLISECOND),
        "workloads": (Workload(group="g", rate=30.0, size=50, stop=6 * SECOND),),
        "faults": tuple(
            fault
            for member, at in ((2, SECOND), (1, 3 * SECOND))
            for fault in (
                Fault(kind="lose", at=at, rate=1.0, sources=(member,), targets=(0,), lasts=1200 * MILLISECOND),
                Fault(kind="become_receiver", at=at + 50 * MILLISECOND, members=(member,)),
                Fault(kind="crash", at=at + 150 * MILLISECOND, members=(3,), restart=700 * MILLISECOND),
                Fault(kind="become_sender", at=at + 1500 * MILLISECOND, members=(member,)),
            )
        ),
        "service": "timestamp",
    },
    "a view ends in the middle of a message": {
        "members": 4,
        "duration": 6 * SECOND,
        "settle": 12 * SECOND,
        "network": Network(latency=MILLISECOND, jitter=MILLISECOND, bandwidth=40_000_000),
        "workloads": (Workload(group="g", rate=8.0, size=(10_000, 30_000), stop=6 * SECOND),),
        "faults": tuple(
            Fault(kind="crash", at=at * MILLISECOND, members=(3,), restart=300 * MILLISECOND)
            for at in (1000, 2500, 4000)
        ),
        "service": "timestamp",
        "window_bytes": 64 * 1024,
    },
}
