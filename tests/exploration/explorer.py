"""Every order in which things can happen in one repair, within bounds (a small-scope check of the real code).

States are visited breadth first, so that the path to a violation is among the shortest. From every state in which
nothing is on its way and no timer may expire any more the network is calm, and all must come to be in one view.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tests.exploration.automaton import Automaton
from tests.exploration.calm import is_settled, settles
from tests.exploration.checks import violations
from tests.exploration.starts import STARTS
from tests.exploration.whole import Bounds, Choice, Whole, after, choices, in_words


class Found(NamedTuple):
    """What an exploration came to."""

    states: int
    ends: int
    """States that were checked for what comes of them when the network is calm."""
    whole: bool
    """Whether no state within the bounds was left out."""
    violation: str | None
    path: list[str]
    members: int
    calls: int
    """How often the real code ran."""


class Explorer:
    """One exploration."""

    def __init__(self, start: str, bounds: Bounds, *, primary: int = 0, limit: int | None = None) -> None:
        self._automaton = Automaton(primary)
        self._bounds = bounds
        self._limit = limit
        self._start = STARTS[start](self._automaton)
        faces = self._automaton.faces
        self._base = tuple(len(faces[member].transitions) for member in self._start.members)
        self._known: dict[Whole, tuple[Whole, Choice] | None] = {self._start: None}
        self._judged: set[tuple[int, ...]] = set()
        self._ends = 0

    def run(self, progress: Callable[[int, int], None] | None = None) -> Found:
        known, waiting = self._known, deque([self._start])
        while waiting:
            whole = waiting.popleft()
            found = self._judge(whole)
            if found is not None:
                return self._report(whole, found)
            if self._limit is not None and len(known) > self._limit:
                break
            for choice in choices(self._automaton, whole, self._bounds, self._base):
                following = after(self._automaton, whole, choice)
                if following not in known:
                    known[following] = whole, choice
                    waiting.append(following)
                    if progress is not None and len(known) % 100_000 == 0:
                        progress(len(known), len(waiting))
        return self._report(None, None, not waiting)

    def _judge(self, whole: Whole) -> str | None:
        """What is wrong with a state."""
        automaton = self._automaton
        if whole.members not in self._judged:
            self._judged.add(whole.members)
            pasts = tuple(automaton.faces[member].transitions for member in whole.members)
            found = next(violations(pasts), None)
            if found is not None:
                return found
        if whole.quiet and whole.used.timers >= self._bounds.timers and not is_settled(automaton, whole):
            self._ends += 1
            stuck = settles(automaton, whole)
            if stuck is not None:
                return f"L1: nobody disturbs them, and they do not come together: {stuck}"
        return None

    def _report(self, at: Whole | None, violation: str | None, whole: bool = False) -> Found:
        path: list[str] = []
        while at is not None and (way := self._known[at]) is not None:
            at, choice = way
            path.append(in_words(self._automaton, at, choice))
        automaton = self._automaton
        return Found(
            len(self._known), self._ends, whole, violation, path[::-1], automaton.members, automaton.calls
        )
