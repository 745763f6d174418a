"""Whom a control process knows: its coordinator, its children, those beside it, and the other coordinators."""

from __future__ import annotations

from unisono.distances import DistanceTable
from unisono.identity import ProcessId
from unisono.intergroup.hierarchy.determination import Surroundings
from unisono.intergroup.hierarchy.home import Home
from unisono.intergroup.hierarchy.peers import PeerTable
from unisono.units import MICROSECOND
from unisono.wire.control_messages import short_id
from unisono.wire.messages import Whereabouts

CHILDREN_LIMIT = 512
SIBLINGS_LIMIT = 512
COORDINATORS_LIMIT = 1024


class Neighbourhood:
    """`current` is the coordinator of a child; `moving` the one it goes over to, until that one has shown that it
    counts this child. In between it reports to both (erratum E7)."""

    __slots__ = ("_process", "_short", "announced", "children", "coordinators", "current", "moving", "siblings")

    def __init__(self, process: ProcessId) -> None:
        self._process = process
        self._short = short_id(process)
        self.children = PeerTable(CHILDREN_LIMIT)
        self.siblings = PeerTable(SIBLINGS_LIMIT)
        self.coordinators = PeerTable(COORDINATORS_LIMIT)
        self.current: Home | None = None
        self.moving: Home | None = None
        self.announced = 0
        """The most coordinators that one message spoke of, while this process listens."""

    def homes(self) -> list[Home]:
        return [home for home in (self.current, self.moving) if home is not None]

    def home_of(self, process: ProcessId) -> Home | None:
        return next((home for home in self.homes() if home.peer.process == process), None)

    @property
    def members(self) -> int:
        """How many control processes there are, as far as a coordinator knows."""
        return 1 + len(self.children) + sum(1 + peer.local_count for peer in self.coordinators.all())

    def seen_by_coordinator(self) -> Surroundings:
        known = [peer.distance.value for peer in self.coordinators.all() if peer.distance.value is not None]
        return Surroundings(len(self.coordinators) + 1, len(self.children), self.members, min(known, default=None))

    def seen_by_child(self) -> Surroundings | None:
        """None while the coordinator has said nothing yet."""
        home = self.current
        if home is None or not home.coordinator_count:
            return None
        apart = [distance for _, distance in home.coordinators()]
        return Surroundings(
            home.coordinator_count,
            home.local_count,
            home.members,
            home.peer.distance.value,
            home.peer.hops,
            sum(apart) // len(apart) if apart else None,
        )

    def whereabouts(self) -> Whereabouts:
        """Where this process stands: under its coordinator, or alone."""
        if self.current is None:
            return Whereabouts(self._short, self._short, 0)
        home = self.current.peer
        return Whereabouts(self._short, home.short, (home.distance.value or 0) * MICROSECOND)

    def table(self) -> DistanceTable:
        """All that is known of distances. A child has its siblings through its coordinator, unless it measured them."""
        if self.current is None:
            here = {peer.short: value for peer in self.children.all() if (value := peer.distance.value) is not None}
            there = {
                peer.short: value for peer in self.coordinators.all() if (value := peer.distance.value) is not None
            }
            return DistanceTable(self._process, self._process, 0, here, there)
        home = self.current.peer
        leg = home.distance.value or 0
        here = {short: leg + distance for short, distance in self.current.locals()}
        here.update((peer.short, value) for peer in self.siblings.all() if (value := peer.distance.value) is not None)
        here[home.short] = leg
        return DistanceTable(self._process, home.process, leg, here, dict(self.current.coordinators()))

    def forgive(self, pause: int) -> None:
        """This process was stopped: nobody is to blame for what it did not hear."""
        for table in (self.children, self.siblings, self.coordinators):
            table.forgive(pause)
        for home in self.homes():
            home.peer.heard += pause
            home.since += pause
