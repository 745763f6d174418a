"""The import rules hold, and each of them fails when something is planted against it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DRIVERS_AND_LABORATORY = {
    "cli",
    "group",
    "pipeline",
    "properties",
    "runtime",
    "serving",
    "session",
    "session_group",
    "simulation",
    "step_watch",
    "sweeps",
    "sync",
    "trace",
    "trials",
}


def contracts() -> dict[str, dict[str, Any]]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return {contract["id"]: contract for contract in tomllib.load(file)["tool"]["importlinter"]["contracts"]}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def plant(copy: Path, path: str, text: str) -> None:
    file = copy / "src" / "unisono" / path
    file.parent.mkdir(exist_ok=True)
    (file.parent / "__init__.py").touch()
    file.write_text(text, encoding="utf-8")


def lint_imports(copy: Path) -> tuple[int, str]:
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "COLUMNS": "200", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, "--no-cache", "--no-logo"],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def is_broken(output: str, contract: str) -> bool:
    return f"{contracts()[contract]['name']} BROKEN" in output


def test_the_package_keeps_its_rules(copy: Path) -> None:
    code, output = lint_imports(copy)
    assert code == 0, output


@pytest.mark.parametrize(
    ("path", "text", "contract", "complaint"),
    [
        ("intergroup/planted.py", "import socket\n", "pure", "unisono.intergroup.planted -> socket"),
        ("intergroup/planted.py", "def f():\n    from time import monotonic\n", "pure", "planted -> time"),
        ("wire/planted.py", "import random\n", "pure", "unisono.wire.planted -> random"),
        ("reliable/planted.py", "import unisono.trace.spool\n", "pure", "unisono.trace.spool -> os"),
        ("precedence/planted.py", "import unisono.intergroup\n", "stacking", "unisono.precedence.planted"),
        ("simulation/planted.py", "import unisono.intergroup\n", "stacking", "unisono.simulation.planted"),
        ("cli/planted.py", "import unisono.intergroup\n", "stacking", "unisono.cli.planted"),
        ("properties/planted.py", "import unisono.simulation\n", "properties", "unisono.properties.planted"),
        ("properties/planted.py", "import unisono.node\n", "properties", "unisono.properties.planted"),
        ("simulation/planted.py", "import pyspark.sql\n", "spark", "unisono.simulation.planted -> pyspark"),
        ("reliable/planted.py", "import unisono.node\n", "layers", "unisono.reliable.planted -> unisono.node"),
        ("trace/schema.py", "import unisono.simulation\n", "layers", "unisono.trace.schema -> unisono.simulation"),
    ],
)
def test_a_planted_import_breaks_its_rule(copy: Path, path: str, text: str, contract: str, complaint: str) -> None:
    plant(copy, path, text)
    code, output = lint_imports(copy)
    assert code == 1, output
    assert is_broken(output, contract), output
    assert complaint in output


def test_two_engines_stay_apart_once_both_are_listed(copy: Path) -> None:
    config = copy / "pyproject.toml"
    text = config.read_text(encoding="utf-8")
    engines = '["unisono.intergroup", "unisono.virtual_synchrony"]'
    for line in (f"protected_modules = {engines}", f"modules = {engines}"):
        assert line in text
        text = text.replace(line, line.replace("]", ', "unisono.precedence"]'))
    config.write_text(text, encoding="utf-8")
    plant(copy, "precedence/planted.py", "import unisono.intergroup\n")
    code, output = lint_imports(copy)
    assert code == 1, output
    assert is_broken(output, "independence"), output
    assert is_broken(output, "stacking"), output


def test_every_forbidden_module_is_seen(copy: Path) -> None:
    forbidden = contracts()["pure"]["forbidden_modules"]
    plant(copy, "intergroup/planted.py", "".join(f"import {name}\n" for name in forbidden))
    code, output = lint_imports(copy)
    assert code == 1, output
    for name in forbidden:
        assert f"unisono.intergroup.planted -> {name} " in output


def test_spark_is_welcome_in_the_pipeline(copy: Path) -> None:
    plant(copy, "pipeline/planted.py", "import pyspark.sql\n")
    code, output = lint_imports(copy)
    assert code == 0, output


def test_every_package_and_module_is_under_a_rule() -> None:
    """A new engine, or a new module beside the engines, is added to the contracts in the same change."""
    package = ROOT / "src" / "unisono"
    found = {path.stem for path in package.glob("*.py")} | {path.parent.name for path in package.glob("*/*.py")}
    pure = {name.split(".")[1] for name in contracts()["pure"]["source_modules"]}
    assert found - {"__init__", "__main__", "unisono"} <= pure | DRIVERS_AND_LABORATORY
    layered = set(re.findall(r"[\w.]+", " ".join(contracts()["layers"]["layers"])))
    assert {f"unisono.trace.{path.stem}" for path in package.glob("trace/[!_]*.py")} <= layered
    assert {f"unisono.{name}" for name in found - {"__init__", "__main__", "unisono", "trace"}} <= layered


def test_the_lists_of_engines_agree() -> None:
    engines = contracts()["stacking"]["protected_modules"]
    assert contracts()["independence"]["modules"] == engines
    assert set(engines) <= set(contracts()["pure"]["source_modules"])
    assert set(engines) <= set(contracts()["properties"]["forbidden_modules"])
