"""Whether a control process should change between child and coordinator (000 2.5, tables 2.2 to 2.4).

The tables are the document's. Two things are added, without which they do not hold up among hundreds: the thresholds
grow with the root of the hierarchy's size, so that both the coordinator group and the local groups stay small; and a
change that many may make at once is drawn by lot, so that about as many make it as are needed.
"""

from __future__ import annotations

from enum import Enum, auto
from math import isqrt
from typing import NamedTuple

from unisono.control_settings import ControlSettings
from unisono.units import MICROSECOND

_NEAR = 1000
"""Microseconds within which nobody is far, whatever the others are."""


class Appropriateness(Enum):
    """How well a change of state would suit the hierarchy."""

    NO_CHANGE = auto()
    APPROPRIATE = auto()
    NEUTRAL = auto()
    INAPPROPRIATE = auto()


class Thresholds(NamedTuple):
    """Between how many coordinators there should be."""

    low: int
    high: int

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


def thresholds(settings: ControlSettings, members: int) -> Thresholds:
    """The thresholds of a hierarchy of this size; the settings are what they are in a small one."""
    root = isqrt(members)
    low = max(settings.low_coordinators, root * 3 // 4)
    return Thresholds(low, max(settings.high_coordinators, root * 3 // 2, low + 1))


class Surroundings(NamedTuple):
    """What a decision is made of. Distances in microseconds.

    `closest` is the nearest other coordinator of a coordinator, and the own one of a child, None where it is not known;
    `apart` is how far that one is from the other coordinators, on the average.
    """

    coordinators: int
    local_count: int
    members: int
    closest: int | None = None
    coordinator_hops: int = 0
    apart: int | None = None


def is_far(seen: Surroundings, settings: ControlSettings) -> bool:
    """Whether a child is far from its coordinator.

    More hops than the boundary, as in the document. Hops alone say little where they are few and long: so more than
    half of what two coordinators should be apart is far too, and so is a quarter of what they really are.
    """
    if seen.coordinator_hops > settings.boundary_ttl:
        return True
    return seen.closest is not None and (
        2 * seen.closest * MICROSECOND > settings.closeness or (remoteness(seen) > 1 and seen.closest > _NEAR)
    )


def remoteness(seen: Surroundings) -> float:
    """How far a child is from its coordinator, in quarters of what coordinators are apart."""
    if not seen.apart or seen.closest is None:
        return 1.0
    return 4 * seen.closest / seen.apart


def appropriateness_of_coordinator(
    seen: Surroundings, limits: Thresholds, settings: ControlSettings
) -> Appropriateness:
    """Table 2.2 for a coordinator that might become a child.

    No change at the low threshold itself either, since there should be more coordinators than that (000 2.2.3).
    """
    if seen.coordinators <= limits.low:
        return Appropriateness.NO_CHANGE
    close = seen.closest is not None and seen.closest * MICROSECOND < settings.closeness
    if close and not seen.local_count:
        return Appropriateness.APPROPRIATE
    if close and seen.local_count < settings.local_target:
        return Appropriateness.NEUTRAL
    return Appropriateness.INAPPROPRIATE


def appropriateness_of_child(seen: Surroundings, settings: ControlSettings) -> Appropriateness:
    """Table 2.2 for a child that might become a coordinator."""
    if not is_far(seen, settings):
        return Appropriateness.INAPPROPRIATE
    if seen.local_count > settings.local_target:
        return Appropriateness.APPROPRIATE
    return Appropriateness.NEUTRAL


def coordinator_goes_on(how: Appropriateness, coordinators: int, limits: Thresholds) -> bool:
    """Table 2.3 for a coordinator."""
    if how is Appropriateness.NO_CHANGE:
        return False
    if how is Appropriateness.APPROPRIATE:
        return True
    if how is Appropriateness.NEUTRAL:
        return coordinators > (limits.low + 3 * limits.high) / 4
    return coordinators > limits.high


def child_goes_on(how: Appropriateness, coordinators: int, limits: Thresholds) -> bool:
    """Table 2.3 for a child; whatever speaks for it, not above the high threshold, from where one had to step down."""
    if how is Appropriateness.NO_CHANGE:
        return False
    if how is Appropriateness.APPROPRIATE:
        return coordinators < limits.high
    if how is Appropriateness.NEUTRAL:
        return coordinators < (3 * limits.low + limits.high) / 4
    return coordinators < limits.low


def timer_range(how: Appropriateness, settings: ControlSettings) -> tuple[int, int]:
    """Table 2.4: between which times the timer of a change is drawn."""
    low, high = settings.state_change_low, settings.state_change_high
    if how is Appropriateness.APPROPRIATE:
        return low, max(low, high)
    if how is Appropriateness.NEUTRAL:
        return low + high, low + 2 * high
    return low + 2 * high, low + 3 * high


def chance_of_child(how: Appropriateness, seen: Surroundings, limits: Thresholds) -> float:
    """The lot of a child whose timer expired: all who stand alike together make about as many as are missing.

    Children far from their coordinator draw better lots: that is where one is missing.
    """
    if how is Appropriateness.APPROPRIATE:
        return 1 / max(1, seen.local_count)
    missing = max(1.0, limits.middle - seen.coordinators)
    weight = min(4.0, max(1.0, remoteness(seen))) if how is Appropriateness.NEUTRAL else 1.0
    return min(1.0, weight * missing / max(1, seen.members - seen.coordinators))


def chance_of_coordinator(how: Appropriateness, seen: Surroundings, limits: Thresholds) -> float:
    """The lot of a coordinator whose timer expired."""
    if how is Appropriateness.APPROPRIATE:
        return 1.0
    return min(1.0, max(1.0, seen.coordinators - limits.middle) / max(1, seen.coordinators))
