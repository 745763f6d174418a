"""Logs of a small good run, made by hand: what each application of a group, or of a session, would have written."""

from __future__ import annotations

from tests.campaigns.torture.driver import Story
from tests.campaigns.torture.life import Fate
from tests.campaigns.torture.mutations import Logs
from tests.campaigns.torture.records import (
    Closed,
    Got,
    Joined,
    Leaving,
    Left,
    Record,
    Sending,
    Sent,
    Told,
    Viewed,
    hash_of,
    message,
)

FIRST = ("a", "b", "c", "d")
QUIET_AT = 50.0


class Writing:
    """A group in which everything that is sent is delivered at once, by all who are in the newest view."""

    def __init__(self, service: str) -> None:
        self.logs: Logs = {}
        self._service = service
        self._at = 0.0
        self._numbers: dict[str, int] = {}
        self._view: dict[str, Viewed] = {}

    def join(self, *names: str) -> None:
        for name in names:
            self.logs[name] = [Joined(self._tick(), _who(name), self._service, "sender")]
            self._numbers[name] = 0

    def view(self, number: int, names: str, reasons: dict[str, str] | None = None) -> None:
        """All of these come to a view, each with those who were in the same one before."""
        members = tuple(map(_who, names))
        before = {name: self._view[name].view if name in self._view else "" for name in names}
        for name in names:
            together = tuple(_who(other) for other in names if before[other] == before[name])
            why = {_who(one): reason for one, reason in (reasons or {}).items()}
            self._view[name] = Viewed(self._tick(), f"view {number}", before[name], members, together, why)
            self.logs[name].append(self._view[name])

    def send(self, name: str, to: str, count: int = 1) -> None:
        """Messages that all of these deliver, one after the other."""
        for _ in range(count):
            self._numbers[name] += 1
            number = self._numbers[name]
            hashed = hash_of(message(_who(name), number, b"filler"))
            self.logs[name].append(Sending(self._tick(), number, hashed))
            self.logs[name].append(Sent(self._tick(), number, number))
            for one in to:
                self.logs[one].append(Got(self._tick(), _who(name), number, hashed))

    def add(self, name: str, *records: Record) -> None:
        self.logs[name] += records

    def leave(self, name: str) -> None:
        self.add(name, Leaving(self._tick()), Left(self._tick()), Closed(self._tick()))

    def wait(self, until: float) -> None:
        self._at = until

    def _tick(self) -> float:
        self._at += 0.001
        return round(self._at, 3)


def good_logs(service: str = "timestamp") -> Logs:
    """Four meet; d leaves; c is shut out, goes on alone and comes back; e comes and is killed; all meet, and leave."""
    run = Writing(service)
    run.join(*FIRST)
    run.view(1, "abcd")
    for _ in range(3):
        for name in FIRST:
            run.send(name, "abcd", 3)
    run.send("d", "abcd", 5)
    run.leave("d")
    run.view(2, "abc", {"d": "left"})
    run.send("a", "abc", 3)
    run.send("c", "abc", 2)
    run.view(3, "ab", {"c": "suspected"})
    run.send("a", "ab", 4)
    run.add("c", Told(20.0, "Excluded", "view 2"))
    run.view(4, "c", {"a": "suspected", "b": "suspected"})
    run.send("c", "c", 2)
    run.send("b", "ab", 2)
    run.join("e")
    run.view(5, "abce", {"c": "merged", "e": "joined"})
    for name in "abce":
        run.send(name, "abce", 4)
    run.view(6, "abc", {"e": "suspected"})
    run.send("c", "abc", 3)
    run.send("b", "abc", 3)
    run.wait(QUIET_AT + 0.5)
    run.join("f")
    run.view(7, "abcf", {"f": "joined"})
    for name in "abcf":
        run.send(name, "abcf", 2)
    run.send("f", "abcf", 2)
    run.leave("f")
    run.view(8, "abc", {"f": "left"})
    run.send("a", "abc")
    for name in "abc":
        run.leave(name)
    return run.logs


def good_story() -> Story:
    """What the driver would know of that run."""
    fates = {name: Fate(_who(name), 0, name in "abcf", True, False, False, ()) for name in "abcdf"}
    fates["e"] = Fate(_who("e"), -9, False, True, True, False, ())
    return Story("groups", 0, "mesh", fates, QUIET_AT, 0.5, 0.1, ())


def _who(name: str) -> str:
    return f"{name}~1"
