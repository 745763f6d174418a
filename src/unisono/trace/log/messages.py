"""What is said between a log's server and who reads it: frames, the first a greeting, then a question and its answer.

A question and an answer are MessagePack; the payloads follow their answer as a frame each.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from unisono.units import MIB

GREETING = b"unisono log reader 1"
QUESTION_LIMIT_BYTES = 1024
ANSWER_LIMIT_BYTES = 4096
READ_LIMIT_BYTES = 16 * MIB
"""The most that one answer has, unless a single payload has more."""
WAIT_LIMIT_MILLISECONDS = 30_000
NUMBER_LIMIT = (1 << 63) - 1

Offset = Annotated[int, Meta(ge=0, le=NUMBER_LIMIT)]


class AskBounds(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="bounds"):
    """Where does the log begin and end?"""


class AskRead(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="read"):
    """Payloads from `offset` on; where there are none yet, wait so long for one."""

    offset: Offset
    limit_bytes: Offset
    wait_milliseconds: Annotated[int, Meta(ge=0, le=WAIT_LIMIT_MILLISECONDS)] = 0


class Bounds(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="bounds"):
    """Everything from `begin` to before `end` can be read."""

    begin: Offset
    end: Offset


class Payloads(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="payloads"):
    """So many payloads follow, a frame each."""

    count: Offset


class Gone(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="gone"):
    """What was asked for is no longer kept."""

    begin: Offset


class Refused(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="refused"):
    """Why there is no answer."""

    reason: str


Question = AskBounds | AskRead
Answer = Bounds | Payloads | Gone | Refused

encode = msgspec.msgpack.Encoder().encode
decode_question = msgspec.msgpack.Decoder(Question).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode
