"""A run directory as bytes: how a trace comes back from a worker, which shares no file system with the driver."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from pathlib import Path, PurePosixPath

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
            for member in archive:
                _take_out(archive, member, aside)
        if is_run_directory(directory):
            shutil.rmtree(directory)
        aside.rename(directory)
    except (OSError, tarfile.TarError) as error:
        raise TraceError(f"cannot write the run {directory}: {error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _take_out(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write one member below a folder: folders and files by names that stay there, and nothing else.

    The filters of `extractall` are not in every Python that runs this, and a run has neither links nor owners.
    """
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise tarfile.ExtractError(f"{member.name!r} is not a name within a run")
    place = folder / name
    if member.isdir():
        place.mkdir(parents=True, exist_ok=True)
        return
    content = archive.extractfile(member) if member.isreg() else None
    if content is None:
        raise tarfile.ExtractError(f"{member.name!r} is neither a file nor a folder")
    with content, place.open("wb") as file:
        shutil.copyfileobj(content, file)
