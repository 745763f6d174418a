"""The lines of the live tables. Every table is only added to; sums, lowest and highest over its lines are the measures.

A window is a second of a clock: the global time where it is known (`clock` is null), else that of a host.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from unisono.units import SECOND

WINDOW_NANOSECONDS = SECOND

Verdict = Literal["violated", "unknown"]


class Line(Struct, tag=True, array_like=True):
    """A line of a live table."""

    table: ClassVar[str]

    run: str


class Reported(Line):
    """So many reports of one life, from the number `first` on, with so many rows, under these services."""

    table: ClassVar[str] = "reports"

    process: str
    incarnation: int
    host: str
    first: int
    reports: int
    rows: int
    services: list[str] = []


class Flagged(Line):
    """A violation, or what cannot be told (`unknown`), at the row of a process; `moment` is that of the row.

    The writer adds when it was written, in nanoseconds since 1970, and how long after the row that was, where the row's
    clock is that of the machine that writes.
    """

    table: ClassVar[str] = "violations"

    property: str
    verdict: Verdict
    group: str
    process: str
    incarnation: int
    position: int
    message: str | None
    text: str
    moment: int | None
    clock: str | None
    flagged: int = 0
    delay: int | None = None


class Counted(Line):
    """So many violations of a property since the last such line; of many at once, not all are told one by one."""

    table: ClassVar[str] = "verdicts"

    property: str
    violations: int


class Sent(Line):
    """What one member sent of one size in a window."""

    table: ClassVar[str] = "sends"

    clock: str | None
    window: int
    group: str
    process: str
    incarnation: int
    size: int
    messages: int


class Delivered(Line):
    """What one member delivered of one size in a window, with the first and the last moment."""

    table: ClassVar[str] = "deliveries"

    clock: str | None
    window: int
    group: str
    process: str
    incarnation: int
    size: int
    messages: int
    first: int
    last: int


class Latencies(Line):
    """From SEND to the last member's delivery, in nanoseconds, of settled messages that were sent in a window."""

    table: ClassVar[str] = "latencies"

    clock: str | None
    window: int
    group: str
    nanoseconds: list[int]


class Repaired(Line):
    """Requests for repair, and repairs."""

    table: ClassVar[str] = "repairs"

    clock: str | None
    window: int
    group: str
    requests: int
    repairs: int


class Gauged(Line):
    """What the gauges of one name and member add up to in a window: traffic, control traffic, or time of waiting."""

    table: ClassVar[str] = "gauges"

    clock: str | None
    window: int
    group: str
    process: str
    incarnation: int
    name: str
    value: int


class Installed(Line):
    """A view that a member installed; `took` is the time since its first suspicion or repair for it."""

    table: ClassVar[str] = "views"

    clock: str | None
    moment: int
    group: str
    process: str
    incarnation: int
    position: int
    view: str | None
    members: list[str]
    took: int | None


TABLES: dict[str, type[Line]] = {
    kind.table: kind for kind in (Reported, Flagged, Counted, Sent, Delivered, Latencies, Repaired, Gauged, Installed)
}
"""Every live table by its name."""


class Process(Struct, array_like=True):
    """A life that reports, as it stands after a batch."""

    process: str
    incarnation: int
    host: str
    state: str
    lossy: bool
    rows: int
    last: int
    clock: str | None


class Standing(Struct, array_like=True):
    """How a run stands after a batch; it is shown and not stored."""

    run: str
    processes: list[Process]
    views: list[tuple[str, str, str | None]]
    """Group, process and the view that it is in."""
    unknown: int
    waiting: int
    unchecked: int
    open_messages: int
    state_bytes: int = 0


AnyLine = Reported | Flagged | Counted | Sent | Delivered | Latencies | Repaired | Gauged | Installed
"""What can be read back."""
