"""Bugs to plant where members part that hear each other: each undoes one mend, and the kept scenario shows it."""

from __future__ import annotations

from math import log1p

import pytest

from tests.simulation.planted_bugs import PlantedBug, planted_bug
from unisono.identity import ProcessId
from unisono.intergroup.membership.membership import Membership
from unisono.intergroup.membership.receiver import ReceiverRepair
from unisono.reliable.suppression import RIVAL_WEIGHT, Pace


@planted_bug("one that left and came back drives members of its old view out", "left-and-back", "L10")
def left_behind_from_outside(patch: pytest.MonkeyPatch) -> None:
    def ahead(self: Membership, source: ProcessId) -> bool:
        stream, view = self._following.streams.get(source), self._context.agreed
        return stream is not None and view is not None and stream.last_mark.start > view.mark.start

    patch.setattr(Membership, "_ahead", ahead)


@planted_bug("a receiver without a view comes into whichever it is told first", "newcomer-lures", "L10")
def first_view_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReceiverRepair, "_is_largest", lambda self, message, now: True)


@planted_bug("far away a race takes as long as it takes near by, in round trips", "far-away", "L2")
def race_without_limit(patch: pytest.MonkeyPatch) -> None:
    def race(self: Pace, distance: int, rivals: float, chance: float) -> int:
        return int(self.spread * max(distance, self.least) * log1p(RIVAL_WEIGHT * rivals * chance))

    patch.setattr(Pace, "race", race)


PLANTED_PARTING = [item for item in list(globals().values()) if isinstance(item, PlantedBug)]
