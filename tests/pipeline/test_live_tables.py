"""The live tables: a batch counts once however often it is written, and many small files become one."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from unisono.pipeline.live import tables
from unisono.pipeline.live.outputs import TABLES, Counted, Flagged, Installed, Latencies, Line, Reported
from unisono.pipeline.live.run import LIVE
from unisono.pipeline.live.tables import LiveTables, covering, read_lines


def counted(violations: int) -> Line:
    return Counted("run", "O2", violations)


def flagged(moment: int, clock: str | None) -> Flagged:
    return Flagged("run", "D1", "violated", "g", "p", 1, 2, None, "was wrong.", moment, clock)


def test_the_page_names_every_table_and_every_live_property() -> None:
    page = (Path(__file__).parents[2] / "docs" / "live.md").read_text(encoding="utf-8")
    assert all(f"`{table}`" in page for table in TABLES)
    assert re.findall(r"\b[A-Z]\d+\b", page.partition("The properties ")[2].partition(", by the")[0]) == list(LIVE)


def test_a_batch_that_is_written_again_replaces_itself(tmp_path: Path) -> None:
    live = LiveTables(tmp_path)
    live.write(0, [counted(1), counted(2)])
    live.write(1, [counted(4)])
    live.write(1, [counted(8)])
    assert live.read("verdicts") == [counted(1), counted(2), counted(8)]
    live.write(1, [])
    assert LiveTables(tmp_path).read("verdicts") == [counted(1), counted(2)]


def test_every_kind_of_line_is_read_as_it_was_written(tmp_path: Path) -> None:
    lines: list[Line] = [
        Latencies("run", None, 3, "g", [1, 2, 3]),
        Installed("run", "host", 5, "g", "p", 1, 2, None, ["p", "q"], None),
    ]
    live = LiveTables(tmp_path)
    live.write(0, lines)
    assert [*live.read("latencies"), *live.read("views")] == lines


def test_files_without_a_column_that_lines_have_now_become_one_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyarrow import parquet

    monkeypatch.setattr(tables, "SMALL_FILES", 12)
    live = LiveTables(tmp_path)
    for batch in range(20):
        live.write(batch, [Reported("run", "p", 1, "host", batch, 1, 5, ["VS"])])
        if batch == 0:
            (first,) = (tmp_path / "reports").iterdir()
            parquet.write_table(parquet.read_table(first).drop_columns(["services"]), first)
    read = [line.services for line in live.read("reports") if isinstance(line, Reported)]
    assert read == [None, *[["VS"]] * 19]


def test_small_files_become_one_and_count_once_even_where_that_was_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "SMALL_FILES", 24)
    live = LiveTables(tmp_path)
    for batch in range(30):
        live.write(batch, [counted(batch)])
    folder = tmp_path / "verdicts"
    assert len(list(folder.iterdir())) <= 15, "one of sixteen batches, and fourteen of one each"
    assert live.read("verdicts") == [counted(batch) for batch in range(30)]
    merged, (first, last) = next(iter(covering(folder).items()))
    assert first == 0
    (folder / "batch-000000000000.parquet").write_bytes(b"not yet removed")
    assert last > 0
    assert read_lines(tmp_path, "verdicts") == [counted(batch) for batch in range(30)]
    LiveTables(tmp_path)
    assert merged.exists()
    assert not (folder / "batch-000000000000.parquet").exists()


def test_a_delay_is_measured_against_rows_of_this_host_alone(tmp_path: Path) -> None:
    here = time.monotonic_ns()
    lines = LiveTables(tmp_path, "here").write(0, [flagged(here, "here"), flagged(here, "there"), flagged(here, None)])
    own, other, simulated = (line for line in lines if isinstance(line, Flagged))
    assert own.delay is not None
    assert own.delay >= 0
    assert (other.delay, simulated.delay) == (None, None)
    assert all(line.flagged > 0 for line in (own, other, simulated))
