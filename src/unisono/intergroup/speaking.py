"""The source's half: lets receivers in, repairs what they lack, forgets what all of them have.

A message is stable when every receiver that counts has reported it. Stability frees the window and lets more be sent.
"""

from __future__ import annotations

from typing import NamedTuple

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
TERM_INTERVALS = 3
"""For so many keep-alive intervals who became a sender keeps its messages for those who have not heard of it yet."""
WELCOMES = 4
"""So often in a keep-alive interval the time is said early for receivers that come."""
INFORM_EVERY = 5
"""Keep-alive intervals after which one is sent whatever else was."""
LONE_SHARE = 8
"""Who hears nobody rests between two keep-alives for one part in so many of the time it has been alone."""


class Term(NamedTuple):
    """What is kept for latecomers: all since this process became a sender, or said that another one is."""

    sequence: int
    number: int
    timestamp: int
    until: int
    own: bool = True
    """Whether this process became a sender with it."""


class Speaking:
    """This process as a source."""

    __slots__ = (
        "_alive_at",
        "_alone_since",
        "_asked",
        "_context",
        "_delivery",
        "_early_at",
        "_gathered",
        "_lingers",
        "_receiving",
        "_released",
        "_reporting",
        "_term",
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
        self._alone_since: int | None = None
        self._early_at = 0
        self._wanted = 0
        self.waits_for_view = False
        self.sending = sending
        self.audience = Audience(context.process)
        self._gathered = GatheredReports()
        self._reporting = DIRECTLY
        self.leaving = False
        self._lingers = False
        """This process only receives, and somebody may still lack what it sent."""
        self._term: Term | None = None
        self._released: dict[ProcessId, Listener] = {}
        """Receivers that had everything when this process fell silent, or was to send again; none of them counts."""
        self._asked: dict[ProcessId, tuple[Address, ActivationRequest]] = {}
        """Who wants to be let in, while a message is on its way in parts."""

    @property
    def all_stable(self) -> bool:
        """Nothing waits to be sent and nothing that was sent is needed any more."""
        return not self.sending.waiting and self.sending.window.first is None

    @property
    def is_busy(self) -> bool:
        """Whether somebody counts, or something waits or was sent that no keep-alive has followed yet."""
        return bool(len(self.audience)) or not self.all_stable or self.sending.last_sent_at > self._alive_at

    def advance(self, step: Step) -> None:
        """Release what is stable and send what the window admits, until neither goes on."""
        sending = self.sending
        self._let_in(step)
        sending.pacing.receivers = len(self.audience)
        self._release(step)
        self.waits_for_view = bool(sending.waiting) and not self.leaving and not self._receiving.following.may_send
        if self.waits_for_view:
            sending.blocked.note("view", step.now)
            return
        while sending.waiting and sending.has_room and not sending.paused:
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
        if self._context.role == "sender" or self._context.turns or self._lingers:
            self._context.deadlines.set("keep-alive", self._next_keep_alive(sending.last_sent_at, step.now))

    @property
    def term_ends(self) -> int:
        """Until then this process keeps all that it sent since it became a sender."""
        return self._term.until if self._term is not None and self._term.own else 0

    @property
    def _is_new(self) -> bool:
        """Whether this process has sent nothing yet of what it is to keep."""
        return self._term is not None and self.sending.last_sequence < self._term.sequence

    @property
    def _has_whole_term(self) -> bool:
        """Whether all that is to be kept for latecomers still is: who comes begins with it."""
        term, first = self._term, self.sending.window.first
        return term is not None and (self._is_new or (first is not None and first <= term.sequence))

    @property
    def _has_said_last(self) -> bool:
        """Whether this process has said its last word as a sender, and is one until all have that."""
        return self.sending.paused and not self._context.turns

    def begin_term(self, step: Step) -> None:
        """This process is a sender from here on: who asks soon gets everything from here on."""
        self._lingers = False
        self._keep_from_here(step, own=True)

    def keep_for_latecomers(self, step: Step) -> None:
        """A word of who sends comes next: who follows soon gets it, as the view that it was told may be older."""
        if self._term is None and self.sending.between_messages:
            self._keep_from_here(step, own=False)

    def _keep_from_here(self, step: Step, own: bool) -> None:
        until = step.now + TERM_INTERVALS * self._context.settings.keep_alive
        self._term = Term(*self.sending.boundary(), self._context.clock.last, until, own)

    def fall_silent(self, step: Step) -> None:
        """This process only receives from here on; it stays to repair what receivers lack, and then says no more."""
        self._term = None
        self._lingers = True
        self._release(step)

    def speak_again(self, step: Step) -> None:
        """This process is to be a sender again, before all have let it go: who has what it sent until now is to follow
        it anew. A member that has not come to its last word yet would throw away what comes after that."""
        if self._lingers:
            self._released = self.audience.clear(step.now, self.sending.last_sequence)

    def _go(self, step: Step) -> None:
        """Everybody has what this process sent as a sender."""
        self._lingers = False
        self._context.broadcast(step, [self.sending.keep_alive(step, 0, DIRECTLY, leaving=True)])
        self._context.deadlines.clear("keep-alive")
        self._released = self.audience.clear(step.now)

    def become_leaving(self, step: Step) -> None:
        """Say farewell after everything that waits to be sent; a mere receiver was never heard and just goes."""
        self.leaving = True
        self._delivery.drop_own()
        if self.waits_for_view:  # no view will come any more
            for ticket in self.sending.drop_queue():
                step.deliver(SendRefused(ticket, Reason.NOT_MEMBER))
        if self._context.role == "sender":
            self.sending.enqueue_farewell()
        self.advance(step)

    def on_activation_request(
        self, step: Step, receiver: ProcessId, address: Address, message: ActivationRequest
    ) -> None:
        listener = self.audience.get(receiver)
        if self._has_said_last and listener is not None and listener.attempt < message.attempt:
            self.drop(step, receiver)  # it began anew, and would begin after the last word
            listener = None
        ignore = self._why_ignore_request(listener, message)
        if ignore is not None:
            step.note(ignore)
            return
        if listener is None or listener.attempt < message.attempt:
            if not self.sending.between_messages and not self._has_whole_term:
                self._asked[receiver] = address, message
                return
            if listener is not None:
                step.mark("activation-renewed")
            listener = self._admit(step, receiver, address, message)
        self.audience.note_ordered(receiver, message.ordered)
        listener.sends = message.sender
        listener.heard = step.now
        listener.address = address
        grant = ActivationGrant(
            receiver,
            message.attempt,
            listener.sequence,
            listener.number,
            listener.timestamp,
            listener.term,
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
            if self._is_followed_on(receiver, entry.attempt, entry.received):
                self._count_again(step, receiver, address, entry.received + 1)
            match self.audience.standing(receiver, entry.attempt, entry.received + 1):
                case Standing.UNKNOWN if self._was_released(receiver, entry.attempt):
                    pass  # it has all that this process sent when it was a sender
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
            if self._is_followed_on(receiver, message.attempt, first):
                self._count_again(step, receiver, address, first)
            match self.audience.standing(receiver, message.attempt, first):
                case Standing.UNKNOWN if self._was_released(receiver, message.attempt):
                    return False
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

    def _was_released(self, receiver: ProcessId, attempt: int) -> bool:
        """True for a receiver that had everything when this process fell silent, under that activation."""
        listener = self._released.get(receiver)
        return listener is not None and listener.attempt == attempt

    def _is_followed_on(self, receiver: ProcessId, attempt: int, sequence: int) -> bool:
        """True for such a receiver if it knows of a message that was sent since: it was in a repair that kept this
        process in its view, and has not let it go."""
        known = self._was_released(receiver, attempt) and self.audience.get(receiver) is None
        return known and self._released[receiver].received < sequence <= self.sending.last_sequence

    def _count_again(self, step: Step, receiver: ProcessId, address: Address, lacking: int) -> None:
        """A receiver follows on under the activation that it had: it counts as before, unless what it lacks first was
        released meanwhile, and then it is told that it is left behind."""
        listener = self._released.pop(receiver)
        first = self.sending.window.first
        released = self.sending.last_sequence if first is None else first - 1
        if lacking <= released:
            return
        listener.address = address
        listener.heard = listener.progressed = step.now
        listener.received = max(listener.received, released)
        self.audience.admit(receiver, listener)

    def keep_alive(self, step: Step) -> None:
        """Say that this process lives, how far it has sent and what is stable of it."""
        self._alive_at = step.now
        leaving = self.leaving or self._has_said_last
        alive = self.sending.keep_alive(step, len(self.audience), self._reporting, leaving)
        self._context.broadcast(step, [alive])
        self._context.deadlines.set("keep-alive", self._next_keep_alive(step.now, step.now))

    def become_alone(self, step: Step) -> None:
        """Nobody was heard for long, or yet."""
        if self._alone_since is None:
            self._alone_since = step.now

    def meet_others(self, step: Step) -> None:
        """Somebody was heard: who had become slow to say that it lives says so at once."""
        settings = self._context.settings
        slow = self._rest(step.now) > settings.keep_alive
        self._alone_since = None
        if slow and self._context.role == "sender" and not self.leaving:
            self._context.deadlines.advance("keep-alive", step.now)

    def _next_keep_alive(self, last: int, now: int) -> int:
        """When the next one is due after the last. The lone groups of a process do not all speak at once, nor each at
        an instant of its own, for which the process would have to be woken."""
        rest, keep_alive = self._rest(now), self._context.settings.keep_alive
        if rest < 2 * keep_alive:
            return last + rest
        due = last + rest - rest * (self._context.number % 64) // 256
        return due - due % (keep_alive // 8)

    def _rest(self, now: int) -> int:
        """Until the next keep-alive: short in company, ever longer alone (ADR 11)."""
        settings = self._context.settings
        if self._alone_since is None or len(self.audience):
            return settings.keep_alive
        idle = now - max(self._alone_since, self.sending.last_data_at)
        return max(min(idle // LONE_SHARE, 2 * settings.source_timeout), settings.keep_alive)

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
        if self._has_said_last and listener is None:
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
        term = self._term
        if term is not None and self._has_whole_term:
            sequence, number = boundary = term.sequence, term.number
            timestamp = term.timestamp
        sends, view = message.sender, message.view
        listener = Listener(address, message.attempt, message.ordered, sends, view, boundary, timestamp, step.now)
        agreed = self._context.agreed if self._context.role == "sender" else None
        seat = None if agreed is None else agreed.seat(self._context.process)
        listener.term = sequence if seat is None else seat.sequence
        self.audience.admit(receiver, listener)
        self._released.pop(receiver, None)
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
        last = self.sending.last_sequence
        stable = self._context.stable = self.audience.stable(last)
        if self.sending.paused:
            view = self._context.agreed
            self._context.known = stable if view is None else self.audience.known(view.members, last)
        if self.sending.window.first is not None:
            self._release_up_to(step, stable)
        if self._lingers and stable >= last and not self._context.turns and not self.leaving:
            self._go(step)

    def _release_up_to(self, step: Step, stable: int) -> None:
        """Forget what is stable; since it became a sender, this process keeps it for those who have not come yet.

        That holds nothing up as long as it finds room, but for who is heard and has not come at all.
        """
        own = self._delivery.oldest_own
        if own is not None:
            stable = min(stable, own.sequence - 1)
        if self._term is not None:
            expected = self._alone_since is None and not len(self.audience)
            if step.now >= self._term.until or not (expected or self.sending.may_keep):
                self._term = None
            else:
                if not expected:
                    self.sending.spare(stable)
                stable = min(stable, self._term.sequence - 1)
        self.sending.release(step, stable)

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
            self._context.tell(step, address, agreed.told)
        self._context.tell(step, address, LeftBehindNotice(receiver, attempt, self._context.mark))
