"""Blobs on disk: files of one life, for states that are given and taken. They go with the process.

One thread reads and writes what an engine asks for, in order; an application fills a blob, or reads one, by its path.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

from unisono.engine import DropBlob, ReadBlob, StorageDone, StorageFailed, WriteBlob

BLOBS = "blobs"
"""The directory of blobs within that of a process's logs."""

Request = WriteBlob | ReadBlob | DropBlob
Answer = Callable[[StorageDone | StorageFailed], None]


class Blobs:
    """The blobs of one process: below a directory, or below one of the system's for temporary files."""

    def __init__(self, directory: Path | None) -> None:
        self._parent = directory
        self._directory: Path | None = None
        self._worker: ThreadPoolExecutor | None = None
        self._descriptors: dict[str, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._answer: Answer | None = None

    def start(self, loop: asyncio.AbstractEventLoop, answer: Answer) -> None:
        self._loop, self._answer = loop, answer

    def path(self, blob: str) -> Path:
        """Where a blob is, or will be. The first call throws away what an earlier life left."""
        if self._directory is None:
            if self._parent is None:
                self._directory = Path(tempfile.mkdtemp(prefix="unisono-"))
            else:
                self._directory = self._parent / BLOBS
                shutil.rmtree(self._directory, ignore_errors=True)
                self._directory.mkdir(mode=0o700)
        return self._directory / quote(blob, safe="")

    def request(self, request: Request) -> None:
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="unisono-blobs")
        self._worker.submit(self._do, request).add_done_callback(self._done)

    def close(self) -> None:
        """Finish what was asked for, and remove all blobs."""
        self._answer = None
        if self._worker is not None:
            self._worker.shutdown(wait=True)
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _do(self, request: Request) -> StorageDone | StorageFailed | None:
        if isinstance(request, DropBlob):
            descriptor = self._descriptors.pop(request.blob, None)
            if descriptor is not None:
                os.close(descriptor)
            self.path(request.blob).unlink(missing_ok=True)
            return None
        try:
            descriptor = self._open(request.blob)
            if isinstance(request, WriteBlob):
                left, offset = memoryview(request.data), request.offset
                while left:
                    written = os.pwrite(descriptor, left, offset)
                    left, offset = left[written:], offset + written
                return StorageDone(request.request)
            return StorageDone(request.request, (os.pread(descriptor, request.size, request.offset),))
        except OSError as error:
            return StorageFailed(request.request, error.strerror or str(error))

    def _open(self, blob: str) -> int:
        descriptor = self._descriptors.get(blob)
        if descriptor is None:
            descriptor = os.open(self.path(blob), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._descriptors[blob] = descriptor
        return descriptor

    def _done(self, future: Future[StorageDone | StorageFailed | None]) -> None:
        done = future.result()
        if done is not None and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._give, done)

    def _give(self, done: StorageDone | StorageFailed) -> None:
        if self._answer is not None:
            self._answer(done)
