"""Monitors of what is left out of a total order: within an era (O7), and within a spell of a source (O4).

Of every era they keep, until the end, where its sources began, what was delivered and the highest key. Then the next
message of each source, undelivered, must be above that key.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import ClassVar

from msgspec import Struct, field

from unisono.properties.monitors import intervals
from unisono.properties.monitors.agreed import FRESH, era_of, going_on
from unisono.properties.monitors.monitor import Handler, Key, Member, Monitor, Source
from unisono.properties.promises import exempt_services
from unisono.properties.violation import message_name
from unisono.trace.schema import DeliverRow, MembershipRow, RepairRow, SendRow, ViewRow

_EXEMPT = exempt_services("O7", "receiver")
_O4_EXEMPT = exempt_services("O4", "receiver")
assert _EXEMPT == _O4_EXEMPT, "both are promised by the same services"


class Span(Struct):
    """The views of one era at a member, or of several: for each source its start and what was delivered of it, as runs.

    `going` are the sources that go on from the view before, None where all do; `words` names views and eras.
    """

    member: Member
    position: int
    stretch: int
    starts: dict[Source, int]
    words: list[str | None]
    era: str | None = None
    going: set[Source] | None = None
    delivered: dict[Source, list[int]] = field(default_factory=dict)
    highest: Key | None = None
    gone: set[Source] = field(default_factory=set)
    answered: bool = False
    """Its end was being agreed: it may be over, without another one that its process got to see."""

    def take(self, source: Source, number: int, key: Key) -> None:
        runs = self.delivered.get(source)
        if runs is None:
            self.delivered[source] = [number, number + 1]
        elif runs[-1] == number:
            runs[-1] = number + 1
        else:
            intervals.add(runs, number)
        if self.highest is None or key > self.highest:
            self.highest = key

    def grow(self, row: ViewRow) -> None:
        """Somebody became a sender or a receiver: what was sent goes on being delivered."""
        self.words.append(row.view)
        for source, number in _starts(row).items():
            self.starts.setdefault(source, number)

    def goes_on(self, source: Source) -> bool:
        """Whether what is heard of a source goes on in this view."""
        return source in self.starts and (self.going is None or source in self.going)

    def join(self, source: Source, view: Span) -> None:
        """Add what was delivered in one more view."""
        self.words.extend(view.words)
        runs, more = self.delivered.setdefault(source, []), view.delivered.get(source, [])
        for first, end in zip(more[::2], more[1::2], strict=True):
            if not runs or runs[-1] < first:
                runs.extend((first, end))
            elif runs[-1] == first:
                runs[-1] = end
            else:
                for number in range(first, end):
                    intervals.add(runs, number)
        if view.highest is not None and (self.highest is None or view.highest > self.highest):
            self.highest = view.highest


class Gaps(Monitor):
    """What both have in common: the view of each member, what is over, and what was sent when in which view."""

    sent: dict[Member, dict[int, int]] = field(default_factory=dict)
    agreed: dict[Member, dict[str | None, list[int]]] = field(default_factory=dict)
    current: dict[Member, Span | None] = field(default_factory=dict)
    outside: set[Member] = field(default_factory=set)
    restarted: set[Member] = field(default_factory=set)
    closed: list[Span] = field(default_factory=list)

    def handlers(self) -> dict[str, Handler]:
        anew = dict.fromkeys(FRESH, self.on_fresh)
        rows: dict[str, Handler] = {"SEND": self.on_send, "DELIVER": self.on_deliver, "CUT": self.on_cut}
        return {**rows, "VIEW": self.on_view, "JOIN": self.on_join, **anew}

    def on_send(self, row: SendRow) -> None:
        source = (row.group, row.process, row.incarnation)
        sent = self.sent.get(source)
        if sent is None:
            sent = self.sent[source] = {}
            self.agreed[source] = {}
        if row.number not in sent:
            sent[row.number] = row.timestamp
            views = self.agreed[source]
            numbers = views.get(row.agreed)
            if numbers is None:
                views[row.agreed] = [row.number]
            else:
                numbers.append(row.number)

    def on_fresh(self, row: MembershipRow) -> None:
        """No source goes on in the next view."""
        self.restarted.add((row.group, row.process, row.incarnation))

    def on_join(self, row: MembershipRow) -> None:
        """What is delivered before the next view is in none."""
        self.outside.add((row.group, row.process, row.incarnation))

    def on_deliver(self, row: DeliverRow) -> None:
        if row.service in _EXEMPT:
            return
        member = (row.group, row.process, row.incarnation)
        span = self.current.get(member)
        if span is not None and span.stretch == row.stretch and member not in self.outside:
            source = (row.source, row.source_incarnation)
            span.take(source, row.number, (row.timestamp, row.source, row.source_incarnation))

    def on_cut(self, row: RepairRow) -> None:
        span = self.current.get((row.group, row.process, row.incarnation))
        if span is not None and span.stretch == row.stretch:
            span.answered = True

    def on_view(self, row: ViewRow) -> None:
        member = (row.group, row.process, row.incarnation)
        self.outside.discard(member)
        before = self.current.get(member)
        after = None
        if row.service not in _EXEMPT:
            follows = before is not None and row.era is not None and before.era == row.era
            if before is not None and follows and before.stretch == row.stretch and member not in self.restarted:
                before.grow(row)
                return
            going = set() if member in self.restarted else going_on(row)
            words = [row.view] if row.era is None else [row.era, row.view]
            after = Span(member, row.position, row.stretch, _starts(row), words, era_of(row), going)
        self.restarted.discard(member)
        if before is not None:
            self.close(before, after if after is not None and after.stretch == before.stretch else None)
        self.current[member] = after
        if after is not None:
            self.open(after)

    def open(self, view: Span) -> None:
        """A view begins."""

    def close(self, view: Span, following: Span | None) -> None:
        """A view is over; another one of its stretch may follow."""
        raise NotImplementedError

    def conclude(self) -> None:
        for view in self.current.values():
            if view is not None:
                self.close(view, None)
        self.current.clear()
        for span in self.closed:
            if span.highest is not None:
                self._judge(span, span.highest)
        self.closed.clear()

    def _judge(self, span: Span, highest: Key) -> None:
        group, process, incarnation = span.member
        for source, start in span.starts.items():
            member = (group, *source)
            runs = span.delivered.get(source, [])
            views = self.agreed.get(member, {})
            numbers = sorted({number for word in span.words for number in views.get(word, ())})
            number = _next(numbers, runs, start)
            if number is None or (source in span.gone and number > (runs[-1] - 1 if runs else 0)):
                continue
            if (self.sent[member][number], *source) < highest:
                message = message_name(*source, number)
                text = f"{message} was not delivered, but one of {highest[1]} with timestamp {highest[0]} was."
                self.report(group, process, incarnation, span.position, message, text)


def _starts(row: ViewRow) -> dict[Source, int]:
    return {(start.source, start.incarnation): start.number for start in row.start}


def _next(numbers: list[int], runs: list[int], start: int) -> int | None:
    """The lowest of the numbers from `start` on that is not in the runs."""
    index = bisect_left(numbers, intervals.first_absent(runs, start))
    while index < len(numbers) and intervals.holds(runs, numbers[index]):
        index = bisect_left(numbers, intervals.first_absent(runs, numbers[index]))
    return numbers[index] if index < len(numbers) else None


class WithoutGaps(Gaps):
    """O7. Keeps each era until the end."""

    property_id: ClassVar[str] = "O7"

    def close(self, view: Span, following: Span | None) -> None:
        if following is not None:
            view.gone = {source for source in view.starts if not following.goes_on(source)}
        elif view.answered:
            view.gone = set(view.starts)
        self.closed.append(view)


class ReliableCausal(Gaps):
    """O4. Keeps each spell until the end; an era is added to its spells when it is over."""

    property_id: ClassVar[str] = "O4"

    spells: dict[Member, dict[Source, Span]] = field(default_factory=dict)

    def open(self, view: Span) -> None:
        spells = self.spells.setdefault(view.member, {})
        for source, start in view.starts.items():
            if source not in spells:
                spells[source] = Span(view.member, view.position, view.stretch, {source: start}, [])

    def close(self, view: Span, following: Span | None) -> None:
        self.open(view)  # somebody may have become a sender since
        spells = self.spells[view.member]
        for source in view.starts:
            spell = spells[source]
            spell.join(source, view)
            if following is None or not following.goes_on(source):
                if following is not None or view.answered:
                    spell.gone = {source}
                self.closed.append(spells.pop(source))
