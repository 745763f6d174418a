"""Bugs to plant where a process leaves: each undoes one mend, and the kept scenario that it names shows it."""

from __future__ import annotations

import pytest

from tests.simulation.planted_bugs import PlantedBug, planted_bug
from unisono.intergroup.group import IntergroupEngine
from unisono.intergroup.membership.repair import MembershipRepair


@planted_bug("who leaves goes before others have what it sent", "leave-now", "D13")
def goes_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IntergroupEngine, "_has_finished", True)


@planted_bug("who leaves goes before others have its large message", "leave-loses", "D13")
def large_goes_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IntergroupEngine, "_has_finished", True)


@planted_bug("who was a member for somebody is one for everybody", "last-word", "L10")
def last_word_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Who has acted on a last word takes its sender for a member again, as soon as another does."""
    patch.setattr(MembershipRepair, "_has_gone", lambda self, peer: False)


PLANTED_LEAVING = [item for item in list(globals().values()) if isinstance(item, PlantedBug)]
