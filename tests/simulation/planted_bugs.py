"""Bugs to plant in the engine: each is a change of one method that a tired engineer could make.

Every one names the scenario in which it must come to light and the properties of which at least one must be violated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from unisono.engine import Address
from unisono.identity import ProcessId
from unisono.intergroup.audience import Audience
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.following import Following
from unisono.intergroup.sending import Sending
from unisono.intergroup.speaking import Speaking
from unisono.intergroup.stream import Stream
from unisono.reliable.fragments import OrderedAssembly
from unisono.reliable.step import Step
from unisono.reliable.tickets import Tickets
from unisono.reliable.windows import ReceiveWindow, SendWindow
from unisono.sealing import NullSeal
from unisono.wire.messages import ActivationGrant, DataMessage, DataPacket, KeepAlive, LeftBehindNotice

Plant = Callable[[pytest.MonkeyPatch], None]


class PlantedBug(NamedTuple):
    """One bug: how to plant it, where it shows, and as what."""

    name: str
    plant: Plant
    scenario: str
    properties: frozenset[str]


def _bug(name: str, scenario: str, *properties: str) -> Callable[[Plant], PlantedBug]:
    return lambda plant: PlantedBug(name, plant, scenario, frozenset(properties))


@_bug("a gap between data packets is not seen", "loss", "L2")
def gap_not_seen(patch: pytest.MonkeyPatch) -> None:
    def on_announced(self: Stream, sequence: int, due: int) -> bool:
        self.window.announce(sequence)
        return False

    patch.setattr(Stream, "on_announced", on_announced)


@_bug("a keep-alive stands in for data that is missing (erratum E3)", "loss", "O2", "L2")
def keep_alive_past_gap(patch: pytest.MonkeyPatch) -> None:
    original = Following.on_keep_alive

    def on_keep_alive(self: Following, step: Step, source: ProcessId, address: Address, message: KeepAlive) -> None:
        original(self, step, source, address, message)
        stream = self.streams.get(source)
        if stream is not None and message.sequence >= stream.window.next:
            stream.window = ReceiveWindow(message.sequence + 1, stream.window.limit)

    patch.setattr(Following, "on_keep_alive", on_keep_alive)


@_bug("a repair is delivered although the message had come", "loss", "D2")
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


@_bug("the activation point is off by one (erratum E5)", "loss", "O2")
def activation_off_by_one(patch: pytest.MonkeyPatch) -> None:
    original = Following.on_activation_grant

    def on_activation_grant(
        self: Following, step: Step, source: ProcessId, address: Address, message: ActivationGrant
    ) -> None:
        original(self, step, source, address, message)
        if source in self.streams:
            self.streams[source].window = ReceiveWindow(message.sequence + 1, 1 << 20)

    patch.setattr(Following, "on_activation_grant", on_activation_grant)


@_bug("messages are released before all receivers have them", "loss", "L2")
def released_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Audience, "stable", lambda self, last_sent: last_sent)


@_bug("a repair request is never repeated (erratum E20)", "loss", "L2")
def request_not_repeated(patch: pytest.MonkeyPatch) -> None:
    original = Tickets.ask

    def ask(self: Tickets, *arguments: int) -> Any:
        asked = original(self, *arguments)
        for ticket in self._tickets:
            if ticket.tries:
                ticket.due = 1 << 62
        return asked

    patch.setattr(Tickets, "ask", ask)


@_bug("messages are delivered as they come, not in order", "loss", "O1", "O2")
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


@_bug("no keep-alive after the last message", "last message", "L2")
def no_keep_alive(patch: pytest.MonkeyPatch) -> None:
    original = Sending.keep_alive

    def keep_alive(self: Sending, step: Step, listeners: int, reporting: int) -> KeepAlive:
        return replace(original(self, step, listeners, reporting), sequence=0)

    patch.setattr(Sending, "keep_alive", keep_alive)


@_bug("the incarnation is the same in every life (erratum E9)", "restarts", "D1", "D2", "O1", "O2")
def same_incarnation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("unisono.node.new_incarnation", lambda wall, entropy, last: 7)


@_bug("the first fragment of a message is lost in assembly", "fragments", "D1")
def fragment_lost(patch: pytest.MonkeyPatch) -> None:
    original = OrderedAssembly.add

    def add(self: OrderedAssembly, fragment: DataMessage) -> bytes | None:
        whole = original(self, fragment)
        return whole if whole is None else whole[100:]

    patch.setattr(OrderedAssembly, "add", add)


@_bug("a receiver may begin in the middle of a message", "fragments", "O2", "D1", "L2")
def begins_inside_a_message(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sending, "boundary", lambda self: (self.last_sequence + 1, self.last_number + 1))


@_bug("the send window has no limit", "stopped reader", "L7")
def no_window(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SendWindow, "has_room", lambda self, size: True)


@_bug("a receiver that was left behind goes on without telling", "cut off", "O2")
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


@_bug("no view is installed when a source is activated", "loss", "O2", "M3")
def view_not_installed(patch: pytest.MonkeyPatch) -> None:
    original = Following._install

    def install(self: Following, step: Step, reasons: Any) -> None:
        if not self.streams:
            original(self, step, reasons)

    patch.setattr(Following, "_install", install)


@_bug("damaged datagrams are opened", "corruption", "D1", "O1", "O2", "L2", "M3")
def seal_not_checked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NullSeal, "open", lambda self, sealed: sealed[:-8])


@_bug("delivery does not go on when the application reads again", "stopped reader", "L2", "L6")
def reader_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Following, "drain", lambda self, step: None)


@_bug("fragments are numbered like messages", "fragments", "D1", "O2")
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


@_bug("a silent receiver is waited for for ever", "crash for good", "L2", "L6")
def endless_patience(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Speaking, "lose_patience", lambda self, step: None)


PLANTED = [item for item in list(globals().values()) if isinstance(item, PlantedBug)]
