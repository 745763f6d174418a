"""A strong group of a session: from view to view together, with the same messages before each (document 002)."""

from __future__ import annotations

from unisono.engine import (
    Address,
    BlockOk,
    Effect,
    EventsTaken,
    Fact,
    Join,
    Leave,
    PacketReceived,
    Send,
)
from unisono.events import Block, SendAccepted, SendRefused, Unblocked, View
from unisono.identity import NO_VIEW, ProcessId, ViewId
from unisono.reliable.step import Place, Step
from unisono.trace.schema import Member, MembershipRow
from unisono.virtual_synchrony.reasons import NAME_TAKEN, Reason
from unisono.virtual_synchrony.session.change import ViewChange
from unisono.virtual_synchrony.session.context import Context
from unisono.virtual_synchrony.session.flow import Flow
from unisono.virtual_synchrony.session.gauges import record_gauges
from unisono.virtual_synchrony.session.phases import Phase, Resumption, Sends
from unisono.virtual_synchrony.session.stay import Stay
from unisono.virtual_synchrony.session.streams import Streams
from unisono.virtual_synchrony.session.synchronizing import Synchronizing
from unisono.virtual_synchrony.session.view import SessionView, view_event
from unisono.virtual_synchrony.session.watching import Watching
from unisono.wire.messages import ControlPacket, DataPacket
from unisono.wire.server_frames import Departure
from unisono.wire.session_messages import Cut, CutRequest, SessionMessage, SessionRequest, ViewStart


class StrongGroup:
    """One process in one strong group. The servers speak through `on_start_change` and `on_new_view`."""

    service = "VS"

    __slots__ = (
        "_context",
        "_flow",
        "_gauged_at",
        "_gone",
        "_place",
        "_sends",
        "_settings",
        "_stay",
        "_synchronizing",
        "_watching",
        "certain",
        "last_change",
        "offered",
    )

    def __init__(self, context: Context, resumption: Resumption) -> None:
        self._context = context
        self._settings = settings = context.settings
        self._place = Place(
            context.group, self.service, resumption.stretch + 1, settings.trace, messages=settings.trace_messages
        )
        self._flow = Flow(context, resumption.number, resumption.heard)
        self._synchronizing = Synchronizing(context, self._flow)
        self._watching = Watching(settings)
        self._stay = Stay(context, self._flow)
        self._sends = Sends.BLOCKED
        self._gauged_at = 0
        self._gone: dict[ProcessId, Departure] = {}
        """Why members of the view were not expected in the next, by any start-change since it was installed."""
        self.certain = True
        """Whether the server is known to count this process: not right after the process was stopped."""
        self.last_change = resumption.change
        self.offered: ViewId | None = None
        """The view that was announced last: parted servers may announce two with one number."""

    # ── what the stack asks ──

    @property
    def outside(self) -> bool:
        return self._stay.outside

    @property
    def misfit(self) -> str | None:
        """Why this process cannot be in one group with another."""
        return self._stay.misfit

    @property
    def leaving(self) -> bool:
        return self._stay.phase is Phase.LEAVING

    @property
    def number(self) -> int:
        """What stands for the group on the wire."""
        return self._context.number

    @property
    def view(self) -> SessionView | None:
        """The view that this process is in."""
        return None if self._flow.streams is None else self._flow.streams.view

    @property
    def expected(self) -> SessionView | None:
        """The view that is announced and not installed yet."""
        change = self._synchronizing.change
        return None if change is None else change.next

    @property
    def blocked(self) -> bool:
        """Whether nothing more is sent in this view."""
        return self._sends is Sends.BLOCKED

    @property
    def accused(self) -> tuple[ProcessId, ...]:
        return self._watching.accused

    def take_changed_accusations(self) -> bool:
        """Whether who is accused has changed since this was last asked."""
        changed, self._watching.changed = self._watching.changed, False
        return changed

    def take(self, messages: int) -> None:
        """A controller has passed so many messages on; it always takes what comes."""
        self._flow.untaken -= messages

    def locate(self, process: ProcessId, address: Address) -> None:
        """A server says where a member gets datagrams."""
        self._context.addresses.setdefault(process, address)

    def resumption(self) -> Resumption:
        return Resumption(self._flow.outgoing.last_number, self._place.stretch, self.last_change, self._flow.heard)

    def deadline(self) -> int | None:
        return self._context.deadlines.earliest()

    # ── one way in ──

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        step = Step(self._place, now, wall)
        if isinstance(fact, PacketReceived):
            self._on_packet(step, fact)
        elif isinstance(fact, Send):
            self._on_send(step, fact)
        elif isinstance(fact, EventsTaken):
            self._flow.untaken = max(0, self._flow.untaken - fact.count)
            self._flow.deliver_all(step)
        elif isinstance(fact, BlockOk):
            self._on_block_ok(step)
        elif isinstance(fact, Join):
            self._gauged_at = step.now
            self._stay.become_member(step, self.service)
        elif isinstance(fact, Leave):
            self._stay.become_leaving(step)
        return self._finish(step)

    def on_start_change(self, change: int, expected: SessionView, now: int, wall: int) -> list[Effect]:
        """A server says that the view is about to change, and to which."""
        step = Step(self._place, now, wall)
        if self.outside or change <= self.last_change:
            step.note(Reason.OLD_CUT)
        else:
            self.offered = expected.id
            before = () if self.view is None else self.view.members
            self._gone.update((member, expected.gone[member]) for member in before if member in expected.gone)
            self._become_changing(step, change, expected)
        return self._finish(step)

    def on_new_view(self, view: ViewId, now: int, wall: int) -> list[Effect]:
        """The servers agreed on the view that was announced."""
        step = Step(self._place, now, wall)
        change = self._synchronizing.change
        if change is not None and change.next.id == view and not change.stands:
            change.stands = True
            step.record(MembershipRow(kind="NEW_VIEW", number=change.id))
        return self._finish(step)

    def on_moved(self, now: int, wall: int) -> list[Effect]:
        """This process is with another server than before, or with its first."""
        step = Step(self._place, now, wall)
        if self.last_change:
            step.mark("vs-server-changed")
        return step.finish()

    def on_stopped(self, gap: int, now: int, wall: int) -> list[Effect]:
        """This process did not run for so long: it blames nobody for that, and sends nothing before it is counted."""
        step = Step(self._place, now, wall)
        step.mark("woke-up")
        self._watching.forgive(gap)
        self.certain = False
        return step.finish()

    def on_certain(self, now: int, wall: int) -> list[Effect]:
        """The server counts this process, and has said all that it had to say."""
        self.certain = True
        return self._finish(Step(self._place, now, wall))

    def on_superseded(self, now: int, wall: int) -> list[Effect]:
        """A newer process has the name of this one: the others are in views with that one."""
        step = Step(self._place, now, wall)
        self._stay.drop_out(step, NAME_TAKEN)
        return step.finish()

    def _finish(self, step: Step) -> list[Effect]:
        """What may follow from anything that happened."""
        self._on_time(step)
        while self._synchronizing.complete and self._stay.why_drop_out() is None:
            self._become_installed(step)
        self._send(step)
        self._stay.look(step, self._synchronizing.change is not None)
        self._arrange(step)
        return step.finish()

    # ── sending ──

    def _on_send(self, step: Step, send: Send) -> None:
        outgoing = self._flow.outgoing
        if self._stay.phase is not Phase.MEMBER:
            step.deliver(SendRefused(send.ticket, Reason.NOT_MEMBER))
        elif not send.proxy and (refusal := outgoing.why_refuse(send.messages)) is not None:
            step.deliver(SendRefused(send.ticket, refusal))
        elif not send.messages:
            step.deliver(SendAccepted(send.ticket))
        else:
            outgoing.enqueue(send.messages, send.ticket, relayed=send.proxy)

    def _send(self, step: Step) -> None:
        """Send what may be sent: in the current view or, while that ends, optimistically in the next one."""
        change = self._synchronizing.change
        if self.outside:
            return
        if self._flow.streams is None or not self.certain:
            self._flow.outgoing.note_blocked(step, None)
        elif self._sends is not Sends.BLOCKED:
            self._flow.send(step, self._sends is Sends.FINISHING)
        elif change is not None and self._settings.optimistic:
            self._flow.send_early(step, change.next)
        else:
            self._flow.outgoing.note_blocked(step, None)

    # ── what comes from others ──

    def _on_packet(self, step: Step, fact: PacketReceived) -> None:
        packet = fact.packet
        if self.outside:
            step.note(Reason.NOT_MEMBER)
            return
        self._context.addresses[packet.source] = fact.source
        self._watching.on_heard(packet.source, step.now)
        change = self._synchronizing.change
        expected = None if change is None else change.next
        if isinstance(packet, DataPacket):
            self._flow.on_data(step, packet, expected)
        elif isinstance(packet, ControlPacket):
            for refused in packet.refused:
                step.note(refused)
            for message in packet.messages:
                if isinstance(message, SessionMessage):
                    self._on_message(step, packet.source, message)
                else:
                    step.note(Reason.NOT_OURS)
        else:
            self._flow.on_data(step, packet.data, expected)

    def _on_message(self, step: Step, source: ProcessId, message: SessionMessage) -> None:
        streams = self._flow.streams
        if isinstance(message, ViewStart):
            if message.reading:
                self._watching.on_reading(source)
            if self._counts(source):
                self._stay.compare(source, message)
            self._flow.on_view_start(step, source, message)
        elif isinstance(message, Cut):
            self._synchronizing.on_cut(step, source, message)
        elif isinstance(message, CutRequest):
            self._synchronizing.on_cut_request(step, source, message)
        elif isinstance(message, SessionRequest):
            self._flow.on_request(step, source, message)
        elif streams is not None and message.view == streams.mark:
            floor = streams.on_stable_cut(step, source, message)
            if floor is not None:
                self._flow.outgoing.release(step, streams.own, floor)

    def _counts(self, member: ProcessId) -> bool:
        """Whether it is in the view, or expected in the next."""
        return any(view is not None and member in view.seats for view in (self.view, self.expected))

    # ── from view to view ──

    def _become_changing(self, step: Step, change: int, expected: SessionView) -> None:
        if self._synchronizing.change is not None:
            step.mark("vs-cascaded-change")
            step.mark("vs-view-skipped")
            self._flow.void_future(step, self._settings.optimistic_policy)
        view = self.view
        if view is not None and any(expected.voice(member) is None for member in view.members):
            step.mark("vs-split")
        self.last_change = change
        self._synchronizing.begin(step, change, expected)
        members = [Member(*member) for member in expected.members]
        step.record(MembershipRow(kind="START_CHANGE", number=change, members=members))
        self._watch(step)
        if self._sends is Sends.BLOCKED:
            self._synchronizing.send_cut(step)
        elif self._settings.block == "auto" or not self.certain:
            self._become_blocked(step, "session")  # who was stopped sends nothing more in a view that may be over
        elif self._sends is Sends.FREELY:
            self._sends = Sends.FINISHING
            step.record(MembershipRow(kind="BLOCK", number=change))
            step.deliver(Block(change))
            self._context.deadlines.set("block", step.now + self._settings.block_timeout)

    def _on_block_ok(self, step: Step) -> None:
        if self._sends is not Sends.FINISHING:
            step.note(Reason.LATE_BLOCK_OK)
            return
        self._send(step)
        self._become_blocked(step, "application")

    def _become_blocked(self, step: Step, reason: str) -> None:
        """Nothing more is sent in this view: say what can be delivered in it."""
        change = self._synchronizing.change
        assert change is not None, "only a change blocks"
        self._sends = Sends.BLOCKED
        self._context.deadlines.clear("block")
        if self._flow.outgoing.begun:
            step.mark("vs-partial-message")
            self._flow.outgoing.rewind()
        for ticket in self._flow.outgoing.drop_relayed():
            step.deliver(SendRefused(ticket, Reason.TOO_LATE))
        step.record(MembershipRow(kind="BLOCK_OK", number=change.id, reason=reason))
        self._synchronizing.send_cut(step)

    def _become_installed(self, step: Step) -> None:
        """Everything of the old view is here: deliver it, and go on in the new one."""
        flow, previous = self._flow, self.view
        assert self._synchronizing.change is not None, "a view is installed at the end of a change"
        flow.deliver_all(step)
        if flow.refused:
            return  # what belongs before the view cannot be delivered here
        change = self._synchronizing.end()
        flow.install(change.next, change.together)
        self._stay.on_view(change.next)
        self._context.keep_addresses(change.next.seats)
        if 1 < len(change.together) < len(change.next.participants):
            step.mark("vs-merged")
        step.flush()
        self._place.view = change.next.words
        step.deliver(self._view_event(change, previous))
        self._gone = {}
        step.flush()
        if self._settings.block == "ask" and previous is not None:
            step.deliver(Unblocked(change.id))
        self._sends = Sends.FREELY
        self._watch(step)
        self._say_standing(step, previous)
        flow.begin(step)

    def _say_standing(self, step: Step, previous: SessionView | None = None) -> None:
        """Tell all which view this process is in, and how far it has sent in it."""
        streams, weak = self._flow.streams, self._flow.outgoing.weak
        before = NO_VIEW if previous is None else previous.mark
        mark, sequence, stable = NO_VIEW, 0, 0
        if streams is not None:
            mark, sequence, stable = streams.mark, streams.own.sequence, streams.own_floor()
        self._context.broadcast(
            step, [ViewStart(mark, before, sequence, stable, self._flow.reading, self._stay.since, weak)]
        )
        self._context.deadlines.set("keep-alive", step.now + self._settings.keep_alive)

    def _watch(self, step: Step) -> None:
        """Everybody of this view and the next is to be heard."""
        change, view = self._synchronizing.change, self.view
        neighbours = dict.fromkeys(() if view is None else view.participants)
        if change is not None:
            neighbours.update(dict.fromkeys(change.next.participants))
        neighbours.pop(self._context.process, None)
        self._watching.expect(neighbours, step.now)

    # ── time ──

    def _on_time(self, step: Step) -> None:
        deadlines = self._context.deadlines
        for name in deadlines.expire(step.now):
            if name == "keep-alive":
                self._say_standing(step)
                self._watching.look(step)
                self._accuse_slow(step)
            elif name == "stable" and self._flow.streams is not None:
                self._flow.streams.say_delivered(step)
            elif name == "cuts":
                self._synchronizing.ask_for_cuts(step)
            elif name == "ask":
                for streams in (self._flow.streams, self._flow.future):
                    if streams is not None:
                        self._ask(step, streams)
            elif name == "block" and self._sends is Sends.FINISHING:
                step.mark("vs-block-forced")
                self._become_blocked(step, "session")
            elif name == "gauge":
                self._gauged_at = step.now
                record_gauges(step, self._place, self._settings, self._flow)

    def _ask(self, step: Step, streams: Streams) -> None:
        streams.ask(step, lambda source, tries: self._synchronizing.whom_to_ask(streams, step, source, tries))

    def _accuse_slow(self, step: Step) -> None:
        """Who has held a full window back for all of `patience` is not waited for any longer."""
        since, streams = self._flow.outgoing.blocked_since, self._flow.streams
        if streams is not None and since is not None and step.now - since >= self._settings.patience:
            for member in streams.laggards():
                self._watching.accuse(step, member, slow=True)

    def _arrange(self, step: Step) -> None:
        """When to be called again."""
        deadlines, outgoing = self._context.deadlines, self._flow.outgoing
        if self.outside:
            return
        due = None
        for streams in (self._flow.streams, self._flow.future):
            if streams is not None and (asks := streams.next_due(step.now)) is not None:
                due = asks if due is None else min(due, asks)
        if due is None:
            deadlines.clear("ask")
        else:
            deadlines.set("ask", due)
        wait = outgoing.pacing.wait_until(step.now) if outgoing.waiting else step.now
        if wait > step.now:
            deadlines.set("pace", wait)
        if self._place.tracing and not deadlines.is_set("gauge"):
            deadlines.set("gauge", max(self._gauged_at + self._settings.gauge_interval, step.now + 1))

    def _view_event(self, change: ViewChange, previous: SessionView | None) -> View:
        """What the application is told of a new view."""
        view = change.next
        earlier, before = (None, ()) if previous is None else (previous.id, previous.members)
        along = view.came_along(previous, change.together) or (self._context.process,)
        return view_event(view.id, view.members, earlier, before, along, change.id, self._gone)
