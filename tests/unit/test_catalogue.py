"""The catalogue of runs: what commands write is listed, whatever happened to the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unisono.cli.main import app
from unisono.errors import TraceError
from unisono.trace.catalogue import CATALOGUE, Entry, append, entries


def entry(run: str, seed: int = 0, **violations: int) -> Entry:
    return Entry(
        run=run,
        made="2024-05-01T12:00:00Z",
        command="unisono simulate quiet-lan",
        scenario="quiet-lan",
        seed=seed,
        commit=None,
        violations=violations,
    )


def test_the_last_line_about_a_run_counts(tmp_path: Path) -> None:
    append(tmp_path, [entry("a", 1), entry("b", 2)])
    append(tmp_path, [entry("a", 3, D1=2)])
    assert [(one.run, one.seed, one.held) for one in entries(tmp_path)] == [("b", 2, True), ("a", 3, False)]


@pytest.mark.parametrize("lost", [1, 2, 20])
def test_a_cut_catalogue_is_read_and_goes_on(tmp_path: Path, lost: int) -> None:
    append(tmp_path, [entry("a"), entry("b")])
    path = tmp_path / CATALOGUE
    path.write_bytes(path.read_bytes()[:-lost])
    append(tmp_path, [entry("c")])
    assert [one.run for one in entries(tmp_path)] == (["a", "b", "c"] if lost == 1 else ["a", "c"])


def test_lines_that_are_not_ours_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / CATALOGUE).write_bytes(b'\xff\xfe\n[]\n{"run": 3}\n')
    assert entries(tmp_path) == []


def test_a_folder_without_a_catalogue_says_so(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="has no catalogue of runs"):
        entries(tmp_path)


def test_simulate_writes_what_runs_lists(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    call = ["simulate", "quiet-lan", "--set", "duration=1s", "--set", "settle=3s"]
    for _ in range(2):
        done = CliRunner().invoke(app, [*call, "--seeds", "0:2", "--keep", "all", "--jobs", "1", "--out", str(out)])
        assert done.exit_code == 0, done.output
    listed = json.loads(CliRunner().invoke(app, ["runs", str(out), "--json"]).stdout)["runs"]
    assert [(one["run"], one["seed"], one["held"], one["there"]) for one in listed] == [
        ("seed-0", 0, True, True),
        ("seed-1", 1, True, True),
    ]
    assert listed[1]["command"] == "unisono simulate quiet-lan --seed 1 --set duration=1s --set settle=3s"
    assert "seed-1" in CliRunner().invoke(app, ["runs", str(out)]).stdout
