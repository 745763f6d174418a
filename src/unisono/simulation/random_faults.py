"""Draws the faults of [random]: one function a kind, over the ranges of the fault matrix.

When a fault may begin, and whom it may hit, is in unisono.simulation.drawer; faults that belong together are
drawn in unisono.simulation.random_situations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from unisono.settings import SERVICE_CODES, Service
from unisono.simulation.cast import cast_of, is_member, kind_of
from unisono.simulation.drawer import Drawer, Lives, readable, spread
from unisono.simulation.partitions import draw_groups
from unisono.simulation.random_situations import SITUATIONS, Situations
from unisono.simulation.scenario import Fault, Scenario
from unisono.simulation.scenario_keys import (
    DISK_FAULTS,
    DRAWN_KINDS,
    DRAWN_MESSAGES,
    DRAWN_SESSION_KINDS,
    DRAWN_SESSION_MESSAGES,
    DRAWN_SESSION_SITUATIONS,
    DRAWN_SITUATIONS,
    OF_APPLICATIONS,
    OF_TWO,
)
from unisono.simulation.streams import stream
from unisono.units import MICROSECOND, MILLISECOND, SECOND

_DAY = 86_400 * SECOND


def draw_faults(scenario: Scenario, seed: int) -> tuple[Fault, ...]:
    """The faults that [random] draws for this seed, in the order of their begin."""
    assert scenario.random is not None, "there is something to draw"
    cast = cast_of(scenario)
    choice = stream(seed, "faults")
    every = (*DRAWN_SESSION_KINDS, *DRAWN_SESSION_SITUATIONS) if cast.servers else (*DRAWN_KINDS, *DRAWN_SITUATIONS)
    kinds = every if scenario.random.kinds == "all" else scenario.random.kinds
    if cast.size < 2:
        kinds = tuple(kind for kind in kinds if kind not in OF_TWO)
    count = choice.randint(*scenario.random.count) if kinds else 0
    faults: list[Fault] = []
    lives = Lives(scenario)
    for index in range(count):
        kind, random = choice.choice(kinds), stream(seed, f"fault/{index}")
        drawer = Situations if kind in SITUATIONS else _Faults
        faults += drawer(random, cast, scenario.duration, lives).draw(kind)
    return tuple(sorted(faults, key=lambda fault: fault.at or 0))


class _Faults(Drawer):
    """One fault of each kind: its keys."""

    def draw(self, kind: str) -> list[Fault]:
        return _KINDS[kind](self, kind)

    def _narrowed(self, fault: Fault) -> list[Fault]:
        """The fault for all packets, those of a member or of one direction, sometimes of one plane or message."""
        keys: dict[str, Any] = {}
        where = self._random.randrange(4)
        if where == 1:
            keys["members"] = self._some(1)
        elif where == 2 and len(self._everybody) > 1:
            source, target = self._random.sample(self._everybody, 2)
            keys |= {"sources": (source,), "targets": (target,)}
        if self._random.random() < 0.2:
            keys["plane"] = self._random.choice(("multicast", "unicast"))
        elif self._random.random() < 0.2:
            keys["message"] = self._random.choice(DRAWN_SESSION_MESSAGES if self._cast.servers else DRAWN_MESSAGES)
        return [replace(fault, **keys)]

    def partition(self, kind: str) -> list[Fault]:
        """Of members alone servers stay between them: they are reached from every side."""
        among = self._everybody
        if self._cast.servers and self._members > 1 and self._random.random() < 0.4:
            among = among[: self._members]
        places = draw_groups(self._random, len(among))
        groups = tuple(tuple(among[place] for place in group) for group in places)
        lasts = self._lasts(low=SECOND)
        flaps = None
        if self._random.random() < 0.25:
            flaps = self._span(200 * MILLISECOND, 5 * SECOND)
        return [Fault(kind=kind, at=self._at, groups=groups, lasts=lasts, flaps=flaps)]

    def one_way(self, kind: str) -> list[Fault]:
        size = len(self._everybody)
        order = self._random.sample(self._everybody, size)
        cut = self._random.randint(1, size - 1)
        end = self._random.randint(cut + 1, size)
        sources, targets = tuple(sorted(order[:cut])), tuple(sorted(order[cut:end]))
        return [Fault(kind=kind, at=self._at, sources=sources, targets=targets, lasts=self._lasts())]

    def clog(self, kind: str) -> list[Fault]:
        members = self._some(len(self._everybody))
        each = self._span(100 * MILLISECOND, 2 * SECOND)
        return [Fault(kind=kind, at=self._at, members=members, each=each, lasts=self._lasts(low=SECOND))]

    def lose(self, kind: str) -> list[Fault]:
        if self._random.random() < 0.3:
            count = self._random.randint(5, 200)
            return self._narrowed(Fault(kind=kind, at=self._at, rate=1.0, count=count, lasts=self._lasts()))
        return self._narrowed(Fault(kind=kind, at=self._at, rate=self._rate(0.3), lasts=self._lasts()))

    def spoil(self, kind: str) -> list[Fault]:
        rate = self._rate({"duplicate": 0.5, "reorder": 0.5, "corrupt": 0.05}[kind])
        return self._narrowed(Fault(kind=kind, at=self._at, rate=rate, lasts=self._lasts()))

    def delay(self, kind: str) -> list[Fault]:
        by = self._span(100 * MICROSECOND, 200 * MILLISECOND)
        return self._narrowed(Fault(kind=kind, at=self._at, by=by, lasts=self._lasts()))

    def limit(self, kind: str) -> list[Fault]:
        members = self._some(1) if self._random.random() < 0.7 else ()
        by = readable(spread(self._random, 100_000, 10_000_000))
        return [Fault(kind=kind, at=self._at, by=by, members=members, lasts=self._lasts())]

    def replay(self, kind: str) -> list[Fault]:
        age = self._span(100 * MILLISECOND, 60 * SECOND)
        return [Fault(kind=kind, at=self._at, rate=self._rate(0.5), age=age, lasts=self._lasts())]

    def oversize(self, kind: str) -> list[Fault]:
        return [Fault(kind=kind, at=self._at, above=readable(self._random.uniform(300, 1400)), lasts=self._lasts())]

    def crash(self, kind: str) -> list[Fault]:
        style = self._random.choice(("disk", "disk", "amnesia", "amnesia", "fast", "fast", "all", "never"))
        disk = style in ("disk", "never") or (style in ("fast", "all") and self._random.random() < 0.5)
        longest = 500 * MILLISECOND if style == "fast" else 5 * SECOND
        restart = self._lasts(100 * MILLISECOND, longest)
        free = self._lives.free(self._at, self._at + restart)
        if not free:
            return self.hold("pause")
        if style == "all" and len(free) == len(self._everybody):
            members = self._all_of_some_kind()
        else:
            members = (self._random.choice(free),)
        if (
            style == "never"
            and members[0] in self._lives.free(self._at, self._duration)
            and self._lives.let_go(members[0])
        ):
            self._lives.take(members, self._at, self._duration)
            return [Fault(kind=kind, at=self._at, members=members)]
        self._lives.take(members, self._at, self._at + restart)
        return [Fault(kind=kind, at=self._at, members=members, restart=restart, disk=disk)]

    def _all_of_some_kind(self) -> tuple[int, ...]:
        """Everybody, or where there are servers perhaps all members, all servers or all controllers."""
        if not self._cast.servers:
            return self._everybody
        kinds = ("member", "server", *(("controller",) if self._cast.controllers else ()))
        some = [tuple(who for who in self._everybody if kind_of(who) == kind) for kind in kinds]
        return self._random.choice((self._everybody, *some))

    def hold(self, kind: str) -> list[Fault]:
        members = self._some(1 if kind == "isolate" else 2, members=kind in OF_APPLICATIONS)
        return [Fault(kind=kind, at=self._at, members=members, lasts=self._lasts())]

    def silence(self, kind: str) -> list[Fault]:
        """Long enough that a view is likely to change meanwhile."""
        return [Fault(kind=kind, at=self._at, members=self._some(2, members=True), lasts=self._lasts(low=3 * SECOND))]

    def slow(self, kind: str) -> list[Fault]:
        times = float(f"{spread(self._random, 2, 50):.2g}")
        return [Fault(kind=kind, at=self._at, members=self._some(1), times=times, lasts=self._lasts(low=SECOND))]

    def clock_step(self, kind: str) -> list[Fault]:
        by = self._span(MILLISECOND, _DAY) * self._random.choice((-1, 1))
        return [Fault(kind=kind, at=self._at, members=self._some(1), by=by)]

    def drift(self, kind: str) -> list[Fault]:
        most = 500 if kind == "clock_drift" else 200
        parts = 10**6 if kind == "clock_drift" else 10**3
        by = self._random.randint(most // 50, most) * self._random.choice((-1, 1)) / parts
        return [Fault(kind=kind, at=self._at, members=self._some(1), by=by, lasts=self._lasts(low=SECOND))]

    def disk(self, kind: str) -> list[Fault]:
        """The damage shows when the member comes back, so a crash follows."""
        wait = self._lasts(10 * MILLISECOND, min(2 * SECOND, max(1, self._rest // 2)))
        crash_at = self._later(wait)
        self._rest = self._duration - crash_at
        restart = self._lasts(100 * MILLISECOND, 3 * SECOND)
        what = self._random.choice(DISK_FAULTS)
        free = self._lives.free(self._at, crash_at + restart)
        if not free:
            self._rest = self._duration - self._at
            return self.hold("pause")
        members = (self._random.choice(free),)
        self._lives.take(members, self._at, crash_at + restart)
        return [
            Fault(kind=kind, at=self._at, members=members, what=what),
            Fault(kind="crash", at=crash_at, members=members, restart=restart),
        ]

    def leave(self, kind: str) -> list[Fault]:
        away = self._lasts(100 * MILLISECOND, 5 * SECOND)
        free = [who for who in self._lives.free(self._at, self._at + away) if is_member(who)]
        if not free:
            return self.hold("pause")
        members = (self._random.choice(free),)
        self._lives.take(members, self._at, self._at + away)
        back = Fault(kind="join", at=self._later(away), members=members)
        return [Fault(kind=kind, at=self._at, members=members), back]

    def send(self, kind: str) -> list[Fault]:
        size = readable(spread(self._random, 1_000, 300_000))
        members = self._some(1, members=True)
        return [Fault(kind=kind, at=self._at, members=members, size=size, count=self._random.randint(1, 3))]

    def change(self, kind: str) -> list[Fault]:
        """Another service for a while; then, mostly, a reliable one."""
        service = self._random.choice(tuple(SERVICE_CODES))
        members = self._some(2, members=True)
        back: Service = self._random.choice(("source", "timestamp"))
        until = self._later(self._lasts(100 * MILLISECOND, 5 * SECOND))
        return [
            Fault(kind=kind, at=self._at, members=members, service=service),
            Fault(kind=kind, at=until, members=members, service=back),
        ]

    def become_receiver(self, kind: str) -> list[Fault]:
        """Some only receive for a while."""
        members = self._some(3, members=True)
        until = self._later(self._lasts(10 * MILLISECOND, 5 * SECOND))
        return [
            Fault(kind=kind, at=self._at, members=members),
            Fault(kind="become_sender", at=until, members=members),
        ]


_KINDS: dict[str, Callable[[_Faults, str], list[Fault]]] = {
    "partition": _Faults.partition,
    "one_way": _Faults.one_way,
    "isolate": _Faults.hold,
    "clog": _Faults.clog,
    "lose": _Faults.lose,
    "duplicate": _Faults.spoil,
    "reorder": _Faults.spoil,
    "corrupt": _Faults.spoil,
    "delay": _Faults.delay,
    "limit": _Faults.limit,
    "replay": _Faults.replay,
    "oversize": _Faults.oversize,
    "crash": _Faults.crash,
    "pause": _Faults.hold,
    "slow": _Faults.slow,
    "stop_reading": _Faults.hold,
    "stop_answering": _Faults.silence,
    "clock_step": _Faults.clock_step,
    "clock_drift": _Faults.drift,
    "timer_drift": _Faults.drift,
    "disk": _Faults.disk,
    "leave": _Faults.leave,
    "send": _Faults.send,
    "change": _Faults.change,
    "become_receiver": _Faults.become_receiver,
}
assert set(_KINDS) == {*DRAWN_KINDS, *DRAWN_SESSION_KINDS}, "every kind that can be drawn has its function"
