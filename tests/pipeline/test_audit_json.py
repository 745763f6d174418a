"""`unisono audit --json` can be scripted: its shape is pinned, every key is documented, and damage shows in it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.conftest import Call
from tests.pipeline.test_measures import deliver, send
from unisono.properties.damages import DAMAGES, SESSION_DAMAGES
from unisono.properties.monitors.monitor import KEPT_VIOLATIONS
from unisono.trace.run_directory import write_run
from unisono.trace.schema import AnyRow, GaugeRow, MembershipRow
from unisono.trace.spool import SpoolWriter

GOLDEN = Path(__file__).parent / "golden" / "audit.json"
"""UNISONO_REWRITE=1 writes it anew: commit only what you can explain, and raise FORMAT where a key changed or went."""
DOCS = Path(__file__).parents[2] / "docs"


def small_trace(run: str) -> list[AnyRow]:
    """Three messages of one sender and nothing else: nobody began, joined or installed a view, and rows are missing."""
    rows: list[AnyRow] = []
    for number in (1, 2, 3):
        rows.append(send(number, number, run=run, service="RSO"))
        rows.append(deliver("b", number, number + 0.5, run=run, service="RSO"))
    rows.append(deliver("b", 2, 5, run=run, service="RSO", position=200))
    rows.append(deliver("b", 9, 6, run=run, service="RSO", position=201, body=7))
    return rows


def above_its_cap(count: int) -> list[AnyRow]:
    """More violations than are kept, the last ones first, of processes that began as they should."""
    rows: list[AnyRow] = []
    for name in ("b", "a"):
        rows.append(MembershipRow(kind="START", run="gauges", process=name))
        rows += [
            GaugeRow(kind="GAUGE", run="gauges", process=name, position=position, name="window", value=2, cap=1)
            for position in range(1, count + 1)
        ]
    return rows


def without_times(report: dict[str, Any]) -> dict[str, Any]:
    for one in report["properties"]:
        assert one.pop("seconds") >= 0
    assert report.pop("seconds") >= 0
    return report


def audited(call: Call, run: Path) -> tuple[int, dict[str, Any]]:
    code, out, err = call("audit", run, "--engine", "monitor", "--json")
    assert err == ""
    return code, json.loads(out)


def test_the_object_is_as_it_was(call: Call, tmp_path: Path) -> None:
    rows = [*small_trace("z"), *small_trace("a"), *above_its_cap(KEPT_VIOLATIONS)]
    write_run(tmp_path / "run", rows, scenario_text="", summary={})
    code, report = audited(call, tmp_path / "run")
    assert code == 1
    found = json.dumps(without_times(report), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("UNISONO_REWRITE"):
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")


def test_a_spool_that_was_cut_is_named_beside_the_violations(call: Call, tmp_path: Path) -> None:
    rows = small_trace("a")
    for process in ("a", "b"):
        with SpoolWriter(tmp_path / f"{process}.spool", "a") as spool:
            for row in [row for row in rows if row.process == process]:
                spool.write([row])
    assert audited(call, tmp_path)[0] == 1, "as whole as it is, nobody is told of a cut"
    cut = tmp_path / "a.spool"
    cut.write_bytes(cut.read_bytes()[:-3])
    code, out, err = call("audit", tmp_path, "--engine", "monitor", "--json")
    assert (code, json.loads(out)["runs"][0]["counts"]["D1"]) == (1, 2)
    (line,) = err.splitlines()
    assert re.fullmatch(
        rf"unisono: {cut} was cut after \d+ bytes: what its process did last is missing; a violation may come of that",
        line,
    )


def test_the_first_violations_are_those_that_stand_first(call: Call, tmp_path: Path) -> None:
    write_run(tmp_path / "run", above_its_cap(3 * KEPT_VIOLATIONS), scenario_text="", summary={})
    _, report = audited(call, tmp_path / "run")
    (one,) = report["runs"]
    assert one["counts"] == {"L7": 6 * KEPT_VIOLATIONS}
    assert [(found["process"], found["position"]) for found in one["violations"]] == [
        ("a", position) for position in range(1, KEPT_VIOLATIONS + 1)
    ]


def test_every_key_is_on_the_page(call: Call, tmp_path: Path) -> None:
    write_run(tmp_path / "run", small_trace("a"), scenario_text="", summary={})
    _, report = audited(call, tmp_path / "run")
    section = (DOCS / "audits.md").read_text(encoding="utf-8").partition("## The object for scripts\n")[2]
    told = set(re.findall(r"^\| `([^`]+)` \|", section.partition("\n## ")[0], re.MULTILINE))
    by_name = {"runs[].facts.rows", "runs[].verdicts", "runs[].counts"}  # their keys are families and properties
    assert told == set(keys(report, by_name))


def keys(value: dict[str, Any], leaves: set[str], around: str = "") -> list[str]:
    found = []
    for name, inner in value.items():
        path = f"{around}{name}"
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            found += [f"{path}[]", *keys(inner[0], leaves, f"{path}[].")]
        elif isinstance(inner, dict) and path not in leaves:
            found += keys(inner, leaves, f"{path}.")
        else:
            found.append(path)
    return found


@pytest.fixture(scope="module")
def chaos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from unisono.simulation.draw import draw
    from unisono.simulation.library import load
    from unisono.simulation.world import run

    target = tmp_path_factory.mktemp("chaos") / "run"
    run(draw(load("chaos"), 3), target)
    return target


@pytest.mark.parametrize("kind", ["removed_delivery", "changed_body", "late_duplicate", "removed_view"])
def test_a_damaged_copy_of_chaos_is_told_from_it(call: Call, chaos: Path, tmp_path: Path, kind: str) -> None:
    code, out, _ = call("damage", chaos, "--kind", kind, "--out", tmp_path / "damaged", "--json")
    told = json.loads(out)
    assert (code, told["damage"], told["breaks"]) == (0, kind, list(DAMAGES[kind].breaks))
    code, good = audited(call, chaos)
    assert (code, good["verdict"], good["runs"][0]["violations"]) == (0, "held", [])
    code, bad = audited(call, tmp_path / "damaged")
    (one,) = bad["runs"]
    assert (code, bad["verdict"], one["run"]) == (1, "violated", f"chaos-3-{kind}")
    assert set(DAMAGES[kind].breaks) <= set(one["counts"])
    for property_id in DAMAGES[kind].breaks:
        first = next(found for found in one["violations"] if found["property"] == property_id)
        assert first["process"]
        assert first["position"] > 0
        assert first["text"]
    different = {
        first["id"]
        for first, second in zip(good["properties"], bad["properties"], strict=True)
        if first["verdict"] != second["verdict"]
    }
    assert different == set(one["counts"])


def test_a_kind_that_has_nothing_to_break_names_others_that_have(call: Call, tmp_path: Path) -> None:
    from unisono.simulation.draw import draw
    from unisono.simulation.library import load
    from unisono.simulation.world import run

    run(draw(load("vs-weak", ["duration=6s"]), 1), tmp_path / "weak")
    code, out, err = call("damage", tmp_path / "weak", "--kind", "decreasing_timestamp", "--out", tmp_path / "x")
    assert (code, out) == (2, "")
    named = err.partition("has nothing to break in this run; these kinds have: ")[2].strip().split(", ")
    assert len(named) > 1
    assert set(named) & SESSION_DAMAGES
    for kind in named:
        assert call("damage", tmp_path / "weak", "--kind", kind, "--out", tmp_path / kind)[0] == 0
        assert set(DAMAGES[kind].breaks) <= set(audited(call, tmp_path / kind)[1]["runs"][0]["counts"])


@pytest.mark.parametrize("columns", ["60", "80"])
def test_names_of_damages_are_whole_on_any_screen(call: Call, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    _, out, _ = call("damage", "--list")
    shown = {line.split()[0]: line.split()[1] for line in out.splitlines() if len(line.split()) > 1}
    assert set(DAMAGES) <= set(shown)
    assert (shown["changed_body"], shown["session_gap"], shown["removed_view"]) == ("both", "sessions", "groups")
    _, out, _ = call("damage", "--list", "--json")
    assert all(one["for"] == shown[one["name"]] for one in json.loads(out)["kinds"])


def test_damages_are_listed_and_refused_with_a_word(call: Call, chaos: Path, tmp_path: Path) -> None:
    code, out, _ = call("damage", "--list", "--json")
    assert (code, {one["name"] for one in json.loads(out)["kinds"]}) == (0, set(DAMAGES))
    code, out, _ = call("damage", "--list")
    assert code == 0
    assert "removed_delivery" in out
    for arguments, words in (
        ((chaos, "--kind", "nothing", "--out", tmp_path / "x"), "--list shows the kinds"),
        ((chaos, "--kind", "removed_delivery"), "where to write the copy"),
        ((tmp_path, "--kind", "removed_delivery", "--out", tmp_path / "x"), "is empty"),
        ((chaos, "--kind", "handed_twice", "--out", tmp_path / "x"), "has nothing to break in this run"),
    ):
        code, out, err = call("damage", *arguments)
        assert (code, out) == (2, "")
        assert words in err
    assert not (tmp_path / "x").exists()
