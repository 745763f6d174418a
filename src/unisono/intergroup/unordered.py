"""Unreliable unordered delivery (000 4.6): what comes is handed on, as it comes, while the application keeps up."""

from __future__ import annotations

from unisono.identity import ProcessId
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.reasons import Reason
from unisono.reliable.fragments import ScatteredAssembly
from unisono.reliable.step import Step
from unisono.reliable.windows import MESSAGE_OVERHEAD_BYTES
from unisono.wire.messages import FRAGMENT, LEAVE, DataMessage, DataPacket


class Unordered:
    """This process as a receiver that is promised nothing but whole messages."""

    __slots__ = ("_delivery", "scattered")

    def __init__(self, delivery: Delivery, message_limit: int) -> None:
        self._delivery = delivery
        self.scattered = ScatteredAssembly(message_limit + MESSAGE_OVERHEAD_BYTES)

    def on_data(self, step: Step, packet: DataPacket) -> None:
        for message in packet.messages:
            if message.flags & LEAVE:
                continue
            if not self._delivery.has_room:
                step.note(Reason.APPLICATION_SLOW)
                continue
            whole = self._assemble(step, packet.source, message) if message.flags & FRAGMENT else message
            if whole is not None:
                self._delivery.message(
                    step, packet.source, whole.sequence, whole.number, whole.timestamp, whole.payload
                )

    def on_time(self, step: Step, patience: int) -> None:
        """Give up messages that have waited for a fragment for longer than patience."""
        self.scattered.expire(step.now - patience)
        self._mark_given_up(step)

    def forget(self, source: ProcessId) -> None:
        self.scattered.forget(source)

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
