"""What receivers share that take what comes: whole messages, and no promise that one comes at all."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.identity import ProcessId, StartPoint
from unisono.intergroup.context import Context
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.reasons import Reason
from unisono.intergroup.sending import OwnMessage
from unisono.reliable.fragments import ScatteredAssembly
from unisono.reliable.step import Step
from unisono.reliable.windows import MESSAGE_OVERHEAD_BYTES
from unisono.wire.messages import CHANGE, FRAGMENT, LEAVE, DataMessage, DataPacket, KeepAlive


class CasualReceiver:
    """Puts fragments together and hands whole messages to `take`, while the application keeps up."""

    __slots__ = ("_context", "_delivery", "scattered", "taken")

    def __init__(self, context: Context, delivery: Delivery) -> None:
        self._context = context
        self._delivery = delivery
        self.taken: dict[ProcessId, StartPoint] = {}
        """Where each source goes on after the latest message of it that came whole."""
        self.scattered = ScatteredAssembly(context.settings.message_limit_bytes + MESSAGE_OVERHEAD_BYTES)

    def on_data(self, step: Step, packet: DataPacket) -> None:
        for message in packet.messages:
            self.admit(step, packet.source, message)

    def admit(self, step: Step, source: ProcessId, message: DataMessage) -> bool:
        """A message or a fragment has come; False when it is dropped because the application is slow."""
        if message.flags & (LEAVE | CHANGE):
            return True
        if not self._delivery.has_room:
            step.note(Reason.APPLICATION_SLOW)
            return False
        whole = self._assemble(step, source, message) if message.flags & FRAGMENT else message
        if whole is not None:
            point = StartPoint(source, whole.sequence + 1, whole.number + 1)
            self.taken[source] = max(self.taken.get(source, point), point)
            self.take(step, source, whole)
        return True

    def take(self, step: Step, source: ProcessId, message: DataMessage) -> None:
        """A whole message has come."""
        self._delivery.whole(step, source, message, message.payload)

    def own_messages(self, step: Step, messages: Sequence[OwnMessage]) -> None:
        self._delivery.own_messages(step, messages)

    def on_keep_alive(self, step: Step, source: ProcessId, message: KeepAlive) -> None:
        """Nothing follows from it here."""

    def on_time(self, step: Step) -> None:
        """Give up messages that have waited for a fragment for longer than patience."""
        self.scattered.expire(step.now - self._context.settings.patience)
        self._mark_given_up(step)

    def forget(self, source: ProcessId) -> None:
        self.scattered.forget(source)
        self.taken.pop(source, None)

    def _assemble(self, step: Step, source: ProcessId, fragment: DataMessage) -> DataMessage | None:
        whole = self.scattered.add(source, fragment, step.now)
        self._mark_given_up(step)
        if whole is not None:
            step.mark("fragmented")
        return whole

    def _mark_given_up(self, step: Step) -> None:
        if self.scattered.given_up:
            step.mark("fragments-given-up")
            self.scattered.given_up = 0
