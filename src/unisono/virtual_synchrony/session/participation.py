"""What a process that takes part in the algorithm has in all of its groups: one link to the servers, and what it says.

A client takes part for itself, a controller for its clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from unisono.clock import LamportClock
from unisono.engine import Address, Channel, Deliver, Effect, Fact, Randomness
from unisono.events import ServerChanged
from unisono.identity import ProcessId, ViewId
from unisono.reliable.agenda import Agenda
from unisono.sealing import Seal
from unisono.settings import Settings
from unisono.virtual_synchrony.session.context import Context
from unisono.virtual_synchrony.session.phases import Resumption, Resumptions
from unisono.virtual_synchrony.session.server_link import Agreed, Announced, Confirmed, Moved, ServerLink, Superseded
from unisono.virtual_synchrony.session.view import SessionView
from unisono.wire.server_frames import Charges, Overruled, Standing

NO_GROUP = ""
"""Where events go that belong to the process."""
STOPPED = 2
"""A process that is called so many intervals late was stopped."""


def stopped_for(now: int, last_call: int | None, due: int | None, settings: Settings) -> int:
    """For how long this process did not run although it was due; 0 for what loops are late by anyway."""
    if last_call is None or due is None:
        return 0
    gap = now - max(due, last_call)
    return gap if gap > STOPPED * settings.server_interval else 0


class Participant(Protocol):
    """One group, as whoever takes part in it is asked and told."""

    certain: bool

    @property
    def outside(self) -> bool: ...
    @property
    def number(self) -> int: ...
    @property
    def view(self) -> SessionView | None: ...
    @property
    def last_change(self) -> int: ...
    @property
    def offered(self) -> ViewId | None: ...
    @property
    def accused(self) -> tuple[ProcessId, ...]: ...
    def take_changed_accusations(self) -> bool: ...
    def locate(self, process: ProcessId, address: Address) -> None: ...
    def resumption(self) -> Resumption: ...
    def deadline(self) -> int | None: ...
    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]: ...
    def on_start_change(self, change: int, expected: SessionView, now: int, wall: int) -> list[Effect]: ...
    def on_new_view(self, view: ViewId, now: int, wall: int) -> list[Effect]: ...
    def on_moved(self, now: int, wall: int) -> list[Effect]: ...
    def on_stopped(self, gap: int, now: int, wall: int) -> list[Effect]: ...
    def on_certain(self, now: int, wall: int) -> list[Effect]: ...
    def on_superseded(self, now: int, wall: int) -> list[Effect]: ...


G = TypeVar("G", bound=Participant)


class Participation(Generic[G]):
    """The groups of one process by name, and its link to the servers."""

    __slots__ = (
        "_agenda",
        "_clock",
        "_groups",
        "_last_call",
        "_left",
        "_link",
        "_numbers",
        "_process",
        "_randomness",
        "_realm",
        "_seal",
        "_settings",
    )

    def __init__(
        self,
        process: ProcessId,
        realm: str,
        servers: tuple[Address, ...],
        settings: Settings,
        clock: LamportClock,
        randomness: Randomness,
        seal: Seal,
        first_channel: int,
        charges: Callable[[], Iterable[Charges]] | None = None,
    ) -> None:
        self._process = process
        self._realm = realm
        self._settings = settings
        self._clock = clock
        self._randomness = randomness
        self._seal = seal
        self._link = ServerLink(process, servers, settings, randomness, first_channel, self._standings, charges)
        self._groups: dict[str, G] = {}
        self._numbers: dict[int, str] = {}
        self._left = Resumptions()
        self._agenda = Agenda()
        self._last_call: int | None = None

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def knows(self, number: int) -> bool:
        """Whether a group of this number on the wire is one of these."""
        return number in self._numbers

    def owns(self, channel: Channel) -> bool:
        return self._link.owns(channel)

    def deadline(self) -> int | None:
        dues = (self._agenda.earliest, self._link.deadline())
        return min((due for due in dues if due is not None), default=None)

    def start(self, now: int) -> list[Effect]:
        self._last_call = now
        return self._link.start(now)

    # ── groups ──

    def _context(self, name: str, settings: Settings) -> Context:
        return Context(name, self._realm, self._process, settings, self._clock, self._randomness, self._seal)

    def _add(self, name: str, group: G) -> None:
        self._groups[name] = group
        self._numbers[group.number] = name

    def _handle_in(self, name: str, fact: Fact, now: int, wall: int) -> list[Effect]:
        return self._settle(name, self._groups[name].handle(fact, now, wall))

    def _on_due(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        """What is due in any group, and at the link."""
        effects: list[Effect] = []
        for name in self._agenda.take(now):
            effects += self._handle_in(name, fact, now, wall)
        return effects + self._link.on_time(now)

    def _settle(self, name: str, effects: list[Effect]) -> list[Effect]:
        """What the servers are to be told after a group has done something."""
        group = self._groups[name]
        if group.outside:
            self._left.keep(name, group.resumption())
            del self._groups[name], self._numbers[group.number]
            self._agenda.remove(name)
            return effects + self._leave(name, group)
        self._agenda.set(name, group.deadline())
        if group.take_changed_accusations():
            effects += self._link.accuse(name, group.accused)
        return effects

    def _leave(self, name: str, group: G) -> list[Effect]:
        return self._link.leave(name)

    def _note_own_pause(self, now: int, wall: int) -> list[Effect]:
        """Whoever was stopped asks its server whether it still counts, before it sends anything (N20)."""
        if self._last_call is not None and now - self._last_call <= STOPPED * self._settings.server_interval:
            self._last_call = now
            return []
        gap = stopped_for(now, self._last_call, self.deadline(), self._settings)
        self._last_call = now
        if not gap:
            return []
        effects: list[Effect] = []
        for group in self._groups.values():
            effects += group.on_stopped(gap, now, wall)
        self._link.forgive(gap)
        return effects + self._link.ask(now)

    # ── servers ──

    def _standings(self) -> list[Standing]:
        return [self._standing(name) for name in self._groups]

    def _standing(self, name: str) -> Standing:
        group = self._groups[name]
        return Standing(name, group.last_change, None if group.view is None else group.view.id, group.offered)

    def _pass_on(self, now: int, wall: int) -> list[Effect]:
        """Hand what the server said to the groups."""
        effects: list[Effect] = []
        while self._link.news:
            news = self._link.news.pop(0)
            if isinstance(news, Confirmed):
                for name, group in list(self._groups.items()):
                    if not group.certain:
                        effects += self._settle(name, group.on_certain(now, wall))
            elif isinstance(news, Superseded):
                for name, group in list(self._groups.items()):
                    if group.view is not None:
                        effects += self._settle(name, group.on_superseded(now, wall))
            elif isinstance(news, Moved):
                effects += self._on_moved(news, now, wall)
            elif isinstance(news, Overruled):
                effects += self._on_overruled(news, now, wall)
            elif news.group in self._groups:
                effects += self._on_view_news(self._groups[news.group], news, now, wall)
        return effects

    def _on_view_news(self, group: G, news: Announced | Agreed, now: int, wall: int) -> list[Effect]:
        if isinstance(news, Agreed):
            return self._settle(news.group, group.on_new_view(news.view, now, wall))
        for entry in news.entries:
            if entry.address and entry.process != self._process:
                group.locate(entry.process, Address(entry.address))
        return self._settle(news.group, group.on_start_change(news.change, news.view, now, wall))

    def _on_overruled(self, news: Overruled, now: int, wall: int) -> list[Effect]:
        """A controller speaks for a client no longer."""
        return []  # who takes part for itself alone speaks for nobody

    def _on_moved(self, news: Moved, now: int, wall: int) -> list[Effect]:
        """Tell the application; a new server knows nothing of the accusations."""
        effects: list[Effect] = [Deliver(NO_GROUP, "", 0, (ServerChanged(news.server, news.reason),))]
        if news.server is not None:
            for name, group in list(self._groups.items()):
                effects += self._settle(name, group.on_moved(now, wall))
                if group.accused:
                    effects += self._link.accuse(name, group.accused)
        return effects
