"""A run while it goes on: reports race, are late or missing, and yet the live verdicts are those of the monitors."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from tests.pipeline.running_trace import RunningTrace
from tests.pipeline.traces import GOOD, HOLES, sampled
from unisono.pipeline.live.integrity import LiveFifo
from unisono.pipeline.live.lives import FORGET_NANOSECONDS, LATENESS_NANOSECONDS
from unisono.pipeline.live.outputs import (
    Counted,
    Delivered,
    Flagged,
    Installed,
    Latencies,
    Line,
    Reported,
    Sent,
    Standing,
)
from unisono.pipeline.live.run import LIVE, LiveRun, RunState
from unisono.properties.monitors.monitor import Source
from unisono.properties.monitors.settled import time_of
from unisono.properties.registry import MonitorSuite
from unisono.properties.violation import moment
from unisono.trace.reports import decode
from unisono.trace.reports import rows as report_rows
from unisono.trace.schema import AnyRow, DeliverRow, SendRow

Report = tuple[Source, int, list[AnyRow]]

ELSEWHERE = ("D1", "M4")
"""Judged otherwise than by the registered monitors, since those wait for the end of the run."""


def reports(rows: Sequence[AnyRow], random: Random) -> list[Report]:
    """The rows of every life in reports of some rows each, in any order that keeps that of each life."""
    by_life: dict[Source, list[AnyRow]] = defaultdict(list)
    for row in rows:
        by_life[row.process, row.incarnation].append(row)
    waiting: dict[Source, Iterator[Report]] = {
        life: _of_one_life(life, sorted(mine, key=lambda row: row.position), random) for life, mine in by_life.items()
    }
    found = []
    while waiting:
        life = random.choice(list(waiting))
        report = next(waiting[life], None)
        if report is None:
            del waiting[life]
        else:
            found.append(report)
    return found


def _of_one_life(life: Source, rows: list[AnyRow], random: Random) -> Iterator[Report]:
    number = place = 0
    while place < len(rows):
        size = random.randrange(1, 8)
        yield life, number, rows[place : place + size]
        place, number = place + size, number + 1


def decoded(payloads: Sequence[bytes]) -> list[Report]:
    found = [decode(payload) for payload in payloads]
    return [((report.process, report.incarnation), report.number, report_rows(report)) for report in found]


class Watched:
    """A run in batches of some reports, its state stored and loaded between them."""

    def __init__(self, run: str = "run") -> None:
        self.state = msgspec.msgpack.encode(RunState(run))
        self.lines: list[Line] = []
        self.standing: Standing | None = None
        self.now = 0
        self.over = False

    def batch(self, some: Sequence[Report], after: int = 1) -> list[Line]:
        self.now += after
        live = LiveRun("run", msgspec.msgpack.decode(self.state, type=RunState))
        for (process, incarnation), number, rows in some:
            live.take(process, incarnation, "here", number, rows, self.now)
        lines, self.standing = live.finish_batch(self.now)
        self.state, self.over = msgspec.msgpack.encode(live.dump()), live.is_over
        self.lines += lines
        return lines

    def batch_flags(self, some: Sequence[Report], after: int = 1) -> list[Flagged]:
        """What a batch says about D1."""
        return [line for line in self.batch(some, after) if isinstance(line, Flagged) and line.property == "D1"]

    def flagged(self, verdict: str) -> Counter[tuple[object, ...]]:
        return Counter(
            (line.property, line.group, line.process, line.incarnation, line.position, line.message)
            for line in self.lines
            if isinstance(line, Flagged) and line.verdict == verdict
        )


def watched(rows: Sequence[AnyRow], random: Random, batch: int = 9) -> Watched:
    """The whole run, then silence for long enough."""
    run, some = Watched(), reports(rows, random)
    for place in range(0, len(some), batch):
        run.batch(some[place : place + batch])
    run.batch([], LATENESS_NANOSECONDS)
    return run


def by_monitors(rows: Sequence[AnyRow]) -> Counter[tuple[object, ...]]:
    suite = MonitorSuite(LIVE, forms={"O2": LiveFifo})
    for row in rows:
        suite.observe(row)
    suite.finish()
    return Counter(violation.place() for violation in suite.violations)


def test_no_interleaving_of_reports_makes_a_good_run_look_bad() -> None:
    for seed in range(GOOD, 600, 4):
        run = watched(sampled(seed).rows, Random(seed))
        assert not run.flagged("violated"), f"seed {seed}"


def test_reports_that_never_come_make_no_good_run_look_bad() -> None:
    unknown: Counter[tuple[object, ...]] = Counter()
    for seed in range(GOOD, 800, 4):
        random, run = Random(seed), Watched()
        left = [report for report in reports(sampled(seed).rows, random) if random.random() < 0.8]
        run.batch(left[: len(left) // 2])
        run.batch(left[len(left) // 2 :])
        run.batch([], LATENESS_NANOSECONDS)
        assert not run.flagged("violated"), f"seed {seed}"
        unknown += run.flagged("unknown")
    assert unknown


def test_rows_that_were_never_written_make_no_good_run_look_bad() -> None:
    for seed in range(GOOD, 600, 4):
        random = Random(seed)
        rows = [row for row in sampled(seed).rows if random.random() < 0.9]
        assert not watched(rows, random).flagged("violated"), f"seed {seed}"


def test_the_live_verdicts_are_those_of_the_monitors() -> None:
    seen: Counter[str] = Counter()
    for seed in range(400):
        if seed % 4 == HOLES:
            continue
        rows, random = sampled(seed).rows, Random(seed)
        run, expected = watched(rows, random, batch=random.randrange(1, 40)), by_monitors(rows)
        found = run.flagged("violated")
        for place in expected | found:
            if place[0] not in ELSEWHERE:
                assert found[place] == expected[place], f"seed {seed}: {place}"
        _same_integrity(f"seed {seed}", expected, found, run)
        _same_views(f"seed {seed}", expected, found)
        seen.update({str(place[0]) for place in found})
    assert set(LIVE) <= set(seen)


def _of(places: Counter[tuple[object, ...]], property_id: str) -> Counter[tuple[object, ...]]:
    return Counter({place: count for place, count in places.items() if place[0] == property_id})


def _same_integrity(
    name: str, expected: Counter[tuple[object, ...]], found: Counter[tuple[object, ...]], run: Watched
) -> None:
    """Every alarm is one of the monitor's, and each of those is an alarm or unknown or not to be told live."""
    expected, found, unknown = _of(expected, "D1"), _of(found, "D1"), _of(run.flagged("unknown"), "D1")
    assert found <= expected, name
    assert expected <= found + unknown, f"{name}: {expected - found - unknown}"


def _same_views(name: str, expected: Counter[tuple[object, ...]], found: Counter[tuple[object, ...]]) -> None:
    """A view that is not one for all is told, at one of its installs or more."""
    expected, found = _of(expected, "M4"), _of(found, "M4")
    assert bool(expected) == bool(found), name
    assert {place[1] for place in expected} == {place[1] for place in found}, name


DAMAGES = ("D1", "D2", "M2", "M4", "O2", "O6")


def test_each_damage_to_a_running_trace_is_flagged_in_the_batch_that_shows_it() -> None:
    for property_id in DAMAGES:
        trace, run = RunningTrace("run"), Watched()
        trace.send(20)
        run.batch(decoded(trace.reports()))
        trace.damage(property_id)
        trace.send(1)
        lines = run.batch(decoded(trace.reports()))
        flagged = [line for line in lines if isinstance(line, Flagged) and line.property == property_id]
        assert flagged, property_id
        assert all(line.verdict == "violated" and line.process == trace.names[-1] for line in flagged)
        assert [line for line in lines if isinstance(line, Counted) and line.property == property_id]
        trace.send(20)
        assert not [line for line in run.batch(decoded(trace.reports())) if isinstance(line, Flagged)], property_id


def test_what_was_never_sent_is_a_violation_once_its_source_has_come_past_it() -> None:
    trace, run = RunningTrace("run"), Watched()
    trace.send(5)
    trace.damage("never sent")
    silent = trace.names[1]
    assert not run.batch_flags(decoded(trace.reports())), "the last row of its source is older than the delivery"
    trace.send(1)
    others = [name for name in trace.names if name != silent]
    assert not run.batch_flags(decoded(trace.reports(*others)))
    (flagged,) = run.batch_flags(decoded(trace.reports(silent)))
    assert flagged.verdict == "violated"
    assert flagged.text.endswith("was delivered, but never sent.")
    assert run.standing is not None
    assert run.standing.waiting == 0


def test_a_source_that_was_killed_with_rows_it_never_reported_makes_that_unknown_not_violated() -> None:
    trace, run = RunningTrace("run"), Watched()
    trace.send(5)
    run.batch(decoded(trace.reports()))
    trace.send(3)
    first, *others = trace.names
    assert not run.batch_flags(decoded(trace.reports(*others)), LATENESS_NANOSECONDS)
    flagged = run.batch_flags([], LATENESS_NANOSECONDS)
    assert len(flagged) == 3 * len(others)
    assert {line.verdict for line in flagged} == {"unknown"}
    assert all(line.text.endswith("its source is silent.") for line in flagged)
    assert run.standing is not None
    assert run.standing.unknown == len(flagged)
    assert not run.batch_flags(decoded(trace.reports(first))), "it was only late"
    assert run.standing.unknown == 0


def test_a_report_that_comes_twice_counts_once() -> None:
    trace, run = RunningTrace("run"), Watched()
    trace.send(10)
    some = decoded(trace.reports())
    run.batch(some)
    lines = run.batch(some)
    assert lines == []


def test_the_measures_are_sums_of_the_rows_and_latencies_those_of_every_message() -> None:
    times = iter(range(10**9, 10**12, 10**6))
    trace, run = RunningTrace("run", clock=lambda: next(times)), Watched()
    for _ in range(10):
        trace.send(10)
        run.batch(decoded(trace.reports()))
    members = len(trace.names)
    assert sum(line.messages for line in run.lines if isinstance(line, Delivered)) == 100 * members
    assert sum(line.messages for line in run.lines if isinstance(line, Sent)) == 100
    latencies = [value for line in run.lines if isinstance(line, Latencies) for value in line.nanoseconds]
    assert latencies == [members * 10**6] * 100, "a row a millisecond: the SEND, then every member"
    rows = sum(line.rows for line in run.lines if isinstance(line, Reported))
    assert rows == 100 * (members + 1) + members
    assert run.standing is not None
    assert run.standing.open_messages == 0


def test_the_time_to_a_view_is_that_since_the_member_began_to_agree() -> None:
    times = iter(range(10**9, 10**12, 10**6))
    trace, run = RunningTrace("run", clock=lambda: next(times)), Watched()
    trace.change_view()
    installs = [line for line in run.batch(decoded(trace.reports())) if isinstance(line, Installed)]
    assert [line.took for line in installs if line.view == "v2"] == [10**6] * len(trace.names)


def test_the_state_does_not_grow_with_the_run() -> None:
    trace, run = RunningTrace("run"), Watched()
    sizes = []
    for _ in range(40):
        trace.send(200)
        trace.change_view()
        run.batch(decoded(trace.reports()))
        sizes.append(len(run.state))
    assert sizes[-1] < sizes[19] * 1.5, "views and settled messages are kept up to a limit"
    trace.end()
    run.batch(decoded(trace.reports()))
    run.batch([], FORGET_NANOSECONDS)
    assert run.over


def test_latencies_are_those_of_the_whole_trace_where_reports_come_in_time() -> None:
    """Every life reports what it wrote in a while, before anybody reports the next while."""
    messages = late = 0
    for seed in range(GOOD, 400, 4):
        rows = sampled(seed).rows
        run, numbers = Watched(), Counter[Source]()
        for some in in_time(rows, 500_000_000):
            by_life: dict[Source, list[AnyRow]] = defaultdict(list)
            for row in some:
                by_life[row.process, row.incarnation].append(row)
            made = []
            for life, mine in by_life.items():
                made.append((life, numbers[life], mine))
                numbers[life] += 1
            run.batch(made, 100)
        run.batch([], LATENESS_NANOSECONDS)
        found = Counter(value for line in run.lines if isinstance(line, Latencies) for value in line.nanoseconds)
        assert run.standing is not None
        if run.standing.unchecked:  # somebody without a view heard a source for the first time, long after the others
            late += run.standing.unchecked
            continue
        assert found == naive_latencies(rows), f"seed {seed}"
        messages += found.total()
    assert messages > 5 * late
    assert messages > 300


def in_time(rows: Sequence[AnyRow], nanoseconds: int) -> Iterator[list[AnyRow]]:
    ordered = sorted(rows, key=lambda row: (moment(row), row.position))
    while ordered:
        end = moment(ordered[0]) + nanoseconds
        yield [row for row in ordered if moment(row) < end]
        ordered = [row for row in ordered if moment(row) >= end]


def naive_latencies(rows: Sequence[AnyRow]) -> Counter[int]:
    """From the first SEND to the last DELIVER of each message, where all of them are of one clock."""
    found: Counter[int] = Counter()
    for send in {message_of(row): row for row in reversed(rows) if isinstance(row, SendRow)}.values():
        last = [time_of(row) for row in rows if isinstance(row, DeliverRow) and message_of(row) == message_of(send)]
        if last and {clock for _, clock in last} == {time_of(send)[1]}:
            found[max(time for time, _ in last) - moment(send)] += 1
    return found


def message_of(row: SendRow | DeliverRow) -> tuple[str, str, int, int]:
    if isinstance(row, SendRow):
        return (row.group, row.process, row.incarnation, row.number)
    return (row.group, row.source, row.source_incarnation, row.number)
