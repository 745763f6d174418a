"""Each property by example: a short trace written out, and exactly what is wrong with it.

Times are in seconds. Alice is life 1f of her process, bob is life 2a of his.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec.structs import replace

from unisono.properties.registry import Violation, monitor_violations, oracle_violations
from unisono.trace.schema import (
    AnyRow,
    DeliverRow,
    FaultRow,
    GaugeRow,
    Member,
    MembershipRow,
    RepairRow,
    SendRow,
    Start,
    ViewRow,
)

LIVES = {"alice": 0x1F, "bob": 0x2A, "carol": 0x3C, "dave": 0x4D, "erin": 0x5E, "": 0}


class Trace:
    """A trace in the writing: every row is one call, in global order."""

    def __init__(self) -> None:
        self.rows: list[AnyRow] = []
        self.service = "RSO"
        self.views: dict[str, str] = {}
        self.agreed: dict[str, int] = {}
        self.stretches: dict[str, int] = {}

    def _columns(self, time: float, process: str, kind: str, group: str = "market") -> dict[str, Any]:
        return {
            "kind": kind,
            "group": group,
            "process": process,
            "incarnation": LIVES[process],
            "position": sum(row.process == process for row in self.rows),
            "truth": int(time * 1_000_000_000),
            "service": self.service,
            "view": self.views.get(process),
            "stretch": self.stretches.get(process, 0),
        }

    def send(self, time: float, process: str, number: int, **changes: Any) -> None:
        content = {"sequence": 10 * number, "number": number, "timestamp": number, "size": 5, "body": number}
        agreed = self.views.get(process) if self.service == "RTO" else None
        self.rows.append(SendRow(**{**self._columns(time, process, "SEND"), **content, "agreed": agreed, **changes}))

    def deliver(self, time: float, process: str, source: str, number: int, **changes: Any) -> None:
        content = {"sequence": 10 * number, "number": number, "timestamp": number, "size": 5, "body": number}
        whose = {"source": source, "source_incarnation": LIVES[source], "index": 0}
        self.rows.append(DeliverRow(**{**self._columns(time, process, "DELIVER"), **content, **whose, **changes}))

    def view(self, time: float, process: str, name: str, **numbers: int) -> None:
        if self.service == "RTO":
            self.agree(time, process, name, numbers)
            return
        self.views[process] = name
        start = [Start(source, LIVES[source], 10 * number, number) for source, number in numbers.items()]
        columns = self._columns(time, process, "VIEW")
        columns |= {"start_time": 0, "leader": process, "leader_incarnation": LIVES[process], "leader_sequence": 0}
        self.rows.append(ViewRow(**columns, previous=None, role="receiver", start=start))

    def agree(self, time: float, process: str, name: str, numbers: dict[str, int], **changes: Any) -> None:
        """An agreed view: who is in it is a sender, and all that were in its last view come along."""
        stretch = self.stretches.get(process, 0)
        before = [
            row
            for row in self.rows
            if isinstance(row, ViewRow) and (row.process, row.stretch, row.service) == (process, stretch, "RTO")
        ]
        known = {start.source for start in before[-1].start} if before else {process}
        self.views[process] = name
        columns = self._columns(time, process, "VIEW")
        columns |= {
            "start_time": self.agreed.setdefault(name, len(self.agreed)),
            "leader": "alice",
            "leader_incarnation": LIVES["alice"],
            "leader_sequence": 1,
            "previous": before[-1].view if before else None,
            "role": "sender" if process in numbers else "receiver",
            "start": [Start(source, LIVES[source], 10 * number, number) for source, number in numbers.items()],
            "transitional": [Member(source, LIVES[source]) for source in numbers if source in known],
        }
        self.rows.append(ViewRow(**{**columns, **changes}))

    def return_to(self, time: float, process: str, reason: str = "all") -> None:
        """The process left the group and joins it again, in the same life."""
        self.membership(time, process, "LEAVE", "market")
        self.views.pop(process)
        self.stretches[process] = self.stretches.get(process, 0) + 1
        self.membership(time + 1, process, "JOIN", "market", reason)

    def begin(self, time: float, process: str, reason: str = "all") -> None:
        self.membership(time, process, "START")
        self.membership(time, process, "JOIN", "market", reason)

    def membership(
        self, time: float, process: str, kind: str, group: str = "", reason: str | None = None, **changes: Any
    ) -> None:
        columns = {**self._columns(time, process, kind, group), "reason": reason, **changes}
        self.rows.append(MembershipRow(**columns))

    def fault(
        self,
        time: float,
        fault: str,
        edge: Literal["begin", "end"],
        *members: str,
        sides: list[list[str]] | None = None,
    ) -> None:
        columns = self._columns(time, "", "FAULT", group="")
        self.rows.append(FaultRow(**columns, fault=fault, edge=edge, members=list(members), sides=sides or []))

    def gauge(self, time: float, process: str, value: int, cap: int | None) -> None:
        self.rows.append(GaugeRow(**self._columns(time, process, "GAUGE"), name="window_bytes", value=value, cap=cap))

    def repair(self, time: float, process: str, kind: str, source: str, first: int, last: int, **changes: Any) -> None:
        whose = {"source": source, "source_incarnation": LIVES[source], "first": first, "last": last}
        self.rows.append(RepairRow(**{**self._columns(time, process, kind), **whose, **changes}))

    def release(self, time: float, process: str, last: int) -> None:
        self.repair(time, process, "GC", process, 1, last)

    def violations(self) -> list[Violation]:
        """What the monitors say, after making sure that the oracles agree; not of the trace itself (W).

        These traces are short: nobody starts, joins and counts in them but where that matters.
        """
        found, agreed = (
            [violation for violation in some if violation.property[0] != "W"]
            for some in (monitor_violations(self.rows), oracle_violations(self.rows))
        )
        assert sorted(violation.place() for violation in found) == sorted(violation.place() for violation in agreed)
        return found


def of(trace: Trace, property_id: str) -> list[Violation]:
    return [violation for violation in trace.violations() if violation.property == property_id]


def of_order(trace: Trace) -> list[Violation]:
    """What is wrong with the order, whatever else is wrong with the views."""
    return [violation for violation in trace.violations() if violation.property.startswith("O")]


def bob(property_id: str, position: int, message: str | None, text: str) -> Violation:
    return Violation(property_id, "market", "bob", 0x2A, position, message, text)


def pair() -> Trace:
    """Alice sends to bob, who has her in his view from her first message on."""
    trace = Trace()
    trace.view(0, "alice", "a", alice=1)
    trace.view(0, "bob", "b", alice=1)
    return trace


def test_d1_a_message_is_delivered_as_it_was_sent() -> None:
    trace = pair()
    trace.send(1, "alice", 1, body=77)
    trace.deliver(2, "bob", "alice", 1, body=78)
    assert trace.violations() == [
        bob("D1", 1, "alice~1f/1", "alice~1f/1 was not delivered as it was sent: body 77 became 78.")
    ]


def test_d1_a_message_is_not_delivered_before_it_is_sent() -> None:
    trace = pair()
    trace.deliver(1, "bob", "alice", 1)
    trace.send(2, "alice", 1)
    text = "alice~1f/1 was not delivered as it was sent: sent at 2000000000, delivered at 1000000000."
    assert trace.violations() == [bob("D1", 1, "alice~1f/1", text)]


def test_d1_on_one_host_a_message_is_not_delivered_before_it_is_sent() -> None:
    for host, wrong in (("here", True), ("elsewhere", False)):
        trace = pair()
        trace.deliver(1, "bob", "alice", 1, truth=None, at=1_000, host="here")
        trace.send(2, "alice", 1, truth=None, at=1_001, host=host)
        text = "alice~1f/1 was not delivered as it was sent: sent at 1001, delivered at 1000."
        assert trace.violations() == ([bob("D1", 1, "alice~1f/1", text)] if wrong else [])


def test_d1_a_message_is_delivered_as_of_him_for_whom_it_was_sent() -> None:
    trace = pair()
    trace.send(1, "alice", 1, origin="carol~3c")
    trace.deliver(2, "bob", "alice", 1)
    text = "alice~1f/1 was not delivered as it was sent: origin carol~3c became None."
    assert trace.violations() == [bob("D1", 1, "alice~1f/1", text)]


def test_d1_without_global_times_a_delivery_may_be_seen_before_its_send() -> None:
    trace = pair()
    trace.deliver(1, "bob", "alice", 1, truth=None)
    trace.send(2, "alice", 1)
    assert trace.violations() == []


def test_d1_the_first_send_of_a_number_is_the_one_that_counts() -> None:
    trace = pair()
    trace.send(1, "alice", 1, body=77)
    trace.send(1, "alice", 1, body=78)
    trace.deliver(2, "bob", "alice", 1, body=78)
    assert [violation.property for violation in trace.violations()] == ["D1", "O3"]


def test_d1_an_unordered_receiver_too_hears_only_what_was_sent() -> None:
    trace = Trace()
    trace.service = "UU"
    trace.deliver(1, "bob", "alice", 1)
    assert trace.violations() == [bob("D1", 0, "alice~1f/1", "alice~1f/1 was delivered, but never sent.")]


def test_d2_a_message_is_delivered_once() -> None:
    trace = pair()
    trace.send(1, "alice", 1)
    trace.deliver(2, "bob", "alice", 1)
    trace.deliver(3, "bob", "alice", 1)
    assert trace.violations() == [
        bob("D2", 2, "alice~1f/1", "alice~1f/1 was delivered before."),
        bob("O1", 2, "alice~1f/1", "alice~1f/1 was delivered after number 1."),
        bob("O2", 2, "alice~1f/1", "alice~1f/1 was delivered where number 2 was due."),
    ]


def test_d2_o1_o2_m3_are_not_promised_to_unordered_receivers() -> None:
    trace = Trace()
    trace.service = "UU"
    for number in (1, 2, 3):
        trace.send(number, "alice", number)
    for number in (3, 1, 1):
        trace.deliver(4, "bob", "alice", number)
    assert trace.violations() == []


def test_a_row_without_a_service_is_held_to_everything() -> None:
    trace = pair()
    trace.send(1, "alice", 1, agreed="b")
    trace.send(1, "alice", 2, agreed="b")
    trace.deliver(2, "bob", "alice", 2, service=None)
    assert trace.violations() == [bob("O2", 1, "alice~1f/2", "alice~1f/2 was delivered where number 1 was due.")]


def test_m3_a_message_is_sent_in_the_installed_view() -> None:
    trace = pair()
    trace.send(1, "alice", 1, view=None)
    trace.send(2, "alice", 2, view="b")
    assert trace.violations() == [
        Violation(
            "M3",
            "market",
            "alice",
            0x1F,
            1,
            "alice~1f/1",
            "alice~1f/1 was sent outside any view, but the installed one is a.",
        ),
        Violation(
            "M3", "market", "alice", 0x1F, 2, "alice~1f/2", "alice~1f/2 was sent in view b, but the installed one is a."
        ),
    ]


def test_m3_nothing_happens_before_the_first_view() -> None:
    trace = Trace()
    trace.send(1, "alice", 1, view="a")
    text = "alice~1f/1 was sent in view a, but none was installed."
    assert trace.violations() == [Violation("M3", "market", "alice", 0x1F, 0, "alice~1f/1", text)]


def test_o1_a_source_is_never_heard_backwards_even_in_another_spell() -> None:
    trace = Trace()
    trace.view(0, "alice", "a")
    trace.send(1, "alice", 1)
    trace.send(1, "alice", 2)
    trace.view(2, "bob", "b", alice=2)
    trace.deliver(3, "bob", "alice", 2)
    trace.view(4, "bob", "b2")
    trace.view(5, "bob", "b3", alice=1)
    trace.deliver(6, "bob", "alice", 1)
    assert trace.violations() == [bob("O1", 4, "alice~1f/1", "alice~1f/1 was delivered after number 2.")]


def test_o2_a_spell_skips_nothing() -> None:
    trace = pair()
    for number in (1, 2, 3, 4):
        trace.send(1, "alice", number)
    for number in (1, 3, 4):
        trace.deliver(2, "bob", "alice", number)
    assert trace.violations() == [bob("O2", 2, "alice~1f/3", "alice~1f/3 was delivered where number 2 was due.")]


def test_o2_a_spell_begins_where_its_first_view_says() -> None:
    trace = pair()
    trace.send(1, "alice", 1)
    trace.send(1, "alice", 2)
    trace.deliver(2, "bob", "alice", 2)
    assert trace.violations() == [bob("O2", 1, "alice~1f/2", "alice~1f/2 was delivered where number 1 was due.")]


def test_o2_a_later_view_of_a_spell_goes_on_where_delivery_stands() -> None:
    trace = pair()
    trace.send(1, "alice", 1)
    trace.deliver(2, "bob", "alice", 1)
    trace.view(3, "bob", "b2", alice=1)
    assert trace.violations() == [
        bob("O2", 2, "alice~1f/1", "The view goes on from alice~1f/1 where number 2 was due.")
    ]


def test_o2_nobody_outside_the_view_is_heard() -> None:
    trace = pair()
    trace.send(1, "alice", 1)
    trace.view(2, "bob", "b2")
    trace.deliver(3, "bob", "alice", 1)
    text = "alice~1f/1 was delivered though its source is not in the view."
    assert trace.violations() == [bob("O2", 2, "alice~1f/1", text)]


def test_o2_between_two_spells_messages_may_be_missed() -> None:
    trace = pair()
    for number in (1, 2, 3):
        trace.send(1, "alice", number)
    trace.deliver(2, "bob", "alice", 1)
    trace.view(3, "bob", "b2")
    trace.view(4, "bob", "b3", alice=3)
    trace.deliver(5, "bob", "alice", 3)
    assert trace.violations() == []


def living_pair() -> Trace:
    """As `pair`, with the rows that say who lives; bob wants everybody's messages."""
    trace = Trace()
    for name in ("alice", "bob"):
        trace.begin(0, name)
    trace.view(0, "alice", "a", alice=1)
    trace.view(0, "bob", "b", alice=1)
    return trace


def test_l2_who_lives_gets_what_the_living_sent() -> None:
    trace = living_pair()
    for number in (1, 2, 3):
        trace.send(1, "alice", number)
    for number in (1, 2, 3):
        trace.deliver(2, "alice", "alice", number)
    trace.deliver(2, "bob", "alice", 1)
    trace.membership(10, "alice", "END")
    trace.membership(10, "bob", "END")
    text = "alice~1f/2 was never delivered, nor 1 more of its source."
    assert trace.violations() == [bob("L2", 4, "alice~1f/2", text)]


def test_l2_asks_nothing_of_the_last_two_seconds_the_dead_and_the_departed() -> None:
    late = living_pair()
    late.send(8.1, "alice", 1)
    late.membership(10, "alice", "END")
    late.membership(10, "bob", "END")
    assert late.violations() == []

    dead = living_pair()
    dead.send(1, "alice", 1)
    dead.membership(2, "alice", "CRASH")
    dead.membership(10, "bob", "END")
    assert dead.violations() == []

    departed = living_pair()
    departed.send(1, "alice", 1)
    departed.deliver(2, "alice", "alice", 1)
    departed.membership(2, "bob", "LEAVE", "market")
    departed.membership(10, "alice", "END")
    departed.membership(10, "bob", "END")
    assert departed.violations() == []


def across(*sides: list[str]) -> Trace:
    """Alice sends to bob, and a partition that lasts to the end has these sides."""
    trace = living_pair()
    trace.send(1, "alice", 1)
    trace.deliver(2, "alice", "alice", 1)
    trace.fault(2, "partition", "begin", "bob", sides=list(sides))
    trace.membership(10, "alice", "END")
    trace.membership(10, "bob", "END")
    return trace


OUT_OF_REACH = [across(["alice"], ["carol"]), across(["alice"], ["bob"])]
WITHIN_REACH = [across(["alice", "carol"], ["carol", "bob"]), across(["alice", "bob"], ["carol"])]
"""Somebody hears both, and can repair."""


def test_l2_asks_nothing_across_a_partition_that_lasts() -> None:
    assert [of(trace, "L2") for trace in OUT_OF_REACH] == [[], []]
    assert [len(of(trace, "L2")) for trace in WITHIN_REACH] == [1, 1]
    healed = across(["alice"], ["bob"])
    healed.fault(9, "partition", "end", "bob", sides=[["alice"], ["bob"]])
    assert len(of(healed, "L2")) == 1


def test_l2_asks_for_own_messages_whoever_is_cut_off() -> None:
    trace = living_pair()
    trace.send(1, "alice", 1)
    trace.fault(2, "isolate", "begin", "alice", sides=[["bob"]])
    trace.membership(10, "alice", "END")
    trace.membership(10, "bob", "END")
    assert [violation.process for violation in of(trace, "L2")] == ["alice"]


def test_l2_what_was_sent_exactly_two_seconds_before_the_end_is_due() -> None:
    trace = living_pair()
    trace.send(8, "alice", 1)
    trace.deliver(8, "alice", "alice", 1)
    trace.membership(10, "alice", "END")
    trace.membership(10, "bob", "END")
    text = "alice~1f/1 was never delivered, nor 0 more of its source."
    assert trace.violations() == [bob("L2", 3, "alice~1f/1", text)]


def test_l2_finds_the_first_missing_message_whatever_the_order_of_sending() -> None:
    trace = living_pair()
    for number in (2, 1, 4, 3):
        trace.send(1, "alice", number)
    for number in (1, 2, 3, 4):
        trace.deliver(2, "alice", "alice", number)
    for number in (1, 2):
        trace.deliver(2, "bob", "alice", number)
    trace.membership(10, "alice", "END")
    trace.membership(10, "bob", "END")
    text = "alice~1f/3 was never delivered, nor 1 more of its source."
    assert of(trace, "L2") == [bob("L2", 5, "alice~1f/3", text)]


def test_l2_does_not_judge_by_clocks_that_cannot_be_compared() -> None:
    def real_run(host: str) -> Trace:
        trace = living_pair()
        trace.send(1, "alice", 1)
        trace.deliver(1, "alice", "alice", 1)
        trace.membership(0, "alice", "END", truth=None, host="here", at=10_000_000_000)
        trace.membership(0, "bob", "END", truth=None, host=host, at=10_000_000_000)
        return trace

    assert [violation.property for violation in real_run("here").violations()] == ["L2"]
    assert real_run("there").violations() == []


def returning() -> Trace:
    """Bob has the first of alice's messages, leaves and joins again; she sends three more meanwhile."""
    trace = living_pair()
    trace.send(1, "alice", 1)
    trace.deliver(1, "alice", "alice", 1)
    trace.deliver(1, "bob", "alice", 1)
    trace.return_to(2, "bob")
    for number in (2, 3, 4):
        trace.send(2.5, "alice", number)
        trace.deliver(2.5, "alice", "alice", number)
    trace.release(2.6, "alice", 40)
    return trace


def ended(trace: Trace) -> Trace:
    trace.membership(10, "alice", "END")
    trace.membership(10, "bob", "END")
    return trace


def test_o2_and_l2_a_return_to_the_group_is_no_gap() -> None:
    trace = returning()
    trace.view(3, "bob", "b2")
    trace.view(4, "bob", "b3", alice=4)
    trace.deliver(5, "bob", "alice", 4)
    assert ended(trace).violations() == []


def test_o2_and_l2_a_spell_does_not_reach_across_an_absence() -> None:
    """Also when the first view after it has the same source as the last one before."""
    trace = returning()
    trace.view(3, "bob", "b2", alice=4)
    trace.deliver(5, "bob", "alice", 4)
    assert ended(trace).violations() == []


def test_o2_and_l2_own_messages_that_were_not_delivered_before_leaving_are_skipped() -> None:
    trace = living_pair()
    for number in (1, 2, 3):
        trace.send(1, "alice", number)
        trace.deliver(1, "bob", "alice", number)
    trace.deliver(1, "alice", "alice", 1)
    trace.return_to(2, "alice")
    trace.view(3, "alice", "a2", alice=4)
    trace.send(4, "alice", 4)
    trace.deliver(4, "alice", "alice", 4)
    trace.deliver(4, "bob", "alice", 4)
    assert ended(trace).violations() == []


def test_l2_a_message_missed_after_a_return_is_missed() -> None:
    trace = returning()
    trace.view(3, "bob", "b2")
    trace.view(4, "bob", "b3", alice=3)
    trace.deliver(5, "bob", "alice", 3)
    text = "alice~1f/4 was never delivered, nor 0 more of its source."
    assert ended(trace).violations() == [bob("L2", 9, "alice~1f/4", text)]


def test_o2_a_message_skipped_after_a_return_is_a_gap() -> None:
    trace = returning()
    trace.view(3, "bob", "b2", alice=2)
    trace.deliver(5, "bob", "alice", 2)
    trace.deliver(5, "bob", "alice", 4)
    assert trace.violations() == [bob("O2", 8, "alice~1f/4", "alice~1f/4 was delivered where number 3 was due.")]


def test_l2_who_returned_and_wants_a_living_source_has_it_in_the_last_view() -> None:
    trace = returning()
    trace.view(3, "bob", "b2")
    trace.fault(4, "heal", "begin")
    text = "alice~1f lives and sends, but is not in the last view."
    assert ended(trace).violations() == [bob("L2", 7, None, text)]


def test_l2_asks_nothing_of_who_returned_and_left_for_good() -> None:
    trace = returning()
    trace.view(3, "bob", "b2", alice=2)
    trace.membership(4, "bob", "LEAVE", "market")
    trace.fault(5, "heal", "begin")
    assert ended(trace).violations() == []


def test_o2_nothing_is_delivered_between_a_return_and_its_first_view() -> None:
    trace = returning()
    trace.deliver(4, "bob", "alice", 2, view="b")
    text = "alice~1f/2 was delivered though its source is not in the view."
    assert trace.violations() == [bob("O2", 6, "alice~1f/2", text)]


def test_d2_and_o1_hold_across_an_absence() -> None:
    trace = returning()
    trace.view(3, "bob", "b2", alice=1)
    trace.deliver(4, "bob", "alice", 1)
    assert trace.violations() == [
        bob("D2", 7, "alice~1f/1", "alice~1f/1 was delivered before."),
        bob("O1", 7, "alice~1f/1", "alice~1f/1 was delivered after number 1."),
    ]


def outsider(reason: str = "all", healed: bool = True, *cut_off: str) -> Trace:
    """Carol lives and sends, but bob's last view is without her."""
    trace = Trace()
    trace.begin(0, "carol", "once")
    trace.begin(0, "bob", reason)
    trace.view(0, "carol", "c")
    trace.view(0, "bob", "b")
    trace.send(1, "carol", 1)
    trace.release(1.5, "carol", 10)
    if cut_off:
        trace.fault(2, "partition", "begin", *cut_off)
    if healed:
        trace.fault(3, "heal", "begin")
    trace.membership(10, "carol", "END")
    trace.membership(10, "bob", "END")
    return trace


def test_l2_who_wants_a_living_source_has_it_in_the_last_view() -> None:
    text = "carol~3c lives and sends, but is not in the last view."
    assert outsider("all").violations() == [bob("L2", 3, None, text)]
    assert outsider("alice, carol").violations() == [bob("L2", 3, None, text)]


def test_l2_does_not_miss_who_joined_last_as_a_receiver() -> None:
    for role, found in (("sender", ["L2"]), ("receiver", [])):
        trace = outsider()
        joined = next(index for index, row in enumerate(trace.rows) if (row.kind, row.process) == ("JOIN", "carol"))
        trace.rows[joined] = replace(trace.rows[joined], role=role)
        assert [violation.property for violation in trace.violations()] == found


def test_l2_does_not_miss_a_source_that_is_not_wanted_or_cannot_be_reached() -> None:
    assert outsider("once").violations() == []
    assert outsider("alice").violations() == []
    assert outsider("all", False).violations() == []
    assert outsider("all", True, "carol").violations() == []
    assert outsider("all", True, "bob").violations() == []


def test_l2_gives_two_seconds_to_whoever_joins_late() -> None:
    def joining(carol: float, send: float, bob: float) -> Trace:
        trace = Trace()
        trace.begin(carol, "carol", "once")
        trace.begin(bob, "bob")
        trace.view(0, "carol", "c")
        trace.send(send, "carol", 1)
        trace.release(9, "carol", 10)
        trace.fault(0, "heal", "begin")
        trace.membership(10, "carol", "END")
        trace.membership(10, "bob", "END")
        return trace

    assert [violation.property for violation in joining(8, 8, 8).violations()] == ["L2"]
    assert joining(8.1, 8, 8).violations() == []
    assert joining(8, 8.1, 8).violations() == []
    assert joining(8, 8, 8.1).violations() == []


def loaded(*quiet: tuple[float, float]) -> Trace:
    """Three processes under load from second 0 to 60; a view every second, but not in the quiet times."""
    trace = Trace()
    for name in ("alice", "bob", "carol"):
        trace.begin(0, name)
    trace.fault(0, "load", "begin")
    for second in range(1, 60):
        if not any(begin < second < end for begin, end in quiet):
            trace.view(second, "bob", f"b{second}")
    trace.fault(60, "load", "end")
    return trace


def standstill(text: str) -> Violation:
    return Violation("L6", "", "", 0, 0, None, f"Under load nothing was delivered or installed for {text} on.")


def test_l6_under_load_something_happens_every_ten_seconds() -> None:
    assert loaded((20, 30)).violations() == []
    assert loaded((20, 31)).violations() == [standstill("11.000 s from 20000000000")]
    assert loaded((0, 12), (40, 60)).violations() == [
        standstill("12.000 s from 0"),
        standstill("20.000 s from 40000000000"),
    ]


def inserted(trace: Trace, *extra: tuple[float, str, Literal["begin", "end"], tuple[str, ...]]) -> Trace:
    for time, fault, edge, members in extra:
        trace.fault(time, fault, edge, *members)
    trace.rows.sort(key=lambda row: row.truth or 0)
    return trace


def test_l6_waits_while_half_of_the_names_are_away() -> None:
    away = ("alice", "carol")
    trace = inserted(loaded((20, 40)), (21, "partition", "begin", away), (39, "partition", "end", away))
    assert trace.violations() == []
    trace = inserted(loaded((20, 40)), (21, "partition", "begin", away), (28, "partition", "end", away))
    assert trace.violations() == [standstill("12.000 s from 28000000000")]


def test_l6_does_not_count_one_away_of_three_or_a_fault_that_takes_nobody() -> None:
    expected = [standstill("20.000 s from 20000000000")]
    assert inserted(loaded((20, 40)), (21, "partition", "begin", ("alice",))).violations() == expected
    assert inserted(loaded((20, 40)), (21, "loss", "begin", ())).violations() == expected
    assert inserted(loaded((20, 40)), (21, "heal", "begin", ("alice", "carol"))).violations() == expected


def test_l6_counts_the_crashed_and_the_departed_as_away() -> None:
    trace = loaded((20, 40))
    trace.membership(21, "alice", "CRASH")
    trace.membership(22, "carol", "LEAVE", "market")
    trace.rows.sort(key=lambda row: row.truth or 0)
    assert trace.violations() == []


def test_l6_who_is_still_in_some_group_or_joins_again_is_there() -> None:
    expected = [standstill("20.000 s from 20000000000")]
    elsewhere = loaded((20, 40))
    elsewhere.membership(1, "alice", "JOIN", "yard")
    elsewhere.membership(2, "alice", "LEAVE", "market")
    elsewhere.membership(2, "carol", "LEAVE", "market")
    elsewhere.rows.sort(key=lambda row: row.truth or 0)
    assert elsewhere.violations() == expected

    again = loaded((20, 40))
    for name in ("alice", "carol"):
        again.membership(2, name, "LEAVE", "market")
        again.membership(3, name, "JOIN", "market")
    again.rows.sort(key=lambda row: row.truth or 0)
    assert again.violations() == expected


def test_l6_a_process_that_hears_only_itself_makes_no_progress() -> None:
    trace = loaded((20, 40))
    trace.service = "UU"
    trace.send(25, "bob", 1)
    for second in range(25, 40):
        trace.deliver(second, "bob", "bob", 1)
    assert trace.violations() == [standstill("20.000 s from 20000000000")]
    trace.deliver(30, "alice", "bob", 1)
    assert trace.violations() == []


def test_l7_a_buffer_stays_within_its_cap() -> None:
    trace = Trace()
    trace.gauge(1, "bob", 100, 100)
    trace.gauge(2, "bob", 101, 100)
    trace.gauge(3, "bob", 5000, None)
    assert trace.violations() == [bob("L7", 1, None, "window_bytes reached 101, above its cap of 100.")]


def timed() -> Trace:
    """Alice and bob send under reliable timestamp order; carol has both in her view from their first message on."""
    trace = Trace()
    trace.service = "RTO"
    trace.view(0, "alice", "v", alice=1, bob=1)
    trace.view(0, "bob", "v", alice=1, bob=1)
    trace.view(0, "carol", "v", alice=1, bob=1)
    for number, timestamp in ((1, 10), (2, 20), (3, 30)):
        trace.send(1, "alice", number, timestamp=timestamp)
        trace.send(1, "bob", number, timestamp=timestamp)
    return trace


def carol(property_id: str, position: int, message: str | None, text: str) -> Violation:
    return Violation(property_id, "market", "carol", 0x3C, position, message, text)


def heard(trace: Trace, *messages: tuple[str, int], time: float = 2, process: str = "carol", **changes: Any) -> Trace:
    for source, number in messages:
        trace.deliver(time, process, source, number, **{"timestamp": 10 * number, **changes})
    return trace


ALL = (("alice", 1), ("bob", 1), ("alice", 2), ("bob", 2), ("alice", 3), ("bob", 3))


def test_timestamp_order_as_it_should_be() -> None:
    assert heard(timed(), *ALL).violations() == []
    assert heard(timed(), *ALL[:3]).violations() == []


def test_o3_a_timestamp_is_above_all_that_its_sender_knew() -> None:
    trace = heard(timed(), *ALL)
    trace.send(3, "carol", 1, timestamp=30)
    text = "carol~3c/1 was sent with timestamp 30, but 30 was known."
    assert trace.violations() == [carol("O3", 7, "carol~3c/1", text)]


def test_o3_knows_what_was_delivered_in_another_group() -> None:
    trace = pair()
    trace.send(1, "alice", 1, timestamp=50)
    trace.deliver(2, "bob", "alice", 1, timestamp=50)
    trace.send(3, "bob", 1, timestamp=50, group="yard", service="UU")
    assert [violation.property for violation in trace.violations()] == ["O3"]


def test_o3_does_not_ask_for_what_a_clock_could_not_follow() -> None:
    trace = heard(timed(), *ALL[:2])
    trace.rows.append(GaugeRow(**trace._columns(2, "carol", "MARK"), name="clock-held", value=1))
    heard(trace, *ALL[2:])
    trace.send(3, "carol", 1, timestamp=15)
    assert trace.violations() == []
    trace.send(3, "carol", 2, timestamp=15)
    assert [violation.property for violation in trace.violations()] == ["O3", "O8"]


def test_o3_o6_of_equal_timestamps_the_lower_name_comes_first() -> None:
    trace = heard(timed(), ALL[1], ALL[0])
    text = "alice~1f/1 with timestamp 10 was delivered after bob with 10."
    assert trace.violations() == [carol("O3", 2, "alice~1f/1", text), carol("O6", 2, "alice~1f/1", text)]


def test_o4_o7_nothing_below_is_left_out() -> None:
    trace = heard(timed(), ALL[0], ALL[2])
    text = "bob~2a/1 was not delivered, but one of alice with timestamp 20 was."
    assert trace.violations() == [carol("O4", 0, "bob~2a/1", text), carol("O7", 0, "bob~2a/1", text)]


def test_o4_o7_of_a_source_that_is_gone_what_comes_after_the_cut_is_not_asked_for() -> None:
    trace = heard(timed(), *ALL[:2], ALL[2], ALL[4])
    trace.view(3, "carol", "w", alice=4)
    assert of_order(trace) == []
    trace.view(4, "carol", "x", alice=4, bob=4)
    assert of_order(trace) == []


def test_o4_alone_sees_what_two_views_leave_out_between_them() -> None:
    trace = heard(timed(), *ALL[:2])
    trace.view(2, "carol", "w", alice=2, bob=3)
    heard(trace, ALL[2], ALL[4])
    text = "bob~2a/2 was not delivered, but one of alice with timestamp 30 was."
    assert of_order(trace) == [
        carol("O2", 3, "bob~2a/3", "The view goes on from bob~2a/3 where number 2 was due."),
        carol("O4", 0, "bob~2a/2", text),
    ]


def test_o7_who_comes_in_the_middle_begins_where_its_view_says() -> None:
    trace = timed()
    trace.stretches["carol"] = 2
    trace.view(1.5, "carol", "w", alice=2, bob=3)
    heard(trace, ALL[2], ALL[4])
    assert of_order(trace) == []


def in_two_groups(*across: str | None) -> Trace:
    """Carol delivers 10 in the market, 30 in the yard, then 20 in the market."""
    trace = timed()
    trace.rows.clear()
    for group, domain in zip(("market", "yard"), across, strict=True):
        trace.membership(0, "carol", "JOIN", group, "all", across=domain)
        trace.rows.append(
            ViewRow(
                **{**trace._columns(0, "carol", "VIEW", group), "view": "v"},
                start_time=0,
                leader="carol",
                leader_incarnation=LIVES["carol"],
                leader_sequence=0,
                previous=None,
                role="receiver",
                start=[Start("alice", LIVES["alice"], 1, 1)],
            )
        )
    trace.send(1, "alice", 1, timestamp=10, view=None, service="UU")
    trace.send(1, "alice", 2, timestamp=20, view=None, service="UU")
    trace.send(1, "alice", 1, timestamp=30, group="yard", view=None, service="UU")
    heard(trace, ("alice", 1), view="v")
    heard(trace, ("alice", 1), view="v", group="yard", timestamp=30)
    heard(trace, ("alice", 2), view="v")
    return trace


def test_o6_holds_over_all_groups_of_a_domain() -> None:
    assert of_order(in_two_groups(None, None)) == []
    assert of_order(in_two_groups("one", "two")) == []
    assert of_order(in_two_groups("one", None)) == []
    text = "alice~1f/2 with timestamp 20 was delivered after alice with 30."
    assert of_order(in_two_groups("one", "one")) == [carol("O6", 6, "alice~1f/2", text)]


def test_o6_begins_anew_with_a_stretch_of_any_of_its_groups() -> None:
    trace = in_two_groups("one", "one")
    last = trace.rows.pop()
    trace.stretches["carol"] = 1
    trace.view(2, "carol", "w", alice=2)
    assert isinstance(last, DeliverRow)
    heard(trace, ("alice", 2))
    assert of_order(trace) == []


def test_o8_a_timestamp_is_the_same_everywhere() -> None:
    trace = heard(timed(), *ALL[:3])
    heard(trace, ALL[3], timestamp=25)
    found = [violation.property for violation in trace.violations()]
    assert found == ["D1", "O8"]
    assert of(trace, "O8")[0].text == "bob~2a/2 was sent with timestamp 20 and delivered with 25."


def test_o8_timestamps_grow_with_numbers_and_no_delivery_is_below_the_horizon() -> None:
    trace = timed()
    trace.send(2, "alice", 4, timestamp=30)
    assert [violation.property for violation in trace.violations()] == ["O3", "O8"]
    trace = timed()
    trace.service = "UTO"
    heard(trace, ALL[5], ALL[2], service="UTO")
    text = "alice~1f/2 with timestamp 20 was delivered below the horizon of 30."
    assert carol("O8", 2, "alice~1f/2", text) in trace.violations()


def test_d2_o1_a_message_may_come_again_after_a_change_to_or_from_an_unreliable_service() -> None:
    trace = pair()
    trace.send(1, "alice", 1)
    trace.send(1, "alice", 2)
    trace.deliver(2, "bob", "alice", 1)
    trace.deliver(3, "bob", "alice", 2, service="USO", stretch=1)
    trace.deliver(4, "bob", "alice", 1, service="ALF", stretch=2)
    trace.deliver(4, "bob", "alice", 2, service="USO", stretch=3)
    assert trace.violations() == []
    trace.deliver(5, "bob", "alice", 1, service="USO", stretch=3)
    trace.deliver(6, "bob", "alice", 2, service="USO", stretch=3)
    assert [violation.property for violation in trace.violations()] == ["D2", "O1"]


def test_o2_a_spell_goes_on_from_one_reliable_service_to_another() -> None:
    def changed(stretch: int, start: int, *along: str) -> list[Violation]:
        trace = pair()
        trace.send(1, "alice", 1)
        trace.send(1, "alice", 2)
        trace.deliver(2, "bob", "alice", 1)
        trace.service, trace.stretches["bob"] = "RTO", stretch
        transitional = [Member(name, LIVES[name]) for name in along]
        trace.agree(3, "bob", "b2", {"alice": start}, transitional=transitional)
        trace.deliver(4, "bob", "alice", start)
        return of(trace, "O2")

    assert changed(1, 2, "alice") == []
    text = "The view goes on from alice~1f/3 where number 2 was due."
    assert bob("O2", 2, "alice~1f/3", text) in changed(1, 3, "alice")
    assert bob("O2", 2, "alice~1f/3", text) not in changed(2, 3, "alice")
    assert changed(1, 3) == []


def granted() -> Trace:
    """Alice counts bob from sequence 10 on, and has released up to 20."""
    trace = pair()
    peer: dict[str, Any] = {"peer": "bob", "peer_incarnation": LIVES["bob"]}
    trace.membership(1, "alice", "GRANT", "market", sequence=10, **peer)
    trace.release(2, "alice", 20)
    return trace


def asking(trace: Trace, time: float, first: int, last: int, **changes: Any) -> list[Violation]:
    trace.repair(time, "bob", "RTR", "alice", first, last, **changes)
    return trace.violations()


def test_d8_nobody_who_counts_asks_for_what_was_released() -> None:
    text = "It asks for 15 to 25, but all up to 20 was released."
    assert asking(granted(), 3, 15, 25) == [bob("D8", 1, None, text)]
    assert asking(granted(), 3, 21, 25) == []


def test_d8_a_request_from_before_the_release_or_the_activation_point_is_no_violation() -> None:
    assert asking(granted(), 2, 15, 25) == []
    assert asking(granted(), 3, 1, 9) == []
    assert asking(granted(), 0.5, 15, 25) == []


def test_d8_who_was_left_behind_or_follows_no_more_may_ask() -> None:
    peer: dict[str, Any] = {"peer": "bob", "peer_incarnation": LIVES["bob"]}
    suspected = granted()
    suspected.membership(2.5, "alice", "SUSPECT", "market", **peer)
    assert asking(suspected, 3, 15, 25) == []
    suspected.membership(3, "alice", "GRANT", "market", sequence=30, **peer)
    assert asking(suspected, 4, 15, 25) == []
    returned = granted()
    returned.membership(2.5, "alice", "LEAVE", "market")
    assert asking(returned, 3, 15, 25) == []
    elsewhere = granted()
    elsewhere.view(2.5, "bob", "b2")
    assert asking(elsewhere, 3, 15, 25) == []
    assert asking(granted(), 3, 15, 25, service="USO") == []


def test_d8_does_not_judge_by_clocks_that_cannot_be_compared() -> None:
    assert asking(granted(), 3, 15, 25, truth=None, at=3_000_000_000, host="there") == []


def stable(released: int | None = None, healed: float | None = 1) -> Trace:
    """Alice counts bob, who has the two messages that she sent."""
    trace = living_pair()
    trace.membership(0.5, "alice", "GRANT", "market", sequence=1, peer="bob", peer_incarnation=LIVES["bob"])
    for number in (1, 2):
        trace.send(1, "alice", number)
        trace.deliver(1, "alice", "alice", number)
        trace.deliver(1, "bob", "alice", number)
    if released is not None:
        trace.release(2, "alice", released)
    if healed is not None:
        trace.fault(healed, "heal", "begin")
    return trace


def alice(property_id: str, position: int, message: str, text: str) -> Violation:
    return Violation(property_id, "market", "alice", 0x1F, position, message, text)


def test_l4_what_everybody_has_is_released() -> None:
    text = "alice~1f/2 was not released, nor 0 more that it sent."
    assert ended(stable(10)).violations() == [alice("L4", 9, "alice~1f/2", text)]
    text = "alice~1f/1 was not released, nor 1 more that it sent."
    assert ended(stable()).violations() == [alice("L4", 8, "alice~1f/1", text)]
    assert ended(stable(20)).violations() == []


def test_l4_asks_nothing_without_a_heal_soon_after_it_or_while_a_receiver_is_away() -> None:
    assert ended(stable(10, None)).violations() == []
    assert ended(stable(10, 8.1)).violations() == []
    crashed = stable(10)
    crashed.membership(2, "bob", "CRASH")
    crashed.membership(10, "alice", "END")
    assert crashed.violations() == []
    crashed.membership(9, "alice", "SUSPECT", "market", peer="bob", peer_incarnation=LIVES["bob"])
    assert [violation.property for violation in crashed.violations()] == ["L4"]
    away = stable(10)
    away.fault(2, "partition", "begin", "bob")
    assert ended(away).violations() == []
    elsewhere = stable(10)
    elsewhere.view(3, "bob", "b2")
    assert of(ended(elsewhere), "L4") == []


def test_l4_who_left_long_ago_holds_nothing_back() -> None:
    trace = stable(10)
    trace.membership(2, "bob", "LEAVE", "market")
    trace.membership(11.9, "alice", "END")
    assert trace.violations() == []
    trace.rows.pop()
    trace.membership(12, "alice", "END")
    assert [violation.property for violation in trace.violations()] == ["L4"]


def lossy(requests: int, repairs: int, losses: int = 50, time: float = 6, fault: str = "load") -> list[Violation]:
    """So many requests and repairs for each loss, in a run whose second half begins at second 5."""
    trace = Trace()
    trace.service = "UU"
    trace.send(0, "alice", 1)
    trace.send(10, "alice", 2)
    trace.fault(1, fault, "begin")
    for loss in range(losses):
        for _ in range(requests):
            trace.repair(time, "bob", "RTR", "alice", 10 * loss, 10 * loss + 3)
        for _ in range(repairs):
            trace.repair(time, "alice", "RTX", "alice", 10 * loss, 10 * loss + 3)
    return trace.violations()


def test_l8_a_loss_is_asked_for_and_repaired_about_once() -> None:
    assert lossy(3, 3) == []
    text = "There were 200 requests for 50 ranges in the second half of the run."
    assert lossy(4, 3) == [Violation("L8", "market", "", 0, 0, None, text)]
    text = "There were 200 repairs for 50 ranges in the second half of the run."
    assert lossy(3, 4) == [Violation("L8", "market", "", 0, 0, None, text)]


def test_l8_judges_neither_few_losses_nor_the_first_half_nor_a_run_with_faults() -> None:
    assert lossy(4, 4, losses=49) == []
    assert lossy(4, 4, time=5) == []
    assert lossy(4, 4, fault="loss") == []
