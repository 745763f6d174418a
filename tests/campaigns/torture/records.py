"""The applications' own logs: one file for each life of each process, one line for each thing that happened to it.

A line is on its way to the disk before the application does anything else, so a process that is killed has said all
that it acted upon; its last line may be torn. Times are those of the machine's monotonic clock, in seconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import monotonic

from msgspec import Struct, ValidationError
from msgspec.json import Decoder, Encoder
from xxhash import xxh3_64_hexdigest


class Joined(Struct, frozen=True, array_like=True, tag="joined", gc=False):
    """The first line of a life: who this process is, and how it takes part."""

    at: float
    who: str
    service: str
    role: str


class Viewed(Struct, frozen=True, array_like=True, tag="view"):
    """A view, as the application was given it."""

    at: float
    view: str
    previous: str
    members: tuple[str, ...]
    transitional: tuple[str, ...] | None
    reasons: dict[str, str]
    whole: bool = True


class Sending(Struct, frozen=True, array_like=True, tag="sending", gc=False):
    """The application is about to send its message of this number."""

    at: float
    number: int
    hash: str


class Sent(Struct, frozen=True, array_like=True, tag="sent", gc=False):
    """The group accepted the messages of these numbers."""

    at: float
    first: int
    last: int


class Unsent(Struct, frozen=True, array_like=True, tag="unsent", gc=False):
    """The group did not say that it accepted them: nobody knows."""

    at: float
    first: int
    last: int
    why: str


class Got(Struct, frozen=True, array_like=True, tag="got", gc=False):
    """A message was delivered: whose, and the number and the hash of what it holds."""

    at: float
    source: str
    number: int
    hash: str


class Told(Struct, frozen=True, array_like=True, tag="told", gc=False):
    """Any other event: its name, and whom or what it is about."""

    at: float
    event: str
    about: str


class Leaving(Struct, frozen=True, array_like=True, tag="leaving", gc=False):
    """`leave` was called."""

    at: float


class Left(Struct, frozen=True, array_like=True, tag="left", gc=False):
    """`leave` returned."""

    at: float


class Closed(Struct, frozen=True, array_like=True, tag="closed", gc=False):
    """`close` returned, and every event was taken."""

    at: float


Record = Joined | Viewed | Sending | Sent | Unsent | Got | Told | Leaving | Left | Closed

_ENCODER = Encoder()
_DECODER = Decoder(Record)


class Log:
    """What one application writes."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)

    def write(self, *records: Record) -> None:
        self.write_many(records)

    def write_many(self, records: Sequence[Record]) -> None:
        data = render(records)
        while data:
            data = data[os.write(self._file, data) :]


def render(records: Iterable[Record]) -> bytes:
    """Lines, as they are in a log."""
    return b"".join(_ENCODER.encode(record) + b"\n" for record in records)


def read_log(path: Path, offset: int = 0) -> tuple[list[Record], int]:
    """The whole lines of a log from a place on, and the place after the last of them."""
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read()
    whole = data[: data.rfind(b"\n") + 1]
    return [read_line(line) for line in whole.splitlines()], offset + len(whole)


def read_line(line: bytes) -> Record:
    try:
        record: Record = _DECODER.decode(line)
    except ValidationError as error:
        raise ValueError(f"{line[:100]!r} is no line of a log: {error}") from error
    return record


def message(who: str, number: int, filler: bytes) -> bytes:
    """What an application sends: itself, its number and as many bytes as the test likes."""
    return b"%s %d\n%s" % (who.encode(), number, filler)


def number_in(data: bytes, source: str) -> int:
    """The number that a message of that source has in it; -1 where it holds something else."""
    who, _, number = data[:200].partition(b"\n")[0].partition(b" ")
    return int(number) if who == source.encode() and number.isdigit() else -1


def hash_of(data: bytes) -> str:
    return xxh3_64_hexdigest(data)


def now() -> float:
    return round(monotonic(), 6)
