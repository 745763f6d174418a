"""Bugs to plant in sessions and their servers: each is a change of one method that a tired engineer could make.

Every one names the situation (`session_worlds`) in which it must come to light and the properties of which at least one
must be violated.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.simulation.planted_bugs import PlantedBug, planted_bug
from unisono.engine import Effect
from unisono.identity import ProcessId
from unisono.reliable.step import Step
from unisono.virtual_synchrony.servers.attendance import Attendance
from unisono.virtual_synchrony.servers.clients import Client
from unisono.virtual_synchrony.session.change import Cuts, PeerCut, ViewChange
from unisono.virtual_synchrony.session.flow import Flow
from unisono.virtual_synchrony.session.group import StrongGroup
from unisono.virtual_synchrony.session.incoming import Incoming
from unisono.virtual_synchrony.session.phases import Sends
from unisono.virtual_synchrony.session.streams import Streams
from unisono.virtual_synchrony.session.synchronizing import Synchronizing
from unisono.virtual_synchrony.session.view import SessionView
from unisono.virtual_synchrony.structured.charge import ChargeGroup
from unisono.virtual_synchrony.structured.controlled import ControlledGroup
from unisono.wire.messages import DataMessage, DataPacket
from unisono.wire.server_frames import Standing
from unisono.wire.session_messages import StableCut


@planted_bug("a cut says nothing of the last member", "one dies", "D5", "D9")
def cut_forgets_a_member(patch: pytest.MonkeyPatch) -> None:
    original = Flow.counts

    def counts(self: Flow) -> dict[int, int]:
        found = original(self)
        return {seat: count for seat, count in found.items() if seat < max(found)}

    patch.setattr(Flow, "counts", counts)


@planted_bug("delivery goes on after the cut", "one hears nothing of another", "D5", "D9")
def delivers_after_the_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Flow, "bound", lambda self, bounds: None)


@planted_bug("a view is installed before everybody's cut is there", "come and go", "D5", "M5", "D9")
def installs_without_all_cuts(patch: pytest.MonkeyPatch) -> None:
    def synchronize(self: ViewChange, cuts: Cuts, process: ProcessId) -> None:
        there = [member for member in self.partners if (cut := cuts.of(member, self.id)) and cut.view == self.mark]
        self.together = tuple(sorted([process, *there]))
        self.agreed = self.committed(cuts)
        self.synchronized = True

    patch.setattr(ViewChange, "missing", lambda self, cuts: [])
    patch.setattr(ViewChange, "synchronize", synchronize)


@planted_bug("a cut for an earlier change counts too", "come and go", "D5", "D9", "M5")
def takes_any_cut(patch: pytest.MonkeyPatch) -> None:
    def of(self: Cuts, member: ProcessId, change: int) -> PeerCut | None:
        cut = self._cuts.get(member)
        return cut if cut is not None and cut.whole else None

    patch.setattr(Cuts, "of", of)


@planted_bug("everybody in both views counts as having come along", "parted and met", "M5", "D5")
def transitional_without_the_view(patch: pytest.MonkeyPatch) -> None:
    original = ViewChange.synchronize

    def synchronize(self: ViewChange, cuts: Cuts, process: ProcessId) -> None:
        original(self, cuts, process)
        self.together = tuple(sorted((process, *self.partners)))

    patch.setattr(ViewChange, "synchronize", synchronize)


@planted_bug("a view ends with what everybody has", "one dies", "D5", "D9", "D6")
def cut_too_low(patch: pytest.MonkeyPatch) -> None:
    original = ViewChange.synchronize

    def synchronize(self: ViewChange, cuts: Cuts, process: ProcessId) -> None:
        original(self, cuts, process)
        self.agreed = {
            seat: min(self.count_of(member, seat, cuts, process) for member in self.together) for seat in self.agreed
        }

    patch.setattr(ViewChange, "synchronize", synchronize)


@planted_bug("what the dead sent is neither forwarded nor asked for elsewhere", "one dies", "L1", "L6", "L2")
def nobody_forwards(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Synchronizing, "_forward", lambda self, step, change, streams: None)
    patch.setattr(Synchronizing, "whom_to_ask", lambda self, streams, step, source, tries: source)


@planted_bug("a lost cut is not asked for", "one dies where much is lost", "L1", "L6", "L2")
def cuts_not_asked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Synchronizing, "ask_for_cuts", lambda self, step: None)


@planted_bug("a message is released when anybody has it", "one dies where much is lost", "L1", "L2", "L6")
def released_too_soon(patch: pytest.MonkeyPatch) -> None:
    def on_stable_cut(self: Streams, step: Step, source: ProcessId, cut: StableCut) -> int | None:
        return dict(cut.counts).get(self.view.seats[self._context.process])

    patch.setattr(Streams, "on_stable_cut", on_stable_cut)


@planted_bug("what was delivered is said once, whether or not it is heard", "one dies where much is lost", "L4")
def stable_said_once(patch: pytest.MonkeyPatch) -> None:
    original = Streams.on_standing

    def on_standing(self: Streams, step: Step, source: ProcessId, sequence: int, stable: int) -> None:
        original(self, step, source, sequence, 1 << 60)

    patch.setattr(Streams, "on_standing", on_standing)


@planted_bug("the messages of a view are dropped when it is over here", "one dies", "L1", "L6", "L2")
def old_messages_dropped(patch: pytest.MonkeyPatch) -> None:
    original = Flow.install

    def install(self: Flow, view: SessionView, together: Iterable[ProcessId]) -> None:
        original(self, view, together)
        self.retired.clear()

    patch.setattr(Flow, "install", install)
    patch.setattr(Synchronizing, "_forward", lambda self, step, change, streams: None)


@planted_bug("sending goes on after the cut", "come and go", "M8", "D5", "D6")
def sends_after_the_cut(patch: pytest.MonkeyPatch) -> None:
    original = StrongGroup._become_blocked

    def become_blocked(self: StrongGroup, step: Step, reason: str) -> None:
        original(self, step, reason)
        if self._synchronizing.change is not None:
            self._sends = Sends.FREELY

    patch.setattr(StrongGroup, "_become_blocked", become_blocked)


@planted_bug("the answer of the application is not waited for", "the application is asked", "M8", "D5", "D9")
def block_not_asked(patch: pytest.MonkeyPatch) -> None:
    original = StrongGroup._become_changing

    def become_changing(self: StrongGroup, step: Step, change: int, expected: SessionView) -> None:
        original(self, step, change, expected)
        if self._sends is Sends.FINISHING:
            self._synchronizing.send_cut(step)

    patch.setattr(StrongGroup, "_become_changing", become_changing)


@planted_bug("the new view is told before the last messages of the old one", "come and go", "D3", "D4", "D5")
def view_before_messages(patch: pytest.MonkeyPatch) -> None:
    def bound(self: Flow, bounds: dict[int, int]) -> None:
        if self.streams is not None:
            for stream in self.streams.incoming.values():
                stream.bound = stream.delivered

    patch.setattr(Flow, "bound", bound)


@planted_bug("messages count for the view that their receiver is in", "come and go", "D3", "D1", "O1", "O2", "D5")
def view_mark_ignored(patch: pytest.MonkeyPatch) -> None:
    original = Flow.on_data

    def on_data(self: Flow, step: Step, packet: DataPacket, expected: SessionView | None) -> None:
        if self.streams is not None and packet.source in self.streams.incoming:
            stream = self.streams.take_in(step, packet)
            if stream is not None:
                self._deliver(step, self.streams, stream)
        else:
            original(self, step, packet, expected)

    patch.setattr(Flow, "on_data", on_data)


@planted_bug(
    "early messages are delivered whether or not their sender came", "sending goes on", "D12", "D3", "D5", "D6"
)
def optimistic_before_start(patch: pytest.MonkeyPatch) -> None:
    def following(self: Incoming) -> DataMessage | None:
        head = self.window.head
        return None if head is None or head.sequence > self.bound else self.window.take()

    patch.setattr(Incoming, "next", following)
    patch.setattr(Incoming, "received", property(lambda self: self.window.contiguous))


@planted_bug("messages are returned and sent again too", "sending goes on", "D12", "D2")
def returned_and_resent(patch: pytest.MonkeyPatch) -> None:
    original = Flow.void_future

    def void_future(self: Flow, step: Step, policy: str) -> None:
        sent = [] if self.future is None else [message.payload for message in self.future.own.undelivered]
        before = self.outgoing.last_number
        original(self, step, policy)
        self.outgoing.last_number = before - len(sent)
        self.outgoing.put_back(sent)

    patch.setattr(Flow, "void_future", void_future)


@planted_bug("what was sent early is forgotten when its view does not come", "sending goes on", "D12", "D6", "L3")
def early_forgotten(patch: pytest.MonkeyPatch) -> None:
    def void_future(self: Flow, step: Step, policy: str) -> None:
        self.outgoing.rewind()
        self.future = None

    patch.setattr(Flow, "void_future", void_future)


@planted_bug("the last message counts as unheard when the view of a weak group changes", "weak", "D2", "O1")
def weak_duplicates(patch: pytest.MonkeyPatch) -> None:
    original = Flow.install

    def install(self: Flow, view: SessionView, together: Iterable[ProcessId]) -> None:
        for source, last in self.heard.items():
            self.heard[source] = last - 1
        original(self, view, together)

    patch.setattr(Flow, "install", install)


@planted_bug("a server does not heed what its clients saw before", "the only server restarts", "L1", "L6", "M2")
def numbers_fall(patch: pytest.MonkeyPatch) -> None:
    original = Attendance.join

    def join(self: Attendance, client: Client, standing: Standing) -> None:
        original(self, client, Standing(standing.group))

    patch.setattr(Attendance, "join", join)


@planted_bug("a change under way is ended before the next is begun", "one dies where much is lost", "L1", "L6", "L2")
def changes_one_by_one(patch: pytest.MonkeyPatch) -> None:
    original = StrongGroup.on_start_change

    def on_start_change(self: StrongGroup, change: int, expected: SessionView, now: int, wall: int) -> list[Effect]:
        return [] if self._synchronizing.change is not None else original(self, change, expected, now, wall)

    patch.setattr(StrongGroup, "on_start_change", on_start_change)


@planted_bug("a client goes on from where its lost controller left it", "controllers", "M5", "D5", "D6", "M8", "D3")
def goes_on_without_controller(patch: pytest.MonkeyPatch) -> None:
    def begin_anew(self: ChargeGroup, step: Step) -> None:
        self._expected = {}
        self._sends = Sends.BLOCKED

    patch.setattr(ChargeGroup, "_begin_anew", begin_anew)


@planted_bug("a controller does not wait for its clients to finish", "controllers", "D6", "D3", "M8", "L6")
def controller_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    original = ControlledGroup._answer_block

    def answer_block(self: ControlledGroup, now: int, wall: int) -> list[Effect]:
        for place in self.attendants.in_view():
            place.ready = True
        return original(self, now, wall)

    patch.setattr(ControlledGroup, "_answer_block", answer_block)


@planted_bug("a client comes again although its view has not changed", "controllers", "M5", "D5")
def comes_again_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ControlledGroup, "counts", lambda self, process: False)


PLANTED_SESSIONS = [bug for bug in globals().values() if isinstance(bug, PlantedBug)]
