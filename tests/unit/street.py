"""Sites side by side, without a simulator: an address that one can have, channels that carry frames, and one clock."""

from __future__ import annotations

from collections import deque

from unisono.engine import (
    SITE,
    Channel,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    CloseChannel,
    Effect,
    Fact,
    FrameReceived,
    Listen,
    ListenFailed,
    Listening,
    Note,
    OpenChannel,
    SendFrame,
    Start,
    StopListening,
    TimePassed,
)
from unisono.identity import ProcessId
from unisono.site import Change, Site
from unisono.units import MILLISECOND, SECOND

TIMEOUT = 2 * SECOND


class Even:
    """A generator that always says the same."""

    def __init__(self, value: float) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


class House:
    """One process on the street."""

    def __init__(self, name: str, value: float, daemon: bool) -> None:
        self.process = ProcessId(name, 1)
        self.site = Site(self.process, Even(value), TIMEOUT, daemon)
        self.facts: deque[Fact] = deque()
        self.paused = False
        self.alive = True
        self.changes = Change.NONE
        self.notes: list[str] = []


class Street:
    """All processes of one site. Facts are handled in the order in which they come; a paused house keeps them."""

    def __init__(self) -> None:
        self.now = 0
        self.houses: dict[str, House] = {}
        self.host: House | None = None
        self._peers: dict[tuple[str, Channel], tuple[str, Channel]] = {}
        self._accepted = 0

    def build(self, name: str, value: float = 0.5, daemon: bool = False) -> House:
        house = self.houses[name] = House(name, value, daemon)
        self.give(house, Start())
        return house

    def give(self, house: House, fact: Fact) -> None:
        house.facts.append(fact)

    def say(self, house: House, effects: list[Effect]) -> None:
        for effect in effects:
            self._carry_out(house, effect)

    def settle(self) -> None:
        """Handle all that can be handled without time passing."""
        while ready := [h for h in self.houses.values() if h.facts and h.alive and not h.paused]:
            house = ready[0]
            effects, changes = house.site.handle(house.facts.popleft(), self.now)
            house.changes |= changes
            self.say(house, effects)

    def run(self, span: int) -> None:
        """Let time pass, from deadline to deadline."""
        end = self.now + span
        self.settle()
        while True:
            awake = [house for house in self.houses.values() if house.alive and not house.paused]
            due = min((due for house in awake if (due := house.site.deadline()) is not None), default=end)
            if due > end:
                break
            self.now = max(self.now, due)
            for house in awake:
                if (at := house.site.deadline()) is not None and at <= self.now:
                    self.give(house, TimePassed())
            self.settle()
            if due == end:
                break
        self.now = end

    def kill(self, house: House) -> None:
        house.alive = False
        if self.host is house:
            self.host = None
        for (name, channel), (other, far) in list(self._peers.items()):
            if name == house.process.name:
                del self._peers[name, channel]
                if self._peers.pop((other, far), None) is not None:
                    self.give(self.houses[other], ChannelFailed(far, "peer crashed"))

    def hosts(self) -> list[str]:
        return [name for name, house in self.houses.items() if house.alive and house.site.hosting]

    def _carry_out(self, house: House, effect: Effect) -> None:
        name = house.process.name
        if isinstance(effect, Listen):
            assert effect.at == SITE
            taken = self.host is not None and self.host is not house
            self.host = self.host or house
            self.give(house, ListenFailed(SITE, "taken") if taken else Listening(SITE))
        elif isinstance(effect, StopListening):
            assert self.host is house
            self.host = None
        elif isinstance(effect, OpenChannel):
            assert effect.to == SITE
            if self.host is None:
                self.give(house, ChannelFailed(effect.channel, "refused"))
                return
            self._accepted += 1
            far = (self.host.process.name, Channel(-self._accepted))
            self._peers[name, effect.channel], self._peers[far] = far, (name, effect.channel)
            self.give(self.host, ChannelOpened(far[1], SITE, True))
            self.give(house, ChannelOpened(effect.channel, SITE, False))
        elif isinstance(effect, SendFrame):
            if (end := self._peers.get((name, effect.channel))) is not None:
                self.give(self.houses[end[0]], FrameReceived(end[1], effect.data))
        elif isinstance(effect, CloseChannel):
            end = self._peers.pop((name, effect.channel), None)
            if end is not None and self._peers.pop(end, None) is not None:
                self.give(self.houses[end[0]], ChannelClosed(end[1]))
        else:
            assert isinstance(effect, Note), effect
            house.notes.append(effect.reason)


SHORT = 100 * MILLISECOND
