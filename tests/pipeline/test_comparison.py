"""The page of several runs: what differs between a run and its damaged copy is told at once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from tests.pipeline.conftest import Call
from unisono.errors import TraceError
from unisono.pipeline.monitor_audit import audit_rows, audit_with_monitors
from unisono.pipeline.pages.comparison import verdict_rows, write_comparison
from unisono.pipeline.pages.story import Story, story
from unisono.pipeline.pages.trace_columns import TraceTables
from unisono.pipeline.pages.trace_difference import difference
from unisono.properties.damages import DAMAGES
from unisono.properties.generator import good_trace
from unisono.properties.registry import PROPERTIES
from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.world import World
from unisono.trace.parquet import write_tables
from unisono.trace.run_directory import write_run
from unisono.trace.schema import AnyRow

Place = Callable[[str, list[AnyRow]], Path]


@pytest.fixture(scope="module")
def chaos() -> list[AnyRow]:
    world = World(draw(load("chaos"), 3), keep_rows=True)
    world.run()
    return world.rows


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Writes a run into a folder of its own."""

    def writing(name: str, rows: list[AnyRow]) -> Path:
        write_run(tmp_path / name, rows, scenario_text="", summary={})
        return tmp_path / name

    return writing


def damaged(rows: list[AnyRow], name: str) -> list[AnyRow]:
    found = DAMAGES[name].apply(rows, Random(1))
    assert found is not None
    return found


@pytest.mark.parametrize("damage", ["removed_delivery", "late_duplicate"])
def test_a_run_and_its_damaged_copy_are_told_apart(
    chaos: list[AnyRow], place: Place, tmp_path: Path, call: Call, damage: str
) -> None:
    wrong = damaged(chaos, damage)
    (report,) = audit_rows(wrong)
    assert set(DAMAGES[damage].breaks) <= set(report.counts)
    code, output, _ = call(
        "report", place("good", chaos), place("bad", wrong), "--engine", "monitor", "--out", tmp_path / "both.html"
    )
    assert (code, "a promise was broken" in output) == (0, True)
    page = (tmp_path / "both.html").read_text(encoding="utf-8")
    broken = list(report.counts)
    assert f"≠ chaos-3 (bad) breaks {', '.join(broken)}, which chaos-3 (good) keeps." in page
    for property_id in broken:
        row = re.search(rf'<tr class="differs"><th scope="row">{property_id} .*?</tr>', page, re.DOTALL)
        assert row is not None
        assert row[0].index('"badge held"') < row[0].index('"badge violated"')
        assert f'href="#run-2-{property_id.lower()}-1"' in row[0]
        assert f'id="run-2-{property_id.lower()}-1"' in page
    assert page.count("Only in chaos-3 (good)") == (damage == "removed_delivery")
    assert page.count('class="picture space-time"') == len(broken)
    assert page.count("Who was there when in group g") == 2
    assert len(page) < 3_000_000


def test_equal_runs_are_alike(chaos: list[AnyRow], place: Place, tmp_path: Path) -> None:
    paths = [place("one", chaos), place("two", chaos)]
    write_comparison(paths, audit_with_monitors(paths), tmp_path / "both.html")
    page = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert "= chaos-3 (one) and chaos-3 (two) both keep every promise." in page
    assert "The two traces have the same rows." in page
    assert 'class="differs"' not in page
    ratios = re.findall('<td class="n">(same|\N{MULTIPLICATION SIGN} [^<]*)</td>', page)
    assert ratios
    assert set(ratios) == {"same"}


def test_measures_have_their_ratio_to_the_first(place: Place, tmp_path: Path) -> None:
    rows = good_trace(Random(4))
    fewer = [row for row in rows if row.kind != "SEND" or row.position % 2]
    paths = [place("one", rows), place("two", [replace(row, run="two") for row in fewer])]
    write_comparison(paths, audit_with_monitors(paths), tmp_path / "both.html")
    page = (tmp_path / "both.html").read_text(encoding="utf-8")
    sent = [sum(row.kind == "SEND" for row in some) for some in (rows, fewer)]
    assert sent[1] < sent[0]
    row = re.search(r'<th scope="row">messages sent</th>(.*?)</tr>', page)
    assert row is not None
    assert re.findall(r'class="n">([^<]*)<', row[1]) == [
        str(sent[0]),
        str(sent[1]),
        f"\N{MULTIPLICATION SIGN} {sent[1] / sent[0]:.3g}",
    ]


def told(folder: Path, rows: list[AnyRow]) -> tuple[TraceTables, Story]:
    folder.mkdir()
    write_tables(folder, rows)
    tables = TraceTables(folder)
    return tables, story(tables)


def test_the_difference_is_the_damage(tmp_path: Path) -> None:
    rows = good_trace(Random(7), events=60)
    first = told(tmp_path / "first", rows)
    for name in ("removed_delivery", "changed_body", "swapped_deliveries"):
        wrong = damaged(rows, name)
        found = difference(*first, *told(tmp_path / name, wrong))
        assert found is not None
        counts = {"removed_delivery": (1, 0), "changed_body": (1, 1)}.get(name)
        assert counts in (None, (found.count_first, found.count_second))
        assert found.reordered or found.count_first
    other = difference(*first, *told(tmp_path / "other", good_trace(Random(8), events=60)))
    assert other is None


def test_what_differs_comes_first() -> None:
    rows = good_trace(Random(7), events=60)
    reports = [*audit_rows(rows), *audit_rows(damaged(rows, "removed_delivery"))]
    compared = verdict_rows(reports)
    assert [row.id for row in compared if row.differs] == [row.id for row in compared[: len(reports[1].counts)]]
    assert {row.id for row in compared} == set(PROPERTIES)


def test_a_run_is_not_compared_with_itself(chaos: list[AnyRow], place: Place, tmp_path: Path, call: Call) -> None:
    path = place("one", chaos)
    code, output, complaint = call("report", path, path, "--engine", "monitor", "--out", tmp_path / "both.html")
    assert (code, output) == (2, "")
    assert "cannot be compared with itself" in complaint
    (tmp_path / "many").mkdir()
    with pytest.raises(TraceError, match="is empty"):
        write_comparison([path, tmp_path / "many"], audit_with_monitors([path]), tmp_path / "both.html")


def test_the_command_says_where_the_page_is(chaos: list[AnyRow], place: Place, tmp_path: Path, call: Call) -> None:
    out = tmp_path / "both.html"
    code, output, _ = call(
        "report", place("one", chaos), place("two", chaos), "--engine", "monitor", "--json", "--out", out
    )
    answer = json.loads(output)
    assert (code, answer["page"], answer["engine"], len(answer["runs"])) == (0, str(out), "monitor", 2)
    assert out.is_file()
