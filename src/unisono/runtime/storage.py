"""Logs on disk: records are framed and checksummed, and durable after a sync.

One thread does what is asked, in order. A record that a crash cut short is cut off when its log is opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from unisono.engine import AppendLog, ReadLog, StorageDone, StorageFailed, SyncLog
from unisono.errors import StorageError
from unisono.wire.frames import frame, read_frames

_LOG = logging.getLogger(__name__)

Request = AppendLog | SyncLog | ReadLog
Answer = Callable[[StorageDone | StorageFailed], None]
LOCK = "lock"


class Storage(Protocol):
    """Does what an engine asks of its logs and answers every request, in order."""

    def start(self, loop: asyncio.AbstractEventLoop, answer: Answer) -> None: ...

    def request(self, request: Request) -> None: ...

    def close(self) -> None: ...


class MemoryStorage:
    """Logs that end with the process: for processes whose name is never used again."""

    def __init__(self) -> None:
        self._logs: dict[str, list[bytes]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._answer: Answer = lambda done: None

    def start(self, loop: asyncio.AbstractEventLoop, answer: Answer) -> None:
        self._loop, self._answer = loop, answer

    def request(self, request: Request) -> None:
        assert self._loop is not None, "storage is used after it started"
        log = self._logs.setdefault(request.log, [])
        done = StorageDone(request.request)
        if isinstance(request, AppendLog):
            log.append(request.record)
        elif isinstance(request, ReadLog):
            done = StorageDone(request.request, tuple(log))
        self._loop.call_soon(lambda: self._answer(done))

    def close(self) -> None:
        self._answer = lambda done: None


class DiskStorage:
    """Logs in a directory of their own, one file each. A second process with the same directory is refused."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(f"cannot use {directory}: {error.strerror}; choose another with storage=") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise StorageError(
                f"a process of this name runs already, it uses {directory}; choose another name"
            ) from None
        except OSError as error:  # a file system without locks: two processes of one name are not noticed here
            _LOG.warning("%s cannot be locked: %s", directory, error.strerror)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="unisono-storage")
        self._logs: dict[str, LogFile] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._answer: Answer | None = None

    def start(self, loop: asyncio.AbstractEventLoop, answer: Answer) -> None:
        self._loop, self._answer = loop, answer

    def request(self, request: Request) -> None:
        self._worker.submit(self._do, request).add_done_callback(self._done)

    def close(self) -> None:
        """Finish what was asked for; answers are no longer given."""
        self._answer = None
        self._worker.shutdown(wait=True)
        for log in self._logs.values():
            log.close()
        os.close(self._lock)

    def _do(self, request: Request) -> StorageDone | StorageFailed:
        try:
            log = self._logs.get(request.log)
            if log is None:
                path = self._directory / f"{quote(request.log, safe='')}.log"
                log = self._logs[request.log] = LogFile(path)
            if isinstance(request, AppendLog):
                log.append(request.record)
            elif isinstance(request, SyncLog):
                log.sync()
            else:
                return StorageDone(request.request, log.read())
            return StorageDone(request.request)
        except (OSError, ValueError) as error:
            return StorageFailed(request.request, str(error))

    def _done(self, future: Future[StorageDone | StorageFailed]) -> None:
        assert self._loop is not None, "storage is used after it started"
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._give, future.result())

    def _give(self, done: StorageDone | StorageFailed) -> None:
        if self._answer is not None:
            self._answer(done)


class LogFile:
    """One log: whole frames, one after the other. Used by one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        new = not path.exists()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._whole = 0
        try:
            self.read()
            if new:
                _sync_directory(path.parent)
        except BaseException:
            os.close(self._descriptor)
            raise

    def append(self, record: bytes) -> None:
        """Write a record whole, or leave the log as it was."""
        left = memoryview(frame(record))
        size = len(left)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            os.ftruncate(self._descriptor, self._whole)
            raise
        self._whole += size

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def read(self) -> tuple[bytes, ...]:
        """The records up to the first that is not whole; the rest is cut off."""
        data = self._path.read_bytes()
        frames = read_frames(data)
        records = tuple(frames)
        assert frames.ending is not None, "every frame was taken"
        self._whole = frames.ending.whole_bytes
        if self._whole < len(data):
            os.ftruncate(self._descriptor, self._whole)
        return records

    def close(self) -> None:
        os.close(self._descriptor)


def state_directory(realm: str, name: str) -> Path:
    """Where a process of that name keeps its logs, by default."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "unisono" / (quote(realm, safe="") or "_") / quote(name, safe="")


def _sync_directory(directory: Path) -> None:
    """A new file is durable when its directory is."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
