"""What a control process says, and when it says it next: LCon, CCon and GCon, ring queries, contributions.

Arrays that grow with the group are sent in turns, so many entries a message: those that wait longest first. In a small
local group a child speaks to all, as in the document; in a larger one to its coordinator alone, since a child among
hundreds would hear little but its siblings. Then it knows them through the coordinator.
"""

from __future__ import annotations

from unisono.engine import Address
from unisono.intergroup.hierarchy.aggregation import TOPICS, Gathering, as_contributions
from unisono.intergroup.hierarchy.context import COORDINATORS, Context, local_group, milliseconds, reach
from unisono.intergroup.hierarchy.home import Home
from unisono.intergroup.hierarchy.neighbourhood import Neighbourhood
from unisono.intergroup.hierarchy.peers import PeerTable
from unisono.intergroup.hierarchy.reasons import Reason
from unisono.intergroup.hierarchy.searching import RingSearch
from unisono.reliable.step import Step
from unisono.wire.control_messages import (
    DISTANCE_BYTES,
    PAIR_BYTES,
    PART_LIMIT,
    Contributed,
    Contribution,
    CoordinatorControl,
    CoordinatorLeave,
    Farewell,
    Gathered,
    GlobalControl,
    HierarchyMessage,
    LocalControl,
    RingQuery,
    pack_distances,
    pack_pairs,
)

SMALL_GROUP = 8
"""With so many children in a local group each still speaks to all."""
_LOCAL_PAIRS, _COORDINATOR_PAIRS, _GLOBAL_PAIRS = 8, 8, 8
_DISTANCES = 8
_ENTRY_BYTES = 120
"""An entry of a contribution, with a long name and a long address."""


class Voice:
    """Says everything that is said in turns."""

    __slots__ = ("_context", "_gathering", "_neighbours", "_told_coordinators", "_told_locals")

    def __init__(self, context: Context, neighbours: Neighbourhood, gathering: Gathering) -> None:
        self._context = context
        self._neighbours = neighbours
        self._gathering = gathering
        self._told_locals = 0
        self._told_coordinators = 0

    # ── in the local group ──

    def local(self, step: Step, as_coordinator: bool) -> None:
        """Speak in the local group, as a child, as a coordinator or as both, and arrange the next time."""
        context, neighbours = self._context, self._neighbours
        members = self._local_members(as_coordinator)
        size = sum(self._as_child(step, home, members) for home in neighbours.homes())
        if as_coordinator:
            size += self._as_coordinator(step)
        if size:
            context.local_pace.saw(size)
        wait = context.local_pace.next(members, context.randomness)
        context.deadlines.set("local", step.now + wait)

    def _local_members(self, as_coordinator: bool) -> int:
        neighbours = self._neighbours
        if as_coordinator:
            return 1 + len(neighbours.children)
        return 1 + (neighbours.current.local_count if neighbours.current is not None else 0)

    def _as_child(self, step: Step, home: Home, members: int) -> int:
        """To the coordinator, in a small group to the others as well."""
        context, neighbours = self._context, self._neighbours
        own = home.peer.pair(step.now)
        pairs = [] if own is None else [own]
        home.peer.echoed(step.now)
        to_all = home is neighbours.current and home.confirmed and home.local_count <= SMALL_GROUP
        if to_all:
            pairs += neighbours.siblings.pairs(step.now, min(_LOCAL_PAIRS, context.room // PAIR_BYTES))
        scope = reach(home.peer.hops, context.settings.scope)
        message = LocalControl(
            context.stamp(step),
            scope,
            milliseconds(context.local_pace.interval(members)),
            home.peer.process,
            len(neighbours.siblings),
            pack_pairs(pairs),
        )
        to = local_group(home.peer.process) if to_all else home.peer.address
        size = context.send(step, to, scope if to_all else context.settings.scope, message)
        return size + (self.contribute(step, home) if self._gathering.says_something else 0)

    def _as_coordinator(self, step: Step) -> int:
        context, neighbours = self._context, self._neighbours
        children = neighbours.children
        never = sum(peer.never_echoed for peer in children.all())
        room = context.room
        coordinators = self._told(neighbours.coordinators, "_told_coordinators", room // 4 // DISTANCE_BYTES)
        locals_ = self._told(children, "_told_locals", room // 4 // DISTANCE_BYTES)
        most = min(
            _COORDINATOR_PAIRS + never, (room - DISTANCE_BYTES * (len(locals_) + len(coordinators))) // PAIR_BYTES
        )
        scope = reach(max((peer.hops for peer in children.all()), default=1), context.settings.scope)
        message = CoordinatorControl(
            context.stamp(step),
            scope,
            milliseconds(context.local_pace.interval(1 + len(children))),
            max((peer.distance.value or 0 for peer in children.all()), default=0),
            len(children),
            1 + len(neighbours.coordinators),
            neighbours.members,
            pack_pairs(children.pairs(step.now, most)),
            pack_distances(locals_),
            pack_distances(coordinators),
        )
        return context.send(step, local_group(context.process), scope, message)

    def _told(self, peers: PeerTable, cursor: str, room: int) -> list[tuple[int, int]]:
        """The next few distances, in turn, so that after some messages all were told."""
        known = sorted((peer.short, value) for peer in peers.all() if (value := peer.distance.value) is not None)
        most = min(_DISTANCES, room)
        if len(known) <= most:
            return known
        start = getattr(self, cursor) % len(known)
        setattr(self, cursor, start + most)
        return (known + known)[start : start + most]

    # ── among coordinators ──

    def to_coordinators(self, step: Step) -> None:
        """Speak in the coordinator group and arrange the next time."""
        context, neighbours = self._context, self._neighbours
        count = 1 + len(neighbours.coordinators)
        size = context.send(
            step,
            COORDINATORS,
            context.settings.scope,
            GlobalControl(
                context.stamp(step),
                context.settings.scope,
                milliseconds(context.global_pace.interval(count)),
                len(neighbours.children),
                count,
                pack_pairs(neighbours.coordinators.pairs(step.now, min(_GLOBAL_PAIRS, context.room // PAIR_BYTES))),
            ),
        )
        context.global_pace.saw(size)
        context.deadlines.set("global", step.now + context.global_pace.next(count, context.randomness))

    def query(self, step: Step, search: RingSearch) -> None:
        message = RingQuery(self._context.stamp(step), search.ttl, search.number, search.homeless)
        self._context.send(step, COORDINATORS, search.ttl, message)
        self._context.deadlines.set("search", step.now + self._context.settings.search_step)

    def leaving(self, step: Step, to: Address, scope: int) -> None:
        self._context.send(step, to, scope, CoordinatorLeave(self._context.stamp(step)))

    def farewell(self, step: Step, home: Home) -> None:
        self._context.send(step, home.peer.address, self._context.settings.scope, Farewell(home.peer.process))

    # ── contributions ──

    def contribute(self, step: Step, home: Home) -> int:
        """Hand everything that this site says to a coordinator, in as many datagrams as it takes."""
        room = self._context.room
        each = max(1, room // _ENTRY_BYTES)
        self._gathering.serial += 1
        parts: list[tuple[Contribution, ...]] = [
            (contribution,) for contribution in as_contributions(self._gathering.own(), each)
        ] or [()]
        if len(parts) > PART_LIMIT:  # a sum without these entries does not match, so nothing moves by it
            step.note(Reason.TOO_MANY_ENTRIES)
            del parts[PART_LIMIT:]
        messages = [
            Contributed(home.peer.process, self._gathering.serial, index, len(parts), part)
            for index, part in enumerate(parts)
        ]
        return self._context.send(step, home.peer.address, self._context.settings.scope, *messages)

    def gather(self, step: Step, speaks: bool, topics: tuple[int, ...] = TOPICS, news: bool = False) -> None:
        """Send the sums of the local group to where each of them is wanted: all, or those that are news."""
        if self._gathering.empty:
            return
        each = max(1, self._context.room // _ENTRY_BYTES)
        for (group, topic, address), entries in self._gathering.gather(topics, speaks, news).items():
            messages: list[HierarchyMessage] = []
            for start in range(0, len(entries), each):
                self._gathering.serial += 1
                part = tuple(entries[start : start + each])
                messages.append(Gathered(topic, self._context.process, self._gathering.serial, part))
            self._context.send_in_group(step, group, Address(address), messages)
