"""Frames between a membership server and its clients: typed, bounded, and nothing raises for what a peer sent.

A frame is one byte for its kind and a msgpack body. A channel is reliable and in order, so that what changes is told
as a difference to what was told before on it; a digest says whether both ends have come to the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Struct
from xxhash import xxh3_64_intdigest

from unisono.identity import NAME_LIMIT_BYTES, ProcessId, ViewId, why_bad_name
from unisono.wire.frames import FRAME_LIMIT_BYTES

Number = Annotated[int, Meta(ge=0, lt=(1 << 63) - 1)]
GroupName = Annotated[str, Meta(min_length=1, max_length=NAME_LIMIT_BYTES)]
Place = Annotated[str, Meta(max_length=256)]
"""An address as drivers spell it; empty where nobody sends datagrams there."""
NEWER_LIFE = "another process that is newer has this name"
"""Why a client is refused for good: names are unique among those that live."""
ELSEWHERE = "it has come to another controller since"
"""Why a controller does not speak for a client any more."""


class Departure(IntEnum):
    """Why a process is in a group no longer, as far as it is known; what is more certain is greater."""

    UNKNOWN = 0
    SUSPECTED = 1
    """It said nothing, was not heard, or others could not work with it."""
    LEFT = 2
    RESTARTED = 3
    """A newer process has its name."""


Removed = tuple[tuple[ProcessId, Departure], ...]
"""Who is not there any more, and why. Nothing is agreed about the reasons: they are only told."""


class Entry(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, order=True):
    """A member: who, where it gets datagrams, and the controller that speaks for it, where there is one."""

    process: ProcessId
    address: Place = ""
    via: ProcessId | None = None


class Standing(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How a client stands in a group when it comes to a server, perhaps from another one (E24).

    `change` is the last start-change that it saw, `view` the view that it is in, `offered` the view that the
    last start-change announced, which may not stand.
    """

    group: GroupName
    change: Number = 0
    view: ViewId | None = None
    offered: ViewId | None = None


# ── from a client ──


class Attach(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The first frame of a client: who it is, and the groups that it is in. A `controller` speaks for other clients."""

    code: ClassVar[int] = 1
    process: ProcessId
    controller: bool
    standings: tuple[Standing, ...]


class JoinGroup(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A client wants to be in a group."""

    code: ClassVar[int] = 2
    standing: Standing


class LeaveGroup(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A client is in a group no longer; of those whom a controller spoke for, `removed` says why they are not."""

    code: ClassVar[int] = 3
    group: GroupName
    removed: Removed = ()


class Charge(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A client that a controller speaks for, by its entry there: of two that claim one, the later entry counts."""

    process: ProcessId
    entry: Number


class Charges(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A controller speaks for these clients too, or no longer for those.

    The first after it came to a group says all for whom it speaks there: with it the controller is in the group.
    `change` is the last start-change that any of its clients saw.
    """

    code: ClassVar[int] = 4
    group: GroupName
    change: Number
    added: tuple[Charge, ...]
    removed: Removed


class Accusation(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A client hears nothing of these members, or they hold it up; this takes the place of what it said before."""

    code: ClassVar[int] = 5
    group: GroupName
    accused: tuple[ProcessId, ...]


class Ping(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The client lives; the server answers with the same number."""

    code: ClassVar[int] = 6
    number: Number


# ── from a server ──


class Welcome(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A server took a client in; `servers` are where others are that it knows of."""

    code: ClassVar[int] = 16
    server: ProcessId
    servers: tuple[Place, ...]


class StartChange(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The view of a group is about to change: to `view`, if nothing else changes meanwhile (002 3.1).

    `change` is the identifier: it grows at each client, whatever server it is with. All clients have the same one in
    one round of the servers, so that one number stands for the map of start-changes that a view comes with. The
    members that are expected are those that were told before on this channel in this group, changed by `added` and
    `removed`; with `anew`, those in `added` alone, and `removed` are others who went lately. `digest` is of the result
    (`digest_of`).
    """

    code: ClassVar[int] = 17
    group: GroupName
    change: Number
    view: ViewId
    anew: bool
    added: tuple[Entry, ...]
    removed: Removed
    digest: Annotated[int, Meta(ge=0)]


class NewView(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The view that the last start-change of the group announced stands: the servers agreed on it."""

    code: ClassVar[int] = 18
    group: GroupName
    view: ViewId


class Pong(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The server lives."""

    code: ClassVar[int] = 19
    number: Number


class Refused(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The server does not take the client in, and says why; the channel closes."""

    code: ClassVar[int] = 20
    reason: Annotated[str, Meta(max_length=512)]


class Overruled(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A controller does not speak for this client any more, by that entry or an earlier one, and why: ELSEWHERE, or
    NEWER_LIFE."""

    code: ClassVar[int] = 21
    group: GroupName
    process: ProcessId
    entry: Number
    reason: Annotated[str, Meta(max_length=512)]


FromClient = Attach | JoinGroup | LeaveGroup | Charges | Accusation | Ping
FromServer = Welcome | StartChange | NewView | Pong | Refused | Overruled

_CLIENT: tuple[type[FromClient], ...] = (Attach, JoinGroup, LeaveGroup, Charges, Accusation, Ping)
_SERVER: tuple[type[FromServer], ...] = (Welcome, StartChange, NewView, Pong, Refused, Overruled)


def decoders(kinds: Iterable[Any]) -> dict[int, msgspec.msgpack.Decoder[Any]]:
    """A decoder for each kind, by its code."""
    return {kind.code: msgspec.msgpack.Decoder(kind) for kind in kinds}


_FROM_CLIENT = decoders(_CLIENT)
_FROM_SERVER = decoders(_SERVER)


def write_server_frame(frame: Any) -> bytes:
    """A frame of any of the kinds here, or of those between servers."""
    return bytes((frame.code,)) + msgspec.msgpack.encode(frame)


def read_typed_frame(data: bytes, known: dict[int, msgspec.msgpack.Decoder[Any]]) -> Any | None:
    """The frame, or None when it is none of those known."""
    decoder = known.get(data[0]) if 0 < len(data) <= FRAME_LIMIT_BYTES else None
    if decoder is None:
        return None
    try:
        return decoder.decode(memoryview(data)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def read_client_frame(data: bytes) -> FromClient | None:
    """What a client sent, or None when it is nothing that a client sends."""
    frame: FromClient | None = read_typed_frame(data, _FROM_CLIENT)
    if isinstance(frame, Attach) and why_bad_name(frame.process.name) is not None:
        return None
    return frame


def read_server_frame(data: bytes) -> FromServer | None:
    """What a server sent to a client, or None when it is nothing that a server sends."""
    frame: FromServer | None = read_typed_frame(data, _FROM_SERVER)
    return frame


def digest_of(processes: Iterable[ProcessId]) -> int:
    """What stands for a set of processes, in any order."""
    return xxh3_64_intdigest("\n".join(sorted(map(str, processes))).encode())
