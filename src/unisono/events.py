"""What an application receives from a group, in the order in which it happened."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import ceil, floor
from typing import Literal

from msgspec import Struct

from unisono.identity import Point, ProcessId, StartPoint, ViewId

NINETEEN_OF_TWENTY = 1.96
"""So many standard errors to either side of an estimate."""
SHOWN_BYTES = 60
"""So much of a message is shown to a person."""


class ViewReason(StrEnum):
    """Why a view differs from the one before."""

    JOINED = "joined"
    ACTIVATED = "activated"
    LEFT = "left"
    GONE = "gone"
    LEFT_BEHIND = "left behind"
    SILENT = "silent"
    RESTARTED = "restarted"
    TOO_LARGE = "message too large"
    HEARD = "heard"
    SERVICE = "service changed"
    AGREED = "agreed"
    SUSPECTED = "suspected"
    MERGED = "merged"
    INCOMPLETE = "messages did not come"
    SENDS = "sends now"
    ONLY_RECEIVES = "only receives now"


class Message(Struct, frozen=True, gc=False):
    """One application message, delivered; with the name that its sender gave it, if any.

    `by` sent it for its source, where that only receives: then `number` counts what the source asked for, and
    `by_number` what `by` sent. A copy of what came before is `repeated`, and no application gets it.
    """

    source: ProcessId
    sequence: int
    number: int
    timestamp: int
    data: bytes
    view: ViewId | None
    index: int
    name: str = ""
    by: ProcessId | None = None
    by_number: int = 0
    repeated: bool = False

    @property
    def carrier(self) -> ProcessId:
        """In whose stream of messages it came."""
        return self.source if self.by is None else self.by

    @property
    def carrier_number(self) -> int:
        """Its number in that stream."""
        return self.number if self.by is None else self.by_number

    def is_known(self, handed: Mapping[ProcessId, int]) -> bool:
        """Whether an application has had it already that had, of each who lets others send, all up to a number."""
        return self.repeated or (self.by is not None and self.number <= handed.get(self.source, 0))

    def __str__(self) -> str:
        """In one line, for a person: who sent it, its number, and the beginning of the data."""
        beginning = self.data if len(self.data) <= SHOWN_BYTES else self.data[:SHOWN_BYTES] + b"..."
        return f"{self.source.name} #{self.number}: {beginning!r}"


class View(Struct, frozen=True):
    """From here on these are the sources.

    Under timestamp order the senders agree on it: all who install it have the same members and start, and those who
    come from the same view (`transitional`, where this process is one of them) have delivered the same messages in it.
    `merged` are the views that its members come from; `suspects` says who was suspected by whom. `whole` is False
    where this process came into the middle of it, `primary` says whether this is the primary component, where one is
    asked for. Under source order every receiver has views of its own (000 1.3.2), without any of this.
    """

    id: ViewId
    previous: ViewId | None
    members: tuple[ProcessId, ...]
    start: tuple[StartPoint, ...]
    reasons: tuple[tuple[ProcessId, ViewReason], ...]
    transitional: tuple[ProcessId, ...] | None = None
    merged: tuple[ViewId, ...] = ()
    suspects: tuple[tuple[ProcessId, tuple[ProcessId, ...]], ...] = ()
    role: Literal["sender", "receiver"] = "receiver"
    whole: bool = True
    primary: bool | None = None
    era: ViewId | None = None
    """The view that was agreed last, if this one followed it when somebody became a sender or a receiver."""
    change: int | None = None
    """In a virtual synchrony session: the start-change that announced this view."""

    def __str__(self) -> str:
        """In one line, for a person: who is there, and why that changed."""
        names = " ".join(process.name for process in self.members)
        reasons = ", ".join(f"{process.name} {reason}" for process, reason in self.reasons)
        return f"view of {names or 'nobody'}" + (f" ({reasons})" if reasons else "")


class Excluded(Struct, frozen=True):
    """The others went on without this process, from the view that it was in; it comes back by itself."""

    view: ViewId


class DroppedOut(Struct, frozen=True):
    """This process could not go on as the others do; `reason` says why.

    A mere receiver starts anew, with a gap before its next view. A member of a session has left the group.
    """

    reason: str


class LeftBehind(Struct, frozen=True):
    """A source no longer waits for this receiver: messages up to the next activation of it are lost here."""

    source: ProcessId


class SourceUnavailable(Struct, frozen=True):
    """A source did not answer the activation handshake."""

    source: ProcessId


class Gap(Struct, frozen=True):
    """These sequences of a source did not come (framed delivery): ask for what is still wanted."""

    source: ProcessId
    first: int
    last: int


class Unrecovered(Struct, frozen=True):
    """What was asked for did not come after many tries: nobody has it any more, or nobody is there."""

    source: ProcessId
    first: int
    last: int
    name: str = ""


class StateProgress(Struct, frozen=True):
    """How much of the group's state has come to this newcomer, of how much, and from whom; 0 of 0 while it asks.

    `trouble` says why it goes on slower than it could, where it does: nobody is there, a disk is full.
    """

    received: int
    size: int
    provider: ProcessId | None
    trouble: str = ""

    def __str__(self) -> str:
        """In one line, for a person."""
        source = "" if self.provider is None else f" from {self.provider.name}"
        return f"state: {self.received} of {self.size} bytes{source}" + (f" ({self.trouble})" if self.trouble else "")


class StateReceived(Struct, frozen=True):
    """The application has the group's state, as of a point; what follows are the messages after it.

    Without a provider there was none to be had, and the application's own counts.
    """

    provider: ProcessId | None
    size: int = 0
    point: Point | None = None


class AudienceEstimate(Struct, frozen=True):
    """About how many are in the group, this process included: `count` with its standard error; `least` were heard.

    Who cannot be reached is not counted. Nobody's name is in it.
    """

    count: int
    error: float
    least: int

    @property
    def low(self) -> int:
        """With `high`: nineteen of twenty times as many as there are lie between."""
        return max(self.least, floor(self.count - NINETEEN_OF_TWENTY * self.error))

    @property
    def high(self) -> int:
        return max(self.count, ceil(self.count + NINETEEN_OF_TWENTY * self.error))

    def __str__(self) -> str:
        """In words, for a person."""
        return f"about {self.count} ({self.low} to {self.high})" if self.error else str(self.count)


class Block(Struct, frozen=True):
    """The view is about to change, for the start-change of this number: send what belongs into the current one, then
    say `block_ok`. Whoever says nothing is not waited for longer than `block_timeout`."""

    change: int


class Unblocked(Struct, frozen=True):
    """Sends go out again; stands after the view that ended the block."""

    change: int


class Returned(Struct, frozen=True):
    """An optimistic message comes back: the view that it was sent for never came. Nobody has delivered it, nor will."""

    data: bytes
    number: int


class ServerChanged(Struct, frozen=True):
    """Which membership server, or controller, this process is with; None while it looks for one, with the reason."""

    server: str | None
    reason: str = ""


class SendAccepted(Struct, frozen=True):
    """The messages of one send command have left this process."""

    ticket: int


class SendRefused(Struct, frozen=True):
    """The messages of one send command were not taken, none of them."""

    ticket: int
    reason: str


class Left(Struct, frozen=True):
    """This process is out of the group; no event follows.

    `complete` is false where `leave_timeout` ran out before all who count had what it sent.
    """

    complete: bool = True


class SiteChanged(Struct, frozen=True):
    """Who speaks for this process in its site, or nobody (`host` is None); `guests` are those it speaks for itself.

    It belongs to the process and not to a group: no group gives it to its application.
    """

    host: ProcessId | None
    hosting: bool
    of_daemon: bool
    guests: tuple[ProcessId, ...]


Event = (
    Message
    | View
    | Excluded
    | DroppedOut
    | LeftBehind
    | SourceUnavailable
    | Gap
    | Unrecovered
    | StateProgress
    | StateReceived
    | AudienceEstimate
    | Block
    | Unblocked
    | Returned
    | ServerChanged
    | SendAccepted
    | SendRefused
    | Left
    | SiteChanged
)
