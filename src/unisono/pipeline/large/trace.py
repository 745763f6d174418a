"""A large valid trace from beginning to end, written part by part so that memory does not grow with it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from unisono.errors import UnisonoError
from unisono.pipeline.large.epoch import Epoch, Hearing, hear, note_gauges, note_losses
from unisono.pipeline.large.messages import Messages, sample_messages
from unisono.pipeline.large.passage import Passages, turn_place
from unisono.pipeline.large.plan import ROUND, Happening, Life, again, cast_of, happening
from unisono.trace.parquet import ROW_GROUP_ROWS, open_table_writer, part_path, table_path, write_table
from unisono.trace.run_directory import SCENARIO, SUMMARY, is_run_directory, write_marker
from unisono.trace.schema import FAMILIES, FaultRow, MembershipRow, ProxyRow, RepairRow, body_hash

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
LEAST_MESSAGES = 240
"""In an epoch: fewer would leave no room for what happens in it."""
DELIVERIES_AN_EPOCH = 500_000
AWAY = 0.5
"""Of the processes, no more than this are away on average."""
FEWEST_PROCESSES = 6


MESSAGES_TO_TURN = 60
"""A receiver that becomes a sender sends nothing before so many others, so that it has come to its place by then."""


def crash_place(count: int, what: Happening) -> int:
    """Of so many messages, the first that who crashes neither sends nor hears."""
    return count * 6 // 10 if what.crashes else count // 2


class LargeTrace(Struct, frozen=True):
    """What is asked for: so many deliveries, or a few more, at so many processes; equal values give equal rows.

    Without `epochs` there are as many views as fit. `disturbed` adds faults, of which L8 asks nothing.
    """

    deliveries: int
    processes: int = 16
    epochs: int | None = None
    seed: int = 0
    run: str = "large"
    group: str = "market"
    disturbed: bool = False

    def count_epochs(self) -> int:
        if self.epochs is not None:
            return self.epochs
        return max(ROUND + 1, self.deliveries // DELIVERIES_AN_EPOCH)

    def messages_an_epoch(self) -> int:
        return max(LEAST_MESSAGES, ceil(self.deliveries / (self.processes - AWAY) / self.count_epochs()))


def write_large_run(
    directory: str | os.PathLike[str], asked: LargeTrace, progress: Callable[[str, int, int], None] = lambda *_: None
) -> int:
    """Write a run directory with one part an epoch; returns how many deliveries it has."""
    if asked.processes < FEWEST_PROCESSES:
        raise UnisonoError(f"a large trace has {FEWEST_PROCESSES} processes or more, not {asked.processes}")
    target = Path(directory)
    if target.exists() and (is_run_directory(target) or any(target.iterdir())):
        raise UnisonoError(f"{target} is there already; name a directory that is new or empty")
    for family in FAMILIES:
        table_path(target, family).mkdir(parents=True)
    deliveries, builder = 0, _Builder(asked)
    for number in range(asked.count_epochs()):
        progress("epochs written", number, asked.count_epochs())
        epoch = builder.next_epoch(number)
        for family, tables in (("send", epoch.sends), ("deliver", epoch.deliveries)):
            with open_table_writer(part_path(target, family, number), family) as writer:
                for table in tables:
                    writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        for family in FAMILIES:
            if family not in ("send", "deliver"):
                write_table(part_path(target, family, number), family, epoch.rows.get(family, []))
        deliveries += epoch.delivered
    summary = {"deliveries": deliveries, "epochs": asked.count_epochs(), "seed": asked.seed, "run": asked.run}
    (target / SCENARIO).write_text("", encoding="utf-8")
    (target / SUMMARY).write_text(json.dumps(summary, sort_keys=True, indent=2) + "\n", encoding="utf-8")
    write_marker(target)
    return deliveries


class _Builder(Passages):
    """The trace so far."""

    def __init__(self, asked: LargeTrace) -> None:
        super().__init__(cast_of(asked.processes, 1_000_000 + asked.seed), SECOND)
        self.asked = asked
        self.random = np.random.default_rng(asked.seed)
        self.timestamp = 1_000
        self.outside = Life("", 0, "", "", 0, 0)
        self.away: dict[str, Life] = {}
        self.sender_names = list(self.cast.senders)
        self.receiver_names = list(self.cast.receivers)
        self.asks: dict[tuple[str, int], int] = {}

    def next_epoch(self, number: int) -> Epoch:
        last = self.asked.count_epochs() - 1
        epoch = Epoch(self.asked.run, self.asked.group, self.random)
        what = happening(number, last, self.sender_names, self.receiver_names)
        if number == 0:
            self._fault(epoch, "load", "begin")
            self.found(epoch)
        if self.asked.disturbed and number % ROUND in (1, 3):
            self._fault(epoch, "loss", "begin" if number % ROUND == 1 else "end")
        self.pass_on(epoch)
        self._run(epoch, what)
        if number == last:
            self._end(epoch)
        epoch.flush(self.outside)
        return epoch

    def _run(self, epoch: Epoch, what: Happening) -> None:
        """The messages of the epoch, and what happens meanwhile."""
        count = self.asked.messages_an_epoch()
        sources = list(self.cast.senders.values())
        spans: dict[str, tuple[int, int]] = {}
        if what.turns:
            sources.append(self.cast.receivers[what.turns])
            spans[what.turns] = (turn_place(count, 1) + MESSAGES_TO_TURN, turn_place(count, 2))
        if what.crashes:
            spans[what.crashes] = (0, crash_place(count, what))
        messages = sample_messages(self.random, count, sources, spans, self.time, self.timestamp)
        self.timestamp = int(messages.timestamp[-1])
        entering = self._enter(epoch, messages, what)
        hearings = [*self._hearings(messages, what), *entering]
        if what.turns:
            self.turn(epoch, messages, hearings, self.cast.receivers[what.turns])
        if what.comes_back:
            self._come_back(epoch, messages, what.comes_back)
        whole = [one for one in hearings if one not in entering]
        note_losses(epoch, messages, [one for one in whole if one.life.service == "RTO"], what.crashes or what.drops)
        self._tell_states(epoch, messages, whole)
        self._let_send(epoch, messages, whole)
        self.time = int(messages.time[-1]) + 10 * MILLISECOND
        self._release(epoch, messages, what)
        for one in hearings:
            note_gauges(epoch, one)
            place = next((index for index, life in enumerate(sources) if life is one.life), -1)
            sent = np.flatnonzero(messages.sender == place)
            epoch.bulk(one.life, messages, sent, np.arange(one.first, one.last), one.times, self.era)
        self._go_on(messages, what)

    def _hearings(self, messages: Messages, what: Happening) -> list[Hearing]:
        found = []
        for life in self.cast.listeners():
            until = None
            if life.name in (what.crashes, what.drops):
                until = int(messages.time[crash_place(len(messages), what)])
            found.append(hear(self.random, messages, life, 0, until))
        return found

    def _enter(self, epoch: Epoch, messages: Messages, what: Happening) -> list[Hearing]:
        """A receiver begins anew and comes into the middle of the view."""
        if not what.enters or what.enters not in self.away:
            return []
        life = self.away.pop(what.enters)
        place = int(len(messages) * 0.4)
        hearing = hear(self.random, messages, life, place, None)
        self.enter_middle(epoch, messages, hearing)
        self.entered = life
        return [hearing]

    def _come_back(self, epoch: Epoch, messages: Messages, name: str) -> None:
        """A sender begins anew, alone."""
        life = self.away.pop(name)
        self.begin(epoch, life, int(messages.time[int(len(messages) * 0.3)]))
        self.coming[name] = life
        epoch.flush(life)

    def _go_on(self, messages: Messages, what: Happening) -> None:
        """Everybody's numbers go on behind the messages of the epoch; who crashed is away."""
        for life, (sequence, number) in zip(messages.sources, messages.starts_before(len(messages)), strict=True):
            life.sequence, life.number = sequence - 1, number - 1
        if what.crashes:
            life = self.cast.senders.pop(what.crashes)
            self.crashed.append(life)
            self.away[what.crashes] = again(life)
        if what.drops:
            self.away[what.drops] = again(self.cast.receivers.pop(what.drops))
        if self.entered is not None:
            self.cast.receivers[self.entered.name] = self.entered
            self.entered = None

    def _tell_states(self, epoch: Epoch, messages: Messages, hearings: list[Hearing]) -> None:
        """Applications tell their state at one point of the order."""
        point = len(messages) // 4
        told: dict[str, Any] = {
            "sequence": point,
            "number": body_hash(f"{self.era} {point}".encode()),
            "reason": self.era,
        }
        for one in hearings:
            if one.life.service == "RTO":
                epoch.note(one.life, one.time_of(point) + 1, MembershipRow, "STATE", **told)

    def _let_send(self, epoch: Epoch, messages: Messages, hearings: list[Hearing]) -> None:
        """One process lets another send something for it."""
        origin, by = hearings[0].life, hearings[1].life
        place = len(messages) // 5
        number = self.asks[origin.name, origin.incarnation] = self.asks.get((origin.name, origin.incarnation), 0) + 1
        asked: dict[str, Any] = {
            "origin": origin.name,
            "origin_incarnation": origin.incarnation,
            "number": number,
            "size": 10,
        }
        content: dict[str, Any] = {"body": body_hash(f"{self.era} {number}".encode())}
        epoch.note(origin, int(messages.time[place]) - 1, ProxyRow, "ASKED", **asked, **content)
        handed: dict[str, Any] = {"by": by.name, "by_incarnation": by.incarnation}
        for one in hearings:
            epoch.note(one.life, one.time_of(place) + 1, ProxyRow, "HANDED", **asked, **content, **handed)

    def _release(self, epoch: Epoch, messages: Messages, what: Happening) -> None:
        """Every source forgets what all have: in the middle of the epoch, and at its end."""
        middle = int(messages.time[len(messages) // 2])
        known = int(np.searchsorted(messages.time, middle - 5 * MILLISECOND))
        points = (
            (middle, messages.starts_before(known)),
            (self.time - MILLISECOND, messages.starts_before(len(messages))),
        )
        for time, starts in points:
            for life, (sequence, _) in zip(messages.sources, starts, strict=True):
                if sequence - 1 > life.released and life.name != what.crashes:
                    own: dict[str, Any] = {"source": life.name, "source_incarnation": life.incarnation}
                    epoch.note(life, time, RepairRow, "GC", first=life.released + 1, last=sequence - 1, **own)
                    life.released = sequence - 1
        if what.crashes or what.drops:
            name = what.crashes or what.drops
            life = self.cast.senders.get(name) or self.cast.receivers[name]
            time = int(messages.time[crash_place(len(messages), what)])
            epoch.note(life, time, MembershipRow, "CRASH", bare=True)

    def _fault(self, epoch: Epoch, name: str, edge: str) -> None:
        epoch.note(self.outside, self.time, FaultRow, "FAULT", bare=True, fault=name, edge=edge)

    def _end(self, epoch: Epoch) -> None:
        """The load stops, all faults are over, and everybody that lives reaches the end much later."""
        self._fault(epoch, "load", "end")
        self._fault(epoch, "heal", "begin")
        self.time += 15 * SECOND
        for life in self.cast.listeners():
            epoch.note(life, self.time, MembershipRow, "END", bare=True)
            epoch.flush(life)
