"""What mere receivers hold of a view whose end is being agreed (000 5.4.2): each says so itself, or many together.

Few receivers multicast it. Many say it to the control hierarchy, at once and not at its pace (E18), which tells the
leader the most that any of them holds. As for stability, a sum counts when it is of exactly those who count (E7).
"""

from __future__ import annotations

from collections.abc import Iterable

from xxhash import xxh3_64_intdigest

from unisono.engine import Address
from unisono.identity import ProcessId, ViewId
from unisono.intergroup.audience import Audience
from unisono.intergroup.gathered import GatheredReports
from unisono.intergroup.membership.view import AgreedView
from unisono.wire.control_messages import Entry, Gathered
from unisono.wire.membership_messages import CutInfo, UpTo


def cut_mark(view: ViewId, source: ProcessId, receiver: ProcessId) -> int:
    """What stands for one receiver's word on one source of a view in a sum."""
    return xxh3_64_intdigest(f"{view}\0{source}\0{receiver}".encode())


def cut_entries(view: ViewId, held: Iterable[UpTo], receiver: ProcessId, leader: Address) -> tuple[Entry, ...]:
    """What one receiver holds, as the control hierarchy adds it up for the leader."""
    return tuple(Entry(source, sequence, 1, cut_mark(view, source, receiver), leader) for source, sequence in held)


class ReceiversCuts:
    """What receivers have said of the view, at one of its senders."""

    __slots__ = ("_audience", "_gathered", "_said")

    def __init__(self, audience: Audience) -> None:
        self._audience = audience
        self._said: dict[ProcessId, CutInfo] = {}
        self._gathered: dict[ProcessId, GatheredReports] = {}

    def clear(self) -> None:
        """Another view stands."""
        self._said.clear()
        self._gathered.clear()

    def on_cut_info(self, receiver: ProcessId, message: CutInfo) -> None:
        if receiver in self._audience.followers:
            self._said[receiver] = message

    def on_gathered(self, message: Gathered, view: AgreedView, now: int) -> None:
        """A coordinator speaks for some receivers."""
        for summary in message.entries:
            if view.seat(summary.source) is not None:
                words = self._gathered.setdefault(summary.source, GatheredReports(highest=True))
                words.take(message.origin, message.serial, summary, now)

    def wait_for_more(self, view: AgreedView, now: int) -> bool:
        """Whether some receiver has not said yet what it holds."""
        followers = self._audience.followers
        if all(receiver in self._said and self._said[receiver].view == view.era for receiver in followers):
            return False
        return any(seat.process not in self._sums(view, now) for seat in view.seats)

    def held(self, view: AgreedView, now: int) -> dict[ProcessId, int]:
        """The most that any receiver holds of each source."""
        held = self._sums(view, now)
        for info in self._said.values():
            for source, last in info.held if info.view == view.era else ():
                held[source] = max(held.get(source, 0), last)
        return held

    def _sums(self, view: AgreedView, now: int) -> dict[ProcessId, int]:
        """The sums that are of all receivers, each once, in this view."""
        followers = self._audience.followers
        sums: dict[ProcessId, int] = {}
        for source, words in self._gathered.items():
            marks = 0
            for receiver in followers:
                marks ^= cut_mark(view.era, source, receiver)
            total = words.total(now)
            if (total.count, total.marks) == (len(followers), marks):
                sums[source] = total.value
        return sums
