"""An agreed view, and what it is made of when the recovery information of all its members is in."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from unisono.identity import ProcessId, StartPoint, ViewId, ViewMark
from unisono.intergroup.membership.agreement import Proposal
from unisono.wire.membership_messages import NewView, Origin, RecoveryInfo, Seat, UpTo


class AgreedView(Struct, frozen=True):
    """A view as its members have it: who is in it and where each of them starts."""

    id: ViewId
    mark: ViewMark
    seats: tuple[Seat, ...]
    message: NewView
    """As it was said when it came to stand, for who missed that."""

    @classmethod
    def of(cls, message: NewView) -> AgreedView:
        return cls(message.view, message.view.mark, message.seats, message)

    @property
    def members(self) -> tuple[ProcessId, ...]:
        return tuple(seat.process for seat in self.seats)

    @property
    def start(self) -> tuple[StartPoint, ...]:
        return tuple(StartPoint(seat.process, seat.sequence, seat.number) for seat in self.seats)

    def seat(self, process: ProcessId) -> Seat | None:
        return next((seat for seat in self.seats if seat.process == process), None)


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
    return Origin(view, tuple(entrants), tuple(UpTo(source, last) for source, last in sorted(cut.items())))
