"""The catalogue of a directory of runs: one line of JSON for each run that was written into it.

Lines are only ever appended, each with one write, so that several commands may share a directory. A line that was cut
is passed over; of several lines about one run, the last one counts.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from unisono.errors import TraceError

CATALOGUE = "catalogue.jsonl"
MOMENT = "%Y-%m-%dT%H:%M:%SZ"

Verdict = Literal["held", "violated", "not audited"]

_GIT_SECONDS = 5.0


class Entry(Struct, frozen=True, kw_only=True):
    """One run: its folder beside the catalogue, when and by which command it was made, and what it came to.

    `made` is a moment in UTC as in ISO 8601, `commit` that of the checkout it was made with, null where there is none.
    `options` are what the command changed, beside service, members and message size where they are known. `violations`
    counts them by property: all that were promised are listed; null says that nobody audited the run. A run that was
    not simulated has no seed.
    """

    run: str
    made: str
    command: str = ""
    scenario: str = ""
    seed: int | None = None
    commit: str | None = None
    options: dict[str, str] = {}
    rows: int | None = None
    violations: dict[str, int] | None = None

    @property
    def held(self) -> bool:
        """Whether it was audited and every promise held."""
        return self.violations is not None and not self.violated

    @property
    def violated(self) -> tuple[str, ...]:
        return tuple(name for name, count in (self.violations or {}).items() if count)

    @property
    def verdict(self) -> Verdict:
        return "not audited" if self.violations is None else "violated" if self.violated else "held"


class Filter(Struct, frozen=True, kw_only=True):
    """Which entries are wanted; what is not given is not asked. `seeds` are from the first up to the last, without it.

    An entry has an option if its value is the same in words; `commit` may be the beginning of one.
    """

    scenario: str | None = None
    seeds: tuple[int, int] | None = None
    since: str | None = None
    verdict: Verdict | None = None
    violates: tuple[str, ...] = ()
    commit: str | None = None
    options: dict[str, str] = {}

    def takes(self, entry: Entry) -> bool:
        return (
            self.scenario in (None, entry.scenario)
            and (self.seeds is None or (entry.seed is not None and self.seeds[0] <= entry.seed < self.seeds[1]))
            and (self.since is None or entry.made >= self.since)
            and self.verdict in (None, entry.verdict)
            and set(self.violates) <= set(entry.violated)
            and (self.commit is None or (entry.commit or "").startswith(self.commit))
            and all(entry.options.get(key) == value for key, value in self.options.items())
        )


def now() -> str:
    """This moment as an entry has it."""
    return datetime.now(UTC).strftime(MOMENT)


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
        raise TraceError(f"{directory} has no catalogue of runs; commands that write runs keep one{hint}") from None
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
