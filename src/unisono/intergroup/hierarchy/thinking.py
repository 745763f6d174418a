"""Self-determination (000 2.5): a timer for the change that the tables speak for, and a second look when it is due."""

from __future__ import annotations

from unisono.intergroup.hierarchy.context import Context
from unisono.intergroup.hierarchy.determination import (
    Appropriateness,
    appropriateness_of_child,
    appropriateness_of_coordinator,
    chance_of_child,
    chance_of_coordinator,
    child_goes_on,
    coordinator_goes_on,
    thresholds,
    timer_range,
)
from unisono.intergroup.hierarchy.neighbourhood import Neighbourhood
from unisono.intergroup.hierarchy.states import State
from unisono.reliable.step import Step


class SelfDetermination:
    """Whether this control process should change between child and coordinator; a purely local decision."""

    __slots__ = ("_change", "_context", "_neighbours")

    def __init__(self, context: Context, neighbours: Neighbourhood) -> None:
        self._context = context
        self._neighbours = neighbours
        self._change: tuple[State, Appropriateness, int] | None = None

    def think_it_over(self, step: Step, state: State, since: int, courted: int) -> None:
        """Set the timer of a change that the tables speak for, unless one is set or the state is too young.

        `courted` counts children that came or asked: none may, while a coordinator waits to step down.
        """
        context = self._context
        settings = context.settings
        if self._change is not None and self._change[0] is state and context.deadlines.is_set("change"):
            return
        if step.now - since < settings.state_change_low + settings.state_change_high:
            return
        how = self._how_appropriate(state)
        if how is None:
            return
        self._change = (state, how, courted)
        context.deadlines.set("change", step.now + context.between(*timer_range(how, settings)))

    def decide(self, state: State, courted: int) -> bool:
        """The timer is due: look again, and draw lots with those who stand alike. Whether to change now."""
        if self._change is None or self._change[0] is not state:
            return False
        _, how, courted_then = self._change
        self._change = None
        if self._how_appropriate(state) is not how:
            return False
        settings, neighbours, draw = self._context.settings, self._neighbours, self._context.randomness.random()
        if state is State.COORDINATOR:
            seen = neighbours.seen_by_coordinator()
            chance = chance_of_coordinator(how, seen, thresholds(settings, seen.members))
            return courted == courted_then and draw < chance
        child = neighbours.seen_by_child()
        assert child is not None, "it was there a moment ago"
        return draw < chance_of_child(how, child, thresholds(settings, child.members))

    def _how_appropriate(self, state: State) -> Appropriateness | None:
        """How a change would suit the hierarchy, if it suits it at all (tables 2.2, 2.3)."""
        settings, neighbours = self._context.settings, self._neighbours
        if state is State.COORDINATOR:
            seen = neighbours.seen_by_coordinator()
            limits = thresholds(settings, seen.members)
            how = appropriateness_of_coordinator(seen, limits, settings)
            return how if coordinator_goes_on(how, seen.coordinators, limits) else None
        child = neighbours.seen_by_child()
        if state is not State.CHILD or child is None or neighbours.moving is not None:
            return None
        how = appropriateness_of_child(child, settings)
        return how if child_goes_on(how, child.coordinators, thresholds(settings, child.members)) else None
