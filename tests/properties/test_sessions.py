"""Traces of sessions: valid ones raise no alarm and hold what the statements speak of; single rules by hand."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random
from typing import Any

import pytest

from unisono.properties.generator import good_session_trace
from unisono.properties.registry import PROPERTIES, monitor_violations, oracle_violations
from unisono.trace.schema import (
    AnyRow,
    DeliverRow,
    FaultRow,
    Member,
    MembershipRow,
    RepairRow,
    SendRow,
    Start,
    ViewRow,
)

SECOND = 1_000_000_000
CLIENTS = ("ada", "ben")


@cache
def sampled(seed: int) -> tuple[AnyRow, ...]:
    return tuple(good_session_trace(Random(seed), events=10 + seed % 30))


def test_valid_sessions_raise_no_alarm() -> None:
    alarms = {seed: found for seed in range(400) if (found := monitor_violations(sampled(seed)))}
    alarms |= {seed: found for seed in range(120) if (found := oracle_violations(list(sampled(seed))))}
    assert not alarms


def test_equal_seeds_give_equal_sessions() -> None:
    assert good_session_trace(Random(3)) == good_session_trace(Random(3))
    assert good_session_trace(Random(3)) != good_session_trace(Random(4))


def test_positions_of_sessions_are_dense_and_times_in_order() -> None:
    for seed in range(50):
        counts: Counter[tuple[str, int]] = Counter()
        for row in sampled(seed):
            assert row.position == counts[row.process, row.incarnation]
            counts[row.process, row.incarnation] += 1
        truths = [row.truth for row in sampled(seed) if row.truth is not None]
        assert truths == sorted(truths)
        assert len(truths) == len(sampled(seed))


def test_valid_sessions_hold_what_the_properties_speak_of() -> None:
    seen: Counter[str] = Counter()
    for seed in range(200):
        rows = sampled(seed)
        seen.update(f"{row.kind} {row.service}" for row in rows)
        hopes = {
            (row.process, row.incarnation, row.number): row
            for row in rows
            if isinstance(row, SendRow) and row.service == "VS" and row.agreed != row.view
        }
        seen["optimistic"] += len(hopes)
        heard = {(row.source, row.source_incarnation, row.number) for row in rows if isinstance(row, DeliverRow)}
        seen["optimistic and delivered"] += len(heard & set(hopes))
        for view in [row for row in rows if isinstance(row, ViewRow)]:
            along = view.transitional or []
            seen["first view"] += view.previous is None
            seen["alone from elsewhere"] += 0 < len(along) < len(view.start)
            installed = {row.process for row in rows if isinstance(row, ViewRow) and row.view == view.view}
            seen["skipped by somebody"] += len(installed) < len(view.start)
        seen["gaps between views"] += gaps_in_spells(rows)
        seen["server away"] += any(isinstance(row, FaultRow) and "server:0" in row.members for row in rows)
        seen["fragments"] += any(isinstance(row, SendRow) and row.sequence > row.number for row in rows)
    kinds = (
        "START_CHANGE",
        "BLOCK",
        "BLOCK_OK",
        "NEW_VIEW",
        "SYNCHRONIZED",
        "RETURNED",
        "CUT",
        "EXCLUDED",
        "GC",
        "RTR",
    )
    assert min(seen[f"{kind} VS"] for kind in (*kinds, "JOIN", "LEAVE", "VIEW", "SEND", "DELIVER")) > 20
    assert min(seen[f"{kind} VS-weak"] for kind in ("JOIN", "LEAVE", "VIEW", "SEND", "DELIVER")) > 10
    words = ("optimistic", "optimistic and delivered", "first view", "alone from elsewhere", "skipped by somebody")
    assert min(seen[word] for word in (*words, "gaps between views", "server away", "fragments")) > 10


def gaps_in_spells(rows: tuple[AnyRow, ...]) -> int:
    """How often a weak session leaves out numbers of a source that was in its views all the time."""
    heard: dict[tuple[Member, Member], int] = {}
    gaps = 0
    for row in [row for row in rows if row.service == "VS-weak"]:
        me = Member(row.process, row.incarnation)
        if isinstance(row, ViewRow) or row.kind == "JOIN":
            start = row.start if isinstance(row, ViewRow) else []
            there = {(me, Member(one.source, one.incarnation)) for one in start}
            heard = {pair: number for pair, number in heard.items() if pair[0] != me or pair in there}
        elif isinstance(row, DeliverRow):
            pair = (me, Member(row.source, row.source_incarnation))
            gaps += row.number > heard.get(pair, row.number) + 1
            heard[pair] = row.number
    return gaps


class Script:
    """Rows written one after the other, a tenth of a second apart."""

    def __init__(self, service: str = "VS") -> None:
        self.service = service
        self.rows: list[AnyRow] = []
        self.truth = 0
        self.views: dict[str, str | None] = {}
        self.positions: Counter[str] = Counter()

    def write(self, family: Any, kind: str, process: str, group: str = "hall", **columns: Any) -> None:
        self.truth += SECOND // 10
        place = {"service": self.service, "view": self.views.get(process), "stretch": 1} if group else {}
        self.rows.append(
            family(
                kind=kind,
                group=group,
                process=process,
                incarnation=1 if process else 0,
                position=self.positions[process],
                truth=self.truth,
                at=self.truth,
                host=process,
                **place | columns,
            )
        )
        self.positions[process] += 1

    def begin(self, *servers: str) -> None:
        for process in (*servers, *CLIENTS):
            self.write(MembershipRow, "START", process, group="")
        for process in CLIENTS:
            self.write(MembershipRow, "JOIN", process)
        self.change(1)

    def change(self, number: int, members: tuple[str, ...] = CLIENTS) -> None:
        for process in members:
            expected = [Member(one, 1) for one in members]
            self.write(MembershipRow, "START_CHANGE", process, number=number, members=expected)
        for process in members:
            previous, self.views[process] = self.views.get(process), f"view {number}"
            self.write(
                ViewRow,
                "VIEW",
                process,
                start_time=number,
                leader="server:0",
                leader_incarnation=1,
                leader_sequence=0,
                previous=previous,
                role="sender",
                start=[Start(one, 1, 1, 0) for one in members],
                transitional=[Member(one, 1) for one in (members if previous else (process,))],
                change=number,
            )

    def send(self, process: str, number: int, agreed: str | None = None, sequence: int | None = None) -> None:
        content: dict[str, Any] = {
            "sequence": sequence or number,
            "number": number,
            "timestamp": number,
            "size": 1,
            "body": number,
        }
        self.write(SendRow, "SEND", process, agreed=agreed or self.views[process], **content)

    def deliver(self, process: str, source: str, number: int) -> None:
        content: dict[str, Any] = {"sequence": number, "number": number, "timestamp": number, "size": 1, "body": number}
        self.write(DeliverRow, "DELIVER", process, source=source, source_incarnation=1, index=0, **content)

    def fault(self, fault: str, edge: str, *members: str) -> None:
        self.write(FaultRow, "FAULT", "", group="", fault=fault, edge=edge, members=list(members))

    def end(self, *processes: str) -> None:
        self.truth += 12 * SECOND
        for process in processes:
            self.write(MembershipRow, "END", process, group="")

    def broken(self) -> set[str]:
        """The properties that are broken, as both forms say; not of the trace itself (W), which is written for one."""
        found, expected = (
            {violation.place() for violation in some if violation.property[0] != "W"}
            for some in (monitor_violations(self.rows), oracle_violations(self.rows))
        )
        assert found == expected
        return {str(place[0]) for place in found}


def test_a_ghost_in_the_last_view_is_excused_only_where_no_server_is_left() -> None:
    def played(*away: str) -> set[str]:
        script = Script()
        script.begin("server:0", "server:1")
        script.fault("heal", "end")
        if away:
            script.fault("partition", "begin", *away)
        script.write(MembershipRow, "CRASH", "ben", group="")
        script.end("ada", "server:0", "server:1")
        return script.broken()

    assert played() == {"L1"}
    assert played("server:1") == {"L1"}
    assert played("server:0", "server:1") == set()


def test_a_standstill_is_excused_while_no_server_is_there() -> None:
    def played(*crashed: str) -> set[str]:
        script = Script()
        script.begin("server:0", "server:1")
        script.fault("load", "begin")
        for process in crashed:
            script.write(MembershipRow, "CRASH", process, group="")
        script.truth += 15 * SECOND
        script.fault("load", "end")
        return script.broken()

    assert played() == {"L6"}
    assert played("server:0") == {"L6"}
    assert played("server:0", "server:1") == set()


def test_servers_do_not_count_as_members_that_are_present() -> None:
    script = Script()
    script.begin(*(f"server:{number}" for number in range(5)))
    script.fault("load", "begin")
    script.write(MembershipRow, "CRASH", "ben", group="")
    script.truth += 15 * SECOND
    script.fault("load", "end")
    assert script.broken() == set()


def test_losses_of_different_views_are_different_losses() -> None:
    """The first message of sixty views is asked for four times each: sixty losses, or only one where views share it."""

    def played(service: str) -> set[str]:
        script = Script(service)
        script.begin()
        script.send("ada", 1)
        for number in range(60):
            script.views["ben"] = f"view of {number}"
            for _ in range(4):
                script.write(RepairRow, "RTR", "ben", source="ada", source_incarnation=1, first=1, last=1)
        return script.broken()

    assert played("VS") == {"L8"}
    assert played("VS-weak") == set()


def test_a_message_that_was_returned_is_no_gap() -> None:
    def played(returned: bool) -> set[str]:
        script = Script()
        script.begin()
        script.write(MembershipRow, "START_CHANGE", "ada", number=2, members=[Member(one, 1) for one in CLIENTS])
        script.send("ada", 1, agreed="view 3")
        if returned:
            script.write(MembershipRow, "RETURNED", "ada", number=1, sequence=1, reason="drop")
        script.change(3)
        script.send("ada", 2)
        script.deliver("ada", "ada", 2)
        return script.broken()

    assert played(returned=True) == set()
    assert played(returned=False) == {"O2"}


def test_what_a_sender_hoped_for_and_never_had_is_in_no_cut() -> None:
    script = Script()
    script.begin()
    expected = [Member(one, 1) for one in CLIENTS]
    script.write(MembershipRow, "START_CHANGE", "ada", number=2, members=expected)
    script.send("ada", 1, agreed="view 2")
    script.write(MembershipRow, "CRASH", "ada", group="")
    script.write(MembershipRow, "START_CHANGE", "ben", number=2, members=expected)
    script.positions["ada"] += 100
    script.change(3, ("ben",))
    assert script.broken() == set()


def test_a_weak_session_may_lack_what_was_sent_in_a_view_that_it_missed() -> None:
    def played(heard: tuple[int, ...]) -> set[str]:
        """Ada sends 1 and 2, alone 3 and 4, and then 5 to 7, after which ben has been in two views of one spell."""
        script = Script("VS-weak")
        script.begin()
        script.send("ada", 1)
        script.send("ada", 2)
        script.deliver("ben", "ada", 1)
        script.change(2, ("ada",))
        script.send("ada", 3)
        script.send("ada", 4)
        script.change(3)
        for number in (5, 6, 7):
            script.send("ada", number)
        for number in heard:
            script.deliver("ben", "ada", number)
        return script.broken()

    assert played((5, 6, 7)) == set()
    assert played((6, 7)) == set()
    assert played((4, 5)) == set()
    assert played((2, 3, 6)) == set()
    assert played((5, 7)) == {"O2"}
    assert played((2, 3, 5, 7)) == {"O2"}


def test_at_the_end_a_weak_session_owes_what_was_sent_in_the_last_view_alone() -> None:
    def played(*unheard: int) -> set[str]:
        script = Script("VS-weak")
        script.begin()
        script.send("ada", 1)
        script.change(2)
        script.send("ada", 2)
        script.send("ada", 3)
        for number in (1, 2, 3):
            script.deliver("ada", "ada", number)
            if number not in unheard:
                script.deliver("ben", "ada", number)
        script.end(*CLIENTS)
        return script.broken()

    assert played() == set()
    assert played(1) == set()
    assert played(3) == {"L2"}
    assert played(1, 2, 3) == {"L2"}


@pytest.mark.parametrize("property_id", ["M8", "M10", "D12"])
def test_rows_of_no_known_service_are_not_held_to_what_sessions_alone_promise(property_id: str) -> None:
    script = Script("another")
    script.begin()
    script.rows = [row for row in script.rows if row.kind != "START_CHANGE"]
    script.change(2)
    rows = [row for row in script.rows if row.kind != "START_CHANGE"]
    assert PROPERTIES[property_id].oracle(rows) == []
    assert property_id not in {violation.property for violation in monitor_violations(rows)}
