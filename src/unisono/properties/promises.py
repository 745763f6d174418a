"""Who promises what: one table from (service, role) to properties, with what is left out in words.

Codes of services are unique over all protocols, so that a service tells its protocol.

Checkers ask it before they hold a row to a property. A service that the table does not know is held to
everything, so that a row that lost its service is not passed over in silence.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from msgspec import Struct

STRONG = "VS"
"""The service of virtual synchrony sessions."""

WEAK = "VS-weak"
"""The service of sessions that get views from their servers and agree on nothing else."""

SESSIONS = frozenset({STRONG, WEAK})
"""The services of sessions. A service that nobody listed is judged as one of InterGroup's."""

SETTLING_NANOSECONDS = 2_000_000_000
"""L2, L3, L4 and D6 ask nothing of what began later than this before the end."""

RIFTS = frozenset({"partition", "isolate"})
"""Faults that cut processes off from one another both ways: where one lasts to the end, L2 asks nothing across it."""

STALL_LIMIT_NANOSECONDS = 10_000_000_000
"""L6 allows this long without progress, and L4 counts who left longer ago than this as gone."""

PRECISION_NANOSECONDS = 10_000_000_000
"""L1 and L5 judge the end of a run this long after the last fault, and ask nothing of what began later."""

LEAST_LOSSES = 50
"""L8 judges a group where so many losses, or more, were asked for; so too for ranges that were repaired."""

REPAIR_LIMIT = 3
"""L8 allows so many requests for each loss, and so many repairs of each range, on average."""

CLOCK_HELD = "clock-held"
"""The mark of a process that heard a timestamp too far ahead to be followed (O3)."""

Role = Literal["sender", "receiver"]


class Promise(Struct, frozen=True):
    """The properties that a service gives to a role, and how they are weaker than one might think."""

    properties: frozenset[str]
    weakening: str


_TRACE = frozenset({"W1", "W2", "W3", "W4", "W5"})
"""What every trace is held to, whatever its services promise."""
_EVERYBODY = _TRACE | {"L6", "L7"}
_SENDER = _EVERYBODY | {"O3", "O8", "L4", "L8"}
_RELIABLE = _EVERYBODY | {"D1", "D2", "D7", "D8", "D11", "D13", "M3", "O1", "O2", "O8", "L2", "L9", "L11"}
_AGREED = frozenset({"M2", "M4", "M5", "M7", "L1", "L10"})
"""What everybody gets who has agreed views."""

_WEAK_SESSION = _EVERYBODY | {"M1", "M2", "M3", "M4", "D1", "D2", "O1", "O2", "L1", "L2", "L8"}
_SESSION = _WEAK_SESSION | {"M5", "M8", "M10", "D3", "D4", "D5", "D6", "D9", "D12", "D13", "L3", "L4"}

_STRONG_PROMISE = Promise(
    _SESSION,
    "Nothing orders two sources; a message is delivered only to those who are in the view that it belongs to, and an "
    "optimistic one to nobody if its sender never has that view; whoever crashes, leaves, or loses its controller may "
    "not hear its own last messages; parts of a group that cannot reach each other have views of their own, and who "
    "reaches no server keeps the view that it has.",
)
_WEAK_PROMISE = Promise(
    _WEAK_SESSION,
    "A message may be delivered in a later view than it was sent in, and two that go on together may have delivered "
    "different ones; density holds between what is delivered while the source is in the views.",
)

PROMISES: dict[tuple[str, Role], Promise] = {
    ("UU", "receiver"): Promise(
        _EVERYBODY | {"D1", "D11"},
        "Messages may be lost, repeated and out of order, and come without a view.",
    ),
    ("UU", "sender"): Promise(
        _SENDER,
        "Sending needs no view.",
    ),
    ("USO", "receiver"): Promise(
        _EVERYBODY | {"D1", "D2", "D11", "O1", "O8"},
        "Messages may be left out; what is delivered is in the order of its source within one stretch, and after a "
        "change of service or a return it may come again.",
    ),
    ("USO", "sender"): Promise(
        _SENDER,
        "Sending needs no view.",
    ),
    ("UTO", "receiver"): Promise(
        _EVERYBODY | {"D1", "D2", "D11", "O1", "O3", "O6", "O8"},
        "Messages may be left out; what is delivered is in the order of timestamps within one stretch, and after a "
        "change of service or a return it may come again.",
    ),
    ("UTO", "sender"): Promise(
        _SENDER,
        "Sending needs no view.",
    ),
    ("RSO", "receiver"): Promise(
        _RELIABLE,
        "Views are the receiver's own and need not agree; density holds from the activation point of each spell, "
        "not from a source's first message; nothing orders two sources.",
    ),
    ("RSO", "sender"): Promise(
        _SENDER | {"M3", "D6", "L3"},
        "A message need not be delivered in the view that it was sent in; its sender hears it only if it asked for "
        "its own messages, and not before any view, only before the end.",
    ),
    ("RTO", "receiver"): Promise(
        _RELIABLE | _AGREED | {"O3", "O4", "O5", "O6", "O7", "D3", "D4", "D5", "D9", "D10", "M9", "L5"},
        "Order holds within a stretch; whoever comes into the middle of a view has nothing from before its start "
        "points, and gets the same as the others only from there on; of a source that does not come along into the "
        "next view, what comes after the cut is lost; parts of a group that cannot reach each other have views of "
        "their own.",
    ),
    ("RTO", "sender"): Promise(
        _SENDER | _AGREED | {"M1", "M3", "D6", "L3"},
        "A message is delivered only to those who are in the era that it was sent in; whoever crashes, leaves or "
        "starts anew may not hear its own last messages.",
    ),
    ("ALF", "receiver"): Promise(
        _EVERYBODY | {"D1", "D2", "D11"},
        "Messages may be left out and come in any order; after a change of service or a return they may come again.",
    ),
    ("ALF", "sender"): Promise(
        _SENDER,
        "Sending needs no view.",
    ),
    (STRONG, "receiver"): _STRONG_PROMISE,
    (STRONG, "sender"): _STRONG_PROMISE,
    (WEAK, "receiver"): _WEAK_PROMISE,
    (WEAK, "sender"): _WEAK_PROMISE,
}

_KNOWN_SERVICES: frozenset[str] = frozenset(service for service, _ in PROMISES)


def promised(service: str | None, property_id: str, role: Role | None = None) -> bool:
    """Whether rows of this service are held to the property, in this role or any; true for a service nobody listed."""
    if service is None or service not in _KNOWN_SERVICES:
        return True
    roles: tuple[Role, ...] = ("sender", "receiver") if role is None else (role,)
    return any(property_id in PROMISES[service, one].properties for one in roles)


def promised_by_any(services: Collection[str], property_id: str) -> bool:
    """Whether a run with rows of these services is held to the property; true where no row has a service."""
    return not services or any(promised(service, property_id) for service in services)


def exempt_services(property_id: str, role: Role | None = None) -> frozenset[str]:
    """The known services that do not promise the property: the same answer as `promised`, for a fast lookup."""
    return frozenset(service for service in _KNOWN_SERVICES if not promised(service, property_id, role))
