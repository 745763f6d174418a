"""A run directory as bytes: how a trace comes back from a worker, which shares no file system with the driver."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from pathlib import Path

from unisono.errors import TraceError
from unisono.trace.run_directory import is_run_directory

PACKED_LIMIT_BYTES = 64 * 2**20


def pack(directory: Path, limit_bytes: int = PACKED_LIMIT_BYTES) -> tuple[bytes | None, str | None]:
    """The files of a run, or why they are not sent."""
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    if size > limit_bytes:
        return None, f"its {size} bytes are more than the {limit_bytes} that a result carries; replay it with --out"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(directory, arcname=".")
    return buffer.getvalue(), None


def unpack(packed: bytes, directory: Path) -> None:
    """Make it a run directory again: complete or not there; one that is there already is replaced."""
    aside = directory.with_name(f".{directory.name}.{os.getpid()}.partial")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(aside, filter="data")
        if is_run_directory(directory):
            shutil.rmtree(directory)
        aside.rename(directory)
    except (OSError, tarfile.TarError) as error:
        raise TraceError(f"cannot write the run {directory}: {error}") from error
