"""The scene of a counter-example: which lives, events, messages and views its space-time diagram shows, and where.

Time goes across, but not evenly: every event has a place of its own, and a long pause takes little more room than a
short one, so that what happened in microseconds and what happened in seconds are read from one picture.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from unisono.pipeline.pages.disagreements import life_of
from unisono.pipeline.pages.evidence import Life, Message, message_of
from unisono.pipeline.pages.story_counts import Clock
from unisono.pipeline.pages.subjects import Subject
from unisono.trace.schema import AnyRow, MembershipRow, ProxyRow, SendRow, ViewRow

MOST_LANES = 10
MOST_EVENTS = 64
MOST_CONTEXT = 28
MOST_VIEWS = 16
NEAREST = 4
"""Rows of the same life on both sides that are drawn whatever they are about."""
_LIVES = ("START", "CRASH", "LEAVE", "END")
_NOISE = ("GAUGE", "MARK", "GC")

Weight = Literal["offending", "marked", "concerned", "context"]
_WEIGHTS = ("offending", "marked", "concerned", "context")


class Dot(Struct):
    """One event: a row on the lane of its life, at a place across."""

    row: AnyRow
    at: int
    weight: Weight
    tone: int | None = None
    message: Message | None = None
    place: float = 0.0


class Gap(Struct):
    """A message that a life lacks, where it should have been there at the latest."""

    life: Life
    message: Message
    tone: int
    at: int
    place: float = 0.0


class Span(Struct, frozen=True):
    """A view on the lane of a life from one place to another; it may have begun before, and may go on."""

    life: Life
    begin: float
    end: float
    row: ViewRow
    begun_before: bool
    goes_on: bool


class Scene(Struct):
    """What one diagram shows; places go from 0 to 1."""

    subject: Subject
    lanes: list[Life] = []
    names: dict[Life, str] = {}
    dots: list[Dot] = []
    gaps: list[Gap] = []
    spans: list[Span] = []
    ticks: list[tuple[float, int]] = []
    silence: tuple[float, float] | None = None
    more_lives: int = 0
    more_events: int = 0

    def name(self, message: Message) -> str:
        """A message in few letters; the life of its source is named only where another one sends here too."""
        sources = {other[:2] for other in (*self.subject.messages, *self.subject.context) if other[0] == message[0]}
        return f"{message[0] if len(sources) < 2 else self.names.get(message[:2], message[0])}/{message[2]}"

    def tone(self, message: Message) -> int | None:
        return self.subject.messages.index(message) if message in self.subject.messages else None


class Surroundings(Struct, frozen=True):
    """What scenes of one run have in common: the clock, and by group and life the names, views and ends."""

    clock: Clock
    names: Mapping[str, Mapping[Life, str]]
    views: Mapping[tuple[str, Life], Sequence[ViewRow]]
    lives: Mapping[Life, Sequence[MembershipRow]]


def scene(subject: Subject, around: Surroundings) -> Scene:
    """Choose what to show and give it its place."""
    group = subject.violation.group
    names = around.names.get(group) or {life: name for some in around.names.values() for life, name in some.items()}
    built = Scene(subject, names=dict(names))
    wanted = _lanes(subject, list(names))
    built.lanes = sorted(wanted[:MOST_LANES], key=lambda life: (names.get(life, life[0]), life))
    built.more_lives = len(set(names) - set(built.lanes))
    dots = _dots(built, around)
    built.gaps = _gaps(built, around, dots)
    begin, end = _bounds(built, dots, around)
    for life in built.lanes:
        dots += _own_events(built, life, begin, end, around, dots)
    built.dots = _nearest(dots)
    built.more_events = len(dots) - len(built.dots)
    _place(built, around)
    return built


def _nearest(dots: Sequence[Dot]) -> list[Dot]:
    """All that is concerned, as far as a reader can follow, and for orientation what is nearest to it in time."""
    concerned = sorted((dot for dot in dots if dot.weight != "context"), key=lambda dot: _WEIGHTS.index(dot.weight))
    middle = concerned[0].at if concerned else 0
    context = sorted((dot for dot in dots if dot.weight == "context"), key=lambda dot: abs(dot.at - middle))
    return [*concerned[:MOST_EVENTS], *context[: min(MOST_CONTEXT, max(0, MOST_EVENTS - len(concerned)))]]


def _lanes(subject: Subject, everybody: Sequence[Life]) -> list[Life]:
    """Lives in the order of their importance."""
    concerned = [row for row in subject.told if message_of(row) in subject.messages or isinstance(row, ProxyRow)]
    order: list[Life | None] = [
        subject.life,
        *(life for life, _ in subject.gaps),
        *(message[:2] for message in subject.messages),
        *(life_of(row) for row in subject.marked),
        *(life_of(row) for row in subject.views),
        *(life_of(row) for row in concerned),
        *(life_of(row) for row in subject.told),
        *everybody,
    ]
    return [life for life in dict.fromkeys(order) if life is not None and life in everybody]


def _dots(built: Scene, around: Surroundings) -> list[Dot]:
    subject = built.subject
    found: dict[tuple[Life, int], Dot] = {}

    def add(row: AnyRow | None, weight: Weight) -> None:
        if row is not None and life_of(row) in built.lanes and (life_of(row), row.position) not in found:
            message = _message(row, subject.proxied)
            tone = None if message is None else built.tone(message)
            found[life_of(row), row.position] = Dot(row, around.clock.when(row), weight, tone, message)

    add(subject.row, "offending")
    for row in subject.marked:
        add(row, "marked" if subject.life is not None else "offending")
    for row in subject.views:
        add(row, "concerned")
    for row in subject.told:
        if _message(row, subject.proxied) in subject.messages:
            add(row, "concerned")
    place = subject.violation.position
    for row in subject.near:
        if abs(row.position - place) <= NEAREST and row.kind not in _NOISE:
            add(row, "context")
    for row in subject.told:
        add(row, "context")
    return list(found.values())


def _message(row: AnyRow, proxied: bool) -> Message | None:
    """The message of a row; what is sent for another has numbers of its own."""
    if isinstance(row, ProxyRow):
        return (row.origin, row.origin_incarnation, row.number) if proxied else None
    return None if proxied else message_of(row)


def _gaps(built: Scene, around: Surroundings, dots: Sequence[Dot]) -> list[Gap]:
    """A gap is before the row that shows it; where that is the sending itself, at the next view, or at the end."""
    subject = built.subject
    found = []
    for life, message in subject.gaps:
        row = subject.row
        if row is None or life != subject.life:
            row = next((view for view in subject.views if life_of(view) == life), row)
        if row is not None and isinstance(row, SendRow):
            later = [view for view in around.views.get((row.group, life), ()) if view.position > row.position]
            ends = [one for one in around.lives.get(life, ()) if one.position > row.position and one.kind != "START"]
            due: list[AnyRow] = [*(later if subject.violation.property == "D6" else ()), *ends[-1:], row]
            row = due[0]
        elif isinstance(row, ViewRow) and subject.violation.property in ("O4", "O7"):
            row = max((dot.row for dot in dots if life_of(dot.row) == life), key=lambda one: one.position, default=row)
        if row is not None and life in built.lanes:
            found.append(Gap(life, message, subject.messages.index(message), around.clock.when(row)))
    return found


def _bounds(built: Scene, dots: Sequence[Dot], around: Surroundings) -> tuple[int, int]:
    times = [dot.at for dot in dots] + [gap.at for gap in built.gaps]
    if built.subject.span is not None:
        origin = min(around.clock.origins.values(), default=0)
        times += [at - origin for at in built.subject.span]
    return min(times, default=0), max(times, default=around.clock.duration)


def _own_events(built: Scene, life: Life, begin: int, end: int, around: Surroundings, dots: Sequence[Dot]) -> list[Dot]:
    """Views and what happened to a life within the time of the scene, so many as it can show."""
    there = {(life_of(dot.row), dot.row.position) for dot in dots}
    views = around.views.get((built.subject.violation.group, life), ())
    rows: list[AnyRow] = [*views, *(row for row in around.lives.get(life, ()) if row.kind in _LIVES)]
    inside = [row for row in rows if begin <= around.clock.when(row) <= end and (life, row.position) not in there]
    return [Dot(row, around.clock.when(row), "context") for row in inside[: MOST_VIEWS // max(1, len(built.lanes)) + 1]]


def _place(built: Scene, around: Surroundings) -> None:
    """Give every event its place, in the order of time, of each life, and of cause and effect."""
    slots: list[tuple[int, list[Dot | Gap]]] = []
    for item in _in_order([*built.dots, *built.gaps]):
        life = item.life if isinstance(item, Gap) else life_of(item.row)
        if slots and slots[-1][0] == item.at and not any(_follows(item, life, other) for other in slots[-1][1]):
            slots[-1][1].append(item)
        else:
            slots.append((item.at, [item]))
    origin = min(around.clock.origins.values(), default=0)
    span = None if built.subject.span is None else tuple(at - origin for at in built.subject.span)
    slots = sorted([*slots, *((at, []) for at in span or ())], key=lambda slot: slot[0])
    times = [at for at, _ in slots]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    short = sorted(pause for pause in pauses if pause > 0)
    unit = max(1, short[len(short) // 4]) if short else 1
    places = [0.0]
    for pause in pauses:
        places.append(places[-1] + 1 + 0.7 * math.log2(1 + pause / unit))
    whole = places[-1] or 1.0
    for (_, items), place in zip(slots, places, strict=False):
        for item in items:
            item.place = place / whole
    built.ticks = [(place / whole, at) for place, at in zip(places, times, strict=False)]
    if span is not None:
        built.silence = (_between(built.ticks, span[0]), _between(built.ticks, span[1]))
    built.spans = [span for life in built.lanes for span in _spans(built, life, around)]


def _follows(item: Dot | Gap, life: Life, other: Dot | Gap) -> bool:
    """Whether something must stand to the right of something at the same moment."""
    if life == (other.life if isinstance(other, Gap) else life_of(other.row)):
        return True
    return (
        isinstance(item, Dot) and isinstance(other, Dot) and item.message is not None and item.message == other.message
    )


def _in_order(items: Sequence[Dot | Gap]) -> list[Dot | Gap]:
    """By time; at one moment by position within a life, a sending before its deliveries, and a gap before all."""

    def rank(item: Dot | Gap) -> tuple[int, int, int, str, int]:
        if isinstance(item, Gap):
            return (item.at, 0, 0, item.life[0], 0)
        first = isinstance(item.row, SendRow) or item.row.kind == "ASKED"
        return (item.at, 1, 0 if first else 1, item.row.process, item.row.position)

    ordered = sorted(items, key=rank)
    by_life: dict[tuple[Life, int], list[Dot]] = defaultdict(list)
    for item in ordered:
        if isinstance(item, Dot):
            by_life[life_of(item.row), item.at].append(item)
    queues = {key: iter(sorted(some, key=lambda dot: dot.row.position)) for key, some in by_life.items()}
    return [item if isinstance(item, Gap) else next(queues[life_of(item.row), item.at]) for item in ordered]


def _between(ticks: Sequence[tuple[float, int]], at: int) -> float:
    """The place of a moment, between those of the events around it."""
    if not ticks or at <= ticks[0][1]:
        return 0.0
    for (place, time), (following, later) in pairwise(ticks):
        if time <= at <= later and later > time:
            return place + (following - place) * (at - time) / (later - time)
    return 1.0


def _spans(built: Scene, life: Life, around: Surroundings) -> list[Span]:
    """The views that stood at a life in the time of the scene."""
    if not built.ticks:
        return []
    drawn = {dot.row.position: dot.place for dot in built.dots if life_of(dot.row) == life}
    first, last = built.ticks[0][1], built.ticks[-1][1]
    views = list(around.views.get((built.subject.violation.group, life), ()))
    ended = [around.clock.when(row) for row in around.lives.get(life, ()) if row.kind in ("CRASH", "LEAVE", "END")]
    found = []
    for index, view in enumerate(views):
        begin = around.clock.when(view)
        following = views[index + 1] if index + 1 < len(views) else None
        until = around.clock.when(following) if following is not None else max(ended, default=around.clock.duration)
        if begin <= last and until >= first:
            left = drawn.get(view.position, _between(built.ticks, begin))
            right = 1.0 if until > last else _between(built.ticks, until)
            if following is not None:
                right = drawn.get(following.position, right)
            found.append(Span(life, left, right, view, begin < first, until > last))
    return found
