"""Draws situations: faults that meet seldom when each is drawn by itself, and that break what each alone does not.

A word of [random] kinds stands for each. What comes out is a list of plain faults.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unisono.simulation.cast import is_member
from unisono.simulation.drawer import Drawer, readable, spread
from unisono.simulation.scenario import Fault
from unisono.simulation.scenario_keys import DRAWN_SITUATIONS
from unisono.units import MILLISECOND, SECOND

_DAY = 86_400 * SECOND
_LARGEST_USUAL = 1472
"""The payload of a UDP datagram in an Ethernet frame: more than that is no datagram of default settings."""


class Situations(Drawer):
    """Some faults that belong together."""

    def draw(self, kind: str) -> list[Fault]:
        return SITUATIONS[kind](self)

    def _free_member(self, until: int, but: tuple[int, ...] = ()) -> int | None:
        """A member whom nothing else takes away before that."""
        free = [who for who in self._lives.free(self._at, until) if is_member(who) and who not in but]
        return self._random.choice(free) if free else None

    def _nobody_free(self) -> list[Fault]:
        return [Fault(kind="pause", at=self._at, members=self._some(1, members=True), lasts=self._lasts())]

    def _burst(self, member: int, at: int) -> Fault:
        """Many small messages, or a few large ones."""
        if self._random.random() < 0.5:
            count, size = self._random.randint(10, 200), readable(spread(self._random, 50, 1_000))
        else:
            count, size = self._random.randint(1, 3), readable(spread(self._random, 1_000, 100_000))
        return Fault(kind="send", at=at, members=(member,), size=size, count=count)

    def send_and_leave(self) -> list[Fault]:
        """The application leaves as soon as it has sent, and joins again."""
        away = self._lasts(100 * MILLISECOND, 5 * SECOND)
        member = self._free_member(self._at + away)
        if member is None:
            return self._nobody_free()
        self._lives.take((member,), self._at, self._at + away)
        return [
            self._burst(member, self._at),
            Fault(kind="leave", at=self._at, members=(member,)),
            Fault(kind="join", at=self._later(away), members=(member,)),
        ]

    def come_and_crash(self) -> list[Fault]:
        """Somebody who left comes again, or who received begins to send, and dies before or after all know of it."""
        back = self._later(self._lasts(500 * MILLISECOND, 3 * SECOND))
        dies = self._within(self._span(MILLISECOND, SECOND), back)
        member = self._free_member(self._duration)
        if member is None:
            return self._nobody_free()
        roles = not self._cast.servers and self._random.random() < 0.5
        goes, comes = ("become_receiver", "become_sender") if roles else ("leave", "join")
        restart = None
        if self._random.random() < 0.5 or not self._lives.let_go(member):
            restart = min(self._span(100 * MILLISECOND, 5 * SECOND), self._duration - dies)
        self._lives.take((member,), self._at, self._duration if restart is None else dies + restart)
        return [
            Fault(kind=goes, at=self._at, members=(member,)),
            Fault(kind=comes, at=back, members=(member,)),
            Fault(kind="crash", at=dies, members=(member,), restart=restart, disk=self._random.random() < 0.5),
        ]

    def set_back(self) -> list[Fault]:
        """A machine comes back with an empty disk and a clock that is behind what it was."""
        restart = self._lasts(100 * MILLISECOND, 3 * SECOND)
        free = self._lives.free(self._at, self._at + restart)
        if not free:
            return self._nobody_free()
        members = (self._random.choice(free),)
        self._lives.take(members, self._at, self._at + restart)
        return [
            Fault(kind="clock_step", at=self._at, members=members, by=-self._span(SECOND, _DAY)),
            Fault(kind="crash", at=self._at, members=members, restart=restart, disk=False),
        ]

    def begin_unheard(self) -> list[Fault]:
        """One or two that only receive begin to send while one link of theirs is broken; then perhaps one dies."""
        broken = self._later(self._lasts(300 * MILLISECOND, 2 * SECOND))
        begins = self._within(self._span(MILLISECOND, 2 * SECOND), broken)
        free = [who for who in self._lives.free(self._at, self._duration) if is_member(who)]
        if len(free) < 2:
            return self._nobody_free()
        one, other = self._random.sample(free, 2)
        beginners = tuple(sorted((one, other))) if self._random.random() < 0.6 else (one,)
        lasts = max(1, min(self._span(SECOND, 12 * SECOND), self._duration - broken))
        faults = [
            Fault(kind="become_receiver", at=self._at, members=tuple(sorted((one, other)))),
            self._broken_link(one, other, broken, lasts),
            Fault(kind="become_sender", at=begins, members=beginners),
            Fault(kind="send", at=begins, members=beginners, size=200, count=self._random.randint(1, 5)),
        ]
        dies = self._within(self._span(10 * MILLISECOND, 2 * SECOND), begins)
        if self._random.random() < 0.3:
            restart = None
            if self._random.random() < 0.5 or not self._lives.let_go(one):
                restart = min(self._span(100 * MILLISECOND, 5 * SECOND), self._duration - dies)
            self._lives.take((one,), dies, self._duration if restart is None else dies + restart)
            faults.append(Fault(kind="crash", at=dies, members=(one,), restart=restart, disk=True))
        elif other not in beginners:
            faults.append(Fault(kind="become_sender", at=self._duration, members=(other,)))
        return faults

    def _broken_link(self, one: int, other: int, at: int, lasts: int) -> Fault:
        """In one direction or in both; everybody else hears both."""
        if self._random.random() < 0.3:
            return Fault(kind="one_way", at=at, sources=(one,), targets=(other,), lasts=lasts)
        groups = tuple(tuple(who for who in self._everybody if who != missing) for missing in (other, one))
        return Fault(kind="partition", at=at, groups=groups, lasts=lasts)

    def narrow(self) -> list[Fault]:
        """Frames above what the network carries vanish while somebody sends a large message.

        Sometimes from the beginning to the end, and just above what settings allow a datagram to be.
        """
        if self._random.random() < 0.5:
            self._at, self._rest = 0, self._duration
            above, lasts = _LARGEST_USUAL, self._duration
        else:
            above, lasts = readable(self._random.uniform(600, _LARGEST_USUAL)), self._lasts(low=2 * SECOND)
        during = self._at + self._random.randint(0, lasts // MILLISECOND) * MILLISECOND
        [sender] = self._some(1, members=True)
        return [
            Fault(kind="oversize", at=self._at, above=above, lasts=lasts),
            self._burst(sender, during),
        ]


SITUATIONS: dict[str, Callable[[Any], list[Fault]]] = {
    "send_and_leave": Situations.send_and_leave,
    "come_and_crash": Situations.come_and_crash,
    "set_back": Situations.set_back,
    "begin_unheard": Situations.begin_unheard,
    "narrow": Situations.narrow,
}
assert set(SITUATIONS) == set(DRAWN_SITUATIONS), "every situation that can be drawn has its function"
