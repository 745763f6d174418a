"""What a run cost: requests for repair and repairs, how full buffers were, and which hard situations were met."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from unisono.pipeline.pages.story_counts import Clock
from unisono.pipeline.pages.trace_columns import CLOCK, MOMENT, NOTHING, Numbers, Piece, TraceTables, distinct
from unisono.properties.promises import STRONG

_STREAM = "stream"
"""The view where sequences are counted anew in each, as strong sessions do; else nothing."""
_RANGE = ("source", "source_incarnation", _STREAM, "first", "last")


class RepairSum(Struct):
    """Requests and repairs in one group; ranges of sequences that overlap are one loss, or one range repaired."""

    steps: list[int]
    asked: int = 0
    repaired: int = 0
    lost: int = 0
    ranges: int = 0


class RepairSums(Struct):
    """All groups."""

    steps: int
    groups: dict[str, RepairSum] = {}

    def of(self, group: str) -> RepairSum:
        return self.groups.get(group) or RepairSum([0] * self.steps)


def repairs(tables: TraceTables, clock: Clock, step: int) -> RepairSums:
    """What had to be repaired."""
    steps = clock.steps(step)
    found = RepairSums(steps)
    asking, repairing = tables.code("RTR"), tables.code("RTX")
    kept: dict[tuple[str, int], list[Piece]] = defaultdict(list)
    sessions = tables.code(STRONG)
    read = [name for name in _RANGE if name != _STREAM]
    for piece in tables.pieces("repair", ["kind", "group", "view", "service", *read, MOMENT, CLOCK]):
        piece[_STREAM] = np.where(piece["service"] == sessions, piece["view"], NOTHING)
        when = clock.column(piece, tables) // step
        keys, which = distinct([piece["group"], piece["kind"]])
        for index, (group, kind) in enumerate(keys):
            if kind in (asking, repairing):
                mine = which == index
                total = found.groups.setdefault(tables.words[group], RepairSum([0] * steps))
                kept[tables.words[group], kind].append({name: piece[name][mine] for name in _RANGE})
                if kind == asking:
                    total.steps = (np.bincount(when[mine], minlength=steps) + total.steps).tolist()
    for (name, kind), pieces in kept.items():
        columns = {column: np.concatenate([piece[column] for piece in pieces]) for column in _RANGE}
        total = found.groups[name]
        if kind == asking:
            total.asked, total.lost = len(columns["first"]), _ranges(columns)
        else:
            total.repaired, total.ranges = len(columns["first"]), _ranges(columns)
    return found


class Buffer(Struct, frozen=True):
    """A gauge with a cap: the highest value, the cap beside it, and the highest in each step, 0 where none was told."""

    name: str
    highest: int
    cap: int
    steps: list[int]


def buffers(tables: TraceTables, clock: Clock, step: int) -> tuple[list[Buffer], dict[str, int]]:
    """How full every buffer was; and the sum of each gauge that has no cap."""
    steps = clock.steps(step)
    highest: dict[str, tuple[int, int]] = {}
    series: dict[str, Numbers] = {}
    totals: Counter[str] = Counter()
    gauge = tables.code("GAUGE")
    for piece in tables.pieces("gauge", ["kind", "name", "value", "cap", MOMENT, CLOCK]):
        when = clock.column(piece, tables) // step
        keys, which = distinct([piece["kind"], piece["name"], (piece["cap"] != NOTHING).astype(np.int64)])
        for index, (kind, code, capped) in enumerate(keys):
            if kind != gauge:
                continue
            mine = which == index
            name, values = tables.words[code], piece["value"][mine]
            if not capped:
                totals[name] += int(values.sum())
                continue
            top = int(values.argmax())
            found = (int(values[top]), int(piece["cap"][mine][top]))
            highest[name] = max(highest.get(name, found), found, key=lambda pair: pair[0])
            np.maximum.at(series.setdefault(name, np.zeros(steps, dtype=np.int64)), when[mine], values)
    return [Buffer(name, *highest[name], series[name].tolist()) for name in sorted(highest)], dict(totals)


def marks(tables: TraceTables) -> dict[str, int]:
    """How often each hard situation was met."""
    mark, found = tables.code("MARK"), Counter[str]()
    for piece in tables.pieces("gauge", ["kind", "name"]):
        names, counts = np.unique(piece["name"][piece["kind"] == mark], return_counts=True)
        found.update({tables.words[name]: int(count) for name, count in zip(names, counts, strict=True)})
    return dict(sorted(found.items()))


class Told(Struct):
    """The statistics of one type: how many rows there are, and of how many processes."""

    kind: str
    rows: int = 0
    processes: set[str] = set()


def statistics(tables: TraceTables) -> list[Told]:
    """What processes told about themselves, by type."""
    found: dict[str, Told] = {}
    for piece in tables.pieces("statistic", ["kind", "process"]):
        keys, which = distinct([piece["kind"], piece["process"]])
        for (kind, process), count in zip(keys, np.bincount(which, minlength=len(keys)).tolist(), strict=True):
            told = found.setdefault(tables.words[kind], Told(tables.words[kind]))
            told.rows += count
            told.processes.add(tables.words[process])
    return [found[kind] for kind in sorted(found)]


def _ranges(columns: Mapping[str, Numbers]) -> int:
    """How many ranges of sequences there are, those that overlap taken as one."""
    order = np.lexsort([columns[name] for name in ("first", _STREAM, "source_incarnation", "source")])
    new = np.ones(len(order), dtype=bool)
    new[1:] = False
    for name in ("source", "source_incarnation", _STREAM):
        column = columns[name][order]
        new[1:] |= column[1:] != column[:-1]
    count, until = 0, 0
    for fresh, first, last in zip(
        new.tolist(), columns["first"][order].tolist(), columns["last"][order].tolist(), strict=True
    ):
        if fresh or first > until:
            count, until = count + 1, last
        else:
            until = max(until, last)
    return count
