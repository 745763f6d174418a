"""The spool: a process appends its trace rows here, and what was written survives kill -9.

A header frame names the run and the schema; every later frame is a batch of rows, or a report of rows in columns. Each
write is one append of whole frames, so a process that dies loses at most what it had not yet written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import msgspec
from msgspec import Struct

from unisono.errors import BadReport, TraceError
from unisono.trace.reports import Report
from unisono.trace.reports import decode as decode_report
from unisono.trace.reports import encode as encode_report
from unisono.trace.reports import rows as report_rows
from unisono.trace.schema import SCHEMA_VERSION, AnyRow
from unisono.wire.frames import FRAME_LIMIT_BYTES, LENGTH_BYTES, Ending, FrameReader, frame, read_frames

MAGIC = b"unisono spool\n"
BATCH_ROWS = 10_000
"""The most rows in one frame, so that a reader never holds more than some megabytes of one."""

_COLUMNS = b"\xc1"
"""What a frame with a report begins with: no list of rows does."""
_HEADER_LIMIT_BYTES = 4096

_encode = msgspec.msgpack.Encoder().encode
_decode_rows = msgspec.msgpack.Decoder(list[AnyRow]).decode


class SpoolHeader(Struct, frozen=True, array_like=True):
    """What stands in the first frame, after the magic word."""

    schema_version: int
    run: str


_decode_header = msgspec.msgpack.Decoder(SpoolHeader).decode


class SpoolWriter:
    """Appends rows to a new file, or to a binary file that the caller opened and will close."""

    def __init__(self, target: str | os.PathLike[str] | BinaryIO, run: str) -> None:
        self._descriptor: int | None = None
        self._file: BinaryIO | None = None
        header = MAGIC + _encode(SpoolHeader(SCHEMA_VERSION, run))
        if len(header) > _HEADER_LIMIT_BYTES:
            raise TraceError(f"a run's name has at most {_HEADER_LIMIT_BYTES - 64} bytes")
        if isinstance(target, (str, os.PathLike)):
            self._name = os.fspath(target)
            try:
                self._descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
            except FileExistsError:
                raise TraceError(f"{self._name} exists; a spool is written once, choose another name") from None
            except OSError as error:
                raise TraceError(f"cannot open {self._name}: {error.strerror}") from error
        else:
            self._name = "spool"
            self._file = target
        self._append(frame(header))

    def write(self, rows: Sequence[AnyRow]) -> None:
        """Append these rows; when this returns they survive the death of the process."""
        if rows:
            self._append(b"".join(_frames(rows)))

    def write_report(self, report: Report) -> None:
        """Append the rows of a report, in columns; when this returns they survive the death of the process."""
        self._append(frame(_COLUMNS + encode_report(report)))

    def flush(self) -> None:
        """Wait until what was written is on disk, so that it survives the machine too."""
        try:
            if self._descriptor is not None:
                os.fsync(self._descriptor)
            elif self._file is not None:
                self._file.flush()
        except OSError as error:
            raise TraceError(f"cannot flush {self._name}: {error.strerror}") from error

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        elif self._file is not None:
            self._file.flush()
        self._descriptor = self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, data: bytes) -> None:
        if self._descriptor is None and self._file is None:
            raise TraceError(f"{self._name} is closed")
        try:
            if self._descriptor is None:
                assert self._file is not None
                self._file.write(data)
                return
            left = memoryview(data)
            while left:  # one call appends everything; only a disk that fills up takes less
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            raise TraceError(f"cannot write {self._name}: {error.strerror}") from error


def _frames(rows: Sequence[AnyRow]) -> Iterator[bytes]:
    for start in range(0, len(rows), BATCH_ROWS):
        yield from _fitting(rows[start : start + BATCH_ROWS])


def _fitting(rows: Sequence[AnyRow]) -> Iterator[bytes]:
    payload = _encode(rows)
    if len(payload) <= FRAME_LIMIT_BYTES:
        yield frame(payload)
    elif len(rows) == 1:
        raise TraceError(f"one row takes {len(payload)} bytes; at most {FRAME_LIMIT_BYTES} fit")
    else:
        half = len(rows) // 2
        yield from _fitting(rows[:half])
        yield from _fitting(rows[half:])


class Spool:
    """A spool as read: its header (None when it was cut or damaged before the header ended), then its rows.

    `ending` is None until the last row has been taken, then says what was lost, if anything.
    """

    def __init__(self, name: str, data: bytes | mmap) -> None:
        self._name = name
        self._frames: FrameReader = read_frames(data)
        self.header: SpoolHeader | None = None
        first = next(self._frames, None)
        if first is None:
            if _looks_foreign(data):
                raise TraceError(f"{name} is not a spool")
            return
        if not first.startswith(MAGIC):
            raise TraceError(f"{name} holds frames but is not a spool")
        try:
            header = _decode_header(first[len(MAGIC) :])
        except (msgspec.DecodeError, ValueError) as error:
            raise TraceError(f"{name} has a header that cannot be read: {error}") from None
        if header.schema_version != SCHEMA_VERSION:
            raise TraceError(
                f"{name} has schema version {header.schema_version}, this version reads {SCHEMA_VERSION};"
                " read it with the version that wrote it"
            )
        self.header = header

    def read_to_the_end(self) -> Ending:
        """Pass over all rows, and say how the file ends."""
        for _ in self._frames:
            pass
        assert self._frames.ending is not None, "there is no frame left"
        return self._frames.ending

    @property
    def ending(self) -> Ending | None:
        return self._frames.ending

    def __iter__(self) -> Iterator[AnyRow]:
        for payload in self._frames:
            try:
                rows = (
                    report_rows(decode_report(payload[1:], limited=False))
                    if payload[:1] == _COLUMNS
                    else _decode_rows(payload)
                )
            except (msgspec.DecodeError, ValueError, BadReport) as error:
                raise TraceError(f"{self._name} has a whole frame that holds no rows: {error}") from None
            yield from rows


def read_spool(path: str | os.PathLike[str]) -> Spool:
    """Open a spool. A cut or damaged one gives every row before that place; a foreign file is a TraceError."""
    name = os.fspath(path)
    try:
        with Path(path).open("rb") as file:
            empty = os.fstat(file.fileno()).st_size == 0  # an empty file cannot be mapped
            data = b"" if empty else mmap(file.fileno(), 0, access=ACCESS_READ)
    except OSError as error:
        raise TraceError(f"cannot read {name}: {error.strerror}") from error
    return Spool(name, data)


def _looks_foreign(data: bytes | mmap) -> bool:
    """Neither a header's length nor the magic word, as far as they are there: damage rarely hits both."""
    length = data[:LENGTH_BYTES]
    magic = data[LENGTH_BYTES : LENGTH_BYTES + len(MAGIC)]
    plausible_length = len(length) < LENGTH_BYTES or int.from_bytes(length, "little") <= _HEADER_LIMIT_BYTES
    return not plausible_length and not (magic and MAGIC.startswith(magic))
