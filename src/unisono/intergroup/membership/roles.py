"""A process between sending and receiving (000 figures 5.1 to 5.3), while its application has timestamp order.

Only senders pay for agreement, and who is one changes without any: by words that stand in the order of messages.

    receiver -> to sender -> sender      it speaks until all senders follow it, and a sponsor says so (PAdd)
    sender -> to receiver -> receiver    it says so itself, as its last word, and goes when all have that (PLeave)

The last sender stays one for a while; then nobody is, and who wants to be one begins the next era by itself. When a
repair comes in between, whoever is not there yet says that it stays out of the next view, or is in it as before, and
tries again when that stands.
"""

from __future__ import annotations

from enum import Enum, auto

from unisono.identity import ProcessId, ViewId
from unisono.intergroup.context import Context
from unisono.intergroup.following import Following
from unisono.intergroup.membership.view import AgreedView
from unisono.intergroup.sending import Sending
from unisono.intergroup.speaking import Speaking
from unisono.reliable.step import Step
from unisono.settings import Role
from unisono.trace.schema import MembershipRow
from unisono.wire.membership_messages import AddRequest, Seat, SenderAdded, SenderLeft

DISCOVERY = 2
"""For so many keep-alive intervals who wants to be a sender looks for others before it is one alone."""
SPONSORED_LIMIT = 1024
"""Of so many processes it is remembered that they were sponsored."""


class Turn(Enum):
    """What this process is about to become."""

    NONE = auto()
    TO_SENDER = auto()
    TO_RECEIVER = auto()


class Roles:
    """What one process is, and what its application wants it to be."""

    __slots__ = (
        "_asked_at",
        "_context",
        "_following",
        "_sending",
        "_sent_at",
        "_speaking",
        "_sponsored",
        "_tries",
        "_wished_at",
        "finishes",
        "turn",
        "wish",
    )

    def __init__(self, context: Context, sending: Sending, following: Following, speaking: Speaking) -> None:
        self._context = context
        self._sending = sending
        self._following = following
        self._speaking = speaking
        self._asked_at = 0
        self._tries = 0
        self._sponsored: dict[ProcessId, tuple[ViewId, int]] = {}
        self._sent_at = 0
        self._wished_at = 0
        self.finishes = False
        self.turn = Turn.NONE
        self.wish: Role | None = None

    @property
    def says_last(self) -> bool:
        """Whether this process has said that it only receives, and has not gone yet."""
        return self.turn is Turn.TO_RECEIVER

    def on_send(self, step: Step) -> None:
        """The application sends: this process has to be a sender."""
        self._sent_at = step.now
        if self._context.role == "sender" and self.wish is None:
            self._context.speaks = True
        else:
            self.become(step, "sender")

    def become(self, step: Step, role: Role) -> None:
        """The application, or its activity, wants this process to be that."""
        if role == "sender":
            self._sent_at = step.now
        if self.wish != role:
            self.wish = role
            self._wished_at = step.now
            self._context.deadlines.advance("role", step.now)

    def finish(self) -> None:
        """The application is leaving: this process becomes a sender only for what waits to be sent."""
        self.finishes = True
        if self.turn is Turn.NONE and not (self.wish == "sender" and self._sending.waiting):
            self.wish = None

    @property
    def may_go(self) -> bool:
        """Whether nobody has been told of a change of role that is still to come."""
        return self.turn is Turn.NONE or (self.turn is Turn.TO_SENDER and not self._tries)

    def is_stranded(self, step: Step) -> bool:
        """Whether this process is to be a sender and nobody is there, or answers, who could make it one."""
        if self.wish != "sender" or self._context.role == "sender" or self._context.settings.service != "timestamp":
            return False
        ordered = self._following.ordered
        if ordered is not None and ordered.stands and ordered.presented is not None and not ordered.presented.seats:
            return True
        settings, waited = self._context.settings, step.now - self._wished_at
        alone = self._following.ordered is None and not self._following.hears_anybody
        limit = DISCOVERY * settings.keep_alive if alone else settings.patience
        if waited < limit:
            self._context.deadlines.advance("role", self._wished_at + limit)
        return waited >= limit

    def settle(self, step: Step, repairing: bool, attempt: int) -> None:
        """After every fact: go on towards what is wished for."""
        self._look_for_idleness(step)
        role = self._context.role
        if self._context.settings.service != "timestamp":
            self._settle_without_order(step, role, repairing)
            return
        ordered = self._following.ordered
        view = None if ordered is None else ordered.presented
        if ordered is not None and ordered.stays:
            ordered.stays = False
            self.stay(step)
        if self.wish is None or ordered is None or view is None or ordered.halted or not ordered.stands or repairing:
            return
        if self.wish == "sender" and role == "receiver":
            self._turn_to_sender(step, view, attempt)
        elif self.wish == "receiver" and role == "sender":
            self._turn_to_receiver(step, view)
        elif self.turn is Turn.NONE:
            self.wish = None

    def _look_for_idleness(self, step: Step) -> None:
        context = self._context
        if not context.auto or context.role == "receiver" or self.wish is not None or self._sending.waiting:
            return
        if self.finishes:
            return
        until = self._sent_at + context.settings.idle
        if step.now >= until:
            self.become(step, "receiver")
        else:
            context.deadlines.advance("role", until)

    def _settle_without_order(self, step: Step, role: Role, repairing: bool) -> None:
        """Nobody need agree when the application has another service; who is in an agreed view leaves it by the order.

        Whoever has drawn this process into a view does so again when it sends again.
        """
        if self.turn is Turn.TO_RECEIVER:
            alone = self._context.agreed is None or len(self._context.agreed.seats) == 1
            if alone and self._sending.paused and self._context.stable >= self._sending.last_sequence:
                self._context.agreed = None
                self.become_receiver(step)
                self._settle_without_order(step, "receiver", repairing)
        elif self.wish == role:
            self.wish = None
        elif self.wish == "sender":
            self._context.speaks = True
            self.become_sender(step)
        elif self.wish == "receiver" and not repairing:  # who agrees on the next view follows its members until then
            self._say_last(step)

    def _say_last(self, step: Step, final: bool = False) -> None:
        """Say that this process only receives, when all is sent and who came late has had time to ask for it."""
        if self._sending.waiting:
            return
        if step.now < self._speaking.term_ends:
            self._context.deadlines.advance("role", self._speaking.term_ends)
            return
        self.turn = Turn.TO_RECEIVER
        step.record(MembershipRow(kind="PLEAVE"))
        self._sending.enqueue_change(SenderLeft(final))
        self._speaking.advance(step)

    def _turn_to_sender(self, step: Step, view: AgreedView, attempt: int) -> None:
        if self.turn is not Turn.TO_SENDER:
            self.turn = Turn.TO_SENDER
            self._tries = 0
            self._speaking.speak_again(step)
            self._context.turns = self._context.speaks = True
            self._sending.paused = True
            step.record(MembershipRow(kind="TO_SENDER"))
            self._speaking.keep_alive(step)
        interval = self._context.settings.keep_alive // 4
        if step.now - self._asked_at < interval:
            self._context.deadlines.advance("role", self._asked_at + interval)
            return
        sponsors = [member for member in view.members if self._following.follows(member)]
        self._context.deadlines.set("role", step.now + interval)
        if not sponsors or not all(map(self._speaking.audience.is_confirmed, view.members)):
            return
        sponsor = sponsors[self._tries % len(sponsors)]
        self._asked_at = step.now
        self._tries += 1
        step.statistic("SPONSOR", sponsor=sponsor.name, tries=self._tries)
        sequence, number = self._sending.boundary()
        seat = Seat(self._context.process, attempt, sequence, number)
        self._context.tell(step, self._following.streams[sponsor].address, AddRequest(sponsor, view.era, seat))

    def _turn_to_receiver(self, step: Step, view: AgreedView) -> None:
        if self.turn is Turn.TO_RECEIVER:
            return
        if len(view.seats) > 1:
            self._say_last(step)
            return
        until = self._wished_at + self._context.settings.idle  # the last sender can sponsor the next one for so long
        if step.now >= until:
            self._say_last(step, final=True)
        else:
            self._context.deadlines.advance("role", until)

    def on_add_request(self, step: Step, source: ProcessId, message: AddRequest) -> None:
        """Somebody asks for a sponsor: say so for it, once."""
        view = self._context.agreed
        if view is None or message.era != view.era or message.seat.process != source or self._sending.paused:
            return
        wanted = view.era, message.seat.sequence
        if (
            view.seat(source) is not None
            or self._sponsored.get(source) == wanted
            or not self._following.follows(source)
        ):
            return
        self._sponsored[source] = wanted
        while len(self._sponsored) > SPONSORED_LIMIT:
            del self._sponsored[next(iter(self._sponsored))]
        step.record(MembershipRow(kind="PADD", peer=source.name, peer_incarnation=source.incarnation))
        self._speaking.keep_for_latecomers(step)
        self._sending.enqueue_change(SenderAdded(message.seat))
        self._speaking.advance(step)

    def become_sender(self, step: Step) -> None:
        """All who have come this far in the order know this process as a sender."""
        self._turn_over(step, "sender")
        self._sending.paused = False
        self._speaking.begin_term(step)
        self._speaking.keep_alive(step)
        self._speaking.advance(step)

    def become_receiver(self, step: Step) -> None:
        """Everybody has the last word of this process."""
        self._turn_over(step, "receiver")
        self._context.speaks = False
        self._speaking.fall_silent(step)

    def _turn_over(self, step: Step, role: Role) -> None:
        self.turn = Turn.NONE
        self._context.turns = False
        self._context.become(role)
        self._following.say_role(step)
        self._context.deadlines.clear("role")
        self._sent_at = step.now
        step.record(MembershipRow(kind="ROLE", role=role))

    def stay(self, step: Step) -> None:
        """Who had said that it only receives is in the next view all the same, and sends again."""
        if self.turn is Turn.TO_RECEIVER:
            self.turn = Turn.NONE
            self._sending.paused = False
            self._speaking.begin_term(step)

    def on_new_era(self, step: Step) -> None:
        """A repair is over."""
        self.stay(step)
        self._sponsored.clear()
