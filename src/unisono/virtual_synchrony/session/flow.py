"""The messages of one group of a session: in the current view, early ones of the next, and kept ones of the last.

What the application gets of a view, and what others can still be given of it, is decided here; when a view ends is not.
"""

from __future__ import annotations

from collections.abc import Iterable

from unisono.events import Message, Returned
from unisono.identity import ProcessId, ViewMark
from unisono.reliable.fragments import TooLarge
from unisono.reliable.step import Step
from unisono.trace.schema import MembershipRow
from unisono.virtual_synchrony.reasons import Reason
from unisono.virtual_synchrony.session.context import Context
from unisono.virtual_synchrony.session.incoming import NO_BOUND, Incoming
from unisono.virtual_synchrony.session.outgoing import Outgoing, OwnMessage, OwnStream
from unisono.virtual_synchrony.session.relaying import unwrap
from unisono.virtual_synchrony.session.streams import Streams
from unisono.virtual_synchrony.session.view import SessionView
from unisono.wire.messages import AGAIN, BEGINS, PROXIED, DataPacket
from unisono.wire.session_messages import SessionRequest, ViewStart

RETIRED_LIMIT = 4
"""Of so many earlier views messages are kept for members that are not out of them yet."""


REMEMBERED_SOURCES = 4096
"""In a weak group, of so many sources that are gone it is known what came."""


class Flow:
    """Streams of the current view, of the one to come, and of those that not everybody has left."""

    __slots__ = (
        "_context",
        "_index",
        "_settings",
        "future",
        "heard",
        "outgoing",
        "refused",
        "retired",
        "streams",
        "untaken",
        "urgent",
    )

    def __init__(self, context: Context, last_number: int, heard: dict[ProcessId, int]) -> None:
        self._context = context
        self._settings = context.settings
        self._index = 0
        self.outgoing = Outgoing(context, last_number)
        self.streams: Streams | None = None
        self.future: Streams | None = None
        """The streams of the view to come: what was sent there before it stands."""
        self.retired: list[tuple[Streams, set[ProcessId]]] = []
        """Earlier views, and who comes out of each and was not seen outside yet."""
        self.untaken = 0
        self.urgent = False
        """What may be delivered is delivered, whatever the application has taken: the view is about to end with it."""
        self.refused = False
        """A member sent more than this process puts together: nothing is delivered any more, and the group is left."""
        self.heard = heard
        """In a weak group: the last number delivered of each source; what is sent again in a new view is known."""

    @property
    def reading(self) -> bool:
        """Whether the application takes what comes."""
        return self.untaken < self._settings.event_limit

    # ── sending ──

    def send(self, step: Step, finishing: bool) -> None:
        """Send what the window admits in the current view; `finishing` while that is about to end."""
        streams, outgoing = self.streams, self.outgoing
        assert streams is not None, "messages are sent in a view"
        sent = streams.own.sequence
        while outgoing.waiting:
            self._deliver_own(step, outgoing.flush(step, streams.own, streams.view, finishing=finishing))
            if streams.incoming or streams.own.sequence == sent:
                break
            sent = streams.own.sequence
            outgoing.release(step, streams.own, sent)  # nobody else is here to need it, nor a part of a message
        outgoing.note_blocked(step, streams.own, finishing)

    def send_early(self, step: Step, view: SessionView) -> None:
        """Send what the window admits into the view to come."""
        future = self.open_future(view)
        future.own.undelivered += self.outgoing.flush(step, future.own, view, optimistic=True)
        self.outgoing.note_blocked(step, future.own)

    def open_future(self, view: SessionView) -> Streams:
        """The streams of the view to come. What came early for another one, which never comes, is dropped."""
        if self.future is None or self.future.mark != view.mark:
            self.future = Streams(self._context, view, OwnStream(self._settings.window_bytes))
            for stream in self.future.incoming.values():
                stream.bound = 0
        return self.future

    def void_future(self, step: Step, policy: str) -> None:
        """The view that was expected never comes: what was sent into it goes back, by the application's policy."""
        future, self.future = self.future, None
        if future is None:
            return
        self.outgoing.rewind()
        sent = future.own.undelivered
        for message in sent:
            step.mark("vs-optimistic-resent" if policy == "resend" else "vs-optimistic-returned")
            step.record(MembershipRow(kind="RETURNED", number=message.number, sequence=message.sequence, reason=policy))
            if policy == "return":
                step.deliver(Returned(message.payload, message.number))
        if policy == "resend":
            self.outgoing.put_back([message.payload for message in sent])

    # ── delivering ──

    def _deliver_own(self, step: Step, own: Iterable[OwnMessage]) -> None:
        """A sender delivers its own messages as they leave."""
        process, weak = self._context.process, self.outgoing.weak
        for sent in own:
            sequence = sent.number if weak else sent.sequence
            self._hand(step, process, sequence, sent.number, sent.timestamp, sent.payload, sent.relayed)

    def _hand(
        self,
        step: Step,
        source: ProcessId,
        sequence: int,
        number: int,
        timestamp: int,
        payload: bytes,
        relayed: bool,
    ) -> None:
        """Give a message to the application, as of whoever sent it first."""
        assert self.streams is not None, "messages are delivered in a view"
        if relayed:
            found = unwrap(payload)
            if found is None:
                step.note(Reason.BAD_RELAY)
                return
            source, number, timestamp, payload = found
            sequence = number
        step.deliver(Message(source, sequence, number, timestamp, payload, self.streams.view.id, self._index))
        self._index += 1
        self.untaken += 1

    def deliver_all(self, step: Step) -> None:
        """Hand over what may be delivered of everybody."""
        if self.streams is not None:
            for stream in self.streams.incoming.values():
                if stream.window.waiting:
                    self._deliver(step, self.streams, stream)

    def _deliver(self, step: Step, streams: Streams, stream: Incoming) -> None:
        """Hand over what is in order, while the application takes it or the view must end."""
        source, limit = stream.source, self._settings.event_limit
        count = size = 0
        while not self.refused and (self.urgent or self.untaken < limit) and (part := stream.next()) is not None:
            try:
                payload = stream.whole(part)
            except TooLarge:
                step.note(Reason.TOO_LARGE)
                self.refused = True
                break
            count += 1
            size += len(part.payload)
            if payload is None:
                continue
            sequence = part.sequence
            if self.outgoing.weak:
                sequence, last = part.number, self.heard.get(source, 0)
                follows = part.number == last + 1 or part.flags & BEGINS or not part.flags & AGAIN
                if part.number <= last or not follows:
                    continue  # it is known, or comes in its view after what this process does not have
                self.heard[source] = part.number
            if part.count > 1:
                step.mark("fragmented")
            relayed = bool(part.flags & PROXIED)
            self._hand(step, source, sequence, part.number, part.timestamp, payload, relayed)
        if count:
            streams.on_delivered(step, count, size)

    # ── what comes from others ──

    def on_data(self, step: Step, packet: DataPacket, expected: SessionView | None) -> None:
        streams = self.streams
        if packet.source == self._context.process:
            return
        if streams is not None and packet.view == streams.mark:
            stream = streams.take_in(step, packet)
            if stream is not None:
                self._deliver(step, streams, stream)
        elif expected is not None and packet.view == expected.mark:
            step.mark("vs-early-message")
            self.open_future(expected).take_in(step, packet)
        elif streams is not None and packet.view.start < streams.mark.start:
            step.note(Reason.OLD_VIEW)
        else:
            step.note(Reason.UNKNOWN_VIEW)

    def on_view_start(self, step: Step, source: ProcessId, message: ViewStart) -> None:
        """A member says which view it is in, and how far it has sent there."""
        self._note_outside(source, message.view)
        for streams in (self.streams, self.future):
            if streams is not None and message.view == streams.mark:
                streams.on_standing(step, source, message.sequence, message.stable)
                stream = streams.incoming.get(source)
                if streams is self.streams and stream is not None:
                    self._deliver(step, streams, stream)

    def on_request(self, step: Step, source: ProcessId, request: SessionRequest) -> None:
        held = [self.streams, self.future, *(streams for streams, _ in self.retired)]
        for streams in held:
            if streams is not None and streams.mark == request.view:
                streams.answer(step, source, request)
                if streams is self.streams and request.target == self._context.process:
                    for first, last in request.ranges:
                        self.outgoing.pacing.on_missed(step.now, first, last)
                return
        step.note(Reason.NOT_HELD)

    def _note_outside(self, member: ProcessId, mark: ViewMark) -> None:
        """A member was seen in a view: earlier ones are not kept for it any longer."""
        for streams, awaited in self.retired:
            if mark.start > streams.mark.start:
                awaited.discard(member)
        self._drop_retired()

    def _drop_retired(self) -> None:
        self.retired = [(streams, awaited) for streams, awaited in self.retired if awaited][-RETIRED_LIMIT:]

    # ── the end of a view ──

    def bound(self, bounds: dict[int, int]) -> None:
        """From now on no more than this is delivered of each seat."""
        if self.streams is not None:
            for source, stream in self.streams.incoming.items():
                stream.bound = bounds.get(self.streams.view.seats[source], 0)

    def finish(self, step: Step) -> None:
        """All who come along deliver the same before the next view: what they agreed on, as it comes.

        It does not wait for the application, or a full buffer would wait for the view and the view for the buffer.
        """
        if self.streams is not None:
            for stream in self.streams.incoming.values():
                stream.admit_all(step.now + self._settings.request_delay)
        self.urgent = True
        self.deliver_all(step)

    def counts(self) -> dict[int, int]:
        """What can be delivered of each seat of the current view: everything that came, in order."""
        if self.streams is None:
            return {}
        seats = self.streams.view.seats
        counts = {seats[source]: stream.received for source, stream in self.streams.incoming.items()}
        counts[seats[self._context.process]] = self.streams.own.sequence
        return counts

    def install(self, view: SessionView, together: Iterable[ProcessId]) -> None:
        """The current view is over, with everything delivered that belongs to it: go on in the next."""
        if self.streams is not None:
            self.retired.append((self.streams, {member for member in together if member != self._context.process}))
        for _, awaited in self.retired:
            awaited.intersection_update(view.seats)
        self._drop_retired()
        self.streams, self.future = self.open_future(view), None
        self.urgent = False
        self._index = 0
        self.outgoing.pacing.receivers = max(1, len(self.streams.incoming))
        if self.outgoing.weak:
            self.outgoing.send_again()
            known = [source for source in self.heard if source not in view.seats]
            for source in known[: max(0, len(self.heard) - REMEMBERED_SOURCES)]:
                del self.heard[source]
        for stream in self.streams.incoming.values():
            stream.bound = NO_BOUND

    def begin(self, step: Step) -> None:
        """The application has the new view: what came early for it follows."""
        assert self.streams is not None, "there is a view"
        early, self.streams.own.undelivered = self.streams.own.undelivered, []
        for _ in early:
            step.mark("vs-optimistic-delivered")
        self._deliver_own(step, early)
        if not self.streams.incoming:
            self.outgoing.release(step, self.streams.own, self.streams.own.sequence)
        self.deliver_all(step)
