"""What a person sees of a live stream: who reports, rates, latencies, views, and how each property stands.

It is made from the lines and standings of batches as they come; what was written before a restart, from the tables.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from unisono.pipeline.live.outputs import (
    TABLES,
    Counted,
    Delivered,
    Flagged,
    Gauged,
    Installed,
    Latencies,
    Line,
    Repaired,
    Reported,
    Sent,
    Standing,
)
from unisono.pipeline.live.run import LIVE
from unisono.pipeline.live.tables import read_batches
from unisono.properties.entries import PROPERTIES
from unisono.properties.promises import promised_by_any

RATE_WINDOWS = 5
"""A rate is over so many seconds that are over."""
LATENCIES_LIMIT = 5_000
"""Percentiles are over so many of the latest messages."""
TOLD_LIMIT = 100


class GroupPicture(Struct):
    """What is added up for one group of a run."""

    deliveries: dict[int, Counter[str]] = field(default_factory=dict)
    delivered: int = 0
    sent: int = 0
    payload_bytes: int = 0
    requests: int = 0
    repairs: int = 0
    latencies: deque[int] = field(default_factory=lambda: deque(maxlen=LATENCIES_LIMIT))
    installs: int = 0
    last_change: int | None = None

    def rate(self) -> float | None:
        """Messages a second at the slowest member, in the last seconds that are over."""
        newest = max(self.deliveries, default=0)
        windows = [self.deliveries.get(newest - back, Counter()) for back in range(1, RATE_WINDOWS + 1)]
        members = {member for window in windows for member in window}
        if not members:
            return None
        return min(sum(window[member] for window in windows) for member in members) / RATE_WINDOWS

    def percentile(self, percent: int) -> int | None:
        ordered = sorted(self.latencies)
        return ordered[(len(ordered) * percent + 99) // 100 - 1] if ordered else None


class RunPicture(Struct):
    """What is added up for one run."""

    groups: dict[str, GroupPicture] = field(default_factory=lambda: defaultdict(GroupPicture))
    violations: Counter[str] = field(default_factory=Counter)
    latest: dict[str, Flagged] = field(default_factory=dict)
    reports: int = 0
    rows: int = 0
    services: set[str] = field(default_factory=set)
    gauges: Counter[str] = field(default_factory=Counter)
    standing: Standing | None = None


class Picture:
    """All runs. Batches come from one thread, looks from another."""

    def __init__(self, host: str | None = None) -> None:
        self._host = host
        self._runs: dict[str, RunPicture] = defaultdict(RunPicture)
        self._lock = threading.Lock()
        self.told: deque[Flagged] = deque(maxlen=TOLD_LIMIT)
        """The latest violations and unknowns, in the order in which they were flagged."""
        self.batch = -1
        self._last_batch = -1
        self._last: list[Line] = []
        self.changed = threading.Event()

    def restore(self, tables: str | os.PathLike[str]) -> None:
        """Take up what was written before. The last batch waits until it is known whether it is done again."""
        written = [line for table in TABLES for line in read_batches(tables, table)]
        self._last_batch = max((batch for batch, _ in written), default=-1)
        self._last = [line for batch, line in written if batch == self._last_batch]
        with self._lock:
            self._add(line for batch, line in written if batch < self._last_batch)

    def take(self, batch: int, lines: list[Line], standings: list[Standing]) -> None:
        """The results of a batch."""
        with self._lock:
            self.batch = batch
            if batch > self._last_batch:
                self._add(self._last)
            self._last = []
            self._add(lines)
            for standing in standings:
                self._runs[standing.run].standing = standing
        self.changed.set()

    @property
    def violated(self) -> bool:
        with self._lock:
            return self._violated()

    def as_json(self, behind: int | None) -> dict[str, Any]:
        """Everything, as one object; `behind` is how many reports the stream has not read yet."""
        with self._lock:
            here = time.monotonic_ns()
            return {
                "batch": self.batch,
                "behind_reports": behind,
                "runs": [_run_json(name, run, self._host, here) for name, run in sorted(self._runs.items())],
                "violated": self._violated(),
            }

    def _violated(self) -> bool:
        found = any(run.violations.total() for run in self._runs.values())
        return found or any(isinstance(line, Counted) for line in self._last)

    def _add(self, lines: Iterable[Line]) -> None:
        for line in lines:
            run = self._runs[line.run]
            if isinstance(line, Delivered):
                _deliver(run.groups[line.group], line)
            elif isinstance(line, Sent):
                group = run.groups[line.group]
                group.sent += line.messages
                group.payload_bytes += line.messages * line.size
            elif isinstance(line, Latencies):
                run.groups[line.group].latencies.extend(line.nanoseconds)
            elif isinstance(line, Repaired):
                run.groups[line.group].requests += line.requests
                run.groups[line.group].repairs += line.repairs
            elif isinstance(line, Installed):
                run.groups[line.group].installs += 1
                run.groups[line.group].last_change = line.took or run.groups[line.group].last_change
            else:
                self._add_to_run(run, line)

    def _add_to_run(self, run: RunPicture, line: Line) -> None:
        if isinstance(line, Flagged):
            self.told.append(line)
            if line.verdict == "violated" or line.property not in run.latest:
                run.latest[line.property] = line
        elif isinstance(line, Counted):
            run.violations[line.property] += line.violations
        elif isinstance(line, Reported):
            run.reports += line.reports
            run.rows += line.rows
            run.services.update(line.services or ())  # none in lines that an earlier version wrote
        elif isinstance(line, Gauged):
            run.gauges[line.name] += line.value


def _deliver(group: GroupPicture, line: Delivered) -> None:
    group.delivered += line.messages
    window = group.deliveries.setdefault(line.window, Counter())
    window[f"{line.process}~{line.incarnation:x}"] += line.messages
    newest = max(group.deliveries)
    for old in [old for old in group.deliveries if old < newest - 2 * RATE_WINDOWS]:
        del group.deliveries[old]


def _run_json(name: str, run: RunPicture, host: str | None, here: int) -> dict[str, Any]:
    standing = run.standing
    return {
        "run": name,
        "reports": run.reports,
        "rows": run.rows,
        "processes": _processes(standing),
        "groups": [_group_json(name, group, standing) for name, group in sorted(run.groups.items())],
        "gauges": dict(sorted(run.gauges.items())),
        "properties": {property_id: _property_json(property_id, run) for property_id in LIVE},
        "unknown": standing.unknown if standing else 0,
        "waiting": standing.waiting if standing else 0,
        "unchecked": standing.unchecked if standing else 0,
        "open_messages": standing.open_messages if standing else 0,
        "state_bytes": standing.state_bytes if standing else 0,
        "age_nanoseconds": _age(standing, host, here),
    }


def _processes(standing: Standing | None) -> list[dict[str, Any]]:
    return [
        {
            "process": f"{one.process}~{one.incarnation:x}",
            "host": one.host,
            "state": one.state,
            "rows": one.rows,
            "rows_missing": one.lossy,
        }
        for one in (standing.processes if standing else ())
    ]


def _group_json(name: str, group: GroupPicture, standing: Standing | None) -> dict[str, Any]:
    views = Counter(view for of, _, view in standing.views if of == name) if standing else Counter[str | None]()
    return {
        "group": name,
        "sent": group.sent,
        "delivered": group.delivered,
        "payload_bytes": group.payload_bytes,
        "messages_per_second": group.rate(),
        "latency_nanoseconds": {
            "messages": len(group.latencies),
            **{f"p{percent}": group.percentile(percent) for percent in (50, 90, 99)},
            "max": group.percentile(100),
        },
        "requests": group.requests,
        "repairs": group.repairs,
        "views": [{"view": view, "members": count} for view, count in views.most_common()],
        "installs": group.installs,
        "last_change_nanoseconds": group.last_change,
    }


def _property_json(property_id: str, run: RunPicture) -> dict[str, Any]:
    count, latest = run.violations[property_id], run.latest.get(property_id)
    unknown = run.standing.unknown if run.standing and property_id == "D1" else 0
    standing = "held" if promised_by_any(run.services, property_id) else "not promised"
    return {
        "name": PROPERTIES[property_id].name,
        "verdict": "violated" if count else "unknown" if unknown else standing,
        "violations": count,
        "unknown": unknown,
        "latest": None
        if latest is None
        else {
            "text": latest.text,
            "group": latest.group,
            "process": f"{latest.process}~{latest.incarnation:x}",
            "position": latest.position,
            "verdict": latest.verdict,
            "delay_nanoseconds": latest.delay,
        },
    }


def _age(standing: Standing | None, host: str | None, here: int) -> int | None:
    """How long ago the newest row was written, where this machine's clock can tell."""
    times = [one.last for one in (standing.processes if standing else ()) if host is not None and one.clock == host]
    return here - max(times) if times else None
