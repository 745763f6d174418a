"""Bugs to plant where members part that hear each other: each undoes one mend, and the kept scenario shows it."""

from __future__ import annotations

from math import log1p

import pytest

from tests.simulation.planted_bugs import PlantedBug, planted_bug
from unisono.events import ViewReason
from unisono.identity import NO_VIEW, ProcessId, ViewMark
from unisono.intergroup.context import Context
from unisono.intergroup.membership.membership import Membership
from unisono.intergroup.membership.receiver import ReceiverRepair
from unisono.intergroup.membership.repair import MembershipRepair
from unisono.intergroup.membership.view import Said
from unisono.intergroup.presenting import BySource
from unisono.intergroup.stream import Stream
from unisono.reliable.step import Step
from unisono.reliable.suppression import RIVAL_WEIGHT, Pace
from unisono.wire.membership_messages import Opinion, SenderLeft, read_change
from unisono.wire.messages import DataMessage


@planted_bug("a member that missed a farewell learns of it by silence alone", "farewell-lost", "L10")
def farewell_not_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MembershipRepair, "_tell_of_leavers", lambda self, *arguments: None)


@planted_bug("one that left and came back drives members of its old view out", "left-and-back", "L10")
def left_behind_from_outside(patch: pytest.MonkeyPatch) -> None:
    def ahead(self: Membership, source: ProcessId) -> bool:
        stream, view = self._following.streams.get(source), self._context.agreed
        return stream is not None and view is not None and stream.last_mark.start > view.mark.start

    patch.setattr(Membership, "_ahead", ahead)


@planted_bug("a receiver without a view comes into whichever it is told first", "newcomer-lures", "L10")
def first_view_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReceiverRepair, "_is_largest", lambda self, message, now: True)


@planted_bug("under source order a last word ends a stream that the view still has", "last-word-ends-a-stream", "L10")
def last_word_ends_stream(patch: pytest.MonkeyPatch) -> None:
    original = BySource._on_change

    def on_change(self: BySource, step: Step, stream: Stream, message: DataMessage) -> bool:
        change = read_change(message.payload)
        if not isinstance(change, SenderLeft):
            return original(self, step, stream, message)
        self.said.append(Said(message.timestamp, stream.source, message.sequence, change))
        stream.farewell = message.sequence
        self._let_go(step, stream, ViewReason.ONLY_RECEIVES)
        return False

    patch.setattr(BySource, "_on_change", on_change)


@planted_bug("what a member calls stable in a later view is released in the earlier one", "stable-elsewhere", "L10")
def stable_in_a_later_view(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Context, "is_behind", lambda self, process, view: False)


@planted_bug("who once lacked what was delivered is out, although it has it by now", "brought-to-a-member", "L10")
def lacked_once(patch: pytest.MonkeyPatch) -> None:
    original = MembershipRepair._weigh

    def weigh(self: MembershipRepair, step: Step, source: ProcessId, opinion: Opinion) -> None:
        original(self, step, source, opinion)
        self._agreement.gone |= self._behind()

    patch.setattr(MembershipRepair, "_weigh", weigh)


@planted_bug("what was sent in no view before and after a view hides what was sent in it", "between-no-views", "L10")
def no_view_covers_views(patch: pytest.MonkeyPatch) -> None:
    original = Stream.note_view

    def note_view(self: Stream, first: int, last: int, mark: ViewMark) -> bool:
        if mark != NO_VIEW:
            return original(self, first, last, mark)
        low, high = self._spans.pop(mark, (first, last))
        self._spans = {mark: (min(low, first), max(high, last)), **self._spans}
        return True

    patch.setattr(Stream, "note_view", note_view)


@planted_bug("far away a race takes as long as it takes near by, in round trips", "far-away", "L2")
def race_without_limit(patch: pytest.MonkeyPatch) -> None:
    def race(self: Pace, distance: int, rivals: float, chance: float) -> int:
        return int(self.spread * max(distance, self.least) * log1p(RIVAL_WEIGHT * rivals * chance))

    patch.setattr(Pace, "race", race)


PLANTED_PARTING = [item for item in list(globals().values()) if isinstance(item, PlantedBug)]
