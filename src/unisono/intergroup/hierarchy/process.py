"""The control process of a site: its place in the self-organizing hierarchy of coordinators and children (000 chapter 2).

An engine. `process` is the way in and the states; `hearing` takes messages in, `voice` says what is said in turns,
`determination` decides who should be a coordinator.
"""

from __future__ import annotations

from unisono.engine import Effect, Fact, PacketReceived, Randomness, Start
from unisono.identity import ProcessId
from unisono.intergroup.hierarchy.aggregation import CUT, STABILITY, Gathering
from unisono.intergroup.hierarchy.context import COORDINATORS, Context, local_group, reach
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
from unisono.intergroup.hierarchy.distances import DistanceTable, Whereabouts
from unisono.intergroup.hierarchy.hearing import Hearing
from unisono.intergroup.hierarchy.home import Home
from unisono.intergroup.hierarchy.neighbourhood import Neighbourhood
from unisono.intergroup.hierarchy.reasons import Reason
from unisono.intergroup.hierarchy.searching import Offer, Purpose, RingSearch
from unisono.intergroup.hierarchy.states import State, wait_to_decide
from unisono.intergroup.hierarchy.voice import Voice
from unisono.reliable.step import Place, Step
from unisono.sealing import Seal
from unisono.settings import Settings
from unisono.trace.schema import GaugeRow, MembershipRow
from unisono.units import SECOND
from unisono.wire.control_messages import Contribution

WATCH = SECOND
"""How often faults are looked for and the place in the hierarchy is thought over."""
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
URGENT_REPEATS = 2
"""How often an urgent contribution is repeated: it may be lost, and waits for no acknowledgement."""


class ControlProcess:
    """One control process. `Start` begins it; control packets and the time keep it going."""

    __slots__ = (
        "_change",
        "_context",
        "_failed_searches",
        "_gathering",
        "_hearing",
        "_last_call",
        "_last_report",
        "_neighbours",
        "_place",
        "_received_bytes",
        "_repeats",
        "_search",
        "_searches",
        "_since",
        "_state",
        "_voice",
    )

    def __init__(self, realm: str, process: ProcessId, settings: Settings, randomness: Randomness, seal: Seal) -> None:
        self._context = Context(realm, process, settings, randomness, seal)
        self._place = Place("control", "", 0, settings.trace)
        self._neighbours = Neighbourhood(process)
        self._gathering = Gathering()
        self._voice = Voice(self._context, self._neighbours, self._gathering)
        self._hearing = Hearing(self._context, self._neighbours, self._gathering)
        self._state = State.LISTENING
        self._since = 0
        self._search: RingSearch | None = None
        self._searches = 0
        self._failed_searches = 0
        self._change: tuple[Appropriateness, int] | None = None
        self._last_call: int | None = None
        self._last_report: int | None = None
        self._repeats = 0
        self._received_bytes = 0

    # ── what others read ──

    @property
    def state(self) -> State:
        return self._state

    @property
    def whereabouts(self) -> Whereabouts:
        """Where this site stands; its own coordinator while it has no other."""
        return self._neighbours.whereabouts()

    @property
    def table(self) -> DistanceTable:
        """What it knows of distances, at this moment."""
        return self._neighbours.table()

    @property
    def members(self) -> int:
        """How many control processes there are, as far as is known here."""
        home = self._neighbours.current
        return home.members if home is not None else self._neighbours.members

    def deadline(self) -> int | None:
        return self._context.deadlines.earliest()

    # ── the way in ──

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        step = Step(self._place, now, wall)
        self._forgive_own_pause(step)
        if isinstance(fact, PacketReceived):
            self._on_packet(step, fact)
        elif isinstance(fact, Start):
            self._since = now
            self._context.deadlines.set("watch", now + self._context.between(0, WATCH))
            self._context.deadlines.set("gauge", now + self._context.settings.gauge_interval)
            self._become_listening(step)
        self._on_time(step)
        return step.finish()

    def contribute(
        self, now: int, contributor: ProcessId, contributions: tuple[Contribution, ...], urgent: bool
    ) -> list[Effect]:
        """Replace what a process of this site says; nothing takes it back. Urgent words leave at once (erratum E18),
        others within a report interval."""
        step = Step(self._place, now, now)
        if not self._gathering.contribute(contributor, contributions):
            step.note(Reason.TOO_MANY_ENTRIES)
        elif urgent:
            self._repeats = URGENT_REPEATS
            self._report(step)
        else:
            self._report_soon(step)
        return step.finish()

    def _on_packet(self, step: Step, fact: PacketReceived) -> None:
        self._received_bytes += fact.size
        heard = self._hearing.on_packet(step, fact, self._state, self._search)
        if heard.leave is not None:
            self._on_coordinator_leaving(step, heard.leave)
        if heard.confirmed:
            self._settle_in(step)
        if heard.new_child:
            soon = step.now + self._context.settings.control_interval // 10
            self._context.deadlines.advance("local", soon)
        if heard.new_coordinator and self._state is State.CHILD:
            spread = self._context.settings.state_change_high
            self._context.deadlines.advance("look", step.now + self._context.between(0, spread))
        if heard.fewer_children and self._state is State.TO_CHILD:
            self._finish_stepping_down(step)
        if heard.cut:
            self._voice.gather(step, self._state.leads, (CUT,))
        if heard.stability:
            self._report_soon(step)

    def _on_time(self, step: Step) -> None:
        """What is due, in turn; what one deadline has made pointless for another is passed over."""
        for name in self._context.deadlines.expire(step.now):
            if name == "local":
                self._voice.local(step, self._state.leads)
                self._voice.gather(step, self._state.leads)
            elif name == "global" and self._state.among_coordinators:
                self._voice.to_coordinators(step)
            elif name == "watch":
                self._watch(step)
            elif name == "listen" and self._state is State.LISTENING:
                self._decide(step)
            elif name == "search":
                self._on_ring_over(step)
            elif name == "change":
                self._on_change_due(step)
            elif name == "look":
                self._look_for_nearer(step)
            elif name == "settle" and self._state is State.TO_COORDINATOR:
                self._become_coordinator(step)
            elif name == "leave" and self._state is State.TO_CHILD:
                self._say_that_it_leaves(step)
            elif name == "report":
                self._report(step)
            elif name == "gauge":
                self._gauge(step)

    # ── states ──

    def _enter(self, step: Step, state: State) -> None:
        """The only place that assigns the state."""
        self._state, self._since = state, step.now
        self._change = None
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

    def _become_listening(self, step: Step) -> None:
        """Hear how many coordinators there are before deciding (2.6.1)."""
        self._enter(step, State.LISTENING)
        self._neighbours.announced = 0
        self._context.join(step, COORDINATORS)
        wait = wait_to_decide(self._context.settings.startup_wait, self._context.randomness)
        self._context.deadlines.set("listen", step.now + wait)

    def _decide(self, step: Step) -> None:
        """A coordinator while there are few, else a child."""
        neighbours = self._neighbours
        known = max(len(neighbours.coordinators), neighbours.announced)
        limits = thresholds(self._context.settings, neighbours.members)
        if not known or known <= limits.middle or self._failed_searches >= SEARCHES:
            self._become_coordinator(step)
        else:
            self._context.leave(step, COORDINATORS)
            self._enter(step, State.SEARCHING)
            self._begin_search(step, Purpose.FIRST, None)

    def _become_coordinator(self, step: Step) -> None:
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

    def _become_to_coordinator(self, step: Step) -> None:
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

    def _become_to_child(self, step: Step) -> None:
        """Figure 2.4: take no more children, ask those there to leave, look for a coordinator."""
        neighbours = self._neighbours
        alone = not len(neighbours.coordinators)
        if alone or any(peer.process in neighbours.children for peer in neighbours.coordinators.all()):
            return
        self._enter(step, State.TO_CHILD)
        self._begin_search(step, Purpose.STEP_DOWN, None)
        self._say_that_it_leaves(step)

    def _abandon_stepping_down(self, step: Step) -> None:
        step.mark("to-child-abandoned")
        self._end_search()
        self._become_coordinator(step)

    def _finish_stepping_down(self, step: Step) -> None:
        """A child once it has a coordinator and its own children are gone."""
        neighbours = self._neighbours
        if neighbours.current is None or len(neighbours.children):
            return
        self._voice.leaving(step, COORDINATORS, self._context.settings.scope)
        self._become_child(step, neighbours.current)
        self._voice.gather(step, False)

    def _say_that_it_leaves(self, step: Step) -> None:
        context, children = self._context, self._neighbours.children
        scope = reach(max((peer.hops for peer in children.all()), default=1), context.settings.scope)
        self._voice.leaving(step, local_group(context.process), scope)
        context.deadlines.set("leave", step.now + context.settings.control_interval)

    # ── looking for a coordinator ──

    def _begin_search(self, step: Step, purpose: Purpose, shunned: ProcessId | None, farthest: int | None = None) -> None:
        self._searches += 1
        scope = self._context.settings.scope
        self._search = RingSearch(purpose, self._searches, min(farthest or scope, scope), shunned)
        self._voice.query(step, self._search)

    def _end_search(self) -> None:
        self._search = None
        self._context.deadlines.clear("search")

    def _on_ring_over(self, step: Step) -> None:
        """The ring has had its time: take the best answer, or ask further away."""
        search = self._search
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
            self._become_listening(step)
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
        self._voice.local(step, self._state.leads)

    def _settle_in(self, step: Step) -> None:
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
        if self._state is State.TO_CHILD:
            self._finish_stepping_down(step)
        else:
            self._enter(step, self._state)

    def _part(self, step: Step, home: Home) -> None:
        self._voice.farewell(step, home)
        self._context.leave(step, local_group(home.peer.process))

    def _look_for_nearer(self, step: Step) -> None:
        """Beyond the document, where a child stays with the first coordinator it found for as long as that one lives."""
        context, current = self._context, self._neighbours.current
        context.deadlines.set("look", step.now + context.between(LOOK // 2, LOOK))
        if self._state is State.CHILD and current is not None and self._search is None and self._neighbours.moving is None:
            self._begin_search(step, Purpose.CLOSER, current.peer.process, reach(current.peer.hops, 255))

    def _on_coordinator_leaving(self, step: Step, leaving: ProcessId) -> None:
        neighbours = self._neighbours
        neighbours.coordinators.drop(leaving)
        moving, current = neighbours.moving, neighbours.current
        if moving is not None and moving.peer.process == leaving:
            self._give_up_moving(step)
        elif current is not None and current.peer.process == leaving and moving is None:
            if self._search is None or self._search.purpose is Purpose.CLOSER:
                self._begin_search(step, Purpose.REPLACE, leaving)

    def _give_up_moving(self, step: Step) -> None:
        moving = self._neighbours.moving
        assert moving is not None, "only a move can be given up"
        self._neighbours.moving = None
        self._part(step, moving)
        if self._state is State.TO_CHILD and self._neighbours.current is None:
            self._abandon_stepping_down(step)

    # ── faults, and thinking it over ──

    def _watch(self, step: Step) -> None:
        context, neighbours = self._context, self._neighbours
        patience = context.settings.control_patience
        context.deadlines.set("watch", step.now + WATCH)
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
            self._voice.gather(step, self._state.leads)
        self._watch_homes(step, patience)
        if self._state is State.TO_CHILD:
            if step.now - self._since > STEP_DOWN_LIMIT:
                self._abandon_stepping_down(step)
            else:
                self._finish_stepping_down(step)
        self._think_it_over(step)

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
        if self._state is State.TO_COORDINATOR:
            self._become_coordinator(step)
        elif self._state is State.TO_CHILD:
            self._abandon_stepping_down(step)
        elif neighbours.moving is not None:
            neighbours.current, neighbours.moving = neighbours.moving, None
            self._enter(step, State.CHILD)
        else:
            context.deadlines.clear("look")
            self._enter(step, State.SEARCHING)
            self._begin_search(step, Purpose.FIRST, lost.peer.process)

    def _think_it_over(self, step: Step) -> None:
        """Self-determination (2.5): set the timer of a change that the tables speak for."""
        context = self._context
        settings = context.settings
        if self._change is not None or step.now - self._since < settings.state_change_low + settings.state_change_high:
            return
        how = self._how_appropriate()
        if how is None:
            return
        self._change = (how, self._hearing.courted)
        context.deadlines.set("change", step.now + context.between(*timer_range(how, settings)))

    def _how_appropriate(self) -> Appropriateness | None:
        """How a change would suit the hierarchy, if it suits it at all (tables 2.2, 2.3)."""
        settings, neighbours = self._context.settings, self._neighbours
        if self._state is State.COORDINATOR:
            seen = neighbours.seen_by_coordinator()
            limits = thresholds(settings, seen.members)
            how = appropriateness_of_coordinator(seen, limits, settings)
            return how if coordinator_goes_on(how, seen.coordinators, limits) else None
        child = neighbours.seen_by_child()
        if self._state is not State.CHILD or child is None or neighbours.moving is not None or self._search is not None:
            return None
        how = appropriateness_of_child(child, settings)
        return how if child_goes_on(how, child.coordinators, thresholds(settings, child.members)) else None

    def _on_change_due(self, step: Step) -> None:
        """Look again, and draw lots with those who stand alike."""
        if self._change is None:
            return
        how, courted = self._change
        self._change = None
        if self._how_appropriate() is not how:
            return
        settings, neighbours, draw = self._context.settings, self._neighbours, self._context.randomness.random()
        if self._state is State.COORDINATOR:
            seen = neighbours.seen_by_coordinator()
            chance = chance_of_coordinator(how, seen, thresholds(settings, seen.members))
            if self._hearing.courted == courted and draw < chance:
                self._become_to_child(step)
            return
        child = neighbours.seen_by_child()
        assert child is not None, "it was there a moment ago"
        if draw < chance_of_child(how, child, thresholds(settings, child.members)):
            self._become_to_coordinator(step)

    def _forgive_own_pause(self, step: Step) -> None:
        if self._last_call is not None and (pause := step.now - self._last_call - WATCH) > WATCH:
            self._neighbours.forgive(pause)
            step.mark("woke-up")
        self._last_call = step.now

    # ── reports ──

    def _report_soon(self, step: Step) -> None:
        interval = self._context.settings.report_interval
        last = self._last_report
        self._context.deadlines.advance("report", step.now if last is None else max(step.now, last + interval))

    def _report(self, step: Step) -> None:
        """Hand on what is said here: to the coordinators of a child, or to whom it concerns."""
        self._last_report = step.now
        for home in self._neighbours.homes():
            self._voice.contribute(step, home)
        if self._state.leads:
            self._voice.gather(step, True, (CUT, STABILITY))
        if self._repeats:
            self._repeats -= 1
            self._context.deadlines.advance("report", step.now + self._context.settings.report_interval)

    def _gauge(self, step: Step) -> None:
        place = self._place
        self._context.deadlines.set("gauge", step.now + self._context.settings.gauge_interval)
        step.record(GaugeRow(kind="GAUGE", name="control bytes sent", value=place.datagram_bytes))
        step.record(GaugeRow(kind="GAUGE", name="control bytes received", value=self._received_bytes))
        place.datagrams = place.datagram_bytes = self._received_bytes = 0


def _nearer(offer: Offer, current: Home) -> bool:
    distance = current.peer.distance.value
    return distance is None or (
        offer.distance <= distance * NEARER and offer.distance + NEARER_MICROSECONDS <= distance
    )
