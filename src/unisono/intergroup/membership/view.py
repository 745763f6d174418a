"""An agreed view, and what it is made of when the recovery information of all its members is in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from unisono.identity import ProcessId, StartPoint, ViewId, ViewMark
from unisono.intergroup.membership.agreement import Proposal
from unisono.wire.membership_messages import Change, NewView, Origin, RecoveryInfo, Seat, SenderAdded, UpTo


class Gone(NamedTuple):
    """Who was a sender in an era and became a receiver, with its last message."""

    seat: Seat
    last: int


class Said(NamedTuple):
    """A member's word of who sends, its place in the order, and the era that it was said in."""

    timestamp: int
    source: ProcessId
    sequence: int
    change: Change
    mark: ViewMark


class AgreedView(Struct, frozen=True):
    """A view as its members have it: who is in it and where each of them starts.

    A view is agreed by repair, and then begins an era; or follows another one of its era, at a place in the order of
    messages where somebody became a sender or a receiver. What is sent in an era is delivered in it.
    """

    id: ViewId
    era: ViewId
    mark: ViewMark
    """Of the era."""
    seats: tuple[Seat, ...]
    gone: tuple[Gone, ...]
    """Who was a sender in this era and is not any more."""
    message: NewView
    """As it was said when the era began, for who missed that."""

    @classmethod
    def of(cls, message: NewView) -> AgreedView:
        return cls(message.view, message.era, message.era.mark, message.seats, (), message)

    @property
    def told(self) -> NewView:
        """The view as it is said to who comes into it now."""
        return replace(self.message, view=self.id, seats=self.seats)

    def after(self, said: Said) -> AgreedView | None:
        """The view that follows when somebody becomes a sender or a receiver; None if that changes nothing.

        Two sponsors may add one process, and the second comes too late; the last sender stays, unless it says that
        nobody sends any more.
        """
        view = max(self.id, ViewId(said.timestamp, said.source, said.sequence))
        if isinstance(said.change, SenderAdded):
            return self._with(view, said.change.seat)
        return self._without(view, said.source, said.sequence, said.change.final)

    def _with(self, view: ViewId, seat: Seat) -> AgreedView | None:
        if self.seat(seat.process) is not None:
            return None
        if any(one.seat.process == seat.process and one.last >= seat.sequence for one in self.gone):
            return None
        gone = tuple(one for one in self.gone if one.seat.process != seat.process)
        return replace(self, id=view, seats=tuple(sorted((*self.seats, seat))), gone=gone)

    def _without(self, view: ViewId, process: ProcessId, last: int, final: bool) -> AgreedView | None:
        seat = self.seat(process)
        if seat is None or (len(self.seats) == 1 and not final):
            return None
        seats = tuple(one for one in self.seats if one != seat)
        return replace(self, id=view, seats=seats, gone=(*self.gone, Gone(seat, last)))

    @property
    def members(self) -> tuple[ProcessId, ...]:
        return tuple(seat.process for seat in self.seats)

    @property
    def start(self) -> tuple[StartPoint, ...]:
        return tuple(StartPoint(seat.process, seat.sequence, seat.number) for seat in self.seats)

    @property
    def primary(self) -> bool | None:
        """Whether this is the primary component: more than half of those who agreed on it are left."""
        return None if self.message.electors is None else majority(set(self.members), self.message.electors)

    def gone_at(self, process: ProcessId) -> int | None:
        """The last message of who was a sender in this era and is not any more."""
        return next((one.last for one in self.gone if one.seat.process == process), None)

    def seat(self, process: ProcessId) -> Seat | None:
        return next((seat for seat in self.seats if seat.process == process), None)


def majority(members: set[ProcessId], of: Collection[ProcessId]) -> bool:
    """Whether these are more than half of those."""
    return 2 * len(members.intersection(of)) > len(of)


def start_time(infos: Mapping[ProcessId, RecoveryInfo]) -> int:
    """When the next view starts: nothing of the views before it is later."""
    return max(info.timestamp for info in infos.values())


def seats(proposal: Proposal, infos: Mapping[ProcessId, RecoveryInfo]) -> tuple[Seat, ...]:
    """Where each member starts: after all that it sent before."""
    return tuple(
        Seat(process, attempt, infos[process].sent + 1, infos[process].number) for process, attempt in proposal.members
    )


def origins(infos: Mapping[ProcessId, RecoveryInfo]) -> tuple[Origin, ...]:
    """The views that the members come from, and where each ends.

    Of those who go on together, a view has all that they sent in it; of the others, as much as anybody holds.
    """
    views = sorted({info.view for info in infos.values()})
    return tuple(_origin(view, infos) for view in views)


def _origin(view: ViewId, infos: Mapping[ProcessId, RecoveryInfo]) -> Origin:
    entrants = sorted(process for process, info in infos.items() if info.view == view)
    cut: dict[ProcessId, int] = {}
    for entrant in entrants:
        for source, sequence in infos[entrant].held:
            cut[source] = max(cut.get(source, 0), sequence)
    for entrant in entrants:
        cut[entrant] = infos[entrant].sent
    last = max(infos[entrant].last for entrant in entrants)
    return Origin(view, last, tuple(entrants), tuple(UpTo(source, last) for source, last in sorted(cut.items())))
