"""What a run tells: who was there when, how much was sent and delivered, how fast, and what had to be repaired.

Taken from the rows of one run in one pass each, without Spark. Times are nanoseconds from the beginning of the run, by
the simulator's clock where there is one, else by the clock of each host from its own first row.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct, field

from unisono.pipeline.view_story import ViewStory, is_agreed, is_merge, view_stories, why_words
from unisono.properties.violation import moment
from unisono.trace.schema import (
    AnyRow,
    DeliverRow,
    FaultRow,
    GaugeRow,
    MembershipRow,
    RepairRow,
    SendRow,
    ViewRow,
)

PERCENTILES = (50, 90, 99)
_ROUND_STEPS = (1, 2, 5)

MarkKind = Literal["start", "crash", "leave", "end", "left behind", "unavailable", "merge", "excluded", "dropped out"]
Life = tuple[str, int]
"""A process and its incarnation."""


class Bar(Struct, frozen=True):
    """One view, while it was the newest; `agreed` is its identifier where its members agreed on it."""

    begin: int
    end: int
    members: tuple[str, ...]
    agreed: str | None = None
    why: str = ""


class Mark(Struct, frozen=True):
    """Something that happened to a process."""

    at: int
    kind: MarkKind
    text: str


class Lane(Struct):
    """One life of a process in one group."""

    process: str
    incarnation: int
    name: str = ""
    begin: int = 0
    end: int = 0
    bars: list[Bar] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def ending(self) -> str:
        found = [mark.kind for mark in self.marks if mark.kind in ("crash", "leave", "end")]
        return (
            "no end in the trace" if not found else {"crash": "crashed", "leave": "left", "end": "lived on"}[found[-1]]
        )


class Shade(Struct, frozen=True):
    """A fault; `members` are those that it took away, none where it is everybody's; without `end` it is a moment."""

    fault: str
    begin: int
    end: int | None
    members: tuple[str, ...]


class Rates(Struct, frozen=True):
    """Counts in steps of equal length: messages sent by all, delivered by each life, and requests for repair."""

    step: int
    sent: list[int]
    delivered: dict[Life, list[int]]
    asked: list[int]


class GroupStory(Struct, frozen=True):
    """One group."""

    name: str
    lanes: list[Lane]
    rates: Rates
    latencies: list[int]
    sent: int
    sent_bytes: int
    delivered: int
    delivered_bytes: int
    asked: int
    repaired: int
    lost: int
    repaired_ranges: int
    views: list[ViewStory]

    def percentile(self, percent: int) -> int:
        """The latency of some message, exact: the nearest rank."""
        return self.latencies[(len(self.latencies) * percent + 99) // 100 - 1]


class Story(Struct, frozen=True):
    """One run."""

    run: str
    duration: int
    groups: list[GroupStory]
    faults: list[Shade]
    loads: list[Shade]
    marks: dict[str, int]
    gauges: dict[str, tuple[int, int | None]]
    rows: int
    simulated: bool
    hosts: int
    moments: dict[tuple[str, int, int], int]
    """When the row at a position of a life was written."""


def story(rows: Sequence[AnyRow]) -> Story:
    """The story of one run; the rows of each process are in its own order."""
    when = _clock(rows)
    duration = max((when(row) for row in rows), default=0)
    shades = _shades(rows, when, duration)
    names = sorted({row.group for row in rows if row.group})
    simulated = any(row.truth is not None for row in rows)
    return Story(
        run=rows[0].run if rows else "",
        duration=duration,
        groups=[_group(name, rows, when, duration) for name in names],
        faults=[shade for shade in shades if shade.fault not in ("load", "heal")],
        loads=[shade for shade in shades if shade.fault == "load"],
        marks=dict(sorted(Counter(r.name for r in rows if isinstance(r, GaugeRow) and r.kind == "MARK").items())),
        gauges=_gauges(rows),
        rows=len(rows),
        simulated=simulated,
        hosts=1 if simulated else len({row.host for row in rows if row.process}),
        moments={(row.process, row.incarnation, row.position): when(row) for row in rows},
    )


def _clock(rows: Sequence[AnyRow]) -> Callable[[AnyRow], int]:
    first: dict[str | None, int] = {}
    for row in rows:
        host = row.host if row.truth is None else None
        first[host] = min(first.get(host, moment(row)), moment(row))
    return lambda row: moment(row) - first[row.host if row.truth is None else None]


def _shades(rows: Sequence[AnyRow], when: Callable[[AnyRow], int], duration: int) -> list[Shade]:
    shades: list[Shade] = []
    open_since: dict[tuple[str, tuple[str, ...]], list[int]] = defaultdict(list)
    for row in rows:
        if isinstance(row, FaultRow):
            key = (row.fault, tuple(row.members))
            if row.edge == "begin":
                open_since[key].append(when(row))
            elif open_since[key]:
                shades.append(Shade(row.fault, open_since[key].pop(0), when(row), key[1]))
    for (fault, members), begins in open_since.items():
        shades += [Shade(fault, begin, duration if members else None, members) for begin in begins]
    return sorted(shades, key=lambda shade: (shade.begin, shade.fault, shade.members))


def _group(name: str, rows: Sequence[AnyRow], when: Callable[[AnyRow], int], duration: int) -> GroupStory:
    mine = [row for row in rows if row.group == name]
    lanes = _lanes(name, rows, when)
    sends = [row for row in mine if isinstance(row, SendRow)]
    deliveries = [row for row in mine if isinstance(row, DeliverRow)]
    repairs = [row for row in mine if isinstance(row, RepairRow)]
    asked = [row for row in repairs if row.kind == "RTR"]
    step = _round_step(duration // 60)
    count = duration // step + 1

    def counted(some: Sequence[AnyRow]) -> list[int]:
        found = [0] * count
        for row in some:
            found[when(row) // step] += 1
        return found

    by_life: dict[Life, list[AnyRow]] = {(lane.process, lane.incarnation): [] for lane in lanes}
    for row in deliveries:
        by_life[row.process, row.incarnation].append(row)
    return GroupStory(
        name=name,
        lanes=lanes,
        rates=Rates(step, counted(sends), {life: counted(some) for life, some in by_life.items()}, counted(asked)),
        latencies=_latencies(sends, deliveries),
        sent=len(sends),
        sent_bytes=sum(row.size for row in sends),
        delivered=len(deliveries),
        delivered_bytes=sum(row.size for row in deliveries),
        asked=len(asked),
        repaired=sum(row.kind == "RTX" for row in repairs),
        lost=_ranges(asked),
        repaired_ranges=_ranges([row for row in repairs if row.kind == "RTX"]),
        views=view_stories(mine, when),
    )


def _ranges(rows: Sequence[RepairRow]) -> int:
    """How many ranges of sequences there are, those that overlap taken as one."""
    count, source, until = 0, ("", 0), 0
    for row in sorted(rows, key=lambda row: (row.source, row.source_incarnation, row.first)):
        if count and source == (row.source, row.source_incarnation) and row.first <= until:
            until = max(until, row.last)
        else:
            count += 1
            source, until = (row.source, row.source_incarnation), row.last
    return count


def _lanes(group: str, rows: Sequence[AnyRow], when: Callable[[AnyRow], int]) -> list[Lane]:
    lives: dict[Life, list[AnyRow]] = defaultdict(list)
    in_group: set[Life] = set()
    for row in rows:
        if row.process and row.group in ("", group):
            lives[row.process, row.incarnation].append(row)
            if row.group:
                in_group.add((row.process, row.incarnation))
    lanes = [_lane(life, some, when) for life, some in lives.items() if life in in_group]
    lanes.sort(key=lambda lane: (lane.process, lane.begin, lane.incarnation))
    total, seen = Counter(lane.process for lane in lanes), Counter[str]()
    for lane in lanes:
        seen[lane.process] += 1
        lane.name = lane.process if total[lane.process] == 1 else f"{lane.process}, life {seen[lane.process]}"
    return lanes


def _lane(life: Life, rows: Sequence[AnyRow], when: Callable[[AnyRow], int]) -> Lane:
    lane = Lane(*life, begin=min(when(row) for row in rows), end=max(when(row) for row in rows))
    view: ViewRow | None = None

    def close(at: int) -> None:
        if view is not None:
            members = tuple(start.source for start in view.start)
            agreed = view.view if is_agreed(view) else None
            lane.bars.append(Bar(when(view), at, members, agreed, why_words([view])))

    for row in rows:
        lane.counts[row.kind] += row.kind != "MARK"
        if isinstance(row, ViewRow):
            close(when(row))
            view = row
            if is_merge(row):
                lane.marks.append(Mark(when(row), "merge", f"meets again: {why_words([row])}"))
        elif isinstance(row, MembershipRow):
            mark = _mark(row, when(row))
            if mark is not None:
                lane.marks.append(mark)
            if row.kind == "LEAVE":
                close(when(row))
                view = None
    close(lane.end)
    return lane


def _mark(row: MembershipRow, at: int) -> Mark | None:
    if row.kind == "START":
        return Mark(at, "start", "starts")
    if row.kind == "CRASH":
        return Mark(at, "crash", "crashes")
    if row.kind == "LEAVE":
        return Mark(at, "leave", "leaves")
    if row.kind == "END":
        return Mark(at, "end", "lives when the run ends")
    if row.kind == "LEFT_BEHIND":
        return Mark(at, "left behind", f"was left behind: messages of {row.peer} are lost here")
    if row.kind == "EXCLUDED":
        return Mark(at, "excluded", "learns that the others went on without it")
    if row.kind == "SELF_FAIL":
        return Mark(at, "dropped out", f"starts anew: {row.reason}")
    if row.kind == "UNAVAILABLE":
        return Mark(at, "unavailable", f"gets no answer from {row.peer}")
    return None


def _latencies(sends: Sequence[SendRow], deliveries: Sequence[DeliverRow]) -> list[int]:
    """For each message, the time until the last member that delivered it did, where clocks compare; in order."""
    sent: dict[tuple[str, int, int], SendRow] = {}
    for send in sends:
        sent.setdefault((send.process, send.incarnation, send.number), send)
    last: dict[tuple[str, int, int], int] = {}
    clocks: dict[tuple[str, int, int], set[str | None]] = defaultdict(set)
    for row in deliveries:
        message = (row.source, row.source_incarnation, row.number)
        last[message] = max(last.get(message, moment(row)), moment(row))
        clocks[message].add(_clock_name(row))
    return sorted(
        at - moment(sent[message])
        for message, at in last.items()
        if message in sent and clocks[message] == {_clock_name(sent[message])}
    )


def _clock_name(row: AnyRow) -> str | None:
    return row.host if row.truth is None else None


def _gauges(rows: Sequence[AnyRow]) -> dict[str, tuple[int, int | None]]:
    """The highest value of each gauge that has a cap, beside that cap."""
    found: dict[str, tuple[int, int | None]] = {}
    for row in rows:
        if isinstance(row, GaugeRow) and row.kind == "GAUGE" and row.cap is not None:
            found[row.name] = max(found.get(row.name, (0, row.cap)), (row.value, row.cap), key=lambda pair: pair[0])
    return dict(sorted(found.items()))


def _round_step(at_least: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, ... milliseconds that is not below."""
    unit = 1_000_000
    while True:
        for factor in _ROUND_STEPS:
            if unit * factor >= at_least:
                return unit * factor
        unit *= 10
