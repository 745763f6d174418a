"""Repair tickets: what is missing, and when to ask for it next.

A sequence number stands in at most one ticket, so that hearing of the same gap again asks for nothing new
(erratum E6); a ticket is asked for again, ever more slowly, until it is filled (erratum E20).
"""

from __future__ import annotations

from bisect import bisect_right

from unisono.wire.messages import Range


class Ticket:
    """One range of missing sequence numbers."""

    __slots__ = ("due", "first", "last", "tries")

    def __init__(self, first: int, last: int, due: int, tries: int = 0) -> None:
        self.first = first
        self.last = last
        self.due = due
        self.tries = tries


class Tickets:
    """Disjoint missing ranges of one source, in order."""

    __slots__ = ("_tickets",)

    def __init__(self) -> None:
        self._tickets: list[Ticket] = []

    def __bool__(self) -> bool:
        return bool(self._tickets)

    def __contains__(self, sequence: int) -> bool:
        return self._find(sequence) is not None

    def _find(self, sequence: int) -> int | None:
        at = bisect_right(self._tickets, sequence, key=lambda ticket: ticket.first) - 1
        return at if at >= 0 and self._tickets[at].last >= sequence else None

    def open(self, first: int, last: int, due: int) -> None:
        """A gap was seen; no part of it is in a ticket yet. It joins the gap before it if that is as new."""
        at = bisect_right(self._tickets, first, key=lambda ticket: ticket.first) - 1
        before = self._tickets[at] if at >= 0 else None
        if before is not None and before.last + 1 == first and before.tries == 0 and before.due == due:
            before.last = last
        else:
            self._tickets.insert(at + 1, Ticket(first, last, due))

    def fill(self, sequence: int) -> bool:
        """The sequence has come; True when it had been missing."""
        at = self._find(sequence)
        if at is None:
            return False
        ticket = self._tickets[at]
        rest = []
        if ticket.first < sequence:
            rest.append(Ticket(ticket.first, sequence - 1, ticket.due, ticket.tries))
        if sequence < ticket.last:
            rest.append(Ticket(sequence + 1, ticket.last, ticket.due, ticket.tries))
        self._tickets[at : at + 1] = rest
        return True

    def next_due(self, now: int, budget: int) -> int | None:
        """When to ask next: while as many sequences are awaited as may be, when one of them will be overdue."""
        exhausted = self._awaited(now) >= budget
        return min(
            (ticket.due for ticket in self._tickets if not exhausted or (ticket.tries and ticket.due > now)),
            default=None,
        )

    def ask(
        self, now: int, first_interval: int, interval_limit: int, most: int, budget: int
    ) -> tuple[list[Range], bool]:
        """The ranges to ask for now, each rescheduled; and whether one of them is asked for again.

        At most `budget` sequences are awaited at a time, the lowest first: more would not fit where they are to go.
        """
        left = budget - self._awaited(now)
        ranges: list[Range] = []
        again = False
        for ticket in list(self._tickets):
            if ticket.due > now:
                continue
            if len(ranges) == most or left <= 0:
                break
            self._shorten(ticket, left)
            left -= ticket.last - ticket.first + 1
            again = again or ticket.tries > 0
            ticket.due = now + min(first_interval << min(ticket.tries, 32), interval_limit)
            ticket.tries += 1
            ranges.append((ticket.first, ticket.last))
        return ranges, again

    def _awaited(self, now: int) -> int:
        return sum(ticket.last - ticket.first + 1 for ticket in self._tickets if ticket.tries and ticket.due > now)

    def _shorten(self, ticket: Ticket, most: int) -> None:
        """Leave at most so many sequences in a ticket; the rest becomes another."""
        if ticket.last - ticket.first + 1 > most:
            rest = Ticket(ticket.first + most, ticket.last, ticket.due, ticket.tries)
            ticket.last = rest.first - 1
            at = bisect_right(self._tickets, ticket.first, key=lambda other: other.first)
            self._tickets.insert(at, rest)
