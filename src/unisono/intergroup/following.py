"""The receiver's half: which sources this process follows, and what has come of each.

A source that is heard and wanted is activated by the handshake of 000 4.7.1, followed until it leaves, restarts, falls
silent or leaves this receiver behind, and then followed again from a new activation point. `BySource` or `ByTimestamp`
decides when what came is delivered.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from unisono.engine import Address
from unisono.events import ViewReason
from unisono.identity import NO_VIEW, ProcessId, StartPoint
from unisono.intergroup.activation import Activations
from unisono.intergroup.agreed_order import ByTimestamp
from unisono.intergroup.context import Context
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.entering import Entering
from unisono.intergroup.membership.view import Said
from unisono.intergroup.presenting import BySource
from unisono.intergroup.reasons import Reason
from unisono.intergroup.repairing import Repairing
from unisono.intergroup.reporting import Reporting
from unisono.intergroup.requesting import Requesting
from unisono.intergroup.sending import OwnMessage, Sending
from unisono.intergroup.stream import Stream
from unisono.reliable.step import Step
from unisono.reliable.suppression import Asked, RequestTiming
from unisono.reliable.windows import Offer
from unisono.wire.membership_messages import NewView, Origin
from unisono.wire.messages import (
    LEAVE,
    ActivationGrant,
    DataPacket,
    Deactivation,
    KeepAlive,
    LeftBehindNotice,
    RepairRequest,
)

DEPARTED_LIMIT = 1024
"""How many sources that left are remembered, so that their last packets do not bring them back."""


FOLLOWED_LIMIT = 10_000
"""How many sources are remembered that must not be followed twice."""


class Departure(NamedTuple):
    """How a source went: under which activation, with which message, and when in logical time."""

    attempt: int
    sequence: int
    timestamp: int


class Following:
    """This process as a receiver that lacks nothing of whom it follows."""

    __slots__ = (
        "_context",
        "_crowded",
        "_delivery",
        "_departed",
        "_entering",
        "_followed",
        "_presentation",
        "_repairing",
        "_sending",
        "_taken",
        "_unneeded",
        "activations",
        "entering",
        "lost",
        "reporting",
        "requesting",
        "streams",
    )

    def __init__(
        self, context: Context, sending: Sending, delivery: Delivery, repairing: Repairing, attempts: int
    ) -> None:
        self._context = context
        self._repairing = repairing
        self._sending = sending
        self._delivery = delivery
        self.streams: dict[ProcessId, Stream] = {}
        self.activations = Activations(context, attempts)
        self._departed: dict[ProcessId, Departure] = {}
        self._followed: dict[ProcessId, None] = {}
        self._entering: dict[ProcessId, None] = {}
        """Who has said that it is about to be a sender."""
        self._taken: dict[ProcessId, StartPoint] = {}
        """Where each goes on that the application has had messages of and that is not followed now."""
        self._unneeded: dict[ProcessId, Address] = {}
        """Who was heard while nobody here wanted it."""
        self.entering: Entering | None = None
        """The way into timestamp order, while it is not there yet."""
        self._presentation = self._present()
        self._crowded: set[ProcessId] = set()
        """Of whom more has come, or is missing, than there is room for."""
        self.requesting = Requesting(context, self.streams, self._crowded)
        self.reporting = Reporting(context, self.streams, self._crowded)
        self.lost: list[tuple[ProcessId, ViewReason]] = []
        """Members of the agreed view that cannot be followed any longer, for whoever agrees on views."""

    @property
    def ordered(self) -> ByTimestamp | None:
        """What delivers in timestamp order, if that is what the application has."""
        return self._presentation if isinstance(self._presentation, ByTimestamp) else None

    def follows(self, source: ProcessId) -> bool:
        return self._active(source) is not None

    @property
    def hears_anybody(self) -> bool:
        """Whether some source is followed, or asked to be."""
        return bool(self.activations) or any(stream.ending is None for stream in self.streams.values())

    def is_entering(self, source: ProcessId) -> bool:
        """Whether a source is not a sender yet, as it said last."""
        return source in self._entering

    @property
    def active(self) -> bool:
        """Whether anybody is followed at all: by the application's wish, or because this process sends."""
        return self._context.speaks or self._context.settings.reliable or self._context.changing

    @property
    def may_send(self) -> bool:
        if self._context.held_back or self._context.awaits or self._sending.paused:
            return False
        return not self._context.settings.reliable or self._presentation.may_send

    @property
    def reached(self) -> int:
        """How far timestamp order has come here."""
        return self._presentation.reached

    def begin(self, step: Step, reason: ViewReason) -> None:
        """The application's service begins: at a join, or when another than timestamp order is chosen."""
        settings = self._context.settings
        self._presentation = self._present()
        self.entering = None
        if settings.service == "timestamp" and self._context.role == "receiver":
            self.look_for_entry(step)
        for source, stream in sorted(self.streams.items()):
            stream.silent = self._is_silent(source)
            stream.in_view = False
            stream.cut = None
            if not self._needs(source.name) or (stream.silent and stream.ending is not None):
                self._context.tell(step, stream.address, Deactivation(source, stream.attempt))
                self.note_taken(stream.point)
                del self.streams[source]
                self._repairing.forget(source)
            elif stream.ending is None:  # it counts this process already; now it hears whether it is waited for
                self.activations.ask(step, source, stream.address, stream.attempt)
        self.activations.give_up(step, self._needs)
        if settings.reliable and self.entering is None:
            self._presentation.begin(step, reason)
            self._bury(step)
        else:
            for _, stream in sorted(self.streams.items()):
                self._present_news(step, stream)
        self._catch_up(step, self.streams)

    def note_taken(self, point: StartPoint) -> None:
        """The application has had a source's messages up to there, by whatever service: they are not for it again.

        A source that became a sender of late begins with messages that it has sent already.
        """
        known = self._taken.pop(point.source, None)
        self._taken[point.source] = point if known is None else max(known, point)
        while len(self._taken) > FOLLOWED_LIMIT:
            del self._taken[next(iter(self._taken))]

    def look_for_entry(self, step: Step) -> None:
        """Look for a place where timestamp order can begin; until then all goes on as it is."""
        until = step.now + self._context.settings.patience
        self.entering = Entering(self._context, self._presentation, self.streams, until)

    def find_entry(self, step: Step) -> list[StartPoint] | None:
        """Where each source starts in timestamp order, if it can begin now."""
        if self.entering is None:
            return None
        start = self.entering.advance(step)
        self._bury(step)
        return start

    def take_over(self, step: Step, start: list[StartPoint], reason: ViewReason) -> None:
        """Timestamp order begins, with each source at its start."""
        assert self.entering is not None
        assert self.entering.view is not None
        view, self.entering = self.entering.view, None
        self._presentation.part_with_receivers(step, view)
        self._presentation = ordered = ByTimestamp(self._context, self._sending, self._delivery, self.streams)
        for source, stream in sorted(self.streams.items()):
            stream.silent = self._is_silent(source)
            stream.in_view = False
            if reason is ViewReason.SERVICE:  # else it was told when it was asked
                self.activations.ask(step, source, stream.address, stream.attempt)
        ordered.enter(step, view, start, reason)
        self._bury(step)
        self._catch_up(step, self.streams)

    def drop_out(self, step: Step) -> None:
        """Follow no view any more: what comes next has a gap before it, and stands in no order with what came."""
        step.flush()
        self._delivery.drop_own()
        self._delivery.begin_stretch(absent=True)
        self._presentation = BySource(self._context, self._sending, self._delivery, self.streams)
        self.look_for_entry(step)
        for _, stream in sorted(self.streams.items()):
            stream.silent = True
            stream.in_view = False
            stream.cut = None
            self._present_news(step, stream)
        self._catch_up(step, self.streams)

    def _is_silent(self, source: ProcessId) -> bool:
        """Whether nothing of a source is to be delivered: it is not wanted, or timestamp order is not there yet."""
        looks = self.entering is not None and self._context.settings.service == "timestamp"
        return looks or not self._context.wants(source.name)

    def _needs(self, name: str) -> bool:
        """Whether a source of that name is to be followed, be it to deliver it or to take part with it."""
        return self._context.wants(name) or self._context.takes_part_with(name)

    def _may_show(self, source: ProcessId) -> bool:
        """Whether the application can be told of another source: one that takes nothing is not told of ever more."""
        return self.has_room or isinstance(self._presentation, ByTimestamp) or self._is_silent(source)

    @property
    def has_room(self) -> bool:
        """Whether the application takes what it is given."""
        return self._delivery.has_room

    def _present(self) -> BySource | ByTimestamp:
        settings = self._context.settings
        sends = self._context.role == "sender"
        kind = ByTimestamp if settings.service == "timestamp" and sends else BySource
        return kind(self._context, self._sending, self._delivery, self.streams)

    def leave(self, step: Step) -> None:
        """Follow nobody any more, and keep nobody waiting."""
        for source, stream in sorted(self.streams.items()):
            self._context.tell(step, stream.address, Deactivation(source, stream.attempt))
        self.activations.give_up(step, lambda name: False)
        self.streams.clear()
        self.reporting.withdraw(step)
        self.entering = None
        self._presentation = self._present()
        for name in ("activation", "report", "request"):
            self._context.deadlines.clear(name)

    def consider(self, step: Step, source: ProcessId, address: Address) -> None:
        """Begin to follow a source that was heard, if it is wanted and not followed yet."""
        if source in self.streams or source in self.activations or source in self._departed:
            return
        settings = self._context.settings
        if not self._needs(source.name):
            if len(self._unneeded) < DEPARTED_LIMIT:
                self._unneeded[source] = address
            return
        if (source in self._followed and not settings.rejoin) or not self._may_show(source):
            return
        self.activations.begin(step, source, address)

    def consider_all(self, step: Step) -> None:
        """This process begins to take part with others: whom it has heard it need not wait to hear again."""
        heard, self._unneeded = self._unneeded, {}
        for source, address in sorted(heard.items()):
            self.consider(step, source, address)

    def forget(self, step: Step, source: ProcessId, reason: ViewReason) -> None:
        """A source is gone without a farewell."""
        stream = self.streams.get(source)
        if stream is not None:
            step.mark("source-silent" if reason is ViewReason.SILENT else "source-restarted")
            self._end(step, stream, reason)
        self.activations.forget(source)
        self._departed.pop(source, None)
        self._entering.pop(source, None)
        self._unneeded.pop(source, None)

    def on_data(self, step: Step, packet: DataPacket, address: Address) -> None:
        last = packet.messages[-1]
        if last.flags & LEAVE:
            self._unneeded.pop(packet.source, None)
        if not last.flags & LEAVE and self._welcome_back(step, packet.source, last.sequence, 0):
            self.consider(step, packet.source, address)
        stream = self._active(packet.source)
        if stream is None:
            step.note(Reason.NOT_ACTIVE)
            return
        stream.address = address
        stream.last_mark = max(stream.last_mark, packet.view)
        self._take_in(step, stream, packet)

    def on_repair(self, step: Step, packet: DataPacket) -> None:
        stream = self._active(packet.source)
        if stream is None:
            step.note(Reason.NOT_ACTIVE)
            return
        asked_at = stream.gaps.tickets.asked_at(packet.messages[0].sequence)
        filled, full = self._take_in(step, stream, packet)
        if filled and asked_at is not None:
            stream.timing.on_answered(step.now - asked_at)
        if filled:
            step.mark("gap-filled")
        elif not full:
            step.mark("repair-unneeded")

    def on_keep_alive(self, step: Step, source: ProcessId, address: Address, message: KeepAlive) -> None:
        self._entering.pop(source, None)
        if message.entering and len(self._entering) < DEPARTED_LIMIT:
            self._entering[source] = None
        departed = self._departed.get(source)
        if departed is not None and (
            message.leaving or not self._welcome_back(step, source, message.sequence, message.timestamp)
        ):
            self._context.tell(step, address, Deactivation(source, departed.attempt))
            return
        if message.leaving:
            self.activations.forget(source)
            self._unneeded.pop(source, None)
        else:
            self.consider(step, source, address)
        stream = self._active(source)
        if stream is None:
            return
        stream.listeners = max(message.listeners, 1)
        stream.last_mark = max(stream.last_mark, message.view)
        self.reporting.on_way_of_reporting(step, stream, message.reporting)
        self._repairing.release(source, message.stable, message.view)
        self._learn_end(step, stream, message.sequence)
        stream.on_said(message.sequence, message.timestamp)
        if self._context.settings.service == "timestamp":
            self._present_news(step, stream)

    def on_activation_grant(self, step: Step, source: ProcessId, address: Address, message: ActivationGrant) -> None:
        activation = self.activations.find(source, message.attempt)
        if activation is None:
            step.note(Reason.GRANT_UNASKED)
            return
        if not self._context.keys.accept(message.extension):
            step.note(Reason.KEYS_REFUSED)
            return
        self.activations.forget(source)
        self._repairing.forget(source)
        if activation.tries == 1:
            self._context.measure(source, step.now - activation.asked_at)
        self._followed[source] = None
        while len(self._followed) > FOLLOWED_LIMIT:
            del self._followed[next(iter(self._followed))]
        silent = self._is_silent(source)
        timing = RequestTiming(self._context.process, self._context.pace)
        self.streams[source] = stream = Stream(
            source, address, message, self._context.settings, silent, timing, step.now
        )
        taken = self._taken.pop(source, None)
        if taken is not None and taken.sequence > message.sequence:
            stream.skip_to(taken)
        self._presentation.add(step, stream)
        self._bury(step)
        self._context.deadlines.advance("report", step.now)

    def on_others_request(self, step: Step, asked: Asked, message: RepairRequest) -> None:
        """Another asked a source for repairs."""
        stream = self._active(message.target)
        if stream is not None:
            self.requesting.on_others_request(step, stream, asked, message)

    def on_left_behind(self, step: Step, source: ProcessId, message: LeftBehindNotice) -> None:
        stream = self._active(source)
        if stream is None or stream.attempt != message.attempt:
            step.note(Reason.ATTEMPT_STALE)
            return
        step.mark("told-left-behind")
        stream.apart = message.view == NO_VIEW or message.view.start > self._context.mark.start
        self._end(step, stream, ViewReason.LEFT_BEHIND)

    def say_role(self, step: Step) -> None:
        """Those who are followed hear whether this process sends."""
        for source, stream in sorted(self.streams.items()):
            if stream.ending is None:
                self.activations.ask(step, source, stream.address, stream.attempt)

    def part_with_receivers(self, step: Step) -> None:
        """The agreed view has changed: whoever only receives by now is followed no longer."""
        if self.ordered is None:
            self._presentation.part_with_receivers(step, self._context.agreed)
            self._bury(step)

    def note_changes(self, messages: Sequence[OwnMessage]) -> None:
        """What this process said of who sends, where its application gets its messages by another way."""
        self._presentation.note_changes(messages)

    @property
    def said(self) -> list[Said]:
        """What members said of who sends, as far as nobody delivers that in its order."""
        return self._presentation.said

    def own_messages(self, step: Step, messages: Sequence[OwnMessage]) -> None:
        """What this process sent, on its way to its own application."""
        self._presentation.own_messages(step, messages)
        self._bury(step)

    def fetch(self, step: Step, source: ProcessId, last: int) -> None:
        """Something of a source is known to exist: what is missing up to there is asked for."""
        stream = self._active(source)
        if stream is not None and stream.on_announced(last, step.now):
            step.mark("gap-at-the-end")
            self.requesting.schedule(step, stream)

    def make_room(self, source: ProcessId) -> None:
        """Nothing of a source can be delivered before its messages are complete: all that it may have sent fits."""
        stream, settings = self.streams.get(source), self._context.settings
        if stream is not None:
            stream.window.limit = settings.receive_buffer_bytes + settings.window_bytes

    def take_room_back(self) -> None:
        for stream in self.streams.values():
            stream.window.limit = self._context.settings.receive_buffer_bytes

    def agree(
        self,
        step: Step,
        message: NewView,
        origin: Origin | None,
        reason: ViewReason = ViewReason.SUSPECTED,
    ) -> None:
        """A view is agreed. Who is not in it is followed no longer, and may be again."""
        members = {seat.process for seat in message.seats}
        cut = set() if origin is None else {source for source, _ in origin.cut}
        if isinstance(self._presentation, ByTimestamp):
            self._presentation.agree(step, message, origin, reason)
        else:
            for source in sorted(cut - members):
                if source in self.streams and self.streams[source].silent:
                    left = source in message.leavers
                    self._end(step, self.streams[source], ViewReason.LEFT if left else ViewReason.AGREED)
        self._bury(step)

    def go_on(self, step: Step) -> None:
        """The view does not end yet."""
        if isinstance(self._presentation, ByTimestamp):
            self._presentation.go_on(step)
            self._bury(step)

    def go_on_with_own(self, step: Step) -> None:
        """A last word of this process may be with everybody now."""
        if isinstance(self._presentation, ByTimestamp):
            self._presentation.go_on_with_own(step)
            self._bury(step)

    def drain(self, step: Step) -> None:
        """The application has room again: deliver what waits for it."""
        stalled = self._presentation.resume(step)
        self._bury(step)
        if stalled:
            self._catch_up(step, self.streams)

    def _catch_up(self, step: Step, sources: Collection[ProcessId]) -> None:
        """There may be room again: ask for what had none, and say how far this process is."""
        for source in sorted(sources):
            stream = self._active(source)
            if stream is None:
                continue
            self.requesting.schedule(step, stream)
            if stream.crowded:
                self._crowded.add(source)
            elif stream.reported < stream.window.contiguous:
                self.reporting.schedule(step, stream)

    def _take_in(self, step: Step, stream: Stream, packet: DataPacket) -> tuple[bool, bool]:
        """Put messages into the stream's window and deliver what is in order.

        Says whether one had been missing, and whether one found no room.
        """
        self._repairing.keep(packet)
        if not stream.note_view(packet.messages[0].sequence, packet.messages[-1].sequence, packet.view):
            step.note(Reason.BUFFER_FULL)
            return False, False
        if self._presentation.pass_through(step, stream, packet):
            self.reporting.schedule(step, stream)
            return False, False
        filled = full = False
        if not stream.append(packet.messages):
            filled, full = self._fit_in(step, stream, packet)
        stream.settle_time()
        self._present_news(step, stream)
        self.requesting.schedule(step, stream)
        self.reporting.schedule(step, stream)
        return filled, full

    def _fit_in(self, step: Step, stream: Stream, packet: DataPacket) -> tuple[bool, bool]:
        """Put messages into the window one by one: something is missing, came twice or finds no room."""
        due, later = self.requesting.due(step, stream), step.now + self._context.settings.request_limit
        if stream.on_announced(packet.messages[0].sequence - 1, due):
            step.mark("gap")
        filled = False
        full = False
        for message in packet.messages:
            offer, missing = stream.on_message(message, due, later)
            filled = filled or (missing and offer is Offer.TAKEN)
            full = full or offer is Offer.FULL
        if full:
            step.note(Reason.BUFFER_FULL)
            step.mark("receive-buffer-full")
        return filled, full

    def _learn_end(self, step: Step, stream: Stream, sequence: int) -> None:
        """The source has sent up to `sequence`: what of that was not known to exist is missing."""
        if sequence > stream.window.highest and stream.on_announced(sequence, self.requesting.due(step, stream)):
            step.mark("gap-at-the-end")
            self.requesting.schedule(step, stream)

    def _active(self, source: ProcessId) -> Stream | None:
        """The stream of a source that is followed and has not ended."""
        stream = self.streams.get(source)
        return stream if stream is not None and stream.ending is None else None

    def _end(self, step: Step, stream: Stream, reason: ViewReason) -> None:
        """Nothing more comes of a source; what came in order is still delivered before it leaves the view."""
        delivers = self.ordered is not None and stream.in_view
        if (delivers or self._context.shares_view(stream.source)) and reason is not ViewReason.AGREED:
            if reason is not ViewReason.SILENT:
                self.lost.append((stream.source, reason))
            sends = self._context.role == "sender"
            if delivers or (self.ordered is not None and sends):  # the view decides where its messages end
                return
        stream.become_ending(reason)
        self._present_news(step, stream)

    def let_go(self, step: Step, source: ProcessId, reason: ViewReason) -> None:
        """Follow a source no longer that is in no view here any more; it may be followed anew."""
        stream = self._active(source)
        if stream is not None:
            stream.become_ending(reason)
            self._present_news(step, stream)

    def _present_news(self, step: Step, stream: Stream) -> None:
        self._presentation.on_news(step, stream)
        self._bury(step)

    def _bury(self, step: Step) -> None:
        """Follow no more whose last message was delivered; who had too little room may have it now."""
        if self._crowded:
            crowded = set(self._crowded)
            self._crowded.clear()
            self._catch_up(step, crowded)
        while self._presentation.over:
            stream, reason = self._presentation.over.pop(0)
            source = stream.source
            del self.streams[source]
            if reason in (
                ViewReason.AGREED,
                ViewReason.ONLY_RECEIVES,
            ):  # others may still lack what this process has of it up to the cut
                self._repairing.retire(source, step.now + self._context.settings.patience)
            else:
                self._repairing.forget(source)
            if reason in (ViewReason.LEFT, ViewReason.ONLY_RECEIVES, ViewReason.TOO_LARGE):
                self._context.tell(step, stream.address, Deactivation(source, stream.attempt))
            if reason in (ViewReason.LEFT, ViewReason.ONLY_RECEIVES):
                last = max(stream.window.highest, stream.window.next - 1)
                sequence = last if stream.farewell is None else stream.farewell
                self._departed[source] = Departure(stream.attempt, sequence, stream.passed)
                while len(self._departed) > DEPARTED_LIMIT:
                    del self._departed[next(iter(self._departed))]

    def _welcome_back(self, step: Step, source: ProcessId, sequence: int, timestamp: int) -> bool:
        """A source that had gone has sent beyond its farewell, or says later that it is not gone: it is back."""
        departed = self._departed.get(source)
        if departed is None or (sequence <= departed.sequence and timestamp <= departed.timestamp):
            return False
        del self._departed[source]
        step.mark("source-back")
        return True
