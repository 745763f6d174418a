"""Promises to those who stay, by example: what leavers had sent, what was released, and that everybody goes on."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.properties.test_agreed_views import agreed, at, places
from tests.properties.test_each_property import LIVES, Trace, of
from unisono.trace.schema import MembershipRow, Reason, Start

LEFT = [Reason("alice", LIVES["alice"], "left")]


def farewell(heard: int, service: str = "RTO", told: float = 4, **leave: Any) -> Trace:
    """Alice sends twice and leaves; bob, who delivers so many, is told that she left."""
    trace = agreed()
    trace.service = service
    for name in ("alice", "bob"):
        trace.view(0, name, "v", alice=1, bob=1)
    trace.send(1, "alice", 1, timestamp=10)
    trace.send(2, "alice", 2, timestamp=20)
    trace.membership(5, "alice", "LEAVE", "market", **leave)
    for number in range(1, heard + 1):
        trace.deliver(3, "bob", "alice", number, timestamp=10 * number)
    trace.view(told, "bob", "w", bob=1)
    trace.rows[-1].reasons = LEFT  # type: ignore[union-attr]  # the row is a view
    return trace


def test_d13_who_is_told_that_another_left_has_all_that_it_sent() -> None:
    for service in ("RTO", "RSO"):
        assert of(farewell(2, service), "D13") == []
        assert places(of(farewell(1, service), "D13")) == [at("D13", "bob", 2, "alice~1f/2")]
        assert places(of(farewell(0, service), "D13")) == [at("D13", "bob", 1, "alice~1f/1")]


def test_d13_nothing_is_promised_where_the_leave_says_that_it_could_not_wait() -> None:
    assert of(farewell(1, reason="timeout"), "D13") == []


def test_d13_nor_of_who_crashed_before_it_had_left() -> None:
    trace = farewell(1)
    (leave,) = [row for row in trace.rows if isinstance(row, MembershipRow) and row.kind == "LEAVE"]
    leave.kind = "CRASH"
    assert of(trace, "D13") == []


def test_d13_what_is_sent_after_the_view_went_elsewhere() -> None:
    assert places(of(farewell(0, told=1.5), "D13")) == [at("D13", "bob", 1, "alice~1f/1")]
    assert of(farewell(1, told=1.5), "D13") == []


def test_d13_who_went_on_without_another_owes_it_nothing() -> None:
    trace = agreed()
    for name in ("alice", "bob"):
        trace.agree(0, name, "v", {"alice": 1, "bob": 1})
    trace.send(1, "alice", 1, timestamp=10)
    trace.agree(2, "alice", "u", {"alice": 2})
    trace.membership(3, "alice", "LEAVE", "market")
    trace.agree(4, "bob", "w", {"bob": 1}, reasons=LEFT)
    assert of(trace, "D13") == []


def test_d13_what_came_before_the_start_points_is_not_owed() -> None:
    trace = farewell(2)
    trace.rows = [row for row in trace.rows if row.kind != "DELIVER" or row.number != 1]  # type: ignore[union-attr]
    assert of(trace, "D13") != []
    (view,) = [row for row in trace.rows if row.kind == "VIEW" and row.process == "bob" and row.view == "v"]
    view.start = [type(start)(start.source, start.incarnation, 20, 2) for start in view.start]  # type: ignore[union-attr]
    assert of(trace, "D13") == []


def released(heard: int, service: str = "RTO", counted: int = 10, time: float = 3, last: int = 20) -> Trace:
    """Alice counts bob, sends twice, releases both messages and is gone; bob has delivered so many."""
    trace = agreed()
    trace.service = service
    for name in ("alice", "bob"):
        trace.view(0, name, "v", alice=1, bob=1)
    trace.membership(0.5, "alice", "GRANT", "market", sequence=counted, **BOB)
    for number in (1, 2):
        trace.send(1, "alice", number, timestamp=10 * number)
    for number in range(1, heard + 1):
        trace.deliver(2, "bob", "alice", number, timestamp=10 * number)
    trace.release(time, "alice", last)
    trace.view(4, "bob", "w", bob=1)
    return trace


BOB: dict[str, Any] = {"peer": "bob", "peer_incarnation": LIVES["bob"]}


def before_the_release(trace: Trace, kind: str, **columns: Any) -> list[tuple[object, ...]]:
    """What D7 says if alice writes this before she releases anything."""
    place = next(index for index, row in enumerate(trace.rows) if row.kind == "GC")
    trace.membership(2.5, "alice", kind, "market", **columns)
    trace.rows.insert(place, trace.rows.pop())
    for row in trace.rows[place : place + 2]:
        row.position += 1 if row.kind == "GC" else -1
    return places(of(trace, "D7"))


def test_d7_who_goes_on_has_what_its_source_released() -> None:
    for service in ("RTO", "RSO"):
        assert of(released(2, service), "D7") == []
        assert places(of(released(1, service), "D7")) == [at("D7", "bob", 2, "alice~1f/2")]
        assert places(of(released(0, service), "D7")) == [at("D7", "bob", 1, "alice~1f/1")]


def test_d7_only_what_was_released_by_then() -> None:
    assert places(of(released(0, last=10), "D7")) == [at("D7", "bob", 1, "alice~1f/1")]
    assert of(released(1, last=10), "D7") == []
    assert of(released(0, time=5), "D7") == []


def test_d7_only_from_the_point_on_from_which_one_counts() -> None:
    assert places(of(released(0, counted=20), "D7")) == [at("D7", "bob", 1, "alice~1f/2")]
    assert of(released(0, counted=21), "D7") == []


def test_d7_nor_who_no_longer_counts() -> None:
    assert before_the_release(released(0), "SUSPECT", **BOB) == []
    assert before_the_release(released(0), "LEAVE") == []
    assert before_the_release(released(0), "GRANT", sequence=20, **BOB) == [at("D7", "bob", 1, "alice~1f/2")]


def test_d7_nor_what_a_source_released_when_it_had_gone_on() -> None:
    assert before_the_release(released(0), "AGREED") == []
    assert before_the_release(released(0, "RSO"), "AGREED") != []


def test_d7_a_receiver_of_agreed_views_may_go_with_senders_that_had_less() -> None:
    trace = released(0)
    (view,) = [row for row in trace.rows if row.kind == "VIEW" and row.process == "bob" and row.view == "v"]
    view.role = "receiver"  # type: ignore[union-attr]  # the row is a view
    assert of(trace, "D7") == []


def kept_waiting(*deliveries: float, until: float = 30) -> Trace:
    """Alice sends every two seconds; something comes to bob at these times."""
    trace = agreed()
    for name in ("alice", "bob"):
        trace.begin(0, name)
        trace.agree(0, name, "v", {"alice": 1, "bob": 1})
    for number in range(1, 11):
        trace.send(2 * number, "alice", number, timestamp=10 * number)
    for number, time in enumerate(deliveries, 1):
        trace.deliver(time, "bob", "alice", number, timestamp=10 * number)
    for name in ("alice", "bob"):
        trace.membership(until, name, "END")
    return trace


def test_l9_nobody_stands_still_while_another_sends() -> None:
    assert of(kept_waiting(3, 12, 21), "L9") == []
    assert places(of(kept_waiting(3, 15, 21), "L9")) == [at("L9", "bob", 2, "alice~1f/2")]
    assert places(of(kept_waiting(), "L9")) == [at("L9", "bob", 2, "alice~1f/1")]
    assert of(kept_waiting(until=12), "L9") == []


def test_l9_a_view_is_progress() -> None:
    trace = kept_waiting(3, 21)
    trace.agree(11, "bob", "w", {"alice": 5, "bob": 1})
    assert of(trace, "L9") == []


def test_l9_a_fresh_start_is_none() -> None:
    trace = kept_waiting(3)
    trace.membership(8, "bob", "SELF_FAIL", "market", "cannot follow")
    assert places(of(trace, "L9")) == [at("L9", "bob", 2, "alice~1f/2")]


def test_l9_who_is_away_gets_nothing() -> None:
    """The fault may be over before the limit: the time begins anew when it is."""
    for name in ("alice", "bob"):
        trace = kept_waiting(3)
        trace.fault(3, "isolate", "begin", name)
        assert of(trace, "L9") == []
        trace.fault(5, "isolate", "end", name)
        assert places(of(trace, "L9")) == [at("L9", "bob", 2, "alice~1f/3")]


def test_l9_nor_who_left_or_took_another_service() -> None:
    trace = kept_waiting(3)
    trace.membership(3.5, "bob", "LEAVE", "market")
    assert of(trace, "L9") == []
    trace = kept_waiting(3)
    trace.rows.pop()
    trace.membership(3.5, "bob", "CRASH")
    assert of(trace, "L9") == []
    trace = kept_waiting(3)
    trace.service = "UU"
    trace.gauge(3.5, "bob", 1, None)
    assert of(trace, "L9") == []


def come_back(*views: float, known: bool = True, service: str = "RTO") -> Trace:
    """Bob had an earlier life of carol in v; the new one sends at 6 s, and is in a view of bob at these times."""
    trace = agreed()
    trace.service = service
    trace.begin(0, "bob")
    trace.view(0, "bob", "v", bob=1)
    if known:
        view = trace.rows[-1]
        view.start = [*view.start, Start("carol", LIVES["carol"] - 1, 10, 1)]  # type: ignore[union-attr]
    trace.view(4, "bob", "w", bob=1)
    trace.begin(5, "carol")
    trace.send(6, "carol", 1, timestamp=10)
    for time in views:
        trace.view(time, "bob", f"at {time}", bob=1, carol=1)
    for name in ("bob", "carol"):
        trace.membership(30, name, "END")
    return trace


def test_l11_the_new_life_of_a_process_is_heard() -> None:
    for service in ("RTO", "RSO"):
        assert of(come_back(16, service=service), "L11") == []
        assert places(of(come_back(16.1, service=service), "L11")) == [at("L11", "bob", 3, "carol~3c/1")]
        assert places(of(come_back(service=service), "L11")) == [at("L11", "bob", 3, "carol~3c/1")]


def test_l11_it_may_be_heard_before_it_sends_and_a_delivery_is_enough() -> None:
    assert of(come_back(5.5), "L11") == []
    trace = come_back()
    trace.deliver(15, "bob", "carol", 1, timestamp=10)
    assert of(trace, "L11") == []


def test_l11_asks_nothing_of_who_knew_no_earlier_life_or_wants_no_views() -> None:
    assert of(come_back(known=False), "L11") == []
    assert of(come_back(service="UU"), "L11") == []
    trace = come_back()
    trace.rows[3].stretch = 1
    assert of(trace, "L11") == []


def test_l11_a_clock_that_is_set_back_is_no_excuse() -> None:
    for name in ("bob", "carol"):
        trace = come_back()
        trace.fault(3, "clock_step", "begin")
        assert len(of(trace, "L11")) == 1
        trace.fault(7, "isolate", "begin", name)
        assert of(trace, "L11") == []


def test_l11_nor_does_it_ask_anything_of_who_does_not_stay() -> None:
    for name in ("bob", "carol"):
        trace = come_back()
        trace.membership(9, name, "LEAVE", "market")
        assert of(trace, "L11") == []
    trace = come_back()
    trace.rows.pop()
    trace.membership(9, "carol", "CRASH")
    assert of(trace, "L11") == []


def parted(time: float = 100, names: str = "alice bob", role: str = "sender", **changes: Any) -> Trace:
    """Alice was in v with bob and carol, and goes on to a view with those names at that time."""
    trace = agreed()
    trace.agree(50, "alice", "v", {"alice": 1, "bob": 1, "carol": 1}, role=role)
    trace.agree(time, "alice", "w", dict.fromkeys(names.split(), 1), **changes)
    return trace


PARTED = [at("L10", "alice", 1)]
CUT = [["alice", "bob"], ["carol"]]


def test_l10_nobody_goes_on_without_another_for_no_reason() -> None:
    assert places(of(parted(), "L10")) == PARTED
    assert places(of(parted(names="alice"), "L10")) == PARTED
    assert of(parted(names="alice bob carol"), "L10") == []
    assert of(parted(names="bob carol"), "L10") == []
    assert of(parted(service="RSO"), "L10") == []


@pytest.mark.parametrize(
    ("kind", "role", "since", "until"),
    [
        ("CRASH", None, None, 110),
        ("END", None, None, 100),
        ("LEAVE", None, 90, 110),
        ("SELF_FAIL", None, 90, 110),
        ("PLEAVE", None, 90, 100),
        ("ROLE", "receiver", 90, 100),
    ],
)
def test_l10_who_is_gone_is_not_left_out(kind: str, role: str | None, since: int | None, until: int) -> None:
    def found(time: float, process: str = "carol", group: str = "market") -> list[tuple[object, ...]]:
        trace = parted()
        trace.membership(time, process, kind, "" if kind in ("CRASH", "END") else group, role=role)
        return places(of(trace, "L10"))

    assert found(since or 1) == found(until) == []
    assert found(until + 0.001) == found(until, "bob") == PARTED
    if since is not None:
        assert found(since - 0.001) == found(until, group="yard") == PARTED


def test_l10_who_becomes_a_sender_is_there() -> None:
    trace = parted()
    trace.membership(95, "carol", "ROLE", "market", role="sender")
    assert places(of(trace, "L10")) == PARTED


def faulty(*edges: tuple[float, Literal["begin", "end"]], sides: list[list[str]] = CUT, fault: str = "cut") -> Trace:
    trace = parted()
    for time, edge in edges:
        trace.fault(time, fault, edge, sides=sides)
    return trace


def test_l10_a_fault_may_keep_them_apart() -> None:
    assert of(faulty((100, "begin")), "L10") == []
    assert places(of(faulty((100.001, "begin")), "L10")) == PARTED
    for fault in ("load", "heal"):
        assert places(of(faulty((80, "begin"), fault=fault), "L10")) == PARTED


def test_l10_a_fault_is_felt_for_10_s() -> None:
    assert of(faulty((80, "begin"), (90, "end")), "L10") == []
    assert places(of(faulty((80, "begin"), (89.999, "end")), "L10")) == PARTED


def test_l10_a_fault_that_comes_and_goes() -> None:
    twice: list[tuple[float, Literal["begin", "end"]]] = [(60, "begin"), (65, "end"), (70, "begin")]
    assert of(faulty(*twice, (95, "end")), "L10") == []
    assert places(of(faulty(*twice, (75, "end")), "L10")) == PARTED
    assert of(faulty((60, "begin"), (60, "begin"), (70, "end")), "L10") == []


def test_l10_a_fault_ends_by_its_name_and_sides() -> None:
    for fault, sides in (("other", CUT), ("cut", CUT[::-1])):
        trace = faulty((60, "begin"))
        trace.fault(70, fault, "end", sides=sides)
        assert of(trace, "L10") == []


@pytest.mark.parametrize(
    ("sides", "apart"),
    [
        ([], False),
        ([["alice", "bob", "carol"], ["dave"]], False),
        ([["alice", "bob"], ["alice", "bob", "carol"]], False),
        ([["alice", "bob"], ["bob", "carol"], ["carol", "alice"]], True),
        ([["dave"]], True),
    ],
)
def test_l10_a_side_with_all_of_them_is_no_excuse(sides: list[list[str]], apart: bool) -> None:
    assert places(of(faulty((80, "begin"), sides=sides), "L10")) == ([] if apart else PARTED)


def test_l10_one_fault_that_parts_them_is_enough_but_each_needs_one() -> None:
    trace = faulty((80, "begin"), sides=[["alice", "bob", "carol"]])
    trace.fault(80, "cut", "begin", sides=CUT)
    assert of(trace, "L10") == []
    trace = parted(names="alice")
    trace.fault(80, "cut", "begin", sides=CUT)
    assert places(of(trace, "L10")) == PARTED
    trace.fault(80, "cut", "begin", sides=[["alice", "carol"], ["bob"]])
    assert of(trace, "L10") == []


@pytest.mark.parametrize("kind", ["JOIN", "LEAVE", "SELF_FAIL"])
def test_l10_who_went_out_in_between_left_nobody_behind(kind: str) -> None:
    for group, expected in (("market", []), ("yard", [at("L10", "alice", 2)])):
        trace = agreed()
        trace.view(50, "alice", "v", alice=1, carol=1)
        trace.membership(60, "alice", kind, group)
        assert of(trace, "L10") == []
        trace.view(100, "alice", "w", alice=1)
        assert places(of(trace, "L10")) == expected


def test_l10_only_the_next_view_and_of_the_same_stretch_is_judged() -> None:
    assert of(parted(stretch=1), "L10") == []
    assert of(parted(era="v"), "L10") == []
    trace = parted(names="alice bob carol", service="RSO")
    trace.agree(110, "alice", "x", {"alice": 1})
    assert of(trace, "L10") == []
    trace = parted(names="alice bob carol", era="v")
    trace.agree(110, "alice", "x", {"alice": 1, "bob": 1})
    assert places(of(trace, "L10")) == [at("L10", "alice", 2)]


def followed(role: str, members: str, names: str, *sides: list[str]) -> list[tuple[object, ...]]:
    """What L10 says of carol, who was in a view with those members and goes on to one with those names, in a fault."""
    trace = agreed()
    trace.agree(50, "carol", "v", dict.fromkeys(members.split(), 1), role=role)
    trace.agree(100, "carol", "w", dict.fromkeys(names.split(), 1), role=role)
    trace.fault(80, "cut", "begin", sides=list(sides))
    return places(of(trace, "L10"))


CAROL = [at("L10", "carol", 1)]


def test_l10_a_receiver_that_goes_with_as_many_as_it_leaves_may_not_hear_them() -> None:
    both = [["alice", "carol"], ["bob", "carol"]]
    for names in ("alice", ""):
        assert followed("receiver", "alice bob", names, *both) == []
        assert followed("receiver", "alice bob", names, *both, ["alice", "bob", "carol"]) == CAROL


def test_l10_a_receiver_that_goes_with_fewer_hears_not_all_whom_it_leaves() -> None:
    """Carol goes on with alice, without bob and dave; whom she follows matters no more then."""
    those, alone = ["bob", "carol", "dave"], ["alice", "bob", "carol"]
    assert followed("receiver", "alice bob dave", "alice", ["alice"], those) == CAROL
    assert followed("receiver", "alice bob dave", "alice", alone, ["dave"]) == []
    assert followed("sender", "alice bob dave", "alice", ["alice"], those) == []
    assert followed("sender", "alice bob dave", "alice", alone, ["dave"]) == CAROL
    assert followed("receiver", "alice bob", "dave", ["dave"], alone) == CAROL


def lured(last: str, time: float = 90, service: str = "RTO", names: str = "") -> Trace:
    """Carol leaves alice and bob, who has a view with those members; she does not hear dave."""
    trace = agreed()
    trace.agree(50, "carol", "v", {"alice": 1, "bob": 1}, role="receiver")
    trace.agree(time, "bob", "x", dict.fromkeys(last.split(), 1), service=service)
    trace.agree(100, "carol", "w", dict.fromkeys(names.split(), 1), role="receiver")
    trace.fault(80, "cut", "begin", sides=[["alice", "bob", "carol"], ["bob", "dave"]])
    return trace


def dragged(last: str) -> Trace:
    """Dave, whom alice and bob do not hear, steps out; carol hears all of them, and goes with dave."""
    trace = agreed()
    trace.agree(50, "carol", "v", {"alice": 1, "bob": 1, "dave": 1}, role="receiver")
    for name in ("alice", "bob"):
        trace.agree(50, name, "v", dict.fromkeys(last.split(), 1))
    trace.membership(90, "carol", "SELF_FAIL", "market")
    trace.membership(90, "carol", "BOOTSTRAP", "market")
    trace.agree(100, "carol", "w", {"dave": 1}, role="receiver", stretch=1)
    trace.fault(80, "lose", "begin", sides=[["alice", "bob", "carol"], ["carol", "dave"], ["erin"]])
    return trace


DRAGGED = [dragged("alice bob dave"), dragged("alice bob erin")]
"""Carol hears dave, since she goes with it, and so can follow the first view; erin is one whom she cannot hear."""
LURED_AWAY = [lured("bob dave"), lured("bob dave", time=100)]
LURED_FOR_NOTHING = [
    lured("alice bob"),
    lured("bob dave", time=100.001),
    lured("bob dave", service="RSO"),
    lured("bob dave", names="alice"),  # she goes with as many as she leaves
]


def test_l10_a_receiver_that_goes_with_fewer_cannot_follow_a_view_with_one_whom_it_does_not_hear() -> None:
    assert [of(trace, "L10") for trace in LURED_AWAY] == [[], []]
    assert [places(of(trace, "L10")) for trace in DRAGGED] == [[at("L10", "carol", 3)], []]
    assert [places(of(trace, "L10")) for trace in LURED_FOR_NOTHING] == [CAROL] * 4


def failed(
    role: str = "receiver",
    names: str = "alice",
    stretch: int = 1,
    kind: str = "SELF_FAIL",
    group: str = "market",
    sides: list[list[str]] | None = None,
    becomes: str | None = None,
) -> list[tuple[object, ...]]:
    """What L10 says of carol, who failed to follow alice, bob and dave, and comes into a view with those names."""
    trace = agreed()
    trace.agree(50, "carol", "v", {"alice": 1, "bob": 1, "dave": 1}, role=role)
    trace.membership(60, "carol", kind, group)
    trace.membership(60, "carol", "BOOTSTRAP", "market")
    trace.agree(100, "carol", "w", dict.fromkeys(names.split(), 1), role=becomes or role, stretch=stretch)
    trace.fault(80, "cut", "begin", sides=sides or [])
    return places(of(trace, "L10"))


def test_l10_a_receiver_that_fails_to_follow_goes_with_most() -> None:
    late = [at("L10", "carol", 3)]
    assert failed() == failed(stretch=0) == failed(names="") == late
    assert failed(names="alice bob") == failed(role="sender") == failed(role="sender", stretch=0) == []
    assert failed(stretch=2) == failed(kind="GAP") == failed(group="yard") == []
    assert failed(stretch=0, kind="GAP") == late
    assert failed(sides=[["alice"], ["bob", "carol", "dave"]]) == late
    assert failed(sides=[["alice", "bob", "carol"], ["dave"]]) == []
    assert failed(becomes="sender") == []  # who wants to send, and finds nobody to say so for it, begins alone


def test_l10_only_a_failure_from_that_view_on_matters() -> None:
    for role, stretch, expected in (("sender", 0, [at("L10", "carol", 2)]), ("receiver", 1, [])):
        trace = agreed()
        trace.membership(40, "carol", "SELF_FAIL", "market")
        trace.agree(50, "carol", "v", {"alice": 1, "bob": 1}, role=role)
        trace.agree(100, "carol", "w", {}, role=role, stretch=stretch)
        assert places(of(trace, "L10")) == expected


def left_behind(
    peer: str | None, told: float = 60, group: str = "market", role: str = "sender"
) -> list[tuple[object, ...]]:
    """What L10 says of alice, who was left behind and goes on without carol; a fault keeps dave from both."""
    trace = agreed()
    for time, view, numbers in sorted([(50, "v", {"carol": 1}), (told, "", {}), (100, "w", {})]):
        if view:
            trace.agree(time, "alice", view, numbers, role=role)
        else:
            trace.membership(time, "alice", "LEFT_BEHIND", group, peer=peer, peer_incarnation=peer and LIVES[peer])
    trace.fault(80, "cut", "begin", sides=[["alice", "bob", "carol"], ["dave"]])
    return places(of(trace, "L10"))


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_l10_who_was_left_behind_by_one_that_a_fault_kept_from_it_is_excused(role: str) -> None:
    assert left_behind("dave", role=role) == []
    late, soon = [at("L10", "alice", 2)], [at("L10", "alice", 1)]
    assert left_behind("bob", role=role) == left_behind(None, role=role) == late
    assert left_behind("dave", 40, role=role) == late
    assert left_behind("dave", 110, role=role) == soon
    assert left_behind("dave", group="yard", role=role) == late


def excluded(told: float = 60, **changes: Any) -> Trace:
    """Alice is told in v that others went on without it."""
    trace = agreed()
    trace.agree(50, "alice", "v", {"alice": 1, "bob": 1, "carol": 1}, **changes)
    trace.membership(told, "alice", "EXCLUDED", "market")
    trace.agree(100, "alice", "w", {"alice": 1, "bob": 1})
    return trace


def test_l10_who_was_left_out_is_not_blamed_for_those_who_were_in_its_view() -> None:
    alone = [at("L10", "alice", 2)]
    assert places(of(excluded(), "L10")) == alone
    for era, name, of_era, expected in (
        (None, "v", None, []),
        (None, "u", None, alone),
        (None, "u", "v", []),
        (None, "v", "u", alone),
        ("u", "u", None, []),
        ("u", "v", None, alone),
        ("u", "x", "u", []),
    ):
        trace = excluded(era=era)
        trace.agree(50, "carol", name, {"carol": 1}, era=of_era)
        assert places(of(trace, "L10")) == expected, (era, name, of_era)


def test_l10_nor_for_those_who_agreed_to_go_on_from_that_era() -> None:
    for process, era, expected in (("carol", "v", []), ("carol", "u", 1), ("bob", "v", 1)):
        trace = excluded()
        trace.membership(55, process, "AGREED", "market", era)
        assert places(of(trace, "L10")) == (expected and [at("L10", "alice", 2)])


def test_l10_only_who_was_told_in_between_was_left_out() -> None:
    trace = parted()
    trace.agree(50, "carol", "v", {"alice": 1, "bob": 1, "carol": 1})
    trace.membership(110, "alice", "EXCLUDED", "market")
    assert places(of(trace, "L10")) == PARTED


def test_l10_rows_of_real_runs_are_not_judged() -> None:
    for position in (0, 1):
        trace = parted()
        trace.rows[position].truth = None
        assert of(trace, "L10") == []
    for trace, kind in ((faulty((80, "begin")), "FAULT"), (excluded(), "EXCLUDED")):
        trace.agree(50, "carol", "v", {"carol": 1})
        assert of(trace, "L10") == []
        (row,) = [row for row in trace.rows if row.kind == kind]
        row.truth = None
        assert len(of(trace, "L10")) == 1
