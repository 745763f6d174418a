"""Repair tickets: what is missing, and when to ask for it next.

A sequence number stands in at most one ticket, so that hearing of the same gap again asks for nothing new
(erratum E6); a ticket is asked for again, ever more slowly, until it is filled (erratum E20). Where requests are
multicast, another's request for the same thing puts a ticket off, but never for good.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from unisono.reliable.suppression import Wait
from unisono.wire.messages import Range

PUT_OFF_LIMIT = 4
"""How often in a row others put a ticket off before it is asked for here, whatever they do."""

WaitFor = Callable[[int], Wait]
"""How a ticket goes on that was asked for so many times before: the two durations from now."""


class Ticket:
    """One range of missing sequence numbers."""

    __slots__ = ("asked_at", "due", "first", "last", "put_off", "quiet", "tries")

    def __init__(
        self,
        first: int,
        last: int,
        due: int,
        tries: int = 0,
        quiet: int = 0,
        put_off: int = 0,
        asked_at: int | None = None,
    ) -> None:
        self.first = first
        self.last = last
        self.due = due
        self.tries = tries
        self.quiet = quiet
        self.put_off = put_off
        self.asked_at = asked_at
        """When this process first asked for it."""

    def part(self, first: int, last: int) -> Ticket:
        return Ticket(first, last, self.due, self.tries, self.quiet, self.put_off, self.asked_at)


class Tickets:
    """Disjoint missing ranges of one source, in order.

    The soonest deadline of the first `_within` tickets, and how many of them share it, are remembered until they
    change; negative: not known.
    """

    __slots__ = ("_sharing", "_soonest", "_tickets", "_within")

    def __init__(self) -> None:
        self._tickets: list[Ticket] = []
        self._within = 0
        self._soonest = 0
        self._sharing = 0

    def __bool__(self) -> bool:
        return bool(self._tickets)

    def __len__(self) -> int:
        return len(self._tickets)

    def __contains__(self, sequence: int) -> bool:
        return self._find(sequence) is not None

    def _find(self, sequence: int) -> int | None:
        at = self._after(sequence) - 1
        return at if at >= 0 and self._tickets[at].last >= sequence else None

    def _after(self, sequence: int) -> int:
        """How many tickets begin no later."""
        return bisect_right(self._tickets, sequence, key=lambda ticket: ticket.first)

    def open(self, first: int, last: int, due: int) -> None:
        """A gap was seen; no part of it is in a ticket yet. It joins the gap before it if that is as new."""
        at = self._after(first)
        before = self._tickets[at - 1] if at else None
        if before is not None and before.last + 1 == first and before.tries == 0 and before.due == due:
            before.last = last
        else:
            self._insert(at, Ticket(first, last, due))

    def asked_at(self, sequence: int) -> int | None:
        """When this process first asked for a sequence that is still missing."""
        at = self._find(sequence)
        return None if at is None else self._tickets[at].asked_at

    def fill(self, sequence: int) -> bool:
        """The sequence has come; True when it had been missing."""
        at = self._find(sequence)
        if at is None:
            return False
        ticket = self._tickets[at]
        if sequence < ticket.last:
            self._split(at, sequence)
        if ticket.first < sequence:
            ticket.last = sequence - 1
        else:
            self._remove(at)
        return True

    def drop_below(self, sequence: int) -> None:
        """Nothing below `sequence` is wanted any more."""
        while self._tickets and self._tickets[0].first < sequence:
            if self._tickets[0].last >= sequence:
                self._split(0, sequence - 1)
            self._remove(0)

    def next_due(self, horizon: int) -> int | None:
        """When to ask next for something up to the horizon."""
        tickets = self._tickets
        if not tickets or tickets[0].first > horizon:
            return None
        within = len(tickets) if tickets[-1].first <= horizon else self._after(horizon)
        if within != self._within:
            dues = [tickets[at].due for at in range(within)]
            self._within, self._soonest = within, min(dues)
            self._sharing = dues.count(self._soonest)
        return self._soonest

    def request(
        self, now: int, wait: WaitFor, most: int, horizon: int, company: bool = True
    ) -> tuple[list[Range], int]:
        """The ranges to ask for now, each rescheduled; and how often the one asked for most had been before.

        When one is due, all go along for which no repair may be on its way, unless company is refused. Nothing beyond
        the horizon is asked for: it would find no room.
        """
        ranges: list[Range] = []
        most_tries = 0
        soonest = self.next_due(horizon)
        if soonest is None or soonest > now:
            return ranges, most_tries
        at = 0
        while at < len(self._tickets) and len(ranges) < most:
            ticket = self._tickets[at]
            if ticket.first > horizon:
                break
            if ticket.due <= now or (company and now >= ticket.quiet):
                if ticket.last > horizon:
                    self._split(at, horizon)
                most_tries = max(most_tries, ticket.tries)
                self._reschedule(ticket, now, wait)
                ticket.put_off = 0
                if ticket.asked_at is None:
                    ticket.asked_at = now
                ranges.append((ticket.first, ticket.last))
            at += 1
        return ranges, most_tries

    def heard(self, ranges: Sequence[Range], now: int, wait: WaitFor, horizon: int) -> list[bool]:
        """Another asked for these: what is missing here too, up to the horizon, is put off (000 3.3).

        Not while its repair may be on its way, as that request is of the same round; and not more than
        `PUT_OFF_LIMIT` times between two own requests, so that a peer that asks and asks silences nobody. Says of each
        range whether something of it is missing here.
        """
        missing = [False] * len(ranges)
        for index, (first, last) in enumerate(ranges):
            end = min(last, horizon)
            at = self._first_reaching(first)
            missing[index] = at < len(self._tickets) and self._tickets[at].first <= last
            while first <= end and at < len(self._tickets) and self._tickets[at].first <= end:
                ticket = self._tickets[at]
                if now >= ticket.quiet and ticket.put_off < PUT_OFF_LIMIT:
                    if ticket.first < first:
                        self._split(at, first - 1)
                        at += 1
                        ticket = self._tickets[at]
                    if ticket.last > end:
                        self._split(at, end)
                    self._reschedule(ticket, now, wait)
                    ticket.put_off += 1
                at += 1
        return missing

    def _first_reaching(self, sequence: int) -> int:
        """The index of the first ticket that ends no earlier."""
        at = self._find(sequence)
        return self._after(sequence) if at is None else at

    def _reschedule(self, ticket: Ticket, now: int, wait: WaitFor) -> None:
        quiet, due = wait(ticket.tries)
        ticket.quiet = now + quiet
        ticket.due = now + due
        ticket.tries += 1
        self._within = -1

    def _split(self, at: int, last: int) -> None:
        """End a ticket at `last` and make the rest a ticket of its own."""
        ticket = self._tickets[at]
        rest = ticket.part(last + 1, ticket.last)
        ticket.last = last
        self._insert(at + 1, rest)

    def _insert(self, at: int, ticket: Ticket) -> None:
        self._tickets.insert(at, ticket)
        if at > self._within:
            return
        if self._within == 0 or ticket.due < self._soonest:
            self._soonest, self._sharing = ticket.due, 1
        elif ticket.due == self._soonest:
            self._sharing += 1
        self._within += 1

    def _remove(self, at: int) -> None:
        ticket = self._tickets.pop(at)
        if at >= self._within:
            return
        self._within -= 1
        if ticket.due == self._soonest:
            self._sharing -= 1
            if self._sharing == 0:
                self._within = 0 if self._within == 0 else -1
