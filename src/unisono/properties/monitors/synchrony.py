"""Monitors of delivery in agreed views: the same for all who go on together (D5, D9), in one order (O5).

What was delivered in a view is kept as runs, so that dense numbers take little room; who went from where to where is
judged at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from itertools import pairwise
from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors import intervals
from unisono.properties.monitors.agreed import (
    NOT_AGREED,
    UNORDERED_VIEWS,
    Members,
    Restarts,
    RowKey,
    ViewKey,
    along_with,
    era_of,
)
from unisono.properties.monitors.monitor import Handler, Member, Source, Stretch
from unisono.properties.promises import STRONG
from unisono.properties.violation import message_name
from unisono.trace.schema import DeliverRow, RepairRow, SendRow, ViewRow

Runs = dict[Source, list[int]]
"""What was delivered of each source."""


class Passage(Struct, frozen=True):
    """A process went from one view to the next; `starts` are those of a view that it had not whole."""

    stretch: Stretch
    position: int
    whole: bool
    starts: dict[Source, int]
    role: str
    along: Members

    @property
    def row(self) -> RowKey:
        return (*self.stretch[1:3], self.position)


class Installed(Struct, frozen=True):
    """The last view of a stretch."""

    view: str | None
    whole: bool
    starts: dict[Source, int]
    restarts: int


Way = tuple[str, str | None, str | None]
"""From one view of a group to another."""


class Passages(Restarts):
    """Keeps who went from which view to which."""

    last: dict[Stretch, Installed] = field(default_factory=dict)
    passages: dict[Way, list[Passage]] = field(default_factory=dict)

    def on_view(self, row: ViewRow) -> None:
        if row.service in NOT_AGREED:
            return
        member = (row.group, row.process, row.incarnation)
        stretch = (*member, row.stretch)
        restarts = self.restarts.get(member, 0)
        before = self.last.get(stretch)
        starts = {} if row.whole else {(start.source, start.incarnation): start.number for start in row.start}
        self.last[stretch] = Installed(row.view, row.whole, starts, restarts)
        if before is not None and before.view == row.previous and before.restarts == restarts:
            passage = Passage(stretch, row.position, before.whole, before.starts, row.role, along_with(row))
            self.passages.setdefault((row.group, row.previous, row.view), []).append(passage)

    def compared(self) -> Iterator[tuple[Way, Passage, list[Passage]]]:
        """For each way the one that all others are compared with: of those that most are like, whole ones if any."""
        for way, passages in self.passages.items():
            counted = sorted([one for one in passages if one.whole] or passages, key=lambda one: one.row)
            marks = [self.mark(one, way[1]) for one in counted]
            most = Counter(marks).most_common(1)[0][0]  # of as many, that of the first
            reference = counted[marks.index(most)]
            yield way, reference, [one for one in passages if one is not reference]

    def mark(self, passage: Passage, before: str | None) -> Hashable:
        """What is equal for passages that are alike."""
        raise NotImplementedError

    def blame(self, passage: Passage, message: str | None, text: str) -> None:
        self.report(*passage.stretch[:3], passage.position, message, text)


class VirtualSynchrony(Passages):
    """D5. Keeps the numbers that were delivered in each view."""

    property_id: ClassVar[str] = "D5"

    delivered: dict[Stretch, dict[str | None, Runs]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {"DELIVER": self.on_deliver, "VIEW": self.on_view, **self.fresh_handlers()}

    def on_deliver(self, row: DeliverRow) -> None:
        if row.service not in NOT_AGREED:
            note(self.delivered, row, row.view)

    def mark(self, passage: Passage, before: str | None) -> Hashable:
        delivered = self.delivered.get(passage.stretch, {}).get(before, {})
        return tuple(sorted((source, tuple(runs)) for source, runs in delivered.items()))

    def conclude(self) -> None:
        for (_, before, view), reference, others in self.compared():
            if not reference.whole:
                continue
            theirs = self.delivered.get(reference.stretch, {}).get(before, {})
            for one in others:
                mine = self.delivered.get(one.stretch, {}).get(before, {})
                if one.whole:
                    right = mine == theirs
                else:
                    right = all(
                        since(mine.get(source, []), start) == since(theirs.get(source, []), start)
                        for source, start in one.starts.items()
                    )
                if not right:
                    name, other = one.row[0], reference.row[0]
                    self.blame(one, None, f"{name} and {other} came from {before} to {view}, not with the same.")
        self.passages.clear()


def note(delivered: dict[Stretch, dict[str | None, Runs]], row: DeliverRow, view: str | None) -> None:
    """Remember a delivery in its view, or in its era."""
    stretch = (row.group, row.process, row.incarnation, row.stretch)
    views = delivered.get(stretch)
    if views is None:
        views = delivered[stretch] = {}
    sources = views.get(view)
    if sources is None:
        sources = views[view] = {}
    source = (row.source, row.source_incarnation)
    runs = sources.get(source)
    if runs is None:
        sources[source] = [row.number, row.number + 1]
    elif runs[-1] == row.number:
        runs[-1] = row.number + 1
    else:
        intervals.add(runs, row.number)


def since(runs: list[int], start: int) -> list[int]:
    """The part of a set of numbers from `start` on."""
    found: list[int] = []
    for first, end in zip(runs[::2], runs[1::2], strict=True):
        if end > start:
            found.extend((max(first, start), end))
    return found


class WeakTotalOrder(Passages):
    """O5. Numbers the messages of each view as they come; what each process delivered is then a few runs of these."""

    property_id: ClassVar[str] = "O5"

    numbers: dict[ViewKey, dict[tuple[str, int, int], int]] = field(default_factory=dict)
    lines: dict[Stretch, dict[str | None, list[int]]] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        return {"DELIVER": self.on_deliver, "VIEW": self.on_view, **self.fresh_handlers()}

    def on_deliver(self, row: DeliverRow) -> None:
        if row.service in UNORDERED_VIEWS:
            return
        view = row.view
        numbers = self.numbers.get((row.group, view))
        if numbers is None:
            numbers = self.numbers[row.group, view] = {}
        number = numbers.setdefault((row.source, row.source_incarnation, row.number), len(numbers))
        stretch = (row.group, row.process, row.incarnation, row.stretch)
        views = self.lines.get(stretch)
        if views is None:
            views = self.lines[stretch] = {}
        line = views.get(view)
        if line is None:
            views[view] = [number, number + 1]
        elif line[-1] == number:
            line[-1] = number + 1
        else:
            line.extend((number, number + 1))

    def mark(self, passage: Passage, before: str | None) -> Hashable:
        line = self.lines.get(passage.stretch, {}).get(before, [])
        rises = all(end <= first for end, first in pairwise(line))
        return tuple(line if rises else _runs(_spelled(line)))

    def conclude(self) -> None:
        for (_, before, view), reference, others in self.compared():
            theirs = self.lines.get(reference.stretch, {}).get(before, [])
            places: dict[int, int] = {}
            for one in others:
                mine = self.lines.get(one.stretch, {}).get(before, [])
                if mine == theirs:
                    continue
                places = places or {number: place for place, number in enumerate(_spelled(theirs))}
                common = [places[number] for number in _spelled(mine) if number in places]
                if common != sorted(common):
                    name, other = one.row[0], reference.row[0]
                    self.blame(one, None, f"{name} and {other} came from {before} to {view} in another order.")
        self.passages.clear()


def _spelled(line: list[int]) -> list[int]:
    """The numbers of a line one by one, each where it first stands."""
    pairs = zip(line[::2], line[1::2], strict=True)
    return list(dict.fromkeys(number for first, end in pairs for number in range(first, end)))


def _runs(numbers: list[int]) -> list[int]:
    """The line of these numbers."""
    line: list[int] = []
    for number in numbers:
        if line and line[-1] == number:
            line[-1] = number + 1
        else:
            line.extend((number, number + 1))
    return line


class Spent(Struct):
    """An era as a process had it: from its beginning, or else where each source began in it."""

    era: str | None
    restarts: int
    whole: bool
    starts: dict[Source, int]


class AgreedForwardSet(Passages):
    """D9. Keeps the sequences of each era's messages, what was delivered in it, and what members answered for."""

    property_id: ClassVar[str] = "D9"

    sent: dict[Member, list[int]] = field(default_factory=dict)
    sequences: dict[Member, dict[str | None, dict[int, int]]] = field(default_factory=dict)
    optimistic: dict[Member, set[int]] = field(default_factory=dict)
    delivered: dict[Stretch, dict[str | None, Runs]] = field(default_factory=dict)
    answers: dict[Member, dict[str | None, dict[Source, int]]] = field(default_factory=dict)
    proposal: dict[Member, str | None] = field(default_factory=dict)
    answered: dict[ViewKey, dict[Source, dict[Source, int]]] = field(default_factory=dict)
    installed: dict[ViewKey, set[Source]] = field(default_factory=dict)
    spans: dict[Stretch, Spent] = field(default_factory=dict)
    left: dict[tuple[str, str, int, int, int], Spent] = field(default_factory=dict)

    def handlers(self) -> dict[str, Handler]:
        handlers: dict[str, Handler] = {"SEND": self.on_send, "DELIVER": self.on_deliver, "CUT": self.on_cut}
        return {**handlers, "VIEW": self.on_answered, **self.fresh_handlers()}

    def on_send(self, row: SendRow) -> None:
        source = (row.group, row.process, row.incarnation)
        if intervals.add(self.sent.setdefault(source, []), row.number):
            views = self.sequences.setdefault(source, {})
            views.setdefault(row.agreed, {})[row.number] = row.sequence
            if row.service == STRONG and row.agreed != row.view:
                self.optimistic.setdefault(source, set()).add(row.number)

    def on_deliver(self, row: DeliverRow) -> None:
        if row.service not in NOT_AGREED:
            note(self.delivered, row, self.era(row))

    def on_cut(self, row: RepairRow) -> None:
        member = (row.group, row.process, row.incarnation)
        answer = self.answers.setdefault(member, {}).setdefault(row.peer, {})
        source = (row.source, row.source_incarnation)
        answer[source] = max(row.last, answer.get(source, row.last))
        self.proposal[member] = row.peer

    def on_answered(self, row: ViewRow) -> None:
        member = (row.group, row.process, row.incarnation)
        self.follow(row)
        if row.era is None:
            answers = self.answers.pop(member, {})
            if row.service not in NOT_AGREED and row.role == "sender":
                answer = answers[self.proposal[member]] if answers else {}
                self.answered.setdefault((row.group, row.view), {})[member[1:]] = answer
        if row.service not in NOT_AGREED:
            self.installed.setdefault((row.group, row.view), set()).add(member[1:])
            self._enter(row)
            self.on_view(row)

    def _enter(self, row: ViewRow) -> None:
        """The view is of the era of the one before, or begins another; then what is asked of that one is known."""
        member = (row.group, row.process, row.incarnation)
        stretch = (*member, row.stretch)
        span, restarts = self.spans.get(stretch), self.restarts.get(member, 0)
        starts = {(start.source, start.incarnation): start.number for start in row.start}
        if span is not None and row.era is not None and (span.era, span.restarts) == (row.era, restarts):
            if not span.whole:
                for source, number in starts.items():
                    span.starts.setdefault(source, number)
            return
        if span is not None and row.era is None:
            self.left[*stretch, row.position] = span
        self.spans[stretch] = Spent(era_of(row), restarts, row.whole, {} if row.whole else starts)

    def conclude(self) -> None:
        for (group, _, view), passages in self.passages.items():
            answered = self.answered.get((group, view), {})
            for one in passages:
                span = self.left.get((*one.stretch, one.position))
                if one.role == "sender" and one.whole and span is not None:
                    answers = [answered.get(life, {}) for life in one.along]
                    for source in sorted({source for answer in answers for source in answer}):
                        last = max(answer[source] for answer in answers if source in answer)
                        self._judge(one, span, source, last)
        self.passages.clear()

    def _judge(self, one: Passage, span: Spent, source: Source, last: int) -> None:
        first = 0 if span.whole else span.starts.get(source)
        if first is None:  # it was gone before this process came
            return
        group = one.stretch[0]
        sent = self.sequences.get((group, *source), {}).get(span.era, {})
        if source not in self.installed.get((group, span.era), set()):  # what it sent for this view is not in it
            hopes = self.optimistic.get((group, *source), set())
            sent = {number: at for number, at in sent.items() if number not in hopes}
        runs = self.delivered.get(one.stretch, {}).get(span.era, {}).get(source, [])
        missing = [
            number
            for number, at in sent.items()
            if at <= last and number >= first and not intervals.holds(runs, number)
        ]
        if missing:
            message = message_name(*source, min(missing))
            text = f"{message} was answered for, but {one.row[0]} left {span.era} without it."
            self.blame(one, message, text)
