"""Measures and joined tables: reckoned by hand, and held against plain Python and DuckDB over many small traces."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from msgspec.structs import astuple

from tests.pipeline import naive_measures as naive
from tests.pipeline.conftest import Call
from tests.pipeline.traces import of_run, sampled
from unisono.cli.measure_report import show_comparison, show_measures
from unisono.pipeline.measures.catalogue import MEASURES, what_is_missing
from unisono.pipeline.measures.comparison import Ratio, compare, ratio
from unisono.pipeline.measures.value import Value
from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.world import run
from unisono.trace.parquet import write_tables
from unisono.trace.run_directory import read_run, write_run
from unisono.trace.schema import (
    AnyRow,
    DeliverRow,
    GaugeRow,
    MembershipRow,
    RepairRow,
    SendRow,
    StatisticRow,
    ViewRow,
)
from unisono.trace.schema import Value as Told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from unisono.pipeline.measures.values import Measured

SECOND = 1_000_000_000
SAMPLES = 100
SCENARIOS = {
    "crash-sender": ("duration=8s", "settle=4s"),
    "mixed-services": ("workload[0].rate=3",),
    "lossy-lan": ("duration=2s", "settle=3s"),
    "slow-receiver": ("duration=6s", "settle=2s", "workload[0].rate=60"),
    "vs-servers": ("duration=10s", "settle=6s", "fault[1].at=7s", "options.block=ask"),
}
"""With a view change and a crash; views agreed in silence; repairs; sends that wait; and changes of sessions."""


def message(process: str, number: int, time: float, **columns: Any) -> dict[str, Any]:
    """The columns of a message at one process; in simulation unless told otherwise."""
    return {
        "run": "r",
        "group": "g",
        "process": process,
        "incarnation": 1,
        "truth": int(time * SECOND),
        "host": process,
        "sequence": number,
        "number": number,
        "timestamp": number,
        "size": 100,
        "body": number,
        **columns,
    }


def send(number: int, time: float, **columns: Any) -> SendRow:
    return SendRow(kind="SEND", position=number, **message("a", number, time, **columns))


def deliver(process: str, number: int, time: float, **columns: Any) -> DeliverRow:
    place: dict[str, Any] = {"source": "a", "source_incarnation": 1, "index": number, "position": 100 + number}
    return DeliverRow(kind="DELIVER", **{**place, **message(process, number, time, **columns)})


def two_receivers() -> Iterable[AnyRow]:
    """Ten messages, one a second; bob takes n/10 s for the n-th, carol is there at once and late with the last."""
    for number in range(1, 11):
        yield send(number, number)
        yield deliver("b", number, number + number / 10)
        yield deliver("c", number, number if number < 10 else 19)


def on(host: str, time: float) -> dict[str, Any]:
    return {"run": f"on {host}", "truth": None, "host": host, "at": int(time * SECOND)}


def real_runs() -> Iterable[AnyRow]:
    """One message between processes of one host, and one between two hosts, whose clocks tell nothing."""
    yield send(1, 0, **on("here", 5))
    yield deliver("b", 1, 0, **on("here", 7))
    yield send(1, 0, **on("there", 5))
    yield deliver("b", 1, 0, **{**on("there", 7), "host": "elsewhere"})


def by_hand() -> list[AnyRow]:
    repairs = [
        RepairRow(kind=kind, run="r", group="g", process="b", source="a", source_incarnation=1, first=first, last=last)
        for kind, first, last in (
            ("RTR", 1, 4),
            ("RTR", 4, 6),
            ("RTR", 2, 2),
            ("RTR", 7, 7),
            ("RTX", 1, 4),
            ("RTX", 5, 6),
            ("GC", 1, 1),
        )
    ]
    gauges = [
        GaugeRow(kind="GAUGE", run="r", group="g", process="a", truth=time * SECOND, name=name, value=value)
        for name, value, time in (
            ("datagrams sent", 3, 1),
            ("datagrams sent", 4, 10),
            ("datagram bytes sent", 900, 10),
            ("blocked by window nanoseconds", SECOND, 10),
            ("other", 5, 10),
        )
    ]
    joins: list[AnyRow] = [MembershipRow(kind="JOIN", run="r", group="g", process="a", truth=0)]
    return [*two_receivers(), *real_runs(), *repairs, *gauges, *joins, *session()]


def session() -> Iterable[AnyRow]:
    """One member comes into a view by two start-changes, the second of which stands; then what two messages cost."""
    place: dict[str, Any] = {"run": "s", "group": "g", "process": "a", "incarnation": 1, "service": "VS"}
    told = [("START_CHANGE", 1, 0), ("VIEW", 1, 1), ("START_CHANGE", 2, 10), ("BLOCK_OK", 2, 12), ("NEW_VIEW", 2, 13)]
    told += [("START_CHANGE", 3, 14), ("SYNCHRONIZED", 3, 15), ("NEW_VIEW", 3, 18), ("VIEW", 3, 20)]
    for position, (kind, change, time) in enumerate(told):
        place |= {"kind": kind, "position": position, "truth": time * SECOND}
        if kind == "VIEW":
            view: dict[str, Any] = {"start_time": 0, "leader": "a", "leader_incarnation": 1, "leader_sequence": 0}
            previous = "one" if change == 3 else None
            yield ViewRow(**place, **view, previous=previous, role="sender", start=[], view=str(change), change=change)
        else:
            yield MembershipRow(**place, number=change)
    for nanoseconds in (9000.0, 15000.0):
        values = [Told("nanoseconds", nanoseconds), Told("messages", 2.0)]
        yield StatisticRow(**{**place, "kind": "SESSION_OVERHEAD"}, values=values)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[AnyRow]]:
    """By run: what is reckoned by hand, small samples good and damaged, and short simulations."""
    found = {f"sample {seed}": of_run(sampled(seed).rows, f"sample {seed}") for seed in range(SAMPLES)}
    folder = tmp_path_factory.mktemp("measured")
    for name, changes in SCENARIOS.items():
        run(draw(load(name, changes), 1), folder / name)
        found[name] = of_run(read_run(folder / name), name)
    for row in by_hand():
        found.setdefault(row.run, []).append(row)
    return found


@pytest.fixture(scope="module")
def folder(traces: dict[str, list[AnyRow]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of them in one folder of tables, so that all measures are one query."""
    target = tmp_path_factory.mktemp("all")
    write_tables(target, [row for rows in traces.values() for row in rows], part_rows=5_000)
    return target


@pytest.fixture(scope="module")
def measured(spark: SparkSession, folder: Path) -> Iterable[Measured]:
    from unisono.pipeline.measures.values import measured as measuring
    from unisono.pipeline.tables import read_tables

    with measuring(read_tables(spark, [folder])) as found:
        yield found


@pytest.fixture(scope="module")
def values(measured: Measured) -> list[Value]:
    from unisono.pipeline.measures.values import measures

    return [Value(*row) for row in measures(measured).collect()]


@pytest.mark.usefixtures("spark")
def test_measures_that_are_reckoned_by_hand(values: list[Value]) -> None:
    found = {(one.run, one.measure, one.key): one.value for one in values}
    mine = {(measure, key): value for (name, measure, key), value in found.items() if name == "r"}
    latency = {"count": 10, "p50": SECOND // 2, "p90": 9 * SECOND // 10, "p99": 9 * SECOND, "max": 9 * SECOND}
    assert {key: mine["latency", key] for key in latency} == latency
    assert found["on here", "latency", "max"] == 2 * SECOND
    assert ("on there", "latency", "max") not in found
    assert (mine["throughput", "all"], mine["throughput", "up to 128"]) == (0.5, 0.5)
    assert mine["throughput in bytes", "all"] == 50.0
    assert ("on here", "throughput", "all") not in found
    assert (mine["datagrams", ""], mine["datagrams per message", ""], mine["bytes per payload byte", ""]) == (
        7,
        0.7,
        0.9,
    )
    assert (mine["losses", ""], mine["requests per loss", ""], mine["repairs per loss", ""]) == (2, 2.0, 1.0)
    assert mine["repairs per message", ""] == 0.2
    assert (mine["blocked by window", "max"], mine["blocked by view", "max"]) == (0.1, 0.0)
    assert mine["datagrams a second", "mean"] == 0.7
    ours = {measure: value for (name, measure, key), value in found.items() if name == "s" and key == "mean"}
    overhead = ours.pop("session overhead")
    assert (overhead, {measure: value / SECOND for measure, value in ours.items()}) == (
        12_000,
        {
            "session change": 10,
            "session change: membership": 4,
            "session change: synchronisation": 5,
            "session change: membership after synchronisation": -1,
            "session change: view after membership": 6,
            "session change: blocked": 8,
        },
    )


@pytest.mark.usefixtures("spark")
def test_measures_are_those_of_plain_python(traces: dict[str, list[AnyRow]], values: list[Value]) -> None:
    expected = naive_values(traces)
    found = {(one.run, one.group, one.measure, one.key): one.value for one in values}
    assert set(found) == set(expected)
    different = {key: (found[key], value) for key, value in expected.items() if found[key] != pytest.approx(value)}
    assert not different
    assert {one.measure for one in values} == set(MEASURES)  # some trace has what each measure needs
    assert {one.unit for one in values} == {item.unit for item in MEASURES.values()}


def naive_values(traces: dict[str, list[AnyRow]]) -> dict[naive.Key, float]:
    found: dict[naive.Key, float] = {}
    for rows in traces.values():
        found |= naive.measures(rows)
    return found


@pytest.mark.usefixtures("spark")
def test_joined_messages_are_those_of_plain_python(traces: dict[str, list[AnyRow]], measured: Measured) -> None:
    expected = {_named(one): one for rows in traces.values() for one in naive.messages(rows)}
    found = {_named(row.asDict()): row.asDict() for row in measured.messages.collect()}
    assert set(found) == set(expected)
    for key, one in expected.items():
        told = {name: found[key][name] for name in one if name != "size" or one["sent"] is not None}
        assert told == {name: value for name, value in one.items() if name in told}


def _named(one: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(one[name] for name in ("run", "group", "source", "source_incarnation", "number"))


@pytest.mark.usefixtures("spark")
def test_joined_views_are_those_of_plain_python(traces: dict[str, list[AnyRow]], measured: Measured) -> None:
    expected = {(one["run"], one["group"], one["view"]): one for rows in traces.values() for one in naive.views(rows)}
    found = {(row["run"], row["group"], row["view"]): row.asDict(recursive=True) for row in measured.views.collect()}
    assert set(found) == set(expected)
    for key, one in expected.items():
        told = {name: found[key][name] for name in one}
        for name in ("came", "went"):
            told[name] = [(change["process"], change["reason"]) for change in told[name]]
        assert told == one, key
    assert any(one["agreers"] for one in expected.values())
    assert any(one["ended"] is not None and one["began"] is not None for one in expected.values())


@pytest.mark.usefixtures("spark")
def test_latencies_are_those_of_another_engine(folder: Path, values: list[Value]) -> None:
    query = f"""
        with sent as (
            select run, "group", process as source, incarnation as source_incarnation, number,
                first(truth order by position) as sent, count(*) - count(truth) as untold
            from '{folder}/send.parquet/*.parquet' group by all
        ), heard as (
            select run, "group", source, source_incarnation, number,
                max(truth) as last, count(*) - count(truth) as untold
            from '{folder}/deliver.parquet/*.parquet' group by all
        )
        select run, "group", quantile_disc(last - sent, 0.5)::double, max(last - sent)::double
        from sent join heard using (run, "group", source, source_incarnation, number)
        where sent.untold = 0 and heard.untold = 0 group by all
    """  # the folder is this test's own
    found = duckdb.execute(query).fetchall()
    expected = {(name, group): (median, most) for name, group, median, most in found}
    latencies = {(one.run, one.group, one.key): one.value for one in values if one.measure == "latency"}
    assert len(expected) > SAMPLES / 2
    for name, group in expected:
        assert (latencies[name, group, "p50"], latencies[name, group, "max"]) == expected[name, group]


def test_what_a_trace_does_not_allow_is_said() -> None:
    assert what_is_missing(MEASURES) == []
    lines = what_is_missing(set(MEASURES) - {"latency", "control sent"})
    assert lines[0] == "latency needs the simulator's time, or senders and receivers on one host"
    assert lines[1].startswith('control sent needs GAUGE rows named "control bytes sent"')


def test_a_ratio_has_an_interval_where_there_are_several_runs() -> None:
    assert ratio([2.0], [3.0]) == Ratio(1.5, None, None)
    assert ratio([], [3.0]) is None
    assert ratio([0.0, 0.0], [3.0]) is None
    random = Random(1)
    base = [random.gauss(100, 5) for _ in range(20)]
    same, more = [random.gauss(100, 5) for _ in range(20)], [random.gauss(150, 5) for _ in range(20)]
    alike, different = ratio(base, same), ratio(base, more)
    assert alike is not None
    assert different is not None
    assert not alike.clear
    assert different.clear
    assert different == ratio(base, more)
    assert different.low is not None
    assert different.high is not None
    assert different.low < different.ratio < different.high
    assert 1.4 < different.low < 1.5 < different.high < 1.6
    constant = ratio([2.0, 2.0], [4.0])
    assert constant == Ratio(2.0, 2.0, 2.0)


def test_a_comparison_has_every_value_of_every_side() -> None:
    def value(name: str, measure: str, key: str, number: float) -> Value:
        return Value(name, "g", measure, key, number, MEASURES[measure].unit)

    first = [value("a", "throughput", "up to 1024", 10.0), value("b", "throughput", "up to 1024", 20.0)]
    second = [value("c", "throughput", "up to 1024", 30.0), value("c", "throughput", "up to 64", 5.0)]
    third = [value("d", "messages", "", 4.0)]
    found = compare([first, second, third])
    assert [(one.measure, one.key) for one in found] == [
        ("messages", ""),
        ("throughput", "up to 64"),
        ("throughput", "up to 1024"),
    ]
    last = found[-1]
    assert [(side.runs, side.mean, side.least, side.most) for side in last.sides] == [
        (2, 15.0, 10.0, 20.0),
        (1, 30.0, 30.0, 30.0),
        (0, None, None, None),
    ]
    assert last.ratios[0] is None
    assert last.ratios[2] is None
    assert last.ratios[1] is not None
    assert (last.ratios[1].ratio, last.ratios[1].low, last.ratios[1].high) == (2.0, 1.5, 3.0)
    assert (last.unit, last.better) == ("messages/s", "more")


def test_what_is_measured_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    spread = {"count": 3, "mean": 2.5e6, "p50": 2e6, "p90": 3e9, "p99": 3e9, "max": 3e9}
    values = [Value("r", "", "control sent", key, 120.0, "bytes/s") for key in spread]
    values.append(Value("r", "g", "throughput", "up to 64", 12345.6, "messages/s"))
    values += [Value("r", "g", "latency", key, number, "ns") for key, number in spread.items()]
    show_measures(values, ["repairs per loss needs RTR and RTX rows"])
    shown = capsys.readouterr().out
    for words in ("r, outside of groups", "r, group g", "up to 64   12346   messages/s", "3 s", "2 ms"):
        assert words in shown
    assert shown.endswith("not measured:\n  repairs per loss needs RTR and RTX rows\n")
    other = [Value("s", one.group, one.measure, one.key, 3 * one.value, one.unit) for one in values]
    more = [Value("t", one.group, one.measure, one.key, 2 * one.value, one.unit) for one in values]
    show_comparison(["one", "two"], [1, 2], compare([values, other + more]))
    shown = capsys.readouterr().out
    assert "two (2 runs)" in shown
    assert "2.50 [2.00, 3.00] *" in shown


def test_the_commands_measure_and_compare(
    spark: SparkSession, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unisono.pipeline.measures import values as module

    rows = [row for row in by_hand() if row.run == "r"]
    for name in ("before", "after"):
        write_run(tmp_path / name, rows, scenario_text="", summary={}, form="parquet")
    code, out, err = call("measure", tmp_path / "before", "--json")
    told = json.loads(out)
    assert (code, err, told["format"], told["exit"]) == (0, "", 1, 0)
    assert {"run": "r", "group": "g", "measure": "losses", "key": "", "value": 2.0, "unit": "losses"} in told[
        "measures"
    ]
    assert any(line.startswith("view change needs") for line in told["missing"])
    known = [Value(**one) for one in told["measures"]]

    def measured_before(session: SparkSession, paths: list[Path], *_: object) -> list[Value]:
        """What the first command found; to compute it once more for each side would only take time."""
        assert session is spark
        return [Value(paths[0].name, *list(astuple(one))[1:]) for one in known]

    monkeypatch.setattr(module, "measure_runs", measured_before)
    code, out, _ = call("compare", tmp_path / "before", tmp_path / "after", "--json")
    told = json.loads(out)
    assert (code, [side["runs"] for side in told["sides"]]) == (0, [["before"], ["after"]])
    assert {one["ratios"][1]["ratio"] for one in told["measures"] if one["ratios"][1] is not None} == {1.0}
    assert call("compare", tmp_path / "before")[0] == 2
