"""The expanding ring search for a coordinator (000 2.6.1): ask ever further away until somebody answers."""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from unisono.engine import Address
from unisono.identity import ProcessId

OFFER_LIMIT = 64
"""Answers that one ring takes in."""


class Purpose(Enum):
    """Why a control process looks for a coordinator."""

    FIRST = auto()
    """It has none."""
    REPLACE = auto()
    """Its coordinator steps down."""
    STEP_DOWN = auto()
    """It steps down itself."""
    CLOSER = auto()
    """It has one, but there might be a nearer one."""


class Offer(Struct, frozen=True):
    """A coordinator that would take this process; the distance in microseconds."""

    process: ProcessId
    address: Address
    hops: int
    distance: int


class RingSearch:
    """One search: its present ring, and who answered so far."""

    __slots__ = ("_farthest", "_offers", "number", "purpose", "shunned", "ttl")

    def __init__(
        self, purpose: Purpose, number: int, farthest: int, shunned: ProcessId | None, nearest: int = 1
    ) -> None:
        self.purpose = purpose
        self.number = number
        self.shunned = shunned
        self.ttl = min(nearest, farthest)
        self._farthest = farthest
        self._offers: dict[ProcessId, Offer] = {}

    @property
    def homeless(self) -> bool:
        return self.purpose is not Purpose.CLOSER

    def offer(self, offer: Offer) -> None:
        if offer.process != self.shunned and len(self._offers) < OFFER_LIMIT:
            self._offers.setdefault(offer.process, offer)

    def best(self) -> Offer | None:
        """The nearest of those who answered."""
        return min(self._offers.values(), key=lambda offer: (offer.distance, offer.process), default=None)

    def widen(self) -> bool:
        """Ask twice as far; False when the farthest ring was asked already."""
        if self.ttl >= self._farthest:
            return False
        self.ttl = min(2 * self.ttl, self._farthest)
        return True
