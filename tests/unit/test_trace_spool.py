"""Spools: every row that was written is read back, whatever happened to the file after it."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.unit.trace_samples import sample_rows
from unisono.errors import TraceError
from unisono.trace import spool as spool_module
from unisono.trace.schema import SCHEMA_VERSION, AnyRow
from unisono.trace.spool import MAGIC, SpoolHeader, SpoolWriter, read_spool
from unisono.wire.frames import Ending, frame


def write_batches(path: Path, batches: list[list[AnyRow]]) -> list[int]:
    """The size of the file after the header and after each batch."""
    sizes = []
    with SpoolWriter(path, "run-1") as writer:
        sizes.append(path.stat().st_size)
        for batch in batches:
            writer.write(batch)
            sizes.append(path.stat().st_size)
    return sizes


def batches() -> list[list[AnyRow]]:
    rows = sample_rows()
    return [rows[:4], rows[4:5], rows[5:]]


def test_rows_come_back_in_the_order_written(tmp_path: Path) -> None:
    write_batches(tmp_path / "s", batches())
    spool = read_spool(tmp_path / "s")
    assert spool.header == SpoolHeader(SCHEMA_VERSION, "run-1")
    assert list(spool) == sample_rows()
    assert spool.ending == Ending((tmp_path / "s").stat().st_size, 0, "whole")


def test_a_binary_file_serves_as_well_as_a_path(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with SpoolWriter(buffer, "run-1") as writer:
        for batch in batches():
            writer.write(batch)
        writer.write([])
        writer.flush()
    write_batches(tmp_path / "s", batches())
    assert buffer.getvalue() == (tmp_path / "s").read_bytes()
    with pytest.raises(TraceError, match="closed"):
        writer.write(sample_rows())


def test_each_write_is_one_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    appends = []
    real = os.write

    def write(descriptor: int, data: memoryview) -> int:
        appends.append(len(data))
        return real(descriptor, data)

    monkeypatch.setattr(spool_module, "BATCH_ROWS", 2)
    monkeypatch.setattr(os, "write", write)
    write_batches(tmp_path / "s", batches())
    assert len(appends) == 1 + len(batches())
    assert list(read_spool(tmp_path / "s")) == sample_rows()


def test_a_write_that_is_taken_in_parts_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:7]))
    write_batches(tmp_path / "s", batches())
    monkeypatch.undo()
    assert list(read_spool(tmp_path / "s")) == sample_rows()


def test_rows_above_the_size_of_a_frame_are_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sample_rows(40)
    monkeypatch.setattr(spool_module, "FRAME_LIMIT_BYTES", 300)
    write_batches(tmp_path / "s", [rows])
    assert list(read_spool(tmp_path / "s")) == rows
    monkeypatch.setattr(spool_module, "FRAME_LIMIT_BYTES", 30)
    with pytest.raises(TraceError, match="one row takes"):
        write_batches(tmp_path / "t", [rows])


def test_a_cut_at_any_byte_keeps_every_batch_before_it(tmp_path: Path) -> None:
    path = tmp_path / "s"
    sizes = write_batches(path, batches())
    data = path.read_bytes()
    for offset in range(len(data)):
        path.write_bytes(data[:offset])
        spool = read_spool(path)
        kept = [row for batch, end in zip(batches(), sizes[1:], strict=True) if end <= offset for row in batch]
        assert list(spool) == kept
        assert (spool.header is not None) == (offset >= sizes[0])
        assert spool.ending is not None
        assert spool.ending.why == ("whole" if offset in (0, *sizes) else "cut")


def test_a_flipped_bit_anywhere_is_seen_and_ends_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "s"
    sizes = write_batches(path, batches())
    data = path.read_bytes()
    draw = random.Random(7)
    header_bits = range(sizes[0] * 8)
    for bit in [*header_bits, *(draw.randrange(len(data) * 8) for _ in range(500))]:
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        spool = read_spool(path)
        kept = [row for batch, end in zip(batches(), sizes[1:], strict=True) if end <= bit // 8 for row in batch]
        assert list(spool) == kept
        assert spool.ending is not None
        assert spool.ending.why in ("cut", "damaged")
        assert spool.ending.dropped_bytes > 0


def test_many_flipped_bits_never_raise(tmp_path: Path) -> None:
    path = tmp_path / "s"
    sizes = write_batches(path, batches())
    data = path.read_bytes()
    draw = random.Random(8)
    for _ in range(200):
        damaged = bytearray(data)
        for _ in range(draw.randint(2, 40)):
            damaged[draw.randrange(sizes[0], len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        spool = read_spool(path)
        rows = list(spool)
        assert rows == sample_rows()[: len(rows)]
        assert spool.ending is not None
        assert damaged == data or spool.ending.why != "whole"


def test_what_was_written_survives_a_kill(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from tests.unit.trace_samples import sample_rows\n"
        "from unisono.trace.spool import SpoolWriter\n"
        "writer = SpoolWriter(sys.argv[1], 'run-1')\n"
        "writer.write(sample_rows())\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"}
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "s")], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert list(read_spool(tmp_path / "s")) == sample_rows()


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"#!/bin/sh\necho this is a script\n", "is not a spool"),
        (b"PAR1" + bytes(40), "is not a spool"),
        (frame(b"another log"), "holds frames but is not a spool"),
        (frame(MAGIC + msgspec.msgpack.encode([99, "r"])), "schema version 99"),
        (frame(MAGIC + b"\xc1"), "header that cannot be read"),
    ],
)
def test_a_foreign_file_is_refused_with_a_clear_word(tmp_path: Path, data: bytes, word: str) -> None:
    (tmp_path / "s").write_bytes(data)
    with pytest.raises(TraceError, match=word):
        read_spool(tmp_path / "s")


def test_a_whole_frame_without_rows_is_refused(tmp_path: Path) -> None:
    header = frame(MAGIC + msgspec.msgpack.encode([SCHEMA_VERSION, "r"]))
    (tmp_path / "s").write_bytes(header + frame(b"\x91\x91\xa5other"))
    with pytest.raises(TraceError, match="holds no rows"):
        list(read_spool(tmp_path / "s"))


def test_callers_are_told_what_is_wrong(tmp_path: Path) -> None:
    write_batches(tmp_path / "s", batches())
    with pytest.raises(TraceError, match="choose another name"):
        SpoolWriter(tmp_path / "s", "run-1")
    with pytest.raises(TraceError, match="cannot open"):
        SpoolWriter(tmp_path / "nowhere" / "s", "run-1")
    with pytest.raises(TraceError, match="at most"):
        SpoolWriter(tmp_path / "long", "x" * 5000)
    assert not (tmp_path / "long").exists()
    with pytest.raises(TraceError, match="cannot read"):
        read_spool(tmp_path / "absent")
