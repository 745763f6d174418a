"""The source's half: lets receivers in, repairs what they lack, forgets what all of them have.

A message is stable when every receiver that counts has reported it. Stability frees the window and lets more be sent.
"""

from __future__ import annotations

from unisono.engine import Address
from unisono.events import SendRefused
from unisono.identity import ProcessId
from unisono.intergroup.audience import LISTENER_LIMIT, Audience, Listener, Standing
from unisono.intergroup.context import Context
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.gathered import GatheredReports
from unisono.intergroup.hierarchy.aggregation import STABILITY
from unisono.intergroup.reasons import Reason
from unisono.intergroup.receiving import Receiving
from unisono.intergroup.sending import Sending
from unisono.reliable.step import Step
from unisono.trace.schema import MembershipRow
from unisono.units import SECOND
from unisono.wire.control_messages import Gathered
from unisono.wire.messages import (
    DIRECTLY,
    GATHERED,
    POLLED,
    ActivationGrant,
    ActivationRequest,
    Deactivation,
    LeftBehindNotice,
    RepairRequest,
    Report,
)

FRESHNESS = 2 * SECOND
"""Who reported by itself so lately is not expected in the sum of others."""
WELCOMES = 4
"""So often in a keep-alive interval the time is said early for receivers that come."""
INFORM_EVERY = 5
"""Keep-alive intervals after which one is sent whatever else was."""


class Speaking:
    """This process as a source."""

    __slots__ = (
        "_alive_at",
        "_asked",
        "_context",
        "_delivery",
        "_early_at",
        "_gathered",
        "_receiving",
        "_reporting",
        "_wanted",
        "audience",
        "leaving",
        "sending",
        "waits_for_view",
    )

    def __init__(self, context: Context, sending: Sending, delivery: Delivery, receiving: Receiving) -> None:
        self._context = context
        self._delivery = delivery
        self._receiving = receiving
        self._alive_at = 0
        self._early_at = 0
        self._wanted = 0
        self.waits_for_view = False
        self.sending = sending
        self.audience = Audience(context.process)
        self._gathered = GatheredReports()
        self._reporting = DIRECTLY
        self.leaving = False
        self._asked: dict[ProcessId, tuple[Address, ActivationRequest]] = {}
        """Who wants to be let in, while a message is on its way in parts."""

    @property
    def all_stable(self) -> bool:
        """Nothing waits to be sent and nothing that was sent is needed any more."""
        return not self.sending.waiting and self.sending.window.first is None

    def advance(self, step: Step) -> None:
        """Release what is stable and send what the window admits, until neither goes on."""
        sending = self.sending
        self._let_in(step)
        sending.pacing.receivers = len(self.audience)
        self._release(step)
        self.waits_for_view = bool(sending.waiting) and not self.leaving and not self._receiving.following.may_send
        if self.waits_for_view:
            return
        while sending.waiting and sending.has_room:
            at = sending.pacing.wait_until(step.now)
            if at > step.now:
                if not sending.paced:
                    step.mark("paced")
                sending.paced = True
                self._context.deadlines.set("pace", at)
                break
            sending.paced = False
            sending.note_moved(step)
            own = sending.flush(step)
            if not self.leaving:
                self._receiving.own_messages(step, own)
            self._let_in(step)
            self._release(step)
        sending.note_blocked(step)
        if self._context.settings.role == "sender":
            self._context.deadlines.set("keep-alive", sending.last_sent_at + self._context.settings.keep_alive)

    def become_leaving(self, step: Step) -> None:
        """Say farewell after everything that waits to be sent; a mere receiver was never heard and just goes."""
        self.leaving = True
        self._delivery.drop_own()
        if self.waits_for_view:  # no view will come any more
            for ticket in self.sending.drop_queue():
                step.deliver(SendRefused(ticket, Reason.NOT_MEMBER))
        if self._context.settings.role == "sender":
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
            if not self.sending.between_messages:
                self._asked[receiver] = address, message
                return
            if listener is not None:
                step.mark("activation-renewed")
            listener = self._admit(step, receiver, address, message)
        self.audience.note_ordered(receiver, message.ordered)
        listener.heard = step.now
        listener.address = address
        grant = ActivationGrant(
            receiver,
            message.attempt,
            listener.sequence,
            listener.number,
            listener.timestamp,
            self._context.settings.patience,
            self._context.keys.contribution(),
        )
        self._context.tell(step, address, grant)
        if message.ordered:
            rest = 0 if message.sender else self._context.settings.keep_alive // WELCOMES
            self.on_waited_for(step, self._context.clock.last, rest)

    def _let_in(self, step: Step) -> None:
        """No message is in the middle any more: whoever waits for that begins with the next one."""
        if self._asked and self.sending.between_messages:
            asked, self._asked = self._asked, {}
            for receiver, (address, message) in sorted(asked.items()):
                self.on_activation_request(step, receiver, address, message)

    def on_report(self, step: Step, receiver: ProcessId, address: Address, message: Report) -> None:
        for entry in message.entries:
            if entry.source != self._context.process:
                continue
            match self.audience.standing(receiver, entry.attempt, entry.received + 1):
                case Standing.UNKNOWN:
                    self._say_left_behind(step, receiver, address, entry.attempt)
                case Standing.STALE:
                    step.note(Reason.ATTEMPT_STALE)
                case Standing.COUNTED if entry.received > self.sending.last_sequence:
                    step.note(Reason.REPORT_AHEAD)
                case Standing.COUNTED:
                    if self.audience.on_progress(receiver, entry.received, step.now):
                        self.advance(step)

    def may_ask(self, step: Step, receiver: ProcessId, address: Address, message: RepairRequest) -> bool:
        """Whether a request for own messages is to be answered; who no longer counts is told so instead."""
        first = message.ranges[0][0]
        if message.attempt:
            match self.audience.standing(receiver, message.attempt, first):
                case Standing.UNKNOWN:
                    step.mark("repair-too-late")
                    self._say_left_behind(step, receiver, address, message.attempt)
                    return False
                case Standing.STALE:
                    step.note(Reason.ATTEMPT_STALE)
                    return False
        if first > self.sending.last_sequence:
            step.note(Reason.REQUEST_AHEAD)
            return False
        for low, high in message.ranges:
            self.sending.pacing.on_missed(step.now, low, min(high, self.sending.last_sequence))
        return True

    def keep_alive(self, step: Step) -> None:
        """Say that this process lives, how far it has sent and what is stable of it."""
        self._alive_at = step.now
        alive = self.sending.keep_alive(step, len(self.audience), self._reporting, self.leaving)
        self._context.broadcast(step, [alive])
        self._context.deadlines.set("keep-alive", step.now + self._context.settings.keep_alive)

    def keep_informed(self, step: Step) -> None:
        """Data says nothing of listeners and whereabouts: now and then a keep-alive goes out beside it."""
        if step.now - self._alive_at >= INFORM_EVERY * self._context.settings.keep_alive:
            self.keep_alive(step)

    def on_waited_for(self, step: Step, timestamp: int, rest: int = 0) -> None:
        """Somebody's order cannot pass this time before this process says that it has (000 4.8 waits for a timer).

        It says so at once, but no more often than its share of what all senders together may: see `early_keep_alives`.
        With `rest`, so long after the last time: of many receivers that come, one word lets all in.
        """
        if timestamp < self.sending.said or not self.audience.ordered:
            return
        most = self._context.settings.early_keep_alives
        if most and timestamp >= self._wanted:
            self._wanted = timestamp
            share = (len(self._receiving.following.streams) + 1) * SECOND // most
            self._context.deadlines.advance("early", max(step.now, self._early_at + max(share, rest)))

    def say_early(self, step: Step) -> None:
        """Say the time, if nothing that was sent meanwhile has said it."""
        if self._wanted >= self.sending.said:
            step.mark("early-keep-alive")
            self._early_at = step.now
            self.keep_alive(step)

    def on_deactivation(self, step: Step, receiver: ProcessId, message: Deactivation) -> None:
        asked = self._asked.get(receiver)
        if asked is not None and asked[1].attempt <= message.attempt:
            del self._asked[receiver]
        listener = self.audience.get(receiver)
        if listener is None or listener.attempt > message.attempt:
            step.note(Reason.ATTEMPT_STALE)
            return
        self.drop(step, receiver)

    def drop(self, step: Step, receiver: ProcessId) -> None:
        """A receiver no longer counts, by its own word or because that life of it is over."""
        self._asked.pop(receiver, None)
        self.audience.drop(receiver, step.now)
        self.advance(step)

    def on_gathered(self, step: Step, message: Gathered) -> None:
        """A coordinator reports for its receivers; it counts when together they are all who count."""
        if message.topic != STABILITY:
            step.note(Reason.NOT_OURS)
            return
        for summary in message.entries:
            if summary.source == self._context.process:
                self._gathered.take(message.origin, message.serial, summary, step.now)
        total = self._gathered.total(step.now)
        if total.value > self.sending.last_sequence:
            step.note(Reason.REPORT_AHEAD)
            return
        further = self.audience.on_gathered(total, step.now, FRESHNESS)
        if further is None:
            step.mark("sum-of-others")
        elif further:
            step.mark("gathered-report")
            self.advance(step)

    def _choose_reporting(self, step: Step) -> None:
        """Many receivers report through the hierarchy, if there is one; when one is missed, each for itself as well."""
        settings = self._context.settings
        if len(self.audience) <= settings.direct_reports or self._context.whereabouts is None:
            self._reporting = DIRECTLY
            return
        blocked = self.sending.blocked_since
        held_up = blocked is not None and step.now - blocked >= settings.patience // 2
        if held_up or self.audience.silent(step.now, settings.patience // 2):
            if self._reporting != POLLED:
                step.mark("receivers-polled")
            self._reporting = POLLED
        else:
            self._reporting = GATHERED

    def lose_patience(self, step: Step) -> None:
        """Leave behind who is silent, and who holds a full window back, for too long."""
        self._choose_reporting(step)
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

    def _why_ignore_request(self, listener: Listener | None, message: ActivationRequest) -> Reason | None:
        if self.leaving:
            return Reason.NOT_MEMBER
        if self._context.settings.role == "receiver":
            return Reason.ONLY_RECEIVES
        if not self._context.keys.accept(message.extension):
            return Reason.KEYS_REFUSED
        if listener is not None and listener.attempt > message.attempt:
            return Reason.ATTEMPT_STALE
        if listener is None and len(self.audience) + len(self._asked) >= LISTENER_LIMIT:
            return Reason.TOO_MANY_LISTENERS
        return None

    def _admit(self, step: Step, receiver: ProcessId, address: Address, message: ActivationRequest) -> Listener:
        sequence, number = boundary = self.sending.boundary()
        timestamp = self._context.clock.last
        sends, view = message.sender, message.view
        listener = Listener(address, message.attempt, message.ordered, sends, view, boundary, timestamp, step.now)
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
        if self.sending.window.first is None:
            return
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
        self.audience.drop(receiver, step.now)
        self._say_left_behind(step, receiver, listener.address, listener.attempt)

    def _say_left_behind(self, step: Step, receiver: ProcessId, address: Address, attempt: int) -> None:
        """A receiver no longer counts; if that is because of a view without it, it should know that first."""
        agreed = self._context.agreed
        if agreed is not None and agreed.seat(receiver) is None:
            self._context.tell(step, address, agreed.message)
        self._context.tell(step, address, LeftBehindNotice(receiver, attempt))
