"""The lake of a collector: every report once, in runs that are complete or not there, wherever a crash comes."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.unit.report_samples import ROWS, report
from unisono.errors import TraceError
from unisono.trace.lake import Lake, LifeKey, folder_name, run_name
from unisono.trace.parquet import parquet_is_there, read_tables
from unisono.trace.reports import Report, rows
from unisono.trace.run_directory import read_run
from unisono.trace.schema import AnyRow


@pytest.fixture(autouse=True)
def _nobody_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def stored(lake: Lake) -> Counter[tuple[str, str, int]]:
    """Every row that the lake has when everything is complete: run, process and position."""
    for run in lake.open_runs:
        lake.complete(run, {})
    folders = [folder for folder in lake.path("r").parent.iterdir() if folder.name[0] != "."]
    return Counter(key(row) for folder in folders for row in read_tables(folder))


def key(row: AnyRow) -> tuple[str, str, int]:
    return row.run, row.process, row.position


def wanted(reports: list[Report]) -> Counter[tuple[str, str, int]]:
    return Counter(key(row) for one in reports for row in rows(one))


def test_a_run_is_there_when_it_is_complete(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    reports = [report("ada", 0), report("bob", 0), report("ada", 1, last=True)]
    lake.write(0, reports[:2])
    lake.write(2, reports[2:])
    assert (lake.position, lake.open_runs) == (3, ["r"])
    assert not lake.path("r").exists()
    path = lake.complete("r", {"rows": 15})
    assert path == tmp_path / "r"
    assert sorted(read_run(path), key=key) == sorted((row for one in reports for row in rows(one)), key=key)
    assert sorted(part.name for part in (path / "send.parquet").iterdir()) == [
        f"{0:020d}-{1:020d}.parquet",
        f"{2:020d}-{2:020d}.parquet",
    ]
    assert lake.open_runs == []


def test_a_lake_knows_what_it_has(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.write(0, [report("ada", 0)])
    assert Lake(tmp_path).position == 1
    lake.write(1, [report("ada", 1), report("ada", 3), report("bob", 0, "other")])
    lake.complete("other", {})
    for one in (lake, Lake(tmp_path)):
        assert one.position == 4
        lives = one.lives("r")
        assert list(lives) == [LifeKey("ada", 7)]
        life = lives[LifeKey("ada", 7)]
        assert (list(life.numbers), life.rows, life.ended) == ([(0, 1), (3, 3)], 3 * ROWS, False)
        assert one.lives("other")[LifeKey("bob", 7)].rows == ROWS
        assert one.lives("nobody") == {}


def test_what_it_has_is_not_written_again(tmp_path: Path) -> None:
    reports = [report("ada", number, run) for number, run in enumerate("rsrs")]
    Lake(tmp_path).write(0, reports[:2])
    shutil.rmtree(tmp_path / ".open" / "s")
    lake = Lake(tmp_path)
    assert lake.position == 2
    lake.write(0, reports)
    assert stored(lake) == wanted(reports)


def test_a_late_report_opens_a_run_again(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    early, late = report("ada", 0), report("ada", 1)
    lake.write(0, [early])
    path = lake.complete("r", {"time": 1})
    lake.write(1, [late])
    assert lake.open_runs == ["r"]
    assert [row.position for row in read_run(path)] == list(range(ROWS))
    assert lake.lives("r")[LifeKey("ada", 7)].rows == 2 * ROWS
    assert lake.complete("r", {"time": 2}) == path
    assert [row.position for row in read_run(path)] == list(range(2 * ROWS))
    assert sorted(folder.name for folder in tmp_path.iterdir()) == [".open", "r"]


class Crash(Exception):
    pass


def crash_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let the so-manyth change of a name be the last thing that happens."""
    left = step
    real = os.rename

    def rename(source: Path, target: Path) -> None:
        nonlocal left
        if not left:
            raise Crash
        left -= 1
        real(source, target)

    monkeypatch.setattr(Path, "rename", rename)


@pytest.mark.slow
def test_a_crash_anywhere_loses_and_repeats_nothing(tmp_path: Path) -> None:
    reports = [report("ada", number // 2, "rs"[number % 2], last=number > 5) for number in range(8)]
    crashes = 0
    for step in range(100):
        directory = tmp_path / str(step)
        lake = Lake(directory)
        lake.write(0, reports[:3])
        lake.complete("r", {})
        with pytest.MonkeyPatch.context() as patch:
            crash_at(patch, step)
            try:
                lake.write(3, reports[3:])
                lake.complete("r", {})
                lake.complete("s", {})
            except Crash:
                crashes += 1
        again = Lake(directory)
        complete = again.path("r")
        assert complete.exists(), "what was complete stays"
        assert len(read_run(complete)) in (2 * ROWS, 4 * ROWS)
        assert again.position in (3, 8)
        again.write(again.position, reports[again.position :])
        assert stored(again) == wanted(reports)
        if crashes <= step:
            break
    assert crashes > 8


def test_any_name_of_a_run_is_a_folder(tmp_path: Path) -> None:
    names = ["a b", "..", ".open", "a/b", "a%2Fb", "ä:ö", "x.new", "%2E.", "*[x]?"]
    lake = Lake(tmp_path)
    lake.write(0, [report("ada", 0, name) for name in names])
    assert lake.open_runs == sorted(names)
    assert [run_name(Path(folder_name(name))) for name in names] == names
    for name in names:
        lake.complete(name, {})
        assert len(read_run(lake.path(name))) == ROWS
    assert Lake(tmp_path).open_runs == []


def test_what_cannot_be_used_is_said(tmp_path: Path) -> None:
    assert parquet_is_there()
    (tmp_path / "file").touch()
    with pytest.raises(TraceError, match="cannot use"):
        Lake(tmp_path / "file")
    lake = Lake(tmp_path / "runs")
    lake.write(0, [report()])
    part = next((tmp_path / "runs" / ".open" / "r").glob("*/*.parquet"))
    part.write_bytes(b"not a table")
    with pytest.raises(TraceError, match="cannot read"):
        lake.lives("r")
