"""Valid traces raise no alarm, in either form, and they hold enough for that to mean something."""

from __future__ import annotations

from collections import Counter
from random import Random

from unisono.properties.generator import NAMES, good_trace
from unisono.properties.generator.agreement import AgreedView
from unisono.properties.generator.changes import begins_in, first_above
from unisono.properties.generator.population import Life, Member, Message
from unisono.properties.oracles.cycles import in_a_cycle
from unisono.properties.oracles.total import runs_of_one_order
from unisono.properties.promises import PRECISION_NANOSECONDS
from unisono.properties.registry import MonitorSuite, monitor_violations, oracle_violations
from unisono.properties.violation import moment
from unisono.trace.schema import AnyRow, DeliverRow, FaultRow, GaugeRow, MembershipRow, SendRow, ViewRow

TRACES = 1000
RELIABLE = ("RSO", "RTO")


def sampled(seed: int) -> list[AnyRow]:
    """Traces of all sorts: one group or two, simulated or real, short or less so."""
    groups = ("market", "yard") if seed % 4 == 0 else ("market",)
    return good_trace(Random(seed), events=20 + seed % 21, groups=groups, truth=seed % 5 != 0)


def test_a_thousand_valid_traces_raise_no_alarm() -> None:
    alarms = {}
    for seed in range(TRACES):
        rows = sampled(seed)
        found = oracle_violations(rows) + monitor_violations(rows)
        if found:
            alarms[seed] = found
        assert not in_a_cycle(rows)
    assert not alarms


def test_a_long_valid_trace_raises_no_alarm() -> None:
    rows = good_trace(Random(7), events=5000, names=NAMES, groups=("market", "yard"))
    suite = MonitorSuite()
    for row in rows:
        suite.observe(row)
    suite.finish()
    assert len(rows) > 5000
    assert suite.counts == {}


def test_valid_traces_hold_what_the_properties_speak_of() -> None:
    seen: Counter[str] = Counter()
    for seed in range(400):
        rows = sampled(seed)
        seen.update(row.kind for row in rows)
        seen.update(f"{row.kind} {row.service}" for row in rows)
        seen["fragments"] += sum(isinstance(row, SendRow) and row.sequence != row.number for row in rows)
        seen["own delivery"] += sum(isinstance(row, DeliverRow) and row.source == row.process for row in rows)
        seen["cap"] += sum(isinstance(row, GaugeRow) and row.cap is not None for row in rows)
        seen["once"] += sum(isinstance(row, MembershipRow) and row.reason == "once" for row in rows)
        seen["late start"] += sum(
            any(start.number > 1 for start in row.start) for row in rows if isinstance(row, ViewRow)
        )
        seen["second life"] += len({(row.process, row.incarnation) for row in rows}) > len(
            {row.process for row in rows}
        )
        seen["two faults"] += sum(row.kind == "FAULT" for row in rows) > 4
        seen["parted"] += any(isinstance(row, FaultRow) and row.sides and not row.members for row in rows)
        seen["repeats"] += _repeats(rows)
        seen.update(_of_later_stretches(rows))
        seen.update(_of_changed_services(rows))
        seen.update(_of_agreed_views(rows))
        seen["domain"] += sum(isinstance(row, MembershipRow) and row.across is not None for row in rows)
    rare = [
        "CRASH",
        "LEAVE",
        "LEFT_BEHIND",
        "UNAVAILABLE",
        "RTR",
        "RTX",
        "GC",
        "MARK",
        "once",
        "second life",
        "two faults",
        "parted",
    ]
    common = ["ACTIVATE", "GRANT", "END", "fragments", "late start"]
    common += [f"{kind} {service}" for kind in ("SEND", "DELIVER") for service in ("RSO", "RTO")]
    rare += [f"{kind} {service}" for kind in ("SEND", "DELIVER") for service in ("UU", "USO", "UTO", "ALF")]
    rare += ["SUSPECT", "domain", "RSO to RTO", "RTO to RSO", "unreliable to reliable", "reliable to unreliable"]
    rare += ["equal timestamps", "two groups in one order"]
    rare += ["SELF_FAIL", "BOOTSTRAP", "EXCLUDED", "primary", "farewell", "into the middle", "receiver follows"]
    rare += ["sender into the middle", "receiver from the beginning", "last view of all", "cut short"]
    rare += ["sends now", "only receives now", "agreed after the order", "into the middle of an era"]
    rare += ["delivered by the order", "sent by one who was a receiver", "receiver that was a sender at the end"]
    common += ["CUT", "merge", "by the order", "goes on", "sent in an agreed view"]
    again = ["JOIN again", "VIEW again", "SEND again", "DELIVER again", "own skipped", "served otherwise"]
    assert [word for word in [*rare, *again, "cap", "own delivery", "repeats"] if seen[word] < 10] == []
    assert [word for word in common if seen[word] < 200] == []


def _of_later_stretches(rows: list[AnyRow]) -> Counter[str]:
    """What happens after a process joined a group again in the same life."""
    seen: Counter[str] = Counter()
    for row in rows:
        if row.stretch > 1:
            seen[f"{row.kind} again"] += 1
            if row.kind == "JOIN":
                before = [other for other in rows if _member(other) == _member(row) and other.position < row.position]
                seen["served otherwise"] += before[-1].service != row.service
                sent = {other.number for other in before if isinstance(other, SendRow)}
                got = {
                    other.number
                    for other in before
                    if isinstance(other, DeliverRow) and (other.source, other.source_incarnation) == _member(row)[1:]
                }
                seen["own skipped"] += row.service in RELIABLE and not sent <= got
    return seen


def _of_changed_services(rows: list[AnyRow]) -> Counter[str]:
    """Changes of service without a JOIN, and orders that are worth the name."""
    seen: Counter[str] = Counter()
    last: dict[tuple[str, str, int], AnyRow] = {}
    for row in rows:
        before = last.get(_member(row))
        if row.service is not None:
            last[_member(row)] = row
        if row.kind == "JOIN" or before is None or row.service is None or before.service == row.service:
            continue
        assert row.stretch == before.stretch + 1
        sorts = ["reliable" if one.service in RELIABLE else "unreliable" for one in (before, row)]
        seen[" to ".join(sorts)] += 1
        seen[f"{before.service} to {row.service}"] += 1
        if sorts == ["reliable", "reliable"]:
            assert row.kind == "VIEW" or (row.service == "RTO" and row.kind == "ACTIVATE")
    sent = [(row.group, row.timestamp) for row in rows if isinstance(row, SendRow)]
    seen["equal timestamps"] += len(set(sent)) < len(sent)
    seen["two groups in one order"] += sum(len({row.group for row in run}) > 1 for run in runs_of_one_order(rows))
    return seen


def _of_agreed_views(rows: list[AnyRow]) -> Counter[str]:
    """How processes come into agreed views, and what they leave behind."""
    seen: Counter[str] = Counter()
    for view in [row for row in rows if isinstance(row, ViewRow) and row.service == "RTO"]:
        seen["primary"] += bool(view.primary)
        seen["merge"] += len(view.merged) > 1
        seen["farewell"] += view.previous is not None and not view.merged
        seen["goes on"] += view.previous is not None
        seen["into the middle"] += not view.whole and view.role == "receiver"
        seen["sender into the middle"] += not view.whole and view.role == "sender"
        seen["receiver follows"] += view.role == "receiver" and view.previous is not None
        seen["by the order"] += view.era is not None
        seen["agreed after the order"] += view.era is None and any(
            isinstance(row, ViewRow) and row.era is not None and (row.group, row.view) == (view.group, view.previous)
            for row in rows
        )
        seen["into the middle of an era"] += view.era is not None and not view.whole
        seen.update(reason.reason for reason in view.reasons if view.era is not None)
        seen["receiver from the beginning"] += view.role == "receiver" and view.previous is None and view.whole
    seen["delivered by the order"] += sum(isinstance(row, DeliverRow) and _follows(rows, row) for row in rows)
    for join in [row for row in rows if isinstance(row, MembershipRow) and row.kind == "JOIN"]:
        mine = [row for row in rows if _member(row) == _member(join) and row.stretch == join.stretch]
        views = [row for row in mine if isinstance(row, ViewRow) and row.service == "RTO"]
        seen["sent by one who was a receiver"] += join.role == "receiver" and any(row.kind == "SEND" for row in mine)
        seen["receiver that was a sender at the end"] += (
            join.role == "sender" and bool(views) and views[-1].role == "receiver"
        )
    seen["sent in an agreed view"] += sum(isinstance(row, SendRow) and row.agreed is not None for row in rows)
    ends = [row for row in rows if row.kind == "END"]
    heals = [row for row in rows if isinstance(row, FaultRow) and row.fault == "heal"]
    seen["last view of all"] += bool(ends and heals) and moment(ends[0]) - moment(heals[-1]) > PRECISION_NANOSECONDS
    heard = {(row.group, row.source, row.number) for row in rows if isinstance(row, DeliverRow)}
    seen["cut short"] += any(
        isinstance(row, SendRow) and (row.group, row.process, row.number) not in heard for row in rows
    )
    return seen


def _follows(rows: list[AnyRow], delivery: DeliverRow) -> bool:
    """Whether a message is delivered in a view that followed another one by the order."""
    return any(
        isinstance(row, ViewRow) and row.era is not None and (row.group, row.view) == (delivery.group, delivery.view)
        for row in rows
    )


def _member(row: AnyRow) -> tuple[str, str, int]:
    return row.group, row.process, row.incarnation


def test_a_process_that_joins_again_repeats_no_identifier_and_begins_alone() -> None:
    returns = 0
    for seed in range(300):
        rows = sampled(seed)
        for join in [row for row in rows if row.kind == "JOIN" and row.stretch > 1]:
            returns += 1
            mine = [row for row in rows if _member(row) == _member(join)]
            before = [row for row in mine if row.position < join.position]
            after = [row for row in mine if row.position > join.position]
            assert before[-1].kind == "LEAVE"
            assert before[-1].stretch == join.stretch - 1
            sent = [row for row in mine if isinstance(row, SendRow)]
            assert [row.number for row in sent] == list(range(1, len(sent) + 1))
            assert [row.sequence for row in sent] == sorted({row.sequence for row in sent})
            views = [row for row in mine if isinstance(row, ViewRow)]
            assert isinstance(join, MembershipRow)
            if join.role == "sender":
                assert len({row.view for row in views}) == len(views)
            if join.service == "RSO" or (join.service == "RTO" and join.role == "sender"):
                first = after[0]
                assert isinstance(first, ViewRow)
                assert first.previous is None
                assert [start.source for start in first.start] in ([], [join.process])
    assert returns > 30


def _repeats(rows: list[AnyRow]) -> bool:
    """Whether an unordered receiver got something twice, which is allowed."""
    messages = Counter(
        (row.group, row.process, row.incarnation, row.source, row.source_incarnation, row.number)
        for row in rows
        if isinstance(row, DeliverRow)
    )
    return max(messages.values(), default=0) > 1


def test_positions_are_dense_and_times_in_order() -> None:
    for seed in range(50):
        rows = good_trace(Random(seed))
        counts: Counter[tuple[str, int]] = Counter()
        for row in rows:
            assert row.position == counts[row.process, row.incarnation]
            counts[row.process, row.incarnation] += 1
        truths = [row.truth for row in rows if row.truth is not None]
        assert len(truths) == len(rows)
        assert truths == sorted(truths)


def test_equal_seeds_give_equal_traces() -> None:
    assert good_trace(Random(3), events=40) == good_trace(Random(3), events=40)
    assert good_trace(Random(3), events=40) != good_trace(Random(4), events=40)


def test_who_comes_into_an_era_passes_nothing_that_a_source_sent_after_it() -> None:
    """Carol goes on and sends; alice comes back into the era that carol left, and bob and she are at one place."""
    rows = good_trace(Random(5268694), events=25)
    assert oracle_violations(rows) + monitor_violations(rows) == []


def test_what_a_source_sent_after_an_era_has_no_place_in_it() -> None:
    alice, carol = (Member(Life(name, 1, 0), "market", "sender", "RTO", "all") for name in ("alice", "carol"))
    era = AgreedView(0, carol, 1, [carol])
    carol.sent = [Message(number, number, 10 * number, 0, 0) for number in (1, 2, 3)]
    assert first_above(era, carol, (15, "alice", 1)) == 2
    assert first_above(era, carol, (50, "alice", 1)) == 4
    alice.lowest[carol] = 3
    assert begins_in(era, alice, carol) == 3
    era.ends[carol] = 2
    assert first_above(era, carol, (5, "alice", 1)) == 1
    assert first_above(era, carol, (50, "alice", 1)) == 2
    assert begins_in(era, alice, carol) == 2


def test_who_was_to_send_no_more_and_sent_elsewhere_ends_an_era() -> None:
    """Carol says in heidi's era that she will only receive, but goes on, sends, and becomes a receiver elsewhere."""
    rows = good_trace(Random(777199424015), events=87, names=NAMES)
    assert oracle_violations(rows) + monitor_violations(rows) == []


def test_who_sent_and_comes_back_as_a_receiver_raises_no_alarm() -> None:
    rows = good_trace(Random(853004578824), events=120)
    assert oracle_violations(rows) + monitor_violations(rows) == []
