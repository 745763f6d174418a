"""Those who only receive now, and may have the state: in no view, but still there to be asked.

Who only receives is known to those who saw it send. They ask it, and tell other newcomers of it, so that nobody goes on
with a state of its own because who has the group's just fell silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from unisono.engine import Address
from unisono.events import View, ViewReason
from unisono.identity import ProcessId
from unisono.wire.transfer_frames import KNOWN_LIMIT, Known

TRIES = 5
"""After so many that came to nothing, somebody who only receives counts as gone."""


class Quiet:
    """What one process knows of them in one group."""

    __slots__ = ("_addresses", "_lookup", "_process", "_tries")

    def __init__(self, process: ProcessId, lookup: Callable[[ProcessId], Address | None]) -> None:
        self._process = process
        self._lookup = lookup
        self._addresses: dict[ProcessId, Address] = {}
        """Where senders are, and those who were."""
        self._tries: dict[ProcessId, int] = {}
        """Who is quiet, and how often it was asked in vain."""

    def __contains__(self, process: ProcessId | None) -> bool:
        return process in self._tries

    def __bool__(self) -> bool:
        return bool(self._tries)

    @property
    def processes(self) -> list[ProcessId]:
        return sorted(self._tries)

    @property
    def known(self) -> tuple[Known, ...]:
        """Whom another newcomer should ask."""
        found = (Known(process, self._addresses.get(process, "")) for process in self.processes)
        return tuple(one for one in found if one.address)[:KNOWN_LIMIT]

    def on_view(self, view: View) -> None:
        """A view stands: who sends is not quiet, nor is who has a later life; who fell silent with it is."""
        names = {member.name for member in view.members}
        for process in self.processes:
            if process.name in names:
                del self._tries[process]
        for member in view.members:
            address = self._lookup(member)
            if address is not None:
                self._addresses[member] = address
        for process, reason in view.reasons:
            if reason is ViewReason.ONLY_RECEIVES and process not in view.members and process != self._process:
                self._tries[process] = 0
        while len(self._tries) > KNOWN_LIMIT:
            del self._tries[next(iter(self._tries))]
        kept = {*view.members, *self._tries}
        self._addresses = {process: address for process, address in self._addresses.items() if process in kept}

    def address_of(self, process: ProcessId) -> Address | None:
        return self._lookup(process) or self._addresses.get(process)

    def hear(self, known: Iterable[Known], unless: set[ProcessId]) -> list[ProcessId]:
        """Another newcomer tells of these; those that are news."""
        news = [one for one in known if one.process not in unless and one.process not in self._tries]
        for process, address in news[: max(0, KNOWN_LIMIT - len(self._tries))]:
            self._tries[process] = 0
            self._addresses[process] = Address(address)
        return [one.process for one in news if one.process in self._tries]

    def lacks(self, process: ProcessId) -> None:
        """It said that it has no state."""
        self._tries.pop(process, None)

    def failed(self, process: ProcessId | None) -> None:
        """It could not be asked, or did not answer."""
        if process is not None and process in self._tries:
            self._tries[process] += 1
            if self._tries[process] >= TRIES:
                del self._tries[process]
