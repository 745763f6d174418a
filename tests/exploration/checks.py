"""What holds in every state: the properties of agreed views over the views that the members installed so far."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.exploration.member import PROCESSES
from tests.exploration.streams import Transition

Pasts = tuple[tuple[Transition, ...], ...]
"""The transitions of each member, crashed ones too."""


def violations(pasts: Pasts) -> Iterator[str]:
    """The properties that the views installed so far break, each with what is wrong."""
    for index, past in enumerate(pasts):
        itself = PROCESSES[index]
        for one in past:
            if itself not in one.members:
                yield f"M1: {itself.name} installs {_short(one)} and is not in it"
            if one.lacking:
                yield f"D9: {itself.name} installs {_short(one)} and lacks {one.lacking}"
        for earlier, later in pairwise(past):
            if later.view <= earlier.view:
                yield f"M2: {itself.name} goes from {_short(earlier)} back to {_short(later)}"
            if not set(later.transitional) <= set(earlier.members) & set(later.members):
                yield f"M5: {itself.name} in {_short(later)} counts who did not come along"
    for index, past in enumerate(pasts):
        for other in range(index):
            for one in past:
                for two in pasts[other]:
                    if one.view == two.view:
                        yield from _same_view(index, one, other, two)
    yield from _primary(pasts)


def _same_view(index: int, one: Transition, other: int, two: Transition) -> Iterator[str]:
    names = f"{PROCESSES[index].name} and {PROCESSES[other].name} in {_short(one)}"
    if (one.seats, one.origins, one.primary) != (two.seats, two.origins, two.primary):
        yield f"M4: {names} have one view with two meanings: {one} and {two}"
        return
    together = one.previous is not None and one.previous == two.previous
    if (PROCESSES[other] in one.transitional) != together or (PROCESSES[index] in two.transitional) != together:
        yield f"M5: {names} do not agree on whether they came from the same view: {one} and {two}"
    if together and one.delivered != two.delivered:
        yield f"D5: {names} ended the view before differently: {one.delivered} and {two.delivered}"


def _primary(pasts: Pasts) -> Iterator[str]:
    found = sorted({(one.view, one.members) for past in pasts for one in past if one.primary})
    for (_, earlier), (view, later) in pairwise(found):
        if not set(earlier) & set(later):
            yield f"M7: nobody of the primary view of {earlier} is in the next one, {view} of {later}"


def _short(one: Transition) -> str:
    return f"{one.view} of {''.join(process.name for process in one.members)}"
