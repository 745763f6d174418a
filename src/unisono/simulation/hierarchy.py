"""Figures of the control hierarchy in a run: coordinators, when it settled, what it costs, how true distances are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from statistics import median
from typing import Protocol

from msgspec import Struct

from unisono.node import ControlProcess, Node, thresholds
from unisono.settings import Settings
from unisono.simulation.machine import Machine
from unisono.simulation.network import Network
from unisono.simulation.streams import stream
from unisono.trace.schema import GaugeRow
from unisono.units import SECOND

SAMPLE_INTERVAL = SECOND
PAIRS_LIMIT = 20_000
"""Of how many pairs the distance is held against the truth, at the most."""
COST_WINDOW = 20
"""Seconds at the end over which the traffic is counted."""


class Sample(Struct, frozen=True):
    """The hierarchy at one moment: how many live, how many lead, and how many have no coordinator that leads."""

    at: int
    sites: int
    coordinators: int
    homeless: int
    low: int
    high: int

    @property
    def settled(self) -> bool:
        return self.low <= self.coordinators <= self.high and not self.homeless


class Figures(Struct, frozen=True):
    """What a run came to. Bytes are a site's mean in a second at the end; the distance error is a median share."""

    sites: int
    coordinators: int
    low: int
    high: int
    homeless: int
    settled_at: int | None
    bytes_sent: float
    bytes_received: float
    distance_error: float | None
    distances_known: float

    def rows(self) -> list[tuple[str, str]]:
        """In words, for a table."""
        settled = "not yet" if self.settled_at is None else f"{self.settled_at / SECOND:.0f} s"
        error = "unknown" if self.distance_error is None else f"{self.distance_error:.1%}"
        return [
            ("sites", str(self.sites)),
            ("coordinators", f"{self.coordinators} (thresholds {self.low} to {self.high})"),
            ("sites without a coordinator", str(self.homeless)),
            ("settled for good at", settled),
            ("bytes sent by a site in a second", f"{self.bytes_sent:.0f}"),
            ("bytes received by a site in a second", f"{self.bytes_received:.0f}"),
            ("distance error, median", error),
            ("pairs with a known distance", f"{self.distances_known:.1%}"),
        ]


class Stage(Protocol):
    """What is observed."""

    @property
    def now(self) -> int: ...

    seed: int
    machines: list[Machine]
    network: Network

    def schedule(self, at: int, call: Callable[[int], None]) -> None: ...


class HierarchyObserver:
    """Looks at every control process once a second, and counts its bytes as they are measured."""

    def __init__(self, stage: Stage, settings: Settings) -> None:
        self._stage = stage
        self._settings = settings
        self._sent: Counter[int] = Counter()
        self._received: Counter[int] = Counter()
        self.samples: list[Sample] = []
        stage.schedule(SAMPLE_INTERVAL, self._look)

    def on_gauge(self, row: GaugeRow) -> None:
        if row.name == "control bytes sent":
            self._sent[self._stage.now // SECOND] += row.value
        elif row.name == "control bytes received":
            self._received[self._stage.now // SECOND] += row.value

    def _look(self, now: int) -> None:
        self.samples.append(self.sample())
        self._stage.schedule(now + SAMPLE_INTERVAL, self._look)

    def processes(self) -> dict[int, ControlProcess]:
        """The control processes that live, by member."""
        return {
            machine.index: machine.engine.control
            for machine in self._stage.machines
            if isinstance(machine.engine, Node) and machine.engine.control is not None
        }

    def coordinators(self) -> list[int]:
        return [index for index, process in self.processes().items() if process.state.among_coordinators]

    def sample(self) -> Sample:
        processes = self.processes()
        leading = {process.whereabouts.control for process in processes.values() if process.state.leads}
        coordinators = sum(process.state.among_coordinators for process in processes.values())
        homeless = sum(
            not process.state.leads and process.whereabouts.coordinator not in leading for process in processes.values()
        )
        limits = thresholds(self._settings, len(processes))
        return Sample(self._stage.now, len(processes), coordinators, homeless, *limits)

    def settled_at(self, after: int = 0) -> int | None:
        """Since when it has been settled without a break, looking at what was after a moment only."""
        since: int | None = None
        for sample in self.samples:
            if sample.at > after:
                since = (since if since is not None else sample.at) if sample.settled else None
        return since

    def distance_errors(self) -> tuple[list[float], int]:
        """The error of each pair that was looked at, as a share of the truth; and how many were looked at."""
        processes = self.processes()
        members = sorted(processes)
        tables = {index: process.table for index, process in processes.items()}
        pairs = [(a, b) for a in members for b in members if a != b]
        if len(pairs) > PAIRS_LIMIT:
            pairs = stream(self._stage.seed, "hierarchy/pairs").sample(pairs, PAIRS_LIMIT)
        errors = []
        for a, b in pairs:
            known = tables[a].distance(tables[b].whereabouts)
            if known is not None:
                truth = self._stage.network.latency(a, b)
                errors.append(abs(known - truth) / truth)
        return errors, len(pairs)

    def figures(self) -> Figures:
        last = self.sample()
        errors, asked = self.distance_errors()
        end = self._stage.now // SECOND
        window = range(max(0, end - COST_WINDOW), end)
        site_seconds = max(1, len(window) * last.sites)
        return Figures(
            last.sites,
            last.coordinators,
            last.low,
            last.high,
            last.homeless,
            self.settled_at(),
            sum(self._sent[second] for second in window) / site_seconds,
            sum(self._received[second] for second in window) / site_seconds,
            median(errors) if errors else None,
            len(errors) / asked if asked else 1.0,
        )
