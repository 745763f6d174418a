"""Bugs to plant where who sends changes by the order of messages: each is a change of one method."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.simulation.planted_bugs import PlantedBug, planted_bug
from unisono.identity import ProcessId, ViewId
from unisono.intergroup.agreed_order import ByTimestamp
from unisono.intergroup.membership.repair import MembershipRepair
from unisono.intergroup.membership.roles import Roles
from unisono.intergroup.membership.view import AgreedView
from unisono.intergroup.sending import Sending
from unisono.intergroup.speaking import Speaking
from unisono.intergroup.stream import Stream
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


@planted_bug("a sender that is added twice has two seats", "roles change and one dies", "M4", "D5", "L1", "L5", "O4")
def seated_twice(patch: pytest.MonkeyPatch) -> None:
    def with_(self: AgreedView, view: ViewId, seat: Seat) -> AgreedView:
        gone = tuple(one for one in self.gone if one.seat.process != seat.process)
        others = tuple(one for one in self.seats if one.process != seat.process)
        return replace(self, id=view, seats=tuple(sorted((*others, seat))), gone=gone)

    patch.setattr(AgreedView, "_with", with_)


@planted_bug("the next view names the place where its maker is", "roles change", "M4", "M2", "M9", "D5", "O5")
def own_place(patch: pytest.MonkeyPatch) -> None:
    original = ByTimestamp._point

    def point(self: ByTimestamp, member: ProcessId, view: AgreedView) -> Any:
        found = original(self, member, view)
        stream = self._streams.get(member)
        return found if stream is None else found._replace(sequence=stream.window.next)

    patch.setattr(ByTimestamp, "_point", point)


@planted_bug("who stops sending goes before all have its last word", "roles change", "L1", "L2", "L5", "L6", "O4", "O7")
def goes_at_once(patch: pytest.MonkeyPatch) -> None:
    def fall_silent(self: Speaking, step: Step) -> None:
        self._context.deadlines.clear("keep-alive")
        self._term = None
        self.audience.clear(step.now)
        self.sending.window.release(self.sending.last_sequence)

    def hand_own(self: ByTimestamp, step: Step) -> bool:
        own = self._delivery.oldest_own
        assert own is not None
        self._context.stable = own.sequence
        return original(self, step)

    original = ByTimestamp._hand_own
    patch.setattr(ByTimestamp, "_hand_own", hand_own)
    patch.setattr(Speaking, "fall_silent", fall_silent)


@planted_bug("what a new sender says first is not kept for latecomers", "roles change", "L2", "L5", "O2", "O4", "L1")
def first_words_lost(patch: pytest.MonkeyPatch) -> None:
    def begin_term(self: Speaking, step: Step) -> None:
        self._term = None

    patch.setattr(Speaking, "begin_term", begin_term)


@planted_bug(
    "a repair forgets who has gone in its era", "roles change and one dies", "D5", "D9", "O4", "O5", "O7", "L5"
)
def gone_forgotten(patch: pytest.MonkeyPatch) -> None:
    original = AgreedView._without

    def without(self: AgreedView, view: ViewId, process: ProcessId, last: int, final: bool) -> AgreedView | None:
        found = original(self, view, process, last, final)
        return None if found is None else replace(found, gone=())

    patch.setattr(AgreedView, "_without", without)


@planted_bug("views at the end of an era are shown to all", "roles change and one dies", "M4", "D5", "M5", "M9")
def shown_to_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ByTimestamp, "_is_shown", lambda self, view: True)


@planted_bug("what is sent on the way to receiving is sent", "roles change", "D3", "D5", "D6", "O4", "O7", "L3", "L5")
def sends_after_the_last_word(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sending, "paused", property(lambda self: False, lambda self, value: None))


@planted_bug(
    "a repair names members that have gone by the order", "roles change and one dies", "L1", "L5", "L6", "M1", "M4"
)
def stale_members(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MembershipRepair, "on_changed", lambda self, step, view: None)


@planted_bug("what was agreed as primary stays so", "all but one step back and part", "M7")
def primary_for_ever(patch: pytest.MonkeyPatch) -> None:
    def primary(self: AgreedView) -> bool | None:
        return None if self.message.electors is None else bool(self.message.electors)

    patch.setattr(AgreedView, "primary", property(primary))


@planted_bug("parts of a message outlive the view they were sent in", "roles change and one dies", "M4", "D1")
def parts_outlive(patch: pytest.MonkeyPatch) -> None:
    original = Stream.enter

    def enter(self: Stream, start: Any, timestamp: int, era: int) -> None:
        parts = list(self.assembly._parts)
        original(self, start, timestamp, era)
        self.assembly._parts[:] = parts

    patch.setattr(Stream, "enter", enter)


PLANTED_ROLES = [item for item in list(globals().values()) if isinstance(item, PlantedBug)]
