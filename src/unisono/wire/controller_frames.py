"""Frames between a controller and the clients it speaks for (structured sessions, 002 7.1).

A client has one channel to one controller. What changes is told as a difference to what was told before on it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from unisono.identity import ProcessId, ViewId, why_bad_name
from unisono.wire.server_frames import GroupName, Number, Removed, decoders, read_typed_frame

# ── from a client ──


class Enter(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A client wants to be in a group, for the first time on this channel or again; `change` is the last it saw.

    `entry` counts over all that one process enters: where it is known to two controllers, the later entry counts.
    """

    code: ClassVar[int] = 1
    process: ProcessId
    group: GroupName
    change: Number
    entry: Number


class Exit(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A client is in a group no longer."""

    code: ClassVar[int] = 2
    group: GroupName


class Upward(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message of a client, sent in the view that started with this number."""

    code: ClassVar[int] = 3
    group: GroupName
    view: Number
    number: Number
    timestamp: Number
    data: bytes


class Ready(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The client sends nothing more in its view."""

    code: ClassVar[int] = 4
    group: GroupName
    change: Number


class Took(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The client's application has taken so many bytes of what came down."""

    code: ClassVar[int] = 5
    group: GroupName
    size: Number


class ClientAlive(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The client lives; the controller answers with the same number."""

    code: ClassVar[int] = 6
    number: Number


# ── from a controller ──


class Prepare(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The view is about to change: who is expected, as a difference, or `anew`; `digest` is of the result."""

    code: ClassVar[int] = 16
    group: GroupName
    change: Number
    anew: bool
    added: tuple[ProcessId, ...]
    removed: Removed
    digest: Annotated[int, Meta(ge=0)]


class Installed(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The view that was prepared last stands, and everything that belongs before it came before this.

    Of the members of both this view and the last one all came along, but for those in `apart`.
    """

    code: ClassVar[int] = 17
    group: GroupName
    view: ViewId
    apart: tuple[ProcessId, ...]


class Downward(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message for the client's application; the client's own among them."""

    code: ClassVar[int] = 18
    group: GroupName
    source: ProcessId
    number: Number
    timestamp: Number
    data: bytes


class Sent(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The client's messages up to this number have left the controller."""

    code: ClassVar[int] = 19
    group: GroupName
    number: Number


class ControllerAlive(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The controller lives."""

    code: ClassVar[int] = 20
    number: Number


LEFT = "it left"


class Dismissed(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The controller speaks for this client no longer in a group, and says why; the client may enter again.

    With the reason LEFT it answers an Exit: nothing of that stay follows. If it is `final` the client has to go: it
    would be dismissed again.
    """

    code: ClassVar[int] = 21
    group: GroupName
    reason: Annotated[str, Meta(max_length=512)]
    final: bool = False


FromCharge = Enter | Exit | Upward | Ready | Took | ClientAlive
FromController = Prepare | Installed | Downward | Sent | ControllerAlive | Dismissed

_CHARGE: tuple[type[FromCharge], ...] = (Enter, Exit, Upward, Ready, Took, ClientAlive)
_CONTROLLER: tuple[type[FromController], ...] = (Prepare, Installed, Downward, Sent, ControllerAlive, Dismissed)
_FROM_CHARGE = decoders(_CHARGE)
_FROM_CONTROLLER = decoders(_CONTROLLER)


def read_charge_frame(data: bytes) -> FromCharge | None:
    """What a client sent to its controller, or None when it is nothing that a client sends."""
    frame: FromCharge | None = read_typed_frame(data, _FROM_CHARGE)
    if isinstance(frame, Enter) and why_bad_name(frame.process.name) is not None:
        return None
    return frame


def read_controller_frame(data: bytes) -> FromController | None:
    """What a controller sent, or None when it is nothing that a controller sends."""
    frame: FromController | None = read_typed_frame(data, _FROM_CONTROLLER)
    return frame
