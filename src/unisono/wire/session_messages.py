"""What the members of a virtual synchrony session tell each other beside their messages (002 5.4).

Members are named by their place among the members of a view in order, so that a cut of a large group stays small. No
message outgrows a datagram: a cut comes in as many parts as it needs.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from unisono.identity import ProcessId, ViewMark

SESSION_RANGE_LIMIT = 64
"""The most ranges that one request names."""
PART_LIMIT = 4096
"""The most parts of a cut."""

_Number = Annotated[int, Meta(ge=0, lt=(1 << 63) - 1)]
_Place = Annotated[int, Meta(ge=0, lt=1 << 20)]

Count = tuple[_Place, _Number]
"""Everything up to this sequence, of the member with that place in the view."""


class ViewStart(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """This process is in `view`, came there from `previous`, and its last sequence in it is `sequence`.

    Sent when a view is installed, and again and again while it stands, so that neither it nor the loss of a last
    message is missed. It knows that everybody has delivered what it sent up to `stable`: whoever has more says so
    again. `reading` is False while the application does not take what comes. `since` is the number of the first view of
    its stay, 0 before; `weak` says with which semantics.
    """

    code: ClassVar[int] = 80
    view: ViewMark
    previous: ViewMark
    sequence: _Number
    stable: _Number
    reading: bool
    since: _Number = 0
    weak: bool = False


class Cut(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What this process can deliver in `view`, said once for a change of the view: one part of so many.

    Members that are not named stand at zero.
    """

    code: ClassVar[int] = 81
    change: _Number
    view: ViewMark
    part: Annotated[int, Meta(ge=0, lt=PART_LIMIT)]
    parts: Annotated[int, Meta(ge=1, le=PART_LIMIT)]
    counts: tuple[Count, ...]

    def __post_init__(self) -> None:
        if self.part >= self.parts:
            raise ValueError("a part is one of its parts")


class CutRequest(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The target's cut for this change has not come here, or not all of it."""

    code: ClassVar[int] = 82
    change: _Number
    target: ProcessId


class StableCut(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What this process has delivered in `view`; who is not named here is said elsewhere, or has sent nothing new."""

    code: ClassVar[int] = 83
    view: ViewMark
    counts: tuple[Count, ...]


class SessionRequest(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """This process lacks these sequences that the target sent in `view`; whoever gets this and has them repairs."""

    code: ClassVar[int] = 84
    view: ViewMark
    target: ProcessId
    ranges: Annotated[tuple[tuple[_Number, _Number], ...], Meta(min_length=1, max_length=SESSION_RANGE_LIMIT)]

    def __post_init__(self) -> None:
        if any(first > last for first, last in self.ranges):
            raise ValueError("a range ends before it begins")


SessionMessage = ViewStart | Cut | CutRequest | StableCut | SessionRequest
SESSION_TYPES: tuple[type[SessionMessage], ...] = (ViewStart, Cut, CutRequest, StableCut, SessionRequest)
