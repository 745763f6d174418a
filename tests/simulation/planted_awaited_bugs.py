"""Bugs to plant where everything waits for one sender: each undoes one mend, and the kept scenario shows it."""

from __future__ import annotations

import pytest

from tests.simulation.planted_bugs import PlantedBug, planted_bug
from unisono.intergroup.agreed_order import ByTimestamp
from unisono.intergroup.membership.agreement import Agreement
from unisono.intergroup.membership.receiver import ReceiverRepair
from unisono.intergroup.membership.repair import MembershipRepair
from unisono.intergroup.membership.view import AgreedView
from unisono.reliable.step import Step


@planted_bug("a receiver waits for a new sender for ever", "awaited-receiver", "L1", "L2", "L9")
def receiver_waits_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReceiverRepair, "on_standstill", lambda self, step, overdue, waiting: None)
    patch.setattr(ReceiverRepair, "_on_standing", lambda self, step, ordered, source, message: None)


@planted_bug("a view without a sender does not end the wait for it", "awaited-crash", "D6", "L1", "L2", "L3", "L9")
def wait_outlives_the_view(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ByTimestamp, "first_lacking", lambda self, source, last: None)
    original = ByTimestamp._apply_cut

    def apply_cut(self: ByTimestamp) -> None:
        awaited = dict(self.awaited)
        original(self)
        self.awaited.update(awaited)

    patch.setattr(ByTimestamp, "_apply_cut", apply_cut)


@planted_bug("receivers of a lone sender wait for the view that it gave up", "stay-alone", "L2", "L6", "L9")
def receivers_stay_halted(patch: pytest.MonkeyPatch) -> None:
    original = ReceiverRepair._halt

    def halt(self: ReceiverRepair, step: Step, view: AgreedView, alone: bool) -> None:
        original(self, step, view, alone=False)

    patch.setattr(ReceiverRepair, "_halt", halt)
    patch.setattr(ReceiverRepair, "on_time", lambda self, step: None)
    receiver_waits_for_ever.plant(patch)


@planted_bug("one broken link parts who hear each other", "awaited-senders", "L10")
def all_lose_patience(patch: pytest.MonkeyPatch) -> None:
    """Nor does anybody pass on that one of the two only receives yet."""
    patch.setattr(Agreement, "_join_in", lambda self, suspect: set())
    patch.setattr(Agreement, "_at_odds", lambda self, out: set())
    patch.setattr(MembershipRepair, "_tell_of_leavers", lambda self, *arguments: None)


@planted_bug("who was stopped once is defended by those who do not hear it", "lone-accuser", "L10")
def excuses_count_against_others(patch: pytest.MonkeyPatch) -> None:
    """Nor does one that says nothing go before who accuses it."""
    patch.setattr(MembershipRepair, "_join_accusers", lambda self, step: None)
    patch.setattr(Agreement, "_era_of", lambda self, process: self._era)


@planted_bug("nobody is accused of a message that does not come", "undeliverable", "L9")
def waits_for_a_message(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MembershipRepair, "on_lacking", lambda self, step, peer, sequence: None)


PLANTED_AWAITED = [item for item in list(globals().values()) if isinstance(item, PlantedBug)]
