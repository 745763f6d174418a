"""The messages of the data path, as engines see them.

Control messages are typed structures with bounds; their codes are part of the wire format and never reused.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, ClassVar, Final

from msgspec import Meta, Struct

from unisono.clock import TIMESTAMP_LIMIT
from unisono.identity import NAME_LIMIT_BYTES, NO_VIEW, ProcessId, ViewMark
from unisono.wire.census_messages import CENSUS_TYPES, CensusMessage
from unisono.wire.control_messages import HIERARCHY_TYPES, HierarchyMessage
from unisono.wire.membership_messages import EXTENSION_LIMIT_BYTES, MEMBERSHIP_TYPES, MembershipMessage
from unisono.wire.part_messages import MessagePart
from unisono.wire.probe_messages import PROBE_TYPES, ProbeMessage
from unisono.wire.proxy_messages import PROXY_TYPES, ProxyMessage
from unisono.wire.session_messages import SESSION_TYPES, SessionMessage

SEQUENCE_LIMIT = (1 << 63) - 1
RANGE_LIMIT = 64
"""The most ranges that one repair request names."""

Sequence = Annotated[int, Meta(ge=0, lt=SEQUENCE_LIMIT)]
FirstSequence = Annotated[int, Meta(ge=1, lt=SEQUENCE_LIMIT)]
Nanoseconds = Annotated[int, Meta(ge=1, lt=SEQUENCE_LIMIT)]
Timestamp = Annotated[int, Meta(ge=0, le=TIMESTAMP_LIMIT)]
Attempt = Annotated[int, Meta(ge=0, lt=SEQUENCE_LIMIT)]
Extension = Annotated[bytes, Meta(max_length=EXTENSION_LIMIT_BYTES)]
"""Opaque to the protocol: the key agreement's part of a membership message."""
Range = tuple[Sequence, Sequence]
"""First and last sequence, both included."""


FRAGMENT: Final = 1
"""Flag of a data message: a part of an application message."""
LEAVE: Final = 2
"""Flag of a data message: the source sends nothing more."""
NAMED: Final = 4
"""Flag of a data message: the application message begins with its name (see unisono.wire.names)."""
CHANGE: Final = 8
"""Flag of a data message: it is about who sends, and not for the application (see unisono.wire.membership_messages)."""
PROXIED: Final = 16
"""Flag of a data message: its source sent it for another (see unisono.wire.origins)."""
OPTIMISTIC: Final = 32
"""Flag of a data message of a session: sent before its view was installed, and void if that never is."""
AGAIN: Final = 64
"""Flag of a data message of a weak session: sent in an earlier view first, for those who have all that came before."""
BEGINS: Final = 128
"""Flag of a data message of a weak session: the first that its source sent in a view, also where it is sent again."""


class DataMessage(Struct, frozen=True, gc=False):
    """One sequence number of a source: an application message, a fragment of one, or the source's farewell.

    `number` counts application messages only; all fragments of a message carry its number.
    """

    sequence: int
    number: int
    timestamp: int
    flags: int
    index: int
    count: int
    payload: bytes


class Whereabouts(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a process stands in the control hierarchy: its control process, that one's coordinator, the leg between.

    Control processes are named by their short ids (see unisono.wire.control_messages). Only the process itself knows
    the leg, in nanoseconds, without which distances are too small (E17). A coordinator is its own, with no leg.
    """

    control: Sequence
    coordinator: Sequence
    leg: Sequence


DIRECTLY: Final = 0
"""Receivers report to the source themselves."""
GATHERED: Final = 1
"""Receivers report through the control hierarchy, if they are in it."""
POLLED: Final = 2
"""As before, and each once to the source itself: somebody is missing, or holds it up."""


class KeepAlive(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """This process lives and its last sequence number is this one (000 4.2.2).

    All of its `listeners` have what it sent up to `stable`; `reporting` says how they report to it. `leaving` if the
    last one is its farewell, or is to be followed by it; `entering` if it is about to be a sender. `view` is the agreed
    view that it is in.
    """

    code: ClassVar[int] = 1
    sequence: Sequence
    timestamp: Timestamp
    stable: Sequence
    listeners: Sequence
    reporting: Annotated[int, Meta(ge=0, le=2)]
    leaving: bool
    entering: bool
    whereabouts: Whereabouts | None
    view: ViewMark


class ActivationRequest(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A receiver asks a source for reliable delivery (000 4.7.1).

    `ordered` if its order waits for the source; `sender` if it is a source itself, in the agreed view `view`.
    """

    code: ClassVar[int] = 2
    target: ProcessId
    attempt: Attempt
    ordered: bool
    sender: bool
    view: ViewMark
    extension: Extension


class ActivationGrant(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The source names the first sequence and number that the receiver gets, and counts it from now on.

    All of that is later than `timestamp`. The receiver reports well within the source's patience. The source is a
    sender from the sequence `term` on, in its agreed view or in one to come: a view that has it there from an earlier
    one on is out of date.
    """

    code: ClassVar[int] = 3
    target: ProcessId
    attempt: Attempt
    sequence: FirstSequence
    number: FirstSequence
    timestamp: Timestamp
    term: FirstSequence
    patience: Nanoseconds
    extension: Extension


class ReportEntry(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Everything of `source` up to `received` is here."""

    source: ProcessId
    attempt: Attempt
    received: Sequence


class Report(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a receiver has, of every source it activated."""

    code: ClassVar[int] = 4
    entries: tuple[ReportEntry, ...]


class RepairRequest(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A receiver lacks these sequences of the target (RTR, 000 3.3); ranges rather than single numbers.

    `attempt` is that of its activation; 0 from a receiver that never activated and is promised nothing. `tries` says
    how often the same had been asked for before, `to_source` how far the target is from the asker.
    """

    code: ClassVar[int] = 5
    target: ProcessId
    attempt: Attempt
    ranges: Annotated[tuple[Range, ...], Meta(min_length=1, max_length=RANGE_LIMIT)]
    tries: Sequence
    to_source: Sequence | None
    whereabouts: Whereabouts | None

    def __post_init__(self) -> None:
        if any(first > last for first, last in self.ranges):
            raise ValueError("a range ends before it begins")
        if any(one[1] >= other[0] for one, other in pairwise(self.ranges)):
            raise ValueError("ranges come in order and do not meet")


class LeftBehindNotice(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The source no longer waits for the target and may have released what it lacks; it is in that agreed view now.

    A source that left a view by itself, even one that has come back since, says so by a mark that is not the target's.
    """

    code: ClassVar[int] = 6
    target: ProcessId
    attempt: Attempt
    view: ViewMark


class Deactivation(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The receiver no longer wants the target's messages."""

    code: ClassVar[int] = 7
    target: ProcessId
    attempt: Attempt


class NameRequest(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A framed receiver asks for the target's message of that name (000 4.9)."""

    code: ClassVar[int] = 8
    target: ProcessId
    name: Annotated[str, Meta(min_length=1, max_length=NAME_LIMIT_BYTES)]


ControlMessage = (
    KeepAlive
    | ActivationRequest
    | ActivationGrant
    | Report
    | RepairRequest
    | LeftBehindNotice
    | Deactivation
    | NameRequest
    | HierarchyMessage
    | MembershipMessage
    | ProbeMessage
    | CensusMessage
    | ProxyMessage
    | SessionMessage
)

CONTROL_TYPES: tuple[type[ControlMessage], ...] = (
    KeepAlive,
    ActivationRequest,
    ActivationGrant,
    Report,
    RepairRequest,
    LeftBehindNotice,
    Deactivation,
    NameRequest,
    *HIERARCHY_TYPES,
    *MEMBERSHIP_TYPES,
    *PROBE_TYPES,
    *CENSUS_TYPES,
    *PROXY_TYPES,
    *SESSION_TYPES,
)


class DataPacket(Struct, frozen=True, gc=False):
    """Data messages of one source with consecutive sequence numbers, and the datagram that they came in.

    Everybody has what the source sent up to `stable`; it was in the agreed view `view` when it sent them.
    """

    source: ProcessId
    group: int
    messages: list[DataMessage]
    stable: int
    sealed: bytes
    view: ViewMark = NO_VIEW


class ControlPacket(Struct, frozen=True):
    """Control messages of one process, and parts of larger ones; `refused` names what was skipped among them."""

    source: ProcessId
    group: int
    messages: list[ControlMessage]
    refused: tuple[str, ...] = ()
    parts: tuple[MessagePart, ...] = ()


class RepairPacket(Struct, frozen=True):
    """A datagram of `data.source` as it was first sent, handed on by `source` (RTX, 000 3.4)."""

    source: ProcessId
    group: int
    data: DataPacket


Packet = DataPacket | ControlPacket | RepairPacket
