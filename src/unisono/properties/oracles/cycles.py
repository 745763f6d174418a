"""Total order without a look at the keys: is there any one order that every process follows?

Each process says of every two neighbours which came first; an order exists where these pairs have no cycle. The
pairwise statement of 000 1.3 would pass three processes that disagree in a ring (O6).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from unisono.properties.oracles.total import runs_of_one_order
from unisono.trace.schema import AnyRow

Message = tuple[str, str, int, int]
"""Group, source, incarnation, number."""


def in_a_cycle(rows: Sequence[AnyRow]) -> set[Message]:
    """The messages that no one order can place: those in a cycle, and those that come after one."""
    following: dict[Message, set[Message]] = defaultdict(set)
    waiting: dict[Message, int] = defaultdict(int)
    for run in runs_of_one_order(rows):
        messages = [(row.group, row.source, row.source_incarnation, row.number) for row in run]
        for before, after in pairwise(messages):
            if after not in following[before]:
                following[before].add(after)
                waiting[after] += 1
    free = [message for message in following if not waiting[message]]
    while free:
        for after in following.pop(free.pop()):
            waiting[after] -= 1
            if not waiting[after] and after in following:
                free.append(after)
            elif not waiting[after]:
                del waiting[after]
    return {message for message, count in waiting.items() if count}
