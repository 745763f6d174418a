"""What is said between a gateway and who sends rows into its group: frames of MessagePack, the first a greeting.

Rows are staged under a name first, by any number of connections. Then one says which stages make up a batch, and is
told how far the gateway is with sending it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

GREETING = b"unisono sink 1"
_NUMBER_LIMIT = (1 << 63) - 1

Count = Annotated[int, Meta(ge=0, le=_NUMBER_LIMIT)]
StageName = Annotated[str, Meta(pattern="^[0-9a-f]{8,64}$")]


class Hello(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="hello"):
    """Into which group the rows are to go."""

    group: str


class Stage(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="stage"):
    """Rows follow, to be kept under this name."""

    name: StageName


class Rows(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="rows"):
    rows: list[bytes]


class EndStage(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="end"):
    """The stage has these many rows; answered when they are on disk."""

    count: Count


class Discard(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="discard"):
    """These stages are not needed any more."""

    names: list[StageName]


class Publish(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="publish"):
    """These stages, in this order, are a batch of a query: send it, unless it was sent before.

    `checkpoint` says which history of batches the number belongs to, as far as that is known.
    """

    query: str
    checkpoint: str
    batch: Count
    stages: list[tuple[StageName, Count]]


class Welcome(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="welcome"):
    """Who this gateway is, and how many bytes a row may have."""

    gateway: str
    row_limit_bytes: int


class Staged(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="staged"):
    count: Count


class Discarded(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="discarded"):
    pass


class Progress(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="progress"):
    """The batch is not through yet; said every second, so that silence means that the gateway is gone."""

    sent: Count
    count: Count


class Published(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="published"):
    """The batch has been sent; `already` where that was before this was asked for."""

    count: Count
    already: bool


class Refused(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="refused"):
    reason: str


Request = Hello | Stage | Rows | EndStage | Discard | Publish
Reply = Welcome | Staged | Discarded | Progress | Published | Refused

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode
