"""The host's side of a site: who is connected, what each of them says, and what the host says to all."""

from __future__ import annotations

from unisono.engine import Channel, CloseChannel, Effect, FrameReceived, Note, SendFrame
from unisono.identity import ProcessId
from unisono.site.phases import HEARTBEATS
from unisono.wire.site_frames import Claim, Downward, Heartbeat, Hello, Welcome, read_member_frame, write_site_frame

GUEST_LIMIT = 1024
"""Processes that one host takes in."""


class Guest:
    """The other end of a channel; without a name until it said hello."""

    __slots__ = ("process", "since", "upward")

    def __init__(self, since: int) -> None:
        self.since = since
        self.process: ProcessId | None = None
        self.upward: bytes | None = None


class Hosting:
    """The phase in which this process has the address.

    `changed` says that what the guests say is not what it was; `claimant` is the channel of a daemon that wants the
    site. Both are for the site to read and to clear.
    """

    __slots__ = ("_daemon", "_guests", "_own", "_spoken", "_timeout", "changed", "claimant", "due")

    def __init__(self, own: ProcessId, daemon: bool, timeout: int, now: int) -> None:
        self._own = own
        self._daemon = daemon
        self._timeout = timeout
        self._guests: dict[Channel, Guest] = {}
        self._spoken: bytes | None = None
        self.due = now + timeout // HEARTBEATS
        self.changed = True
        self.claimant: Channel | None = None

    @property
    def channels(self) -> list[Channel]:
        return sorted(self._guests)

    @property
    def guests(self) -> dict[ProcessId, bytes | None]:
        """Who said hello, and what it says."""
        named = [(guest.process, guest.upward) for guest in self._guests.values() if guest.process is not None]
        return dict(sorted(named, key=lambda said: said[0]))

    def speak(self, content: bytes) -> list[Effect]:
        self._spoken = content
        return self._to_all(write_site_frame(Downward(content)))

    def on_opened(self, channel: Channel, now: int) -> list[Effect]:
        self._guests[channel] = Guest(now)
        if len(self._guests) > GUEST_LIMIT:
            return self._turn_away(channel, "site: no room for another guest")
        return []

    def on_end(self, channel: Channel) -> None:
        guest = self._guests.pop(channel, None)
        if guest is not None and guest.process is not None:
            self.changed = True

    def on_time(self, now: int) -> list[Effect]:
        """Be heard, and wait no longer for those who do not say who they are."""
        self.due = now + self._timeout // HEARTBEATS
        effects: list[Effect] = []
        for channel, guest in sorted(self._guests.items()):
            if guest.process is None and now - guest.since > self._timeout:
                effects += self._turn_away(channel, "site: a guest that does not say hello")
        return effects + self._to_all(write_site_frame(Heartbeat()))

    def on_frame(self, fact: FrameReceived) -> list[Effect]:
        guest = self._guests.get(fact.channel)
        if guest is None:
            return []
        frame = read_member_frame(fact.data)
        if frame is None or isinstance(frame, Hello) != (guest.process is None):
            return self._turn_away(fact.channel, "site: a bad frame of a guest")
        if isinstance(frame, Hello):
            return self._welcome(guest, fact.channel, frame)
        if isinstance(frame, Claim):
            if self._daemon:
                return [Note("site: a daemon hosts it already")]
            self.claimant = fact.channel
            return []
        guest.upward = frame.content
        self.changed = True
        return []

    def _welcome(self, guest: Guest, channel: Channel, hello: Hello) -> list[Effect]:
        """Take a process in. It may have come back before the end of its earlier channel was seen."""
        if hello.process == self._own:
            return self._turn_away(channel, "site: a guest with the name of the host")
        effects: list[Effect] = []
        for earlier, other in sorted(self._guests.items()):
            if other.process == hello.process:
                effects += self._turn_away(earlier, "site: a guest came again")
        guest.process, guest.upward = hello.process, hello.upward
        self.changed = True
        return [*effects, SendFrame(channel, write_site_frame(Welcome(self._own, self._daemon, self._spoken)))]

    def _turn_away(self, channel: Channel, reason: str) -> list[Effect]:
        self.on_end(channel)
        return [Note(reason), CloseChannel(channel)]

    def _to_all(self, frame: bytes) -> list[Effect]:
        return [
            SendFrame(channel, frame) for channel, guest in sorted(self._guests.items()) if guest.process is not None
        ]
