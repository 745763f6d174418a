"""The messages of the data path, as engines see them.

Control messages are typed structures with bounds; their codes are part of the wire format and never reused.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from msgspec import Meta, Struct

from unisono.clock import TIMESTAMP_LIMIT
from unisono.identity import ProcessId
from unisono.wire.control_messages import HIERARCHY_TYPES, HierarchyMessage

SEQUENCE_LIMIT = (1 << 63) - 1
RANGE_LIMIT = 64
"""The most ranges that one repair request names."""
EXTENSION_LIMIT_BYTES = 8192

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


class KeepAlive(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """This process lives and its last sequence number is this one (000 4.2.2)."""

    code: ClassVar[int] = 1
    sequence: Sequence
    timestamp: Timestamp


class ActivationRequest(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A receiver asks a source for reliable delivery (000 4.7.1)."""

    code: ClassVar[int] = 2
    target: ProcessId
    attempt: Attempt
    extension: Extension


class ActivationGrant(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The source names the first sequence and number that the receiver gets, and counts it from now on.

    The receiver reports well within the source's patience.
    """

    code: ClassVar[int] = 3
    target: ProcessId
    attempt: Attempt
    sequence: FirstSequence
    number: FirstSequence
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
    """A receiver lacks these sequences of the target (RTR, 000 3.3); ranges rather than single numbers."""

    code: ClassVar[int] = 5
    target: ProcessId
    attempt: Attempt
    ranges: Annotated[tuple[Range, ...], Meta(min_length=1, max_length=RANGE_LIMIT)]

    def __post_init__(self) -> None:
        if any(first > last for first, last in self.ranges):
            raise ValueError("a range ends before it begins")


class LeftBehindNotice(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The source no longer waits for the target and may have released what it lacks."""

    code: ClassVar[int] = 6
    target: ProcessId
    attempt: Attempt


class Deactivation(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The receiver no longer wants the target's messages."""

    code: ClassVar[int] = 7
    target: ProcessId
    attempt: Attempt


ControlMessage = (
    KeepAlive
    | ActivationRequest
    | ActivationGrant
    | Report
    | RepairRequest
    | LeftBehindNotice
    | Deactivation
    | HierarchyMessage
)

CONTROL_TYPES: tuple[type[ControlMessage], ...] = (
    KeepAlive,
    ActivationRequest,
    ActivationGrant,
    Report,
    RepairRequest,
    LeftBehindNotice,
    Deactivation,
    *HIERARCHY_TYPES,
)


class DataPacket(Struct, frozen=True, gc=False):
    """Data messages of one source with consecutive sequence numbers."""

    source: ProcessId
    group: int
    messages: list[DataMessage]


class ControlPacket(Struct, frozen=True):
    """Control messages of one process; `refused` names what was skipped among them."""

    source: ProcessId
    group: int
    messages: list[ControlMessage]
    refused: tuple[str, ...] = ()


class RepairPacket(Struct, frozen=True):
    """A datagram of `data.source` as it was first sent, handed on by `source` (RTX, 000 3.4)."""

    source: ProcessId
    group: int
    data: DataPacket


Packet = DataPacket | ControlPacket | RepairPacket
