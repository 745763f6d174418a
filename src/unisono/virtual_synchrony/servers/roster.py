"""Rosters: who is with a server in a group, as the server has it, as others were told, and as they keep it."""

from __future__ import annotations

from msgspec.structs import replace

from unisono.identity import ProcessId, ViewId
from unisono.wire.peer_frames import Listed, RosterChange
from unisono.wire.server_frames import Departure

Views = dict[ViewId, int]
"""What the members of a view amount to (`Part.digest`)."""


class Copy:
    """The roster of another server."""

    __slots__ = ("clients", "version")

    def __init__(self) -> None:
        self.version = 0
        self.clients: dict[ProcessId, Listed] = {}

    def take(self, change: RosterChange) -> bool:
        """Take what changed; False when something before it is missing."""
        if change.base not in (0, self.version):
            return False
        if change.base == 0:
            self.clients = {}
        for process, _ in change.removed:
            self.clients.pop(process, None)
        for listed in change.listed:
            self.clients[listed.entry.process] = listed
        self.version = change.version
        return True

    def hold(self, process: ProcessId, view: ViewId) -> None:
        """The view stands for a client that is attached there."""
        listed = self.clients.get(process)
        if listed is not None and listed.attached:
            self.clients[process] = replace(listed, held=view)


class Own:
    """The own roster of a group: as it is (`clients`), and as the other servers know it (`said`).

    Whoever comes, even if it was here before, begins a `stay`: what was said of an earlier one is not true of it.
    """

    __slots__ = ("_changed", "_said_stays", "_stays", "clients", "said", "version")

    def __init__(self) -> None:
        self.clients: dict[ProcessId, Listed] = {}
        self.said: dict[ProcessId, Listed] = {}
        self.version = 0
        self._changed: dict[ProcessId, Departure] = {}
        """Whom others do not know as they are now; why, where they are gone."""
        self._stays: dict[ProcessId, int] = {}
        self._said_stays: dict[ProcessId, int] = {}

    def __bool__(self) -> bool:
        """Whether there is, or was said to be, anybody."""
        return bool(self.clients or self.said or self._changed)

    @property
    def unsaid(self) -> bool:
        return bool(self._changed)

    def put(self, listed: Listed, stay: int | None = None) -> None:
        """Somebody is here in this way from now on; with a number, it begins a stay."""
        process = listed.entry.process
        self.clients[process] = listed
        self._changed[process] = Departure.UNKNOWN
        if stay is not None:
            self._stays[process] = stay

    def remove(self, process: ProcessId, why: Departure) -> None:
        if self.clients.pop(process, None) is not None:
            self._stays.pop(process, None)
            self._changed[process] = why

    def stay_said(self, process: ProcessId) -> int | None:
        """The stay that others know of."""
        return self._said_stays.get(process)

    def say(self, version: int, views: Views) -> RosterChange:
        """What others are to be told; there is something that they do not know."""
        base = self.version if self.said else 0
        changed, self._changed = self._changed, {}
        listed, removed = [], []
        for process, why in changed.items():
            now = self.clients.get(process)
            if now is not None:
                self.said[process] = now
                self._said_stays[process] = self._stays[process]
                listed.append(now)
            elif self.said.pop(process, None) is not None:
                self._said_stays.pop(process, None)
                removed.append((process, why))
        self.version = version
        return RosterChange(base, version, tuple(listed), tuple(removed), _of_these(listed, views))

    def all_said(self, views: Views) -> RosterChange:
        """All that others know, for one that knows nothing yet."""
        listed = list(self.said.values())
        return RosterChange(0, self.version, tuple(listed), (), _of_these(listed, views))

    def hold(self, process: ProcessId, view: ViewId) -> None:
        """The view stands for a client that was said to be attached here."""
        listed = self.said.get(process)
        if listed is None or not listed.attached:
            return
        self.said[process] = replace(listed, held=view)
        if process in self.clients and self._stays[process] == self._said_stays[process]:
            self.clients[process] = replace(self.clients[process], held=view)


def _of_these(listed: list[Listed], views: Views) -> tuple[tuple[ViewId, int], ...]:
    held = dict.fromkeys(one.held for one in listed if one.held is not None)
    return tuple((view, views[view]) for view in held if view in views)
