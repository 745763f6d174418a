"""What of the streams goes to the application, and when: here source by source (see `agreed_order` for the other).

What came of a source that ended is handed on before it is let go, and a view is installed for every source that comes
or goes. A source whose stream is over is left in `over` for whoever follows it.
"""

from __future__ import annotations

from collections.abc import Sequence

from unisono.events import LeftBehind, ViewReason
from unisono.identity import ProcessId, StartPoint, ViewMark
from unisono.intergroup.context import Context
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.membership.view import AgreedView, Said
from unisono.intergroup.reasons import Reason
from unisono.intergroup.sending import OwnMessage, Sending
from unisono.intergroup.stream import FOREVER, Stream
from unisono.reliable.fragments import TooLarge
from unisono.reliable.step import Step
from unisono.wire.membership_messages import SenderAdded, read_change
from unisono.wire.messages import CHANGE, LEAVE, DataMessage, DataPacket

Reasons = Sequence[tuple[ProcessId, ViewReason]]


class BySource:
    """Reliable source order (000 4.7): each stream on its own, as fast as the application takes it."""

    __slots__ = ("_context", "_delivery", "_held", "_sending", "_stalled", "_streams", "over", "said")

    def __init__(self, context: Context, sending: Sending, delivery: Delivery, streams: dict[ProcessId, Stream]):
        self._context = context
        self._sending = sending
        self._delivery = delivery
        self._streams = streams
        self._held = False
        self._stalled = False
        self.over: list[tuple[Stream, ViewReason]] = []
        self.said: list[Said] = []
        """What members said of who sends, for whoever agrees on views."""

    @property
    def may_send(self) -> bool:
        return True

    @property
    def reached(self) -> int:
        """What is delivered source by source keeps no other group waiting."""
        return FOREVER

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
        if self._held or (not stream.silent and self._delivery.room < len(packet.messages)):
            return False
        before = stream.unreported_bytes
        if not stream.pass_through(packet.messages):
            return False
        if not stream.silent:
            self._delivery.messages(step, stream.source, packet.messages, stream.unreported_bytes - before)
        return True

    def on_news(self, step: Step, stream: Stream) -> None:
        """Something came of a source, or it has ended."""
        if self._held:
            return
        while stream.silent or self._delivery.has_room:
            if not self._hand_over(step, stream):
                return
        if stream.window.waiting or stream.ending is not None:
            self._is_full(step)

    def own_messages(self, step: Step, messages: Sequence[OwnMessage]) -> None:
        """This process has sent: it receives its own messages too (000 4.1)."""
        self.note_changes(messages)
        if not self._context.wants(self._context.process.name):
            return
        if self._held:
            self._delivery.queue_own(messages)
        else:
            self._delivery.own_messages(step, messages)

    def note_changes(self, messages: Sequence[OwnMessage]) -> None:
        """What this process itself said of who sends."""
        itself, mark = self._context.process, self._context.mark
        self.said += [Said(own.timestamp, itself, own.sequence, own.change, mark) for own in messages if own.change]

    def resume(self, step: Step) -> bool:
        """The application has room again; True when something had waited for it."""
        self.own_messages(step, ())
        if not self._stalled:
            return False
        self._stalled = False
        for _, stream in sorted(self._streams.items()):
            self.on_news(step, stream)
        return True

    def hold(self) -> None:
        """Hand nothing on by itself: another order is about to take over, and what is before it is brought to here."""
        self._held = True

    def go_on(self, step: Step) -> None:
        """Hand on what comes, again."""
        self._held = False
        for _, stream in sorted(self._streams.items()):
            self.on_news(step, stream)
        self.own_messages(step, ())

    def bring(self, step: Step, stream: Stream, floor: int | None, mark: ViewMark) -> bool:
        """Hand on what is before a point of a view, or everything; False when the application has no room for it."""
        while floor is None or stream.is_before(floor, mark):
            if stream.window.head is not None and not stream.silent and self._is_full(step):
                return False
            if not self._hand_over(step, stream):
                return True
        return True

    def bring_own(self, step: Step, floor: int) -> bool:
        """Hand on what this process itself sent before a point; False when the application has no room for it."""
        while (own := self._delivery.oldest_own) is not None and own.timestamp <= floor:
            if self._is_full(step):
                return False
            self._delivery.hand_own(step)
        return True

    def _is_full(self, step: Step) -> bool:
        """Whether the application has no room; then what waits goes on when it has."""
        if self._delivery.has_room:
            return False
        self._stalled = True
        step.mark("application-full")
        return True

    @property
    def own_start(self) -> StartPoint:
        """Where this process starts in a view that it comes into now."""
        own = self._delivery.oldest_own
        sequence = own.first if own else self._sending.last_sequence + 1 - self._sending.begun
        number = own.number if own else self._sending.last_number + 1
        return StartPoint(self._context.process, sequence, number)

    def install(self, step: Step, reasons: Reasons) -> None:
        start = [stream.point for stream in self._streams.values() if stream.in_view]
        if self._context.wants(self._context.process.name):
            start.append(self.own_start)
        self._delivery.install(step, sorted(start), reasons)

    def _hand_over(self, step: Step, stream: Stream) -> bool:
        """Take the next message of a stream and hand it on; False when there is none, or when it was the last."""
        if any(over is stream for over, _ in self.over):  # nobody has buried it yet
            return False
        message = stream.next_message()
        if message is None:
            if stream.ending is not None:
                self._let_go(step, stream, stream.ending)
            return False
        if message.flags & LEAVE:
            step.mark("source-left")
            self._let_go(step, stream, ViewReason.LEFT)
            return False
        if message.flags & CHANGE:
            return self._on_change(step, stream, message)
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

    def _on_change(self, step: Step, stream: Stream, message: DataMessage) -> bool:
        """A member says who sends; False when that was its last word, and nothing more is to come.

        A sender that agrees on views follows a member until the view lacks it: a repair may come first, and keep it.
        """
        change = read_change(message.payload)
        if change is None:
            step.note(Reason.BAD_CHANGE)
            return True
        mark = stream.mark_of(message.sequence)
        self.said.append(Said(message.timestamp, stream.source, message.sequence, change, mark))
        if isinstance(change, SenderAdded):
            return True
        stream.farewell = message.sequence
        if self._context.role == "sender" and self._context.shares_view(stream.source):
            return True
        self._let_go(step, stream, ViewReason.ONLY_RECEIVES)
        return False

    def part_with_receivers(self, step: Step, view: AgreedView | None) -> None:
        """Let go of those who have said their last word as senders, and are not in a view any more."""
        for source, stream in sorted(self._streams.items()):
            gone = stream.ending is None and (view is None or view.seat(source) is None)
            if gone and stream.has_said_last:
                self._let_go(step, stream, ViewReason.ONLY_RECEIVES)

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
