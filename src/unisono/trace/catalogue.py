"""The catalogue of a directory of runs: one line of JSON for each run that was written into it.

Lines are only ever appended, each with one write, so that several commands may share a directory. A line that was cut
is passed over; of several lines about one run, the last one counts.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from unisono.errors import TraceError

CATALOGUE = "catalogue.jsonl"
_GIT_SECONDS = 5.0


class Entry(Struct, frozen=True, kw_only=True):
    """One run: its folder beside the catalogue, when and by which command it was made, and what it came to.

    `made` is a moment in UTC as in ISO 8601, `commit` that of the checkout it was made with, null where there is none,
    and `violations` counts them by property: all that were promised are listed.
    """

    run: str
    made: str
    command: str
    scenario: str
    seed: int
    commit: str | None
    violations: dict[str, int]

    @property
    def held(self) -> bool:
        return not any(self.violations.values())


def append(directory: str | os.PathLike[str], entries: Sequence[Entry]) -> None:
    """Add runs to the catalogue of this directory."""
    if not entries:
        return
    path = Path(directory) / CATALOGUE
    lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
    try:
        with path.open("ab+", buffering=0) as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # the last writer was stopped: what it left does not spoil this line
                    lines = b"\n" + lines
            file.write(lines)
    except OSError as error:
        raise TraceError(f"cannot write {path}: {error.strerror}") from error


def entries(directory: str | os.PathLike[str]) -> list[Entry]:
    """The runs in the catalogue of this directory, each once, in the order in which they were last made."""
    path = Path(directory) / CATALOGUE
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        around = Path(directory).resolve().parent
        hint = f"; it is in the folder around the runs: unisono runs {around}" if (around / CATALOGUE).exists() else ""
        raise TraceError(f"{directory} has no catalogue of runs; simulate --out and demo write one{hint}") from None
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from error
    found: dict[str, Entry] = {}
    for line in lines:
        try:
            entry = msgspec.json.decode(line, type=Entry)
        except (msgspec.MsgspecError, ValueError):
            continue
        found.pop(entry.run, None)
        found[entry.run] = entry
    return list(found.values())


def checkout() -> str | None:
    """The commit that this package is at, with a word where it was changed since; None where it is installed."""
    package = Path(__file__).parents[1]
    try:
        tracked = _git(package, "ls-files", "--error-unmatch", "__init__.py")
        return (
            _git(package, "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=-changed") if tracked else None
        )
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=_GIT_SECONDS
    )
    return done.stdout.strip()
