"""Condenses rows that tell nothing new: a *stride* stands for messages of one source that follow each other.

Within a stride the numbers grow by one, the view, service and stretch are the same, nothing turns, and every delivery
is as its message was sent. So a form that knows the first row of a stride and its last number knows them all; whatever
is remarkable stands alone. Order over all sources is condensed by itself: an *edge* is the first or the last delivery
of a climb, in which the keys grow from one to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from unisono.pipeline.audits.coded import Codes, Column, by_code, codes_of, combined, numbers_of, present, slices
from unisono.pipeline.audits.known import NO_WORD, NOWHERE, Known, Said, Sent
from unisono.properties.promises import STALL_LIMIT_NANOSECONDS, Role, exempt_services
from unisono.trace.parquet import arrow_schema

BUCKET_NANOSECONDS = STALL_LIMIT_NANOSECONDS // 2
"""Of the progress within so short a time, the first and the last moment bound every standstill."""

LAST = ("position", "number", "sequence", "timestamp", "at", "truth")
"""Of these a stride has the last value too; of the timestamp the highest."""
SENT = ("sequence", "size", "body", "timestamp", "at", "truth")
"""What the SEND says, beside a delivery that is remarkable; and its words."""
SENT_WORDS = ("host", "origin", "agreed")


def columns_of(family: str) -> list[str]:
    """What a scan reads of a family."""
    return list(arrow_schema(family).names)


def condensed_schema(family: str) -> Any:
    """The columns of what a scan of a family gives: those of its first row, and what is said of the others.

    `part` is "stride", or "edge", "chunk" (the rows of a process in one batch; `remarkable` where its positions or
    times may be out of order), "doubt" (a process that may have sent below a timestamp that it knew), "count" (the
    first and the last delivery of a member in one batch, `got` 0 and 1; `remarkable` where places may be wrong),
    "moment" (`at` to `last_at`: of progress where `remarkable`) and "heartbeat" (`at` to `last_at`: of what a member
    delivered from others).
    """
    fields = [field.with_nullable(True) for field in arrow_schema(family)]
    fields.append(pa.field("part", pa.string()))
    fields.extend(pa.field(f"last_{name}", pa.int64()) for name in LAST)
    fields.extend([pa.field("got", pa.int64()), pa.field("remarkable", pa.bool_()), pa.field("sent", pa.bool_())])
    fields.extend(pa.field(f"sent_{name}", pa.int64()) for name in SENT)
    fields.extend(pa.field(f"sent_{name}", pa.string()) for name in SENT_WORDS)
    return pa.schema(fields)


class Batch:
    """Some rows of one family, in codes."""

    def __init__(self, family: str, table: Any) -> None:
        wanted = codes_of(table["kind"])
        mine = wanted.where([kind in ("SEND", "DELIVER") for kind in wanted.values], False)
        self.table = table if mine.all() else table.filter(pa.array(mine))
        self.family = family
        self._codes: dict[str, Codes] = {}
        self.position = numbers_of(self.table["position"])
        self.number = numbers_of(self.table["number"])
        self.timestamp = numbers_of(self.table["timestamp"])
        self.has_truth = present(self.table["truth"])
        self.truth = numbers_of(self.table["truth"])
        self.at = numbers_of(self.table["at"])
        self.moment: Column = np.where(self.has_truth, self.truth, self.at)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def codes(self, name: str) -> Codes:
        if name not in self._codes:
            self._codes[name] = codes_of(self.table[name])
        return self._codes[name]

    def value(self, name: str, row: int) -> Any:
        column = self.codes(name)
        code = column.codes[row]
        return None if code < 0 else column.values[code]

    def key(self, row: int, *names: str) -> tuple[Any, ...]:
        return tuple(self.value(name, row) for name in names)

    def held(self, property_id: str, role: Role | None = None) -> Column:
        """For each row whether its service promises the property."""
        exempt = exempt_services(property_id, role)
        services = self.codes("service")
        return services.where([service not in exempt for service in services.values], True)

    def rows(self, chosen: Column, part: str, **more: Any) -> Any:
        """Rows of this batch as a table of the scan; `more` are columns of the same length."""
        schema = condensed_schema(self.family)
        taken = self.table.take(pa.array(chosen))
        columns = []
        for field in schema:
            if field.name in more:
                columns.append(pa.array(more[field.name], field.type, from_pandas=False))
            elif field.name == "part":
                columns.append(pa.repeat(pa.scalar(part), len(chosen)))
            elif field.name in taken.column_names:
                columns.append(taken[field.name].cast(field.type).combine_chunks())
            else:
                columns.append(pa.nulls(len(chosen), field.type))
        return pa.Table.from_arrays([_one_chunk(column) for column in columns], schema=schema)


_MEMBER = ("run", "group", "process", "incarnation")


def condense(family: str, table: Any, known: Known) -> Iterator[Any]:
    """The tables that stand for some rows of a family."""
    batch = Batch(family, table)
    if not len(batch):
        return
    yield from _chunks(batch, known)
    if family == "send":
        yield _send_strides(batch, known)
        return
    yield _delivery_strides(batch, known)
    yield _counts(batch, known)
    edges = _edges(batch, known)
    if len(edges):
        yield batch.rows(edges, "edge")
    yield _moments(batch)
    yield _heartbeats(batch)


def _chunks(batch: Batch, known: Known) -> Iterator[Any]:
    """What each process has in this batch, and whether it may have sent below what it knew."""
    codes, first = combined(batch.codes("run"), batch.codes("process"), batch.codes("incarnation"))
    order = by_code(codes, len(first), batch.position)
    begins, ends, doubts, wrong = [], [], [], []
    hosts = batch.codes("host").codes
    for begin, end in slices(codes[order]):
        rows = order[begin:end]
        begins.append(rows[0])
        ends.append(rows[-1])
        wrong.append(batch.family == "deliver" and _is_out_of_line(batch, rows, hosts, known))
        said = known.said.get(batch.key(rows[0], "run", "process", "incarnation"))
        if said is not None and _is_doubtful(batch, rows, said):
            doubts.append(rows[0])
    first = np.asarray(begins)
    more = {f"last_{name}": numbers_of(batch.table[name])[ends] for name in ("position", "at", "truth")}
    yield batch.rows(first, "chunk", **more, remarkable=np.asarray(wrong))
    if doubts:
        yield batch.rows(np.asarray(doubts), "doubt")


def _is_out_of_line(batch: Batch, rows: Column, hosts: Column, known: Known) -> bool:
    """Whether these rows of a process and what it wrote between them may contradict one another in place or time."""
    position = batch.position[rows]
    walk = known.walks.get(batch.key(rows[0], "run", "process", "incarnation"))
    begin, end = (0, 0) if walk is None else np.searchsorted(walk.position, [position[0], position[-1] + 1])
    if position[-1] - position[0] + 1 != len(position) + end - begin:
        return True
    clocked = batch.has_truth[rows]
    if np.any(hosts[rows] != hosts[rows[0]]) or np.any(clocked != clocked[0]):
        return True
    times = [batch.at[rows], batch.truth[rows]]
    if walk is not None and end > begin:
        position = np.concatenate([position, walk.position[begin:end]])
        order = np.argsort(position, kind="stable")
        position = position[order]
        theirs = (walk.at[begin:end], walk.truth[begin:end])
        times = [np.concatenate(both)[order] for both in zip(times, theirs, strict=True)]
    return any(bool(np.any(np.diff(column) < least)) for column, least in ((position, 1), (times[0], 0), (times[1], 0)))


def _is_doubtful(batch: Batch, rows: Column, said: Said) -> bool:
    """Whether something was sent after one of these rows with a timestamp that is not above it."""
    position, highest = batch.position[rows], np.maximum.accumulate(batch.timestamp[rows])
    begin, end = np.searchsorted(said.position, [position[0], position[-1]], "right")
    between = np.searchsorted(position, said.position[begin:end], "left") - 1
    inside = np.any(highest[between] >= said.timestamp[begin:end]) if end > begin else False
    return bool(inside or highest[-1] >= said.lowest[end])


def _delivery_strides(batch: Batch, known: Known) -> Any:
    member, _ = combined(*(batch.codes(name) for name in _MEMBER))
    stream, first = combined(
        Codes(member, list(range(int(member.max()) + 1))), batch.codes("source"), batch.codes("source_incarnation")
    )
    sort, _ = combined(*(batch.codes(name) for name in ("service", "stretch", "view", "host", "origin")))
    order = by_code(stream, len(first), batch.position)
    views = batch.codes("view")
    words = views.numbers([known.word(text) for text in views.values], NO_WORD)
    hosts, origins = (
        column.numbers([known.word(text) for text in column.values], NO_WORD)
        for column in (batch.codes("host"), batch.codes("origin"))
    )
    agreed = batch.held("M5", "receiver")
    content = {name: numbers_of(batch.table[name]) for name in SENT}
    breaks = np.zeros(len(batch), bool)
    remarkable = np.zeros(len(batch), bool)
    places = np.zeros(len(batch), np.int64)
    there = np.zeros(len(batch), bool)
    sources: list[tuple[int, Sent | None]] = []
    for begin, end in slices(stream[order]):
        rows = order[begin:end]
        turns = known.turns.get(batch.key(rows[0], *_MEMBER), NOWHERE)
        position = batch.position[rows]
        breaks[begin + 1 : end] = np.diff(np.searchsorted(turns.positions, position)) != 0
        breaks[begin] = True
        sent = known.sent.get(batch.key(rows[0], "run", "group", "source", "source_incarnation"))
        sources.append((begin, sent))
        if sent is None:
            remarkable[begin:end] = True
            continue
        place, found = sent.places(batch.number[rows])
        differs = ~found
        for name in ("sequence", "size", "body", "timestamp"):
            differs |= content[name][rows] != getattr(sent, name)[place]
        differs |= origins[rows] != sent.origin[place]
        clocked, there_too = batch.has_truth[rows], sent.has_truth[place]
        differs |= clocked & there_too & (content["truth"][rows] < sent.truth[place])
        here = ~clocked & ~there_too & (hosts[rows] == sent.host[place])
        differs |= here & (content["at"][rows] < sent.at[place])
        standing = np.searchsorted(turns.views, position, "left")
        era, word = turns.eras[standing], words[rows]
        era = np.where((era != NO_WORD) & (turns.words[standing] == word) & (word != NO_WORD), era, word)
        differs |= agreed[rows] & (era != sent.agreed[place])
        remarkable[begin:end], places[begin:end], there[begin:end] = differs, place, found
    number, kinds = batch.number[order], sort[order]
    breaks[1:] |= (number[1:] != number[:-1] + 1) | (kinds[1:] != kinds[:-1]) | remarkable[1:] | remarkable[:-1]
    begins = np.flatnonzero(breaks)
    more = _last_columns(batch, order, begins)
    more["last_timestamp"] = np.maximum.reduceat(batch.timestamp[order], begins)
    more["remarkable"] = remarkable[begins]
    more.update(_as_sent(known, sources, begins, remarkable & there, places))
    return batch.rows(order[begins], "stride", **more)


def _as_sent(
    known: Known, sources: list[tuple[int, Sent | None]], begins: Column, wanted: Column, places: Column
) -> dict[str, Any]:
    """What the SEND says of each delivery that differs from it; `sources` are by the row from which each is."""
    columns: dict[str, list[Any]] = {f"sent_{name}": [None] * len(begins) for name in (*SENT, *SENT_WORDS)}
    columns["sent"] = wanted[begins]
    if wanted.any():
        words = list(known.words)
        chosen = np.flatnonzero(wanted[begins])
        whose = np.searchsorted([begin for begin, _ in sources], begins[chosen], "right") - 1
        for index, source in zip(chosen.tolist(), whose.tolist(), strict=True):
            sent, place = sources[source][1], places[begins[index]]
            assert sent is not None, "what differs from a SEND has one"
            for name in SENT[:-1]:
                columns[f"sent_{name}"][index] = int(getattr(sent, name)[place])
            if sent.has_truth[place]:
                columns["sent_truth"][index] = int(sent.truth[place])
            for name in SENT_WORDS:
                word = int(getattr(sent, name)[place])
                if word >= 0:
                    columns[f"sent_{name}"][index] = words[word]
    return columns


def _send_strides(batch: Batch, known: Known) -> Any:
    member, first = combined(*(batch.codes(name) for name in _MEMBER))
    sort, _ = combined(*(batch.codes(name) for name in ("service", "stretch", "view", "agreed", "host", "origin")))
    order = by_code(member, len(first), batch.position)
    sequence = numbers_of(batch.table["sequence"])
    breaks = np.zeros(len(batch), bool)
    for begin, end in slices(member[order]):
        rows = order[begin:end]
        key = batch.key(rows[0], *_MEMBER)
        turns = known.turns.get(key, NOWHERE)
        breaks[begin] = True
        for bounds, values in (
            (turns.positions, batch.position),
            (known.moments.get(key[0]), batch.moment),
            (known.sequences.get(key), sequence),
        ):
            if bounds is not None:
                breaks[begin + 1 : end] |= np.diff(np.searchsorted(bounds, values[rows])) != 0
    number, kinds, clocked = batch.number[order], sort[order], batch.has_truth[order]
    breaks[1:] |= (number[1:] != number[:-1] + 1) | (kinds[1:] != kinds[:-1]) | (clocked[1:] != clocked[:-1])
    for values in (batch.timestamp[order], sequence[order], batch.position[order]):
        breaks[1:] |= values[1:] <= values[:-1]
    position, moment = batch.position[order], batch.moment[order]
    breaks[:-1] |= position[1:] == position[:-1]  # neither of two rows at one position comes before the other
    breaks[1:] |= moment[1:] < moment[:-1]
    begins = np.flatnonzero(breaks)
    more = _last_columns(batch, order, begins)
    return batch.rows(order[begins], "stride", **more)


def _last_columns(batch: Batch, order: Column, begins: Column) -> dict[str, Any]:
    """The last of each stride, and how many it stands for."""
    ends = np.append(begins[1:], len(order)) - 1
    last = batch.table.select(list(LAST)).take(pa.array(order[ends]))
    found: dict[str, Any] = {f"last_{name}": _one_chunk(last[name]) for name in LAST}
    found["got"] = ends - begins + 1
    return found


def _counts(batch: Batch, known: Known) -> Any:
    """The first and the last delivery of each member here, and whether those between are counted one by one."""
    member, first = combined(*(batch.codes(name) for name in _MEMBER))
    order = by_code(member, len(first), batch.position)
    place, _ = combined(batch.codes("view"), batch.codes("stretch"))
    index, position = numbers_of(batch.table["index"]), batch.position
    bounds: list[int] = []
    ends: list[int] = []
    wrong: list[bool] = []
    for begin, end in slices(member[order]):
        rows = order[begin:end]
        views = known.turns.get(batch.key(rows[0], *_MEMBER), NOWHERE).views
        follows = np.diff(np.searchsorted(views, position[rows], "left")) == 0
        follows &= place[rows[1:]] == place[rows[:-1]]
        due = np.where(follows, index[rows[:-1]] + 1, 0)
        is_wrong = bool(np.any(index[rows[1:]] != due) or np.any(np.diff(position[rows]) < 1))
        bounds.extend((rows[0], rows[-1]))
        ends.extend((0, 1))
        wrong.extend((is_wrong, is_wrong))
    return batch.rows(np.asarray(bounds), "count", got=np.asarray(ends), remarkable=np.asarray(wrong))


def _edges(batch: Batch, known: Known) -> Column:
    """The first and the last delivery of every climb, in each group, stretch and service that it goes through."""
    rows = np.flatnonzero(batch.held("O3", "receiver") | batch.held("O6", "receiver"))
    if not len(rows):
        return rows
    unit = _units(batch, known, rows)
    order = rows[by_code(unit, int(unit.max()) + 1, batch.position[rows])]
    unit = np.sort(unit)
    rank = _ranks(batch)[order]
    timestamp = batch.timestamp[order]
    climbs = (timestamp[1:] > timestamp[:-1]) | ((timestamp[1:] == timestamp[:-1]) & (rank[1:] > rank[:-1]))
    breaks = np.append(True, ~climbs | (unit[1:] != unit[:-1]))
    sort, _ = combined(batch.codes("group"), batch.codes("stretch"), batch.codes("service"))
    sort = sort[order]
    if np.all(breaks[1:] | (sort[1:] == sort[:-1])):
        begins = np.flatnonzero(breaks)
        ends = np.append(begins[1:], len(order)) - 1
        return order[np.unique(np.concatenate([begins, ends]))]
    place = np.cumsum(breaks) * (int(sort.max()) + 1) + sort
    _, firsts = np.unique(place, return_index=True)
    _, lasts = np.unique(place[::-1], return_index=True)
    return order[np.unique(np.concatenate([firsts, len(place) - 1 - lasts]))]


def _units(batch: Batch, known: Known, rows: Column) -> Column:
    """For each of these rows what its process delivers in one order with it: a domain, or its group."""
    member, _ = combined(*(batch.codes(name) for name in _MEMBER))
    member = member[rows]
    order = by_code(member, int(member.max()) + 1, batch.position[rows])
    numbers: dict[tuple[Any, ...], int] = {}
    unit = np.empty(len(rows), np.int64)
    for begin, end in slices(member[order]):
        mine = order[begin:end]
        key = batch.key(rows[mine[0]], *_MEMBER)
        turns = known.turns.get(key, NOWHERE)
        named = np.asarray(
            [
                numbers.setdefault((key[0], *key[2:], across, key[1] if across is None else None), len(numbers))
                for across in turns.across
            ]
        )
        unit[mine] = named[np.searchsorted(turns.joins, batch.position[rows[mine]], "left")]
    return unit


def _ranks(batch: Batch) -> Column:
    """The place of each row's source among all sources, as keys compare them."""
    codes, first = combined(batch.codes("source"), batch.codes("source_incarnation"))
    keys = [batch.key(row, "source", "source_incarnation") for row in first]
    rank = np.empty(len(keys), np.int64)
    rank[np.asarray(sorted(range(len(keys)), key=keys.__getitem__))] = np.arange(len(keys))
    return rank[codes]


def _moments(batch: Batch) -> Any:
    """The first and last moment of deliveries in every short time, those from others and those from oneself apart."""
    others = _from_others(batch)
    codes, first = combined(batch.codes("run"), Codes(others.astype(np.int64), [0, 1]), _buckets(batch))
    order = np.argsort(codes.astype(np.uint16) if len(first) < 1 << 16 else codes, kind="stable")
    begins = np.asarray([begin for begin, _ in slices(codes[order])])
    sorted_moments = batch.moment[order]
    least = np.minimum.reduceat(sorted_moments, begins)
    most = np.maximum.reduceat(sorted_moments, begins)
    return batch.rows(order[begins], "moment", at=least, last_at=most, remarkable=others[order[begins]])


def _heartbeats(batch: Batch) -> Any:
    """The first and last moment in every short time in which a member delivered something from another."""
    chosen = np.flatnonzero(_from_others(batch))
    if not len(chosen):
        return batch.rows(chosen, "heartbeat")
    codes, _ = combined(*(batch.codes(name) for name in _MEMBER), _buckets(batch))
    order = chosen[np.argsort(codes[chosen], kind="stable")]
    begins = np.asarray([begin for begin, _ in slices(codes[order])])
    moments = batch.moment[order]
    least, most = np.minimum.reduceat(moments, begins), np.maximum.reduceat(moments, begins)
    return batch.rows(order[begins], "heartbeat", at=least, last_at=most)


def _buckets(batch: Batch) -> Codes:
    """The short time that each row is in."""
    return codes_of(pa.array(batch.moment // BUCKET_NANOSECONDS))


def _from_others(batch: Batch) -> Column:
    """For each delivery whether its source has another name."""
    names = {
        text: number for number, text in enumerate({*batch.codes("source").values, *batch.codes("process").values})
    }
    sources, processes = batch.codes("source"), batch.codes("process")
    return sources.numbers([names[text] for text in sources.values], -1) != processes.numbers(
        [names[text] for text in processes.values], -1
    )


def _one_chunk(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column
