"""One run while it goes on: its reports go in, lines of the live tables come out, and the state between is bounded.

Equal state and equal reports give equal lines: time is an argument, so that a batch that is done again is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from unisono.pipeline.live.forgetting import (
    DEPENDS_ON_EVERY_ROW,
    forget_life,
    forget_old_stretches,
    forget_what_depends_on_every_row,
)
from unisono.pipeline.live.integrity import LiveFifo, LiveIdentity, LiveIntegrity, Wait
from unisono.pipeline.live.lives import ENDINGS, Life, Lives, is_dense
from unisono.pipeline.live.messages import Messages
from unisono.pipeline.live.outputs import Counted, Flagged, Installed, Line, Process, Reported, Standing, Verdict
from unisono.pipeline.live.windows import Windows
from unisono.properties.monitors.agreed import FRESH, RowKey
from unisono.properties.monitors.monitor import Member, Monitor, Source
from unisono.properties.monitors.settled import Clock, time_of
from unisono.properties.registry import MonitorSuite
from unisono.properties.violation import Violation, process_name
from unisono.trace.schema import AnyRow, DeliverRow, MembershipRow, SendRow, ViewRow

LIVE = ("D1", "D2", "M1", "M2", "M3", "M4", "O1", "O2", "O6", "L7")
"""The properties that are held against a run while it goes on."""

FORMS: dict[str, type[Monitor]] = {"D1": LiveIntegrity, "M4": LiveIdentity, "O2": LiveFifo}

NEED_THE_VIEW = ("M3", "O2")
"""After rows of a process are missing, these ask nothing of it in a group until it installs a view there."""

_FAMILIES = ("DELIVER", "SEND")


class RunState(Struct, array_like=True):
    """What goes on from batch to batch."""

    run: str
    lives: Lives = field(default_factory=dict)
    hosts: dict[Source, str] = field(default_factory=dict)
    suite: bytes = b""
    messages: Messages = field(default_factory=Messages)
    agreeing: dict[Member, int] = field(default_factory=dict)
    """Since when a member agrees on its next view."""
    views: dict[Member, str | None] = field(default_factory=dict)


class LiveRun:
    """A run between two batches: `take` its reports one after the other, then `finish_batch`."""

    def __init__(self, run: str, state: RunState | None = None) -> None:
        self._state = state or RunState(run)
        suite = self._state.suite
        self._suite = MonitorSuite.load(suite, FORMS) if suite else MonitorSuite(LIVE, forms=FORMS)
        self._windows = Windows()
        self._lines: list[Line] = []
        self._reported: dict[Source, Reported] = {}
        self._now = 0
        integrity, identity = self._suite.monitors["D1"], self._suite.monitors["M4"]
        assert isinstance(integrity, LiveIntegrity)
        assert isinstance(identity, LiveIdentity)
        self._integrity, self._identity = integrity, identity
        self._counts = {property_id: monitor.count for property_id, monitor in self._suite.monitors.items()}

    def take(self, process: str, incarnation: int, host: str, number: int, rows: Sequence[AnyRow], now: int) -> None:
        """The next report of a life, its rows in order; one that was taken before changes nothing."""
        state, source = self._state, (process, incarnation)
        life = state.lives.get(source)
        if life is None:
            life = state.lives[source] = Life()
            state.hosts[source] = host
        if number < life.number:
            return
        self._now = self._integrity.now = self._state.messages.now = now
        if life.take(number, rows, now):
            forget_what_depends_on_every_row(self._suite, source)
        self._count(source, host, number, rows)
        dense = is_dense(rows)
        observe = self._suite.observe
        messages, windows = state.messages, self._windows
        for row in rows:
            kind = row.kind
            if kind == "DELIVER":
                assert isinstance(row, DeliverRow)
                messages.on_deliver(row)
                windows.on_deliver(row)
            elif kind == "SEND":
                assert isinstance(row, SendRow)
                messages.on_send(row)
                windows.on_send(row)
            else:
                self._on_other(row, life, dense)
            if not dense:
                self._observe(row, without=DEPENDS_ON_EVERY_ROW)
            elif life.lossy and kind in _FAMILIES and row.group not in life.sighted:
                self._observe(row, without=NEED_THE_VIEW)
            else:
                observe(row)
        self._flag(rows)

    def finish_batch(self, now: int) -> tuple[list[Line], Standing]:
        """Judge what can be judged now, let go of what is settled, and give the lines of this batch."""
        self._now = self._integrity.now = self._state.messages.now = now
        state = self._state
        waits = dict(self._integrity.waits)
        for violation in self._integrity.settle(state.lives):
            self._flag_waiting(violation, "unknown", waits)
        self._drain(lambda violation: self._flag_waiting(violation, "violated", waits))
        self._lines += state.messages.settle(state.run, self._is_silent, self._integrity.forget)
        self._forget()
        lines = [*self._reported.values(), *self._lines, *self._counted(), *self._windows.lines(state.run)]
        self._reported, self._lines, self._windows = {}, [], Windows()
        return lines, self._standing()

    def dump(self) -> RunState:
        """The state to go on from."""
        self._state.suite = self._suite.dump()
        return self._state

    @property
    def is_over(self) -> bool:
        """Whether nothing is left that could matter."""
        return not self._state.lives

    def _on_other(self, row: AnyRow, life: Life, dense: bool) -> None:
        kind, state = row.kind, self._state
        member = (row.group, row.process, row.incarnation)
        if isinstance(row, ViewRow):
            self._install(row, member)
            if life.lossy and dense and row.group not in life.sighted:
                life.sighted.append(row.group)
        elif kind in ("RTR", "RTX"):
            self._windows.on_repair(row)  # type: ignore[arg-type]  # these kinds are of that family
        elif kind == "GAUGE":
            self._windows.on_gauge(row)  # type: ignore[arg-type]  # this kind is of that family
        elif isinstance(row, MembershipRow):
            if kind in ENDINGS:
                life.ended = True
                state.messages.gone((row.process, row.incarnation))
            elif kind == "LEAVE":
                state.messages.gone((row.process, row.incarnation), row.group)
                state.views.pop(member, None)
            elif kind == "MRA" or (kind == "SUSPECT" and row.reason == "accused"):
                state.agreeing.setdefault(member, time_of(row)[0])
            elif kind in ("JOIN", *FRESH):
                state.agreeing.pop(member, None)

    def _install(self, row: ViewRow, member: Member) -> None:
        state = self._state
        moment, clock = time_of(row)
        began = state.agreeing.pop(member, None) if row.era is None else None
        state.messages.on_view(row)
        state.views[member] = row.view
        members = [start.source for start in row.start]
        took = None if began is None else moment - began
        self._lines.append(Installed(state.run, clock, moment, *member, row.position, row.view, members, took))

    def _observe(self, row: AnyRow, without: Sequence[str]) -> None:
        for property_id, monitor in self._suite.monitors.items():
            if property_id not in without:
                monitor.observe(row)

    def _count(self, source: Source, host: str, number: int, rows: Sequence[AnyRow]) -> None:
        line = self._reported.get(source)
        if line is None:
            line = self._reported[source] = Reported(self._state.run, *source, host, number, 0, 0)
        line.reports += 1
        line.rows += len(rows)
        services = {row.service for row in rows if row.service is not None}
        line.services += sorted(services.difference(line.services))

    def _flag(self, rows: Sequence[AnyRow]) -> None:
        """What the rows of one report completed; where another row is blamed, the time is that of the last one here."""
        if not any(monitor.violations for monitor in self._suite.monitors.values()):
            return
        life = (rows[-1].process, rows[-1].incarnation)
        by_position = {row.position: row for row in rows}

        def flag(violation: Violation) -> None:
            own = (violation.process, violation.incarnation) == life
            row = by_position.get(violation.position, rows[-1]) if own else rows[-1]
            self._tell(violation, "violated", *time_of(row))

        self._drain(flag)

    def _flag_waiting(self, violation: Violation, verdict: Verdict, waits: dict[RowKey, Wait]) -> None:
        wait = waits[violation.process, violation.incarnation, violation.position]
        self._tell(violation, verdict, wait.moment, wait.clock)

    def _drain(self, flag: Callable[[Violation], None]) -> None:
        for monitor in self._suite.monitors.values():
            for violation in monitor.violations:
                flag(violation)
            monitor.violations = []

    def _tell(self, violation: Violation, verdict: Verdict, moment: int, clock: Clock) -> None:
        found = violation
        self._lines.append(
            Flagged(
                self._state.run,
                found.property,
                verdict,
                found.group,
                found.process,
                found.incarnation,
                found.position,
                found.message,
                found.text,
                moment,
                clock,
            )
        )

    def _counted(self) -> list[Counted]:
        found = []
        for property_id, monitor in self._suite.monitors.items():
            if monitor.count > self._counts[property_id]:
                found.append(Counted(self._state.run, property_id, monitor.count - self._counts[property_id]))
                self._counts[property_id] = monitor.count
        return found

    def _is_silent(self, source: Source) -> bool:
        life = self._state.lives.get(source)
        return life is None or life.is_silent(self._now)

    def _forget(self) -> None:
        """Let go of what no later row can concern, and of whom nothing was heard for long."""
        state = self._state
        for source in [source for source, life in state.lives.items() if life.is_forgotten(self._now)]:
            del state.lives[source], state.hosts[source]
            state.messages.forget(source)
            self._integrity.forget_source(source)
            forget_life(self._suite, source)
            for members in (state.agreeing, state.views):
                for member in [member for member in members if member[1:] == source]:
                    del members[member]
        forget_old_stretches(self._suite)
        self._integrity.keep_within_limits()
        self._identity.keep_within_limits()

    def _standing(self) -> Standing:
        state = self._state
        return Standing(
            state.run,
            [
                Process(
                    *source,
                    state.hosts[source],
                    life.state(self._now),
                    life.lossy,
                    life.position,
                    life.moment,
                    life.clock,
                )
                for source, life in sorted(state.lives.items())
            ],
            [
                (group, process_name(name, incarnation), view)
                for (group, name, incarnation), view in sorted(state.views.items())
                if (name, incarnation) in state.lives and not state.lives[name, incarnation].ended
            ],
            self._integrity.unknown,
            len(self._integrity.waits),
            self._integrity.unchecked + state.messages.late,
            state.messages.open_count,
        )
