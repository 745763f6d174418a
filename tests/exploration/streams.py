"""The streams of one member, as small as membership repair can stand on: who holds what, and what is delivered.

A message is its source, its sequence and the mark of the view it was sent in. It is delivered as soon as it is here and
all before it are, unless the member is halted: that is earlier than in timestamp order, and so harder for the end of a
view. What lacks up to a cut comes when some live member that holds it is asked: the explorer decides when.
"""

from __future__ import annotations

from typing import NamedTuple

from unisono.engine import Address
from unisono.events import Excluded, ViewReason
from unisono.identity import ProcessId, ViewId, ViewMark
from unisono.intergroup.context import Context
from unisono.intergroup.membership.contract import Standpoint
from unisono.intergroup.membership.view import AgreedView
from unisono.reliable.step import Step
from unisono.wire.membership_messages import NewView, Origin, Seat, UpTo
from unisono.wire.messages import KeepAlive


class Transition(NamedTuple):
    """A view that came to stand at one member, and how the view before it ended there."""

    view: ViewId
    previous: ViewId | None
    seats: tuple[Seat, ...]
    origins: tuple[Origin, ...]
    transitional: tuple[ProcessId, ...]
    primary: bool | None
    delivered: tuple[tuple[ProcessId, int], ...]
    """In the view before, in sorted order."""
    lacking: tuple[UpTo, ...]
    """What belongs to the view before and was not here: nothing, where all is well."""

    @property
    def members(self) -> tuple[ProcessId, ...]:
        return tuple(seat.process for seat in self.seats)


class Streams:
    """What `MembershipRepair` asks of its ground, over messages that are only numbers."""

    __slots__ = ("_context", "_next", "delivered_here", "halted", "log", "transitions", "wanted")

    def __init__(self, context: Context) -> None:
        self._context = context
        self.log: dict[ProcessId, dict[int, ViewMark]] = {context.process: {}}
        """The messages that are here, the own ones among them."""
        self._next: dict[ProcessId, int] = {}
        """Of each member of the view, the sequence that is delivered next."""
        self.delivered_here: set[tuple[ProcessId, int]] = set()
        """In the current view."""
        self.wanted: dict[ProcessId, int] = {}
        self.transitions: list[Transition] = []
        self.halted = False

    @property
    def last_sequence(self) -> int:
        return len(self.log[self._context.process])

    last_number = last_sequence

    # What happens to the streams

    def send(self) -> tuple[int, ViewMark]:
        """The application sends: its message is delivered here at once."""
        sequence = self.last_sequence + 1
        self.take(self._context.process, sequence, self._context.mark)
        return sequence, self._context.mark

    def take(self, source: ProcessId, sequence: int, mark: ViewMark) -> None:
        """A message is here, by itself or by repair."""
        self.log.setdefault(source, {})[sequence] = mark
        if not self.halted:
            self._deliver()

    def missing(self, source: ProcessId) -> int:
        """The first sequence of a source, from its start in the view on, that is not here."""
        sequence = self._next.get(source, 1)
        while sequence in self.log.get(source, {}):
            sequence += 1
        return sequence

    def keep_alive(self, step: Step) -> None:
        context = self._context
        alive = KeepAlive(self.last_sequence, context.clock.last, 0, 0, 0, False, False, None, context.mark)
        context.broadcast(step, [alive])

    # What membership repair asks

    def follows(self, source: ProcessId) -> bool:
        return True

    def may_merge(self, stranger: ProcessId) -> bool:
        return True

    def receivers_silent(self, step: Step, view: AgreedView) -> bool:
        return False

    def halt(self, step: Step, view: AgreedView, alone: bool = False) -> Standpoint:
        self._context.held_back = True
        self.halted = True
        itself = self._context.process
        held = [UpTo(seat.process, self._held(seat, view)) for seat in view.seats if seat.process != itself]
        return Standpoint(self.last_sequence, self.last_sequence + 1, tuple(held))

    def resume(self, step: Step) -> None:
        self._context.held_back = False
        self.halted = False
        self.wanted = {}
        self._deliver()

    def recover(self, step: Step, origin: Origin, seats: tuple[Seat, ...]) -> None:
        self.wanted = {source: last for source, last in origin.cut if self.missing(source) <= last}

    def lacking(self, origin: Origin, seats: tuple[Seat, ...]) -> tuple[UpTo, ...]:
        firsts = [(UpTo(source, self.missing(source)), last) for source, last in origin.cut]
        return tuple(first for first, last in firsts if first.sequence <= last)

    def may_come(self, source: ProcessId) -> bool:
        return True

    def still_lacks(self, source: ProcessId, sequence: int) -> bool:
        return self.missing(source) <= sequence

    def misses(self, source: ProcessId, now: int) -> int | None:
        return None

    def bring(self, step: Step, source: ProcessId, sequence: int, address: Address) -> None:
        """Messages that are lost here are lost for all."""

    def delivered(self, source: ProcessId) -> int:
        return self._next[source] - 1 if source in self._next else 0

    def tell(self, step: Step, event: Excluded) -> None:
        step.deliver(event)

    def install(self, step: Step, message: NewView, origin: Origin | None, reason: ViewReason) -> None:
        cut = () if origin is None else origin.cut
        lacking = () if origin is None else self.lacking(origin, message.seats)
        for source, last in cut:
            while self._next.get(source, last + 1) <= last:
                self._advance(source)
        context = self._context
        context.believes(step, message.view.start)
        previous = None if context.agreed is None else context.agreed.id
        together = (context.process,) if origin is None else origin.entrants
        members = {seat.process for seat in message.seats}
        self.transitions.append(
            Transition(
                message.view,
                previous,
                message.seats,
                message.origins,
                tuple(process for process in together if process in members),
                AgreedView.of(message).primary,
                tuple(sorted(self.delivered_here)),
                lacking,
            )
        )
        context.agreed = AgreedView.of(message)
        self.delivered_here = set()
        self._next = {seat.process: seat.sequence for seat in message.seats}
        self.wanted = {}
        self.halted = False
        context.held_back = False
        self._deliver()
        self.keep_alive(step)

    def _held(self, seat: Seat, view: AgreedView) -> int:
        last = seat.sequence - 1
        log = self.log.get(seat.process, {})
        while log.get(last + 1) == view.mark:
            last += 1
        return last

    def _deliver(self) -> None:
        """Deliver what was sent in this view, pass over what is of earlier ones, wait before what is of later ones."""
        mark = self._context.mark
        for source in sorted(self._next):
            log = self.log.get(source, {})
            while (found := log.get(self._next[source])) is not None and found.start <= mark.start:
                self._advance(source)

    def _advance(self, source: ProcessId) -> None:
        sequence = self._next[source]
        if self.log.get(source, {}).get(sequence) == self._context.mark:
            self.delivered_here.add((source, sequence))
        self._next[source] = sequence + 1
