"""The way to one of several daemons: found, kept alive, and another one taken when it fails."""

from __future__ import annotations

from enum import Enum, auto
from typing import Protocol

from unisono.engine import (
    Address,
    Channel,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    CloseChannel,
    Effect,
    Fact,
    FrameReceived,
    Note,
    OpenChannel,
    Randomness,
    SendFrame,
)
from unisono.identity import ProcessId
from unisono.settings import Settings
from unisono.virtual_synchrony.reasons import Reason

RETRY_DIVISOR = 4
"""After a turn of all daemons the next one begins after this part of their timeout, or later."""


class Phase(Enum):
    """How far the way to a daemon has come."""

    SEEKING = auto()
    OPENING = auto()
    ATTACHED = auto()


class Visitor(Protocol):
    """Whose link this is."""

    def greeting(self) -> list[bytes]:
        """The first frames on every new channel."""
        ...

    def question(self, number: int) -> bytes:
        """The frame that asks whether the daemon lives, and is answered with the same number."""
        ...

    def on_frame(self, data: bytes, now: int) -> str | None:
        """A frame of the daemon; the reason to leave it for another, where there is one."""
        ...

    def on_lost(self, reason: str) -> None:
        """The daemon that this process was with is lost."""
        ...


class Link:
    """One process's channel to one of some daemons, at a time."""

    __slots__ = (
        "_asked",
        "_channel",
        "_due",
        "_heard",
        "_last_channel",
        "_phase",
        "_pinged",
        "_places",
        "_randomness",
        "_settings",
        "_started",
        "_tries",
        "_visitor",
    )

    def __init__(
        self,
        visitor: Visitor,
        process: ProcessId,
        places: tuple[Address, ...],
        settings: Settings,
        randomness: Randomness,
        first_channel: int,
    ) -> None:
        assert places, "there is a daemon to go to"
        self._visitor = visitor
        self._places = list(places)
        self._settings = settings
        self._randomness = randomness
        self._last_channel = first_channel - 1
        self._channel: Channel | None = None
        self._phase = Phase.SEEKING
        self._due: int | None = None
        self._started = self._tries = sum(process.name.encode()) % len(places)
        self._heard = 0
        self._asked = 0
        self._pinged = 0

    @property
    def attached(self) -> bool:
        return self._phase is Phase.ATTACHED

    @property
    def asked(self) -> int:
        """The number of the last question."""
        return self._asked

    @property
    def place(self) -> Address:
        """Where the daemon is that this process is with, or tries."""
        return self._places[self._tries % len(self._places)]

    def owns(self, channel: Channel) -> bool:
        return channel == self._channel

    def deadline(self) -> int | None:
        return self._due

    def learn(self, place: Address) -> None:
        """Another daemon is there too."""
        if place not in self._places:
            count = len(self._places)
            self._started, self._tries = self._started % count, self._tries % count  # the same places as before
            self._places.append(place)

    def settle(self) -> None:
        """The daemon took this process in: should it fail, all others are tried before this one."""
        self._started = self._tries

    def say(self, frame: bytes) -> list[Effect]:
        """Send a frame while there is a daemon; whoever comes to the next one greets it anew."""
        return [SendFrame(self._channel, frame)] if self.attached and self._channel is not None else []

    def ask(self, now: int) -> list[Effect]:
        """Ask whether the daemon lives: what it said before its answer is all that it had to say."""
        if not self.attached:
            return []
        self._asked += 1
        self._pinged = now
        self._arrange()
        return self.say(self._visitor.question(self._asked))

    def handle(self, fact: Fact, now: int) -> list[Effect]:
        """A fact about the channel."""
        if isinstance(fact, ChannelOpened):
            self._phase = Phase.ATTACHED
            self._heard = now
            return [effect for frame in self._visitor.greeting() for effect in self.say(frame)] + self.ask(now)
        if isinstance(fact, ChannelClosed | ChannelFailed):
            reason = fact.reason if isinstance(fact, ChannelFailed) else "closed"
            return [Note(Reason.SERVER_LOST), *self._give_up(now, reason, closing=False)]
        if isinstance(fact, FrameReceived):
            self._heard = now
            complaint = self._visitor.on_frame(fact.data, now)
            return [] if complaint is None else [Note(Reason.BAD_SERVER), *self._give_up(now, complaint)]
        return []

    def on_time(self, now: int) -> list[Effect]:
        if self._due is None or now < self._due:
            return []
        if self._phase is Phase.SEEKING:
            return self.seek(now)
        if self._phase is Phase.OPENING:
            return self._give_up(now, "no answer")
        if now - self._heard >= self._settings.server_timeout:
            return [Note(Reason.SERVER_SILENT), *self._give_up(now, "silent")]
        if now - self._pinged >= self._settings.server_interval:
            return self.ask(now)
        self._arrange()
        return []

    def forgive(self, gap: int) -> None:
        """This process was stopped: the daemon could not be heard meanwhile."""
        self._heard += gap
        if self._phase is Phase.OPENING and self._due is not None:
            self._due += gap
        self._arrange()

    def leave(self, now: int, reason: str) -> list[Effect]:
        """Go to another daemon: this one does not keep to the protocol."""
        return self._give_up(now, reason) if self.attached else []

    def seek(self, now: int) -> list[Effect]:
        """Open a channel to the daemon whose turn it is."""
        self._last_channel += 1
        self._channel = Channel(self._last_channel)
        self._phase = Phase.OPENING
        self._due = now + self._settings.server_timeout
        return [OpenChannel(self._channel, self.place)]

    def _arrange(self) -> None:
        if self._phase is Phase.ATTACHED:
            self._due = min(self._pinged + self._settings.server_interval, self._heard + self._settings.server_timeout)

    def _give_up(self, now: int, reason: str, closing: bool = True) -> list[Effect]:
        """Leave this daemon, and try the next one; after a turn of all of them, not at once."""
        channel, self._channel = self._channel, None
        assert channel is not None, "there was a channel"
        effects: list[Effect] = [CloseChannel(channel)] if closing else []
        if self._phase is Phase.ATTACHED:
            self._visitor.on_lost(reason)
        self._phase = Phase.SEEKING
        self._tries += 1
        turn = (self._tries - self._started) % len(self._places) == 0
        pause = self._settings.server_timeout // RETRY_DIVISOR
        self._due = now + (pause + int(pause * self._randomness.random()) if turn else 0)
        return [*effects, *self.seek(now)] if self._due <= now else effects
