"""Run directories: complete or not there, the same rows in both forms, equal bytes for equal runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.trace_samples import sample_rows
from unisono.errors import TraceError
from unisono.trace import run_directory
from unisono.trace.run_directory import Form, canonical_json, is_run_directory, read_run, write_run
from unisono.trace.schema import FAMILIES, SCHEMA_VERSION, AnyRow, GaugeRow

FORMS: list[Form] = ["parquet", "spool"]
ROOT = Path(__file__).parents[2]


def write(directory: Path, form: Form | None = None, rows: list[AnyRow] | None = None) -> None:
    summary = {"verdict": "held", "counts": {"b": 2, "a": 1}}
    rows = sample_rows() if rows is None else rows
    write_run(directory, rows, scenario_text='name = "x"\n', summary=summary, form=form)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@pytest.mark.parametrize("form", FORMS)
def test_a_run_comes_back_in_time_order(tmp_path: Path, form: Form) -> None:
    write(tmp_path / "run", form)
    assert is_run_directory(tmp_path / "run")
    rows = read_run(tmp_path / "run")
    assert rows == sample_rows()
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("form", ["parquet", "spool"])
def test_rows_of_a_process_keep_their_own_order_whatever_their_times_say(tmp_path: Path, form: Form) -> None:
    times = {"alice": (0, 3_600, 20, 30), "bob": (5, 15, 25)}
    rows: list[AnyRow] = [
        GaugeRow(kind="GAUGE", process=name, incarnation=1, position=position, at=at, name="window", value=1)
        for name, moments in times.items()
        for position, at in enumerate(moments)
    ]
    write_run(tmp_path / "run", reversed(rows), scenario_text="", summary={}, form=form)
    read = [(row.process, row.position) for row in read_run(tmp_path / "run")]
    assert read == [("alice", 0), *(("bob", n) for n in range(3)), *(("alice", n) for n in (1, 2, 3))]


@pytest.mark.parametrize("form", FORMS)
def test_a_run_without_rows_is_a_run(tmp_path: Path, form: Form) -> None:
    write(tmp_path / "run", form, rows=[])
    assert read_run(tmp_path / "run") == []


def test_the_form_follows_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "run")
    tables = [f"{family}.parquet" for family in FAMILIES]
    assert sorted(contents(tmp_path / "run")) == sorted(["COMPLETE", "scenario.toml", "summary.json", *tables])
    monkeypatch.setattr(run_directory, "parquet_is_there", lambda: False)
    write(tmp_path / "run")
    assert sorted(contents(tmp_path / "run")) == ["COMPLETE", "scenario.toml", "summary.json", "trace.spool"]


def test_what_stands_beside_the_trace(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "run", "spool")
    files = contents(tmp_path / "deep" / "run")
    assert files["COMPLETE"] == f"{SCHEMA_VERSION}\n".encode()
    assert files["scenario.toml"] == b'name = "x"\n'
    assert files["summary.json"].decode() == canonical_json({"verdict": "held", "counts": {"a": 1, "b": 2}})


@pytest.mark.parametrize("form", FORMS)
def test_a_failure_leaves_nothing_and_keeps_the_earlier_run(tmp_path: Path, form: Form) -> None:
    class Interrupted(BaseException):
        pass

    def rows() -> Iterator[AnyRow]:
        yield from sample_rows()
        raise Interrupted

    with pytest.raises(Interrupted):
        write_run(tmp_path / "run", rows(), scenario_text="", summary={}, form=form)
    assert os.listdir(tmp_path) == []
    write(tmp_path / "run", form)
    with pytest.raises(Interrupted):
        write_run(tmp_path / "run", rows(), scenario_text="", summary={}, form=form)
    assert os.listdir(tmp_path) == ["run"]
    assert read_run(tmp_path / "run") == sample_rows()


def test_only_a_run_or_an_empty_directory_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "run"
    target.mkdir()
    write(target, "spool")
    write(target, "parquet")
    assert not (target / "trace.spool").exists()
    (target / "COMPLETE").unlink()
    before = contents(target)
    with pytest.raises(TraceError, match="choose another directory"):
        write(target)
    assert contents(target) == before
    (tmp_path / "file").write_text("precious")
    with pytest.raises(TraceError, match="is a file"):
        write(tmp_path / "file")


def test_the_environment_fails_with_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TraceError, match="cannot write the run"):
        write(tmp_path / "file" / "run")


def test_what_is_no_complete_run_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="not a directory"):
        read_run(tmp_path / "absent")
    with pytest.raises(TraceError, match="no COMPLETE file"):
        read_run(tmp_path)
    write(tmp_path / "run", "spool")
    spool = tmp_path / "run" / "trace.spool"
    spool.write_bytes(spool.read_bytes()[:-1])
    with pytest.raises(TraceError, match="is damaged"):
        read_run(tmp_path / "run")
    (tmp_path / "run" / "COMPLETE").write_text("99\n")
    with pytest.raises(TraceError, match="schema version 99"):
        read_run(tmp_path / "run")


@pytest.mark.parametrize("form", FORMS)
def test_equal_runs_are_equal_bytes_whatever_the_hash_seed(tmp_path: Path, form: Form) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.unit.test_trace_run_directory import write\n"
        "write(Path(sys.argv[1]), sys.argv[2])\n"
    )
    for seed in ("1", "2"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
        }
        subprocess.run([sys.executable, "-c", program, str(tmp_path / seed), form], env=environment, check=True)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_a_run_of_parts_is_whole_or_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_run(run, sample_rows(20), scenario_text="", summary={}, form="parquet", part_rows=6)
    assert (run / "COMPLETE").read_text().splitlines()[:3] == [str(SCHEMA_VERSION), "send 4", "deliver 4"]
    assert read_run(run) == sample_rows(20)
    (run / "deliver.parquet" / "part-000002.parquet").unlink()
    with pytest.raises(TraceError, match=r"deliver\.parquet has 3 parts where 4 were written"):
        read_run(run)


@pytest.mark.parametrize(
    "text", ["", "a run\n", "\n4\n", f"{SCHEMA_VERSION}\ndeliver many\n", f"{SCHEMA_VERSION}\nx 1\n"]
)
def test_a_marker_that_says_something_else_is_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path / "run")
    (tmp_path / "run" / "COMPLETE").write_text(text)
    with pytest.raises(TraceError, match="not the marker of a run"):
        read_run(tmp_path / "run")
