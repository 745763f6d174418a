"""When each of many is next due: the earliest is known at once, and who is due is found without looking at the rest."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

_SLACK = 64
"""So many entries that no longer count may always stay."""


class Agenda:
    """One due time for each name, or none. A name keeps its place from the moment it is first set until it is removed.

    A heap holds one entry that counts for each name that is due some time. It may be too early, for a due time that
    was put off: that is found out when the entry comes to the top.
    """

    __slots__ = ("_due", "_entered", "_heap", "_last_place", "_places")

    def __init__(self) -> None:
        self._due: dict[str, int] = {}
        self._entered: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        self._places: dict[str, int] = {}
        self._last_place = 0

    def __len__(self) -> int:
        """How many are due some time."""
        return len(self._due)

    @property
    def earliest(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def set(self, name: str, due: int | None) -> None:
        """It is next due then, or with None not before it is set again."""
        if name not in self._places:
            self._last_place += 1
            self._places[name] = self._last_place
        if due is None:
            self._due.pop(name, None)
        else:
            self._due[name] = due
            entered = self._entered.get(name)
            if entered is None or due < entered:
                self._enter(name, due)
        self._tidy()

    def remove(self, name: str) -> None:
        self._places.pop(name, None)
        self._due.pop(name, None)
        self._tidy()

    def take(self, now: int) -> list[str]:
        """Who is due, in the order of their places. Each is to be set again, or removed."""
        found: list[str] = []
        while self._heap and self._heap[0][0] <= now:
            name = heappop(self._heap)[1]
            del self._entered[name]
            found.append(name)
            self._tidy()
        return sorted(found, key=self._places.__getitem__)

    def getstate(self) -> tuple[dict[str, int], dict[str, int]]:
        """What counts for a fingerprint: not the history of the heap."""
        return self._due, self._places

    def _enter(self, name: str, due: int) -> None:
        self._entered[name] = due
        heappush(self._heap, (due, name))

    def _tidy(self) -> None:
        """Let the entry at the top be true, and the heap no larger than it need be."""
        heap, entered = self._heap, self._entered
        while heap:
            due, name = heap[0]
            actual = self._due.get(name)
            if actual == due and entered.get(name) == due:
                break
            heappop(heap)
            if entered.get(name) == due:
                del entered[name]
                if actual is not None:
                    self._enter(name, actual)
        if len(heap) > 2 * len(entered) + _SLACK:
            heap[:] = [(due, name) for name, due in entered.items()]
            heapify(heap)
