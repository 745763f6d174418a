"""A mere receiver follows the views of the senders (000 5.5): it takes no part in the agreement, and only watches.

It looks for a view at first and comes into the middle of it. When it hears that its senders repair their membership,
or that one of them has gone ahead, it halts, says what it holds, and waits for the next view. Where it has delivered
more than belongs to the view that ended, or cannot follow, it tells the application and starts anew (E10).
"""

from __future__ import annotations

from unisono.engine import Address, Contribute
from unisono.events import DroppedOut, ViewReason
from unisono.identity import ProcessId, ViewId, ViewMark
from unisono.intergroup.agreed_order import ByTimestamp
from unisono.intergroup.context import Context
from unisono.intergroup.following import Following
from unisono.intergroup.hierarchy.aggregation import CUT
from unisono.intergroup.membership.cuts import cut_entries
from unisono.intergroup.membership.view import AgreedView
from unisono.intergroup.membership.waiting import Awaited, Waiting
from unisono.reliable.step import Step
from unisono.reliable.suspicion import least_silence
from unisono.trace.schema import MembershipRow
from unisono.wire.control_messages import Contribution, Entry
from unisono.wire.membership_messages import CutInfo, MembershipMessage, NewView, Opinion, Origin, UpTo, ViewRequest
from unisono.wire.messages import DIRECTLY

NOT_HEARD = "a new sender was not heard"
REMEMBERED = 1024
"""Of so many senders the last mark is remembered, whether they are followed or not."""


class ReceiverRepair:
    """The views of one receiver."""

    __slots__ = (
        "_addresses",
        "_asked_at",
        "_context",
        "_contributes",
        "_following",
        "_halted_for",
        "_heard",
        "_held_for",
        "_looks_since",
        "_marks",
        "_next",
        "_out",
        "_waits_since",
    )

    def __init__(self, context: Context, following: Following) -> None:
        self._context = context
        self._following = following
        self._addresses: dict[ProcessId, Address] = {}
        self._marks: dict[ProcessId, ViewMark] = {}
        self._heard: dict[ProcessId, int] = {}
        self._out: dict[ProcessId, ViewMark] = {}
        """Who said that it leaves, and in which view."""
        self._asked_at = 0
        self._contributes = False
        self._looks_since = 0
        self._waits_since: int | None = None
        self._held_for: ViewId | None = None
        self._halted_for: ViewId | None = None
        self._next: tuple[NewView, Origin] | None = None
        """The view that follows, while somebody in it is not followed yet."""

    def begin(self, step: Step) -> None:
        """Look for a view."""
        step.record(MembershipRow(kind="BOOTSTRAP"))
        self._context.agreed = None
        self._looks_since = step.now
        self._waits_since = None
        self._held_for = self._halted_for = None
        self._next = None
        self._context.deadlines.set("membership", step.now + self._context.settings.keep_alive // 2)

    def pause(self) -> None:
        """This process became a sender: it agrees on views itself."""
        self._waits_since = None
        self._next = None

    def resume(self, step: Step) -> None:
        """This process became a receiver, in the view that it is in, and has heard its members until now."""
        self._held_for = self._halted_for = None
        for source, stream in sorted(self._following.streams.items()):
            if self._context.shares_view(source):
                self._addresses[source] = stream.address
                self._marks[source] = stream.last_mark
                self._heard[source] = step.now
        self._context.deadlines.set("membership", step.now + self._context.settings.keep_alive // 2)

    @property
    def _view(self) -> AgreedView | None:
        """The view that this receiver is in, or about to be in."""
        ordered = self._following.ordered
        return None if ordered is None else ordered.last_view

    def on_mark(self, step: Step, source: ProcessId, address: Address, mark: ViewMark) -> None:
        """A sender says which view it is in."""
        if len(self._marks) > REMEMBERED:
            self._marks = {one: last for one, last in self._marks.items() if self._following.follows(one)}
            self._addresses = {one: at for one, at in self._addresses.items() if one in self._marks}
            self._heard = {one: at for one, at in self._heard.items() if one in self._marks}
            self._out = {one: mark for one, mark in self._out.items() if one in self._marks}
        self._addresses[source] = address
        self._marks[source] = mark
        self._heard[source] = step.now
        view = self._view
        ahead = view is not None and view.seat(source) is not None and mark.start > view.mark.start
        if view is None or ahead or not self._lives(view, step.now):
            self._ask(step)

    def on_restarted(self, source: ProcessId) -> None:
        """A sender is in no view any more: it has another life."""
        self._heard.pop(source, None)

    def on_message(self, step: Step, source: ProcessId, address: Address, message: MembershipMessage) -> None:
        view = self._view
        if isinstance(message, Opinion):
            if message.out and source in self._marks:
                self._out[source] = self._marks[source]
            if view is not None and message.view == view.era:
                self._halt(step, view, alone=view.members == (source,))
                self._say_held(step, view, (message.members - set(message.accused)) & set(self._addresses))
        elif isinstance(message, NewView):
            self._on_new_view(step, source, message)

    def on_lost(self, step: Step, source: ProcessId, reason: ViewReason) -> None:
        """A source of the view cannot be followed any more as it was; perhaps anew."""
        if self._view is not None:
            self._start_anew(step, str(reason))
        self._following.let_go(step, source, reason)

    def on_standstill(self, step: Step, overdue: Awaited, waiting: Waiting) -> None:
        """Everything has waited for one sender for all of patience: others go on, and so does this process, without
        what it sent. Senders who lack the same are given the time to end the view before that."""
        ordered, settings = self._following.ordered, self._context.settings
        assert ordered is not None, "something waits for its turn"
        if overdue.source in ordered.awaited:
            self._start_anew(step, NOT_HEARD)
        elif overdue.exists:
            if waiting.overdue(settings.patience + settings.suspicion, step.now) is not None:
                self.on_lost(step, overdue.source, ViewReason.INCOMPLETE)
        elif ordered.holds_any and self._others_are_heard(overdue.source, step.now):
            self.on_lost(step, overdue.source, ViewReason.SILENT)

    def _others_are_heard(self, source: ProcessId, now: int) -> bool:
        """Whether this process hears a member of its view since it has heard that one."""
        view = self._view
        members = () if view is None else view.members
        since = max(self._heard.get(source, 0), now - self._context.settings.suspicion)
        return any(self._heard.get(member, 0) > since for member in members)

    def on_time(self, step: Step) -> None:
        """Ask for a view that does not come; give up one that is not followed by another."""
        settings = self._context.settings
        ordered = self._following.ordered
        halted = ordered is not None and ordered.halted
        if halted and self._waits_since is None:
            self._waits_since = step.now
        if self._waits_since is not None and step.now - self._waits_since >= settings.patience:
            self._start_anew(step, "the next view did not come")
        elif self._view is None or (ordered is not None and ordered.unsettled):
            self._ask(step)

    def _look_again(self, step: Step) -> None:
        """Come back soon while a view is waited for, and somebody is there who may know of it."""
        deadlines, ordered = self._context.deadlines, self._following.ordered
        if deadlines.is_set("membership"):
            return
        waits = ordered is not None and ordered.unsettled
        if waits or (self._view is None and any(self._hears(one, step.now) for one in self._heard)):
            deadlines.set("membership", step.now + self._context.settings.keep_alive // 2)

    def _halt(self, step: Step, view: AgreedView, alone: bool) -> None:
        """The end of the view is being agreed: deliver nothing more of it before that is known.

        All that a lone sender sends belongs to its view.
        """
        ordered = self._following.ordered
        if ordered is None or ordered.last_view is not ordered.presented or self._halted_for == view.era:
            return
        ordered.expects = True
        if alone:
            return
        self._halted_for = view.era
        ordered.halted = True
        self._waits_since = step.now
        step.mark("receiver-halted")

    def _say_held(self, step: Step, view: AgreedView, members: frozenset[ProcessId]) -> None:
        """Say, once in a repair, what the end of the view may take from here."""
        ordered = self._following.ordered
        if ordered is None or ordered.last_view is not ordered.presented or self._held_for == view.era:
            return
        self._held_for = view.era
        held = [UpTo(seat.process, self._held(seat.process, view)) for seat in view.seats]
        through_hierarchy = self._context.distances is not None and any(
            self._following.streams[seat.process].reporting != DIRECTLY
            for seat in view.seats
            if seat.process in self._following.streams
        )
        if not through_hierarchy or not members:
            self._context.broadcast(step, [CutInfo(view.era, tuple(held))])
            return
        leader = min(members)
        entries = cut_entries(view.era, held, self._context.process, self._addresses[leader])
        self._contribute(step, entries)

    def _contribute(self, step: Step, entries: tuple[Entry, ...]) -> None:
        """Say what is held to the control hierarchy, which adds it up for the leader; nothing takes it back."""
        if entries or self._contributes:
            self._contributes = bool(entries)
            step.effect(Contribute(Contribution(self._context.number, CUT, entries), urgent=True))

    def _held(self, source: ProcessId, view: AgreedView) -> int:
        seat, stream = view.seat(source), self._following.streams.get(source)
        assert seat is not None
        return seat.sequence - 1 if stream is None else stream.held(view.mark, seat.sequence)

    def _ask(self, step: Step) -> None:
        """Ask a sender that is in a later view, of those that live, lately heard where any was; where there are several
        such views, in the one that most of this one went to, or that most are in: never a newcomer's before theirs.
        Whoever has looked for a view in vain for all of patience asks one after the other."""
        if step.now - self._asked_at < self._context.settings.keep_alive // 2 or not self._marks:
            return
        if self._view is None and not self._following.has_room:
            return  # the application takes nothing: a view that it came into now would only wait
        candidates = [one for one in self._marks if self._following.follows(one) and self._hears(one, step.now)]
        if not candidates:
            return
        least = least_silence(self._context.settings)
        candidates = [one for one in candidates if step.now - self._heard[one] < least] or candidates
        self._asked_at = step.now
        view = self._view
        if view is not None:
            later = [one for one in candidates if self._marks[one].start > view.mark.start]
            candidates = later or candidates
        ranked = self._rank(candidates, view)
        settings = self._context.settings
        overdue = 0 if view is not None else max(0, step.now - self._looks_since - settings.patience)
        source = ranked[overdue // settings.keep_alive % len(ranked)]
        request = ViewRequest(source, None if view is None else view.era)
        self._context.tell(step, self._addresses[source], request)

    def _rank(self, candidates: list[ProcessId], view: AgreedView | None) -> list[ProcessId]:
        """Whom to ask first: who is where most of this process's view went, or in the largest view, or the latest."""
        followed = [] if view is None else [self._marks[one] for one in candidates if view.seat(one) is not None]
        present = [self._marks[one] for one in candidates]
        return sorted(
            candidates,
            key=lambda one: (followed.count(self._marks[one]), present.count(self._marks[one]), self._marks[one], one),
            reverse=True,
        )

    def _on_new_view(self, step: Step, source: ProcessId, message: NewView) -> None:
        ordered, view = self._following.ordered, self._view
        if source in self._marks and any(seat.process == source for seat in message.seats):
            self._marks[source] = max(self._marks[source], message.era.mark)  # nothing else may have said so yet
        if ordered is not None and view is not None and message.era == view.era:
            self._on_standing(step, ordered, source, message)
            return
        if view is not None and message.era <= view.era and self._lives(view, step.now):
            return  # else nobody is in this view, and the clock of who began a lower one may have been set back
        if not self._context.believes(step, message.view.start):
            return
        if ordered is None or view is None:
            if self._following.has_room and self._is_largest(message, step.now):
                self._aim(step, message)
            return
        origin = next((origin for origin in message.origins if origin.view == view.era), None)
        members = tuple(seat.process for seat in message.seats if view.seat(seat.process) is not None)
        along = members if origin is None else origin.entrants
        if along and not self._prefers(step, view, along, message):
            return  # it is told again, should the others go nowhere
        if origin is None:
            if along or not self._lives(view, step.now):
                self._start_anew(step, "a view was missed")
            return
        if ordered.goes_beyond(origin):
            self._start_anew(step, "more was delivered than belongs to the view", message)
            return
        if message.view != message.era:  # as one is told that comes into the middle of it: how it began is not there
            self._ask(step)
            return
        for source, last in origin.cut:
            self._following.make_room(source)
            self._following.fetch(step, source, last)
        ordered.halted = True
        self._next = message, origin
        self.on_progress(step)

    def _on_standing(self, step: Step, ordered: ByTimestamp, source: ProcessId, message: NewView) -> None:
        """A member says that its view stands, and who sends by now.

        Who is awaited here may have become a receiver again. A lone sender may have wanted another view and have
        stayed in this one, all of which its receivers are to have.
        """
        view = ordered.presented
        later = view is not None and message.view > view.id
        if later and any(seat not in message.seats for seat in ordered.awaited.values()):
            self._start_anew(step, NOT_HEARD, message)
        elif [seat.process for seat in message.seats] == [source] and self._held_for == message.era:
            step.mark("receiver-went-on")
            self._halted_for = self._held_for = self._waits_since = None
            self._contribute(step, ())
            self._following.go_on(step)

    def on_progress(self, step: Step) -> None:
        """Go on to the next view when the last one is complete here, and all members are followed from their start."""
        self._look_again(step)
        ordered = self._following.ordered
        if self._next is None or (ordered is not None and ordered.lags):
            return
        message, origin = self._next
        for source, last in origin.cut:
            stream = self._following.streams.get(source)
            if stream is not None and stream.in_view and stream.window.contiguous < last:
                return
        ordered = self._following.ordered
        if ordered is not None and any(ordered.first_lacking(*point) is not None for point in origin.cut):
            self._start_anew(step, NOT_HEARD, message)
            return
        together = set(origin.entrants)
        for seat in message.seats:
            stream = self._following.streams.get(seat.process)
            if stream is None or stream.ending is not None:
                return
            if seat.process not in together and stream.window.next > seat.sequence:
                self._start_anew(step, "a new member was heard too late", message)
                return
        self._next = None
        self._waits_since = None
        self._contribute(step, ())
        self._context.agreed = AgreedView.of(message)
        self._following.agree(step, message, origin)
        self._following.take_room_back()

    def _lives(self, view: AgreedView, now: int) -> bool:
        """Whether any sender of a view is still in it, as far as was heard; who said farewell is not."""
        return any(
            self._marks[member] == view.mark and not self._has_left(member, view)
            for member in view.members
            if self._hears(member, now)
        )

    def _prefers(self, step: Step, view: AgreedView, along: tuple[ProcessId, ...], message: NewView) -> bool:
        """Whether to go where these members of a view go: into the primary component, or where most of those go who are
        heard; the others are still in the view, or in later ones apart. Of equals, all receivers choose the same."""
        if AgreedView.of(message).primary:
            return True
        least = least_silence(self._context.settings)
        others: dict[ViewMark, list[ProcessId]] = {}
        for member in view.members:
            heard = self._heard.get(member)
            gone = member in along or member in message.leavers or self._has_left(member, view)
            if not gone and heard is not None and step.now - heard < least:
                others.setdefault(self._marks[member], []).append(member)
        return all(
            len(along) > len(group) or (len(along) == len(group) and min(along) < min(group))
            for group in others.values()
        )

    def _has_left(self, member: ProcessId, view: AgreedView) -> bool:
        stream = self._following.streams.get(member)
        return self._out.get(member) == view.mark or (stream is not None and stream.farewell is not None)

    def _is_largest(self, message: NewView, now: int) -> bool:
        """No view of more senders that are followed and were heard lately stands beside this one.

        After all of patience any view will do: one sender of the largest may be out of reach.
        """
        if now - self._looks_since >= self._context.settings.patience:
            return True
        least = least_silence(self._context.settings)
        lately = [one for one, heard in self._heard.items() if now - heard < least and self._following.follows(one)]
        marks = [self._marks[one] for one in lately]
        return all(marks.count(mark) <= marks.count(message.era.mark) for mark in set(marks))

    def _hears(self, source: ProcessId, now: int) -> bool:
        return source in self._heard and now - self._heard[source] < self._context.settings.source_timeout

    def _start_anew(self, step: Step, reason: str, message: NewView | None = None) -> None:
        """Give up following, and look for a view to come into; that of a message, where there is one."""
        step.mark("dropped-out")
        step.deliver(DroppedOut(reason))
        self._following.take_room_back()
        self._following.drop_out(step)
        self.begin(step)
        if message is None or not self._following.has_room:
            self._ask(step)
        else:
            self._aim(step, message)

    def _aim(self, step: Step, message: NewView) -> None:
        """A view stands: come into it, wherever it is."""
        assert self._following.entering is not None, "who is in no view looks for one"
        self._context.agreed = AgreedView.of(message)
        self._following.entering.aim(step, message)
