"""What a process that reports and its collector say: frames, the first a greeting, then reports and answers.

A report is a frame of its own, as `trace.reports` encodes it. Answers are MessagePack and name reports by their
numbers; all reports on one connection are of one life of one process.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

GREETING = b"unisono report 1"
ANSWER_LIMIT_BYTES = 1 << 16
ANSWERED_LIMIT = 4096
"""The most reports that one answer names."""

Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class Stored(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="stored"):
    """These reports are on disk, now or since they came before."""

    numbers: list[Number]


class Refused(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="refused"):
    """This report is not taken, and would not be if it were sent again; without a number, nothing is."""

    number: Number | None
    reason: str


Answer = Stored | Refused

encode = msgspec.msgpack.Encoder().encode
decode_answer = msgspec.msgpack.Decoder(Answer).decode
