"""Who promises what: one table from (protocol, service, role) to properties, with what is left out in words.

Checkers ask it before they hold a row to a property. A service that the table does not know is held to
everything, so that a row that lost its service is not passed over in silence.
"""

from __future__ import annotations

from msgspec import Struct

PROTOCOL = "intergroup"
"""The protocol of every trace so far."""

SETTLING_NANOSECONDS = 2_000_000_000
"""L2 asks nothing of what began later than this before the end."""

STALL_LIMIT_NANOSECONDS = 10_000_000_000
"""L6 allows this long without progress."""


class Promise(Struct, frozen=True):
    """The properties that a service gives to a role, and how they are weaker than one might think."""

    properties: frozenset[str]
    weakening: str


PROMISES: dict[tuple[str, str, str], Promise] = {
    ("intergroup", "UU", "receiver"): Promise(
        frozenset({"D1", "L6", "L7"}),
        "Messages may be lost, repeated and out of order, and come without a view.",
    ),
    ("intergroup", "UU", "sender"): Promise(
        frozenset({"L6", "L7"}),
        "Sending needs no view.",
    ),
    ("intergroup", "RSO", "receiver"): Promise(
        frozenset({"D1", "D2", "M3", "O1", "O2", "L2", "L6", "L7"}),
        "Views are the receiver's own and need not agree; density holds from the activation point of each spell, "
        "not from a source's first message; nothing orders two sources.",
    ),
    ("intergroup", "RSO", "sender"): Promise(
        frozenset({"M3", "L6", "L7"}),
        "A message need not be delivered in the view that it was sent in.",
    ),
}

_KNOWN_SERVICES: frozenset[tuple[str, str]] = frozenset((protocol, service) for protocol, service, _ in PROMISES)
_PROMISED: frozenset[tuple[str, str, str]] = frozenset(
    (protocol, service, property_id)
    for (protocol, service, _), promise in PROMISES.items()
    for property_id in promise.properties
)


def promised(protocol: str, service: str | None, property_id: str) -> bool:
    """Whether rows of this service are held to the property; true for a service that nobody listed."""
    if service is None or (protocol, service) not in _KNOWN_SERVICES:
        return True
    return (protocol, service, property_id) in _PROMISED


def exempt_services(protocol: str, property_id: str) -> frozenset[str]:
    """The known services that do not promise the property: the same answer as `promised`, for a fast lookup."""
    return frozenset(
        service
        for known, service in _KNOWN_SERVICES
        if known == protocol and not promised(protocol, service, property_id)
    )
