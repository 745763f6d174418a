"""Bugs to plant where who sends changes by the order of messages: each is a change of one method."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.simulation.planted_bugs import ASSERTION, PlantedBug, planted_bug
from unisono.identity import ProcessId, ViewId
from unisono.intergroup.agreed_order import ByTimestamp
from unisono.intergroup.membership.contract import Standpoint
from unisono.intergroup.membership.ground import StreamGround
from unisono.intergroup.membership.repair import MembershipRepair
from unisono.intergroup.membership.roles import Roles
from unisono.intergroup.membership.view import AgreedView
from unisono.intergroup.sending import Sending
from unisono.intergroup.speaking import Speaking
from unisono.reliable.fragments import OrderedAssembly
from unisono.reliable.step import Step
from unisono.wire.membership_messages import AddRequest, Seat


@planted_bug("a new sender begins one message too late", "roles change", "M4", "O2", "O4", "O7", "D5", "D6", "L5")
def begins_too_late(patch: pytest.MonkeyPatch) -> None:
    original = Roles.on_add_request

    def on_add_request(self: Roles, step: Step, source: ProcessId, message: AddRequest) -> None:
        seat = message.seat._replace(sequence=message.seat.sequence + 1, number=message.seat.number + 1)
        original(self, step, source, replace(message, seat=seat))

    patch.setattr(Roles, "on_add_request", on_add_request)


@planted_bug("who was a sender before counts as one", "roles change", "M4", "M1", "L1", "L2", "L5", "L6")
def change_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AgreedView, "_without", lambda self, view, process, last, final: replace(self, id=view))


@planted_bug("the next view begins after all that has come", "roles change", "M4")
def own_place(patch: pytest.MonkeyPatch) -> None:
    original = ByTimestamp._point

    def point(self: ByTimestamp, member: ProcessId, view: AgreedView) -> Any:
        found = original(self, member, view)
        stream = self._streams.get(member)
        return found if stream is None else found._replace(sequence=stream.window.contiguous + 1)

    patch.setattr(ByTimestamp, "_point", point)


@planted_bug(
    "who stops sending goes before all have its last word",
    "roles change and one dies",
    *("O4", "O7", "D5", "D9", "M4", "L1", "L2", "L5", "L6"),
)
def goes_at_once(patch: pytest.MonkeyPatch) -> None:
    def fall_silent(self: Speaking, step: Step) -> None:
        self._context.deadlines.clear("keep-alive")
        self._term = None
        self.audience.clear(step.now)
        self.sending.window.release(self.sending.last_sequence)

    def hand_own(self: ByTimestamp, step: Step) -> bool:
        own = self._delivery.oldest_own
        assert own is not None
        self._context.stable = self._context.known = own.sequence
        return original(self, step)

    original = ByTimestamp._hand_own
    patch.setattr(ByTimestamp, "_hand_own", hand_own)
    patch.setattr(Speaking, "fall_silent", fall_silent)


@planted_bug(
    "what a new sender says first is not kept for latecomers",
    "roles change",
    "D8",
    "D7",
    "M4",
    "L2",
    "L5",
    "O2",
    "O4",
    "L1",
)
def first_words_lost(patch: pytest.MonkeyPatch) -> None:
    def begin_term(self: Speaking, step: Step) -> None:
        self._term = None

    patch.setattr(Speaking, "begin_term", begin_term)


@planted_bug("what is sent on the way to receiving is sent", "roles change", "D3", "D5", "D6", "O4", "O7", "L3", "L5")
def sends_after_the_last_word(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sending, "paused", property(lambda self: False, lambda self, value: None))


@planted_bug("what was agreed as primary stays so", "all but one step back and part", "M7")
def primary_for_ever(patch: pytest.MonkeyPatch) -> None:
    def primary(self: AgreedView) -> bool | None:
        return None if self.message.electors is None else bool(self.message.electors)

    patch.setattr(AgreedView, "primary", property(primary))


@planted_bug("a second sponsor adds who is a sender already", "two sponsors", ASSERTION)
def added_twice(patch: pytest.MonkeyPatch) -> None:
    original = AgreedView._with

    def with_seat(self: AgreedView, view: ViewId, seat: Seat) -> AgreedView | None:
        if self.seat(seat.process) is None:
            return original(self, view, seat)
        return replace(self, id=view, seats=tuple(sorted((*self.seats, seat))))

    patch.setattr(AgreedView, "_with", with_seat)


@planted_bug("a second sponsor adds who only receives again", "a sponsor speaks late", "M4", "L1", "L2", "L5", "L10")
def added_late(patch: pytest.MonkeyPatch) -> None:
    def with_seat(self: AgreedView, view: ViewId, seat: Seat) -> AgreedView | None:
        if self.seat(seat.process) is not None:
            return None
        gone = tuple(one for one in self.gone if one.seat.process != seat.process)
        return replace(self, id=view, seats=tuple(sorted((*self.seats, seat))), gone=gone)

    patch.setattr(AgreedView, "_with", with_seat)


@planted_bug(
    "who only receives by now is forgotten in a repair", "a last word comes in a repair", "M4", "M5", "D5", "D9"
)
def gone_forgotten(patch: pytest.MonkeyPatch) -> None:
    original = StreamGround.halt

    def halt(self: StreamGround, step: Step, view: AgreedView, alone: bool = False) -> Standpoint:
        return original(self, step, replace(view, gone=()), alone)

    patch.setattr(StreamGround, "halt", halt)


@planted_bug("all are shown the views at the end of an era", "roles change and one dies", "M9", "M5", "D5")
def shown_to_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ByTimestamp, "_is_shown", lambda self, view: True)


@planted_bug("the repair does not hear who sends by now", "a new sender dies", "D6", "L1", "L2", "L3", "L5")
def members_of_before(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MembershipRepair, "on_changed", lambda self, step, view: None)


@planted_bug("the repair watches who sent before", "a new sender dies", "D6", "L1", "L2", "L3", "L5")
def watches_who_sent_before(patch: pytest.MonkeyPatch) -> None:
    def on_changed(self: MembershipRepair, step: Step, view: AgreedView) -> None:
        self.view = view

    patch.setattr(MembershipRepair, "on_changed", on_changed)


@planted_bug("parts of a message outlive their view", "a view ends in the middle of a message", ASSERTION)
def parts_outlive(patch: pytest.MonkeyPatch) -> None:
    original = ByTimestamp._present_next

    def present_next(self: ByTimestamp, step: Step) -> bool:
        with pytest.MonkeyPatch.context() as kept:
            kept.setattr(OrderedAssembly, "clear", lambda self: None)
            return original(self, step)

    patch.setattr(ByTimestamp, "_present_next", present_next)


PLANTED_ROLES = [item for item in list(globals().values()) if isinstance(item, PlantedBug)]
