"""`unisono simulate`: what it prints, where, and the code it exits with."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from unisono import __version__
from unisono.cli.main import run
from unisono.properties.violation import Violation
from unisono.simulation.library import builtin_names, load
from unisono.simulation.outcome import Outcome
from unisono.simulation.scenario import Scenario
from unisono.simulation.scenario_file import read_scenario
from unisono.trace.run_directory import is_run_directory, write_run

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """The command in this process: exit code, stdout, stderr."""

    def calling(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            run(arguments)
        captured = capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), captured.out, captured.err

    return calling


@pytest.fixture
def violated(monkeypatch: pytest.MonkeyPatch) -> dict[int, tuple[str, ...]]:
    """A simulator that violates, for each seed, what this says; seed 13 breaks an assertion."""
    broken: dict[int, tuple[str, ...]] = {}

    def fake_run(scenario: Scenario, out: Path | None = None) -> Outcome:
        assert scenario.seed is not None
        assert scenario.seed != 13, "the window is whole"
        names = broken.get(scenario.seed, ())
        if out is not None:
            write_run(out, [], scenario_text="", summary={}, form="spool")
        return Outcome(
            scenario=scenario.name,
            seed=scenario.seed,
            verdicts={"D1": 0, "O2": 0} | dict.fromkeys(names, 1),
            violations=[Violation(name, "g", "p1", 31, 117, "p0~1f/7", "number 7 after 5") for name in names],
            marks={"gap": scenario.seed},
            counters={"sent": 600, "delivered": 1800, "lost": 12},
            events=5000,
            seconds=0.25,
        )

    world = ModuleType("unisono.simulation.world")
    world.run = fake_run  # type: ignore[attr-defined]  # the part of the simulator that the command uses
    monkeypatch.setitem(sys.modules, "unisono.simulation.world", world)
    return broken


def test_version_and_help(call: Call) -> None:
    assert call("--version") == (0, f"{__version__}\n", "")
    code, out, _ = call("--help")
    assert code == 0
    assert "Example: unisono simulate" in out
    code, out, _ = call("simulate", "--help")
    assert code == 0
    assert "unisono simulate chaos --seeds 0:500" in out


def test_it_is_a_module_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unisono", "simulate", "nowhere.toml"],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert done.returncode == 2
    assert done.stderr == "unisono: nowhere.toml: cannot be read: No such file or directory\n"


def test_list(call: Call) -> None:
    code, out, _ = call("simulate", "--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(builtin_names())
    assert load("wan").says in out
    code, out, _ = call("simulate", "--list", "--json")
    assert [row["name"] for row in json.loads(out)["scenarios"]] == list(builtin_names())


def test_explain(call: Call) -> None:
    code, out, _ = call("simulate", "chaos", "--seed", "3", "--set", "loss=0.1", "--explain")
    assert code == 0
    explained = read_scenario(out)
    assert (explained.seed, explained.random, explained.network.loss) == (3, None, 0.1)
    assert call("simulate", "chaos", "--seed", "3", "--set", "loss=0.1", "--explain", "--json")[1] == (
        json.dumps({"scenario": "chaos", "seed": 3, "text": out}, indent=2, ensure_ascii=False) + "\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name a scenario or a file"),
        (["chas"], 'did you mean "chaos"?'),
        (["chaos", "--seed", "-1"], "--seed"),
        (["chaos", "--seed", "x"], "--seed"),
        (["chaos", "--seed", "1", "--seeds", "1:2"], "give either --seed or --seeds"),
        (["chaos", "--seeds", "5"], "expected A:B"),
        (["chaos", "--seeds", "5:5"], "expected A:B"),
        (["chaos", "--seeds", "0:5", "--explain"], "explains one seed"),
        (["chaos", "--set", "loss=2"], "chaos.toml: network.loss: expected a rate from 0 to 1, got 2"),
        (["chaos", "--set", "los=2"], 'did you mean "loss"?'),
        (["chaos", "--jobs", "0"], "--jobs"),
        (["chaos", "--keep", "some"], "--keep"),
        (["chaos", "--nonsense"], "--nonsense"),
        (["chaos", "--live", "--real"], "give either --real or --live"),
        (["chaos", "--realm", "here"], "add --live"),
        (["one-way", "--live"], "cannot be made on the loopback"),
        (["."], "cannot be read: Is a directory"),
    ],
)
def test_misuse(call: Call, arguments: list[str], words: str) -> None:
    code, out, err = call("simulate", *arguments)
    assert (code, out) == (2, "")
    assert words in " ".join(err.split())
    assert "Traceback" not in err


def test_a_file_that_cannot_be_read_is_named_with_its_line(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\n[network]\nloss = 5\n')
    assert call("simulate", str(file)) == (
        2,
        "",
        f"unisono: {file}:3: network.loss: expected a rate from 0 to 1, got 5\n",
    )
    file.write_bytes(b'name = "x"\nsays = "\xff"\n')
    assert call("simulate", str(file)) == (2, "", f"unisono: {file}:2: not UTF-8 text\n")


@pytest.mark.usefixtures("violated")
def test_one_seed_that_held(call: Call, tmp_path: Path) -> None:
    out_directory = tmp_path / "run"
    code, out, err = call("simulate", "quiet-lan", "--out", str(out_directory))
    assert (code, err) == (0, "")
    assert "quiet-lan seed 0 held" in out
    assert "delivered" in out
    assert f"trace: {out_directory}" in out
    assert is_run_directory(out_directory)


def test_one_seed_that_did_not(call: Call, violated: dict[int, tuple[str, ...]]) -> None:
    violated[4] = ("O2",)
    code, out, _ = call("simulate", "quiet-lan", "--seed", "4", "--set", "says=two words")
    assert code == 1
    assert "O2 in g at p1~1f position 117 message p0~1f/7: number 7 after 5" in out
    assert "quiet-lan seed 4 violates O2 (1)" in out
    assert "replay: unisono simulate quiet-lan --seed 4 --set 'says=two words'" in out


def test_properties_are_in_the_order_of_the_registry(call: Call, violated: dict[int, tuple[str, ...]]) -> None:
    violated[4] = names = ("D10", "D2", "M10", "M2", "M1", "L1")
    _, out, _ = call("simulate", "quiet-lan", "--seed", "4")
    shown = [line.split()[0] for line in out.splitlines() if line.rstrip().endswith("violated (1)")]
    assert shown == ["D2", "D10", "M1", "M2", "M10", "L1"]
    assert "violates D2 (1), D10 (1), M1 (1), M2 (1), M10 (1), L1 (1)" in out
    _, out, _ = call("simulate", "quiet-lan", "--seeds", "4:5", "--jobs", "1", "--json")
    assert list(json.loads(out)["violated"]) == shown
    assert sorted(shown) == sorted(names)


@pytest.mark.usefixtures("violated")
def test_a_run_that_breaks_an_assertion(call: Call) -> None:
    code, out, err = call("simulate", "quiet-lan", "--seed", "13")
    assert code == 1
    assert out.startswith("seed 13 stopped: AssertionError: the window is whole")
    assert "fake_run" in err


def test_many_seeds(call: Call, violated: dict[int, tuple[str, ...]], tmp_path: Path) -> None:
    violated[5] = ("O2", "D1")
    arguments = ("simulate", "chaos", "--seeds", "0:20", "--jobs", "1", "--set", "loss=0.1", "--out", str(tmp_path))
    code, out, err = call(*arguments)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert "seed 5 violates D1 (1), O2 (1): unisono simulate chaos --seed 5 --set loss=0.1" in lines
    assert any(line.startswith("seed 13 stopped: AssertionError") for line in lines)
    assert "violated: D1 in 1, O2 in 1" in lines
    assert lines[-1] == "chaos: 20 seeds, 18 held, 2 failing"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["catalogue.jsonl", "seed-5"]
    code, out, _ = call("simulate", "chaos", "--seeds", "0:3", "--jobs", "1", "--keep", "all", "--out", str(tmp_path))
    assert code == 0
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["catalogue.jsonl", "seed-0", "seed-1", "seed-2"]


@pytest.mark.usefixtures("violated")
def test_marks_that_were_never_reached_fail(call: Call) -> None:
    arguments = ("simulate", "quiet-lan", "--jobs", "1", "--set", 'marks=["gap", "woke-up"]', "--set", "marks_seeds=5")
    assert call(*arguments, "--seeds", "0:4")[0] == 0
    code, out, _ = call(*arguments, "--seeds", "0:5")
    assert code == 1
    assert "never reached: woke-up" in out


def test_an_expected_violation(call: Call, violated: dict[int, tuple[str, ...]]) -> None:
    violated[2] = ("O2",)
    assert call("simulate", "quiet-lan", "--set", "expect=O2", "--seed", "2")[0] == 0
    assert call("simulate", "quiet-lan", "--set", "expect=O2", "--seed", "1")[0] == 1
    assert call("simulate", "quiet-lan", "--set", "expect=O2", "--seeds", "0:4", "--jobs", "1")[0] == 0


def test_json(call: Call, violated: dict[int, tuple[str, ...]]) -> None:
    violated[1] = ("O2",)
    code, out, _ = call("simulate", "quiet-lan", "--seeds", "0:3", "--jobs", "1", "--json")
    assert code == 1
    report: dict[str, Any] = json.loads(out)
    assert (report["scenario"], report["exit"], report["held"], report["marks"]) == ("quiet-lan", 1, 2, {"gap": 3})
    assert [seed["verdict"] for seed in report["runs"]] == ["held", "violated", "held"]
    assert report["runs"][1]["violations"][0]["message"] == "p0~1f/7"
    assert report["runs"][1]["replay"] == "unisono simulate quiet-lan --seed 1"
    code, out, _ = call("simulate", "quiet-lan", "--json")
    assert (code, json.loads(out)["runs"][0]["counters"]["sent"]) == (0, 600)


@pytest.mark.usefixtures("violated")
def test_what_is_not_ours_is_not_overwritten(call: Call, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    for seeds in (("--seed", "1"), ("--seeds", "0:2")):
        code, out, err = call("simulate", "quiet-lan", *seeds, "--out", str(tmp_path))
        assert (code, out) == (2, "")
        assert "choose another directory" in err
    code, _, err = call("simulate", "quiet-lan", "--out", str(tmp_path / "thesis.txt"))
    assert code == 2
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


@pytest.mark.usefixtures("violated")
def test_an_earlier_run_is_replaced(call: Call, tmp_path: Path) -> None:
    for _ in range(2):
        assert call("simulate", "quiet-lan", "--out", str(tmp_path / "run"))[0] == 0
    assert is_run_directory(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("vs-large-1000", "24 clients, 3 membership servers, 10 controllers"),
        ("quiet-lan", "unisono top g --realm here"),
    ],
)
def test_live_says_who_runs_and_how_it_is_watched(
    call: Call, monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    def at_once(scenario: Scenario, *_: object) -> Outcome:
        return Outcome(
            scenario=scenario.name, seed=0, verdicts={}, violations=[], marks={}, counters={}, events=0, seconds=0.0
        )

    monkeypatch.setattr("unisono.trials.loopback.refuse_what_needs_a_network", lambda scenario: None)
    monkeypatch.setattr("unisono.trials.loopback.run_on_loopback", at_once)
    code, _, err = call("simulate", name, "--live", "--realm", "here")
    assert code == 0
    assert told in err
