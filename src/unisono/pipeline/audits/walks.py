"""The processes whose rows may contradict one another in place or time (W1), from what a scan saw of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from unisono.pipeline.audits.known import Process, Walk


class Chunk(Struct, frozen=True):
    """The deliveries of one process in one batch, with all that it wrote between them: in order, or suspect."""

    position: int
    last_position: int
    at: int
    last_at: int
    truth: int
    last_truth: int
    host: str
    clocked: bool
    suspect: bool


def suspects(walks: dict[Process, Walk], chunks: Iterable[tuple[Process, Chunk]]) -> list[Process]:
    """The processes whose positions are not 0, 1, 2 and so on, or whose times go back, or that have two clocks.

    What lies within a chunk was looked at with it; here is the rest, with the ends of the chunks.
    """
    of_process: dict[Process, list[Chunk]] = defaultdict(list)
    for process, chunk in chunks:
        of_process[process].append(chunk)
    return [
        process
        for process in sorted({*walks, *of_process})
        if not _is_in_order(walks.get(process), sorted(of_process[process], key=lambda chunk: chunk.position))
    ]


def _is_in_order(walk: Walk | None, chunks: list[Chunk]) -> bool:
    clocks = {(chunk.host, chunk.clocked) for chunk in chunks} | (set() if walk is None else {walk.clock})
    if len(clocks) > 1 or None in clocks or any(chunk.suspect for chunk in chunks):
        return False
    ends = [end for chunk in chunks for end in _ends(chunk)]
    position, at, truth = (np.asarray([end[place] for end in ends], np.int64) for place in range(3))
    # From the first to the last delivery of a chunk there are no gaps, whatever their distance.
    skips = np.asarray([end[3] for end in ends], np.int64)
    if walk is not None:
        first, last = (np.asarray([getattr(one, name) for one in chunks]) for name in ("position", "last_position"))
        inside = np.searchsorted(first, walk.position, "right") - 1
        outside = np.ones(len(walk.position), bool)
        if chunks:
            outside = (inside < 0) | (walk.position > last[inside])
        position, at, truth = (
            np.concatenate([mine, theirs[outside]])
            for mine, theirs in ((position, walk.position), (at, walk.at), (truth, walk.truth))
        )
        skips = np.concatenate([skips, np.zeros(int(outside.sum()), np.int64)])
    order = np.argsort(position, kind="stable")
    position, at, truth, skips = position[order], at[order], truth[order], skips[order]
    dense = position[0] == 0 and np.all(np.diff(position) == 1 + skips[:-1])
    return bool(dense and np.all(np.diff(at) >= 0) and np.all(np.diff(truth) >= 0))


def _ends(chunk: Chunk) -> list[tuple[int, int, int, int]]:
    """Position and times of the first and the last delivery, and how many rows lie between."""
    between = chunk.last_position - chunk.position - 1
    first = (chunk.position, chunk.at, chunk.truth, max(between, 0))
    last = (chunk.last_position, chunk.last_at, chunk.last_truth, 0)
    return [first, last] if between >= 0 else [last]
