"""The messages of one epoch in their order, as columns, and when each process delivers which of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from unisono.pipeline.large.plan import Life

Column = Any
"""A column of numbers: numpy is there where this module is imported, its types are not checked."""

GAP_NANOSECONDS = 100_000
"""So much time passes between two messages of the group, on average."""
STEP_NANOSECONDS = 2
"""Two rows that follow each other in an order are at least so far apart, so that something fits between."""


class Messages(Struct, eq=False):
    """Everything that is sent in an epoch, by time; `sender` are places in `sources`."""

    sources: list[Life]
    time: Column
    sender: Column
    number: Column
    sequence: Column
    timestamp: Column
    size: Column
    body: Column

    def __len__(self) -> int:
        return len(self.time)

    def counts_before(self, index: int) -> Column:
        """How many messages of each source are before a place in the order."""
        return np.bincount(self.sender[:index], minlength=len(self.sources))

    def starts_before(self, index: int) -> list[tuple[int, int]]:
        """Sequence and number from which each source goes on at a place in the order."""
        found = []
        for place, life in enumerate(self.sources):
            mine = np.flatnonzero(self.sender[:index] == place)
            if len(mine):
                found.append((int(self.sequence[mine[-1]]) + 1, int(self.number[mine[-1]]) + 1))
            else:
                found.append((life.sequence + 1, life.number + 1))
        return found


def sample_messages(
    random: Any, count: int, sources: list[Life], spans: dict[str, tuple[int, int]], begin: int, timestamp: int
) -> Messages:
    """So many messages from a time on. `spans` has the places of the order between which some sources send."""
    time = begin + np.cumsum(random.integers(STEP_NANOSECONDS, 2 * GAP_NANOSECONDS, count))
    sender = random.integers(0, len(sources), count)
    index = np.arange(count)
    for place, life in enumerate(sources):
        first, last = spans.get(life.name, (0, count))
        outside = (sender == place) & ((index < first) | (index >= last))
        sender[outside] = _somebody_else(sources, spans, random, int(outside.sum()))
    steps = random.integers(1, 4, count)
    number, sequence = np.empty(count, np.int64), np.empty(count, np.int64)
    for place, life in enumerate(sources):
        mine = np.flatnonzero(sender == place)
        number[mine] = life.number + 1 + np.arange(len(mine))
        sequence[mine] = life.sequence + np.cumsum(steps[mine])
    stamps = timestamp + np.cumsum(random.integers(1, 4, count))
    size, body = random.integers(0, 2000, count), random.integers(-(2**63), 2**63 - 1, count)
    return Messages(sources, time, sender, number, sequence, stamps, size, body)


def _somebody_else(sources: list[Life], spans: dict[str, tuple[int, int]], random: Any, count: int) -> Column:
    always = [place for place, life in enumerate(sources) if life.name not in spans]
    return np.asarray(always)[random.integers(0, len(always), count)]


def delivery_times(random: Any, messages: Messages, delay: int) -> Column:
    """When a process delivers them: after they were sent, in their order, and no two at once."""
    late = messages.time + delay + random.integers(0, 400_000, len(messages))
    steps = STEP_NANOSECONDS * np.arange(len(messages))
    return np.maximum.accumulate(late - steps) + steps
