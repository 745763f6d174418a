"""Who serves sessions: processes that start and never join, and without whom no view can change."""

from __future__ import annotations

from collections.abc import Container, Iterable

from msgspec import Struct, field

from unisono.properties.promises import SESSIONS
from unisono.trace.schema import MembershipRow


class Servers(Struct):
    """Keeps the names that started and joined, and whether there are sessions at all."""

    started: set[str] = field(default_factory=set)
    joined: set[str] = field(default_factory=set)
    sessions: bool = False

    def on_start(self, row: MembershipRow) -> None:
        self.started.add(row.process)

    def on_join(self, row: MembershipRow) -> None:
        self.joined.add(row.process)
        self.sessions = self.sessions or row.service in SESSIONS

    @property
    def names(self) -> list[str]:
        """The servers and controllers of a run of sessions: what they are stands before the colon."""
        return [name for name in sorted(self.started - self.joined) if ":" in name] if self.sessions else []


def all_kinds(names: Iterable[str], present: Container[str]) -> bool:
    """Whether of servers and of controllers, where there are any, one is present."""
    kinds: dict[str, bool] = {}
    for name in names:
        kind = name.partition(":")[0]
        kinds[kind] = kinds.get(kind, False) or name in present
    return all(kinds.values())
