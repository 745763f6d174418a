"""Small explorations of the repair: no order of what can happen breaks a property. `make explore` goes further."""

from __future__ import annotations

import pytest

from tests.exploration.automaton import Automaton
from tests.exploration.explorer import Explorer
from tests.exploration.starts import STARTS
from tests.exploration.whole import Bounds, Whole, after, choices


def test_every_order_of_a_repair_without_the_dead() -> None:
    """Two members survive a third, which only one of them holds the last message of."""
    found = Explorer("crashed member", Bounds(timers=2)).run()
    assert (found.violation, found.path) == (None, [])
    assert found.whole
    assert found.states > 2000, "the bounds leave something to explore"
    assert found.ends > 100, "calm networks were tried"


@pytest.mark.parametrize("start", sorted(set(STARTS) - {"crashed member"}))
def test_the_first_states_of_every_start(start: str) -> None:
    found = Explorer(start, Bounds(timers=1), limit=1000).run()
    assert (found.violation, found.path) == (None, [])
    assert found.states > 1000 or found.whole


def test_states_are_told_apart_by_what_they_hold() -> None:
    """The same happenings lead to the same states, in whatever order independent ones come."""
    automaton = Automaton()
    start = STARTS["newcomer"](automaton)
    base = tuple(len(automaton.faces[member].transitions) for member in start.members)

    def take(whole: Whole, member: int) -> Whole:
        choice = next(one for one in choices(automaton, whole, Bounds(timers=0), base) if one.member == member)
        return after(automaton, whole, choice)

    assert take(take(start, 0), 1) == take(take(start, 1), 0) != start
