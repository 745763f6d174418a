"""Random trouble for agreed views: a few senders and receivers under faults that aim at membership repair."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.simulation.worlds import scenario
from unisono.simulation.scenario import Fault, MemberPlan, Network, Scenario, When, Workload
from unisono.units import KIB, MICROSECOND, MILLISECOND, SECOND

MEMBERSHIP = ("opinion", "recovery_info", "ready", "new_view", "cut_info", "view_request")
OTHERS = ("keep_alive", "activation_request", "activation_grant", "data", "repair", "repair_request", "report")
TURNING_POINTS = ("MRA", "CUT", "VIEW", "SUSPECT", "VIEW", "CUT")
"""Rows of the trace after which a crash or a pause hurts most."""
DURATION = 8 * SECOND
SETTLE = 13 * SECOND


class _Draw:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.senders = self.random.choice((2, 3, 3, 3, 4, 4))
        self.receivers = self.random.choice((0, 0, 1, 2))
        self.members = self.senders + self.receivers
        self._unhurt = list(range(self.members))
        """Who has not been made to crash or leave yet: a life ends once."""

    def time(self, low: float = 0.3, high: float = 7.0) -> int:
        return int(self.random.uniform(low, high) * SECOND)

    def span(self, low: float, high: float) -> int:
        return int(self.random.uniform(low, high) * SECOND)

    def some(self) -> tuple[int, ...]:
        """Some members, not all."""
        return tuple(sorted(self.random.sample(range(self.members), self.random.randint(1, self.members - 1))))

    def one(self) -> tuple[int, ...]:
        return (self.random.randrange(self.members),)

    def victim(self) -> tuple[int, ...]:
        member = self.random.choice(self._unhurt)
        self._unhurt.remove(member)
        return (member,)

    def begin(self) -> dict[str, Any]:
        """At a time, or when somebody is in the middle of something."""
        if self.random.random() < 0.5:
            return {"at": self.time()}
        count = self.random.randint(1, 12)
        return {"when": When(kind=self.random.choice(TURNING_POINTS), member=self.one()[0], count=count)}

    def packets(self) -> Fault:
        kind = self.random.choice(("lose", "lose", "delay", "duplicate", "reorder"))
        names = MEMBERSHIP if self.random.random() < 0.7 else OTHERS
        keys: dict[str, Any] = {"message": self.random.choice(names), "rate": self.random.choice((1.0, 1.0, 0.5))}
        if self.random.random() < 0.7:
            keys["sources"] = self.some()
        if self.random.random() < 0.7:
            keys["targets"] = self.some()
        if kind == "delay":
            del keys["rate"]
            keys["by"] = self.span(0.05, 2.5)
        else:
            keys["count"] = self.random.choice((None, 1, 3, 10))
        return Fault(kind=kind, lasts=self.span(0.2, 3.0), **self.begin(), **keys)

    def fault(self) -> list[Fault]:
        choice = self.random.random()
        if choice < 0.35:
            return [self.packets()]
        if choice < 0.5 and self._unhurt:
            restart = self.span(0.02, 2.0) if self.random.random() < 0.8 else None
            disk = self.random.random() < 0.6
            return [Fault(kind="crash", members=self.victim(), restart=restart, disk=disk, **self.begin())]
        if choice < 0.65:
            return [Fault(kind="pause", members=self.one(), lasts=self.span(0.1, 2.5), **self.begin())]
        if choice < 0.78:
            side = self.some()
            other = tuple(member for member in range(self.members) if member not in side)
            return [Fault(kind="partition", groups=(side, other), lasts=self.span(0.2, 3.0), **self.begin())]
        if choice < 0.86:
            one, deaf = self.random.sample(range(self.members), 2)
            lasts = self.span(0.2, 3.0)
            return [Fault(kind="one_way", sources=(one,), targets=(deaf,), lasts=lasts, **self.begin())]
        if choice < 0.93 and self._unhurt:
            member, at = self.victim(), self.time(0.3, 5.0)
            back = Fault(kind="join", members=member, at=at + self.span(0.01, 2.0))
            return [Fault(kind="leave", members=member, at=at), back]
        return [Fault(kind="stop_reading", members=self.one(), lasts=self.span(0.2, 3.0), **self.begin())]


def unrest(seed: int) -> Scenario:
    """What one seed does to a small group."""
    draw = _Draw(seed)
    random = draw.random
    plans = [MemberPlan(index=index, joins=random.choice((0, 0, draw.time(0.0, 3.0)))) for index in range(draw.senders)]
    plans += [
        MemberPlan(index=index, joins=random.choice((0, draw.time(0.0, 4.0))), options={"role": "receiver"})
        for index in range(draw.senders, draw.members)
    ]
    faults = [fault for _ in range(random.randint(1, 5)) for fault in draw.fault()]
    latency = random.choice((100 * MICROSECOND, MILLISECOND, 20 * MILLISECOND))
    return scenario(
        seed=seed,
        members=draw.members,
        duration=DURATION,
        settle=SETTLE,
        network=Network(latency=latency, jitter=latency, loss=random.choice((0.0, 0.0, 0.02, 0.1))),
        workloads=(
            Workload(
                group="g",
                senders=tuple(range(draw.senders)),
                rate=random.choice((3.0, 10.0, 30.0)),
                size=(20, random.choice((200, 4000))),
            ),
        ),
        faults=tuple(faults),
        member_plans=tuple(plans),
        service="timestamp",
        keep_alive=100 * MILLISECOND,
        suspicion=random.choice((400 * MILLISECOND, SECOND)),
        patience=random.choice((SECOND, 3 * SECOND)),
        source_timeout=3 * SECOND,
        event_limit=random.choice((10, 10000)),
        window_bytes=random.choice((64 * KIB, 4096 * KIB)),
        receive_buffer_bytes=random.choice((128 * KIB, 8192 * KIB)),
        primary=random.choice((0, 0, draw.senders)),
    )
