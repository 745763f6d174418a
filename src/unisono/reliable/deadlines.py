"""One table of deadlines per engine; whoever drives it holds one wake-up."""

from __future__ import annotations


class Deadlines:
    """Named times at which something is due. Few names: the earliest is found by looking at all."""

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due: dict[str, int] = {}

    def set(self, name: str, due: int) -> None:
        self._due[name] = due

    def advance(self, name: str, due: int) -> None:
        """Set it, unless it is due earlier already."""
        if due < self._due.get(name, due + 1):
            self._due[name] = due

    def is_set(self, name: str) -> bool:
        return name in self._due

    def clear(self, name: str) -> None:
        self._due.pop(name, None)

    def clear_all(self) -> None:
        self._due.clear()

    def earliest(self) -> int | None:
        return min(self._due.values()) if self._due else None

    def expire(self, now: int) -> list[str]:
        """Take out what is due, earliest first; ties by name."""
        due: list[tuple[int, str]] = []
        for name, when in self._due.items():
            if when <= now:
                due.append((when, name))
        names: list[str] = []
        for _, name in sorted(due):
            del self._due[name]
            names.append(name)
        return names
