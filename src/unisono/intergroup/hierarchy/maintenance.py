"""Hierarchy maintenance (000 2.6): the states and the ways between them, the search for a coordinator, faults."""

from __future__ import annotations

from unisono.identity import ProcessId
from unisono.intergroup.hierarchy.aggregation import Gathering
from unisono.intergroup.hierarchy.context import COORDINATORS, Context, local_group, reach
from unisono.intergroup.hierarchy.determination import thresholds
from unisono.intergroup.hierarchy.home import Home
from unisono.intergroup.hierarchy.neighbourhood import Neighbourhood
from unisono.intergroup.hierarchy.searching import Offer, Purpose, RingSearch
from unisono.intergroup.hierarchy.states import State, wait_to_decide
from unisono.intergroup.hierarchy.voice import Voice
from unisono.reliable.step import Step
from unisono.trace.schema import MembershipRow
from unisono.units import SECOND

LOOK = 20 * SECOND
"""How often a child looks whether there is a nearer coordinator, at the least."""
NEARER = 0.7
"""A coordinator is nearer when it is at most this much of the way, and"""
NEARER_MICROSECONDS = 500
"""by this much."""
STEP_DOWN_LIMIT = 20 * SECOND
"""A coordinator that cannot become a child in this time stays one."""
SEARCHES = 2
"""After so many searches that found nobody, a process is its own coordinator."""


class Maintenance:
    """Keeps the state of a control process; `since` is when it was entered."""

    __slots__ = (
        "_context",
        "_failed_searches",
        "_gathering",
        "_neighbours",
        "_searches",
        "_voice",
        "search",
        "since",
        "state",
    )

    def __init__(self, context: Context, neighbours: Neighbourhood, gathering: Gathering, voice: Voice) -> None:
        self._context = context
        self._neighbours = neighbours
        self._gathering = gathering
        self._voice = voice
        self.state = State.LISTENING
        self.since = 0
        self.search: RingSearch | None = None
        self._searches = 0
        self._failed_searches = 0

    # ── states ──

    def _enter(self, step: Step, state: State) -> None:
        """The only place that assigns the state."""
        self.state, self.since = state, step.now
        self._context.deadlines.clear("change")
        kind = "COORDINATOR" if state.among_coordinators else "CHILD"
        home = self._neighbours.current
        peer = home.peer.process if home is not None else None
        step.record(
            MembershipRow(
                kind=kind,
                reason=state.value,
                peer=peer.name if peer else None,
                peer_incarnation=peer.incarnation if peer else None,
            )
        )

    def become_listening(self, step: Step) -> None:
        """Hear how many coordinators there are before deciding (2.6.1)."""
        self._enter(step, State.LISTENING)
        self._neighbours.announced = 0
        self._context.join(step, COORDINATORS)
        wait = wait_to_decide(self._context.settings.startup_wait, self._context.randomness)
        self._context.deadlines.set("listen", step.now + wait)

    def decide(self, step: Step) -> None:
        """A coordinator while there are few, else a child."""
        neighbours = self._neighbours
        known = max(len(neighbours.coordinators), neighbours.announced)
        limits = thresholds(self._context.settings, neighbours.members)
        if not known or known <= limits.middle or self._failed_searches >= SEARCHES:
            self.become_coordinator(step)
        else:
            self._context.leave(step, COORDINATORS)
            self._enter(step, State.SEARCHING)
            self._begin_search(step, Purpose.FIRST, None)

    def become_coordinator(self, step: Step) -> None:
        context, neighbours = self._context, self._neighbours
        self._end_search()
        context.join(step, COORDINATORS)
        context.join(step, local_group(context.process))
        for home in neighbours.homes():
            self._part(step, home)
        neighbours.current = neighbours.moving = None
        neighbours.siblings.clear()
        self._failed_searches = neighbours.announced = 0
        for name in ("listen", "look", "settle", "leave"):
            context.deadlines.clear(name)
        self._enter(step, State.COORDINATOR)
        self._voice.to_coordinators(step)
        context.deadlines.advance("local", step.now + context.local_pace.first(context.randomness))
        self._voice.gather(step, True)

    def become_to_coordinator(self, step: Step) -> None:
        """Among the coordinators already, and still a child for a moment, so that nothing is lost in between."""
        context = self._context
        self._end_search()
        context.deadlines.clear("look")
        self._enter(step, State.TO_COORDINATOR)
        context.join(step, COORDINATORS)
        context.join(step, local_group(context.process))
        self._voice.to_coordinators(step)
        context.deadlines.set("settle", step.now + context.settings.control_interval // 2)

    def _become_child(self, step: Step, home: Home) -> None:
        """A child of `home`, and nothing else."""
        context, neighbours = self._context, self._neighbours
        neighbours.current, neighbours.moving = home, None
        neighbours.children.clear()
        neighbours.coordinators.clear()
        self._failed_searches = neighbours.announced = 0
        self._gathering.drop_children()
        for name in ("global", "leave", "listen"):
            context.deadlines.clear(name)
        context.leave(step, local_group(context.process))
        context.leave(step, COORDINATORS)
        context.join(step, local_group(home.peer.process))
        self._enter(step, State.CHILD)
        context.deadlines.set("look", step.now + context.between(LOOK // 2, LOOK))

    def become_to_child(self, step: Step) -> None:
        """Figure 2.4: take no more children, ask those there to leave, look for a coordinator."""
        neighbours = self._neighbours
        alone = not len(neighbours.coordinators)
        if alone or any(peer.process in neighbours.children for peer in neighbours.coordinators.all()):
            return
        self._enter(step, State.TO_CHILD)
        self._begin_search(step, Purpose.STEP_DOWN, None)
        self.say_that_it_leaves(step)

    def _abandon_stepping_down(self, step: Step) -> None:
        step.mark("to-child-abandoned")
        self._end_search()
        self.become_coordinator(step)

    def finish_stepping_down(self, step: Step) -> None:
        """A child once it has a coordinator and its own children are gone."""
        neighbours = self._neighbours
        if neighbours.current is None or len(neighbours.children):
            return
        self._voice.leaving(step, COORDINATORS, self._context.settings.scope)
        self._become_child(step, neighbours.current)
        self._voice.gather(step, False)

    def say_that_it_leaves(self, step: Step) -> None:
        context, children = self._context, self._neighbours.children
        scope = reach(max((peer.hops for peer in children.all()), default=1), context.settings.scope)
        self._voice.leaving(step, local_group(context.process), scope)
        context.deadlines.set("leave", step.now + context.settings.control_interval)

    def leave(self, step: Step) -> None:
        """Say so to everybody concerned, and stop."""
        context = self._context
        if self.state.among_coordinators:
            self.say_that_it_leaves(step)
            self._voice.leaving(step, COORDINATORS, context.settings.scope)
            self._voice.gather(step, False)
        for home in self._neighbours.homes():
            self._voice.farewell(step, home)
        self._end_search()
        context.leave_all(step)

    # ── looking for a coordinator ──

    def _begin_search(
        self, step: Step, purpose: Purpose, shunned: ProcessId | None, farthest: int | None = None
    ) -> None:
        self._searches += 1
        scope = self._context.settings.scope
        self.search = RingSearch(purpose, self._searches, min(farthest or scope, scope), shunned)
        self._voice.query(step, self.search)

    def _end_search(self) -> None:
        self.search = None
        self._context.deadlines.clear("search")

    def on_ring_over(self, step: Step) -> None:
        """The ring has had its time: take the best answer, or ask further away."""
        search = self.search
        if search is None:
            return
        best = search.best()
        if best is None and search.widen():
            self._voice.query(step, search)
            return
        self._end_search()
        if best is None:
            self._on_search_failed(step, search)
        else:
            self._on_found(step, search, best)

    def _on_search_failed(self, step: Step, search: RingSearch) -> None:
        if search.purpose is Purpose.FIRST:
            step.mark("ring-search-failed")
            self._failed_searches += 1
            self.become_listening(step)
        elif search.purpose is Purpose.STEP_DOWN:
            self._abandon_stepping_down(step)

    def _on_found(self, step: Step, search: RingSearch, offer: Offer) -> None:
        context, neighbours = self._context, self._neighbours
        home = Home(offer, step.now, context.settings.control_interval)
        if search.purpose is Purpose.FIRST:
            self._become_child(step, home)
        else:
            current = neighbours.current
            if search.purpose is Purpose.CLOSER and (current is None or not _nearer(offer, current)):
                return
            neighbours.moving = home
            context.join(step, local_group(offer.process))
        self._voice.local(step, self.state.leads)

    def settle_in(self, step: Step) -> None:
        """The coordinator that this child moves to has shown that it counts it: only now the old one is left."""
        neighbours = self._neighbours
        moving = neighbours.moving
        if moving is None or not moving.confirmed:
            return
        if neighbours.current is not None:
            self._part(step, neighbours.current)
            step.mark("handed-over")
        neighbours.current, neighbours.moving = moving, None
        neighbours.siblings.clear()
        if self.state is State.TO_CHILD:
            self.finish_stepping_down(step)
        else:
            self._enter(step, self.state)

    def _part(self, step: Step, home: Home) -> None:
        self._voice.farewell(step, home)
        self._context.leave(step, local_group(home.peer.process))

    def look_for_nearer(self, step: Step) -> None:
        """Beyond the document, where a child stays with the first coordinator it found while that one lives."""
        context, current = self._context, self._neighbours.current
        context.deadlines.set("look", step.now + context.between(LOOK // 2, LOOK))
        if (
            self.state is State.CHILD
            and current is not None
            and self.search is None
            and self._neighbours.moving is None
        ):
            self._begin_search(step, Purpose.CLOSER, current.peer.process, reach(current.peer.hops, 255))

    def on_coordinator_leaving(self, step: Step, leaving: ProcessId) -> None:
        neighbours = self._neighbours
        neighbours.coordinators.drop(leaving)
        moving, current = neighbours.moving, neighbours.current
        if moving is not None and moving.peer.process == leaving:
            self._give_up_moving(step)
        elif current is not None and current.peer.process == leaving and moving is None and not self._searches_home:
            self._begin_search(step, Purpose.REPLACE, leaving)

    @property
    def _searches_home(self) -> bool:
        return self.search is not None and self.search.homeless

    def _give_up_moving(self, step: Step) -> None:
        moving = self._neighbours.moving
        assert moving is not None, "only a move can be given up"
        self._neighbours.moving = None
        self._part(step, moving)
        if self.state is State.TO_CHILD and self._neighbours.current is None:
            self._abandon_stepping_down(step)

    # ── faults ──

    def watch(self, step: Step) -> None:
        """Drop whom nothing was heard of (2.6.3); a coordinator on its way down that has come far enough is a child."""
        neighbours = self._neighbours
        patience = self._context.settings.control_patience
        for lost in neighbours.coordinators.silent(step.now, patience):
            neighbours.coordinators.drop(lost)
        for lost in neighbours.siblings.silent(step.now, patience):
            neighbours.siblings.drop(lost)
        said = False
        for lost in neighbours.children.silent(step.now, patience):
            neighbours.children.drop(lost)
            said |= self._gathering.drop(lost)
            step.mark("child-lost")
        if said:
            self._voice.gather(step, self.state.leads)
        self._watch_homes(step, patience)
        if self.state is State.TO_CHILD:
            if step.now - self.since > STEP_DOWN_LIMIT:
                self._abandon_stepping_down(step)
            else:
                self.finish_stepping_down(step)

    def _watch_homes(self, step: Step, patience: int) -> None:
        neighbours = self._neighbours
        moving, current = neighbours.moving, neighbours.current
        if moving is not None and (moving.waits_too_long(step.now, patience) or moving.peer.silent(step.now, patience)):
            self._give_up_moving(step)
        if current is None:
            return
        current.forget(step.now)
        if current.peer.silent(step.now, patience) or current.waits_too_long(step.now, 4 * patience):
            self._on_coordinator_lost(step, current)

    def _on_coordinator_lost(self, step: Step, lost: Home) -> None:
        """Look for another one; if nobody answers, decide anew, not all at the same time."""
        context, neighbours = self._context, self._neighbours
        step.mark("coordinator-lost")
        context.leave(step, local_group(lost.peer.process))
        neighbours.siblings.clear()
        neighbours.current = None
        if self.state is State.TO_COORDINATOR:
            self.become_coordinator(step)
        elif self.state is State.TO_CHILD:
            self._abandon_stepping_down(step)
        elif neighbours.moving is not None:
            neighbours.current, neighbours.moving = neighbours.moving, None
            self._enter(step, State.CHILD)
        else:
            context.deadlines.clear("look")
            self._enter(step, State.SEARCHING)
            self._begin_search(step, Purpose.FIRST, lost.peer.process)


def _nearer(offer: Offer, current: Home) -> bool:
    distance = current.peer.distance.value
    return distance is None or (
        offer.distance <= distance * NEARER and offer.distance + NEARER_MICROSECONDS <= distance
    )
