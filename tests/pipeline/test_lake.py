"""The lake: three layers a run, whole or not there, read by anybody, with the columns that its page names."""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from tests.pipeline.conftest import Call
from unisono.errors import TraceError
from unisono.pipeline.measures.catalogue import MEASURES
from unisono.pipeline.workplace import Workplace
from unisono.properties.damages import DAMAGES
from unisono.properties.registry import PROPERTIES
from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.world import run
from unisono.trace.catalogue import Entry, append
from unisono.trace.parquet import arrow_schema, read_tables, table_files
from unisono.trace.run_directory import read_run, write_run
from unisono.trace.schema import FAMILIES, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs"
LITTLE = ("duration=1s", "settle=2s", "workload[0].rate=5")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of other forms: one in parts, one as a spool, the second damaged; the first is in a catalogue."""
    folder = tmp_path_factory.mktemp("runs")
    run(draw(load("quiet-lan", LITTLE), 1), folder / "made")
    rows = read_run(folder / "made")
    summary = {"scenario": "quiet-lan", "seed": 1}
    shutil.rmtree(folder / "made")
    write_run(folder / "good", rows, scenario_text="x = 1\n", summary=summary, form="parquet", part_rows=30)
    append(folder, [Entry(run="good", made="2026-01-01T00:00:00Z", seed=1, options={"loss": "0"}, commit="abc")])
    from unisono.cli.damage import damaged

    broken, _ = damaged(rows, DAMAGES["doubled_delivery"], 0)
    write_run(folder / "broken", broken, scenario_text="", summary={}, form="spool")
    return folder


@pytest.fixture(scope="module")
def lake(spark: SparkSession, runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The good run, and then both as one batch, built by the command."""
    from unisono.cli.main import run as command

    target = tmp_path_factory.mktemp("around") / "lake"
    for arguments in ([runs / "good"], [runs, "--batch", "both/of them"]):
        with pytest.raises(SystemExit) as ended:
            command(["lake", "build", *map(str, arguments), "--into", str(target), "--engine", "monitor", "--json"])
        assert ended.value.code == 0
    assert spark is not None
    return target


@pytest.mark.usefixtures("spark")
def test_a_lake_has_three_layers_of_each_run(runs: Path, lake: Path) -> None:
    names = ["both%2Fof them", "quiet-lan-1"]
    assert sorted(path.name for path in lake.iterdir() if path.is_dir()) == names
    for name in names:
        assert sorted(path.name for path in (lake / name).iterdir()) == ["BUILT", "joined", "raw", "results"]
        told = json.loads((lake / name / "BUILT").read_text())
        assert told["runs"] == ["quiet-lan-1", "quiet-lan-1-doubled_delivery"][: 2 if "both" in name else 1]
    assert read_run(lake / names[1] / "raw") == read_run(runs / "good")
    assert len(table_files(lake / names[1] / "raw", "deliver")) > 1
    both = sorted(map(repr, read_tables(lake / names[0] / "raw")))
    assert both == sorted(map(repr, [*read_run(runs / "good"), *read_run(runs / "broken")]))
    assert (lake / names[1] / "raw" / "scenario.toml").read_text() == "x = 1\n"


def test_a_lake_is_read_by_plain_spark(spark: SparkSession, runs: Path, lake: Path) -> None:
    verdicts = spark.read.parquet(f"{lake}/*/results/verdicts.parquet").collect()
    violated = {(row["run"], row["property"]) for row in verdicts if row["verdict"] == "violated"}
    assert {name for name, _ in violated} == {"quiet-lan-1-doubled_delivery"}
    assert "D2" in {name for _, name in violated}
    assert {row["engine"] for row in verdicts} == {"monitor"}
    good = [row for row in verdicts if row["run"] == "quiet-lan-1"]
    assert sorted(row["property"] for row in good) == sorted(2 * list(PROPERTIES))  # alone and in the batch
    messages = spark.read.parquet(f"{lake}/quiet-lan-1/joined/messages.parquet").collect()
    sent = [row for row in read_run(runs / "good") if row.kind == "SEND"]
    assert sorted((row["source"], row["number"]) for row in messages) == sorted(
        (row.process, row.number) for row in sent if hasattr(row, "number")
    )
    assert {row["deliveries"] for row in messages} == {3}
    measures = spark.read.parquet(f"{lake}/*/results/measures.parquet").collect()
    latencies = {
        row["value"]
        for row in measures
        if (row["run"], row["measure"], row["key"]) == ("quiet-lan-1", "latency", "max")
    }
    assert latencies == {max(row["latency"] for row in messages)}


def test_the_page_names_every_column(spark: SparkSession, lake: Path) -> None:
    page = (DOCS / "lake.md").read_text(encoding="utf-8")
    for layer, table in (("joined", "messages"), ("joined", "views"), ("results", "verdicts"), ("results", "measures")):
        section = page.partition(f"### {table}\n")[2].partition("\n#")[0]
        told = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE)
        schema = spark.read.parquet(f"{lake}/quiet-lan-1/{layer}/{table}.parquet").schema
        assert [(name, html.unescape(kind)) for name, kind in told] == [
            (field.name, field.dataType.simpleString()) for field in schema
        ]
    raw = page.partition("## Raw\n")[2].partition("\n## ")[0]
    common = Row.__struct_fields__
    for family in FAMILIES:
        fields = {field.name: field.dataType.simpleString() for field in from_arrow_schema(arrow_schema(family))}
        for name in common:
            assert re.search(rf"`{name}`\s+{fields[name]}\b", raw)
        columns = ", ".join(f"`{name}` {kind}" for name, kind in fields.items() if name not in common)
        assert f"| `{family}` | {columns} |" in raw


def test_the_page_of_measures_has_every_measure() -> None:
    page = (DOCS / "measures.md").read_text(encoding="utf-8")
    for item in MEASURES.values():
        unit = f"{item.unit}, distribution" if item.distribution else item.unit
        assert f"| `{item.name}` | {unit} | {item.says} | {item.needs} |" in page
    assert page.count("\n| `") == len(MEASURES) + 5  # and the keys of the comparison


@pytest.mark.usefixtures("spark")
def test_the_catalogue_of_a_lake_knows_what_the_run_was(call: Call, lake: Path) -> None:
    code, out, _ = call("runs", lake, "--json")
    listed = {one["run"]: one for one in json.loads(out)["runs"]}
    assert code == 0
    assert all(one["there"] for one in listed.values())
    good = listed["quiet-lan-1"]
    assert (good["seed"], good["options"], good["commit"], good["held"]) == (1, {"loss": "0"}, "abc", True)
    both = listed["both%2Fof them"]
    assert (both["seed"], both["verdict"], both["violations"]["D2"]) == (None, "violated", 1)
    code, out, _ = call("audit", lake / "quiet-lan-1", "--engine", "monitor", "--json")
    assert (code, json.loads(out)["runs"][0]["run"]) == (0, "quiet-lan-1")


def test_a_run_is_replaced_as_a_whole_or_not_at_all(
    spark: SparkSession, runs: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unisono.pipeline import lake as module

    place = lake / "quiet-lan-1"
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    with Workplace(lake) as own:
        killed = own.with_name(f"{own.name.partition('~')[0]}~4194305~7")  # higher than any process number
    (killed / "half").mkdir(parents=True)

    def fail(paths: list[Path]) -> None:
        assert [path.name for path in paths[0].parent.iterdir()] == ["raw"]  # the new one is there in part
        assert not killed.exists()
        raise TraceError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(module, "audit_with_monitors", fail)
        with pytest.raises(TraceError, match="the disk is full"):
            module.build(spark, [runs / "good"], lake, engine="monitor")
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before
    assert not (lake / ".work").exists()


def test_runs_of_one_name_are_not_mixed(spark: SparkSession, runs: Path, tmp_path: Path) -> None:
    from unisono.pipeline.lake import build

    shutil.copytree(runs / "good", tmp_path / "copy")
    for batch in (None, "both"):
        with pytest.raises(TraceError, match="are both called quiet-lan-1"):
            build(spark, [runs / "good", tmp_path / "copy"], tmp_path / "lake", batch)
    (tmp_path / "lake" / "quiet-lan-1").mkdir()
    (tmp_path / "lake" / "quiet-lan-1" / "thesis.txt").write_text("years of work")
    with pytest.raises(TraceError, match="is in the way"):
        build(spark, [runs / "good"], tmp_path / "lake", engine="monitor")
    assert (tmp_path / "lake" / "quiet-lan-1" / "thesis.txt").exists()
