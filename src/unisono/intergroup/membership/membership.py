"""Membership as the rest of a group sees it: who of the senders is in the view, and what happens when that changes.

A sender takes part in the agreement from its start, if its application wants timestamp order, or else from the moment
others draw it in (003 6.4); a mere receiver in timestamp order follows.
"""

from __future__ import annotations

from unisono.engine import Address
from unisono.events import DroppedOut, LeftBehind, ViewReason
from unisono.identity import ProcessId, ViewId, ViewMark
from unisono.intergroup.context import Context
from unisono.intergroup.following import Following
from unisono.intergroup.membership.contract import Phase
from unisono.intergroup.membership.ground import StreamGround
from unisono.intergroup.membership.receiver import ReceiverRepair
from unisono.intergroup.membership.repair import MembershipRepair
from unisono.intergroup.membership.roles import Roles
from unisono.intergroup.membership.view import AgreedView
from unisono.intergroup.sending import Sending
from unisono.intergroup.speaking import Speaking
from unisono.reliable.step import Step
from unisono.reliable.suspicion import Suspicion, least_silence
from unisono.wire.control_messages import Gathered
from unisono.wire.membership_messages import AddRequest, CutInfo, MembershipMessage, Opinion, ViewRequest

DISCOVERY = 2
"""For so many keep-alive intervals a newcomer looks for others before it sends into a view of its own, and who was
stopped before it sends into the view it was in."""


class Membership:
    """One process in the membership of one group."""

    __slots__ = (
        "_asked_at",
        "_awaits_in",
        "_awaits_until",
        "_context",
        "_era",
        "_following",
        "_goes",
        "_ground",
        "_receiver",
        "_sending",
        "repair",
        "roles",
        "suspicion",
    )

    def __init__(
        self,
        context: Context,
        sending: Sending,
        following: Following,
        speaking: Speaking,
        ground: StreamGround,
        attempt: int,
    ) -> None:
        self._context = context
        self._sending = sending
        self._following = following
        self._ground = ground
        settings = context.settings
        self.suspicion = Suspicion(least_silence(settings))
        self.repair = MembershipRepair(context, ground, self.suspicion, attempt)
        self._receiver = ReceiverRepair(context, following)
        self.roles = Roles(context, sending, following, speaking)
        self._era: ViewId | None = None
        self._goes = False
        """Others have acted on the last word of this process: it follows their views, and is a receiver soon."""
        self._awaits_until: int | None = None
        self._awaits_in: ViewId | None = None
        self._asked_at = 0

    @property
    def _sends(self) -> bool:
        return self._context.role == "sender"

    @property
    def _follows_views(self) -> bool:
        receives = self._goes or not self._sends
        return receives and (self._context.settings.service == "timestamp" or self._context.changing)

    @property
    def has_company(self) -> bool:
        """Whether there are others in the view, or will be when it is repaired."""
        view = self._context.agreed
        return (view is not None and len(view.seats) > 1) or self.repair.repairing

    def join(self, step: Step) -> None:
        if self._context.settings.service != "timestamp":
            return
        if self._sends:
            self._begin_alone(step)
            self._await_others(step)
        else:
            self._receiver.begin(step)

    def on_change(self, step: Step) -> None:
        """The application changes its service: a sender stays in its view, or comes into one, and a receiver looks."""
        if not self._follows_views:
            if self._context.changing:
                self._be_in_a_view(step)
            elif not self._sends:
                self._context.agreed = None
        elif self._following.entering is not None and self._following.entering.view is None:
            self._receiver.begin(step)

    def _look_anew(self, step: Step) -> None:
        """A process that becomes a sender, or a receiver, while its service changes looks for its view as that."""
        agreed = self._context.agreed
        if agreed is not None and self._sends and agreed.seat(self._context.process) is None:
            self._context.agreed = None  # a receiver aimed at it
        self.on_change(step)

    def leave(self, step: Step) -> None:
        self._context.held_back = self._context.awaits = False
        self._awaits_until = None
        self.repair.leave(step)

    def on_heard(self, step: Step, peer: ProcessId) -> None:
        self.suspicion.hear(peer, step.now)
        if self.repair.repairing:
            self.repair.on_heard(step, peer)
        if self._context.agreed is not None and not self._follows_views and not self._context.shares_view(peer):
            self.repair.on_stranger(step, peer)

    def on_woken(self, step: Step, pause: int) -> None:
        """This process was stopped, and blames nobody for that time.

        The others may have gone on without it: what it sent before it knows would reach nobody (N20).
        """
        self.suspicion.forgive(pause)
        self._ground.waiting.forgive(pause)
        self.repair.on_woken(step, pause)
        view = self._context.agreed
        if self._sends and view is not None and len(view.seats) > 1 and 2 * pause >= self._context.settings.suspicion:
            self._await_others(step)

    def _await_others(self, step: Step) -> None:
        """Send nothing before the next view with others, or for long enough to see that none comes."""
        assert self._context.agreed is not None
        self._context.awaits = True
        self._awaits_in = self._context.agreed.id
        self._awaits_until = step.now + DISCOVERY * self._context.settings.keep_alive
        self._context.deadlines.set("discovery", self._awaits_until)

    def on_mark(self, step: Step, source: ProcessId, address: Address, mark: ViewMark) -> None:
        """A sender says which view it is in: perhaps one that follows this process's own."""
        if self._follows_views:
            self._receiver.on_mark(step, source, address, mark)
            return
        view = self._context.agreed
        if view is None or mark.start <= view.mark.start:
            return
        if self.repair.phase is Phase.COMMIT:
            return
        if view.seat(source) is not None and step.now - self._asked_at >= self._context.settings.keep_alive // 4:
            self._asked_at = step.now
            self._context.tell(step, address, ViewRequest(source, view.era))

    def on_restarted(self, step: Step, earlier: ProcessId) -> None:
        """A process has a new life: the earlier one is over."""
        self.repair.on_gone(step, earlier)
        self._receiver.on_restarted(earlier)

    def on_message(self, step: Step, source: ProcessId, address: Address, message: MembershipMessage) -> None:
        if isinstance(message, ViewRequest):
            if message.target == self._context.process:
                self._be_in_a_view(step)
                self.repair.tell_view(step, address, message.known)
        elif isinstance(message, CutInfo):
            self._ground.cuts.on_cut_info(source, message)
        elif isinstance(message, AddRequest):
            if message.target == self._context.process and self._sends and not self.repair.repairing:
                self.roles.on_add_request(step, source, message)
        elif self._follows_views:
            if isinstance(message, Opinion) and self._context.process in message.procs:
                self.repair.decline(step, message.view)
            self._receiver.on_message(step, source, address, message)
        elif self._sends:
            if isinstance(message, Opinion) and self._is_let_go(step, source, message):
                return
            if isinstance(message, Opinion) and self._context.process in message.procs:
                self._be_in_a_view(step)
            self.repair.on_message(step, source, address, message)
        elif isinstance(message, Opinion) and self._context.process in message.procs:
            self.repair.decline(step, message.view)

    def _is_let_go(self, step: Step, source: ProcessId, opinion: Opinion) -> bool:
        """Whether a member agrees on the next view without this process, which has said that it only receives.

        It has acted on that word, and so it will be in the end of the view: this process need not wait until all have
        it. It leaves the agreement to the others, and follows them into the next view as a receiver does.
        """
        ordered, view, itself = self._following.ordered, self._context.agreed, self._context.process
        if view is None or not self.roles.says_last or self.repair.halted:
            return False
        of_member = opinion.view == view.era and view.seat(source) is not None and not opinion.out
        if not of_member or itself in {*opinion.procs, *opinion.failed}:
            return False
        step.mark("let-go")
        self.repair.decline(step, view.era, at_once=True)
        self.repair.withdraw()
        if ordered is None:  # its application has views of its own
            self._context.agreed = None
            self.roles.become_receiver(step)
        else:
            ordered.let_go = self._goes = True
            self._receiver.resume(step)
        return True

    def _finish_going(self, step: Step) -> None:
        """The word is delivered, or the view that it belongs to is over: this process is a receiver."""
        ordered = self._following.ordered
        seated = ordered is not None and ordered.presented is not None and ordered.presented.seat(self._context.process)
        if self._goes and not seated:
            self._goes = False
            if self._sends:
                self.roles.become_receiver(step)

    def on_gathered(self, step: Step, message: Gathered) -> None:
        """A coordinator says what receivers hold of the view."""
        if self._context.agreed is not None and self._sends:
            self._ground.cuts.on_gathered(message, self._context.agreed, step.now)

    def watch(self, step: Step) -> None:
        """Look, now and then, whether the order of messages has stood still for too long."""
        ordered, waiting, patience = self._following.ordered, self._ground.waiting, self._context.settings.patience
        waiting.look(None if ordered is None else ordered.waits_for, step.now)
        overdue = waiting.overdue(patience, step.now)
        if overdue is None:
            return
        if self._follows_views:
            self._receiver.on_standstill(step, overdue, waiting)
        elif overdue.exists:
            self.repair.on_lacking(step, overdue.source, overdue.sequence)

    def on_time(self, step: Step, name: str) -> None:
        """One of this part's deadlines: `membership`, `suspicion` or `discovery`."""
        if name == "membership":
            if self._follows_views:
                self._receiver.on_time(step)
            else:
                self.repair.on_time(step)
        elif name == "suspicion":
            self.repair.on_suspected(step, self.suspicion.suspects(step.now))

    def settle(self, step: Step) -> None:
        """After every fact: see what became of the streams, and who is due to be suspected."""
        self._look_after_streams(step)
        self._follow_changes(step)
        if self.repair.repairing:
            self.repair.on_progress(step)
        if self._follows_views:
            self._receiver.on_progress(step)
        elif self._following.entering is not None:
            self._following.entering.aim(step, None if self.repair.repairing else self.repair.standing)
        if self._awaits_until is not None:
            view = self._context.agreed
            met = view is not None and view.id != self._awaits_in and len(view.seats) > 1
            if met or step.now >= self._awaits_until:
                self._awaits_until = None
                self._context.deadlines.clear("discovery")
                self._context.awaits = False
        if self._sends and not self._context.deadlines.is_set("suspicion"):
            look = self.suspicion.next_look(step.now)
            if look is not None:
                self._context.deadlines.set("suspicion", look)
        role = self._context.role
        self.roles.settle(step, self.repair.repairing, self.repair.attempt)
        if self._context.changing and self._context.role != role:
            self._look_anew(step)
        if self.roles.is_stranded(step):
            self._begin_as_sender(step)

    def _follow_changes(self, step: Step) -> None:
        """Who sends changed by the order of messages, or by a repair."""
        self._finish_going(step)
        era = None if self._context.agreed is None else self._context.agreed.era
        if era != self._era:
            self._era = era
            self.roles.on_new_era(step)
            self._following.part_with_receivers(step)
        ordered = self._following.ordered
        if ordered is None:
            self._order_changes(step)
            return
        self._following.go_on_with_own(step)
        for source in sorted(ordered.awaited):
            self._following.activations.hurry(source, step.now + self._context.settings.keep_alive // 4)
        while ordered.changed:
            self._on_changed(step, ordered.changed.pop(0))

    def _order_changes(self, step: Step) -> None:
        """A sender whose application has another service applies what was said when nothing earlier can come.

        A word counts in the era that it was said in: one of a later era waits until that stands here, if it does. While
        the end of the view is being agreed nothing is applied: what this process said that it brings stays true.
        """
        view = self._context.agreed
        if view is None or not self._sends:
            if self._following.entering is None:
                self._following.said.clear()
            return
        if self.repair.halted:
            return
        waiting = self._following.said
        waiting.sort(key=lambda said: (said.timestamp, said.source))
        streams = [self._following.streams.get(member) for member in view.members if member != self._context.process]
        reached = min((stream.reached for stream in streams if stream is not None), default=self._context.clock.last)
        while waiting and waiting[0].timestamp <= reached:
            said = waiting[0]
            if said.mark.start > view.mark.start:
                break
            if said.source == self._context.process and self._context.lacks(said.sequence, said.change):
                break  # somebody may still lack it
            del waiting[0]
            following = view.after(said) if said.mark == view.mark else None
            if following is not None:
                view = following
                self._on_changed(step, view)

    def _on_changed(self, step: Step, view: AgreedView) -> None:
        agreed = self._context.agreed
        if agreed is None or agreed.era != view.era:
            return  # a repair has gone past it
        self._context.agreed = view
        seated = view.seat(self._context.process) is not None
        if seated and self._sends:
            self.repair.on_changed(step, view)
        elif seated:
            self._receiver.pause()
            self.roles.become_sender(step)
            self.repair.adopt(step, view)
        elif self._sends:
            self.repair.withdraw()
            self.roles.become_receiver(step)
            if self._follows_views:
                self._receiver.resume(step)
            else:
                self._context.agreed = None
        self._following.part_with_receivers(step)

    def _look_after_streams(self, step: Step) -> None:
        """Whoever cannot follow a member of its view any more is out of it."""
        ordered = self._following.ordered
        if ordered is not None and ordered.unable is not None:
            self._following.lost.append(ordered.unable)
            ordered.unable = None
        while self._following.lost:
            source, reason = self._following.lost.pop(0)
            if reason is ViewReason.RESTARTED:
                self.on_restarted(step, source)
            elif self.repair.has_left(source) or not (self._follows_views or self._context.shares_view(source)):
                continue
            elif self._sends and (self._ahead(source) or self.repair.leaves_out(source)):
                self.repair.on_gone(step, source)
            elif self._sends and (missing := self._ground.misses(source, step.now)) is not None:
                self.repair.on_lacking(step, source, missing)
            else:
                if reason is ViewReason.LEFT_BEHIND and ordered is not None:
                    step.deliver(LeftBehind(source))
                if self._follows_views:
                    self._receiver.on_lost(step, source, reason)
                else:
                    self.repair.step_out(step, reason)

    def _ahead(self, source: ProcessId) -> bool:
        """True for a member that was heard in a later view, or has left this one and says that it begins anew."""
        stream, view = self._following.streams.get(source), self._context.agreed
        if stream is None or view is None:
            return False
        return stream.apart or stream.last_mark.start > view.mark.start

    def _begin_alone(self, step: Step) -> None:
        self.repair.begin(step, self._sending.last_sequence, self._sending.last_number + 1)

    def _begin_as_sender(self, step: Step) -> None:
        """Nobody makes this process a sender: it is one by itself, in a view of its own that merges with others."""
        ordered, agreed = self._following.ordered, self._context.agreed
        if ordered is not None and agreed is not None and not agreed.seats and ordered.stands:  # nobody sends
            self._receiver.pause()
            self._context.become("sender")
            self.repair.begin(step, self._sending.last_sequence, self._sending.last_number + 1, agreed)
            self.roles.become_sender(step)
            return
        if self._following.ordered is not None:
            step.deliver(DroppedOut("nobody who sends answers"))
            self._following.drop_out(step)
        self._receiver.pause()
        self._context.become("sender")
        self._following.begin(step, ViewReason.JOINED)
        self._begin_alone(step)
        self._await_others(step)
        self.roles.become_sender(step)

    def _be_in_a_view(self, step: Step) -> None:
        """A sender under another service is drawn into the order of others: they want it, or wait for its view."""
        if self._context.agreed is None and self._sends:
            step.mark("drawn-in")
            self._context.speaks = True
            self._begin_alone(step)
            self._following.consider_all(step)
