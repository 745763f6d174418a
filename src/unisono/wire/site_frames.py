"""Frames between the processes of one site: typed, bounded, and nothing raises for what a peer sent.

A frame is one byte for its kind and a msgpack body. What the processes tell each other is opaque here: `upward` comes
from a member, `downward` from the host.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta, Struct

from unisono.identity import ProcessId, why_bad_name
from unisono.units import MIB

CONTENT_LIMIT_BYTES = 4 * MIB
"""The most that one upward or downward frame carries."""
_FRAME_LIMIT_BYTES = CONTENT_LIMIT_BYTES + 1024

Content = Annotated[bytes, Meta(max_length=CONTENT_LIMIT_BYTES)]


class Hello(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A member comes, with what it has to say."""

    code: ClassVar[int] = 1
    process: ProcessId
    upward: Content | None


class Upward(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a member has to say now; it takes the place of what it said before."""

    code: ClassVar[int] = 2
    content: Content


class Claim(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A daemon wants the site: an embedded host gives it up."""

    code: ClassVar[int] = 3


class Welcome(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The host took a member in; `downward` is the last it said to all."""

    code: ClassVar[int] = 4
    host: ProcessId
    daemon: bool
    downward: Content | None


class Downward(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the host has to say to every member."""

    code: ClassVar[int] = 5
    content: Content


class Heartbeat(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The host lives."""

    code: ClassVar[int] = 6


FromMember = Hello | Upward | Claim
FromHost = Welcome | Downward | Heartbeat
_TO_HOST: dict[int, msgspec.msgpack.Decoder[FromMember]] = {
    kind.code: msgspec.msgpack.Decoder(kind) for kind in (Hello, Upward, Claim)
}
_TO_MEMBER: dict[int, msgspec.msgpack.Decoder[FromHost]] = {
    kind.code: msgspec.msgpack.Decoder(kind) for kind in (Welcome, Downward, Heartbeat)
}


def write_site_frame(frame: FromMember | FromHost) -> bytes:
    return bytes((frame.code,)) + msgspec.msgpack.encode(frame)


def read_member_frame(data: bytes) -> FromMember | None:
    """What a member sent, or None when it is nothing that a member sends."""
    decoder = _TO_HOST.get(data[0]) if 0 < len(data) <= _FRAME_LIMIT_BYTES else None
    if decoder is None:
        return None
    try:
        frame = decoder.decode(memoryview(data)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return None if isinstance(frame, Hello) and why_bad_name(frame.process.name) is not None else frame


def read_host_frame(data: bytes) -> FromHost | None:
    """What the host sent, or None when it is nothing that a host sends."""
    decoder = _TO_MEMBER.get(data[0]) if 0 < len(data) <= _FRAME_LIMIT_BYTES else None
    if decoder is None:
        return None
    try:
        frame = decoder.decode(memoryview(data)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return None if isinstance(frame, Welcome) and why_bad_name(frame.host.name) is not None else frame
