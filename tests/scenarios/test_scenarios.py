"""Every text file beside this one is a test of real nodes; UNISONO_REWRITE=1 writes what they print into the files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.scenarios.harness import Interpreter, Misspelt, ScenarioText

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    scenario = ScenarioText(path)
    outputs = scenario.play()
    if os.environ.get("UNISONO_REWRITE") == "1":
        path.write_text(scenario.render(outputs))
        return
    for block, lines in zip(scenario.blocks, outputs, strict=True):
        assert lines == block.expected, f"{path.name}:{block.line}: {' / '.join(block.commands)}"
    assert path.read_text() == scenario.render(outputs)


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 12


@pytest.mark.parametrize(
    "commands",
    [
        ["begin a"],
        ["join a"],
        ["start a", "drop data from a"],
        ["start a", "lose daat"],
        ["start a", "restart a"],
        ["start a", "crash a", "crash a"],
        ["start a", "stop writing a"],
        ["start a b", "forge a b nonsense"],
    ],
    ids=" / ".join,
)
def test_a_command_that_makes_no_sense_is_refused(commands: list[str]) -> None:
    with pytest.raises(Misspelt):
        Interpreter().play(commands)


@pytest.mark.parametrize("text", ["start a\n----\n", "Proves nothing.\n\nstart a\n"])
def test_a_file_without_its_sentence_or_its_rule_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(Misspelt):
        ScenarioText(path)
