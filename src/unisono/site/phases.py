"""How far a process has come in finding its host. Each phase carries what is valid in it; at `due` it acts."""

from __future__ import annotations

from enum import Enum, Flag, auto

from unisono.engine import Channel
from unisono.wire.site_frames import Welcome

HEARTBEATS = 4
"""How often a host is heard in `site_timeout`; no wait for another try lasts longer than the time between two."""


class Standing(Enum):
    """What a process is in its site."""

    SEEKING = "seeking"
    MEMBER = "member"
    HOSTING = "hosting"


class Change(Flag):
    """What came out of a fact, for whoever uses the site."""

    NONE = 0
    STANDING = auto()
    MEMBERS = auto()
    DOWNWARD = auto()


class Waiting:
    """Until the next try: to listen, or to open a channel."""

    __slots__ = ("due", "listen")

    def __init__(self, due: int, listen: bool) -> None:
        self.due = due
        self.listen = listen


class Taking:
    """The address was asked for; the driver answers."""

    __slots__ = ("due",)

    def __init__(self) -> None:
        self.due: int | None = None


class Opening:
    """A channel to the host was asked for, and the host has not said welcome, or is asked by a daemon to give way."""

    __slots__ = ("channel", "claimed", "due", "stands")

    def __init__(self, channel: Channel, due: int) -> None:
        self.channel = channel
        self.due = due
        self.stands = False
        self.claimed = False


class Joined:
    """The host is there, until it is silent for too long."""

    __slots__ = ("channel", "due", "host", "of_daemon")

    def __init__(self, channel: Channel, due: int, welcome: Welcome) -> None:
        self.channel = channel
        self.due = due
        self.host = welcome.host
        self.of_daemon = welcome.daemon
