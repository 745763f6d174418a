"""A question to all members of a group, and what each of them says of itself; codes from 50 on.

Who asks is not a member and becomes none: nobody counts it, and answers go to it alone. Long lists are cut, and beside
each stands how long it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct as Layout
from typing import Annotated, ClassVar, Literal, NamedTuple

from msgspec import Meta, Struct

from unisono.identity import ProcessId, ViewId
from unisono.settings import Service
from unisono.units import SECOND
from unisono.wire.control_messages import short_id

_SHORT = Layout("<I")
KNOWN_LIMIT = 256
"""The most members that a question names as having answered."""
SPREAD_LIMIT = 2 * SECOND
"""The longest time over which answers are spread."""
LISTED_LIMIT = 64
"""The most processes that one list of an answer names."""

Number = Annotated[int, Meta(ge=0, lt=(1 << 63) - 1)]
Round = Annotated[int, Meta(ge=0, lt=1 << 32)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
State = Literal[
    "settled",
    "consensus",
    "cut info",
    "recovery info",
    "recovery",
    "commit",
    "follows",
    "enters",
    "apart",
    "leaving",
]
"""Where a member stands in the agreement on views: a sender in one of the phases of membership repair, a receiver that
`follows` views or `enters` the first one, who is `apart` from agreed views, who is `leaving`."""
Known = Annotated[bytes, Meta(max_length=KNOWN_LIMIT * _SHORT.size)]


class ProbeRequest(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What are you, and what do you do? Answers wait for a random part of `spread`, and bring `token` and `round` back.

    Who is among `known` (short ids, packed) has answered in this round.
    """

    code: ClassVar[int] = 50
    token: Number
    round: Round
    spread: Annotated[int, Meta(ge=0, le=SPREAD_LIMIT)]
    known: Known

    def __post_init__(self) -> None:
        if len(self.known) % _SHORT.size:
            raise ValueError("a packed list ends within an entry")

    def knows(self, process: ProcessId) -> bool:
        """Whether a process has answered already."""
        wanted = short_id(process)
        return any(known == wanted for (known,) in _SHORT.iter_unpack(self.known))


def pack_known(processes: Iterable[ProcessId]) -> bytes:
    return b"".join(_SHORT.pack(short_id(process)) for process in processes)


class ProbedView(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A view, some of its members, and how many there are; it has stood for `age` nanoseconds."""

    id: ViewId
    age: Number
    members: Annotated[tuple[ProcessId, ...], Meta(max_length=LISTED_LIMIT)]
    count: Count


class Level(NamedTuple):
    """How full a buffer is."""

    used: Number
    limit: Number


class Silent(NamedTuple):
    """A process that was not heard for so long, in nanoseconds, that it is suspected."""

    process: ProcessId
    silence: Number


class Levels(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The buffers of a member, in bytes; of those that there is one of for each source, the fullest."""

    window: Level
    """Sent, and not known to be with everybody."""
    queue: Level
    """Waits to be sent."""
    repair: Level
    """Of others, kept to repair it for them."""
    receive: Level
    """Came, and is not delivered yet."""
    untaken: Level
    """Events, not bytes: delivered, and not taken by the application."""


class Traffic(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a member has sent and delivered since it joined: messages and their bytes, datagrams of all kinds."""

    sent: Number
    sent_bytes: Number
    delivered: Number
    delivered_bytes: Number
    datagrams: Number
    datagram_bytes: Number


class ProbeAnswer(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a member says of itself at the time `at` of its own clock, having been in the group for `age`.

    `agreed` is the agreed view that it is in, if any; `same` says that its application sees that one, and `shown` what
    it sees otherwise. `suspects` are whom it does not hear, `follows` and `followers` count sources and receivers.
    """

    code: ClassVar[int] = 51
    token: Number
    round: Round
    at: Number
    age: Number
    sends: bool
    service: Service
    state: State
    agreed: ProbedView | None
    same: bool
    shown: ProbedView | None
    traffic: Traffic
    levels: Levels
    suspects: Annotated[tuple[Silent, ...], Meta(max_length=LISTED_LIMIT)]
    suspected: Count
    follows: Count
    followers: Count


ProbeMessage = ProbeRequest | ProbeAnswer

PROBE_TYPES: tuple[type[ProbeMessage], ...] = (ProbeRequest, ProbeAnswer)
