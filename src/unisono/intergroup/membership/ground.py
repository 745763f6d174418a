"""The streams of one process in one group, as membership repair needs them."""

from __future__ import annotations

from unisono.engine import Address
from unisono.events import Excluded, ViewReason
from unisono.identity import NO_VIEW, ProcessId, ViewMark
from unisono.intergroup.context import Context
from unisono.intergroup.following import Following
from unisono.intergroup.membership.contract import Standpoint
from unisono.intergroup.membership.cuts import ReceiversCuts
from unisono.intergroup.membership.view import AgreedView
from unisono.intergroup.membership.waiting import Waiting
from unisono.intergroup.repairing import Repairing
from unisono.intergroup.sending import Sending
from unisono.intergroup.speaking import Speaking
from unisono.reliable.step import Step
from unisono.trace.schema import MembershipRow
from unisono.wire.membership_messages import NewView, Origin, Seat, SenderLeft, UpTo


class StreamGround:
    """Halts, fetches and installs."""

    __slots__ = ("_context", "_following", "_repairing", "_sending", "_speaking", "cuts", "waiting")

    def __init__(
        self, context: Context, sending: Sending, following: Following, repairing: Repairing, speaking: Speaking
    ) -> None:
        self._context = context
        self._sending = sending
        self._following = following
        self._repairing = repairing
        self._speaking = speaking
        self.cuts = ReceiversCuts(speaking.audience)
        self.waiting = Waiting()

    def follows(self, source: ProcessId) -> bool:
        stream = self._following.streams.get(source)
        presented = self._following.ordered is not None and stream is not None and stream.in_view
        if presented and not self._context.shares_view(source):
            return False  # the application has yet to see it go
        if self._following.ordered is not None and self._following.ordered.lags:
            return self._context.shares_view(source) and self._following.follows(source)
        return self._following.follows(source)

    def may_merge(self, stranger: ProcessId) -> bool:
        stream = self._following.streams.get(stranger)
        if (
            stream is None
            or not self.follows(stranger)
            or self._following.is_entering(stranger)
            or stream.last_mark == self._context.mark
        ):
            return False  # who is in the same era comes by the order of messages
        return stream.last_mark == NO_VIEW or self._speaking.audience.get(stranger) is not None

    def receivers_silent(self, step: Step, view: AgreedView) -> bool:
        return self.cuts.wait_for_more(view, step.now)

    def halt(self, step: Step, view: AgreedView, alone: bool = False) -> Standpoint:
        self._context.held_back = True
        self._sending.rewind()
        if self._following.ordered is not None:
            self._following.ordered.halted = True
        held = {seat.process: self._held(seat, view) for seat in view.seats if seat.process != self._context.process}
        held |= {one.seat.process: one.last for one in view.gone}
        for said in self._following.said:  # where this process delivers in no order
            in_era = said.timestamp > view.era.start
            if in_era and said.source in held and isinstance(said.change, SenderLeft):
                held[said.source] = min(held[said.source], said.sequence)
        for source, last in () if alone else sorted(self.cuts.held(view, step.now).items()):
            if source in held:
                held[source] = max(held[source], last)
        points = tuple(UpTo(source, last) for source, last in sorted(held.items()))
        return Standpoint(self._sending.last_sequence, self._sending.last_number + 1, points)

    def resume(self, step: Step) -> None:
        self._context.held_back = False
        self._repairing.spared.clear()
        self._following.take_room_back()
        self._following.go_on(step)

    def recover(self, step: Step, origin: Origin, seats: tuple[Seat, ...]) -> None:
        for source, last in origin.cut:
            if source not in origin.entrants:
                self._repairing.spared.add(source)
            self._following.make_room(source)
            self._following.fetch(step, source, last)

    def lacking(self, origin: Origin, seats: tuple[Seat, ...]) -> tuple[UpTo, ...]:
        itself, streams, ordered = self._context.process, self._following.streams, self._following.ordered
        lacking: list[UpTo] = []
        for source, last in origin.cut:
            stream = streams.get(source)
            if source == itself:
                continue
            if stream is not None and stream.window.contiguous < last:
                lacking.append(UpTo(source, stream.window.contiguous + 1))
            elif ordered is not None and (first := ordered.first_lacking(source, last)) is not None:
                lacking.append(UpTo(source, first))  # it became a sender, and is not followed here
        together = set(origin.entrants)
        for seat in seats:
            stream = streams.get(seat.process)
            if seat.process not in together and (stream is None or stream.window.next > seat.sequence):
                lacking.append(UpTo(seat.process, seat.sequence))
        return tuple(lacking)

    def may_come(self, source: ProcessId) -> bool:
        return self._following.follows(source)

    def still_lacks(self, source: ProcessId, sequence: int) -> bool:
        stream = self._following.streams.get(source)
        return stream is None or stream.ending is not None or stream.lacks(sequence)

    def misses(self, source: ProcessId, now: int) -> int | None:
        overdue = self.waiting.overdue(self._context.settings.patience // 2, now)
        return overdue.sequence if overdue is not None and overdue.source == source and overdue.exists else None

    def bring(self, step: Step, source: ProcessId, sequence: int, address: Address) -> None:
        self._repairing.bring(step, source, sequence, address)

    def delivered(self, source: ProcessId) -> int:
        ordered = self._following.ordered
        return 0 if ordered is None else ordered.delivered(source)

    def tell(self, step: Step, event: Excluded) -> None:
        if self._following.ordered is not None:
            step.deliver(event)

    def install(self, step: Step, message: NewView, origin: Origin | None, reason: ViewReason) -> None:
        members = {seat.process for seat in message.seats}
        self._context.believes(step, message.view.start)
        before, left = self._context.agreed, self._context.mark
        receiving = set() if before is None else {one.seat.process for one in before.gone}
        self._context.agreed = AgreedView.of(message)
        if step.tracing:
            leader = message.view.leader
            step.statistic("MC", view=str(message.view), members=len(members), leader=leader.name)
        self._repairing.spared.clear()
        self.cuts.clear()
        self._following.agree(step, message, origin, reason)
        self._following.take_room_back()
        if self._following.ordered is None:
            step.record(MembershipRow(kind="AGREED", reason=str(message.view), sequence=len(members)))
        self._context.held_back = False
        for source, _ in () if origin is None else origin.cut:
            if source not in members and source not in receiving:
                self._release(step, source, left)
        self._speaking.keep_alive(step)

    def _release(self, step: Step, source: ProcessId, left: ViewMark) -> None:
        """Who is no longer in the view and received in it counts no longer, unless it has asked anew since.

        Who said that it only receives goes on doing so.
        """
        listener = self._speaking.audience.get(source)
        if listener is not None and listener.sends and listener.ordered and listener.view.start <= left.start:
            peer, reason = source, "not in the view"
            step.record(MembershipRow(kind="SUSPECT", peer=peer.name, peer_incarnation=peer.incarnation, reason=reason))
            self._speaking.drop(step, source)

    def _held(self, seat: Seat, view: AgreedView) -> int:
        stream = self._following.streams.get(seat.process)
        return seat.sequence - 1 if stream is None else stream.held(view.mark, seat.sequence)
