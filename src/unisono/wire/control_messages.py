"""The messages of the control hierarchy (000 2.2.2), as engines see them; codes from 20 on.

Long arrays travel packed: a peer is named in them by 32 bits of a hash of its identity, and a time is in
microseconds. A name that two peers share by chance costs a wrong distance at most, and hardly that: an echo counts
only for the process that really sent at the time it names. Where a count depends on who it is, the whole identity is
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct as Layout
from typing import Annotated, ClassVar, Final, NamedTuple

from msgspec import Meta, Struct
from xxhash import xxh3_64_intdigest

from unisono.identity import ProcessId

_PAIR = Layout("<III")
_DISTANCE = Layout("<II")
PAIR_BYTES = _PAIR.size
DISTANCE_BYTES = _DISTANCE.size
WORD: Final = (1 << 32) - 1
"""The largest number in a packed entry; echoes of times are taken modulo this plus one."""
PAIR_LIMIT = 1024
"""The most entries of one packed array."""
PART_LIMIT = 64
"""The most datagrams over which one contribution may be spread."""
ENTRY_LIMIT = 256
"""The most entries of one contribution in a message."""
TOPIC_LIMIT = 255

Microseconds = Annotated[int, Meta(ge=0, lt=1 << 62)]
Milliseconds = Annotated[int, Meta(ge=1, le=600_000)]
Hops = Annotated[int, Meta(ge=0, le=255)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Number = Annotated[int, Meta(ge=0, lt=1 << 62)]
Wide = Annotated[int, Meta(ge=0)]
"""64 bits: the format has none wider."""
Pairs = Annotated[bytes, Meta(max_length=PAIR_LIMIT * PAIR_BYTES)]
Distances = Annotated[bytes, Meta(max_length=PAIR_LIMIT * DISTANCE_BYTES)]
Text = Annotated[str, Meta(max_length=255)]


class TimestampPair(NamedTuple):
    """What the sender B of a message last heard of a peer A: the time t1 at which A sent it, by A's clock, and how
    long ago that arrived, `held` = t3 - t2 by B's clock, when B sends (t3).

    A then knows the way to B: (t4 - t1 - held) / 2. All three control messages have this one definition; the
    document swaps A and B in two of them (erratum E19).
    """

    peer: int
    sent: int
    held: int


def short_id(process: ProcessId) -> int:
    """What names a process in a packed array."""
    return xxh3_64_intdigest(f"{process.name}\0{process.incarnation}".encode()) & WORD


def pack_pairs(pairs: Iterable[TimestampPair]) -> bytes:
    return b"".join(_PAIR.pack(*pair) for pair in pairs)


def find_pair(packed: bytes, peer: int) -> TimestampPair | None:
    """The pair of one peer, if it is among them."""
    for pair in _PAIR.iter_unpack(packed):
        if pair[0] == peer:
            return TimestampPair(*pair)
    return None


def pack_distances(distances: Iterable[tuple[int, int]]) -> bytes:
    """Distances in microseconds by short id."""
    return b"".join(_DISTANCE.pack(peer, min(distance, WORD)) for peer, distance in distances)


def unpack_distances(packed: bytes) -> Iterator[tuple[int, int]]:
    return _DISTANCE.iter_unpack(packed)


def _whole(packed: bytes, entry: int) -> None:
    if len(packed) % entry:
        raise ValueError("a packed array ends within an entry")


class LocalControl(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """LCon: a child to its coordinator, now and then to all of its local group. `interval` is its present pace."""

    code: ClassVar[int] = 20
    timestamp: Microseconds
    ttl: Hops
    interval: Milliseconds
    coordinator: ProcessId
    local_count: Count
    pairs: Pairs

    def __post_init__(self) -> None:
        _whole(self.pairs, PAIR_BYTES)


class CoordinatorControl(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """CCon: a coordinator to its local group. `members` is how many control processes there are in all."""

    code: ClassVar[int] = 21
    timestamp: Microseconds
    ttl: Hops
    interval: Milliseconds
    far_distance: Microseconds
    local_count: Count
    coordinator_count: Count
    members: Count
    pairs: Pairs
    local_distances: Distances
    coordinator_distances: Distances

    def __post_init__(self) -> None:
        _whole(self.pairs, PAIR_BYTES)
        _whole(self.local_distances, DISTANCE_BYTES)
        _whole(self.coordinator_distances, DISTANCE_BYTES)


class GlobalControl(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """GCon: a coordinator to the coordinator group."""

    code: ClassVar[int] = 22
    timestamp: Microseconds
    ttl: Hops
    interval: Milliseconds
    local_count: Count
    coordinator_count: Count
    pairs: Pairs

    def __post_init__(self) -> None:
        _whole(self.pairs, PAIR_BYTES)


class RingQuery(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Who within `ttl` hops would be my coordinator? `homeless` when the asker has none that stays."""

    code: ClassVar[int] = 23
    timestamp: Microseconds
    ttl: Hops
    search: Number
    homeless: bool


class SearchResponse(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """This coordinator would; `echo` is the timestamp of the query, so that the asker knows how far it is."""

    code: ClassVar[int] = 24
    timestamp: Microseconds
    search: Number
    echo: Microseconds
    local_count: Count


class CoordinatorLeave(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """The sender stops being a coordinator: to its children, who look for another; at last to the coordinators."""

    code: ClassVar[int] = 25
    timestamp: Microseconds


class Farewell(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """The sender is no longer a child of the target, which counts it no more."""

    code: ClassVar[int] = 26
    target: ProcessId


class Entry(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What some processes say together about a source: how many they are, and the exclusive or of their fingerprints.

    `address` is where the sum of it all goes.
    """

    source: ProcessId
    value: Number
    count: Count
    fingerprint: Wide
    address: Text


class Contribution(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Entries of one group (its number on the wire) on one topic."""

    group: Wide
    topic: Annotated[int, Meta(ge=0, le=TOPIC_LIMIT)]
    entries: Annotated[tuple[Entry, ...], Meta(max_length=ENTRY_LIMIT)]


class Contributed(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """All that a child says at present, or one part of it: a higher serial replaces everything of the lower ones."""

    code: ClassVar[int] = 27
    target: ProcessId
    serial: Number
    part: Annotated[int, Meta(ge=0, lt=PART_LIMIT)]
    parts: Annotated[int, Meta(ge=1, le=PART_LIMIT)]
    contributions: Annotated[tuple[Contribution, ...], Meta(max_length=ENTRY_LIMIT)]

    def __post_init__(self) -> None:
        if self.part >= self.parts:
            raise ValueError("a part beyond the last")


class Summary(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An entry as it is gathered; a count of zero withdraws what the origin said of the source before."""

    source: ProcessId
    value: Number
    count: Count
    fingerprint: Wide


class Gathered(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the local group of a coordinator says, combined; sent in the group that it is about."""

    code: ClassVar[int] = 28
    topic: Annotated[int, Meta(ge=0, le=TOPIC_LIMIT)]
    origin: ProcessId
    serial: Number
    entries: Annotated[tuple[Summary, ...], Meta(max_length=ENTRY_LIMIT)]


HierarchyMessage = (
    LocalControl
    | CoordinatorControl
    | GlobalControl
    | RingQuery
    | SearchResponse
    | CoordinatorLeave
    | Farewell
    | Contributed
    | Gathered
)

HIERARCHY_TYPES: tuple[type[HierarchyMessage], ...] = (
    LocalControl,
    CoordinatorControl,
    GlobalControl,
    RingQuery,
    SearchResponse,
    CoordinatorLeave,
    Farewell,
    Contributed,
    Gathered,
)
