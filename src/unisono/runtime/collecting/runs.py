"""What a collector knows of the runs that are reported to it: which lives, which of their reports, and who is there.

Everything here can be had again from the log and the lake; how long somebody has been silent begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from unisono.errors import BadReport
from unisono.trace.lake import Lake, Life, LifeKey, is_end
from unisono.trace.numbers import Numbers
from unisono.trace.reports import Report

RUNS_LIMIT = 10_000
LIVES_LIMIT = 100_000
GAPS_LIMIT = 10_000
SETTLE_SECONDS = 2.0
"""A run whose processes have all ended is complete after so long."""
GONE_SECONDS = 60.0
"""A process that is not connected and has not reported for so long is gone."""


class KnownLife(Struct):
    """One life: what was stored of it, and when it was last heard."""

    life: Life
    expected: Numbers
    """Everything that was stored or is about to be."""
    heard: float
    connections: int = 0

    @property
    def ended(self) -> bool:
        return self.life.ended


class KnownRun(Struct):
    """One run that is not complete, or was reported to again."""

    lives: dict[LifeKey, KnownLife]
    open: bool = False
    """It has reports that no complete run directory has."""
    stored: int = 0
    """How many reports were stored since it is known here."""


class CollectedRuns:
    """The runs by name. Used in the collector's loop."""

    def __init__(self, lake: Lake, now: Callable[[], float]) -> None:
        self._lake = lake
        self._now = now
        self._runs: dict[str, KnownRun] = {}
        for name in lake.open_runs:
            self._run(name).open = True

    @property
    def open_runs(self) -> list[str]:
        return [name for name, run in self._runs.items() if run.open]

    def replay(self, reports: Iterable[Report]) -> None:
        """Reports that the log has and the lake has not: known, but nobody is connected."""
        for report in reports:
            life = self._life(report)
            life.expected.add(report.number)
            self._add(life, report)

    def expect(self, report: Report) -> bool:
        """Whether a report is known; else it is from now on, as one that is about to be stored."""
        life = self._life(report)
        life.heard = self._now()
        known = report.number in life.expected
        if not known:
            if life.expected.pieces >= GAPS_LIMIT:
                raise BadReport("too many gaps", f"{report.process!r} left out reports {GAPS_LIMIT} times")
            life.expected.add(report.number)
        return known

    def stored(self, report: Report) -> None:
        self._add(self._life(report), report)

    def connected(self, life: tuple[str, str, int]) -> None:
        self._runs[life[0]].lives[LifeKey(*life[1:])].connections += 1

    def disconnected(self, life: tuple[str, str, int]) -> None:
        run = self._runs.get(life[0])
        known = None if run is None else run.lives.get(LifeKey(*life[1:]))
        if known is not None:
            known.connections -= 1
            known.heard = self._now()

    def finished(self, settle_seconds: float, gone_seconds: float) -> list[str]:
        """Open runs of which nothing more is expected."""
        now = self._now()
        return [
            name
            for name, run in self._runs.items()
            if run.open
            and all(
                not life.connections and now - life.heard >= (settle_seconds if life.ended else gone_seconds)
                for life in run.lives.values()
            )
        ]

    def stored_count(self, name: str) -> int:
        """Grows with every report that is stored of a run."""
        return self._runs[name].stored

    def completed(self, name: str, stored: int) -> None:
        """A run has its directory, with as many reports as were stored then; the lake remembers it from now on."""
        run = self._runs[name]
        if run.stored != stored:
            return  # more came meanwhile: it is open again
        run.open = False
        if not any(life.connections for life in run.lives.values()):
            del self._runs[name]

    def summary(self, name: str) -> dict[str, Any]:
        """What is said of a run in its directory."""
        lives = self._runs[name].lives
        return {
            "run": name,
            "rows": sum(known.life.rows for known in lives.values()),
            "processes": [
                {
                    "process": key.process,
                    "incarnation": key.incarnation,
                    "reports": len(known.life.numbers),
                    "rows": known.life.rows,
                    "ended": known.life.ended,
                    "missing": [list(gap) for gap in known.life.numbers.gaps],
                }
                for key, known in sorted(lives.items())
            ],
        }

    def _add(self, known: KnownLife, report: Report) -> None:
        known.life.numbers.add(report.number)
        known.life.rows += report.count
        known.life.ended = known.life.ended or is_end(report)
        run = self._runs[report.run]
        run.open = True
        run.stored += 1

    def _life(self, report: Report) -> KnownLife:
        lives = self._run(report.run).lives
        key = LifeKey(report.process, report.incarnation)
        known = lives.get(key)
        if known is None:
            if len(lives) >= LIVES_LIMIT:
                raise BadReport("too many processes", f"run {report.run!r} has {LIVES_LIMIT}")
            known = lives[key] = KnownLife(Life(Numbers()), Numbers(), self._now())
        return known

    def _run(self, name: str) -> KnownRun:
        run = self._runs.get(name)
        if run is None:
            if len(self._runs) >= RUNS_LIMIT:
                raise BadReport("too many runs", f"{RUNS_LIMIT} are being collected")
            found = self._lake.lives(name)
            run = self._runs[name] = KnownRun(
                {key: KnownLife(life, Numbers(life.numbers), self._now()) for key, life in found.items()}
            )
        return run
