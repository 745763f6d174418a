"""The measures that are sums over rows, for one batch: what was sent, delivered, repaired and carried by windows."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.pipeline.live.outputs import WINDOW_NANOSECONDS, Delivered, Gauged, Line, Repaired, Sent
from unisono.pipeline.measures.catalogue import RATES
from unisono.properties.monitors.settled import Clock, time_of
from unisono.trace.schema import DeliverRow, GaugeRow, RepairRow, SendRow

_MemberKey = tuple[Clock, int, str, str, int, int]
"""Clock, window, group, process, incarnation, size."""


class Windows:
    """Adds up the rows of one batch of one run. Nothing of it goes on to the next batch."""

    def __init__(self) -> None:
        self._sent: dict[_MemberKey, int] = {}
        self._delivered: dict[_MemberKey, list[int]] = {}
        self._repaired: dict[tuple[Clock, int, str], list[int]] = {}
        self._gauged: dict[tuple[Clock, int, str, str, int, str], int] = {}

    def on_send(self, row: SendRow) -> None:
        moment, clock = time_of(row)
        key = (clock, moment // WINDOW_NANOSECONDS, row.group, row.process, row.incarnation, row.size)
        self._sent[key] = self._sent.get(key, 0) + 1

    def on_deliver(self, row: DeliverRow) -> None:
        moment, clock = (row.at, row.host) if row.truth is None else (row.truth, None)
        key = (clock, moment // WINDOW_NANOSECONDS, row.group, row.process, row.incarnation, row.size)
        counted = self._delivered.get(key)
        if counted is None:
            self._delivered[key] = [1, moment, moment]
            return
        counted[0] += 1
        if moment < counted[1]:
            counted[1] = moment
        elif moment > counted[2]:
            counted[2] = moment

    def on_repair(self, row: RepairRow) -> None:
        """RTR and RTX; other rows of the family say nothing of repairs."""
        moment, clock = time_of(row)
        counted = self._repaired.setdefault((clock, moment // WINDOW_NANOSECONDS, row.group), [0, 0])
        counted[row.kind == "RTX"] += 1

    def on_gauge(self, row: GaugeRow) -> None:
        if row.name in RATES:
            moment, clock = time_of(row)
            key = (clock, moment // WINDOW_NANOSECONDS, row.group, row.process, row.incarnation, row.name)
            self._gauged[key] = self._gauged.get(key, 0) + row.value

    def lines(self, run: str) -> Iterator[Line]:
        """What was added up."""
        for member, messages in self._sent.items():
            yield Sent(run, *member, messages)
        for member, (messages, first, last) in self._delivered.items():
            yield Delivered(run, *member, messages, first, last)
        for place, (requests, repairs) in self._repaired.items():
            yield Repaired(run, *place, requests, repairs)
        for gauge, value in self._gauged.items():
            yield Gauged(run, *gauge, value)
