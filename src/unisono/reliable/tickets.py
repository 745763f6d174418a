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

    def next_due(self, horizon: int) -> int | None:
        """When to ask next for something up to the horizon."""
        return min((ticket.due for ticket in self._tickets if ticket.first <= horizon), default=None)

    def ask(
        self, now: int, first_interval: int, interval_limit: int, most: int, horizon: int
    ) -> tuple[list[Range], bool]:
        """The ranges to ask for now, each rescheduled; and whether one of them is asked for again.

        Nothing beyond the horizon is asked for: it would find no room.
        """
        ranges: list[Range] = []
        again = False
        for ticket in list(self._tickets):
            if ticket.first > horizon or len(ranges) == most:
                break
            if ticket.due > now:
                continue
            self._cut(ticket, horizon)
            again = again or ticket.tries > 0
            ticket.due = now + min(first_interval << min(ticket.tries, 32), interval_limit)
            ticket.tries += 1
            ranges.append((ticket.first, ticket.last))
        return ranges, again

    def _cut(self, ticket: Ticket, horizon: int) -> None:
        """Make what lies beyond the horizon a ticket of its own."""
        if ticket.last > horizon:
            at = bisect_right(self._tickets, ticket.first, key=lambda other: other.first)
            self._tickets.insert(at, Ticket(horizon + 1, ticket.last, ticket.due, ticket.tries))
            ticket.last = horizon
