"""What a control process hears: every message goes into the tables here; what follows from it is for the states.

Nothing that comes can raise: what does not fit is a counted reason.
"""

from __future__ import annotations

from unisono.engine import PacketReceived, hops_of
from unisono.identity import ProcessId
from unisono.intergroup.hierarchy.aggregation import CUT, Gathering
from unisono.intergroup.hierarchy.context import Context
from unisono.intergroup.hierarchy.estimates import Estimate, one_way
from unisono.intergroup.hierarchy.neighbourhood import Neighbourhood
from unisono.intergroup.hierarchy.reasons import Reason
from unisono.intergroup.hierarchy.searching import Offer, RingSearch
from unisono.intergroup.hierarchy.states import State
from unisono.reliable.step import Step
from unisono.units import MICROSECOND
from unisono.wire.control_messages import (
    Contributed,
    CoordinatorControl,
    CoordinatorLeave,
    Farewell,
    GlobalControl,
    LocalControl,
    RingQuery,
    SearchResponse,
    find_pair,
)
from unisono.wire.messages import ControlPacket


class Heard:
    """What a packet leads to."""

    __slots__ = (
        "confirmed",
        "cut",
        "fewer_children",
        "leave",
        "new_child",
        "new_coordinator",
        "stability",
    )

    def __init__(self) -> None:
        self.confirmed = False
        self.cut = False
        self.fewer_children = False
        self.leave: ProcessId | None = None
        self.new_child = False
        self.new_coordinator = False
        self.stability = False


class Hearing:
    """Takes packets in. `courted` counts what speaks against stepping down: children that came or asked."""

    __slots__ = ("_context", "_gathering", "_neighbours", "courted")

    def __init__(self, context: Context, neighbours: Neighbourhood, gathering: Gathering) -> None:
        self._context = context
        self._neighbours = neighbours
        self._gathering = gathering
        self.courted = 0

    def on_packet(self, step: Step, fact: PacketReceived, state: State, search: RingSearch | None) -> Heard:
        heard = Heard()
        packet, own = fact.packet, self._context.process
        source = packet.source
        if source.name == own.name:
            step.note(Reason.OWN_PACKET if source == own else Reason.OWN_NAME)
            return heard
        if not isinstance(packet, ControlPacket):
            step.note(Reason.NOT_CONTROL)
            return heard
        for refused in packet.refused:
            step.note(refused)
        for message in packet.messages:
            if isinstance(message, LocalControl):
                self._on_local(step, fact, message, state, heard)
            elif isinstance(message, CoordinatorControl):
                self._on_coordinator(step, fact, message, heard)
            elif isinstance(message, GlobalControl):
                self._on_global(step, fact, message, state)
            elif isinstance(message, RingQuery):
                self._on_query(step, fact, message, state)
            elif isinstance(message, SearchResponse):
                self._on_response(step, fact, message, search)
            elif isinstance(message, CoordinatorLeave):
                heard.leave = source
            elif isinstance(message, Farewell):
                self._on_farewell(step, source, message, heard)
            elif isinstance(message, Contributed):
                self._on_contributed(step, source, message, state, heard)
            else:
                step.note(Reason.NOT_CONTROL)
        return heard

    def _arrived(self, step: Step, fact: PacketReceived) -> int:
        """When the datagram came; a driver that knows it better than now is believed, within reason."""
        return fact.arrived if 0 < fact.arrived <= step.now else step.now

    def _on_local(self, step: Step, fact: PacketReceived, message: LocalControl, state: State, heard: Heard) -> None:
        neighbours, source = self._neighbours, fact.packet.source
        if message.coordinator == self._context.process:
            self._on_child(step, fact, message, state, heard)
            return
        if neighbours.children.drop(source):  # it names another coordinator
            heard.fewer_children = True
            heard.stability |= self._gathering.drop(source)
        home = neighbours.current
        if home is None or home.peer.process != message.coordinator:
            step.note(Reason.NOT_MY_CHILD)
            return
        peer = neighbours.siblings.admit(source, fact.source)
        if peer is None:
            step.note(Reason.NO_ROOM)
            return
        arrived = self._arrived(step, fact)
        peer.hear(message.timestamp, arrived, step.now, fact.source, hops_of(fact, message.ttl), message.interval)
        self._measure(step, peer.distance, message.pairs, arrived)
        self._context.local_pace.saw(fact.size)

    def _on_child(self, step: Step, fact: PacketReceived, message: LocalControl, state: State, heard: Heard) -> None:
        children, source = self._neighbours.children, fact.packet.source
        known = source in children
        if not state.leads or (state is State.TO_CHILD and not known):
            step.note(Reason.NO_CHILDREN_NOW if state.leads else Reason.NOT_COORDINATOR)
            leave = CoordinatorLeave(self._context.stamp(step))
            self._context.send(step, fact.source, self._context.settings.scope, leave)
            return
        peer = children.admit(source, fact.source)
        if peer is None:
            step.note(Reason.NO_ROOM)
            return
        if not known:
            self.courted += 1
            heard.new_child = True
            self._gathering.keep(children)
        arrived = self._arrived(step, fact)
        peer.hear(
            message.timestamp,
            arrived,
            step.now,
            fact.source,
            hops_of(fact, message.ttl) or message.ttl,
            message.interval,
        )
        self._measure(step, peer.distance, message.pairs, arrived)
        self._context.local_pace.saw(fact.size)

    def _on_coordinator(self, step: Step, fact: PacketReceived, message: CoordinatorControl, heard: Heard) -> None:
        home = self._neighbours.home_of(fact.packet.source)
        if home is None:
            step.note(Reason.NOT_MY_COORDINATOR)
            return
        arrived = self._arrived(step, fact)
        news = home.hear(message, arrived, step.now, fact.source, hops_of(fact, message.ttl) or home.peer.hops)
        heard.new_coordinator |= news
        if self._measure(step, home.peer.distance, message.pairs, arrived):
            home.confirmed = True
            heard.confirmed = True
        self._context.local_pace.saw(fact.size)

    def _on_global(self, step: Step, fact: PacketReceived, message: GlobalControl, state: State) -> None:
        neighbours = self._neighbours
        if state is State.CHILD:
            step.note(Reason.NOT_COORDINATOR)
            return
        neighbours.announced = max(neighbours.announced, message.coordinator_count)
        peer = neighbours.coordinators.admit(fact.packet.source, fact.source)
        if peer is None:
            step.note(Reason.NO_ROOM)
            return
        arrived = self._arrived(step, fact)
        peer.hear(
            message.timestamp,
            arrived,
            step.now,
            fact.source,
            hops_of(fact, message.ttl) or message.ttl,
            message.interval,
        )
        peer.local_count = message.local_count
        self._measure(step, peer.distance, message.pairs, arrived)
        self._context.global_pace.saw(fact.size)

    def _on_query(self, step: Step, fact: PacketReceived, message: RingQuery, state: State) -> None:
        if state is not State.COORDINATOR:
            step.note(Reason.NOT_COORDINATOR if not state.leads else Reason.NO_CHILDREN_NOW)
            return
        if self._neighbours.children.full:
            step.note(Reason.NO_ROOM)
            return
        if message.homeless:
            self.courted += 1
        context = self._context
        count = len(self._neighbours.children)
        response = SearchResponse(context.stamp(step), message.search, message.timestamp, count)
        context.send(step, fact.source, context.settings.scope, response)

    def _on_response(
        self, step: Step, fact: PacketReceived, message: SearchResponse, search: RingSearch | None
    ) -> None:
        if search is None or search.number != message.search:
            step.note(Reason.OLD_SEARCH)
            return
        sent = self._context.stamped(message.echo)
        distance = None if sent is None else one_way(sent, 0, self._arrived(step, fact) // MICROSECOND)
        if distance is None:
            step.note(Reason.UNKNOWN_ECHO)
            return
        search.offer(Offer(fact.packet.source, fact.source, fact.hops or search.ttl, distance))

    def _on_farewell(self, step: Step, source: ProcessId, message: Farewell, heard: Heard) -> None:
        if message.target != self._context.process or not self._neighbours.children.drop(source):
            step.note(Reason.NOT_MY_CHILD)
            return
        heard.fewer_children = True
        heard.stability |= self._gathering.drop(source)

    def _on_contributed(self, step: Step, source: ProcessId, message: Contributed, state: State, heard: Heard) -> None:
        if message.target != self._context.process or not state.leads or source not in self._neighbours.children:
            step.note(Reason.NOT_MY_CHILD)
            return
        changed = self._gathering.receive(source, message)
        if changed is None:
            step.note(Reason.OLD_SERIAL)
        elif changed:
            heard.stability = True
            heard.cut |= any(contribution.topic == CUT for contribution in message.contributions)

    def _measure(self, step: Step, distance: Estimate, pairs: bytes, arrived: int) -> bool:
        """Take a sample from the pair that is this process's, if there is one; whether there is."""
        pair = find_pair(pairs, self._context.short)
        if pair is None:
            return False
        sent = self._context.stamped(pair.sent)
        if sent is None:
            step.note(Reason.UNKNOWN_ECHO)
            return False
        sample = one_way(sent, pair.held, arrived // MICROSECOND)
        if sample is not None:
            distance.add(sample)
        return True
