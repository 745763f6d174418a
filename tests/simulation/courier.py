"""An engine made for tests: it uses every service of the contract that the group protocols do not use yet.

It keeps a log, counts its lives in it, listens for channels, opens one to its peer and answers every frame that is not
itself an answer. Its random generator decides when it speaks, so that a replay without the same one shows.
"""

from __future__ import annotations

from unisono.engine import (
    Address,
    AppendLog,
    Channel,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    CloseChannel,
    Effect,
    Fact,
    FrameReceived,
    JoinAddress,
    LeaveAddress,
    Listen,
    Note,
    OpenChannel,
    Randomness,
    ReadLog,
    SendDatagram,
    SendFrame,
    Start,
    StorageDone,
    StorageFailed,
    SyncLog,
    TimePassed,
    multicast_address,
)
from unisono.units import MILLISECOND

FRAMES = 20


class Courier:
    """Speaks to one peer over a channel, and opens a new one when it breaks."""

    __slots__ = ("_channel", "_due", "_next", "_peer", "_randomness", "facts", "lives", "received", "sent", "trouble")

    def __init__(self, peer: Address | None, randomness: Randomness) -> None:
        self._peer = peer
        self._randomness = randomness
        self._channel: Channel | None = None
        self._next = 0
        self._due: int | None = None
        self.lives = 0
        self.sent = 0
        self.received: list[bytes] = []
        self.trouble: list[str] = []
        self.facts: list[str] = []

    def deadline(self) -> int | None:
        return self._due

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        self.facts.append(type(fact).__name__)
        if isinstance(fact, Start):
            address = multicast_address("couriers")
            return [ReadLog("lives", 1), Listen(), JoinAddress(address), SendDatagram(address, b"hello", 3)]
        if isinstance(fact, StorageDone) and fact.request == 1:
            self.lives = len(fact.records) + 1
            return [AppendLog("lives", 2, b"one more"), SyncLog("lives", 3), *self._open()]
        if isinstance(fact, StorageFailed):
            self.trouble.append(fact.reason)
            return [Note(fact.reason)]
        if isinstance(fact, ChannelOpened) and not fact.accepted:
            self._channel = fact.channel
            return self._speak(now)
        if isinstance(fact, FrameReceived):
            self.received.append(fact.data)
            return [] if fact.data.startswith(b"re:") else [SendFrame(fact.channel, b"re:" + fact.data)]
        if isinstance(fact, ChannelFailed) and fact.channel > 0:
            self.trouble.append(fact.reason)
            self._channel = None
            self._due = now + 300 * MILLISECOND
        if isinstance(fact, ChannelClosed):
            self.trouble.append("closed")
            return [LeaveAddress(multicast_address("couriers"))]
        if isinstance(fact, TimePassed):
            self._due = None
            return self._speak(now) if self._channel is not None else self._open()
        return []

    def _open(self) -> list[Effect]:
        if self._peer is None:
            return []
        self._next += 1
        return [OpenChannel(Channel(self._next), self._peer)]

    def _speak(self, now: int) -> list[Effect]:
        assert self._channel is not None, "it speaks when it has a channel"
        if self.sent == FRAMES:
            return [CloseChannel(self._channel)]
        self.sent += 1
        self._due = now + int((50 + 50 * self._randomness.random()) * MILLISECOND)
        return [SendFrame(self._channel, f"frame {self.sent}".encode())]
