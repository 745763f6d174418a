"""What the parts of the engine share: who this process is, how it speaks, and what it was told to do."""

from __future__ import annotations

from msgspec.structs import replace

from unisono.clock import LamportClock
from unisono.distances import DistanceTable
from unisono.engine import Address, Randomness, multicast_address
from unisono.identity import NO_VIEW, ProcessId, ViewMark
from unisono.intergroup.membership.view import AgreedView
from unisono.intergroup.reasons import Reason
from unisono.reliable.deadlines import Deadlines
from unisono.reliable.step import Step
from unisono.reliable.suppression import Pace
from unisono.sealing import KeyAgreement, Seal
from unisono.settings import Role, Settings
from unisono.wire.layout import group_number
from unisono.wire.membership_messages import Change, SenderLeft
from unisono.wire.messages import ControlMessage, Whereabouts
from unisono.wire.writing import DatagramWriter

REMEMBERED_LIVES = 1024
"""Of so many processes it is remembered that they have another life."""


class Context:
    """One process in one group. The parts change the clock and the deadlines; the engine, the service."""

    __slots__ = (
        "_ended",
        "_measured",
        "_places",
        "agreed",
        "auto",
        "awaits",
        "changing",
        "clock",
        "deadlines",
        "distances",
        "group",
        "held_back",
        "keys",
        "known",
        "may_send",
        "multicast",
        "number",
        "pace",
        "process",
        "randomness",
        "settings",
        "speaks",
        "stable",
        "turns",
        "writer",
    )

    def __init__(
        self,
        group: str,
        realm: str,
        process: ProcessId,
        settings: Settings,
        clock: LamportClock,
        randomness: Randomness,
        seal: Seal,
        keys: KeyAgreement,
    ) -> None:
        self.distances: DistanceTable | None = None
        """What the control hierarchy knows of the way to others."""
        self._measured: dict[ProcessId, int] = {}
        self._places: dict[ProcessId, Whereabouts] = {}
        self.randomness = randomness
        self.pace = Pace(limit=settings.request_limit)
        self.group = group
        self.process = process
        if settings.senders != "all" and process.name not in settings.senders:
            settings = replace(settings, role="receiver")  # it may not send
        self.settings = settings
        self.auto = settings.role == "auto"
        """Whether it is a sender while it has something to send, and a receiver otherwise."""
        self.may_send = settings.role != "receiver"
        """Whether this process is a sender, or may become one."""
        if self.auto:
            self.become("receiver")
        self.speaks = False
        """Whether this process takes part in timestamp order as a sender: it has sent, or others have drawn it in."""
        self.turns = False
        """This process is about to become a sender: it can be followed, and sends nothing."""
        self.stable = 0
        """Everybody who counts has what this process sent up to here."""
        self.known = 0
        """Every sender of the view that counts has it up to here; looked up while this process has said its last."""
        self.held_back = False
        """Nothing is sent now: a view is about to end."""
        self.awaits = False
        """Nothing is sent now: this process has just come, or was stopped, and looks for others."""
        self.changing = False
        """The application wants timestamp order, and has its old service until it is there."""
        self._ended: dict[ProcessId, None] = {}
        self.agreed: AgreedView | None = None
        """The agreed view that this process is in, whatever views its application sees."""
        self.clock = clock
        self.keys = keys
        self.multicast = multicast_address(group)
        self.number = group_number(realm, group)
        self.writer = DatagramWriter(process, self.number, seal, settings.datagram_bytes)
        self.deadlines = Deadlines()

    def become(self, role: Role) -> None:
        """This process is a sender now, or a mere receiver."""
        self.settings = replace(self.settings, role=role)

    @property
    def role(self) -> Role:
        """What this process is now."""
        return "sender" if self.settings.role == "sender" else "receiver"

    def lacks(self, sequence: int, change: Change | None) -> bool:
        """Whether somebody who must have it may lack what this process said of its role: all senders, but for the last
        one, whose word everybody must have."""
        if not isinstance(change, SenderLeft):
            return False
        return sequence > (self.stable if change.final else self.known)

    @property
    def mark(self) -> ViewMark:
        """What stands for the agreed view in everything that is sent."""
        return NO_VIEW if self.agreed is None else self.agreed.mark

    def shares_view(self, process: ProcessId) -> bool:
        """Whether a process is in the same agreed view."""
        return self.agreed is not None and self.agreed.seat(process) is not None

    def is_behind(self, process: ProcessId, view: ViewMark) -> bool:
        """True for a member of this process's agreed view that was heard in a later one."""
        return self.shares_view(process) and view.start > self.mark.start

    def wants(self, name: str) -> bool:
        """Whether the application asked for all messages of a source of that name."""
        settings = self.settings
        if not settings.reliable:
            return False
        chosen = settings.senders if settings.service == "timestamp" else settings.sources
        return chosen == "all" or name in chosen

    def takes_part_with(self, name: str) -> bool:
        """Whether a sender, whatever its application wants, takes part in timestamp order with that name (003 6.4)."""
        return (self.speaks or self.changing) and (self.settings.senders == "all" or name in self.settings.senders)

    def tell(self, step: Step, address: Address, message: ControlMessage) -> None:
        for datagram in self.writer.control([message]):
            step.send(address, datagram, self.settings.scope)

    def broadcast(self, step: Step, messages: list[ControlMessage]) -> None:
        for datagram in self.writer.control(messages):
            step.send(self.multicast, datagram, self.settings.scope)

    def believes(self, step: Step, timestamp: int) -> bool:
        """Follow a peer's clock, unless it is too far ahead to be true; then nothing it says is taken in."""
        if self.clock.observe(timestamp, step.now, step.wall):
            return True
        step.note(Reason.CLOCK_AHEAD)
        step.mark("clock-held")
        return False

    @property
    def whereabouts(self) -> Whereabouts | None:
        """Where this process stands in the control hierarchy, once it is known."""
        return None if self.distances is None else self.distances.whereabouts

    def locate(self, peer: ProcessId, whereabouts: Whereabouts | None) -> None:
        """A peer says where it stands."""
        if whereabouts is not None:
            self._places[peer] = whereabouts

    def measure(self, peer: ProcessId, round_trip: int) -> None:
        """An answer took this long: half of it is a distance, until the hierarchy knows better."""
        self._measured[peer] = round_trip // 2

    def distance(self, peer: ProcessId) -> int | None:
        """One way to a peer, in nanoseconds, or None while nobody knows."""
        place = self._places.get(peer)
        distance = None if place is None or self.distances is None else self.distances.distance(place)
        return self._measured.get(peer) if distance is None else distance

    def forget(self, peer: ProcessId) -> None:
        self._places.pop(peer, None)
        self._measured.pop(peer, None)

    def end_life(self, earlier: ProcessId) -> None:
        """A process was heard in a later life."""
        self._ended[earlier] = None
        while len(self._ended) > REMEMBERED_LIVES:
            del self._ended[next(iter(self._ended))]

    def has_restarted(self, process: ProcessId) -> bool:
        return process in self._ended

    def spread(self, interval: int) -> int:
        """Between one and two intervals: members that act on the same packet do not act at the same instant."""
        return interval + int(interval * self.randomness.random())
