"""A control message that is larger than a datagram, in parts. The code is part of the wire format and never reused.

Parts are told apart by the message itself, and not by a number: when it is said again, a part that was lost comes with
the rest of the same message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from msgspec import Meta, Struct
from xxhash import xxh3_64_digest

PARTS_LIMIT = 1 << 14
"""The most parts of one message."""
PART_ROOM_BYTES = 32
"""What a part takes beside its payload, at most."""


class MessagePart(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Part `index` of `count` of the body of a message with the code `kind`; `digest` is that of the whole body."""

    code: ClassVar[int] = 9
    digest: Annotated[bytes, Meta(min_length=8, max_length=8)]
    kind: Annotated[int, Meta(ge=0, le=255)]
    index: Annotated[int, Meta(ge=0, lt=PARTS_LIMIT)]
    count: Annotated[int, Meta(ge=2, le=PARTS_LIMIT)]
    payload: Annotated[bytes, Meta(min_length=1)]

    def __post_init__(self) -> None:
        if self.index >= self.count:
            raise ValueError("a part behind the last one")


def parted(kind: int, body: bytes, room: int) -> Iterator[MessagePart]:
    """The body of a message in parts that have so much room each."""
    digest = xxh3_64_digest(body)
    count = -(-len(body) // room)
    assert count <= PARTS_LIMIT, "its lists are bounded"
    for index in range(count):
        yield MessagePart(digest, kind, index, count, body[index * room : (index + 1) * room])
