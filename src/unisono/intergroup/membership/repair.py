"""Membership repair: the senders of a group agree on their next view and on where the current one ends (000 5.4).

    settled -> consensus -> cut info -> recovery info -> recovery -> commit -> settled, in the next view

Consensus: everybody says whom it wants in the next view until all of those agree. Cut info: receivers say what they
hold, where there are any. Recovery info: every sender halts, and says what it has sent and holds. Recovery: what
belongs before the next view is fetched. Commit: all tell the leader that they are ready, and the leader that the view
stands (E22: as in 000, by the leader's message, and not as in 003 by all ready messages).

Whatever does not fit leads back to consensus: sending and delivery go on as if nothing had been agreed (rollback).
A proposal is named by its members and the attempt of each, so that nothing said for one is taken for another. Every
statement is said again until it is overtaken (E21). A sender that was ready and goes back does so under a new attempt,
so that the view it was ready for, should it stand elsewhere (E11), is not its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from unisono.engine import Address
from unisono.events import Excluded, ViewReason
from unisono.identity import ProcessId, ViewId
from unisono.intergroup.context import Context
from unisono.intergroup.membership import view as views
from unisono.intergroup.membership.agreement import Agreement, Proposal
from unisono.intergroup.membership.contract import Ground, Phase
from unisono.intergroup.membership.merging import Merging
from unisono.intergroup.membership.pacing import Pacing
from unisono.intergroup.membership.primary import PrimaryRule
from unisono.intergroup.membership.recovery import Recovery
from unisono.intergroup.membership.view import AgreedView
from unisono.intergroup.reasons import Reason
from unisono.reliable.step import Step, repair_row
from unisono.reliable.suspicion import Suspicion
from unisono.trace.schema import MembershipRow
from unisono.wire.membership_messages import (
    MEMBER_LIMIT,
    Leaver,
    MembershipMessage,
    NewView,
    Opinion,
    Origin,
    Ready,
    RecoveryInfo,
    Seat,
    UpTo,
)

WITHDRAWALS = 3
"""How often in one repair a process may be accused and heard again before the accusation stays."""
REMEMBERED = 4096
"""Of how many processes the last attempt is remembered."""
BROUGHT_AT_ONCE = 32
"""The most messages that are sent to a member for one word of what it lacks; it says it again for more."""
HISTORY = 8
"""How many of the last views are told to who missed them."""


class MembershipRepair:
    """One sender in the agreement on views."""

    __slots__ = (
        "_addresses",
        "_agreement",
        "_context",
        "_excluded_from",
        "_ground",
        "_heard_up_to",
        "_history",
        "_merging",
        "_out",
        "_pacing",
        "_paused",
        "_recovery",
        "_said",
        "_suspicion",
        "_withdrawn",
        "attempt",
        "phase",
        "primary",
        "view",
    )

    def __init__(self, context: Context, ground: Ground, suspicion: Suspicion, attempt: int) -> None:
        self._context = context
        self._ground = ground
        self._suspicion = suspicion
        self.attempt = attempt
        self.phase = Phase.SETTLED
        self.view: AgreedView | None = None
        self.primary = PrimaryRule(context.settings.primary)
        self._agreement = Agreement(context.process)
        self._recovery = Recovery(context.process)
        self._pacing = Pacing(context.settings)
        self._merging = Merging(context.settings)
        self._addresses: dict[ProcessId, Address] = {}
        self._withdrawn: dict[ProcessId, int] = {}
        self._heard_up_to: dict[ProcessId, int] = {}
        """The last attempt of each that belongs to an earlier repair."""
        self._history: dict[ViewId, NewView] = {}
        self._said: Opinion | None = None
        self._excluded_from: ViewId | None = None
        self._out = False
        self._paused = 0

    @property
    def repairing(self) -> bool:
        return self.phase is not Phase.SETTLED

    @property
    def halted(self) -> bool:
        """From its recovery information until the view stands or the proposal fails, nothing is sent or delivered."""
        return self.phase in (Phase.RECOVERY_INFO, Phase.RECOVERY, Phase.COMMIT)

    @property
    def standing(self) -> NewView | None:
        """The view that stands here."""
        return None if self.view is None else self.view.told

    def begin(self, step: Step, sent: int, number: int, after: AgreedView | None = None) -> None:
        """Be alone at first: a newcomer is a view of its own that merges with others.

        It may follow a view in which nobody sends any more.
        """
        context = self._context
        self.attempt += 1
        start = context.clock.tick(step.now, step.wall)
        seat = Seat(context.process, self.attempt, sent + 1, number)
        view = ViewId(start, context.process, self.attempt)
        origin = None if after is None else Origin(after.era, after.id, (context.process,), ())
        origins = () if origin is None else (origin,)
        electors = self.primary.electors((context.process,), self.primary.alone(context.process))
        self._install(step, NewView(0, view, view, (seat,), origins, (), (), electors, b""), origin)

    def step_out(self, step: Step, reason: ViewReason) -> None:
        """This process cannot go on in its view: it ends it for itself, and begins anew alone."""
        assert self.view is not None
        step.mark("stepped-out")
        self._rollback(step)
        sent, number, held = self._ground.halt(step, self.view, alone=True)
        process, view = self._context.process, self.view.era
        cut = tuple(sorted((*held, UpTo(process, sent))))
        self.attempt += 1
        self._record_cut(step, cut, f"{self.attempt:016x}")
        start = self._context.clock.tick(step.now, step.wall)
        seat = Seat(process, self.attempt, sent + 1, number)
        origin = Origin(view, self.view.id, (process,), cut)
        alone = self.primary.electors((process,), self.primary.alone(process))
        self._recovery.proposal = None
        others = tuple((source, ()) for source, _ in held)
        next_id = ViewId(start, process, self.attempt)
        message = NewView(0, next_id, next_id, (seat,), (origin,), others, (), alone, b"")
        self._install(step, message, origin, reason)

    def leave(self, step: Step) -> None:
        """This process goes: the others need not wait for it (the sender's way out of the view)."""
        if self.view is None:
            return
        self._rollback(step)
        self._out = True
        self.attempt += 1
        self._said = Opinion(self.view.era, self.attempt, (self._context.process,), (), (), (), (), True, self._paused)
        self._become(step, Phase.CONSENSUS)
        self._say(step)
        self._schedule(step)

    def on_woken(self, step: Step, pause: int) -> None:
        """This process was stopped for a while; the others may want to know.

        Where that was as long as they wait, the view it was ready for may be over already: it goes back (N20).
        """
        self._paused = max(self._paused, pause)
        if self.halted and pause >= self._context.settings.suspicion:
            self._rollback(step)
            self._said = None
            self._reconsider(step)

    def on_suspected(self, step: Step, peers: list[ProcessId]) -> None:
        """Peers have been silent for too long (PFailure): all of them are accused with one word."""
        if self.view is None or self._out:
            return
        silent = [peer for peer in peers if self._concerns(peer) and peer not in self._agreement.unheard]
        if not silent:
            return
        for peer in silent:
            step.mark("sender-suspected")
            name, incarnation = peer
            step.record(MembershipRow(kind="SUSPECT", peer=name, peer_incarnation=incarnation, reason="accused"))
        self._rollback_unless(step, self.phase is Phase.CONSENSUS)
        self._start(step)
        self._agreement.unheard.update(silent)
        self._reconsider(step)

    def on_lacking(self, step: Step, peer: ProcessId, sequence: int) -> None:
        """A message of a member does not come, whatever is asked for: accuse that member of it (PFailBlock)."""
        if self.view is None or self._out or self.halted or not self._concerns(peer):
            return
        if peer in self._agreement.accused or peer in self._agreement.gone:
            return
        self._note_lacking(step, peer)
        self._rollback_unless(step, self.phase is Phase.CONSENSUS)
        self._start(step)
        self._agreement.lacking[peer] = sequence
        self._reconsider(step)

    def _note_lacking(self, step: Step, peer: ProcessId) -> None:
        step.mark("message-unobtainable")
        name, incarnation = peer
        step.record(MembershipRow(kind="SUSPECT", peer=name, peer_incarnation=incarnation, reason="message lacking"))

    def on_gone(self, step: Step, peer: ProcessId) -> None:
        """A peer is out of this view for certain: it restarted, moved on without this process, or left it behind."""
        if self.view is None or self._out or not self._concerns(peer) or peer in self._agreement.gone:
            return
        step.mark("sender-gone")
        self._rollback_unless(step, self.phase is Phase.CONSENSUS)
        self._start(step)
        self._agreement.gone.add(peer)
        self._reconsider(step)

    def on_heard(self, step: Step, peer: ProcessId) -> None:
        """Whoever is heard again is not accused any more, unless that goes on and on."""
        if self.phase is not Phase.CONSENSUS or peer not in self._agreement.unheard:
            return
        withdrawn = self._withdrawn.get(peer, 0)
        if withdrawn < WITHDRAWALS:
            self._withdrawn[peer] = withdrawn + 1
            self._agreement.unheard.discard(peer)
            step.mark("accusation-withdrawn")
            self._reconsider(step)

    def on_stranger(self, step: Step, peer: ProcessId) -> None:
        """A sender that is in another view is heard: merge with it, if it is followed (PForeign).

        While a view is being installed it waits, so that every repair comes to its end.
        """
        if self._out or not self._ground.may_merge(peer):
            return
        self._merging.hear(peer, step.now)
        if self.phase is Phase.CONSENSUS:
            if peer not in self._agreement.procs and not self._merging.reluctance.refuses(peer, step.now):
                self._agreement.invite(peer)
                self._suspicion.watch(peer, step.now)
                self._reconsider(step)
        elif self.phase is Phase.SETTLED:
            self._plan_merge(step)

    def on_message(self, step: Step, source: ProcessId, address: Address, message: MembershipMessage) -> None:
        """A statement of another sender."""
        if self.view is None or self._out:
            return
        if self._regards(source):
            self._addresses[source] = address
        if isinstance(message, Opinion):
            self._on_opinion(step, source, address, message)
        elif isinstance(message, RecoveryInfo):
            self._on_info(step, source, message)
        elif isinstance(message, Ready):
            self._on_ready(step, source, address, message)
        elif isinstance(message, NewView):
            self._on_new_view(step, source, message)
        elif isinstance(message, Leaver):
            self._on_leaver(step, message)

    def on_time(self, step: Step) -> None:
        """Say again what was said, lose patience with who does not answer, begin a merge that was put off."""
        if self.view is None:
            return
        if self._out:
            self._say_again(step)
            self._schedule(step)
            return
        if self.phase is Phase.SETTLED:
            if self._merging.due is not None and self._merging.due <= step.now:
                self._merge(step)
        elif self.phase is Phase.CUT_INFO:
            self._check_cut_info(step)
        elif step.now - self._pacing.since >= self._patience:
            self._lose_patience(step)
        elif self.phase is Phase.CONSENSUS and step.now - self._pacing.since >= self._pacing.patience_with_strangers:
            self._let_strangers_be(step)
        if self.repairing:
            self._say_again(step)
        if self.phase is Phase.CONSENSUS:
            self._reconsider(step)
        self._schedule(step)

    def on_progress(self, step: Step) -> None:
        """Something came: perhaps what was missing, or what a stranger must be followed for."""
        if self._recovery.proposal is not None and not self._follows_all(self._recovery.proposal):
            step.mark("member-lost-in-repair")
            self._rollback(step)
            self._said = None  # what this process said for the proposal holds no longer
            self._reconsider(step)
        elif self.phase is Phase.RECOVERY:
            self._check_recovered(step)
        elif self.phase is Phase.CUT_INFO:
            self._check_cut_info(step)
        elif self.phase is Phase.CONSENSUS:
            self._drop_charges(step)
            self._check_consensus(step)
        if self.phase in (Phase.CUT_INFO, Phase.RECOVERY_INFO):
            self._drop_charges(step)

    def _drop_charges(self, step: Step) -> None:
        """A message that was lacking has come: the view need not end before it, and nobody is accused of it."""
        lacking, recovery = self._agreement.lacking, self._recovery
        came = [source for source, sequence in lacking.items() if not self._ground.still_lacks(source, sequence)]
        lacks = tuple(point for point in recovery.lacks if self._ground.still_lacks(*point))
        for source in came:
            del lacking[source]
        if came or lacks != recovery.lacks:
            recovery.lacks = lacks
            step.mark("accusation-withdrawn")
            self._rollback(step)
            self._reconsider(step)

    def adopt(self, step: Step, view: AgreedView) -> None:
        """This process became a sender in a view that stands."""
        self.view = view
        self._history[view.era] = view.message
        self._become(step, Phase.SETTLED)
        self._settle_in(step, view.members)

    def withdraw(self) -> None:
        """This process became a receiver: it takes part no longer."""
        self.view = None
        self.phase = Phase.SETTLED
        self._agreement.begin(())
        self._recovery.forget()
        self._merging.forget()
        self._said = None
        self._suspicion.keep(())
        self._context.deadlines.clear("membership")
        self._context.deadlines.clear("suspicion")

    def on_changed(self, step: Step, view: AgreedView) -> None:
        """Somebody became a sender or a receiver, by the order of messages."""
        before, self.view = self.view, view
        assert before is not None
        if not self.repairing:
            self._settle_in(step, view.members)
            if self.primary.may_stand(view) and view.members[0] == self._context.process:
                self._start(step)  # together they may be the primary component now
                self._reconsider(step)
            return
        if self.phase is not Phase.CONSENSUS:
            self._rollback(step)
            self._said = None  # what this process said that it brings holds no longer
        for process in set(view.members) - set(before.members):
            self._agreement.procs.add(process)
            self._suspicion.watch(process, step.now)
        self._agreement.forget(set(before.members) - set(view.members))
        self._reconsider(step)

    def _settle_in(self, step: Step, members: tuple[ProcessId, ...]) -> None:
        self._agreement.begin(members)
        self._forget_repair(())
        self._suspicion.keep(members)
        for process in members:
            if process != self._context.process:
                self._suspicion.watch(process, step.now)
        self._context.deadlines.clear("suspicion")

    def decline(self, step: Step, view: ViewId, at_once: bool = False) -> None:
        """This process is not a sender any more, or not yet, and is not to be waited for."""
        if at_once or step.now - self._pacing.moved >= self._context.settings.keep_alive // 4:
            self._pacing.moved = step.now
            self.attempt += 1
            itself = (self._context.process,)
            self._context.broadcast(step, [Opinion(view, self.attempt, itself, (), (), (), (), True, self._paused)])

    def tell_view(self, step: Step, address: Address, known: ViewId | None) -> None:
        """Answer who asks what view stands: with the one that follows the view it knows, or the current one."""
        message = self.standing
        if message is None:
            return
        if known is not None:
            following = [one for one in self._history.values() if any(origin.view == known for origin in one.origins)]
            if not following and self.repairing and message.era == known:
                return  # it is not known yet whether that view ends
            message = following[0] if following else message
        self._context.tell(step, address, message)

    # Consensus

    def _concerns(self, peer: ProcessId) -> bool:
        """Whether a peer matters to the view, or to the one that is being made."""
        assert self.view is not None
        if self._recovery.proposal is not None:
            return peer in self._recovery.proposal.processes
        return peer in self._agreement.procs if self.repairing else self.view.seat(peer) is not None

    def _start(self, step: Step) -> None:
        """Leave the settled state: start from the current view."""
        if self.repairing:
            return
        assert self.view is not None
        self._agreement.begin(self.view.members, self.view.era)
        self._withdrawn.clear()
        self._said = None
        self._recovery.begin()
        self._merging.due = None
        self._become(step, Phase.CONSENSUS)
        step.record(MembershipRow(kind="MRA"))

    def _become(self, step: Step, phase: Phase) -> None:
        if phase is Phase.SETTLED and self.repairing:
            step.statistic("NO_MRA", phase=self.phase.name.lower())
        self.phase = phase
        self._pacing.begin(step.now)

    def _regards(self, source: ProcessId) -> bool:
        """Whether what a process says is of use: of others nothing is kept, so that they cannot fill the memory."""
        return source in self._agreement.procs or self._ground.follows(source)

    def _on_opinion(self, step: Step, source: ProcessId, address: Address, opinion: Opinion) -> None:
        assert self.view is not None
        if self._has_gone(source) and opinion.view == self.view.era:
            self._on_gone_opinion(step, address)
            return
        if not self._regards(source):
            return
        known = self._agreement.opinions.get(source)
        if opinion.attempt <= self._heard_up_to.get(source, 0) or (known and opinion.attempt < known.attempt):
            if self.view.seat(source) is not None and opinion.view != self.view.era and not opinion.out:
                self.tell_view(step, address, opinion.view)
            return
        self._suspicion.excuse(source, opinion.paused, step.now)
        if (
            self.phase is Phase.COMMIT
            and self._recovery.proposal is not None
            and opinion.view == self._recovery.next_id
        ):
            self._context.tell(step, self._addresses[source], Ready(self._recovery.proposal.number))
            return  # the view stands there already, and will be told
        if opinion.view == self.view.era:
            self._bring(step, opinion, address)
        if known is not None and opinion.attempt == known.attempt:
            self._tell_of_leavers(step, address, opinion)
        self._weigh(step, source, opinion)

    def _weigh(self, step: Step, source: ProcessId, opinion: Opinion) -> None:
        """Let the word of another sender count, whether it is its first, a new one or the same again."""
        assert self.view is not None
        known, seat = self._agreement.opinions.get(source), self.view.seat(source)
        news = known is None or opinion.attempt > known.attempt
        self._agreement.opinions[source] = opinion
        if seat is not None and opinion.view != self.view.era and opinion.view.start > self.view.era.start:
            self.on_gone(step, source)
        if self.phase is Phase.SETTLED and not self._is_drawn_in(step, source, opinion):
            return
        if self.halted or self.phase is Phase.CUT_INFO:
            if news and self._recovery.proposal is not None and source in self._recovery.proposal.processes:
                self._rollback(step)
            else:
                return
        self._start(step)
        if _sees_anew(known, opinion):
            self._pacing.since = step.now
        self._take_in(step, source, opinion)
        self._reconsider(step)

    def _tell_of_leavers(self, step: Step, address: Address, opinion: Opinion) -> None:
        """A member says again that it wants one who has said farewell: it missed that word, and silence tells late.

        It is told that very word, with its attempt, and not what others make of it: then it is as if that came late.
        """
        assert self.view is not None
        if opinion.out or opinion.view != self.view.era:
            return
        for process in self.view.members:
            word = self._agreement.farewell(process)
            if process in opinion.members and word is not None and word.view == opinion.view:
                self._context.tell(step, address, Leaver(process, word.view, word.attempt))

    def _on_leaver(self, step: Step, message: Leaver) -> None:
        """Another has heard the farewell of a member."""
        assert self.view is not None
        process = message.process
        known = self._agreement.opinions.get(process)
        latest = max(self._heard_up_to.get(process, 0), 0 if known is None else known.attempt)
        is_member = process != self._context.process and self.view.seat(process) is not None
        if is_member and message.view == self.view.era and message.attempt > latest:
            step.mark("farewell-told")
            self._weigh(step, process, message.word)

    def _has_gone(self, peer: ProcessId) -> bool:
        """Whether a peer has said that it only receives, and this process has acted on that word in its view."""
        assert self.view is not None
        return self.view.seat(peer) is None and self.view.gone_at(peer) is not None

    def _gone_elsewhere(self) -> set[ProcessId]:
        """Whom this process does not hear, and a member does not know as one: it has acted on its last word."""
        assert self.view is not None
        said = [self._agreement.opinions.get(member) for member in self.view.members]
        procs = [set(one.procs) for one in said if one is not None and one.view == self.view.era and not one.out]
        return {suspect for suspect in self._agreement.accused if any(suspect not in known for known in procs)}

    def _on_gone_opinion(self, step: Step, address: Address) -> None:
        """Who takes itself for a member hears that its last word was acted on: nobody waits for it.

        It has begun a repair, and receivers wait for the next view: so there is to be one.
        """
        if self.phase is Phase.SETTLED:
            self._start(step)
            self._reconsider(step)
        elif self._said is not None and step.now - self._pacing.moved >= self._context.settings.keep_alive // 4:
            self._context.tell(step, address, self._said)

    def _is_drawn_in(self, step: Step, source: ProcessId, opinion: Opinion) -> bool:
        """Whether an opinion begins a repair here: a member's does, a stranger's if it wants this process."""
        assert self.view is not None
        if self.view.seat(source) is not None:
            return True
        wanted = self._context.process in opinion.procs and self._context.process not in opinion.failed
        return wanted and self._ground.follows(source)

    def _take_in(self, step: Step, source: ProcessId, opinion: Opinion) -> None:
        assert self.view is not None
        agreement = self._agreement
        wants_me = self._context.process not in opinion.failed and not opinion.out
        if source not in agreement.procs:
            if not (wants_me and self._ground.follows(source)):
                return
            agreement.procs.add(source)
        if wants_me and source not in agreement.gone and len(agreement.procs | opinion.members) <= MEMBER_LIMIT:
            same = opinion.view == self.view.era
            for one in sorted(opinion.members - agreement.procs):
                if not (same and self._has_gone(one)):
                    agreement.invite(one)
        for watched in agreement.procs - {self._context.process}:
            self._suspicion.watch(watched, step.now)
        for suspect in opinion.accused:
            self._join_in(step, suspect)

    def _join_in(self, step: Step, suspect: ProcessId) -> None:
        """Another does not hear a process that has been silent here for a while too."""
        if suspect == self._context.process or suspect not in self._agreement.procs:
            return
        silent, allowed = self._suspicion.silence(suspect, step.now)
        if 2 * silent >= allowed:
            self._agreement.unheard.add(suspect)
            return  # what comes of it by others is found out in the recovery
        missing = self._ground.misses(suspect, step.now)
        if missing is not None and suspect not in self._agreement.lacking:
            self._note_lacking(step, suspect)
            self._agreement.lacking[suspect] = missing

    def _join_accusers(self, step: Step) -> None:
        """Join in an accusation of one that is not heard here either, though it was given more time: an accuser does
        not go in its place. A member that says nothing while others are left out is as little waited for."""
        assert self.view is not None
        agreement = self._agreement
        suspects = {suspect for opinion in agreement.opinions.values() for suspect in opinion.accused}
        if suspects or agreement.unheard:
            suspects |= agreement.silent_of(set(self.view.members))
        for suspect in sorted(suspects & agreement.procs - agreement.unheard - {self._context.process}):
            silent, _ = self._suspicion.silence(suspect, step.now)
            if silent >= self._suspicion.least:
                step.mark("accusers-joined")
                agreement.unheard.add(suspect)

    def _bring(self, step: Step, opinion: Opinion, address: Address) -> None:
        """A member cannot get a message (PFailBlock): who has it sends it to that member at once."""
        for missing, sequence in opinion.lacks[:BROUGHT_AT_ONCE]:
            self._ground.bring(step, missing, sequence, address)

    def _behind(self) -> set[ProcessId]:
        """Members that cannot get what was delivered here: no view has both this process and them, unless it comes.

        Whose message it is cannot tell who else lacks it.
        """
        assert self.view is not None
        era, itself = self.view.era, self._context.process
        return {
            process
            for process, opinion in self._agreement.opinions.items()
            if opinion.view == era
            and any(one != itself and self._ground.delivered(one) >= sequence for one, sequence in opinion.lacks)
        }

    def _caps(self) -> dict[ProcessId, int]:
        """Where the view must end for some sources at the latest: a proposed member cannot get what is after that."""
        assert self.view is not None
        assert self._recovery.proposal is not None
        opinions = [self._agreement.opinions.get(process) for process in self._recovery.proposal.processes]
        lacks = [opinion.lacks for opinion in opinions if opinion is not None and opinion.view == self.view.era]
        caps: dict[ProcessId, int] = {}
        for source, sequence in (*self._lacks, *(point for points in lacks for point in points)):
            caps[source] = min(caps.get(source, sequence - 1), sequence - 1)
        return caps

    def _reconsider(self, step: Step) -> None:
        """Say what this process thinks now, if that is new; go on if everybody thinks the same."""
        if self.phase is not Phase.CONSENSUS:
            return
        assert self.view is not None
        agreement = self._agreement
        agreement.forget(self._gone_elsewhere())
        settle = step.now - self._pacing.since >= self._pacing.grace
        if settle:
            self._join_accusers(step)
        behind = self._behind() if settle else set()
        if behind:
            step.mark("lacks-what-was-delivered")
        failed = agreement.failed(settle, behind)
        refused = agreement.refused(failed)
        opinion = Opinion(
            self.view.era,
            self.attempt,
            tuple(sorted(agreement.procs)),
            tuple(sorted(agreement.accused)),
            tuple(sorted(failed)),
            tuple(sorted(refused)),
            self._lacks,
            self._out,
            self._paused,
        )
        if self._said is None or opinion != self._said:
            self.attempt += 1
            if _sees_anew(self._said, opinion):
                self._pacing.since = step.now
            self._said = replace(opinion, attempt=self.attempt)
            self._pacing.say_anew()
            self._say(step)
        self._check_consensus(step)
        self._schedule(step)

    @property
    def _lacks(self) -> tuple[UpTo, ...]:
        """Messages that this process cannot get, of those who are there and of those who are gone.

        Of whoever is not heard at all, others may still bring it: that is found out in the recovery.
        """
        agreement = self._agreement
        heard = {source: at for source, at in agreement.lacking.items() if source not in agreement.unheard}
        of_members = (UpTo(source, sequence) for source, sequence in heard.items())
        return tuple(sorted({*self._recovery.lacks, *of_members}))

    def _check_consensus(self, step: Step) -> None:
        if self._said is None:
            return
        proposal = self._agreement.proposal(self.attempt, {*self._said.failed, *self._said.refused})
        if proposal is None or not self._follows_all(proposal) or self._behind().intersection(proposal.processes):
            return
        assert self.view is not None
        if proposal.processes == self.view.members == (self._context.process,):
            self._stay_alone(step, proposal)
            return
        step.mark("consensus-reached")
        self._recovery.proposal = proposal
        self._become(step, Phase.CUT_INFO)
        self._check_cut_info(step)

    def _follows_all(self, proposal: Proposal) -> bool:
        """Whether nothing that the proposed members send from now on will be missed."""
        itself = self._context.process
        return all(self._ground.follows(process) for process in proposal.processes if process != itself)

    def _stay_alone(self, step: Step, proposal: Proposal) -> None:
        """Nobody came along: the view of this process alone stands, and receivers who wait for another go on."""
        step.mark("stayed-alone")
        assert self.view is not None
        self._context.broadcast(step, [self.view.told])
        self._become(step, Phase.SETTLED)
        self._forget_repair(proposal.failed)
        for process in proposal.failed:
            self._merging.reluctance.on_failed(process, step.now)
        self._agreement.begin(())
        self._suspicion.keep(())

    # Cut information and recovery

    def _check_cut_info(self, step: Step) -> None:
        """Wait a little for what receivers hold; the leader does that for all."""
        assert self.view is not None
        assert self._recovery.proposal is not None
        leads = self._recovery.proposal.leader == self._context.process
        waited = step.now - self._pacing.since >= self._pacing.cut_wait
        if waited or not leads or not self._ground.receivers_silent(step, self.view):
            self._halt(step)

    def _halt(self, step: Step) -> None:
        """Say what this process brings to the end of its view; nothing of it changes until the next one."""
        assert self.view is not None
        assert self._recovery.proposal is not None
        context = self._context
        self._become(step, Phase.RECOVERY_INFO)
        sent, number, held = self._ground.halt(step, self.view)
        caps = self._caps()
        if caps:
            step.mark("cut-lowered")
        held = tuple(UpTo(source, min(last, caps.get(source, last))) for source, last in held)
        self._record_cut(step, sorted((*held, UpTo(context.process, sent))), f"{self._recovery.proposal.number:016x}")
        timestamp = context.clock.tick(step.now, step.wall)
        primary, attempted = self.primary.last, self.primary.attempted
        self._recovery.infos[context.process] = RecoveryInfo(
            self._recovery.proposal.number,
            self.view.era,
            self.view.id,
            timestamp,
            sent,
            number,
            held,
            primary,
            attempted,
            b"",
        )
        self._say(step)
        self._check_infos(step)

    def _record_cut(self, step: Step, cut: Iterable[UpTo], word: str) -> None:
        assert self.view is not None
        for source, last in cut:
            seat = self.view.seat(source) or next(one.seat for one in self.view.gone if one.seat.process == source)
            step.record(repair_row("CUT", source, seat.sequence, last, word))

    def _on_info(self, step: Step, source: ProcessId, info: RecoveryInfo) -> None:
        known, proposal = self._recovery.infos.get(source), self._recovery.proposal
        if known is not None and proposal is not None and known.proposal == proposal.number:
            return
        if self._regards(source):
            self._recovery.infos[source] = info
            self._check_infos(step)

    def _check_infos(self, step: Step) -> None:
        if self.phase is not Phase.RECOVERY_INFO:
            return
        recovery = self._recovery
        infos = recovery.gathered()
        if infos is None or not self._context.believes(step, views.start_time(infos)):
            return
        recovery.origins = views.origins(infos)
        self._become(step, Phase.RECOVERY)
        self._ground.recover(step, recovery.own_origin, recovery.seats)
        self._check_recovered(step)

    def _check_recovered(self, step: Step) -> None:
        recovery, proposal = self._recovery, self._recovery.proposal
        infos = recovery.gathered()
        assert proposal is not None
        assert infos is not None
        lacking = self._ground.lacking(recovery.own_origin, recovery.seats)
        if lacking:
            gone = {source for source, _ in lacking if source not in proposal.processes}
            if not all(map(self._ground.may_come, gone)):
                self._lose_patience(step)
            return
        self._become(step, Phase.COMMIT)
        leader = proposal.leader
        if self.primary.decide(infos):
            self.primary.attempt(recovery.next_id, proposal.processes)
        recovery.ready[self._context.process] = proposal.number
        if leader == self._context.process:
            self._check_ready(step)
        else:
            self._context.tell(step, self._addresses[leader], Ready(proposal.number))
            self._pacing.moved = step.now
        self._schedule(step)

    # Commit

    def _on_ready(self, step: Step, source: ProcessId, address: Address, message: Ready) -> None:
        stood = next((one for one in self._history.values() if one.proposal == message.proposal), None)
        if stood is not None:
            self._context.tell(step, address, stood)
        elif self._regards(source):
            self._recovery.ready[source] = message.proposal
            self._check_ready(step)

    def _check_ready(self, step: Step) -> None:
        """The leader lets the view stand when all are ready."""
        proposal = self._recovery.proposal
        if self.phase is not Phase.COMMIT or proposal is None or proposal.leader != self._context.process:
            return
        if self._recovery.unready:
            return
        infos = self._recovery.gathered()
        assert infos is not None
        suspects = tuple((failed, self._agreement.blamed_by(failed)) for failed in proposal.failed)
        message = NewView(
            proposal.number,
            self._recovery.next_id,
            self._recovery.next_id,
            self._recovery.seats,
            self._recovery.origins,
            suspects,
            self._agreement.lacked(proposal.failed),
            self.primary.electors(proposal.processes, self.primary.decide(infos)),
            b"",
        )
        self._context.broadcast(step, [message])
        self._install(step, message, self._recovery.own_origin)

    def _on_new_view(self, step: Step, source: ProcessId, message: NewView) -> None:
        assert self.view is not None
        proposal = self._recovery.proposal
        if proposal is not None and self.phase is Phase.COMMIT and message.proposal == proposal.number:
            if self._recovery.leads_to(message):
                self._install(step, message, self._recovery.own_origin)
            else:
                step.note(Reason.VIEW_STALE)
            return
        members = [seat.process for seat in message.seats]
        follows = any(origin.view == self.view.era for origin in message.origins)
        if not follows or message.era <= self.view.era:
            step.note(Reason.VIEW_STALE)
            return
        if self._context.process in members:  # this process went back before the view came to stand
            self.on_gone(step, source)
            return
        if message.proposal and self._is_left_out(members):
            self._tell_excluded(step)
        for process in members:
            self.on_gone(step, process)

    def _is_left_out(self, members: list[ProcessId]) -> bool:
        """Whether those who went on are the view, and not a few whom it is about to leave out itself."""
        assert self.view is not None
        gone_on = set(members).intersection(self.view.members)
        failed = () if self._said is None else self._said.failed
        return 2 * len(gone_on) >= len(self.view.members) and not gone_on.issubset(failed)

    def _tell_excluded(self, step: Step) -> None:
        """The others go on without this process; its application hears that once for each view."""
        assert self.view is not None
        if self._excluded_from != self.view.era:
            self._excluded_from = self.view.era
            step.mark("excluded")
            self._ground.tell(step, Excluded(self.view.era))

    def has_left(self, source: ProcessId) -> bool:
        """A member is known to be out of this process's view, or to go from it."""
        return source in self._agreement.gone or self._agreement.has_said_farewell(source)

    def leaves_out(self, source: ProcessId) -> bool:
        """True for a member that is not to be in the next view, as this process last said."""
        return self.repairing and self._said is not None and source in self._said.failed

    def _install(
        self, step: Step, message: NewView, origin: Origin | None, reason: ViewReason = ViewReason.SUSPECTED
    ) -> None:
        """The next view stands. What is left of this repair is forgotten, and who was left out is kept off a while."""
        context = self._context
        failed = () if self._recovery.proposal is None else self._recovery.proposal.failed
        if self.view is not None and self._said is not None and set(self._said.refused) & set(self.view.members):
            self._tell_excluded(step)
        self.view = AgreedView.of(message)
        self._history[message.era] = message
        while len(self._history) > HISTORY:
            del self._history[next(iter(self._history))]
        members = self.view.members
        if self.view.primary:
            self.primary.installed(message.view, members)
        self._become(step, Phase.SETTLED)
        self._recovery.proposal = None
        self._agreement.begin(members)
        self._forget_repair(failed)
        if len(members) > 1:  # alone, nobody has heard of it yet
            self._paused = 0
        self._suspicion.keep(members)
        for process in failed:
            if (process, (process,)) not in message.suspects:  # who left may come back at once
                self._merging.reluctance.on_failed(process, step.now)
        for process in members:
            if process != context.process:
                self._suspicion.watch(process, step.now)
                self._merging.reluctance.on_joined(process, step.now)
        context.deadlines.clear("suspicion")
        self._ground.install(step, message, origin, reason)
        self._plan_merge(step)

    def _forget_repair(self, failed: tuple[ProcessId, ...]) -> None:
        """What was said for this repair is not taken for the next one; what strangers said meanwhile is."""
        assert self.view is not None
        opinions = self._agreement.opinions
        for process in failed:  # what it still wants, it says again
            opinions.pop(process, None)
        past = {seat.process: seat.attempt for seat in self.view.seats}
        for process, attempt in past.items():
            self._heard_up_to.pop(process, None)
            self._heard_up_to[process] = attempt
            if process in opinions and opinions[process].attempt <= attempt:
                del opinions[process]
        while len(self._heard_up_to) > REMEMBERED:
            del self._heard_up_to[next(iter(self._heard_up_to))]
        self._recovery.forget()
        self._merging.forget()
        self._addresses = {process: at for process, at in self._addresses.items() if self._regards(process)}
        self._agreement.opinions = {process: said for process, said in opinions.items() if self._regards(process)}

    # Going back, saying again, losing patience

    def _rollback_unless(self, step: Step, fine: bool) -> None:
        if not fine:
            self._rollback(step)

    def _rollback(self, step: Step) -> None:
        """Give up the proposal: nothing was delivered for it, and sending and delivery go on."""
        if self.halted:
            step.mark("rolled-back")
            if self.phase is Phase.COMMIT:
                self.attempt += 1
                self._said = None
            self._become(step, Phase.CONSENSUS)
            self._ground.resume(step)
        elif self.phase is Phase.CUT_INFO:
            self._become(step, Phase.CONSENSUS)
        self._recovery.proposal = None

    @property
    def _patience(self) -> int:
        """Ready members wait for their leader, it for who is not ready, and those for messages or for an agreement."""
        if self.phase is not Phase.COMMIT:
            return self._pacing.patience(0 if self.phase is Phase.CONSENSUS else 1)
        proposal = self._recovery.proposal
        leads = proposal is not None and proposal.leader == self._context.process
        return self._pacing.patience(2 if leads else 3)

    def _lose_patience(self, step: Step) -> None:
        """Nothing has moved for long: name who is waited for, or what cannot be had."""
        recovery, proposal = self._recovery, self._recovery.proposal
        step.mark("repair-stalled")
        if self.phase is Phase.CONSENSUS or proposal is None:
            failed = self._agreement.failed(True, self._behind())
            self._agreement.gone |= self._agreement.dissenters(failed | self._agreement.refused(failed))
            self._pacing.since = step.now
            return
        if self.phase is Phase.RECOVERY:
            lacking = self._ground.lacking(recovery.own_origin, recovery.seats)
            recovery.lacks = tuple(point for point in lacking if point.source not in proposal.processes)
            if not recovery.lacks:  # those who could repair it are there
                self.step_out(step, ViewReason.INCOMPLETE)
                return
        elif self.phase is Phase.COMMIT:
            leads = proposal.leader == self._context.process
            self._agreement.gone |= recovery.unready if leads else {proposal.leader}
        else:
            self._agreement.gone |= recovery.late - {self._context.process}
        self._rollback(step)
        self._said = None  # what this process said for the proposal holds no longer
        self._reconsider(step)

    def _let_strangers_be(self, step: Step) -> None:
        """A stranger that says nothing, or is not followed here, does not hold members up: perhaps it only receives by
        now, or its way to this process is broken."""
        assert self.view is not None
        agreement = self._agreement
        strangers = agreement.procs - set(self.view.members) - agreement.gone
        unheard = {stranger for stranger in strangers if not self._ground.follows(stranger)}
        for stranger in sorted(agreement.silent_of(strangers) | unheard):
            step.mark("stranger-let-be")
            agreement.gone.add(stranger)
            if self._ground.may_merge(stranger):  # it still sends, and would be asked again at once
                self._merging.reluctance.on_failed(stranger, step.now)

    def _say_again(self, step: Step) -> None:
        if self._pacing.is_time_to_say_again(step.now):
            self._say(step)

    def _say(self, step: Step) -> None:
        """Say where this process stands in the repair."""
        messages: list[MembershipMessage] = []
        if self._said is not None:
            messages.append(self._said)
        if self.halted:
            messages.append(self._recovery.infos[self._context.process])
        if self.phase is Phase.COMMIT and self._recovery.proposal is not None:
            messages.append(Ready(self._recovery.proposal.number))
        self._pacing.moved = step.now
        self._context.broadcast(step, list(messages))

    def _schedule(self, step: Step) -> None:
        deadlines = self._context.deadlines
        if self.phase is Phase.SETTLED:
            if self._merging.due is not None:
                deadlines.set("membership", self._merging.due)
            return
        pacing = self._pacing
        due = [pacing.moved + pacing.interval, pacing.since + self._patience]
        if self.phase is Phase.CONSENSUS:
            due += [pacing.since + pacing.grace, pacing.since + pacing.patience_with_strangers]
        elif self.phase is Phase.CUT_INFO:
            due.append(pacing.since + pacing.cut_wait)
        deadlines.set("membership", min((at for at in due if at > step.now), default=step.now + pacing.interval))

    # Merging

    def _plan_merge(self, step: Step) -> None:
        if self.phase is Phase.SETTLED and self._merging.plan(step.now):
            assert self._merging.due is not None
            self._context.deadlines.advance("membership", self._merging.due)

    def _merge(self, step: Step) -> None:
        strangers = [one for one in self._merging.begin(step.now) if self._ground.may_merge(one)]
        if not strangers:
            self._plan_merge(step)
            return
        step.mark("merge-begun")
        self._start(step)
        for stranger in strangers:
            self._agreement.invite(stranger)
            self._suspicion.watch(stranger, step.now)
        self._reconsider(step)


def _sees_anew(before: Opinion | None, opinion: Opinion) -> bool:
    """Whether somebody sees what it did not see before, and does not merely judge it otherwise."""
    if before is None:
        return True
    return (before.procs, before.accused, before.out) != (opinion.procs, opinion.accused, opinion.out)
