"""What of the streams goes to the application, and when: source by source, or of all sources in timestamp order.

Both hand on what came of a source that ended before they let it go, and install a view for every source that comes or
goes. A source whose stream is over is left in `over` for whoever follows it.
"""

from __future__ import annotations

from collections.abc import Sequence

from unisono.engine import SendersAgreed
from unisono.events import LeftBehind, ViewReason
from unisono.identity import ProcessId, StartPoint
from unisono.intergroup.context import Context
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.sending import OwnMessage, Sending
from unisono.intergroup.stream import FOREVER, Stream
from unisono.intergroup.timestamp_order import TimestampOrder
from unisono.reliable.fragments import TooLarge
from unisono.reliable.step import Step
from unisono.wire.messages import LEAVE, DataMessage, DataPacket

Reasons = Sequence[tuple[ProcessId, ViewReason]]


class BySource:
    """Reliable source order (000 4.7): each stream on its own, as fast as the application takes it."""

    __slots__ = ("_context", "_delivery", "_sending", "_stalled", "_streams", "over")

    def __init__(self, context: Context, sending: Sending, delivery: Delivery, streams: dict[ProcessId, Stream]):
        self._context = context
        self._sending = sending
        self._delivery = delivery
        self._streams = streams
        self._stalled = False
        self.over: list[tuple[Stream, ViewReason]] = []

    @property
    def may_send(self) -> bool:
        return True

    @property
    def reached(self) -> int:
        """What is delivered source by source keeps no other group waiting."""
        return FOREVER

    def removes(self, source: ProcessId) -> bool:
        """Whether an agreement decides where the messages of a source end, and not its silence."""
        return False

    def begin(self, step: Step, reason: ViewReason) -> None:
        """The first view: this process, where it listens to itself, and whatever is followed already."""
        itself = self._context.process
        for _, stream in sorted(self._streams.items()):
            stream.in_view = not stream.silent
        reasons = [(stream.source, reason) for _, stream in sorted(self._streams.items()) if stream.in_view]
        own = [(itself, reason)] if self._context.wants(itself.name) else []
        self.install(step, [*own, *reasons])
        for _, stream in sorted(self._streams.items()):
            self.on_news(step, stream)
        self.own_messages(step, self._delivery.take_own())

    def add(self, step: Step, stream: Stream) -> None:
        """A source was activated."""
        if not stream.silent:
            stream.in_view = True
            self.install(step, [(stream.source, ViewReason.ACTIVATED)])

    def pass_through(self, step: Step, stream: Stream, packet: DataPacket) -> bool:
        """Hand a run on at once that is next, without keeping it; False if it has to be kept."""
        if not stream.silent and self._delivery.room < len(packet.messages):
            return False
        if not stream.pass_through(packet.messages):
            return False
        if not stream.silent:
            self._delivery.messages(step, stream.source, packet.messages)
        return True

    def on_news(self, step: Step, stream: Stream) -> None:
        """Something came of a source, or it has ended."""
        while stream.silent or self._delivery.has_room:
            if not self._hand_over(step, stream):
                return
        if stream.window.waiting or stream.ending is not None:
            self._stalled = True
            step.mark("application-full")

    def own_messages(self, step: Step, messages: Sequence[OwnMessage]) -> None:
        """This process has sent: it receives its own messages too (000 4.1)."""
        if self._context.wants(self._context.process.name):
            self._delivery.own_messages(step, messages)

    def resume(self, step: Step) -> bool:
        """The application has room again; True when something had waited for it."""
        self._delivery.own_messages(step, ())
        if not self._stalled:
            return False
        self._stalled = False
        for _, stream in sorted(self._streams.items()):
            self.on_news(step, stream)
        return True

    def install(self, step: Step, reasons: Reasons, agreed: SendersAgreed | None = None) -> None:
        start = [stream.point for stream in self._streams.values() if stream.in_view]
        itself = self._context.process
        if self._context.wants(itself.name):
            own = self._delivery.oldest_own
            sequence = own.sequence if own else self._sending.last_sequence + 1
            start.append(StartPoint(itself, sequence, own.number if own else self._sending.last_number + 1))
        self._delivery.install(step, sorted(start), reasons, agreed.view if agreed else None)

    def _hand_over(self, step: Step, stream: Stream) -> bool:
        """Take the next message of a stream and hand it on; False when there is none, or when it was the last."""
        message = stream.next_message()
        if message is None:
            if stream.ending is not None:
                self._let_go(step, stream, stream.ending)
            return False
        if message.flags & LEAVE:
            step.mark("source-left")
            self._let_go(step, stream, ViewReason.LEFT)
            return False
        try:
            data = stream.whole(message)
        except TooLarge:
            self._let_go(step, stream, ViewReason.TOO_LARGE)
            return False
        if data is not None:
            if message.count > 1:
                step.mark("fragmented")
            self._on_whole(step, stream, message, data)
        return True

    def _on_whole(self, step: Step, stream: Stream, message: DataMessage, data: bytes) -> None:
        if not stream.silent:
            self._delivery.whole(step, stream.source, message, data)

    def _let_go(self, step: Step, stream: Stream, reason: ViewReason) -> None:
        """A stream is over: it leaves the view."""
        self.over.append((stream, reason))
        stream.become_ending(reason)
        if stream.in_view:
            stream.in_view = False
            if reason is ViewReason.LEFT_BEHIND:
                step.deliver(LeftBehind(stream.source))
            self.install(step, [(stream.source, reason)])


class ByTimestamp(BySource):
    """Reliable group timestamp order (000 4.8, 003 6.3): of all streams the message with the lowest key is next.

    A stream that joins holds the order until it has come past what was delivered already, and brings nothing from
    below that: it enters the view with an exact start. Where the senders are named, delivery begins when all are there.
    """

    __slots__ = ("_agreed", "_missing", "_order")

    def __init__(self, context: Context, sending: Sending, delivery: Delivery, streams: dict[ProcessId, Stream]):
        super().__init__(context, sending, delivery, streams)
        self._order = TimestampOrder()
        self._agreed: SendersAgreed | None = None
        named = context.settings.senders
        self._missing = set() if named == "all" else set(named) - {context.process.name}

    @property
    def may_send(self) -> bool:
        """Not before there is a view to send in."""
        return self._delivery.view is not None

    @property
    def reached(self) -> int:
        """Whatever is still to be delivered has a later timestamp, or this one where it is the next message's."""
        if self._delivery.view is None:
            return 0
        own = self._delivery.oldest_own
        first = self._order.first()
        now = self._context.clock.last if own is None else own.timestamp
        return now if first is None else min(now, first[0][0])

    def removes(self, source: ProcessId) -> bool:
        agreed = self._agreed
        return agreed is not None and source in dict(agreed.cut) and source not in _members(agreed)

    def begin(self, step: Step, reason: ViewReason) -> None:
        for _, stream in sorted(self._streams.items()):
            if not stream.silent:
                self._order.admit(stream)
        if reason is not ViewReason.JOINED:
            self._missing.clear()
        if not self._missing:
            super().begin(step, reason)

    def add(self, step: Step, stream: Stream) -> None:
        if stream.silent:
            return
        self._order.admit(stream)
        if self._missing:
            self._missing.discard(stream.source.name)
            self._order.floor = max(self._order.floor, (stream.granted_at, stream.source))
        self.on_news(step, stream)

    def pass_through(self, step: Step, stream: Stream, packet: DataPacket) -> bool:
        return stream.silent and stream.pass_through(packet.messages)

    def on_news(self, step: Step, stream: Stream) -> None:
        if stream.silent:
            super().on_news(step, stream)
            return
        self._order.refresh(stream)
        if stream.ending is not None and stream.window.head is None and stream in self._order:
            self._let_go(step, stream, stream.ending)
        self._pump(step)

    def own_messages(self, step: Step, messages: Sequence[OwnMessage]) -> None:
        if self._context.wants(self._context.process.name):
            self._delivery.queue_own(messages)
            self._pump(step)

    def resume(self, step: Step) -> bool:
        stalled, self._stalled = self._stalled, False
        if stalled:
            self._pump(step)
        return stalled

    def agree(self, step: Step, agreed: SendersAgreed) -> None:
        """A sender view is given: deliver what belongs to the one before it, then let it stand."""
        self._agreed = agreed
        cut = dict(agreed.cut)
        for source, stream in sorted(self._streams.items()):
            if stream in self._order:
                stream.cut = cut.get(source)
                self._order.refresh(stream)
        self._pump(step)

    def _pump(self, step: Step) -> None:
        """Deliver what is next, again and again."""
        while not self._missing and self._delivery.has_room:
            first = self._order.first()
            if self._own_is_next(first):
                own = self._delivery.hand_own(step)
                self._order.pass_floor(own.timestamp, self._context.process)
            elif (first is None or not self._advance(step, *first)) and not self._installed_agreed(step):
                return
        first = self._order.first()
        waits = self._agreed is not None or (first is not None and not first[0][1]) or self._own_is_next(first)
        if waits and not self._delivery.has_room:
            self._stalled = True
            step.mark("application-full")

    def _own_is_next(self, first: tuple[tuple[int, int, ProcessId], Stream] | None) -> bool:
        own = self._delivery.oldest_own
        if own is None or (self._agreed is not None and own.sequence > self._own_cut(self._agreed)):
            return False
        return first is None or (own.timestamp, 0, self._context.process) < first[0]

    def _own_cut(self, agreed: SendersAgreed) -> int:
        return dict(agreed.cut).get(self._context.process, 1 << 63)

    def _advance(self, step: Step, key: tuple[int, int, ProcessId], stream: Stream) -> bool:
        """Let the first stream bring its message, or come into the view; False when everybody waits for it."""
        timestamp, waits, source = key
        if not stream.in_view:
            if self._order.is_past_floor(stream):
                self._take_into_view(step, stream)
                return True
            if waits:
                return False
            step.mark("below-the-floor")
        elif waits:
            return False
        if not self._hand_over(step, stream):
            return True
        if stream.in_view:
            self._order.pass_floor(timestamp, source)
        self._order.refresh(stream)
        if stream.ending is not None and stream.window.head is None:
            self._let_go(step, stream, stream.ending)
        return True

    def _take_into_view(self, step: Step, first: Stream) -> None:
        """A stream is past the floor, and so is every other behind it: the first view has all of them."""
        newcomers = [first]
        if self._delivery.view is None:
            newcomers = [stream for _, stream in sorted(self._streams.items()) if stream in self._order]
        for stream in newcomers:
            stream.in_view = True
        self.install(step, [(stream.source, ViewReason.ACTIVATED) for stream in newcomers])

    def _on_whole(self, step: Step, stream: Stream, message: DataMessage, data: bytes) -> None:
        if stream.in_view:
            super()._on_whole(step, stream, message, data)

    def _installed_agreed(self, step: Step) -> bool:
        """Let the agreed view stand once everything before it is delivered."""
        agreed = self._agreed
        if agreed is None:
            return False
        cut = dict(agreed.cut)
        for source, stream in self._streams.items():
            if stream in self._order and source in cut and stream.window.next <= cut[source]:
                return False
        own = self._delivery.oldest_own
        if own is not None and own.sequence <= self._own_cut(agreed):
            return False
        self._agreed = None
        members = _members(agreed)
        gone = [
            stream for _, stream in sorted(self._streams.items()) if stream.in_view and stream.source not in members
        ]
        for stream in gone:
            stream.in_view = False
            stream.become_ending(ViewReason.AGREED)
            self._order.remove(stream.source)
            self.over.append((stream, ViewReason.AGREED))
        self.install(step, [(stream.source, ViewReason.AGREED) for stream in gone], agreed)
        for stream in self._streams.values():
            stream.cut = None
            self._order.refresh(stream)
        return True

    def _let_go(self, step: Step, stream: Stream, reason: ViewReason) -> None:
        self._order.remove(stream.source)
        others = (other for other in self._streams.values() if other is not stream)
        if self._delivery.view is None and all(other.source.name != stream.source.name for other in others):
            self._missing.add(stream.source.name)
        super()._let_go(step, stream, reason)


def _members(agreed: SendersAgreed) -> set[ProcessId]:
    return {point.source for point in agreed.members}
