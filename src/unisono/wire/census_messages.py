"""The messages by which a member counts the others without knowing them: see unisono.intergroup.census.

Codes are part of the wire format and never reused.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from unisono.identity import ProcessId

LEVEL_LIMIT = 32
"""The group is divided into at most two to the power of this many parts."""

_Number = Annotated[int, Meta(ge=0, lt=(1 << 63) - 1)]
_First = Annotated[int, Meta(ge=1, lt=(1 << 63) - 1)]


class CensusRequest(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Whoever is in this part of the group answers: one of two to the power of `level`.

    For all others who want to know: there are about `count` members, with that standard error, rounded up, and `least`
    of them answered. A count of zero is none yet. With `last` nobody is asked: this process counts no longer.
    """

    code: ClassVar[int] = 60
    serial: _First
    level: Annotated[int, Meta(ge=0, le=LEVEL_LIMIT)]
    part: Annotated[int, Meta(ge=0, lt=1 << LEVEL_LIMIT)]
    count: _Number
    error: _Number
    least: _Number
    last: bool = False


class CensusAnswer(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A member is here, asked by the request of that serial number."""

    code: ClassVar[int] = 61
    target: ProcessId
    serial: _First


CensusMessage = CensusRequest | CensusAnswer

CENSUS_TYPES: tuple[type[CensusMessage], ...] = (CensusRequest, CensusAnswer)
