"""The messages by which a receiver lets a sender of the group send for it, without being one (000 8).

What is to be sent goes to one sender in parts that are numbered in a session; the answer says up to which all have
come. Codes are part of the wire format and never reused.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from unisono.clock import TIMESTAMP_LIMIT
from unisono.identity import ProcessId

TAKEN, BUSY, NOT_A_SENDER = 0, 1, 2
"""What an answer says: all is well, too much waits for others, or no sender is asked."""

_Number = Annotated[int, Meta(ge=0, lt=(1 << 63) - 1)]
_First = Annotated[int, Meta(ge=1, lt=(1 << 63) - 1)]


class ProxyRequest(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Part `index` of `count` of a message that the target is to send; `number` counts the asker's messages.

    `serial` counts the parts of a session from 1 on. A later session takes the place of an earlier one. What the
    asker has delivered is not later than `timestamp`.
    """

    code: ClassVar[int] = 70
    target: ProcessId
    session: _First
    serial: _First
    number: _First
    index: _Number
    count: _First
    timestamp: Annotated[int, Meta(ge=0, le=TIMESTAMP_LIMIT)]
    payload: bytes

    def __post_init__(self) -> None:
        if self.index >= self.count:
            raise ValueError("a part behind the last one")


class ProxyAnswer(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """All parts of the target's session up to `taken` have come; `word` says why the next one is not taken, if so."""

    code: ClassVar[int] = 71
    target: ProcessId
    session: _First
    taken: _Number
    word: Annotated[int, Meta(ge=TAKEN, le=NOT_A_SENDER)]


ProxyMessage = ProxyRequest | ProxyAnswer

PROXY_TYPES: tuple[type[ProxyMessage], ...] = (ProxyRequest, ProxyAnswer)
