"""Promises to those who stay, by example: what leavers had sent, what was released, and that everybody goes on."""

from __future__ import annotations

from typing import Any

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
