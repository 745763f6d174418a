"""Who still needs what this process sent: the receivers that activated it as a source.

What every one of them has received is stable. A receiver is counted from its grant on, so that nothing it was
promised can become stable without it; it stops counting only when it says so, or when patience with it ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

from unisono.engine import Address
from unisono.identity import ProcessId, ViewMark
from unisono.intergroup.gathered import EXPIRY, NEWCOMER, Total, find_subset, receiver_mark

LISTENER_LIMIT = 10_000


class Listener:
    """One receiver: since which activation, from which point, and how far it is."""

    __slots__ = (
        "address",
        "attempt",
        "heard",
        "mark",
        "number",
        "ordered",
        "progressed",
        "received",
        "sends",
        "sequence",
        "since",
        "spoke",
        "term",
        "timestamp",
        "view",
    )

    def __init__(
        self,
        address: Address,
        attempt: int,
        ordered: bool,
        sends: bool,
        view: ViewMark,
        boundary: tuple[int, int],
        timestamp: int,
        now: int,
    ) -> None:
        sequence, number = boundary
        self.sends = sends
        self.view = view
        """The agreed view that it was in when it asked."""
        self.address = address
        self.attempt = attempt
        self.ordered = ordered
        self.timestamp = timestamp
        self.sequence = sequence
        self.number = number
        self.term = sequence
        """From here on this process is a sender, as far as it knows."""
        self.received = sequence - 1
        self.since = now
        self.heard = now
        self.progressed = now
        self.mark = 0
        self.spoke: int | None = None
        """When it last reported by itself, and not through the control hierarchy."""


class Standing(Enum):
    """How a message of a receiver relates to its activation here."""

    COUNTED = auto()
    STALE = auto()
    UNKNOWN = auto()


class Audience:
    """The receivers that count."""

    __slots__ = ("_gone", "_itself", "_last", "_listeners", "_lowest", "_marks", "ordered")

    def __init__(self, itself: ProcessId) -> None:
        self._itself = itself
        self._listeners: dict[ProcessId, Listener] = {}
        self._marks = 0
        self._gone: dict[int, int] = {}
        """Marks of those who no longer count and may still be in sums, and since when."""
        self._lowest: int | None = None
        """What all have received, and how many have no more than that; None where that must be looked up."""
        self._last = 0
        self.ordered = 0
        """How many of them receive in timestamp order, and wait for this process."""

    def __len__(self) -> int:
        return len(self._listeners)

    @property
    def followers(self) -> list[ProcessId]:
        """Those who receive in timestamp order and send nothing themselves."""
        return [receiver for receiver, one in self._listeners.items() if one.ordered and not one.sends]

    def get(self, receiver: ProcessId) -> Listener | None:
        return self._listeners.get(receiver)

    def admit(self, receiver: ProcessId, listener: Listener) -> None:
        self.drop(receiver, listener.since)
        self._listeners[receiver] = listener
        if self._lowest is not None and listener.received <= self._lowest:
            self._last = self._last + 1 if listener.received == self._lowest else 1
            self._lowest = listener.received
        self.ordered += listener.ordered
        listener.mark = receiver_mark(self._itself, receiver, listener.attempt)
        self._marks ^= listener.mark
        self._gone.pop(listener.mark, None)

    def drop(self, receiver: ProcessId, now: int) -> None:
        listener = self._listeners.pop(receiver, None)
        if listener is not None:
            self.ordered -= listener.ordered
            self._marks ^= listener.mark
            self._leave_lowest(listener)
            if now - listener.since >= NEWCOMER:
                self._gone[listener.mark] = now
            self._forget_gone(now)

    def _forget_gone(self, now: int) -> None:
        """Those who went longer ago are in no sum any more."""
        while self._gone and now - self._gone[oldest := next(iter(self._gone))] >= EXPIRY:
            del self._gone[oldest]

    def _leave_lowest(self, listener: Listener) -> None:
        """A receiver is further than it was, or gone."""
        if listener.received == self._lowest:
            self._last -= 1
            if not self._last:
                self._lowest = None

    def _progress(self, listener: Listener, received: int, now: int) -> bool:
        if received <= listener.received:
            return False
        self._leave_lowest(listener)
        listener.received = received
        listener.progressed = now
        return True

    def clear(self, now: int, received: int = 0) -> dict[ProcessId, Listener]:
        """Nobody who has received so much counts any more; those who did."""
        counted = {one: listener for one, listener in self._listeners.items() if listener.received >= received}
        for receiver in counted:
            self.drop(receiver, now)
        return counted

    def is_confirmed(self, receiver: ProcessId) -> bool:
        """Whether a receiver knows that it counts: it has reported."""
        listener = self._listeners.get(receiver)
        return listener is not None and listener.spoke is not None

    def note_ordered(self, receiver: ProcessId, ordered: bool) -> None:
        """A receiver may begin or cease to wait for timestamps while it is counted."""
        listener = self._listeners[receiver]
        self.ordered += ordered - listener.ordered
        listener.ordered = ordered

    def standing(self, receiver: ProcessId, attempt: int, point: int) -> Standing:
        """`point` is the first sequence the receiver says it lacks: below its grant, it follows another one."""
        listener = self._listeners.get(receiver)
        if listener is None or (listener.attempt == attempt and point < listener.sequence):
            return Standing.UNKNOWN
        return Standing.COUNTED if listener.attempt == attempt else Standing.STALE

    def on_gathered(self, total: Total, now: int, freshness: int) -> bool | None:
        """Coordinators say how far their receivers are; True when one is further than before.

        None when they do not speak for all who count and have not spoken for themselves lately. Of who has, or is gone
        since a short while, it is found out whether they are in the sum: what they have is in it, and harms nobody.
        """
        gathered = list(self._listeners.values())
        if (total.count, total.marks) != (len(gathered), self._marks):
            found = self._find(total, now, freshness)
            if found is None:
                return None
            gathered = found
        further = False
        for listener in gathered:
            listener.heard = now
            further |= self._progress(listener, total.value, now)
        return further

    def _find(self, total: Total, now: int, freshness: int) -> list[Listener] | None:
        """Who of the receivers is in a sum."""
        self._forget_gone(now)
        sure: list[Listener] = []
        unsure: list[Listener] = []
        marks = total.marks
        for listener in self._listeners.values():
            if listener.spoke is None or now - listener.spoke >= freshness:
                sure.append(listener)
                marks ^= listener.mark
            elif now - listener.since >= NEWCOMER:
                unsure.append(listener)
        subset = find_subset(marks, [*(listener.mark for listener in unsure), *self._gone])
        if subset is None or len(sure) + len(subset) != total.count:
            return None
        return sure + [unsure[place] for place in subset if place < len(unsure)]

    def on_progress(self, receiver: ProcessId, received: int, now: int) -> bool:
        """A receiver has spoken for itself; True when it is further than before."""
        listener = self._listeners[receiver]
        listener.heard = listener.spoke = now
        return self._progress(listener, received, now)

    def stable(self, last_sent: int) -> int:
        """Everything up to here has been received by all who count."""
        if not self._listeners:
            return last_sent
        if self._lowest is None:
            received = [listener.received for listener in self._listeners.values()]
            self._lowest = min(received)
            self._last = received.count(self._lowest)
        return self._lowest

    def known(self, members: Iterable[ProcessId], last_sent: int) -> int:
        """Everything up to here has been received by all of these who count."""
        found = (self._listeners.get(member) for member in members)
        return min((listener.received for listener in found if listener is not None), default=last_sent)

    def silent(self, now: int, patience: int) -> list[ProcessId]:
        return sorted(receiver for receiver, listener in self._listeners.items() if now - listener.heard >= patience)

    def holding_back(self, now: int, patience: int, blocked_since: int, last_sent: int) -> list[ProcessId]:
        """Those whom a full window has been waiting for, without any progress of theirs, for all of patience."""
        stable = self.stable(last_sent)
        return sorted(
            receiver
            for receiver, listener in self._listeners.items()
            if listener.received == stable < last_sent and now - max(listener.progressed, blocked_since) >= patience
        )

    def forgive(self, gap: int) -> None:
        """This process was stopped for `gap`: the receivers could not be heard in that time."""
        for listener in self._listeners.values():
            listener.since += gap
            listener.heard += gap
            listener.progressed += gap
