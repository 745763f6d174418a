"""Frames between a newcomer and who gives it the state: typed, bounded, and nothing raises for what a peer sent.

A frame is one byte for its kind and a msgpack body; a chunk is its kind, its index and the bytes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, NamedTuple

import msgspec
from msgspec import Meta, Struct

from unisono.identity import NAME_LIMIT_BYTES, Point, ProcessId, ViewId, why_bad_name
from unisono.units import KIB, MIB

CHUNK_LIMIT_BYTES = 4 * MIB
DIGEST_BYTES = 32
PAGE_DIGESTS = 64
"""The most digests in one page of a manifest."""
SOURCES_LIMIT = 10_000
"""The most sources that a point may name."""
KNOWN_LIMIT = 64
"""The most processes that one newcomer tells another of."""
_FRAME_LIMIT_BYTES = MIB
_INDEX_BYTES = 8

Count = Annotated[int, Meta(ge=0, le=(1 << 44))]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_LIMIT_BYTES)]


class Lack(StrEnum):
    """Why a process gives no state."""

    NEWCOMER = "has none itself yet"
    STATELESS = "keeps none"
    OUTSIDE = "is not in the group"
    BUSY = "gives it to others"
    FAILED = "could not write it"


class Want(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A newcomer wants the state of a group, at a point from which on it has every message, or at a later one."""

    code: ClassVar[int] = 1
    group: Name
    process: ProcessId
    floor: Point


class WantPage(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The digests of the chunks from this one on."""

    code: ClassVar[int] = 2
    first: Count


class WantChunk(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    code: ClassVar[int] = 3
    index: Count


class Offer(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A state is ready: as of which point, how large, in chunks of which size."""

    code: ClassVar[int] = 4
    point: Point
    size: Count
    chunk_bytes: Annotated[int, Meta(ge=KIB, le=CHUNK_LIMIT_BYTES)]

    @property
    def chunks(self) -> int:
        return -(-self.size // self.chunk_bytes)

    def chunk_size(self, index: int) -> int:
        """Only the last one is shorter."""
        return min(self.chunk_bytes, self.size - index * self.chunk_bytes)


class Page(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Digests one after the other, of as many chunks as a page holds or there are."""

    code: ClassVar[int] = 5
    first: Count
    digests: Annotated[bytes, Meta(max_length=PAGE_DIGESTS * DIGEST_BYTES)]


class Chunk(Struct, frozen=True, array_like=True, gc=False):
    code: ClassVar[int] = 6
    index: Count
    data: bytes


class Known(NamedTuple):
    """Somebody who may have the state, and where it is."""

    process: ProcessId
    address: Annotated[str, Meta(max_length=256)]


class Lacking(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """No state comes from here, for now; the view in which this was said, and who may have the state outside it."""

    code: ClassVar[int] = 7
    lack: Lack
    view: ViewId | None
    known: Annotated[tuple[Known, ...], Meta(max_length=KNOWN_LIMIT)] = ()


FromNewcomer = Want | WantPage | WantChunk
FromProvider = Offer | Page | Chunk | Lacking
_OF_NEWCOMER: dict[int, msgspec.msgpack.Decoder[FromNewcomer]] = {
    kind.code: msgspec.msgpack.Decoder(kind) for kind in (Want, WantPage, WantChunk)
}
_OF_PROVIDER: dict[int, msgspec.msgpack.Decoder[FromProvider]] = {
    kind.code: msgspec.msgpack.Decoder(kind) for kind in (Offer, Page, Lacking)
}


def write_transfer_frame(frame: FromNewcomer | FromProvider) -> bytes:
    if isinstance(frame, Chunk):
        return bytes((Chunk.code,)) + frame.index.to_bytes(_INDEX_BYTES, "little") + frame.data
    return bytes((frame.code,)) + msgspec.msgpack.encode(frame)


def read_newcomer_frame(data: bytes) -> FromNewcomer | None:
    """What a newcomer sent, or None when it is nothing that a newcomer sends."""
    decoder = _OF_NEWCOMER.get(data[0]) if 0 < len(data) <= _FRAME_LIMIT_BYTES else None
    if decoder is None:
        return None
    try:
        frame = decoder.decode(memoryview(data)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if isinstance(frame, Want) and (
        why_bad_name(frame.group) or why_bad_name(frame.process.name) or not _is_good(frame.floor)
    ):
        return None
    return frame


def read_provider_frame(data: bytes) -> FromProvider | None:
    """What a provider sent, or None when it is nothing that a provider sends."""
    if data[:1] == bytes((Chunk.code,)):
        start = 1 + _INDEX_BYTES
        if not start < len(data) <= start + CHUNK_LIMIT_BYTES:
            return None
        return Chunk(int.from_bytes(data[1:start], "little"), data[start:])
    decoder = _OF_PROVIDER.get(data[0]) if 0 < len(data) <= _FRAME_LIMIT_BYTES else None
    if decoder is None:
        return None
    try:
        frame = decoder.decode(memoryview(data)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if isinstance(frame, Offer) and not _is_good(frame.point):
        return None
    if isinstance(frame, Lacking) and any(why_bad_name(one.process.name) for one in frame.known):
        return None
    return frame


def _is_good(point: Point) -> bool:
    return all(
        len(named) <= SOURCES_LIMIT and all(why_bad_name(source.name) is None for source, _ in named)
        for named in (point.numbers, point.handed)
    )
