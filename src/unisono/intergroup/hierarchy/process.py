"""The control process of a site: its place in a hierarchy that organizes itself (000 chapter 2).

An engine: every fact comes in here. `hearing` takes messages in, `maintenance` keeps the state, `thinking` says when it
should change, `voice` says what is said.
"""

from __future__ import annotations

from unisono.distances import DistanceTable
from unisono.engine import Effect, Fact, PacketReceived, Randomness, Start
from unisono.identity import ProcessId
from unisono.intergroup.hierarchy.aggregation import CUT, Gathering
from unisono.intergroup.hierarchy.context import Context
from unisono.intergroup.hierarchy.hearing import Hearing
from unisono.intergroup.hierarchy.maintenance import Maintenance
from unisono.intergroup.hierarchy.neighbourhood import Neighbourhood
from unisono.intergroup.hierarchy.reasons import Reason
from unisono.intergroup.hierarchy.states import State
from unisono.intergroup.hierarchy.thinking import SelfDetermination
from unisono.intergroup.hierarchy.voice import Voice
from unisono.reliable.step import Place, Step
from unisono.sealing import Seal
from unisono.settings import Settings
from unisono.trace.schema import GaugeRow
from unisono.units import SECOND
from unisono.wire.control_messages import Contribution
from unisono.wire.messages import Whereabouts

WATCH = SECOND
"""How often faults are looked for and the place in the hierarchy is thought over."""
LIGHT = 4
"""So many entries are said as often as news comes: twice as many, half as often."""
URGENT_REPEATS = 2
"""How often an urgent contribution is repeated: it may be lost, and waits for no acknowledgement."""


class ControlProcess:
    """One control process. `Start` begins it; control packets and the time keep it going."""

    __slots__ = (
        "_context",
        "_gathering",
        "_hearing",
        "_last_call",
        "_last_report",
        "_maintenance",
        "_measured",
        "_neighbours",
        "_place",
        "_received_bytes",
        "_repeats",
        "_thinking",
        "_voice",
    )

    def __init__(self, realm: str, process: ProcessId, settings: Settings, randomness: Randomness, seal: Seal) -> None:
        self._context = Context(realm, process, settings, randomness, seal)
        self._place = Place("", "", 0, settings.trace)
        self._neighbours = Neighbourhood(process)
        self._gathering = Gathering()
        self._voice = Voice(self._context, self._neighbours, self._gathering)
        self._hearing = Hearing(self._context, self._neighbours, self._gathering)
        self._maintenance = Maintenance(self._context, self._neighbours, self._gathering, self._voice)
        self._thinking = SelfDetermination(self._context, self._neighbours)
        self._last_call: int | None = None
        self._last_report: int | None = None
        self._repeats = 0
        self._received_bytes = 0
        self._measured = (0, 0)
        """How many coordinators and children the trace was told of."""

    # ── what others read ──

    @property
    def state(self) -> State:
        return self._maintenance.state

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
            self._maintenance.since = now
            self._context.deadlines.set("watch", now + self._context.between(0, WATCH))
            self._context.deadlines.set("gauge", now + self._context.settings.gauge_interval)
            self._maintenance.become_listening(step)
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

    def leave(self, now: int) -> list[Effect]:
        """This control process stops for good: whom it leaves behind need not find that out by its silence."""
        step = Step(self._place, now, now)
        self._maintenance.leave(step)
        return step.finish()

    def _on_packet(self, step: Step, fact: PacketReceived) -> None:
        self._received_bytes += fact.size
        heard = self._hearing.on_packet(step, fact, self.state, self._maintenance.search)
        if heard.leave is not None:
            self._maintenance.on_coordinator_leaving(step, heard.leave)
        if heard.confirmed:
            self._maintenance.settle_in(step)
        if heard.new_child:
            soon = step.now + self._context.settings.control_interval // 10
            self._context.deadlines.advance("local", soon)
        if heard.new_coordinator and self.state is State.CHILD:
            spread = self._context.settings.state_change_high
            self._context.deadlines.advance("look", step.now + self._context.between(0, spread))
        if heard.fewer_children and self.state is State.TO_CHILD:
            self._maintenance.finish_stepping_down(step)
        if heard.cut:
            self._voice.gather(step, self.state.leads, (CUT,))
        if heard.stability:
            self._report_soon(step)

    def _on_time(self, step: Step) -> None:
        """What is due, in turn; what one deadline has made pointless for another is passed over."""
        for name in self._context.deadlines.expire(step.now):
            if name == "local":
                self._voice.local(step, self.state.leads)
                self._voice.gather(step, self.state.leads)
            elif name == "global" and self.state.among_coordinators:
                self._voice.to_coordinators(step)
            elif name == "watch":
                self._watch(step)
            elif name == "listen" and self.state is State.LISTENING:
                self._maintenance.decide(step)
            elif name == "search":
                self._maintenance.on_ring_over(step)
            elif name == "change":
                self._change(step)
            elif name == "look":
                self._maintenance.look_for_nearer(step)
            elif name == "settle" and self.state is State.TO_COORDINATOR:
                self._maintenance.become_coordinator(step)
            elif name == "leave" and self.state is State.TO_CHILD:
                self._maintenance.say_that_it_leaves(step)
            elif name == "report":
                self._report(step)
            elif name == "gauge":
                self._gauge(step)

    def _watch(self, step: Step) -> None:
        self._context.deadlines.set("watch", step.now + WATCH)
        maintenance = self._maintenance
        maintenance.watch(step)
        if maintenance.search is None:
            self._thinking.think_it_over(step, maintenance.state, maintenance.since, self._hearing.courted)

    def _change(self, step: Step) -> None:
        maintenance = self._maintenance
        if maintenance.search is not None or not self._thinking.decide(maintenance.state, self._hearing.courted):
            return
        if maintenance.state is State.COORDINATOR:
            maintenance.become_to_child(step)
        else:
            maintenance.become_to_coordinator(step)

    def _forgive_own_pause(self, step: Step) -> None:
        if self._last_call is not None and (pause := step.now - self._last_call - WATCH) > WATCH:
            self._neighbours.forgive(pause)
            step.mark("woke-up")
        self._last_call = step.now

    # ── reports ──

    def _report_soon(self, step: Step) -> None:
        """Not more often than every report interval, and the more there is to say, the less often."""
        interval = self._context.settings.report_interval * max(1, self._gathering.weight // LIGHT)
        last = self._last_report
        self._context.deadlines.advance("report", step.now if last is None else max(step.now, last + interval))

    def _report(self, step: Step) -> None:
        """Hand on what is said here: to the coordinators of a child, or to whom it concerns."""
        self._last_report = step.now
        for home in self._neighbours.homes():
            self._voice.contribute(step, home)
        if self.state.leads:
            self._voice.gather(step, True, news=not self._repeats)
        if self._repeats:
            self._repeats -= 1
            self._context.deadlines.advance("report", step.now + self._context.settings.report_interval)

    def _gauge(self, step: Step) -> None:
        place = self._place
        self._context.deadlines.set("gauge", step.now + self._context.settings.gauge_interval)
        step.record(GaugeRow(kind="GAUGE", name="control bytes sent", value=place.datagram_bytes))
        step.record(GaugeRow(kind="GAUGE", name="control bytes received", value=self._received_bytes))
        place.datagrams = place.datagram_bytes = self._received_bytes = 0
        if step.tracing and self.state.among_coordinators:
            known = len(self._neighbours.coordinators), len(self._neighbours.children)
            if known != self._measured:
                self._measured = known
                step.statistic("COORD_MEMB", coordinators=known[0])
                step.statistic("LOCAL_MEMB", children=known[1])
