"""What the columns of a run add up to: who wrote how many rows, rates over time, latencies, repairs and buffers.

Every function goes once through the tables that it needs and keeps sums, and a few numbers for each message sent.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from msgspec import Struct, field

from unisono.pipeline.pages.trace_columns import CLOCK, MOMENT, NOTHING, TRUTH, Numbers, Piece, TraceTables, distinct
from unisono.properties.violation import moment
from unisono.trace.schema import FAMILIES, Row

PERCENTILES = (50, 90, 99)
CURVE = (*range(100), 99.5, 99.9, 100)
BINS = 36
_MICROSECOND = 1000
_LIFE = ("process", "incarnation")

Life = tuple[str, int]
"""A process and its incarnation."""


class Clock(Struct, frozen=True):
    """When rows were written, counted from the first row that the same clock told; None is the simulator's."""

    origins: dict[str | None, int]
    duration: int

    @property
    def simulated(self) -> bool:
        return None in self.origins

    def when(self, row: Row) -> int:
        return moment(row) - self.origins[row.host if row.truth is None else None]

    def steps(self, step: int) -> int:
        return self.duration // step + 1

    def column(self, piece: Piece, tables: TraceTables) -> Numbers:
        """The same for every row of a piece."""
        origins = np.zeros(len(tables.words) + 2, dtype=np.int64)
        for host, origin in self.origins.items():
            origins[TRUTH if host is None else tables.code(host)] = origin
        return piece[MOMENT] - origins[piece[CLOCK]]


class Rates(Struct, frozen=True):
    """Counts in steps of equal length: messages sent by all, delivered by each life, and requests for repair."""

    step: int
    sent: list[int]
    delivered: dict[Life, list[int]]
    asked: list[int]


class Distribution(Struct, frozen=True):
    """Times in order, told by some of them: `percentiles` are exact, each that of some message (the nearest rank).

    `curve` has the values at CURVE percent, `bins` how many fell between one of `edges` and the next.
    """

    count: int
    least: int
    most: int
    percentiles: dict[int, int]
    curve: list[int]
    edges: list[float]
    bins: list[int]


class Presence(Struct):
    """What one life wrote in one group, or in none: when first and last, and how many rows of each kind."""

    first: int
    last: int
    counts: Counter[str] = field(default_factory=Counter)


class Presences(Struct):
    """All lives of a run by group."""

    run: str = ""
    groups: list[str] = []
    hosts: set[str] = field(default_factory=set)
    lives: dict[Life, dict[str, Presence]] = {}


class Sum(Struct):
    """What was sent, or delivered, in one group: rows, bytes, rows in each step of time, and those of each life.

    `in_view` counts the rows of each life in each view.
    """

    rows: int = 0
    bytes: int = 0
    steps: list[int] = []
    by_life: dict[Life, list[int]] = {}
    in_view: dict[str, Counter[Life]] = {}

    def most_in(self, view: str) -> int:
        """The rows in a view of the life that has most of them."""
        return max(self.in_view.get(view, Counter()).values(), default=0)


def clock_of(tables: TraceTables) -> Clock:
    """How the times of a run compare."""
    bounds: dict[int, tuple[int, int]] = {}
    for family in FAMILIES:
        for piece in tables.pieces(family, [MOMENT, CLOCK]):
            for clock in np.unique(piece[CLOCK]):
                mine = piece[MOMENT][piece[CLOCK] == clock]
                low, high = bounds.get(int(clock), (int(mine[0]), int(mine[0])))
                bounds[int(clock)] = min(low, int(mine.min())), max(high, int(mine.max()))
    return Clock(
        {None if clock == TRUTH else tables.words[clock]: low for clock, (low, _) in bounds.items()},
        max((high - low for low, high in bounds.values()), default=0),
    )


def presences(tables: TraceTables, clock: Clock) -> Presences:
    """Who wrote rows, where and when."""
    found = Presences()
    groups: set[str] = set()
    for family in FAMILIES:
        for piece in tables.pieces(family, ["run", "group", *_LIFE, "kind", "host", MOMENT, CLOCK]):
            when = clock.column(piece, tables)
            keys, which = distinct([piece[name] for name in ("run", "group", *_LIFE, "kind", "host")])
            first, last = _ends(when, which, len(keys))
            counts = np.bincount(which, minlength=len(keys))
            for index, (run, group, process, incarnation, kind, host) in enumerate(keys):
                found.run = tables.words[run]
                groups.add(tables.words[group])
                if not tables.words[process]:
                    continue
                found.hosts.add(tables.words[host])
                lives = found.lives.setdefault((tables.words[process], incarnation), {})
                begin, end = int(first[index]), int(last[index])
                mine = lives.setdefault(tables.words[group], Presence(begin, end))
                mine.first, mine.last = min(mine.first, begin), max(mine.last, end)
                mine.counts[tables.words[kind]] += int(counts[index])
    found.groups = sorted(groups - {""})
    return found


class Sends:
    """What was sent: sums by group, and for each message when, by which clock, and when it was delivered last."""

    def __init__(self) -> None:
        self.sums: dict[str, Sum] = {}
        self._waiting: dict[tuple[str, int, int], list[Piece]] = defaultdict(list)
        self.messages: dict[tuple[str, int, int], Piece] = {}

    def of(self, group: str) -> Sum:
        return self.sums.get(group) or Sum()

    def take(self, tables: TraceTables, clock: Clock, step: int, piece: Piece) -> None:
        _add(self.sums, tables, clock, step, piece)
        keys, which = distinct([piece[name] for name in ("group", *_LIFE)])
        for index, (group, process, incarnation) in enumerate(keys):
            mine = which == index
            self._waiting[tables.words[group], process, incarnation].append(
                {name: piece[name][mine] for name in ("number", MOMENT, CLOCK)}
            )

    def close(self) -> None:
        """Put the messages of each source into order; of several rows for a number the first counts."""
        for source, some in self._waiting.items():
            numbers, first = np.unique(np.concatenate([piece["number"] for piece in some]), return_index=True)
            self.messages[source] = {
                "number": numbers,
                MOMENT: np.concatenate([piece[MOMENT] for piece in some])[first],
                CLOCK: np.concatenate([piece[CLOCK] for piece in some])[first],
                "last": np.full(len(numbers), np.iinfo(np.int64).min),
                "foreign": np.zeros(len(numbers), dtype=np.int64),
            }
        self._waiting.clear()


def sends(tables: TraceTables, clock: Clock, step: int) -> Sends:
    """What was sent."""
    found = Sends()
    for piece in tables.pieces("send", ["group", *_LIFE, "view", "number", "size", MOMENT, CLOCK]):
        found.take(tables, clock, step, piece)
    found.close()
    return found


class Deliveries:
    """What was delivered: sums by group, and the latencies of messages whose clocks compare."""

    def __init__(self, sent: Sends) -> None:
        self.sums: dict[str, Sum] = {}
        self._sent = sent

    def of(self, group: str) -> Sum:
        return self.sums.get(group) or Sum()

    def take(self, tables: TraceTables, piece: Piece) -> None:
        """Note, for each message, its last delivery so far and whether another clock than the sender's told one."""
        keys, which = distinct([piece[name] for name in ("group", "source", "source_incarnation")])
        order = np.argsort(which, kind="stable")
        ends = np.searchsorted(which[order], np.arange(len(keys) + 1))
        for index, (group, source, incarnation) in enumerate(keys):
            sent = self._sent.messages.get((tables.words[group], source, incarnation))
            if sent is None:
                continue
            mine = order[ends[index] : ends[index + 1]]
            number = piece["number"][mine]
            place = np.minimum(np.searchsorted(sent["number"], number), len(sent["number"]) - 1)
            known = sent["number"][place] == number
            mine, place = mine[known], place[known]
            np.maximum.at(sent["last"], place, piece[MOMENT][mine])
            sent["foreign"][place[piece[CLOCK][mine] != sent[CLOCK][place]]] = 1

    def latencies(self, group: str) -> Distribution | None:
        """From sending to the delivery at the last member that delivered it, where one clock told all of it."""
        times = [
            (sent["last"] - sent[MOMENT])[(sent["last"] > np.iinfo(np.int64).min) & (sent["foreign"] == 0)]
            for (name, _, _), sent in self._sent.messages.items()
            if name == group
        ]
        values = np.sort(np.concatenate(times)) if times else np.zeros(0, dtype=np.int64)
        return distribution(values) if len(values) else None


def deliveries(tables: TraceTables, clock: Clock, step: int, sent: Sends) -> Deliveries:
    """What was delivered."""
    found = Deliveries(sent)
    columns = ["group", *_LIFE, "view", "source", "source_incarnation", "number", "size", MOMENT, CLOCK]
    for piece in tables.pieces("deliver", columns):
        _add(found.sums, tables, clock, step, piece)
        found.take(tables, piece)
    return found


def distribution(values: Numbers) -> Distribution:
    """Some times, which are in order."""
    count = len(values)
    logarithms = np.log10(np.maximum(values, _MICROSECOND).astype(np.float64))
    low, high = float(logarithms[0]), float(logarithms[-1])
    if high - low < 0.1:
        low, high = low - 0.1, high + 0.1
    bins, edges = np.histogram(logarithms, bins=BINS, range=(low, high))

    def at(percent: float) -> int:
        return int(values[max(0, -(-int(count * percent * 10) // 1000) - 1)])

    return Distribution(
        count=count,
        least=int(values[0]),
        most=int(values[-1]),
        percentiles={percent: at(percent) for percent in PERCENTILES},
        curve=[at(percent) for percent in CURVE],
        edges=[float(10**edge) for edge in edges],
        bins=[int(found) for found in bins],
    )


def _add(sums: dict[str, Sum], tables: TraceTables, clock: Clock, step: int, piece: Piece) -> None:
    steps = clock.steps(step)
    when = clock.column(piece, tables) // step
    keys, which = distinct([piece[name] for name in ("group", *_LIFE, "view")])
    counts = np.bincount(which, minlength=len(keys))
    sizes = np.bincount(which, weights=piece["size"], minlength=len(keys))
    grid = np.bincount(which * steps + when, minlength=len(keys) * steps).reshape(len(keys), steps)
    for index, (group, process, incarnation, view) in enumerate(keys):
        total = sums.setdefault(tables.words[group], Sum(steps=[0] * steps))
        total.rows += int(counts[index])
        total.bytes += int(sizes[index])
        total.steps = (grid[index] + total.steps).tolist()
        life = (tables.words[process], incarnation)
        total.by_life[life] = (grid[index] + total.by_life.get(life, [0] * steps)).tolist()
        if view != NOTHING:
            total.in_view.setdefault(tables.words[view], Counter())[life] += int(counts[index])


def _ends(when: Numbers, which: Numbers, count: int) -> tuple[Numbers, Numbers]:
    first = np.full(count, np.iinfo(np.int64).max)
    last = np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(first, which, when)
    np.maximum.at(last, which, when)
    return first, last
