"""The messages by which senders agree on views (000 5.2.2), and receivers follow them.

They are statements, not parts of a stream: each says how its sender stands now, is said again until it is overtaken,
and waits behind no data (E21). Codes are part of the wire format and never reused.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import msgspec
from msgspec import Meta, Struct

from unisono.identity import ProcessId, ViewId

MEMBER_LIMIT = 1024
"""The most processes that one message names."""
EXTENSION_LIMIT_BYTES = 8192

_Number = Annotated[int, Meta(ge=0, lt=(1 << 63) - 1)]
_First = Annotated[int, Meta(ge=1, lt=(1 << 63) - 1)]
_Word = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Processes = Annotated[tuple[ProcessId, ...], Meta(max_length=MEMBER_LIMIT)]
_Extension = Annotated[bytes, Meta(max_length=EXTENSION_LIMIT_BYTES)]


class UpTo(NamedTuple):
    """Everything of a source up to a sequence."""

    source: ProcessId
    sequence: _Number


_Points = Annotated[tuple[UpTo, ...], Meta(max_length=MEMBER_LIMIT)]


class Opinion(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Who should be in the next view, as one sender sees it (PJoin).

    `attempt` grows with every change of it. `accused` is whom the sender does not hear, `failed` whom it leaves out,
    by its own observation and that of others, `refused` whom only because they leave it out themselves. `lacks` are
    messages of its view that it cannot get. `out` says that it leaves. It was stopped for `paused` nanoseconds not
    long ago.
    """

    code: ClassVar[int] = 30
    view: ViewId
    attempt: _First
    procs: _Processes
    accused: _Processes
    failed: _Processes
    refused: _Processes
    lacks: _Points
    out: bool
    paused: _Number

    @property
    def members(self) -> frozenset[ProcessId]:
        """Who would be in the next view."""
        return frozenset(self.procs).difference(self.failed, self.refused)


class PrimaryRecord(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A primary view that stood, or that its members were ready for."""

    view: ViewId
    members: _Processes


class RecoveryInfo(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What one sender brings to the end of its view (RecInfo): what it has sent and holds.

    It sends nothing from here to the next view. `number` is that of its next message; `held` says up to where the
    messages of its view are here, or known to be with a receiver. Nothing it sent or holds is later than `timestamp`.
    `last` is the view that it is in, if somebody became a sender or a receiver since `view`.
    """

    code: ClassVar[int] = 31
    proposal: _Word
    view: ViewId
    last: ViewId
    timestamp: _Number
    sent: _Number
    number: _First
    held: _Points
    primary: PrimaryRecord | None
    attempted: Annotated[tuple[PrimaryRecord, ...], Meta(max_length=16)]
    extension: _Extension


class Ready(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Everything that belongs before the proposed view is here (RTC)."""

    code: ClassVar[int] = 32
    proposal: _Word


class Seat(NamedTuple):
    """A member of a view: with which of its attempts it came, and where it starts."""

    process: ProcessId
    attempt: _Number
    sequence: _First
    number: _First


class Origin(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A view from which members come: who of them, and where it ends.

    `last` is the latest that followed it, at any of them, because somebody became a sender or a receiver.
    """

    view: ViewId
    last: ViewId
    entrants: _Processes
    cut: _Points


class NewView(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The view stands (MC): its identifier, its members, where they come from and why others are not in it.

    Who installed it says it again to whoever missed it, and who came or went since then by the order of messages is in
    it or not: `view` is the view that stands now, and `era` the one that was agreed by repair. Of those who are not in
    it, the `lacked` have sent a message that others could not get, or could not get one. The `electors` are all who
    agreed on a primary view; empty if it is not primary, None where nobody asks.
    """

    code: ClassVar[int] = 33
    proposal: _Word
    view: ViewId
    era: ViewId
    seats: Annotated[tuple[Seat, ...], Meta(min_length=1, max_length=MEMBER_LIMIT)]
    origins: Annotated[tuple[Origin, ...], Meta(max_length=MEMBER_LIMIT)]
    suspects: Annotated[tuple[tuple[ProcessId, _Processes], ...], Meta(max_length=MEMBER_LIMIT)]
    lacked: _Processes
    electors: _Processes | None
    extension: _Extension

    @property
    def leavers(self) -> tuple[ProcessId, ...]:
        """Who is not in it by its own will."""
        return tuple(process for process, by in self.suspects if by == (process,))


class CutInfo(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a receiver holds of a view whose end is being agreed."""

    code: ClassVar[int] = 34
    view: ViewId
    held: _Points


class ViewRequest(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Somebody asks the target what view stands; `known` is the one it is in itself, if any."""

    code: ClassVar[int] = 35
    target: ProcessId
    known: ViewId | None


class AddRequest(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Somebody who follows an era asks one of its members, the target, to be its sponsor."""

    code: ClassVar[int] = 36
    target: ProcessId
    era: ViewId
    seat: Seat


class Leaver(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A member of a view has said that it leaves, with that attempt: told to a member that has missed its word."""

    code: ClassVar[int] = 37
    process: ProcessId
    view: ViewId
    attempt: _First

    @property
    def word(self) -> Opinion:
        """The leaver's own word, as it would come late or twice."""
        return Opinion(self.view, self.attempt, (self.process,), (), (), (), (), True, 0)


class SenderAdded(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="add"):
    """From its place in the order on, a process is a sender (PAdd). It is said by a sponsor."""

    seat: Seat


class SenderLeft(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="leave"):
    """From its place in the order on, who says it is a receiver (PLeave).

    If nobody else is a sender it has no effect, unless it is `final`: then nobody is.
    """

    final: bool


Change = SenderAdded | SenderLeft
"""What members of a view say in their streams of messages, and all apply at the same place of the order."""

_CHANGES = msgspec.msgpack.Decoder(Change)


def read_change(payload: bytes) -> Change | None:
    """What a member said of who sends, if it can be understood."""
    try:
        change: Change = _CHANGES.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return change


SENDERS_WORDS = (Opinion, RecoveryInfo, Ready, NewView, Leaver)
"""What only senders say: whoever says it can be followed."""

MembershipMessage = Opinion | RecoveryInfo | Ready | NewView | CutInfo | ViewRequest | AddRequest | Leaver

MEMBERSHIP_TYPES: tuple[type[MembershipMessage], ...] = (
    Opinion,
    RecoveryInfo,
    Ready,
    NewView,
    CutInfo,
    ViewRequest,
    AddRequest,
    Leaver,
)
