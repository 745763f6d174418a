"""Audits of simulated runs: they hold as they are, and every damage to one is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.traces import of_run
from unisono.pipeline.audit import audit
from unisono.pipeline.monitor_audit import audit_with_monitors
from unisono.pipeline.report import KEPT_VIOLATIONS
from unisono.pipeline.tables import read_tables
from unisono.properties.damages import DAMAGES, SESSION_DAMAGES
from unisono.properties.generator import good_session_trace, good_trace
from unisono.properties.promises import promised
from unisono.properties.registry import PROPERTIES
from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.world import run
from unisono.trace.run_directory import read_run, write_run
from unisono.trace.schema import AnyRow, GaugeRow, MembershipRow
from unisono.trace.spool import SpoolWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Call = Callable[..., tuple[int, str, str]]

SCENARIOS = ("quiet-lan", "crash-restart", "mixed-services")
LITTLE = ("workload[0].rate=2",)
"""As many faults and views as ever, but fewer messages: every damaged copy of a run is audited."""


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run of each scenario."""
    folder = tmp_path_factory.mktemp("simulated")
    for name in SCENARIOS:
        run(draw(load(name, LITTLE), 1), folder / name)
    return folder


def store(directory: Path, rows: list[AnyRow], form: str = "parquet") -> Path:
    write_run(directory, rows, scenario_text="", summary={}, form="spool" if form == "spool" else "parquet")
    return directory


def in_other_forms(folder: Path, rows: list[AnyRow]) -> None:
    """A run as a spool, as tables in parts, and as the spools of its processes, one of them cut short."""
    store(folder / "spool", of_run(rows, "spool"), "spool")
    write_run(folder / "parts", of_run(rows, "parts"), scenario_text="", summary={}, form="parquet", part_rows=50)
    raw = folder / "raw"
    raw.mkdir()
    for process in sorted({row.process for row in rows}):
        with SpoolWriter(raw / f"{process or 'outside'}.spool", "raw") as spool:
            spool.write([row for row in of_run(rows, "raw") if row.process == process])
    cut = raw / "p0.spool"
    cut.write_bytes(cut.read_bytes() + b"\x00\x10")


def test_simulated_runs_hold(spark: SparkSession, simulated: Path, tmp_path: Path) -> None:
    in_other_forms(tmp_path, read_run(simulated / "quiet-lan"))
    steps: list[tuple[str, int, int]] = []
    began = perf_counter()
    report = audit(spark, [simulated, tmp_path], lambda *step: steps.append(step))
    assert report.wall_seconds <= perf_counter() - began < sum(report.seconds.values()), "two are checked at a time"
    assert report.as_json()["seconds"] == round(report.wall_seconds, 3)
    assert report.held
    names = [one.run for one in report.runs]
    assert names == ["crash-restart-1", "mixed-services-1", "parts", "quiet-lan-1", "raw", "spool"]
    assert len({str(one.facts) for one in report.runs[2:]}) == 1
    for one in report.runs:
        for property_id, verdict in one.verdicts.items():
            promises = any(promised(service, property_id) for service in one.facts.services)
            assert verdict == ("held" if promises else "not promised")
    assert all(one.facts.rows["deliver"] > 100 for one in report.runs)
    assert ("properties checked", len(PROPERTIES) - 1, len(PROPERTIES)) in steps
    assert set(report.seconds) == {"reading", *PROPERTIES}
    told = [(one.facts, one.verdicts) for one in report.runs]
    assert told == [(one.facts, one.verdicts) for one in audit_with_monitors([simulated, tmp_path]).runs]


def test_runs_of_one_name_are_told_apart(spark: SparkSession, simulated: Path, tmp_path: Path) -> None:
    shutil.copytree(simulated / "quiet-lan", tmp_path / "copy [1]")
    folders = [simulated / "quiet-lan", tmp_path / "copy [1]", simulated / "crash-restart"]
    rows = read_tables(spark, folders).send.groupBy("run").count().collect()
    expected = [*(f"quiet-lan-1 in {folder}" for folder in folders[:2]), "crash-restart-1"]
    assert sorted(row["run"] for row in rows) == sorted(expected)
    told = [report.run for report in audit_with_monitors(folders).runs]
    assert told == sorted(expected)


def above_its_cap(count: int) -> list[AnyRow]:
    """A process that began as it should, and then more than is kept."""
    return [
        MembershipRow(kind="START", run="gauges", process="a"),
        *(
            GaugeRow(kind="GAUGE", run="gauges", process="a", position=position, name="window", value=2, cap=1)
            for position in range(1, count + 1)
        ),
    ]


OF_TIMESTAMP_ORDER = {
    "swapped_keys",
    "below_the_horizon",
    "cross_group_inversion",
    "dropped_lower_key",
    "dropped_last_of_source",
    "empty_deliveries",
    "moved_start",
    "gap_across_views_of_an_era",
}
"""No service of these scenarios has anything for them to damage: they are applied to sampled traces."""


OF_AGREED_VIEWS = {"M2", "M4", "M5", "M7", "M9", "D3", "D4", "D5", "D6", "D9", "O5", "L1", "L3", "L5", "L10"}
"""In these scenarios few have agreed views: what has too little to damage there is applied to sampled traces too."""
OF_STATES_AND_PROXIES = {"D10", "D11"}
"""Nor has anybody a state in them, or sends for another."""
OF_LEAVERS_AND_ROLES = {
    "delivery_after_leave",
    "send_after_leave",
    "other_role",
    "receiver_that_sends",
    "last_sends_lost",
}
"""Nor does anybody leave, or change its role."""


def damaged_sample(name: str) -> list[AnyRow]:
    for seed in range(200):
        random = Random(seed)
        in_session = name in SESSION_DAMAGES
        sample = good_session_trace(random) if in_session else good_trace(random, groups=("market", "yard"))
        changed = DAMAGES[name].apply(sample, Random(seed))
        if changed is not None:
            return changed
    raise AssertionError(f"{name} fits no sampled trace")


@pytest.mark.usefixtures("spark")
def test_each_damage_to_a_simulated_run_is_named(call: Call, simulated: Path, tmp_path: Path) -> None:
    """All damaged copies are runs of one folder, so that they are one audit."""
    damaged: dict[str, list[AnyRow]] = {}
    for scenario in SCENARIOS:
        rows = read_run(simulated / scenario)
        for name in [name for name in DAMAGES if name not in damaged]:
            changed = DAMAGES[name].apply(rows, Random(1))
            if changed is not None:
                damaged[name] = of_run(changed, name)
    for name in set(DAMAGES) - set(damaged):
        elsewhere = OF_AGREED_VIEWS | OF_STATES_AND_PROXIES
        known = name in OF_TIMESTAMP_ORDER | OF_LEAVERS_AND_ROLES | SESSION_DAMAGES
        assert known or elsewhere & set(DAMAGES[name].breaks), name
    for name in sorted(set(DAMAGES) - set(damaged)):
        damaged[name] = of_run(damaged_sample(name), name)
    assert set(damaged) == set(DAMAGES)
    gauges = above_its_cap(3 * KEPT_VIOLATIONS)
    store(tmp_path / "run", [*(row for rows in damaged.values() for row in rows), *gauges])
    code, out, _ = call("audit", tmp_path / "run", "--json")
    report = json.loads(out)
    assert (code, report["exit"], report["verdict"], report["engine"]) == (1, 1, "violated", "spark")
    found = {one["run"]: one for one in report["runs"]}
    for name in damaged:
        assert set(DAMAGES[name].breaks) <= set(found[name]["counts"]), name
        for property_id in DAMAGES[name].breaks:
            first = next(one for one in found[name]["violations"] if one["property"] == property_id)
            assert first["text"]
            assert property_id in ("L6", "L8", "D4") or first["process"]
            assert property_id in ("L6", "L8", "D4", "W2") or first["position"]  # a life may be wrong from its row 0 on
    assert found["gauges"]["counts"] == {"L7": 3 * KEPT_VIOLATIONS}
    assert [one["position"] for one in found["gauges"]["violations"]] == list(range(1, KEPT_VIOLATIONS + 1))
    by_monitors = json.loads(json.dumps({**audit_with_monitors([tmp_path / "run"]).as_json(), "exit": 1}))
    assert in_any_words(by_monitors) == in_any_words(report)


def in_any_words(report: dict[str, Any]) -> dict[str, Any]:
    """What both engines say alike: all but who says it, how long it took, and the words about a violation."""
    runs = [{**one, "violations": [{**found, "text": ""} for found in one["violations"]]} for one in report["runs"]]
    properties = [{**one, "seconds": 0} for one in report["properties"]]
    return {**report, "engine": "", "seconds": 0, "runs": runs, "properties": properties}


def test_a_damaged_page_within_a_table_is_refused(
    call: Call, simulated: Path, tmp_path: Path, spark: SparkSession
) -> None:
    """The end of the file is whole, so that only reading it all tells."""
    run = tmp_path / "run"
    shutil.copytree(simulated / "quiet-lan", run)
    table = run / "send.parquet"
    data = bytearray(table.read_bytes())
    data[200:260] = bytes(60)
    table.write_bytes(data)
    for engine in ("monitor", "spark"):
        code, out, err = call("audit", run, "--engine", engine)
        assert (code, out) == (2, "")
        assert str(run) in err
        assert "Traceback" not in err
    assert spark is not None


@pytest.fixture
def damaged_run(simulated: Path, tmp_path: Path) -> Path:
    rows = DAMAGES["removed_delivery"].apply(read_run(simulated / "quiet-lan"), Random(3))
    assert rows is not None
    return store(tmp_path / "damaged", rows)


def test_the_command_names_what_is_wrong(call: Call, simulated: Path, damaged_run: Path) -> None:
    code, out, err = call("audit", damaged_run, "--engine", "monitor", "--json")
    report = json.loads(out)
    assert (code, err, report["exit"], report["engine"]) == (1, "", 1, "monitor")
    (one,) = report["runs"]
    first = one["violations"][0]
    assert (first["property"], one["counts"]["O2"]) == ("O2", 1)
    code, out, err = call("audit", damaged_run, simulated, "--engine", "monitor")
    assert (code, err) == (1, "")
    name = f"{first['process']}~{first['incarnation']:x}"
    assert f"O2 in {first['group']} at {name} position {first['position']} message {first['message']}: " in out
    assert "O2: a message of a source in the view was left out" in out
    assert out.endswith("4 runs, 3 held, 1 violated\n")


def test_the_command_says_that_all_held(call: Call, simulated: Path) -> None:
    code, out, err = call("audit", simulated, "--engine", "monitor")
    assert (code, err) == (0, "")
    assert "deliveries audited in" in out
    assert out.endswith("3 runs, 3 held, 0 violated\n")


def empty(run: Path) -> None:
    shutil.rmtree(run)
    run.mkdir()


def foreign(run: Path) -> None:
    empty(run)
    (run / "thesis.txt").write_text("years of work")


def without_marker(run: Path) -> None:
    (run / "COMPLETE").unlink()


def without_a_table(run: Path) -> None:
    (run / "view.parquet").unlink()


def cut_table(run: Path) -> None:
    table = run / "deliver.parquet"
    table.write_bytes(table.read_bytes()[:-100])


def foreign_table(run: Path) -> None:
    shutil.copy(run / "send.parquet", run / "deliver.parquet")


def of_another_version(run: Path) -> None:
    (run / "COMPLETE").write_text("99\n")


def without_rows(run: Path) -> None:
    store(run, [])


def cut_spool(run: Path) -> None:
    rows = read_run(run)
    store(run, rows, "spool")
    spool = run / "trace.spool"
    spool.write_bytes(spool.read_bytes()[:-1])


def gone(run: Path) -> None:
    shutil.rmtree(run)


def a_file(run: Path) -> None:
    shutil.rmtree(run)
    run.write_text("years of work and more, as long as a header of a spool would be")


@pytest.mark.parametrize("engine", ["monitor", "spark"])
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (empty, "is empty: there is no run in it"),
        (foreign, "holds no run of unisono"),
        (without_marker, "not a complete run: it has no COMPLETE file"),
        (without_a_table, "view.parquet"),
        (cut_table, "cannot read"),
        (foreign_table, "other columns"),
        (of_another_version, "schema version 99"),
        (without_rows, "a run without a row"),
        (cut_spool, "is damaged"),
        (gone, "no such file or directory"),
        (a_file, "is not a spool"),
    ],
)
def test_what_is_no_whole_run_is_refused_with_a_word(
    call: Call, simulated: Path, tmp_path: Path, spoil: Callable[[Path], None], words: str, engine: str
) -> None:
    """With Spark too, before it starts."""
    target = tmp_path / "run"
    shutil.copytree(simulated / "quiet-lan", target)
    spoil(target)
    code, out, err = call("audit", target, "--engine", engine)
    assert (code, out) == (2, "")
    assert words in err
    assert str(target) in err
    assert "Traceback" not in err


def test_a_master_is_for_spark(call: Call, simulated: Path) -> None:
    code, _, err = call("audit", simulated, "--engine", "monitor", "--master", "local[1]")
    assert code == 2
    assert "only Spark has a master" in err
