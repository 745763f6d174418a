"""What an application receives from a group, in the order in which it happened."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from unisono.identity import ProcessId, StartPoint, ViewId


class ViewReason(StrEnum):
    """Why a view differs from the one before."""

    JOINED = "joined"
    ACTIVATED = "activated"
    LEFT = "left"
    LEFT_BEHIND = "left behind"
    SILENT = "silent"
    RESTARTED = "restarted"
    TOO_LARGE = "message too large"
    HEARD = "heard"
    SERVICE = "service changed"
    AGREED = "agreed"


class Message(Struct, frozen=True, gc=False):
    """One application message, delivered; with the name that its sender gave it, if any."""

    source: ProcessId
    sequence: int
    number: int
    timestamp: int
    data: bytes
    view: ViewId | None
    index: int
    name: str = ""


class View(Struct, frozen=True):
    """From here on these are the sources; under source order every receiver has views of its own (000 1.3.2)."""

    id: ViewId
    previous: ViewId | None
    members: tuple[ProcessId, ...]
    start: tuple[StartPoint, ...]
    reasons: tuple[tuple[ProcessId, ViewReason], ...]


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


class SendAccepted(Struct, frozen=True):
    """The messages of one send command have left this process."""

    ticket: int


class SendRefused(Struct, frozen=True):
    """The messages of one send command were not taken, none of them."""

    ticket: int
    reason: str


class Left(Struct, frozen=True):
    """This process is out of the group; no event follows."""


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
    | LeftBehind
    | SourceUnavailable
    | Gap
    | Unrecovered
    | SendAccepted
    | SendRefused
    | Left
    | SiteChanged
)
