"""What a scan of deliveries knows beforehand: every message that was sent, and where lives and views turn.

Each worker reads it once from the files of the smaller tables, and keeps it for its other tasks of the same audit.
A path does not tell what is read: runs are made anew in their places, and those of a lake are all made in one place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from unisono.pipeline.audits.coded import (
    Column,
    TableFile,
    by_code,
    codes_of,
    combined,
    numbers_of,
    present,
    read_file,
    slices,
)
from unisono.properties.promises import PRECISION_NANOSECONDS, SETTLING_NANOSECONDS

Member = tuple[str, str, str, int]
"""Run, group, process and incarnation."""
Process = tuple[str, str, int]

TURNS = ("JOIN", "LEAVE", "SELF_FAIL", "BOOTSTRAP", "EXCLUDED", "BLOCK_OK")
"""Beside views, what a stride does not go beyond."""
NO_WORD = -1
NEVER_SENT = -2
_NOTHING = np.asarray([], np.int64)


class Sent(Struct, eq=False):
    """The messages of one source by number, each as its first SEND has it."""

    number: Column
    sequence: Column
    size: Column
    body: Column
    timestamp: Column
    at: Column
    truth: Column
    has_truth: Column
    host: Column
    origin: Column
    agreed: Column
    """A word of `Known.words`, as host and origin are."""

    def places(self, numbers: Column) -> tuple[Column, Column]:
        """Where these numbers are, and whether they are there at all."""
        if not len(self.number):
            return np.zeros(len(numbers), np.int64), np.zeros(len(numbers), bool)
        first, last = int(self.number[0]), int(self.number[-1])
        if last - first + 1 == len(self.number):
            there = (numbers >= first) & (numbers <= last)
            return np.where(there, numbers - first, 0), there
        found = np.minimum(np.searchsorted(self.number, numbers), len(self.number) - 1)
        return found, self.number[found] == numbers


class Said(Struct, eq=False):
    """The timestamps that one process sent, in all groups, by position."""

    position: Column
    timestamp: Column
    highest: Column
    """The highest up to each."""
    lowest: Column
    """The lowest from each on, and at last one that is above all."""


class Turns(Struct, eq=False):
    """Where one member turns: the positions of all turns, and of its views with what they are."""

    positions: Column
    views: Column
    words: Column
    """Of each view, after one that stands for none."""
    eras: Column
    joins: Column
    across: list[str | None]
    """What each JOIN names, after None for before the first."""


class Walk(Struct, eq=False):
    """Where and when one process wrote its rows, but for deliveries; of its clock whether it is always one."""

    position: Column
    at: Column
    truth: Column
    clock: tuple[str | None, bool] | None
    """The host, and whether there is a global time; None where the rows do not agree."""


class Known(Struct, eq=False):
    """All of it, by run."""

    sent: dict[Member, Sent]
    said: dict[Process, Said]
    turns: dict[Member, Turns]
    words: dict[str, int]
    moments: dict[str, Column]
    """By run: strides of sends do not go beyond these moments."""
    sequences: dict[Member, Column]
    """By source: nor beyond these sequences."""
    walks: dict[Process, Walk]
    """By process."""

    def word(self, text: str | None) -> int:
        """The number of a view's name; one that is new gets the next."""
        return NO_WORD if text is None else self.words.setdefault(text, len(self.words))


NOWHERE = Turns(_NOTHING, _NOTHING, np.asarray([NO_WORD]), np.asarray([NO_WORD]), _NOTHING, [None])

_kept: dict[str, Known] = {}


def known(reading: str, files: dict[str, tuple[TableFile, ...]]) -> Known:
    """What these tables tell, read once in one reading; another audit is another reading, whatever files it names."""
    if reading not in _kept:
        _kept.clear()
        _kept[reading] = _load(files)
    return _kept[reading]


def forget(reading: str) -> None:
    """Give back what this process kept of a reading that is over."""
    _kept.pop(reading, None)


def _load(files: dict[str, tuple[TableFile, ...]]) -> Known:
    found = Known({}, {}, {}, {}, {}, {}, load_walks(files))
    _load_turns(found, files)
    _load_bounds(found, files)
    _load_sends(found, files["send"])
    return found


def _together(files: Sequence[TableFile], columns: Sequence[str], kinds: Sequence[str]) -> Any:
    """The rows of these kinds in all files."""
    tables = []
    for file in files:
        table = read_file(file, ["kind", *columns])
        chosen = codes_of(table["kind"])
        wanted = chosen.where([kind in kinds for kind in chosen.values], False)
        tables.append(table if wanted.all() else table.filter(pa.array(wanted)))
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _groups(table: Any, *keys: str) -> Iterator[tuple[tuple[Any, ...], Column]]:
    """The rows of each key, in the order of their positions."""
    columns = [codes_of(table[key]) for key in keys]
    codes, first = combined(*columns)
    order = by_code(codes, len(first), numbers_of(table["position"]))
    for begin, end in slices(codes[order]):
        rows = order[begin:end]
        yield tuple(column.values[column.codes[rows[0]]] for column in columns), rows


_MEMBER = ("run", "group", "process", "incarnation")


def _load_turns(found: Known, files: dict[str, tuple[TableFile, ...]]) -> None:
    views = _together(files["view"], [*_MEMBER, "position", "view", "era"], ["VIEW"])
    moves = _together(files["membership"], [*_MEMBER, "position", "across"], TURNS)
    own: dict[Member, tuple[Column, Column, Column]] = {}
    words, eras, positions = codes_of(views["view"]), codes_of(views["era"]), numbers_of(views["position"])
    word_numbers = words.numbers([found.word(text) for text in words.values], NO_WORD)
    era_numbers = eras.numbers([found.word(text) for text in eras.values], NO_WORD)
    for key, rows in _groups(views, *_MEMBER):
        own[key] = (positions[rows], word_numbers[rows], era_numbers[rows])
    kinds, across, at = codes_of(moves["kind"]), codes_of(moves["across"]), numbers_of(moves["position"])
    turned: dict[Member, tuple[Column, Column, list[str | None]]] = {}
    for key, rows in _groups(moves, *_MEMBER):
        joins = rows[np.asarray([kinds.values[code] == "JOIN" for code in kinds.codes[rows]], bool)]
        names = [None if code < 0 else across.values[code] for code in across.codes[joins]]
        turned[key] = (at[rows], at[joins], names)
    for key in {**own, **turned}:
        installed, word, era = own.get(key, (_NOTHING, _NOTHING, _NOTHING))
        moved, joins, names = turned.get(key, (_NOTHING, _NOTHING, []))
        found.turns[key] = Turns(
            np.sort(np.concatenate([installed, moved])),
            installed,
            np.concatenate([[NO_WORD], word]),
            np.concatenate([[NO_WORD], era]),
            joins,
            [None, *names],
        )


def _load_bounds(found: Known, files: dict[str, tuple[TableFile, ...]]) -> None:
    """Moments before an end of which nothing is asked, and sequences up to which somebody answers for or releases."""
    ends = _together(files["membership"], ["run", "at", "truth"], ["END"])
    runs, truth = codes_of(ends["run"]), numbers_of(ends["truth"])
    moments = np.where(present(ends["truth"]), truth, numbers_of(ends["at"]))
    for code, run in enumerate(runs.values):
        mine = moments[runs.codes == code]
        bounds = [mine - SETTLING_NANOSECONDS, mine - PRECISION_NANOSECONDS]
        found.moments[run] = np.unique(np.concatenate(bounds))
    owner = ("run", "group", "source", "source_incarnation")
    repairs = _together(files["repair"], [*owner, "process", "incarnation", "position", "last"], ["CUT", "GC"])
    kinds, last = codes_of(repairs["kind"]), numbers_of(repairs["last"])
    is_cut = kinds.where([kind == "CUT" for kind in kinds.values], False)
    position = numbers_of(repairs["position"])
    own = _same(repairs, "process", "source") & _same(repairs, "incarnation", "source_incarnation")
    for key, rows in _groups(repairs, *owner):
        releases = rows[~is_cut[rows] & own[rows]]
        joins = found.turns.get(key, NOWHERE).joins
        since = releases[position[releases] > (joins[-1] if len(joins) else -1)]
        highest = [last[some].max() for some in (releases, since) if len(some)]
        found.sequences[key] = np.unique(np.concatenate([last[rows[is_cut[rows]]], np.asarray(highest, np.int64)]))


def _same(table: Any, one: str, other: str) -> Column:
    """Where two columns have the same value."""
    left, right = codes_of(table[one]), codes_of(table[other])
    names = {value: number for number, value in enumerate({*left.values, *right.values})}
    return left.numbers([names[value] for value in left.values], -1) == right.numbers(
        [names[value] for value in right.values], -1
    )


def _load_sends(found: Known, files: Sequence[TableFile]) -> None:
    columns = ["position", "number", "sequence", "size", "body", "timestamp", "at", "truth"]
    sends = _together(files, [*_MEMBER, *columns, "host", "origin", "agreed"], ["SEND"])
    values = {name: numbers_of(sends[name]) for name in columns}
    has_truth = present(sends["truth"])
    told = {name: codes_of(sends[name]) for name in ("host", "origin", "agreed")}
    words = {
        name: column.numbers([found.word(text) for text in column.values], null).astype(np.int32)
        for (name, column), null in zip(told.items(), (NO_WORD, NO_WORD, NEVER_SENT), strict=True)
    }
    for key, rows in _groups(sends, *_MEMBER):
        number = values["number"][rows]
        if np.any(number[1:] <= number[:-1]):  # the first by position of each number
            _, first = np.unique(number, return_index=True)
            rows = rows[first]
        parts = {name: values[name][rows] for name in columns[1:]}
        spoken = {name: column[rows] for name, column in words.items()}
        found.sent[key] = Sent(**parts, **spoken, has_truth=has_truth[rows])
    for process, rows in _groups(sends, "run", "process", "incarnation"):
        timestamp = values["timestamp"][rows]
        highest = np.maximum.accumulate(timestamp)
        lowest = np.append(np.minimum.accumulate(timestamp[::-1])[::-1], np.iinfo(np.int64).max)
        found.said[process] = Said(values["position"][rows], timestamp, highest, lowest)


def load_walks(files: dict[str, tuple[TableFile, ...]]) -> dict[Process, Walk]:
    """The walk of every process that wrote something else than deliveries."""
    names = ["run", "process", "incarnation", "host", "position", "at", "truth"]
    tables = [read_file(file, names) for family, some in files.items() if family != "deliver" for file in some]
    rows = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    values = {name: numbers_of(rows[name]) for name in ("position", "at", "truth")}
    hosts, has_truth = codes_of(rows["host"]), present(rows["truth"])
    found = {}
    for process, mine in _groups(rows, "run", "process", "incarnation"):
        host, clocked = hosts.codes[mine], has_truth[mine]
        one = bool(np.all(host == host[0]) and np.all(clocked == clocked[0]))
        clock = (hosts.values[host[0]], bool(clocked[0])) if one else None
        found[process] = Walk(**{name: column[mine] for name, column in values.items()}, clock=clock)
    return found
