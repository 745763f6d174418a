"""What the README and the docs show is what happens."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from examples.from_code import main
from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.scenario_file import read_scenario
from unisono.simulation.world import run

ROOT = Path(__file__).parents[2]


def test_the_scenario_of_the_readme_is_the_example_and_holds() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    example = ROOT / "examples" / "late-subscriber.toml"
    assert blocks == [example.read_text()]
    outcome = run(draw(load(str(example)), 3))
    assert outcome.violations == []
    assert read_scenario(blocks[0]).name == "late-subscriber"


def test_the_session_of_the_scenario_page_does_what_the_page_says() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "scenarios.md").read_text(), re.DOTALL)
    (example,) = [block for block in blocks if "a-server-dies" in block]
    outcome = run(draw(read_scenario(example), 0))
    assert outcome.violations == []
    assert outcome.marks["vs-server-changed"] > 0
    assert outcome.marks["vs-block-forced"] == 2


def test_the_example_from_code_prints_what_the_docs_show(capsys: pytest.CaptureFixture[str]) -> None:
    world = main()
    shown = re.findall(r"```text\n(.*?)```", (ROOT / "docs" / "delivery.md").read_text(), re.DOTALL)
    assert capsys.readouterr().out == shown[0]
    assert world.monitors.violations == []


def test_the_picture_is_up_to_date(tmp_path: Path) -> None:
    picture = ROOT / "docs" / "pictures" / "left-behind.svg"
    program = (
        "import sys; sys.path.insert(0, 'docs'); from draw_timeline import draw, main; print(draw(main()), end='')"
    )
    drawn = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert drawn.endswith(picture.read_text()), "run make docs"


def test_the_time_lines_of_views_are_up_to_date() -> None:
    drawn = runpy.run_path(str(ROOT / "docs" / "draw_views.py"))["pictures"]()
    for file, picture in drawn.items():
        assert (ROOT / "docs" / "pictures" / file).read_text() == picture, "run make docs"
    assert len(drawn) == 3


def test_every_page_that_the_readme_names_is_there() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / link).exists(), link
