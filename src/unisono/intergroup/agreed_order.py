"""Reliable timestamp order (000 4.8, 003 6.3): of all members of the agreed view the lowest key is next.

A message is delivered in the view that it was sent in, and in no other. When the next view is agreed, what belongs
before it is delivered, up to the cut of every source, and then it stands. What comes of senders in other views is
dropped, unless they are about to be in the next one.

Between repairs, who sends changes at places in this order itself (000 5.3): a sponsor's word makes somebody a sender,
its own word makes it a receiver, and all who deliver that word go on in the same view.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from unisono.events import View, ViewReason
from unisono.identity import ProcessId, StartPoint
from unisono.intergroup.context import Context
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.membership.view import AgreedView, Said
from unisono.intergroup.membership.waiting import Awaited
from unisono.intergroup.presenting import BySource
from unisono.intergroup.reasons import Reason
from unisono.intergroup.sending import OwnMessage, Sending
from unisono.intergroup.stream import Stream
from unisono.intergroup.timestamp_order import TimestampOrder
from unisono.reliable.fragments import TooLarge
from unisono.reliable.step import Step
from unisono.wire.membership_messages import NewView, Origin, Seat, SenderAdded, SenderLeft, read_change
from unisono.wire.messages import CHANGE, LEAVE, DataPacket

MET_LIMIT = 4096
"""Of so many processes it is remembered that they were in a view with this one."""
WAITING_VIEWS = 16
"""While so many views wait for the application, no more strangers come into one with it."""


class Transition(Struct, frozen=True):
    """An agreed view that is to stand, and where the one before it ends."""

    message: NewView
    origin: Origin | None
    view: AgreedView
    cut: dict[ProcessId, int]
    reason: ViewReason


class ByTimestamp(BySource):
    """Delivers the streams of the members of one agreed view after another."""

    __slots__ = (
        "_met",
        "_order",
        "_own_place",
        "_pending",
        "_view",
        "awaited",
        "changed",
        "expects",
        "halted",
        "let_go",
        "stays",
        "unable",
    )

    def __init__(self, context: Context, sending: Sending, delivery: Delivery, streams: dict[ProcessId, Stream]):
        super().__init__(context, sending, delivery, streams)
        self._order = TimestampOrder()
        self._pending: deque[Transition] = deque()
        self._view: AgreedView | None = None
        self._own_place: StartPoint | None = None
        """After the last whole message of this process in this order: what it began and gave up is nobody's start."""
        self._met: dict[ProcessId, None] = {}
        """Who was in a view with this process, and has had no other life since."""
        self.awaited: dict[ProcessId, Seat] = {}
        """Who became a sender and is not followed yet: everything waits for it."""
        self.changed: list[AgreedView] = []
        """The views that came to stand by the order, for whoever agrees on views."""
        self.stays = False
        """This process said that it only receives, and is the last sender."""
        self.let_go = False
        """Others have acted on the last word of this process, which need not wait for all to have it."""
        self.halted = False
        """The end of the view is being agreed: nothing is delivered, and nothing that comes is dropped."""
        self.expects = False
        """The view may end soon: nothing that comes is dropped, as it may belong to the next one."""
        self.unable: tuple[ProcessId, ViewReason] | None = None
        """A source whose messages cannot be delivered here any more, and why."""

    @property
    def may_send(self) -> bool:
        """Not before there is a view to send in, and not while the application waits for another one."""
        return self._view is not None and not self._pending

    @property
    def stands(self) -> bool:
        """Whether the application is in the last view that was agreed, and all its members are followed."""
        return self._view is not None and not self._pending and not self.awaited

    @property
    def presented(self) -> AgreedView | None:
        """The view that the application is in."""
        return self._view

    @property
    def last_view(self) -> AgreedView | None:
        """The view that the application is in, or will be in when it has taken what is before it."""
        return self._pending[-1].view if self._pending else self._view

    @property
    def waiting_views(self) -> int:
        """How many views wait for the application."""
        return len(self._pending)

    @property
    def lags(self) -> bool:
        """Whether so many views wait for the application that it had better take some before it gets more."""
        return len(self._pending) >= WAITING_VIEWS

    @property
    def reached(self) -> int:
        """Whatever is still to be delivered has a later timestamp, or this one where it is the next message's."""
        if self._view is None:
            return 0
        own = self._delivery.oldest_own
        first = self._order.first()
        now = self._context.clock.last if own is None else own.timestamp
        return now if first is None else min(now, first[0][0])

    def begin(self, step: Step, reason: ViewReason) -> None:
        """The first view comes from the membership."""

    def enter(self, step: Step, view: AgreedView, start: Sequence[StartPoint], reason: ViewReason) -> None:
        """Come into the middle of a view that stands, from these points on."""
        message, itself = view.message, self._context.process
        sends, follows = view.seat(itself) is not None, view.id != view.era
        start = sorted([*start, self.own_start] if sends else start)
        self._present(step, view, start)
        self._meet(view.members)
        event = View(
            view.id,
            None,
            view.members,
            tuple(start),
            tuple((process, reason) for process in view.members),
            transitional=(),
            merged=() if follows else tuple(origin.view for origin in message.origins),
            suspects=() if follows else tuple(message.suspects),
            role="sender" if sends else "receiver",
            whole=not sends and tuple(start) == view.start,
            primary=view.primary,
            era=view.era if follows else None,
        )
        self.changed.append(view)
        self._delivery.enter(step, event)
        self._pump(step)

    def add(self, step: Step, stream: Stream) -> None:
        """A source was activated; it brings nothing before it is in the view."""
        seat = self.awaited.pop(stream.source, None)
        if seat is not None:
            assert self._view is not None
            self._seat(stream, seat, self._view.id.start)
            self._pump(step)

    def delivered(self, source: ProcessId) -> int:
        """The last sequence of a member that was delivered, or passed over."""
        stream = self._streams.get(source)
        if stream is not None and stream.in_view:
            return stream.window.next - 1
        return 0 if self._view is None else self._view.gone_at(source) or 0

    def goes_beyond(self, origin: Origin) -> bool:
        """Whether more was delivered, or sent by this process, than belongs to a view that ends there."""
        if self._view is not None and self._view.id > origin.last:
            return True
        itself = self._context.process
        return any(
            self.delivered(source) > last or (source == itself and self._sending.last_sequence > last)
            for source, last in origin.cut
        )

    @property
    def unsettled(self) -> bool:
        """Whether somebody may know of a view, or of who sends, what is waited for here."""
        return self.halted or self.expects or bool(self.awaited)

    @property
    def waits_for(self) -> Awaited | None:
        """Whose next message or time everything waits for, where nothing else holds the order up."""
        if self._view is None or self.halted or self._pending or not self._delivery.has_room:
            return None
        if self.awaited:
            seat = min(self.awaited.values())
            return Awaited(seat.process, seat.sequence, 0, exists=True)
        first = self._order.first()
        if first is None or not first[0][1] or self._own_is_next(first):
            return None
        stream = first[1]
        return Awaited(stream.source, stream.window.next, stream.reached, stream.window.next <= stream.window.highest)

    @property
    def holds_any(self) -> bool:
        """Whether messages of the view are here that wait for their turn."""
        return any(stream.in_view and stream.window.waiting for stream in self._streams.values())

    def first_lacking(self, source: ProcessId, last: int) -> int | None:
        """The first message up to that one that will not come of a source, as it is not followed; None if none is
        needed: it is not a sender that far, or has gone in this order already."""
        seat = self.awaited.get(source)
        if seat is None and source not in self._streams:
            seat = self._seat_to_come(source)
        return None if seat is None or last < seat.sequence else seat.sequence

    def _seat_to_come(self, source: ProcessId) -> Seat | None:
        """Where a source begins that becomes a sender later in this order, as far as that has come."""
        words = [
            message.payload
            for stream in self._streams.values()
            for message in (stream.window.ready if stream.in_view else ())
            if message.flags & CHANGE
        ]
        for change in (*self._delivery.own_changes, *map(read_change, words)):
            if isinstance(change, SenderAdded) and change.seat.process == source:
                return change.seat
        return None

    def pass_through(self, step: Step, stream: Stream, packet: DataPacket) -> bool:
        return (stream.silent or self._drops(stream)) and stream.pass_through(packet.messages)

    def on_news(self, step: Step, stream: Stream) -> None:
        if stream.silent:
            super().on_news(step, stream)
        elif stream.in_view:
            self._refresh(stream)
            self._pump(step)
        elif stream.ending is not None:
            if (self.halted or self._pending) and self._seat_to_come(stream.source) is not None:
                return  # what it sent before the view ends is delivered all the same
            if all(over is not stream for over, _ in self.over):
                self.over.append((stream, stream.ending))
        elif self._drops(stream):
            self._pass_over(step, stream)

    def own_messages(self, step: Step, messages: Sequence[OwnMessage]) -> None:
        if self._context.wants(self._context.process.name):
            self._delivery.queue_own(messages)
            self._pump(step)

    def resume(self, step: Step) -> bool:
        stalled, self._stalled = self._stalled, False
        if stalled:
            self._pump(step)
        return stalled

    def go_on(self, step: Step) -> None:
        """The view does not end yet."""
        self.halted = self.expects = False
        for _, stream in sorted(self._streams.items()):
            if stream.in_view:
                self._refresh(stream)
            else:
                self.on_news(step, stream)
        self._pump(step)

    def go_on_with_own(self, step: Step) -> None:
        """A farewell of this process may have become stable."""
        own = self._delivery.oldest_own
        if own is not None and isinstance(own.change, SenderLeft):
            self._pump(step)

    def agree(self, step: Step, message: NewView, origin: Origin | None, reason: ViewReason) -> None:
        """A view is agreed: it stands when everything before it is delivered."""
        cut = {} if origin is None else dict(origin.cut)
        self.halted = self.expects = self.let_go = False
        self._pending.append(Transition(message, origin, AgreedView.of(message), cut, reason))
        if len(self._pending) == 1:
            self._apply_cut()
        self._pump(step)

    def _drops(self, stream: Stream) -> bool:
        """Whether what comes of a stranger is of no use: it will not be a member before it says where it starts."""
        if self.halted or self.expects or stream.in_view:
            return False
        view = self._view
        if view is not None and (not view.seats or stream.last_mark == view.mark):
            return False  # nobody sends, and it may begin the next era; or it is about to be a sender in this one
        return all(transition.view.seat(stream.source) is None for transition in self._pending)

    def _pass_over(self, step: Step, stream: Stream) -> None:
        """Take what is of no use here. Parts of a message are kept: source order may take over in the middle of it.

        Who says that it only receives forgets who followed it, and is followed anew when it speaks again.
        """
        while (message := stream.next_message()) is not None:
            if message.flags & CHANGE and isinstance(read_change(message.payload), SenderLeft):
                stream.farewell = message.sequence
                self._let_go(step, stream, ViewReason.ONLY_RECEIVES)
                return
            try:
                stream.whole(message)
            except TooLarge:
                self._let_go(step, stream, ViewReason.TOO_LARGE)
                return

    def _refresh(self, stream: Stream) -> None:
        """A stream has news: pass over what belongs to an earlier view, and see whether its source has moved on."""
        view = self._view
        assert view is not None, "a stream is in a view"
        head = stream.window.head
        while head is not None and (mark := stream.mark_of(head.sequence)) != view.mark:
            if mark.start > view.mark.start:
                if self._receives and not self._pending:
                    self.halted = True
                else:
                    stream.closed = True
                break
            stream.next_message()
            head = stream.window.head
        self._order.refresh(stream)

    @property
    def _receives(self) -> bool:
        """A mere receiver follows the senders from view to view, and waits when one has gone ahead."""
        return self._context.role == "receiver"

    def _pump(self, step: Step) -> None:
        """Deliver what is next, again and again."""
        while (self._pending or not self.halted) and self._delivery.has_room and self.unable is None:
            if self.awaited:
                return
            first = self._order.first()
            if self._own_is_next(first):
                if not self._hand_own(step):
                    return
            elif (first is None or not self._advance(step, *first)) and not self._present_next(step):
                return
        first = self._order.first()
        waits = bool(self._pending) or (first is not None and not first[0][1]) or self._own_is_next(first)
        if waits and not self._delivery.has_room:
            self._stalled = True
            step.mark("application-full")

    def _hand_own(self, step: Step) -> bool:
        """The next message is this process's own; False when it is a last word that another sender may still lack."""
        own = self._delivery.oldest_own
        assert own is not None
        if not self._pending and not self.let_go and self._context.lacks(own.sequence, own.change):
            return False
        self._delivery.hand_own(step)
        if self._own_place is not None:
            number = own.number + 1 if own.change is None else self._own_place.number
            self._own_place = StartPoint(self._context.process, own.sequence + 1, number)
        if own.change is not None:
            assert self._view is not None, "messages are delivered in a view"
            said = Said(own.timestamp, self._context.process, own.sequence, own.change, self._view.mark)
            self._change(step, said)
        return True

    def _own_is_next(self, first: tuple[tuple[int, int, ProcessId], Stream] | None) -> bool:
        own = self._delivery.oldest_own
        if own is None or self._view is None:
            return False
        return first is None or (own.timestamp, 0, self._context.process) < first[0]

    def _advance(self, step: Step, key: tuple[int, int, ProcessId], stream: Stream) -> bool:
        """Let the first stream bring its message; False when everybody waits for it."""
        _, waits, source = key
        if waits:
            return False
        message = stream.next_message()
        assert message is not None, "the first stream has a message"
        if message.index + 1 == message.count:
            stream.place = stream.point
        if message.flags & LEAVE:
            step.mark("source-left")
        elif message.flags & CHANGE:
            change = read_change(message.payload)
            if change is None:
                step.note(Reason.BAD_CHANGE)
            else:
                assert self._view is not None, "messages are delivered in a view"
                self._change(step, Said(message.timestamp, source, message.sequence, change, self._view.mark))
        else:
            try:
                data = stream.whole(message)
            except TooLarge:
                self.unable = source, ViewReason.TOO_LARGE
                return True
            if data is not None:
                if message.count > 1:
                    step.mark("fragmented")
                self._delivery.whole(step, source, message, data)
        self._refresh(stream)
        return True

    def _change(self, step: Step, said: Said) -> None:
        """Somebody becomes a sender or a receiver, here in the order."""
        assert self._view is not None, "messages are delivered in a view"
        before, view = self._view, self._view.after(said)
        if said.source == self._context.process:
            self.let_go = False
        if view is None:
            step.mark("change-without-effect")
            self.stays = self.stays or (said.source == self._context.process and isinstance(said.change, SenderLeft))
            return
        self._view = view
        itself = self._context.process
        if isinstance(said.change, SenderAdded):
            seat, reason = said.change.seat, ViewReason.SENDS
            stream = self._streams.get(seat.process)
            if seat.process == itself:
                self._own_place = StartPoint(itself, seat.sequence, seat.number)
            elif stream is None or (stream.ending is not None and not self._is_kept(stream)):
                self._await(step, seat)
            else:
                self._seat(stream, seat, said.timestamp)
            self._meet((seat.process,))
            process = seat.process
        else:
            process, reason = said.source, ViewReason.ONLY_RECEIVES
            self._unseat(process, said.sequence)
        if not self._is_shown(view):  # those who come along deliver the rest in the view that they are in
            self._view = replace(view, id=before.id)
            return
        self.changed.append(view)
        role: Literal["sender", "receiver"] = "sender" if view.seat(itself) is not None else "receiver"
        start = sorted(self._point(member, view) for member in view.members)
        event = View(
            view.id,
            before.id,
            view.members,
            tuple(start),
            ((process, reason),),
            transitional=view.members,
            role=role,
            primary=view.primary,
            era=view.era,
        )
        self._delivery.enter(step, event)

    def _is_kept(self, stream: Stream) -> bool:
        """Whether a source that has ended is still here for what it sent before the view ends."""
        return bool(self._pending) and all(over is not stream for over, _ in self.over)

    def _await(self, step: Step, seat: Seat) -> None:
        """Nothing is delivered before a source is followed; unless the view ends before it has sent anything."""
        if self._pending and self._pending[0].cut.get(seat.process, 0) < seat.sequence:
            return
        step.mark("sender-awaited")
        self.awaited[seat.process] = seat

    def _is_shown(self, view: AgreedView) -> bool:
        """Whether the application sees a view: when an end is agreed, only if one of those who come along has seen it.

        Others who do not come along may have it with other messages before it.
        """
        origin = self._pending[0].origin if self._pending else None
        return origin is None or view.id <= origin.last

    def _point(self, member: ProcessId, view: AgreedView) -> StartPoint:
        """Where a member goes on in a view."""
        if member == self._context.process:
            assert self._own_place is not None, "a sender has come into the view, or became one in it"
            return self._own_place
        stream, seat = self._streams.get(member), view.seat(member)
        assert seat is not None
        if stream is None or member in self.awaited or not stream.in_view:  # not there yet, or heard too late
            return StartPoint(member, seat.sequence, seat.number)
        return stream.place

    def _seat(self, stream: Stream, seat: Seat, timestamp: int) -> None:
        """A source that is followed is in the view from that time on."""
        assert self._view is not None
        assert not stream.in_view, "a process has one seat in a view"
        if stream.window.next > seat.sequence:
            self.unable = seat.process, ViewReason.INCOMPLETE
            return
        stream.enter(StartPoint(seat.process, seat.sequence, seat.number), timestamp, self._view.era.start)
        stream.in_view = True
        if self._pending:
            stream.cut = self._pending[0].cut.get(seat.process, seat.sequence - 1)
        self._order.admit(stream)
        self._refresh(stream)

    def _unseat(self, process: ProcessId, last: int) -> None:
        """A source has said that it only receives."""
        self.awaited.pop(process, None)
        stream = self._streams.get(process)
        if stream is not None and process != self._context.process:
            stream.in_view = False
            self._order.remove(process)
            if any(transition.view.seat(process) is not None for transition in self._pending):
                return  # it comes back with a view that is agreed already
            stream.farewell = last
            stream.become_ending(ViewReason.ONLY_RECEIVES)
            self.over.append((stream, ViewReason.ONLY_RECEIVES))

    def _apply_cut(self) -> None:
        """The view ends: of every source only what is up to its cut still belongs to it."""
        if not self._pending:
            return
        cut = self._pending[0].cut
        for source, seat in sorted(self.awaited.items()):
            if cut.get(source, 0) < seat.sequence:
                del self.awaited[source]
        for source, stream in sorted(self._streams.items()):
            if stream.in_view:
                stream.closed = False
                stream.cut = cut.get(source, stream.window.next - 1)
                self._refresh(stream)

    def _present_next(self, step: Step) -> bool:
        """Let the agreed view stand once everything before it is delivered."""
        if not self._pending or self._delivery.oldest_own is not None:
            return False
        transition = self._pending[0]
        for source, stream in self._streams.items():
            if stream.in_view and stream.window.next <= transition.cut.get(source, 0):
                return False
        self._pending.popleft()
        for member in transition.view.members:
            if member in self._streams:
                self._streams[member].assembly.clear()  # what it had begun to send it sends anew in this view
        self._present(step, transition.view, transition.view.start, transition.message.leavers)
        self._delivery.enter(step, self._view_event(transition))
        self._apply_cut()
        for _, stream in sorted(self._streams.items()):
            if not stream.in_view:
                self.on_news(step, stream)
        return True

    def _present(
        self, step: Step, view: AgreedView, start: Sequence[StartPoint], leavers: Collection[ProcessId] = ()
    ) -> None:
        """Deliver the members of a view from their start points on."""
        seats = {point.source: point for point in start}
        self._view = view
        self._own_place = seats.get(self._context.process)
        for source, stream in sorted(self._streams.items()):
            point = seats.get(source)
            if point is not None:
                stream.enter(point, view.id.start, view.era.start)
                stream.in_view = True
                self._order.admit(stream)
                self._refresh(stream)
            elif stream.in_view:
                stream.in_view = False
                self._order.remove(source)
                if any(transition.view.seat(source) is not None for transition in self._pending):
                    continue  # it comes back with a view that is agreed already
                reason = ViewReason.LEFT if source in leavers else ViewReason.AGREED
                stream.become_ending(reason)
                self.over.append((stream, reason))

    def _meet(self, members: Collection[ProcessId]) -> None:
        names = {process.name for process in members}
        met = [process for process in self._met if process.name not in names]
        self._met = dict.fromkeys([*met, *members][-MET_LIMIT:])

    def _why_new(self, process: ProcessId, along: Collection[ProcessId]) -> ViewReason:
        """Why somebody is in a view that was not in the last one."""
        if process in along:  # it had said that it only receives, and could not go before the view ended
            return ViewReason.SENDS
        return ViewReason.MERGED if process in self._met else ViewReason.JOINED

    def _view_event(self, transition: Transition) -> View:
        """A view as the application gets it."""
        message, view = transition.message, transition.view
        before = self._delivery.view
        known = set() if before is None else set(before.members)
        suspects = dict(message.suspects)
        names = {process.name for process in view.members}
        along = () if transition.origin is None else transition.origin.entrants
        reasons = [(process, self._why_new(process, along)) for process in view.members if process not in known]
        self._meet(view.members)
        for process in sorted(known - set(view.members)):
            if process.name in names or self._context.has_restarted(process):
                reasons.append((process, ViewReason.RESTARTED))
            elif suspects.get(process) == (process,):
                reasons.append((process, ViewReason.LEFT))
            elif process in message.lacked:
                reasons.append((process, ViewReason.INCOMPLETE))
            else:
                reasons.append((process, transition.reason))
        itself = self._context.process
        together = (itself,) if transition.origin is None else transition.origin.entrants
        return View(
            view.id,
            None if before is None else before.id,
            view.members,
            view.start,
            tuple(reasons),
            transitional=tuple(process for process in together if process in view.members),
            merged=tuple(origin.view for origin in message.origins),
            suspects=tuple(message.suspects),
            role="receiver" if view.seat(itself) is None else "sender",
            primary=transition.view.primary,
        )
