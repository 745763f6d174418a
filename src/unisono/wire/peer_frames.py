"""Frames between membership servers: typed, bounded, and nothing raises for what a peer sent.

A server keeps a roster for each group: its clients there, and those that it keeps for a server that is gone. Others
have copies of it: all of it when a link begins, and then what changes. Versions count over all groups of a server, so
that who has heard of one has heard of all before it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from unisono.identity import ProcessId, ViewId, why_bad_name
from unisono.wire.server_frames import Entry, GroupName, Number, Removed, decoders, read_typed_frame

SERVERS_LIMIT = 64
"""The most servers that one has links to."""
ACCUSED_LIMIT = 4096
"""The most members that one client accuses."""

Digest = Annotated[int, Meta(ge=0)]
Servers = Annotated[tuple[ProcessId, ...], Meta(max_length=SERVERS_LIMIT)]


class Listed(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A client in the roster of a server: attached to it, or kept for a while until it comes somewhere.

    `held` is the view that it has, or has been told of, if the server knows who is in it; `accused` whom it accuses;
    `claim` is, where a controller speaks for it, by which entry.
    """

    entry: Entry
    attached: bool
    held: ViewId | None = None
    accused: Annotated[tuple[ProcessId, ...], Meta(max_length=ACCUSED_LIMIT)] = ()
    claim: Number = 0


class RosterChange(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What changed in a roster since version `base`; with base 0 this is all of it.

    `views` says of the views that these clients hold what their members amount to.
    """

    base: Number
    version: Number
    listed: tuple[Listed, ...]
    removed: Removed
    views: tuple[tuple[ViewId, Digest], ...]


class ServerHello(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The first frame of a server on a link, in both directions."""

    code: ClassVar[int] = 32
    process: ProcessId


class ServerBeat(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The server lives."""

    code: ClassVar[int] = 33


class LinkState(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The servers that one has links to, as it said itself; passed on to all."""

    code: ClassVar[int] = 34
    server: ProcessId
    version: Number
    neighbours: Servers


class RosterUpdate(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The roster of a group changed, and `round` is the highest that the server knows of there."""

    code: ClassVar[int] = 35
    group: GroupName
    round: Number
    change: RosterChange


class Synced(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The rosters of all groups were said, up to this version."""

    code: ClassVar[int] = 36
    version: Number


class Proposal(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The one thing that a server says in a round: who takes part, and what it expects.

    `versions` are those of the rosters that went into it, one for each of the servers; `digest` is of the parts into
    which the members are divided. What the round is about comes along, where it is this server's own: `change`.
    """

    code: ClassVar[int] = 37
    group: GroupName
    round: Number
    servers: Servers
    versions: Annotated[tuple[Number, ...], Meta(max_length=SERVERS_LIMIT)]
    digest: Digest
    change: RosterChange | None

    def __post_init__(self) -> None:
        if len(self.versions) != len(self.servers) or list(self.servers) != sorted(set(self.servers)):
            raise ValueError("the servers come in order, each with a version")


FromPeer = ServerHello | ServerBeat | LinkState | RosterUpdate | Synced | Proposal

_FROM_PEER = decoders((ServerHello, ServerBeat, LinkState, RosterUpdate, Synced, Proposal))


def read_peer_frame(data: bytes) -> FromPeer | None:
    """What another server sent, or None when it is nothing that a server sends."""
    frame: FromPeer | None = read_typed_frame(data, _FROM_PEER)
    if isinstance(frame, ServerHello) and why_bad_name(frame.process.name) is not None:
        return None
    return frame
