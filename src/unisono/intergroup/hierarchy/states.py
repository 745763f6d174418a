"""The states of a control process, and what holds in each (000 2.6.2)."""

from __future__ import annotations

from enum import Enum
from math import exp, log

from unisono.engine import Randomness

_STEEPNESS = 8.0
"""The first of a thousand that start together decides about six times sooner than one alone."""


class State(Enum):
    """The four states of the document, and the two of a process that has not been in one of them yet, or lost it."""

    LISTENING = "listening"
    SEARCHING = "searching"
    COORDINATOR = "coordinator"
    TO_COORDINATOR = "to coordinator"
    CHILD = "child"
    TO_CHILD = "to child"

    @property
    def leads(self) -> bool:
        """A coordinator to its children: on its way down until the last of them has left."""
        return self in (State.COORDINATOR, State.TO_CHILD)

    @property
    def among_coordinators(self) -> bool:
        """In the coordinator group."""
        return self.leads or self is State.TO_COORDINATOR


def wait_to_decide(longest: int, randomness: Randomness) -> int:
    """How long a process listens before it decides what to be: almost always long, so that of many that start, or lose
    their coordinator, at the same time only a few decide before they hear of one another.

    The document has everybody wait equally long, and all become coordinators.
    """
    share = log(1 + randomness.random() * (exp(_STEEPNESS) - 1)) / _STEEPNESS
    return int(longest * share)
