"""An engine made for tests: it listens at SITE or opens a channel to it, as told, and remembers what came."""

from __future__ import annotations

from unisono.engine import (
    SITE,
    Channel,
    Effect,
    Fact,
    FrameReceived,
    Join,
    Listen,
    OpenChannel,
    SendFrame,
    Start,
    TimePassed,
)


class Neighbour:
    """Does one thing at its start, and another at each time given; answers every frame that is no answer."""

    __slots__ = ("_later", "_start", "facts", "times")

    def __init__(self, start: list[Effect], later: list[tuple[int, Effect]]) -> None:
        self._start = start
        self._later = later
        self.facts: list[Fact] = []
        self.times: list[int] = []

    def deadline(self) -> int | None:
        return self._later[0][0] if self._later else None

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        if isinstance(fact, Start):
            self._later = [(now + after, effect) for after, effect in self._later]
            return self._start
        if isinstance(fact, TimePassed):
            return [self._later.pop(0)[1]]
        if isinstance(fact, Join):
            return []
        self.facts.append(fact)
        self.times.append(now)
        if isinstance(fact, FrameReceived) and not fact.data.startswith(b"re:"):
            return [SendFrame(fact.channel, b"re:" + fact.data)]
        return []


LISTEN: Effect = Listen(SITE)


def opening(number: int = 1) -> Effect:
    return OpenChannel(Channel(number), SITE)
