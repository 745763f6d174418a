"""The same seed gives the same trace, byte for byte; another seed gives another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def simulate(out: Path, hash_seed: str, *arguments: str) -> dict[str, bytes]:
    """Run the command in a process of its own and read every file that it wrote."""
    command = [sys.executable, "-m", "unisono", "simulate", *arguments, "--out", str(out)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


SMALL_CHAOS = ("chaos", "--set", "members=[3, 8]")
SMALL_HIERARCHY = ("hierarchy-200", "--seed", "7", "--set", "members=20", "--set", "duration=15s", "--set", "settle=5s")


@pytest.mark.parametrize(
    "arguments", [("lossy-lan", "--seed", "7"), (*SMALL_CHAOS, "--seed", "7"), SMALL_HIERARCHY], ids=lambda a: a[0]
)
def test_equal_seeds_give_equal_files_under_any_hash_seed(arguments: tuple[str, ...], tmp_path: Path) -> None:
    first, second = (simulate(tmp_path / seed, seed, *arguments) for seed in ("1", "2"))
    assert first == second
    assert {"deliver.parquet", "send.parquet", "view.parquet", "scenario.toml", "summary.json"} <= set(first)


def test_another_seed_gives_another_trace(tmp_path: Path) -> None:
    seven, eight = (simulate(tmp_path / seed, "0", "quiet-lan", "--seed", seed) for seed in ("7", "8"))
    assert seven["deliver.parquet"] != eight["deliver.parquet"]


@pytest.mark.parametrize("seed", ["3", "11"])
def test_an_explained_file_runs_to_the_same_trace(seed: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "unisono", "simulate", *SMALL_CHAOS, "--seed", seed, "--explain"]
    explained = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    file = tmp_path / "explained.toml"
    file.write_text(explained)
    assert simulate(tmp_path / "a", "1", *SMALL_CHAOS, "--seed", seed) == simulate(tmp_path / "b", "2", str(file))
