"""The properties of agreed views by example: alice and bob send, carol listens, and all go from view v to view w."""

from __future__ import annotations

from typing import Any

from tests.properties.test_each_property import LIVES, Trace, of
from unisono.properties.registry import Violation
from unisono.trace.schema import Member, MembershipRow, Start

BOTH = {"alice": 1, "bob": 1}
NEXT = {"alice": 2, "bob": 2}


def agreed() -> Trace:
    trace = Trace()
    trace.service = "RTO"
    return trace


def in_v(**changes: Any) -> Trace:
    """All three are in v, in which alice and bob send one message each."""
    trace = agreed()
    for name in ("alice", "bob", "carol"):
        trace.agree(0, name, "v", BOTH, **(changes if name == "bob" else {}))
    trace.send(1, "alice", 1, timestamp=10)
    trace.send(1, "bob", 1, timestamp=20)
    return trace


def hear(trace: Trace, process: str, *sources: str) -> None:
    for source in sources:
        trace.deliver(2, process, source, 1, timestamp={"alice": 10, "bob": 20}[source])


def moved() -> Trace:
    """They deliver both messages and go on to w."""
    trace = in_v()
    for name in ("alice", "bob", "carol"):
        hear(trace, name, "alice", "bob")
    for name in ("alice", "bob", "carol"):
        trace.agree(3, name, "w", NEXT)
    return trace


def at(property_id: str, process: str, position: int, message: str | None = None) -> tuple[object, ...]:
    return (property_id, "market", process, LIVES[process], position, message)


def places(violations: list[Violation]) -> list[tuple[object, ...]]:
    return [violation.place() for violation in violations]


def test_agreed_views_as_they_should_be() -> None:
    assert moved().violations() == []


def test_d5_blames_the_one_that_lacks_a_message_although_it_is_the_first() -> None:
    trace = in_v()
    hear(trace, "alice", "alice")
    for name in ("bob", "carol"):
        hear(trace, name, "alice", "bob")
    for name in ("alice", "bob", "carol"):
        trace.agree(3, name, "w", NEXT)
    found = [place for place in places(trace.violations()) if place[0] == "D5"]
    assert found == [at("D5", "alice", 3)]


def test_d5_takes_the_first_for_right_where_as_many_delivered_otherwise() -> None:
    trace = in_v()
    for name, sources in (("alice", ("alice",)), ("bob", ("alice", "bob"))):
        hear(trace, name, *sources)
    for name in ("alice", "bob"):
        trace.agree(3, name, "w", NEXT)
    found = [place for place in places(trace.violations()) if place[0] == "D5"]
    assert found == [at("D5", "bob", 4)]


def test_o5_blames_the_one_that_has_another_order_although_it_is_the_first() -> None:
    trace = in_v()
    hear(trace, "alice", "bob", "alice")
    for name in ("bob", "carol"):
        hear(trace, name, "alice", "bob")
    for name in ("alice", "bob", "carol"):
        trace.agree(3, name, "w", NEXT)
    found = [place for place in places(trace.violations()) if place[0] == "O5"]
    assert found == [at("O5", "alice", 4)]


def test_m1_a_sender_is_in_its_own_view() -> None:
    trace = agreed()
    trace.agree(0, "carol", "v", BOTH, role="sender")
    assert places(of(trace, "M1")) == [at("M1", "carol", 0)]
    trace = agreed()
    trace.agree(0, "carol", "v", BOTH)
    assert of(trace, "M1") == []


def test_m2_identifiers_grow_in_a_stretch() -> None:
    trace = moved()
    trace.agree(4, "bob", "v", BOTH)
    assert places(of(trace, "M2")) == [at("M2", "bob", 5)]
    trace = moved()
    trace.stretches["bob"] = 1
    trace.agree(4, "bob", "v", BOTH)
    assert of(trace, "M2") == []


def test_m2_after_a_fresh_start_a_process_may_come_back_into_its_view_but_not_into_an_older_one() -> None:
    for view, wrong in (("w", False), ("v", True)):
        trace = moved()
        trace.membership(4, "carol", "SELF_FAIL", "market", "cannot follow")
        trace.agree(5, "carol", view, NEXT, previous=None, transitional=[], whole=False)
        assert bool(of(trace, "M2")) == wrong


def test_m4_one_identifier_is_one_view() -> None:
    trace = in_v(start=[Start("bob", LIVES["bob"], 10, 1)])
    assert places(of(trace, "M4")) == [at("M4", "bob", 0)]
    trace = in_v(start=[Start("alice", LIVES["alice"], 11, 1), Start("bob", LIVES["bob"], 10, 1)])
    assert places(of(trace, "M4")) == [at("M4", "bob", 0)]
    assert places(of(in_v(merged=["u"]), "M4")) == [at("M4", "bob", 0)]
    assert places(of(in_v(primary=True), "M4")) == [at("M4", "bob", 0)]
    assert places(of(in_v(leader_sequence=2), "M4")) == [at("M4", "bob", 0)]


def test_m4_who_comes_into_the_middle_starts_later() -> None:
    start = [Start("alice", LIVES["alice"], 30, 3), Start("bob", LIVES["bob"], 30, 3)]
    assert of(in_v(start=start, whole=False), "M4") == []
    assert of(in_v(start=start[1:], whole=False), "M4") != []


def along(*names: str) -> list[Member]:
    return [Member(name, LIVES[name]) for name in names]


def test_m5_who_comes_from_the_same_view_comes_along() -> None:
    def entered(process: str, **changes: Any) -> list[tuple[object, ...]]:
        trace = moved()
        trace.rows = [row for row in trace.rows if row.kind != "VIEW" or row.view == "v"]
        for name in ("alice", "bob", "carol"):
            trace.agree(3, name, "w", NEXT, **(changes if name == process else {}))
        return places(of(trace, "M5"))

    assert entered("bob") == []
    assert entered("bob", transitional=along("bob")) == [at("M5", "bob", 4), at("M5", "carol", 3)]
    assert entered("bob", transitional=along("alice", "bob", "carol"))[0] == at("M5", "bob", 4)
    assert entered("bob", transitional=None)[0] == at("M5", "bob", 4)
    assert entered("carol", transitional=along("bob")) == [at("M5", "carol", 3)]
    assert entered("bob", previous=None, transitional=along("bob")) == [at("M5", "alice", 4)]
    assert entered("bob", previous=None, transitional=along("bob"), whole=False) == []


def test_m7_primary_views_share_somebody_with_the_one_before() -> None:
    def primaries(*views: tuple[str, ...]) -> list[Violation]:
        trace = agreed()
        for index, names in enumerate(views):
            trace.agree(index, names[0], f"view {index}", dict.fromkeys(names, 1), primary=True)
        return of(trace, "M7")

    assert primaries(("alice", "bob"), ("bob", "carol"), ("carol",)) == []
    assert places(primaries(("alice", "bob"), ("carol",))) == [at("M7", "carol", 0)]
    assert places(primaries(("alice",), ("bob",), ("alice",))) == [at("M7", "bob", 0), at("M7", "alice", 1)]


def test_m7_views_of_the_same_time_all_share_somebody() -> None:
    def rivals(time: int) -> list[Violation]:
        trace = agreed()
        for index, names in enumerate((("alice",), ("alice", "bob"), ("bob",))):
            named = {"start_time": index * time, "leader_sequence": index, "primary": True}
            trace.agree(index, names[-1], f"view {index}", dict.fromkeys(names, 1), **named)
        return of(trace, "M7")

    assert rivals(1) == []
    assert places(rivals(0)) == [at("M7", "bob", 1)]


def test_m9_a_receiver_follows_the_senders_step_by_step() -> None:
    def followed(*views: str, fails: bool = False, service: str = "RTO") -> list[tuple[object, ...]]:
        trace = agreed()
        for view in ("u", "v", "w"):
            trace.agree(0, "alice", view, {"alice": 1})
        for view in views:
            trace.agree(1, "carol", view, {"alice": 1})
            if fails:
                trace.membership(1, "carol", "BOOTSTRAP", "market")
        trace.send(2, "alice", 1, service=service)
        return places(of(trace, "M9"))

    assert followed("u", "v", "w") == followed("v", "w") == []
    assert followed("u", "w") == [at("M9", "carol", 1)]
    assert followed("u", "w", fails=True) == []
    assert followed("x") == [at("M9", "carol", 0)]
    assert followed("u", "w", service="RSO") == []


def test_d3_d4_a_message_is_delivered_in_the_view_in_which_it_was_sent() -> None:
    trace = moved()
    trace.send(4, "alice", 2, timestamp=30, agreed="v")
    trace.deliver(5, "bob", "alice", 2, timestamp=30)
    assert places(of(trace, "D3")) == [at("D3", "bob", 5, "alice~1f/2")]
    assert of(trace, "D4") == []
    trace.deliver(5, "carol", "alice", 2, timestamp=30, view="v")
    assert places(of(trace, "D4")) == [("D4", "market", "", 0, 0, "alice~1f/2")]


def test_d5_who_goes_on_together_delivered_the_same() -> None:
    def went(*heard: str, **changes: Any) -> list[tuple[object, ...]]:
        trace = in_v(**changes)
        hear(trace, "alice", "alice", "bob")
        hear(trace, "bob", *heard)
        for name in ("alice", "bob"):
            trace.agree(3, name, "w", NEXT)
        return places(of(trace, "D5"))

    assert went("alice", "bob") == []
    assert went("alice", "bob", "bob") == []
    assert went("bob") == [at("D5", "bob", 3)]
    late = [Start("alice", LIVES["alice"], 20, 2), Start("bob", LIVES["bob"], 10, 1)]
    assert went("bob", start=late, whole=False) == []
    assert went(start=late, whole=False) == [at("D5", "bob", 2)]


def test_d5_asks_nothing_of_those_who_go_elsewhere() -> None:
    trace = in_v()
    hear(trace, "alice", "alice", "bob")
    trace.agree(3, "alice", "w", NEXT)
    trace.agree(3, "bob", "x", NEXT)
    assert of(trace, "D5") == []


def test_d6_a_sender_hears_itself_before_the_view_changes() -> None:
    trace = in_v()
    hear(trace, "bob", "alice")
    trace.agree(3, "bob", "w", NEXT)
    assert places(of(trace, "D6")) == [at("D6", "bob", 1, "bob~2a/1")]
    trace = in_v()
    trace.membership(2, "bob", "SELF_FAIL", "market")
    trace.agree(3, "bob", "w", NEXT, previous=None, transitional=along("bob"))
    assert of(trace, "D6") == []


def ended(service: str, wants: str, sent: float, end: float) -> list[str]:
    trace = Trace()
    trace.service = service
    trace.begin(0, "alice", wants)
    trace.view(0, "alice", "v", alice=1)
    trace.send(sent, "alice", 1)
    trace.membership(end, "alice", "END")
    return [violation.property for violation in trace.violations() if violation.property in ("D6", "L3")]


def test_d6_l3_a_sender_hears_itself_in_the_end() -> None:
    assert ended("RTO", "bob", 1, 3) == ["D6", "L3"]
    assert ended("RSO", "all", 1, 3) == ended("RSO", "bob, alice", 1, 3) == ["D6", "L3"]
    assert ended("RTO", "bob", 1, 2.9) == ended("RSO", "bob", 1, 3) == ended("RSO", "once", 1, 3) == []
    assert ended("UU", "all", 1, 3) == []


def test_d9_what_a_companion_answered_for_is_delivered() -> None:
    def answered(*answers: tuple[str, int], heard: tuple[str, ...] = ("alice",)) -> list[tuple[object, ...]]:
        trace = in_v()
        hear(trace, "alice", "alice")
        hear(trace, "bob", *heard)
        for proposal, last in answers:
            trace.repair(3, "bob", "CUT", "bob", 10, last, peer=proposal)
        for name in ("alice", "bob"):
            trace.agree(4, name, "w", NEXT)
        return places(of(trace, "D9"))

    assert answered() == answered(("p", 9)) == []
    assert answered(("p", 10)) == [at("D9", "alice", 3, "bob~2a/1"), at("D9", "bob", 4, "bob~2a/1")]
    assert answered(("p", 10), heard=("alice", "bob")) == [at("D9", "alice", 3, "bob~2a/1")]
    assert answered(("p", 10), ("q", 9)) == []


def test_o5_who_goes_on_together_delivered_in_one_order() -> None:
    def went(*heard: str) -> list[tuple[object, ...]]:
        trace = in_v()
        hear(trace, "alice", "alice", "bob")
        hear(trace, "bob", *heard)
        for name in ("alice", "bob"):
            trace.agree(3, name, "w", NEXT)
        return places(of(trace, "O5"))

    assert went("alice", "bob") == went("bob") == went("alice", "bob", "alice") == []
    assert went("bob", "alice") == [at("O5", "bob", 4)]


def test_o2_a_source_that_does_not_come_along_begins_a_new_spell() -> None:
    for names, right in ((("alice", "bob"), False), (("bob",), True)):
        trace = in_v()
        hear(trace, "bob", "alice", "bob")
        trace.agree(3, "bob", "w", {"alice": 7, "bob": 2}, transitional=along(*names))
        assert (of(trace, "O2") == []) == right


def test_o4_o7_ask_only_for_what_was_sent_in_the_view() -> None:
    for sent_in, right in (("v", False), ("u", True)):
        trace = in_v()
        trace.send(1, "alice", 2, timestamp=15, agreed=sent_in)
        hear(trace, "carol", "alice", "bob")
        assert (of(trace, "O7") == []) == right
        assert (of(trace, "O4") == []) == right


def test_o4_o7_do_not_ask_for_what_is_beyond_an_end_that_is_being_agreed() -> None:
    for sent, agreed, right in ((2, False, False), (2, True, True), (3, True, False)):
        trace = in_v()
        for number in range(2, sent + 1):
            trace.send(1, "alice", number, timestamp=13 + number)
        hear(trace, "carol", "alice", "bob")
        if sent == 3:  # alice/2 is missing below what came of alice
            trace.deliver(2, "carol", "alice", 3, timestamp=16)
        if agreed:
            trace.repair(3, "carol", "CUT", "alice", 1, 1)
        assert (of(trace, "O7") == []) == right
        assert (of(trace, "O4") == []) == right


def settled(**changes: Any) -> Trace:
    """All three reach the end in w, long after the last fault; dave was never there."""
    trace = agreed()
    for name in ("alice", "bob", "carol"):
        trace.membership(0, name, "START")
        role = "receiver" if name == "carol" else "sender"
        trace.membership(0, name, "JOIN", "market", "all", role=role)
    for name in ("alice", "bob", "carol"):
        trace.agree(1, name, "w", BOTH, **(changes if name == "bob" else {}))
    trace.fault(2, "heal", "begin")
    return trace


def over(trace: Trace, property_id: str, end: float = 20) -> list[tuple[object, ...]]:
    for name in ("alice", "bob", "carol"):
        trace.membership(end, name, "END")
    return places(of(trace, property_id))


def test_l1_long_after_the_last_fault_all_have_the_view_of_all() -> None:
    assert over(settled(), "L1") == []
    alone = [Start("bob", LIVES["bob"], 10, 1)]
    assert over(settled(start=alone), "L1") == [at("L1", "bob", 3)]
    assert over(settled(start=alone), "L1", end=11.9) == []
    assert over(settled(view="x"), "L1") == [at("L1", "bob", 3)]
    ghost = [Start(name, LIVES[name], 10, 1) for name in ("alice", "bob")] + [Start("dave", 4, 1, 1)]
    trace = settled(start=ghost)
    assert over(trace, "L1") == []
    trace = settled(start=ghost)
    trace.rows.append(MembershipRow(kind="CRASH", process="dave", incarnation=4, truth=5_000_000_000))
    assert over(trace, "L1") == [at("L1", "bob", 3)]


def test_l1_asks_for_nobody_who_came_late_left_or_is_cut_off() -> None:
    alone = [Start("bob", LIVES["bob"], 10, 1)]
    trace = settled(start=alone, view="x")
    trace.fault(3, "partition", "begin", "bob")
    assert over(trace, "L1") == [at("L1", "alice", 3), at("L1", "carol", 3)]
    trace = settled()
    trace.membership(15, "bob", "LEAVE", "market")
    assert over(trace, "L1") == []
    trace = settled()
    trace.membership(3, "bob", "LEAVE", "market")
    assert over(trace, "L1") == [at("L1", "alice", 3), at("L1", "carol", 3)]


def test_l5_who_stays_in_a_view_gets_what_is_sent_in_it() -> None:
    def sent(time: float, *heard: str, changes: bool = False) -> list[tuple[object, ...]]:
        trace = settled()
        trace.send(time, "alice", 1)
        for name in heard:
            trace.deliver(time + 1, name, "alice", 1)
        if changes:
            trace.agree(12, "alice", "x", NEXT)
        return over(trace, "L5")

    assert sent(5, "alice", "bob") == sent(10.1, "alice") == sent(5, "alice", changes=True) == []
    assert sent(5, "alice") == [at("L5", "bob", 3, "alice~1f/1")]
