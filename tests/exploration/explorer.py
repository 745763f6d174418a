"""Every order in which things can happen in one repair, within bounds (a small-scope check of the real code).

States are visited breadth first, so that the path to a violation is among the shortest.

Losses and crashes need no choices of their own. A packet that is lost is one that stays on its way for ever, and who
crashes does nothing more: no member can tell the difference, so every path with them is among those without. What
differs is what comes afterwards. So from every state in which no timer may expire any more, or all is over, for every member that may
have crashed there (or none): if no more packets are on their way to the others than may be lost, they are lost, the
network is calm from there on, and all who live must come to be in one view.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tests.exploration.automaton import Automaton
from tests.exploration.calm import settles
from tests.exploration.checks import violations
from tests.exploration.member import NAMES
from tests.exploration.starts import STARTS
from tests.exploration.whole import Bounds, Choice, Used, Whole, after, choices, in_words, is_over, matters


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
        self._ended: set[tuple[tuple[int, ...], frozenset[int]]] = set()

    def run(self, progress: Callable[[int, int], None] | None = None) -> Found:
        known, waiting = self._known, deque([self._start])
        while waiting:
            whole = waiting.popleft()
            over = is_over(self._automaton, whole, self._bounds, self._base)
            found = self._judge(whole, over)
            if found is not None:
                return self._report(whole, found)
            if self._limit is not None and len(known) > self._limit:
                break
            if over:
                continue
            for choice in choices(self._automaton, whole, self._bounds, self._base):
                following = after(self._automaton, whole, choice)
                if following not in known:
                    known[following] = whole, choice
                    waiting.append(following)
                    if progress is not None and len(known) % 100_000 == 0:
                        progress(len(known), len(waiting))
        return self._report(None, None, not waiting)

    def _judge(self, whole: Whole, over: bool) -> str | None:
        """What is wrong with a state."""
        automaton, bounds = self._automaton, self._bounds
        if whole.members not in self._judged:
            self._judged.add(whole.members)
            pasts = tuple(automaton.faces[member].transitions for member in whole.members)
            found = next(violations(pasts), None)
            if found is not None:
                return found
        if whole.used.timers < bounds.timers and not over:
            return None
        dead: list[int | None] = [None, *whole.live] if len(whole.crashed) < bounds.crashes else [None]
        for last in dead:
            crashed = whole.crashed if last is None else whole.crashed | {last}
            if self._on_their_way(whole, crashed) <= bounds.losses:
                found = self._come_together(whole.members, crashed)
                if found is not None:
                    return found if last is None else f"{found} ({NAMES[last]} has crashed)"
        return None

    def _on_their_way(self, whole: Whole, crashed: frozenset[int]) -> int:
        """How many packets that matter must be lost for nothing to be on its way."""
        return sum(
            matters(self._automaton, whole, index, packet)
            for index, way in enumerate(whole.ways)
            if index not in crashed
            for packet in way
        )

    def _come_together(self, members: tuple[int, ...], crashed: frozenset[int]) -> str | None:
        if (members, crashed) in self._ended:
            return None
        self._ended.add((members, crashed))
        stuck = settles(self._automaton, Whole(members, (frozenset(),) * len(members), crashed, Used()))
        if stuck is None:
            return None
        return f"L1: all that is on its way is lost, then nothing disturbs them, and they do not come together: {stuck}"

    def _report(self, at: Whole | None, violation: str | None, whole: bool = False) -> Found:
        path: list[str] = []
        while at is not None and (way := self._known[at]) is not None:
            at, choice = way
            path.append(in_words(self._automaton, choice))
        automaton = self._automaton
        return Found(
            len(self._known), len(self._ended), whole, violation, path[::-1], automaton.members, automaton.calls
        )
