"""Bugs to plant in the agreement on views: each is a change of one method that a tired engineer could make.

Every one names where it must come to light, a situation of the simulator or the start of an exploration, and the
properties of which at least one must be violated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from xxhash import xxh3_64_intdigest

from tests.simulation.planted_bugs import PlantedBug, planted_bug
from unisono.events import View
from unisono.identity import ProcessId, ViewId
from unisono.intergroup.agreed_order import ByTimestamp, Transition
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.membership import view as views
from unisono.intergroup.membership.agreement import Agreement, Proposal
from unisono.intergroup.membership.contract import Phase, Standpoint
from unisono.intergroup.membership.ground import StreamGround
from unisono.intergroup.membership.receiver import ReceiverRepair
from unisono.intergroup.membership.repair import MembershipRepair
from unisono.intergroup.membership.view import AgreedView
from unisono.intergroup.stream import Stream
from unisono.reliable.step import Step
from unisono.wire.membership_messages import NewView, Origin, RecoveryInfo, Seat, UpTo


@planted_bug("of those who are gone, a view ends with what everybody holds", "explore: crashed member", "D5", "D9")
def cut_too_low(patch: pytest.MonkeyPatch) -> None:
    original = views._origin

    def origin(view: ViewId, infos: Mapping[ProcessId, RecoveryInfo]) -> Origin:
        found = original(view, infos)
        held = [dict(infos[entrant].held) for entrant in found.entrants]
        cut = tuple(
            UpTo(source, last if source in found.entrants else min(one.get(source, 0) for one in held))
            for source, last in found.cut
        )
        return replace(found, cut=cut)

    patch.setattr(views, "_origin", origin)


@planted_bug("of those who go on, a view ends with what the others hold", "parted and met", "D6", "D5", "D9", "L5")
def cut_without_own_word(patch: pytest.MonkeyPatch) -> None:
    original = views._origin

    def origin(view: ViewId, infos: Mapping[ProcessId, RecoveryInfo]) -> Origin:
        found = original(view, infos)
        held: dict[ProcessId, int] = {}
        for entrant in found.entrants:
            for source, last in infos[entrant].held:
                held[source] = max(held.get(source, 0), last)
        return replace(found, cut=tuple(UpTo(source, held.get(source, last)) for source, last in found.cut))

    patch.setattr(views, "_origin", origin)


@planted_bug("everybody in a view counts as having come along", "parted and met", "M5")
def all_transitional(patch: pytest.MonkeyPatch) -> None:
    original = ByTimestamp._view_event

    def view_event(self: ByTimestamp, transition: Transition) -> View:
        event = original(self, transition)
        return replace(event, transitional=event.members)

    patch.setattr(ByTimestamp, "_view_event", view_event)


@planted_bug("messages are sent while the end of a view is agreed", "parted and met", "D3", "D5", "D6", "L5")
def sends_while_halted(patch: pytest.MonkeyPatch) -> None:
    original = StreamGround.halt

    def halt(self: StreamGround, step: Step, view: AgreedView, alone: bool = False) -> Standpoint:
        standpoint = original(self, step, view, alone)
        self._context.held_back = False
        return standpoint

    patch.setattr(StreamGround, "halt", halt)


@planted_bug("messages are delivered while the end of a view is agreed", "parted and met", "D5", "D9", "O2")
def delivers_while_halted(patch: pytest.MonkeyPatch) -> None:
    original = StreamGround.halt

    def halt(self: StreamGround, step: Step, view: AgreedView, alone: bool = False) -> Standpoint:
        standpoint = original(self, step, view, alone)
        if self._following.ordered is not None:
            self._following.ordered.halted = False
        return standpoint

    patch.setattr(StreamGround, "halt", halt)


@planted_bug("what strangers say is dropped while they become members", "parted and met", "O4", "O7", "L2", "L5", "L1")
def strangers_dropped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ByTimestamp, "_drops", lambda self, stream: not stream.in_view)


@planted_bug("a receiver delivers what it holds, whatever the cut", "receivers follow", "D5", "D3", "M9", "L5")
def receiver_ignores_cut(patch: pytest.MonkeyPatch) -> None:
    original = ByTimestamp.agree

    def agree(self: ByTimestamp, step: Step, message: NewView, origin: Origin | None, *others: Any) -> None:
        if self._receives and origin is not None:
            origin = replace(origin, cut=())
        original(self, step, message, origin, *others)

    patch.setattr(ByTimestamp, "agree", agree)


@planted_bug("a receiver takes any later view for the next one", "receivers follow", "M9", "D5", "L5", "L1")
def receiver_skips_views(patch: pytest.MonkeyPatch) -> None:
    original = ReceiverRepair._on_new_view

    def on_new_view(self: ReceiverRepair, step: Step, source: ProcessId, message: NewView) -> None:
        view = self._view
        if view is not None and all(origin.view != view.id for origin in message.origins):
            message = replace(message, origins=(Origin(view.era, view.id, (), ()),))
        original(self, step, source, message)

    patch.setattr(ReceiverRepair, "_on_new_view", on_new_view)


@planted_bug("a receiver that comes into the middle of a view takes it for whole", "receivers follow", "M4", "D5")
def entry_called_whole(patch: pytest.MonkeyPatch) -> None:
    original = Delivery.enter

    def enter(self: Delivery, step: Step, event: View) -> None:
        original(self, step, replace(event, whole=True))

    patch.setattr(Delivery, "enter", enter)


@planted_bug("a view is installed before everything before it is here", "explore: crashed member", "D5", "D9")
def view_before_ready(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MembershipRepair, "_check_recovered", _ready_at_once)


def _ready_at_once(self: MembershipRepair, step: Step) -> None:
    ground = self._ground
    self._ground = _NothingLacks(ground)
    try:
        _check_recovered(self, step)
    finally:
        self._ground = ground


_check_recovered = MembershipRepair._check_recovered


class _NothingLacks:
    def __init__(self, ground: Any) -> None:
        self._ground = ground

    def lacking(self, origin: Origin, seats: tuple[Seat, ...]) -> tuple[UpTo, ...]:
        return ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ground, name)


@planted_bug("who is ready takes any next view that it is in for the one it is ready for", "explore: last word", "M5")
def any_view_will_do(patch: pytest.MonkeyPatch) -> None:
    original = MembershipRepair._on_new_view

    def on_new_view(self: MembershipRepair, step: Step, source: ProcessId, message: NewView) -> None:
        assert self.view is not None
        itself, view = self._context.process, self.view.id
        if self.phase is Phase.COMMIT and any(o.view == view and itself in o.entrants for o in message.origins):
            self._install(step, message, self._recovery.own_origin)
        else:
            original(self, step, source, message)

    patch.setattr(MembershipRepair, "_on_new_view", on_new_view)


@planted_bug(
    "a proposal does not say whose attempts it is made of", "explore: crashed member", "M4", "M5", "D5", "D9", "L1"
)
def proposal_without_attempts(patch: pytest.MonkeyPatch) -> None:
    original = Agreement.proposal

    def proposal(self: Agreement, attempt: int, failed: set[ProcessId]) -> Proposal | None:
        found = original(self, attempt, failed)
        if found is None:
            return None
        return replace(found, number=xxh3_64_intdigest(msgspec.msgpack.encode(found.processes)) >> 1)

    patch.setattr(Agreement, "proposal", proposal)


@planted_bug("half of the last primary view is enough", "even split", "M7")
def half_is_enough(patch: pytest.MonkeyPatch) -> None:
    def majority(members: set[ProcessId], of: Any) -> bool:
        return 2 * len(members & set(of)) >= len(set(of))

    patch.setattr("unisono.intergroup.membership.primary.majority", majority)


@planted_bug("a member that was left out never hears of it", "parted and met", "L1", "L2", "L5")
def left_out_silently(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MembershipRepair, "on_stranger", lambda self, step, peer: None)


@planted_bug("a member starts one message too late in a view", "parted and met", "O2", "D5", "M4", "O4", "L5")
def seat_too_late(patch: pytest.MonkeyPatch) -> None:
    original = Stream.enter

    def enter(self: Stream, start: Any, timestamp: int, era: int) -> None:
        original(self, start._replace(sequence=start.sequence + 1, number=start.number + 1), timestamp, era)

    patch.setattr(Stream, "enter", enter)


@planted_bug("only a member itself counts as having come along", "parted and met", "M5")
def none_transitional(patch: pytest.MonkeyPatch) -> None:
    original = ByTimestamp._view_event

    def view_event(self: ByTimestamp, transition: Transition) -> View:
        return replace(original(self, transition), transitional=(self._context.process,))

    patch.setattr(ByTimestamp, "_view_event", view_event)


@planted_bug("a view says only where this member came from", "parted and met", "M4")
def own_origin_only(patch: pytest.MonkeyPatch) -> None:
    original = ByTimestamp._view_event

    def view_event(self: ByTimestamp, transition: Transition) -> View:
        event = original(self, transition)
        return replace(event, merged=tuple(view for view in event.merged if view == event.previous))

    patch.setattr(ByTimestamp, "_view_event", view_event)


PLANTED_MEMBERSHIP = [item for item in list(globals().values()) if isinstance(item, PlantedBug)]
