"""What the workers of a cluster are given: the code of this package, and the two compiled packages that it needs.

It travels as one archive (`spark.archives`), which every executor unpacks beside its work: compiled modules cannot be
loaded out of a zip, and what is unpacked is compiled once for all Python workers of an executor.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from xxhash import xxh3_64

from unisono.errors import UnisonoError

PACKAGE = "unisono"
COMPILED = ("msgspec", "xxhash")
"""What unisono needs to be imported; the rest of its requirements is for commands."""
FOLDER = "unisono-shipped"
"""Where an executor has it, below its working directory."""
ENVIRONMENT = "UNISONO_SHIP"
"""`all`, or `code`: without the compiled packages, for workers of another platform that have their own."""

_SKIPPED = {"__pycache__"}
_WHEN = (1980, 1, 1, 0, 0, 0)


def worker_path() -> str:
    """Where a Python worker on this machine finds this very code."""
    return str(_folder_of(PACKAGE).parent)


def archive(folder: Path) -> Path:
    """Write the archive into a folder."""
    path = folder / f"{FOLDER}.zip"
    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=1) as file:
        for name in shipped():
            for inner, source in _files(name):
                file.writestr(ZipInfo(inner, _WHEN), source.read_bytes(), ZIP_DEFLATED)
    return path


def settings() -> dict[str, str]:
    """What Spark is to be told so that workers have it. The archive is there until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="unisono-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {
        "spark.archives": f"{archive(folder)}#{FOLDER}",
        "spark.executorEnv.PYTHONPATH": FOLDER,
    }


def shipped() -> tuple[str, ...]:
    """The packages that go."""
    wanted = os.environ.get(ENVIRONMENT) or "all"
    if wanted not in ("all", "code"):
        raise UnisonoError(f"{ENVIRONMENT} is all or code, not {wanted!r}")
    return (PACKAGE, *COMPILED) if wanted == "all" else (PACKAGE,)


@cache
def code_digest() -> str:
    """A number for the code of this package: what differs in it may run a seed differently."""
    digest = xxh3_64()
    for inner, source in _files(PACKAGE):
        digest.update(inner.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _files(name: str) -> Iterator[tuple[str, Path]]:
    """The files of a package, by their names in the archive, in one order."""
    folder = _folder_of(name)
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder.parent)
        if path.is_file() and not _SKIPPED.intersection(inner.parts):
            yield inner.as_posix(), path


def _folder_of(name: str) -> Path:
    module = sys.modules.get(name)
    spec = module.__spec__ if module is not None else find_spec(name)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if len(places) != 1 or not os.path.isdir(places[0]):
        raise UnisonoError(
            f"{name} is not a folder on this machine and so cannot be sent to workers; install it by pip"
        )
    return Path(places[0])
