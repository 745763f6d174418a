"""Whom a sender leaves out of the next view, by what it and the others say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from unisono.identity import ProcessId, ViewId
from unisono.intergroup.membership.agreement import Agreement
from unisono.intergroup.membership.repair import MembershipRepair
from unisono.wire.membership_messages import Opinion

ALICE, BOB, CAROL, DAVE = (ProcessId(name, 1) for name in ("alice", "bob", "carol", "dave"))
ERA = ViewId(10, ALICE, 1)
ELSEWHERE = ViewId(20, DAVE, 1)


def opinion(*failed: ProcessId, view: ViewId = ERA) -> Opinion:
    return Opinion(view, 1, (ALICE, BOB, CAROL, DAVE), (), failed, (), (), False, 0)


def agreement() -> Agreement:
    found = Agreement(ALICE)
    found.begin((BOB, CAROL, DAVE), ERA)
    return found


def test_whoever_only_receives_and_comes_back_is_a_stranger_and_not_gone() -> None:
    found = agreement()
    found.gone.add(DAVE)
    assert found.failed(False) == {DAVE}
    found.forget([DAVE])
    found.invite(DAVE)
    assert found.failed(False) == set()


def test_who_lacks_what_was_delivered_goes_while_it_lacks_it() -> None:
    found = agreement()
    assert found.failed(False, {CAROL}) == {CAROL}
    assert found.failed(False) == set()


def test_patience_ends_with_those_who_say_nothing_before_those_who_think_otherwise() -> None:
    found = agreement()
    found.opinions = {BOB: opinion(), CAROL: opinion(BOB)}
    assert found.dissenters(set()) == {DAVE}
    found.opinions[DAVE] = opinion()
    assert found.dissenters(set()) == {CAROL}


def test_a_stranger_goes_with_the_members_of_the_view_that_it_merges_with() -> None:
    """Bob and carol leave out dave, who came back: alice, who comes from another view, cannot have all three."""
    found = Agreement(ALICE)
    found.begin((), ViewId(30, ALICE, 2))
    for peer in (BOB, CAROL, DAVE):
        found.invite(peer)
    found.opinions = {BOB: opinion(DAVE), CAROL: opinion(DAVE), DAVE: opinion(view=ELSEWHERE)}
    assert found.failed(False) == set()
    assert found.failed(True) == {DAVE}


def test_a_member_that_leaves_a_stranger_out_stays_and_the_stranger_goes() -> None:
    """Bob does not follow dave, whom alice and carol would merge with, and says so without having heard from it."""
    found = Agreement(ALICE)
    found.begin((BOB, CAROL), ERA)
    found.invite(DAVE)
    found.opinions = {BOB: opinion(DAVE), CAROL: opinion(), DAVE: opinion(view=ELSEWHERE)}
    assert found.failed(False) == set()
    assert found.failed(True) == {DAVE}
    found.opinions[BOB] = Opinion(ERA, 2, (ALICE, BOB, CAROL, DAVE), (DAVE,), (DAVE,), (), (), False, 0)
    assert found.failed(True) == {DAVE}, "nor does a lone accuser go in the stranger's place"


def test_strangers_that_leave_this_process_out_take_none_of_its_view_from_it() -> None:
    """Dave and erin, whose view is the larger one, leave out alice and those who are with her."""
    erin, frank = ProcessId("erin", 1), ProcessId("frank", 1)
    found = Agreement(ALICE)
    found.begin((BOB, CAROL), ERA)
    for stranger in (DAVE, erin, frank):
        found.invite(stranger)
    members = {BOB: opinion(), CAROL: opinion()}
    strangers = {one: opinion(ALICE, BOB, CAROL, view=ELSEWHERE) for one in (DAVE, erin, frank)}
    found.opinions = {**members, **strangers, frank: opinion(view=ELSEWHERE)}
    assert found.failed(True) == set()
    assert found.refused(set()) == {DAVE, erin}
    found.opinions[frank] = opinion(BOB, view=ELSEWHERE)
    assert found.failed(True) == {frank}, "nor does one that they came without"


def test_what_a_stranger_said_before_another_brought_it_into_the_repair_is_past() -> None:
    """Dave and erin once left alice out; now frank, who comes from their view, wants all of them."""
    erin, frank = ProcessId("erin", 1), ProcessId("frank", 1)
    repair = MembershipRepair.__new__(MembershipRepair)
    repair._context = SimpleNamespace(process=ALICE)  # type: ignore[assignment]  # as much as is asked of it
    repair._ground = SimpleNamespace(follows=lambda source: True)
    repair._suspicion = SimpleNamespace(watch=lambda process, now: None)  # type: ignore[assignment]
    repair.view = SimpleNamespace(era=ERA)  # type: ignore[assignment]
    repair._agreement = found = Agreement(ALICE)
    found.begin((BOB,), ERA)
    past = opinion(ALICE, view=ELSEWHERE)
    found.opinions = {BOB: opinion(), DAVE: past, erin: past}
    word = Opinion(ViewId(30, frank, 1), 1, (ALICE, BOB, DAVE, erin, frank), (), (), (), (), False, 0)
    step: Any = SimpleNamespace(now=0)
    repair._take_in(step, frank, word)
    assert found.procs == {ALICE, BOB, DAVE, erin, frank}
    assert set(found.opinions) == {BOB}
    assert found.refused(set()) == set()
