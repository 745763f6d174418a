"""The wheel alone, in an empty environment, gives a command that works."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT, cwd=ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    scenarios = {f"unisono/simulation/scenarios/{p.name}" for p in ROOT.glob("src/unisono/simulation/scenarios/*.toml")}
    assert scenarios
    assert scenarios | {"unisono/py.typed"} <= names
    assert {name.partition("/")[0] for name in names} == {"unisono", "unisono-0.1.0.dist-info"}

    run(sys.executable, "-m", "venv", tmp_path / "empty", cwd=tmp_path)
    commands = tmp_path / "empty" / "bin"
    locked = ROOT / "requirements" / "lock.txt"
    install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(commands / "python", *install, "-c", locked, wheel, cwd=tmp_path)
    assert "0.1.0" in run(commands / "unisono", "--version", cwd=tmp_path)
    listed = run(commands / "unisono", "simulate", "--list", cwd=tmp_path)
    assert "chaos" in listed
