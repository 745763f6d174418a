"""One epoch of a large trace: what everybody writes in it, messages as columns and all else row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from unisono.pipeline.large.messages import Column, Messages, delivery_times
from unisono.pipeline.large.plan import Life
from unisono.trace.parquet import arrow_schema
from unisono.trace.schema import AnyRow, GaugeRow, RepairRow, ViewRow, family_of

ROWS_A_GAUGE = 20_000
MESSAGES_A_LOSS = 1_000


class Epoch:
    """What is written between two views that are agreed: rows wait for their position until `close`."""

    def __init__(self, run: str, group: str, random: Any) -> None:
        self.run = run
        self.group = group
        self.random = random
        self.waiting: dict[Life, list[tuple[int, AnyRow]]] = {}
        self.rows: dict[str, list[AnyRow]] = {}
        self.sends: list[Any] = []
        self.deliveries: list[Any] = []
        self.delivered = 0

    def note(self, life: Life, time: int, family: Any, kind: str, *, bare: bool = False, **columns: Any) -> None:
        """One row of a life at a time; its view is the one that it has there."""
        place: dict[str, Any] = (
            {} if bare else {"group": self.group, "service": life.service, "stretch": 1, "view": life.view}
        )
        row = family(
            kind=kind,
            run=self.run,
            process=life.name,
            incarnation=life.incarnation,
            at=time + life.offset,
            host=life.name,
            truth=time,
            **place,
            **columns,
        )
        self.waiting.setdefault(life, []).append((time, row))

    def bulk(self, life: Life, messages: Messages, sent: Column, heard: Column, times: Column, era: str) -> None:
        """The sends (places in the order) and deliveries (places and times) of a life, with the rows that wait.

        `life.position` goes on behind them all.
        """
        waiting = sorted(self.waiting.pop(life, []), key=lambda item: item[0])
        others = np.asarray([time for time, _ in waiting], np.int64)
        sent_times = messages.time[sent]
        before_sends = np.searchsorted(others, sent_times, "right") + np.searchsorted(times, sent_times, "right")
        before_heard = np.searchsorted(others, times, "right") + np.searchsorted(sent_times, times, "left")
        send_positions = life.position + np.arange(len(sent)) + before_sends
        heard_positions = life.position + np.arange(len(heard)) + before_heard
        counted = np.searchsorted(sent_times, others, "left") + np.searchsorted(times, others, "left")
        for index, (_, row) in enumerate(waiting):
            row.position = life.position + index + int(counted[index])
        life.position += len(waiting) + len(sent) + len(heard)
        words, since = self._views(life, waiting)
        for _, row in waiting:
            self._file(row, words, since)
        if len(sent):
            views = words.take(pa.array(np.searchsorted(since, send_positions)))
            self.sends.append(self._sends(life, messages, sent, send_positions, views, era))
        if len(heard):
            places = np.searchsorted(since, heard_positions)
            self.deliveries.append(
                self._deliveries(life, messages, heard, times, heard_positions, words.take(pa.array(places)), places)
            )
            self.delivered += len(heard)

    def _views(self, life: Life, waiting: list[tuple[int, AnyRow]]) -> tuple[Any, Column]:
        """The views of a life in this epoch, from the one that it had before, and the positions of their rows."""
        installed = [row for _, row in waiting if isinstance(row, ViewRow)]
        words = [installed[0].previous if installed else life.view, *(row.view for row in installed)]
        return pa.array(words, pa.string()), np.asarray([row.position for row in installed], np.int64)

    def _file(self, row: AnyRow, words: Any, since: Column) -> None:
        """A row is written in the view that stands at its position."""
        if row.group and row.kind != "VIEW":
            row.view = words[int(np.searchsorted(since, row.position))].as_py()
        self.rows.setdefault(family_of(row), []).append(row)

    def _common(self, kind: str, life: Life, times: Column, positions: Column, views: Any) -> dict[str, Any]:
        return {
            "kind": kind,
            "run": self.run,
            "group": self.group,
            "process": life.name,
            "incarnation": life.incarnation,
            "position": positions,
            "at": times + life.offset,
            "host": life.name,
            "truth": times,
            "view": views,
            "service": life.service,
            "stretch": 1,
        }

    def _sends(self, life: Life, messages: Messages, sent: Column, positions: Column, views: Any, era: str) -> Any:
        columns = self._common("SEND", life, messages.time[sent], positions, views)
        return as_columns("send", len(sent), columns | _content(messages, sent) | {"origin": None, "agreed": era})

    def _deliveries(
        self,
        life: Life,
        messages: Messages,
        heard: Column,
        times: Column,
        positions: Column,
        views: Any,
        places: Column,
    ) -> Any:
        columns = self._common("DELIVER", life, times, positions, views)
        names = pa.array([source.name for source in messages.sources])
        incarnations = np.asarray([source.incarnation for source in messages.sources], np.int64)
        first = np.flatnonzero(np.diff(places, prepend=-1))
        index = np.arange(len(heard)) - np.repeat(first, np.diff(first, append=len(heard)))
        source: dict[str, Any] = {
            "source": names.take(pa.array(messages.sender[heard])),
            "source_incarnation": incarnations[messages.sender[heard]],
            "index": index,
            "origin": None,
        }
        return as_columns("deliver", len(heard), columns | source | _content(messages, heard))

    def flush(self, life: Life) -> None:
        """Write what waits of a life that neither sends nor delivers."""
        waiting = sorted(self.waiting.pop(life, []), key=lambda item: item[0])
        for _, row in waiting:
            row.position = life.position
            life.position += 1
        words, since = self._views(life, waiting)
        for _, row in waiting:
            self._file(row, words, since)


class Hearing(Struct, eq=False):
    """Who hears which part of an epoch, and when."""

    life: Life
    first: int
    last: int
    times: Column

    def time_of(self, index: int) -> int:
        """When it delivers a message of the whole order."""
        return int(self.times[index - self.first])


def hear(random: Any, messages: Messages, life: Life, first: int, until: int | None) -> Hearing:
    """A process delivers from a place of the order on, up to a time if it crashes then."""
    times = delivery_times(random, messages, life.delay)[first:]
    last = len(times) if until is None else int(np.searchsorted(times, until))
    return Hearing(life, first, first + last, times[:last])


def note_gauges(epoch: Epoch, hearing: Hearing) -> None:
    for index in range(0, len(hearing.times), ROWS_A_GAUGE):
        value = int(epoch.random.integers(0, 1000))
        epoch.note(
            hearing.life,
            int(hearing.times[index]) - 1,
            GaugeRow,
            "GAUGE",
            name="window_bytes",
            value=value,
            cap=1000,
        )


def note_losses(epoch: Epoch, messages: Messages, hearings: list[Hearing], gone: str) -> None:
    """Now and then a receiver asks for a message before it delivers it, and its source repairs it."""
    for index in epoch.random.integers(0, len(messages), len(messages) // MESSAGES_A_LOSS + 1):
        source = messages.sources[int(messages.sender[index])]
        hearing = hearings[int(epoch.random.integers(0, len(hearings)))]
        if source.name in (gone, hearing.life.name) or not hearing.first <= index < hearing.last:
            continue
        time = hearing.time_of(int(index)) - 1
        sequence = int(messages.sequence[index])
        whose: dict[str, Any] = {
            "source": source.name,
            "source_incarnation": source.incarnation,
            "first": sequence,
            "last": sequence,
        }
        epoch.note(hearing.life, time, RepairRow, "RTR", **whose)
        epoch.note(source, time, RepairRow, "RTX", peer=hearing.life.name, **whose)


def as_columns(family: str, count: int, columns: dict[str, Any]) -> Any:
    """A table of one family; what is no column is the same in every row."""
    arrays = []
    for field in arrow_schema(family):
        value = columns[field.name]
        if isinstance(value, pa.Array):
            arrays.append(value)
        elif isinstance(value, np.ndarray):
            arrays.append(pa.array(value, field.type))
        elif value is None:
            arrays.append(pa.nulls(count, field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(value, field.type), count))
    return pa.Table.from_arrays(arrays, schema=arrow_schema(family))


def _content(messages: Messages, chosen: Column) -> dict[str, Any]:
    names = ("number", "sequence", "timestamp", "size", "body")
    return {name: getattr(messages, name)[chosen] for name in names}
