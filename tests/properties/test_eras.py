"""Eras by example: alice and bob agree on v, carol sends from v+ on, bob only receives from v++ on, and w is agreed."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tests.properties.test_each_property import LIVES, Trace, of
from unisono.properties.registry import Violation
from unisono.trace.schema import AnyRow, DeliverRow, Member, Reason, RepairRow, SendRow, Start, ViewRow

ALL = ("alice", "bob", "carol")


def along(*names: str) -> list[Member]:
    return [Member(name, LIVES[name]) for name in names]


def said(name: str, reason: str) -> list[Reason]:
    return [Reason(name, LIVES[name], reason)]


def step(trace: Trace, time: float, name: str, numbers: dict[str, int], who: str, reason: str) -> None:
    """All go on to a view that follows v by the order."""
    for process in ALL:
        changes: dict[str, Any] = {"era": "v", "reasons": said(who, reason), "transitional": along(*numbers)}
        trace.agree(time, process, name, numbers, **changes)


def exchange(trace: Trace, time: float, *messages: tuple[str, int, int]) -> None:
    """Messages of a source with number and timestamp: sent in the era v, and delivered by all."""
    for source, number, timestamp in messages:
        trace.send(time, source, number, timestamp=timestamp, agreed="v")
    for process in ALL:
        for source, number, timestamp in messages:
            trace.deliver(time + 1, process, source, number, timestamp=timestamp)


def era(end: bool = True) -> Trace:
    """The whole story, and where it ends with w, what alice and carol answer for then."""
    trace = Trace()
    trace.service = "RTO"
    for process in ALL:
        trace.agree(0, process, "v", {"alice": 1, "bob": 1})
    exchange(trace, 1, ("alice", 1, 10), ("bob", 1, 20))
    step(trace, 3, "v+", {"alice": 2, "bob": 2, "carol": 1}, "carol", "sends now")
    exchange(trace, 4, ("bob", 2, 30), ("carol", 1, 40))
    step(trace, 6, "v++", {"alice": 2, "carol": 2}, "bob", "only receives now")
    exchange(trace, 7, ("alice", 2, 50), ("carol", 2, 60))
    if end:
        for process in ("alice", "carol"):
            for source, last in (("alice", 20), ("bob", 20), ("carol", 20)):
                trace.repair(9, process, "CUT", source, 10, last, peer="p")
        for process in ALL:
            trace.agree(10, process, "w", {"alice": 3, "carol": 3})
    return trace


def find(trace: Trace, process: str, family: type[AnyRow], **columns: object) -> int:
    """Where a row stands in the trace."""
    return next(
        index
        for index, row in enumerate(trace.rows)
        if isinstance(row, family)
        and row.process == process
        and all(getattr(row, name) == value for name, value in columns.items())
    )


def heard(trace: Trace, process: str, source: str, number: int) -> int:
    return find(trace, process, DeliverRow, source=source, number=number)


def without(trace: Trace, process: str, source: str, number: int) -> Trace:
    del trace.rows[heard(trace, process, source, number)]
    return trace


def changed(trace: Trace, index: int, **columns: Any) -> Trace:
    trace.rows[index] = replace(trace.rows[index], **columns)
    return trace


def late(trace: Trace, process: str, source: str, number: int) -> Trace:
    """A message is delivered only in w."""
    delivery = trace.rows.pop(heard(trace, process, source, number))
    entered = find(trace, process, ViewRow, view="w")
    trace.rows.insert(entered + 1, replace(delivery, view="w"))
    positions: dict[str, int] = {}
    for index, row in enumerate(trace.rows):
        trace.rows[index] = replace(row, position=positions.get(row.process, 0))
        positions[row.process] = positions.get(row.process, 0) + 1
    return trace


def named(violations: list[Violation]) -> list[tuple[str, str | None]]:
    return [(violation.process, violation.message) for violation in violations]


def test_eras_as_they_should_be() -> None:
    assert era().violations() == []


def test_d3_d4_a_message_is_delivered_in_the_era_in_which_it_was_sent() -> None:
    assert named(of(late(era(), "bob", "carol", 1), "D3")) == [("bob", "carol~3c/1")]
    assert named(of(late(era(), "bob", "carol", 1), "D4")) == [("", "carol~3c/1")]
    trace = era()
    trace = changed(trace, find(trace, "alice", SendRow, number=2), agreed="v++")
    assert named(of(trace, "D3")) == [(process, "alice~1f/2") for process in ALL]
    assert of(trace, "D4") == []


def test_the_era_of_a_delivery_is_what_its_own_process_says() -> None:
    trace = era()
    trace = changed(trace, find(trace, "bob", ViewRow, view="v+"), era=None)
    assert named(of(trace, "D3")) == [("bob", "bob~2a/2"), ("bob", "carol~3c/1")]
    assert named(of(trace, "M4")) == [("bob", None)]


def test_m4_all_say_of_which_era_a_view_is() -> None:
    trace = era()
    trace = changed(trace, find(trace, "carol", ViewRow, view="v+"), era="u")
    assert named(of(trace, "M4")) == [("carol", None)]


def test_m5_only_who_sends_now_comes_along_from_among_the_receivers() -> None:
    trace = era()
    place = find(trace, "bob", ViewRow, view="v+")
    assert named(of(changed(trace, place, reasons=said("carol", "joined")), "M5")) == [("bob", None)]
    trace = era()
    assert named(of(changed(trace, place, transitional=along("alice", "bob")), "M5")) == [("bob", None)]


def test_m9_only_agreed_views_of_receivers_are_judged() -> None:
    trace = era()
    trace = changed(trace, find(trace, "carol", ViewRow, view="w"), view="x")
    assert of(trace, "M9") == [], "carol sends"
    trace = era()
    trace = changed(trace, find(trace, "bob", ViewRow, view="w"), view="x")
    assert named(of(trace, "M9")) == [("bob", None)]
    trace = era()
    trace = changed(trace, find(trace, "bob", ViewRow, view="v++"), view="x")
    assert named(of(trace, "M9")) == [("bob", None)], "nobody went from x to w"


def test_d6_a_sender_hears_itself_before_the_next_view_that_is_agreed() -> None:
    assert named(of(late(era(), "carol", "carol", 1), "D6")) == [("carol", "carol~3c/1")]
    trace = era()
    first, entered = heard(trace, "bob", "bob", 1), find(trace, "bob", ViewRow, view="v+")
    moved = replace(trace.rows[first], view="v+", position=trace.rows[entered].position)
    trace.rows[entered] = replace(trace.rows[entered], position=trace.rows[first].position)
    trace.rows[first] = trace.rows[entered]
    trace.rows[entered] = moved
    assert of(trace, "D6") == []


def test_d9_what_was_answered_for_is_delivered_in_any_view_of_the_era() -> None:
    assert named(of(without(era(), "carol", "alice", 1), "D9")) == [("carol", "alice~1f/1")]
    assert named(of(without(era(), "alice", "bob", 2), "D9")) == [("alice", "bob~2a/2")]
    assert of(without(era(), "bob", "alice", 1), "D9") == [], "bob is a receiver"


def test_d9_asks_of_who_came_into_the_middle_only_for_what_came_after() -> None:
    def came(*gone: tuple[str, int]) -> list[tuple[str, str | None]]:
        trace = era()
        first = find(trace, "carol", ViewRow, view="v")
        start = [Start("alice", LIVES["alice"], 20, 2), Start("bob", LIVES["bob"], 10, 1)]
        changed(trace, first, whole=False, start=start, transitional=[])
        for source, number in gone:
            without(trace, "carol", source, number)
        return named(of(trace, "D9"))

    assert came(("alice", 1)) == []
    assert came(("alice", 1), ("bob", 1)) == [("carol", "bob~2a/1")]
    assert came(("alice", 2)) == [("carol", "alice~1f/2")]


def test_d9_answers_stand_until_the_next_view_that_is_agreed() -> None:
    trace = era()
    cuts = [row for row in trace.rows if isinstance(row, RepairRow) and row.process == "alice"]
    trace.rows = [row for row in trace.rows if row not in cuts]
    place = find(trace, "alice", ViewRow, view="v++")
    trace.rows[place:place] = cuts
    positions: dict[str, int] = {}
    for index, row in enumerate(trace.rows):
        trace.rows[index] = replace(row, position=positions.get(row.process, 0))
        positions[row.process] = positions.get(row.process, 0) + 1
    assert of(trace, "D9") == []
    assert named(of(without(trace, "alice", "bob", 1), "D9")) == [("alice", "bob~2a/1")]


def test_o4_o7_nothing_is_left_out_across_the_views_of_an_era() -> None:
    for source, number, message in (("bob", 2, "bob~2a/2"), ("carol", 1, "carol~3c/1")):
        trace = without(era(end=False), "bob", source, number)
        assert named(of(trace, "O7")) == [("bob", message)]
        assert named(of(trace, "O4")) == [("bob", message)]
    assert of(without(era(end=False), "bob", "carol", 2), "O7") == [], "nothing comes after it"


def test_o7_an_era_ends_with_the_next_view_that_is_agreed() -> None:
    trace = without(era(), "bob", "bob", 2)
    assert of(trace, "O7") == [], "bob does not go on in w"
    assert named(of(without(era(), "bob", "carol", 1), "O7")) == [("bob", "carol~3c/1")]


def settled(*gone: str) -> Trace:
    """All are there long after the last fault, and carol sends a message that some never deliver."""
    trace = Trace()
    trace.service = "RTO"
    for process in ALL:
        trace.membership(0, process, "START")
        trace.membership(0, process, "JOIN", "market", "all", role="receiver" if process == "carol" else "sender")
        trace.agree(1, process, "v", {"alice": 1, "bob": 1})
    trace.send(2, "bob", 1, timestamp=10, agreed="v")
    for process in ALL:
        trace.deliver(2, process, "bob", 1, timestamp=10)
    step(trace, 3, "v+", {"alice": 1, "bob": 2, "carol": 1}, "carol", "sends now")
    trace.send(4, "carol", 1, timestamp=20, agreed="v")
    for process in ALL:
        if process not in gone:
            trace.deliver(4, process, "carol", 1, timestamp=20)
    step(trace, 5, "v++", {"alice": 1, "carol": 2}, "bob", "only receives now")
    trace.fault(6, "heal", "begin")
    for process in ALL:
        trace.membership(20, process, "END")
    return trace


def test_who_only_receives_in_the_end_need_not_be_in_the_last_view() -> None:
    assert of(settled(), "L1") == of(settled(), "L2") == []


def test_l1_who_sends_is_in_the_last_view() -> None:
    trace = settled()
    alone = [Start("alice", LIVES["alice"], 10, 1)]
    trace = changed(trace, find(trace, "alice", ViewRow, view="v++"), start=alone)
    assert named(of(trace, "L1")) == [("alice", None)]


def test_l5_a_view_that_follows_by_the_order_does_not_end_what_is_owed() -> None:
    assert named(of(settled("alice"), "L5")) == [("alice", "carol~3c/1")]
    assert of(settled("bob"), "L5") == [], "bob is a receiver in the end"
