"""A child's coordinator, as the child knows it."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.engine import Address
from unisono.intergroup.hierarchy.peers import Peer
from unisono.intergroup.hierarchy.searching import Offer
from unisono.units import MILLISECOND, SECOND
from unisono.wire.control_messages import CoordinatorControl, unpack_distances

TOLD_LIMIT = 2048
"""Distances that a coordinator may tell a child, of each kind."""
TOLD_LIFE = 30 * SECOND
"""A distance that was not told again for so long is forgotten."""

Told = dict[int, tuple[int, int]]
"""Microseconds by short id, and when they were told."""


class Home:
    """One coordinator: how far it is, and what it tells. `confirmed` once it showed that it heard this child."""

    __slots__ = (
        "_coordinators",
        "_locals",
        "_swept",
        "confirmed",
        "coordinator_count",
        "far_distance",
        "local_count",
        "members",
        "peer",
        "since",
    )

    def __init__(self, offer: Offer, now: int, interval: int) -> None:
        self.peer = Peer(offer.process, offer.address)
        self.peer.hops, self.peer.heard, self.peer.interval = offer.hops, now, interval
        self.peer.distance.add(offer.distance)
        self.since = now
        self.confirmed = False
        self.local_count = 0
        self.coordinator_count = 0
        self.members = 0
        self.far_distance = 0
        self._swept = now
        self._locals: Told = {}
        self._coordinators: Told = {}

    def hear(self, message: CoordinatorControl, arrived: int, now: int, address: Address, hops: int) -> bool:
        """Take in what it says; whether it knows coordinators that it did not know before."""
        first = not self._coordinators
        self.peer.hear(message.timestamp, arrived, now, address, hops, message.interval)
        self.local_count = message.local_count
        self.coordinator_count = message.coordinator_count
        self.members = message.members
        self.far_distance = message.far_distance
        _tell(self._locals, unpack_distances(message.local_distances), now)
        return _tell(self._coordinators, unpack_distances(message.coordinator_distances), now) and not first

    def forget(self, now: int) -> None:
        """Drop what was not told again, from time to time."""
        if now - self._swept < TOLD_LIFE // 4:
            return
        self._swept = now
        for told in (self._locals, self._coordinators):
            for short in [short for short, (_, when) in told.items() if now - when > TOLD_LIFE]:
                del told[short]

    def locals(self) -> Iterable[tuple[int, int]]:
        """Distances from it to its other children."""
        return ((short, distance) for short, (distance, _) in self._locals.items())

    def coordinators(self) -> Iterable[tuple[int, int]]:
        """Distances from it to the other coordinators."""
        return ((short, distance) for short, (distance, _) in self._coordinators.items())

    def waits_too_long(self, now: int, patience: int) -> bool:
        """Not confirmed for as long as its silence would be suffered."""
        return not self.confirmed and now - self.since > patience * max(self.peer.interval, 500 * MILLISECOND)


def _tell(told: Told, distances: Iterable[tuple[int, int]], now: int) -> bool:
    news = False
    for short, distance in distances:
        if short not in told:
            if len(told) >= TOLD_LIMIT:
                continue
            news = True
        told[short] = (distance, now)
    return news
