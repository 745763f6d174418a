"""A run as bytes: it comes out as it went in, and an archive that names anything else writes nothing."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from unisono.errors import TraceError
from unisono.sweeps.packing import pack, unpack


def archive(*members: tarfile.TarInfo) -> bytes:
    """Each file among the members says "text"."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as written:
        for member in members:
            member.size = 4 if member.isreg() else 0
            written.addfile(member, io.BytesIO(b"text") if member.isreg() else None)
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, target
    return found


def tree(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_a_run_comes_out_as_it_went_in(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "deliver.parquet").mkdir(parents=True)
    (run / "deliver.parquet" / "part 1.parquet").write_bytes(b"\x00rows")
    (run / "COMPLETE").write_text("7\n")
    packed, why = pack(run)
    assert (packed is None, why) == (False, None)
    for _ in range(2):  # a second time it replaces the first
        unpack(packed or b"", tmp_path / "out" / "again")
        assert tree(tmp_path / "out" / "again") == tree(run)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["again"]


@pytest.mark.parametrize(
    "bad",
    [
        member("/etc/unisono"),
        member("../outside"),
        member("inside/../../outside"),
        member("link", tarfile.SYMTYPE, "/etc/passwd"),
        member("link", tarfile.SYMTYPE, "COMPLETE"),
        member("link", tarfile.LNKTYPE, "COMPLETE"),
        member("pipe", tarfile.FIFOTYPE),
        member("device", tarfile.CHRTYPE),
    ],
    ids=lambda bad: f"{bad.name} {bad.type.decode()}",
)
def test_what_is_no_file_of_a_run_is_refused(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    place = tmp_path / "around" / "run"
    with pytest.raises(TraceError, match="cannot write the run"):
        unpack(archive(member("COMPLETE"), bad), place)
    assert tree(tmp_path) == {"around": None}


def test_bytes_that_are_no_archive_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot write the run"):
        unpack(b"no archive", tmp_path / "run")
    assert tree(tmp_path) == {}
