"""The source's half: lets receivers in, repairs what they lack, forgets what all of them have.

A message is stable when every receiver that counts has reported it. Stability frees the window and lets more be sent.
"""

from __future__ import annotations

from unisono.engine import Address
from unisono.identity import ProcessId
from unisono.intergroup.audience import LISTENER_LIMIT, Audience, Listener, Standing
from unisono.intergroup.context import Context, repair_row
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.reasons import Reason
from unisono.intergroup.sending import Sending
from unisono.reliable.step import Step
from unisono.trace.schema import MembershipRow
from unisono.wire.messages import (
    ActivationGrant,
    ActivationRequest,
    Deactivation,
    LeftBehindNotice,
    RepairRequest,
    Report,
)

REPAIR_BURST_BYTES = 256 * 1024
"""The most that one request is answered with; the rest is asked for again."""


class Speaking:
    """This process as a source."""

    __slots__ = ("_context", "_delivery", "audience", "leaving", "sending")

    def __init__(self, context: Context, sending: Sending, delivery: Delivery) -> None:
        self._context = context
        self._delivery = delivery
        self.sending = sending
        self.audience = Audience()
        self.leaving = False

    @property
    def all_stable(self) -> bool:
        """Nothing waits to be sent and nothing that was sent is needed any more."""
        return not self.sending.waiting and self.sending.window.first is None

    def advance(self, step: Step) -> None:
        """Release what is stable and send what the window admits, until neither goes on."""
        sending = self.sending
        self._release(step)
        while sending.waiting and sending.has_room:
            sending.note_moved(step)
            own = sending.flush(step)
            if not self.leaving and (self._context.settings.service == "unordered" or self._listens_to_itself):
                self._delivery.own_messages(step, own)
            self._release(step)
        sending.note_blocked(step)
        self._context.deadlines.set("keep-alive", sending.last_sent_at + self._context.settings.keep_alive)

    def become_leaving(self, step: Step) -> None:
        """Say farewell after everything that waits to be sent."""
        self.leaving = True
        self._delivery.drop_own()
        self.sending.enqueue_farewell()
        self.advance(step)

    def on_activation_request(
        self, step: Step, receiver: ProcessId, address: Address, message: ActivationRequest
    ) -> None:
        listener = self.audience.get(receiver)
        ignore = self._why_ignore_request(listener, message)
        if ignore is not None:
            step.note(ignore)
            return
        if listener is None or listener.attempt < message.attempt:
            if listener is not None:
                step.mark("activation-renewed")
            listener = self._admit(step, receiver, address, message.attempt)
        listener.heard = step.now
        listener.address = address
        extension = self._context.keys.contribution()
        patience = self._context.settings.patience
        grant = ActivationGrant(receiver, message.attempt, listener.sequence, listener.number, patience, extension)
        self._context.tell(step, address, grant)

    def on_report(self, step: Step, receiver: ProcessId, address: Address, message: Report) -> None:
        for entry in message.entries:
            if entry.source != self._context.process:
                continue
            match self.audience.standing(receiver, entry.attempt, entry.received + 1):
                case Standing.UNKNOWN:
                    self._context.tell(step, address, LeftBehindNotice(receiver, entry.attempt))
                case Standing.STALE:
                    step.note(Reason.ATTEMPT_STALE)
                case Standing.COUNTED if entry.received > self.sending.last_sequence:
                    step.note(Reason.REPORT_AHEAD)
                case Standing.COUNTED:
                    if self.audience.on_progress(receiver, entry.received, step.now):
                        self.advance(step)

    def on_repair_request(self, step: Step, receiver: ProcessId, address: Address, message: RepairRequest) -> None:
        first = min(low for low, _ in message.ranges)
        match self.audience.standing(receiver, message.attempt, first):
            case Standing.UNKNOWN:
                step.mark("repair-too-late")
                self._context.tell(step, address, LeftBehindNotice(receiver, message.attempt))
                return
            case Standing.STALE:
                step.note(Reason.ATTEMPT_STALE)
                return
        if first > self.sending.last_sequence:
            step.note(Reason.REQUEST_AHEAD)
            return
        found = self.sending.window.find(message.ranges, REPAIR_BURST_BYTES)
        if not found:
            step.note(Reason.REQUEST_STALE)
        for low, high, datagram in found:
            step.record(repair_row("RTX", self._context.process, low, high, receiver.name))
            step.send(address, self._context.writer.repair(datagram), self._context.settings.scope)

    def on_deactivation(self, step: Step, receiver: ProcessId, message: Deactivation) -> None:
        listener = self.audience.get(receiver)
        if listener is None or listener.attempt > message.attempt:
            step.note(Reason.ATTEMPT_STALE)
            return
        self.drop(step, receiver)

    def drop(self, step: Step, receiver: ProcessId) -> None:
        """A receiver no longer counts, by its own word or because that life of it is over."""
        self.audience.drop(receiver)
        self.advance(step)

    def lose_patience(self, step: Step) -> None:
        """Leave behind who is silent, and who holds a full window back, for too long."""
        patience = self._context.settings.patience
        for receiver in self.audience.silent(step.now, patience):
            self._leave_behind(step, receiver, "left-behind-silent")
        blocked_since = self.sending.blocked_since
        if blocked_since is not None and self._delivery.oldest_own is not None:
            self.sending.blocked_since = step.now  # the own application holds the window, and nobody else is to blame
        elif blocked_since is not None:
            last_sent = self.sending.last_sequence
            for receiver in self.audience.holding_back(step.now, patience, blocked_since, last_sent):
                self._leave_behind(step, receiver, "left-behind-slow")
        self.advance(step)

    @property
    def _listens_to_itself(self) -> bool:
        return self._context.wants(self._context.process.name)

    def _why_ignore_request(self, listener: Listener | None, message: ActivationRequest) -> Reason | None:
        if self.leaving:
            return Reason.NOT_MEMBER
        if not self._context.keys.accept(message.extension):
            return Reason.KEYS_REFUSED
        if listener is not None and listener.attempt > message.attempt:
            return Reason.ATTEMPT_STALE
        if listener is None and len(self.audience) >= LISTENER_LIMIT:
            return Reason.TOO_MANY_LISTENERS
        return None

    def _admit(self, step: Step, receiver: ProcessId, address: Address, attempt: int) -> Listener:
        sequence, number = self.sending.boundary()
        listener = Listener(address, attempt, sequence, number, step.now)
        self.audience.admit(receiver, listener)
        step.record(
            MembershipRow(
                kind="GRANT",
                peer=receiver.name,
                peer_incarnation=receiver.incarnation,
                sequence=sequence,
                number=number,
            )
        )
        return listener

    def _release(self, step: Step) -> None:
        stable = self.audience.stable(self.sending.last_sequence)
        own = self._delivery.oldest_own
        self.sending.release(step, min(stable, own.sequence - 1) if own else stable)

    def _leave_behind(self, step: Step, receiver: ProcessId, mark: str) -> None:
        listener = self.audience.get(receiver)
        assert listener is not None, "only those who count are left behind"
        step.mark(mark)
        step.record(
            MembershipRow(kind="SUSPECT", peer=receiver.name, peer_incarnation=receiver.incarnation, reason=mark)
        )
        self.audience.drop(receiver)
        self._context.tell(step, listener.address, LeftBehindNotice(receiver, listener.attempt))
