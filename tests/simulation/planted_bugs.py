"""Bugs to plant in the engine: each is a change of one method that a tired engineer could make.

Every one names the scenario in which it must come to light and the properties of which at least one must be violated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from unisono.clock import LamportClock
from unisono.engine import Address
from unisono.identity import ProcessId
from unisono.intergroup.audience import Audience
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.following import Following
from unisono.intergroup.framed import Framed
from unisono.intergroup.gathered import GatheredReports, Total
from unisono.intergroup.latest import SourceLatest, TimestampLatest
from unisono.intergroup.presenting import BySource
from unisono.intergroup.receiving import Receiving
from unisono.intergroup.sending import Sending
from unisono.intergroup.speaking import Speaking
from unisono.intergroup.stream import Stream
from unisono.intergroup.timestamp_order import Key, TimestampOrder
from unisono.intergroup.unordered import Unordered
from unisono.interleaving import Interleaving
from unisono.reliable.fragments import OrderedAssembly
from unisono.reliable.gaps import Gaps
from unisono.reliable.holding import Holding
from unisono.reliable.step import Step
from unisono.reliable.suppression import RequestTiming
from unisono.reliable.tickets import Tickets
from unisono.reliable.windows import ReceiveWindow, SendWindow
from unisono.sealing import NullSeal
from unisono.units import MILLISECOND
from unisono.wire.messages import ActivationGrant, DataMessage, DataPacket, KeepAlive, LeftBehindNotice

ASSERTION = "assertion"
"""What a bug is named by that no property sees, because the applications do not: an assertion fails."""

Plant = Callable[[pytest.MonkeyPatch], None]


class PlantedBug(NamedTuple):
    """One bug: how to plant it, where it shows, and as what."""

    name: str
    plant: Plant
    scenario: str
    properties: frozenset[str]


def planted_bug(name: str, scenario: str, *properties: str) -> Callable[[Plant], PlantedBug]:
    return lambda plant: PlantedBug(name, plant, scenario, frozenset(properties))


@planted_bug("a gap between data packets is not seen", "loss", "L2")
def gap_not_seen(patch: pytest.MonkeyPatch) -> None:
    def announce(self: Gaps, sequence: int, due: int, horizon: int) -> bool:
        self._window.announce(sequence)
        return False

    patch.setattr(Gaps, "announce", announce)
    patch.setattr(Gaps, "look_further", lambda self, due, horizon: None)


@planted_bug("a keep-alive stands in for data that is missing (erratum E3)", "loss", "O2", "L2")
def keep_alive_past_gap(patch: pytest.MonkeyPatch) -> None:
    original = Following.on_keep_alive

    def on_keep_alive(self: Following, step: Step, source: ProcessId, address: Address, message: KeepAlive) -> None:
        original(self, step, source, address, message)
        stream = self.streams.get(source)
        if stream is not None and message.sequence >= stream.window.next:
            stream.window = ReceiveWindow(message.sequence + 1, stream.window.limit)
            stream.gaps = Gaps(stream.window)

    patch.setattr(Following, "on_keep_alive", on_keep_alive)


@planted_bug("a repair is delivered although the message had come", "loss", "D2")
def repair_twice(patch: pytest.MonkeyPatch) -> None:
    original = Following.on_repair

    def on_repair(self: Following, step: Step, packet: DataPacket) -> None:
        original(self, step, packet)
        for message in packet.messages:
            if packet.source in self.streams and message.sequence < self.streams[packet.source].window.next:
                self._delivery.message(
                    step, packet.source, message.sequence, message.number, message.timestamp, message.payload
                )

    patch.setattr(Following, "on_repair", on_repair)


@planted_bug("the activation point is off by one (erratum E5)", "loss", "O2")
def activation_off_by_one(patch: pytest.MonkeyPatch) -> None:
    original = Following.on_activation_grant

    def on_activation_grant(
        self: Following, step: Step, source: ProcessId, address: Address, message: ActivationGrant
    ) -> None:
        original(self, step, source, address, message)
        if source in self.streams:
            self.streams[source].window = ReceiveWindow(message.sequence + 1, 1 << 20)

    patch.setattr(Following, "on_activation_grant", on_activation_grant)


@planted_bug("messages are released before all receivers have them", "loss", "L2")
def released_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Audience, "stable", lambda self, last_sent: last_sent)


@planted_bug("a repair request is never repeated (erratum E20)", "loss", "L2")
def request_not_repeated(patch: pytest.MonkeyPatch) -> None:
    original = Tickets.request

    def request(self: Tickets, *arguments: Any) -> Any:
        asked = original(self, *arguments)
        for ticket in self._tickets:
            if ticket.tries:
                ticket.due = ticket.quiet = 1 << 62
        self._within = -1
        return asked

    patch.setattr(Tickets, "request", request)


@planted_bug("messages are delivered as they come, not in order", "loss", "O1", "O2")
def out_of_order(patch: pytest.MonkeyPatch) -> None:
    original = ReceiveWindow.take

    def take(self: ReceiveWindow) -> DataMessage | None:
        message = original(self)
        if message is None and self._early:
            sequence = self._early_order.pop()
            message = self._early.pop(sequence)
            self.next = self.contiguous = sequence + 1
        return message

    patch.setattr(ReceiveWindow, "take", take)


@planted_bug("no keep-alive after the last message", "last message", "L2")
def no_keep_alive(patch: pytest.MonkeyPatch) -> None:
    original = Sending.keep_alive

    def keep_alive(self: Sending, step: Step, listeners: int, reporting: int, leaving: bool) -> KeepAlive:
        return replace(original(self, step, listeners, reporting, leaving), sequence=0)

    patch.setattr(Sending, "keep_alive", keep_alive)


@planted_bug("the incarnation is the same in every life (erratum E9)", "restarts", "D1", "D2", "O1", "O2")
def same_incarnation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("unisono.node.new_incarnation", lambda wall, entropy, last: 7)


@planted_bug("the first fragment of a message is lost in assembly", "fragments", "D1")
def fragment_lost(patch: pytest.MonkeyPatch) -> None:
    original = OrderedAssembly.add

    def add(self: OrderedAssembly, fragment: DataMessage) -> bytes | None:
        whole = original(self, fragment)
        return whole if whole is None else whole[100:]

    patch.setattr(OrderedAssembly, "add", add)


@planted_bug("a receiver may begin in the middle of a message", "fragments", "O2", "D1", "L2")
def begins_inside_a_message(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sending, "between_messages", property(lambda self: True))


@planted_bug("the send window has no limit", "stopped reader", "L7")
def no_window(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SendWindow, "has_room", lambda self, size, allowed: True)


@planted_bug("a receiver that was left behind goes on without telling", "cut off", "O2")
def left_behind_silently(patch: pytest.MonkeyPatch) -> None:
    def on_left_behind(self: Following, step: Step, source: ProcessId, message: LeftBehindNotice) -> None:
        stream = self.streams.pop(source, None)
        if stream is not None:
            self.consider(step, source, stream.address)

    def install(self: Delivery, step: Step, start: Any, reasons: Any) -> None:
        if self.view is None or len(start) > len(self.view.members):
            original_install(self, step, start, reasons)

    original_install = Delivery.install
    patch.setattr(Following, "on_left_behind", on_left_behind)
    patch.setattr(Delivery, "install", install)


@planted_bug("no view is installed when a source is activated", "loss", "O2", "M3")
def view_not_installed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BySource, "add", lambda self, step, stream: setattr(stream, "in_view", not stream.silent))


@planted_bug("damaged datagrams are opened", "corruption", "D1", "O1", "O2", "L2", "M3")
def seal_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NullSeal, "open", lambda self, sealed: sealed[:-8])


@planted_bug("delivery does not go on when the application reads again", "stopped reader", "L2", "L6")
def reader_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Following, "drain", lambda self, step: None)


@planted_bug("fragments are numbered like messages", "fragments", "D1", "O2")
def fragments_numbered(patch: pytest.MonkeyPatch) -> None:
    original = Stream.next_message

    def next_message(self: Stream) -> DataMessage | None:
        message = original(self)
        if message is None or message.count == 1:
            return message
        return DataMessage(
            message.sequence,
            message.number + message.index,
            message.timestamp,
            message.flags,
            message.index,
            message.count,
            message.payload,
        )

    patch.setattr(Stream, "next_message", next_message)


@planted_bug("a silent receiver is waited for for ever", "crash for good", "L2", "L6")
def endless_patience(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Speaking, "lose_patience", lambda self, step: None)


@planted_bug("a keep-alive beyond a gap moves the time of its source (erratum E3)", "timestamp order", "O6", "O7")
def time_past_gap(patch: pytest.MonkeyPatch) -> None:
    def settle_time(self: Stream) -> None:
        self.reached = max(self.reached, self._announced[1])

    patch.setattr(Stream, "settle_time", settle_time)


@planted_bug("a keep-alive raises the key of a message that waits (erratum E4)", "timestamp order", "O6")
def key_raised(patch: pytest.MonkeyPatch) -> None:
    original = Stream.front.fget  # type: ignore[attr-defined]  # a property

    def front(self: Stream) -> tuple[int, int]:
        timestamp, waits = original(self)
        return max(timestamp, self.reached), waits

    patch.setattr(Stream, "front", property(front))


@planted_bug("timestamp order does not wait for who is silent", "timestamp order", "O6", "O7")
def silent_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    original = TimestampOrder.first

    def first(self: TimestampOrder) -> tuple[Key, Stream] | None:
        found = original(self)
        ready = [stream for stream in self._streams.values() if stream.front[1] == 0]
        if found is None or not found[0][1] or not ready:
            return found
        stream = min(ready, key=lambda stream: (*stream.front, stream.source))
        return (*stream.front, stream.source), stream

    patch.setattr(TimestampOrder, "first", first)


@planted_bug("clocks do not follow what they hear of", "timestamp order with newcomers", "O3", "O6", "O7")
def clock_deaf(patch: pytest.MonkeyPatch) -> None:
    original = LamportClock._begin

    def begin(self: LamportClock, now: int, wall: int) -> int:
        return original(self, now, wall - (now % 7) * 300 * MILLISECOND)

    patch.setattr(LamportClock, "_begin", begin)
    patch.setattr(LamportClock, "observe", lambda self, timestamp, now, wall: True)


@planted_bug("a keep-alive promises a time that has not come", "timestamp order", "O6", "O7")
def time_promised(patch: pytest.MonkeyPatch) -> None:
    original = Sending.keep_alive

    def keep_alive(self: Sending, step: Step, listeners: int, reporting: int, leaving: bool) -> KeepAlive:
        said = original(self, step, listeners, reporting, leaving)
        return replace(said, timestamp=said.timestamp + 100 * MILLISECOND)

    patch.setattr(Sending, "keep_alive", keep_alive)


@planted_bug("what waits is dropped when the service changes", "changing services", "O2", "L2")
def change_drops(patch: pytest.MonkeyPatch) -> None:
    original = Receiving.change

    def change(self: Receiving, step: Step, service: Any, sources: Any) -> None:
        for stream in self.following.streams.values():
            while stream.next_message() is not None:
                pass
            stream.window.next += 1
            stream.next_number += 1
        original(self, step, service, sources)

    patch.setattr(Receiving, "change", change)


@planted_bug("what was overtaken is delivered all the same", "latest of each source", "O1")
def overtaken_delivered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SourceLatest, "take", Unordered.take)


@planted_bug("timestamp-latest holds nothing", "latest of all", "O6")
def nothing_held(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TimestampLatest, "take", Unordered.take)


@planted_bug("a framed receiver takes what it has a second time", "framed", "D2")
def framed_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Framed, "take", Unordered.take)


@planted_bug("one group does not wait for the other", "two groups in one order", "O6")
def groups_apart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Interleaving, "hold", lambda self, effects: effects)


@planted_bug("nothing that was sent is ever released", "loss", "L4")
def never_released(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sending, "release", lambda self, step, stable: None)


@planted_bug("copies for repair are kept without a limit", "stopped reader", "L7")
def holds_everything(patch: pytest.MonkeyPatch) -> None:
    def keep(self: Holding, first: int, last: int, datagram: bytes) -> None:
        self.bytes += len(datagram)
        self.high_water = max(self.high_water, self.bytes)

    patch.setattr(Holding, "keep", keep)
    patch.setattr(Holding, "release", lambda self, stable: None)


@planted_bug("everybody asks at once, and again", "many receivers", "L8")
def no_suppression(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RequestTiming, "delay", lambda self, *arguments: 0)
    patch.setattr(Tickets, "heard", lambda self, ranges, *arguments: [False] * len(ranges))


@planted_bug("a sum counts whoever is in it (erratum E7)", "gathered reports", "D8", "L2", "O2")
def any_sum(patch: pytest.MonkeyPatch) -> None:
    def on_gathered(self: Audience, total: Total, now: int, freshness: int) -> bool | None:
        for listener in self._listeners.values():
            listener.heard = now
            self._progress(listener, total.value, now)
        return True

    patch.setattr(Audience, "on_gathered", on_gathered)
    patch.setattr(GatheredReports, "total", _newest_word)


def _newest_word(self: GatheredReports, now: int) -> Total:
    word = max(self._words.values(), key=lambda word: word.summary.value)
    return Total(word.summary.value, word.summary.count, word.summary.fingerprint)


PLANTED = [item for item in list(globals().values()) if isinstance(item, PlantedBug)]
