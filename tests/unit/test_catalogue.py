"""The catalogue of runs: what commands write is listed, whatever happened to the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unisono.cli.main import app
from unisono.errors import TraceError
from unisono.trace.catalogue import CATALOGUE, Entry, append, entries
from unisono.trace.run_directory import read_run


def entry(run: str, seed: int = 0, **violations: int) -> Entry:
    return Entry(
        run=run,
        made="2024-05-01T12:00:00Z",
        command="unisono simulate quiet-lan",
        scenario="quiet-lan",
        seed=seed,
        violations=violations,
    )


OLD_LINE = (
    '{"run":"old","made":"2024-05-01T12:00:00Z","command":"unisono demo","scenario":"demo","seed":0,"commit":null,'
    '"violations":{"D1":0}}'
)
"""As it was written before there were options and rows."""


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
    options = {"service": "RSO", "members": "3", "size": "200", "duration": "1s", "settle": "3s"}
    assert listed[1]["options"] == options
    assert listed[1]["rows"] == len(read_run(out / "seed-1"))


def test_what_is_not_known_has_defaults(tmp_path: Path) -> None:
    append(tmp_path, [Entry(run="new", made="2024-05-02T12:00:00Z")])
    path = tmp_path / CATALOGUE
    path.write_text(OLD_LINE + "\n" + path.read_text())
    old, new = entries(tmp_path)
    assert (old.verdict, old.options, old.rows) == ("held", {}, None)
    assert (new.verdict, new.held, new.seed, new.scenario) == ("not audited", False, None, "")


@pytest.fixture
def catalogued(tmp_path: Path) -> Path:
    made = [
        Entry(
            run=f"seed-{seed}",
            made=f"2024-05-{seed + 1:02}T12:00:00Z",
            scenario="chaos" if seed % 2 else "quiet-lan",
            seed=seed,
            commit="abc123" if seed < 5 else "def456-changed",
            options={"loss": str(seed % 3)},
            rows=100 - seed,
            violations={"D1": 0, "O2": 2 if seed in (3, 7) else 0, "L4": 1 if seed == 7 else 0},
        )
        for seed in range(10)
    ]
    append(tmp_path, [*made, Entry(run="real", made="2024-06-01T12:00:00Z")])
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--scenario", "chaos"], [1, 3, 5, 7, 9]),
        (["--seed", "2:5"], [2, 3, 4]),
        (["--seed", "9"], [9]),
        (["--since", "2024-05-08"], [7, 8, 9, None]),
        (["--since", "2024-05-10T13:30:00+02:00"], [9, None]),
        (["--since", "1d"], []),
        (["--violated"], [3, 7]),
        (["--violates", "L4"], [7]),
        (["--violates", "L4", "--violates", "O2"], [7]),
        (["--violates", "D1"], []),
        (["--held", "--seed", "2:5"], [2, 4]),
        (["--commit", "abc", "--option", "loss=1"], [1, 4]),
        (["--commit", "def456-changed", "--sort", "rows"], [9, 8, 7, 6, 5]),
        (["--seed", "0:3", "--sort", "seed", "--reverse"], [2, 1, 0]),
        (["--sort", "verdict", "--seed", "6:9"], [6, 8, 7]),
    ],
)
def test_runs_are_filtered_and_sorted(catalogued: Path, arguments: list[str], expected: list[int | None]) -> None:
    done = CliRunner().invoke(app, ["runs", str(catalogued), "--json", *arguments])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["format"], told["exit"]) == (2, 0)
    assert [one["seed"] for one in told["runs"]] == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seed", "x"],
        ["--since", "tomorrow"],
        ["--option", "loss"],
        ["--violates", "Z9"],
        ["--held", "--violated"],
        ["--sort", "size"],
    ],
)
def test_what_no_filter_understands_is_refused(catalogued: Path, arguments: list[str]) -> None:
    done = CliRunner().invoke(app, ["runs", str(catalogued), *arguments])
    assert done.exit_code == 2
    assert "Traceback" not in done.output


def test_the_table_tells_verdicts_and_options(catalogued: Path) -> None:
    shown = CliRunner().invoke(app, ["runs", str(catalogued), "--seed", "7"], env={"COLUMNS": "200"}).stdout
    assert "violates O2 (2), L4 (1)" in shown
    assert "loss=1" in shown
    assert "seed-7 (gone)" in shown
    assert "not audited" in CliRunner().invoke(app, ["runs", str(catalogued), "--since", "2024-06-01"]).stdout
