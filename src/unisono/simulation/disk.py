"""A simulated disk: logs that keep what was synced, blobs of one life, and the ways in which a disk fails.

Records are framed and checksummed as on a real disk, so that torn writes and flipped bits are found when it is read.
"""

from __future__ import annotations

from random import Random

from unisono.wire.frames import frame, read_frames


class DiskError(Exception):
    """A request that the disk refused; becomes a StorageFailed fact."""


class Disk:
    """The disk of one member; it outlives the process unless the member restarts without it."""

    __slots__ = ("_blobs", "_logs", "_random", "_snapshots", "_synced", "_trouble")

    def __init__(self, random: Random) -> None:
        self._random = random
        self._logs: dict[str, bytearray] = {}
        self._synced: dict[str, int] = {}
        self._snapshots: dict[str, bytes] = {}
        self._trouble: set[str] = set()
        self._blobs: dict[str, bytearray] = {}

    def append(self, log: str, record: bytes) -> None:
        if "full" in self._trouble:
            raise DiskError("no space left")
        self._logs.setdefault(log, bytearray()).extend(frame(record))

    def sync(self, log: str) -> None:
        if "error" in self._trouble:
            raise DiskError("sync failed")
        data = self._logs.setdefault(log, bytearray())
        self._snapshots.setdefault(log, bytes(data))
        self._synced[log] = len(data)

    def read(self, log: str) -> tuple[bytes, ...]:
        """The records up to the first that is not whole; the rest is cut off, as a real log would be."""
        data = self._logs.setdefault(log, bytearray())
        frames = read_frames(bytes(data))
        records = tuple(frames)
        assert frames.ending is not None, "every frame was taken"
        del data[frames.ending.whole_bytes :]
        self._synced[log] = min(self._synced.get(log, 0), len(data))
        return records

    def write_blob(self, blob: str, offset: int, data: bytes) -> None:
        if "full" in self._trouble:
            raise DiskError("no space left")
        kept = self._blobs.setdefault(blob, bytearray())
        kept.extend(bytes(max(0, offset + len(data) - len(kept))))
        kept[offset : offset + len(data)] = data

    def read_blob(self, blob: str, offset: int, size: int) -> bytes:
        if "error" in self._trouble:
            raise DiskError("read failed")
        return bytes(self._blobs.get(blob, b"")[offset : offset + size])

    def drop_blob(self, blob: str) -> None:
        self._blobs.pop(blob, None)

    def drop_blobs(self) -> None:
        """A new life has none of the blobs of the one before."""
        self._blobs.clear()

    def begin(self, trouble: str) -> None:
        """`full` and `error` last; `flip` and `stale` happen at once; `lose_unsynced` and `torn` wait for a crash."""
        if trouble == "flip":
            self._flip()
        elif trouble == "stale":
            self._restore()
        else:
            self._trouble.add(trouble)

    def end(self, trouble: str) -> None:
        self._trouble.discard(trouble)

    def crash(self) -> None:
        """Power is lost: what was not synced may be lost, in the middle of a record if writes tear."""
        for log in sorted(self._logs):
            data, synced = self._logs[log], self._synced.get(log, 0)
            if "lose_unsynced" in self._trouble:
                del data[synced:]
            elif "torn" in self._trouble and data:
                del data[len(data) - self._random.randint(1, min(8, len(data))) :]

    def wipe(self) -> None:
        self._logs.clear()
        self._synced.clear()
        self._snapshots.clear()

    def _flip(self) -> None:
        files = [self._logs[log] for log in sorted(self._logs)] + [self._blobs[blob] for blob in sorted(self._blobs)]
        for data in files:
            if data:
                data[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)

    def _restore(self) -> None:
        for log, snapshot in sorted(self._snapshots.items()):
            self._logs[log] = bytearray(snapshot)
            self._synced[log] = len(snapshot)
