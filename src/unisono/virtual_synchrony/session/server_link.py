"""What a client and its membership server tell each other.

A client tells each server that it comes to how it stands in its groups (E24). What the server says of members are
differences on one channel, so everything is told anew on the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from unisono.engine import Address, Channel, Effect, Fact, Randomness
from unisono.identity import ProcessId, ViewId
from unisono.settings import Settings
from unisono.virtual_synchrony.session.link import Link
from unisono.virtual_synchrony.session.view import SessionView
from unisono.wire.server_frames import (
    NEWER_LIFE,
    Accusation,
    Attach,
    Charges,
    Entry,
    JoinGroup,
    LeaveGroup,
    NewView,
    Overruled,
    Ping,
    Pong,
    Refused,
    Removed,
    Standing,
    StartChange,
    Welcome,
    digest_of,
    read_server_frame,
    write_server_frame,
)


class Announced(Struct, frozen=True):
    """A server says that the view of a group is about to change, and what it knows of those who are expected."""

    group: str
    change: int
    view: SessionView
    entries: tuple[Entry, ...]


class Agreed(Struct, frozen=True):
    """The servers agreed on the view that was announced."""

    group: str
    view: ViewId


class Moved(Struct, frozen=True):
    """This client is with another server, or with none."""

    server: str | None
    reason: str = ""


class Confirmed(Struct, frozen=True):
    """The server has answered the question that mattered, or a later one: all that it had to say before is said."""


class Superseded(Struct, frozen=True):
    """A newer process has the name of this one, and its place in every group."""


News = Announced | Agreed | Moved | Confirmed | Superseded | Overruled


class ServerLink:
    """One client's way to one of the servers; `news` is what came of it."""

    __slots__ = ("_charges", "_known", "_link", "_needed", "_process", "_standings", "news")

    def __init__(
        self,
        process: ProcessId,
        servers: tuple[Address, ...],
        settings: Settings,
        randomness: Randomness,
        first_channel: int,
        standings: Callable[[], Iterable[Standing]],
        charges: Callable[[], Iterable[Charges]] | None = None,
    ) -> None:
        """With `charges` this is a controller: it says for whom it speaks right after where it stands."""
        self._process = process
        self._charges = charges
        self._standings = standings
        self._link = Link(self, process, servers, settings, randomness, first_channel)
        self._known: dict[str, dict[ProcessId, Entry]] = {}
        """The members that the server told last, by group."""
        self._needed = 0
        """The question whose answer, or that to a later one, says that all before it was said."""
        self.news: list[News] = []

    # ── what the client says ──

    def start(self, now: int) -> list[Effect]:
        return self._link.seek(now)

    def join(self, standing: Standing) -> list[Effect]:
        return self._link.say(write_server_frame(JoinGroup(standing)))

    def leave(self, group: str, removed: Removed = ()) -> list[Effect]:
        self._known.pop(group, None)
        return self._link.say(write_server_frame(LeaveGroup(group, removed)))

    def accuse(self, group: str, accused: Iterable[ProcessId]) -> list[Effect]:
        return self._link.say(write_server_frame(Accusation(group, tuple(accused))))

    def charge(self, charges: Charges) -> list[Effect]:
        """A controller speaks for others than before."""
        return self._link.say(write_server_frame(charges))

    def ask(self, now: int) -> list[Effect]:
        """Find out whether the server has said all that it has to say: Confirmed follows."""
        effects = self._link.ask(now)
        self._needed = self._link.asked
        return effects

    # ── what happens ──

    def owns(self, channel: Channel) -> bool:
        return self._link.owns(channel)

    def deadline(self) -> int | None:
        return self._link.deadline()

    def handle(self, fact: Fact, now: int) -> list[Effect]:
        return self._link.handle(fact, now)

    def on_time(self, now: int) -> list[Effect]:
        return self._link.on_time(now)

    def forgive(self, gap: int) -> None:
        self._link.forgive(gap)

    # ── what the link asks ──

    def greeting(self) -> list[bytes]:
        self._known.clear()
        attach = Attach(self._process, self._charges is not None, tuple(self._standings()))
        charges = () if self._charges is None else self._charges()
        return [write_server_frame(frame) for frame in (attach, *charges)]

    def question(self, number: int) -> bytes:
        return write_server_frame(Ping(number))

    def on_lost(self, reason: str) -> None:
        self.news.append(Moved(None, reason))

    def on_frame(self, data: bytes, now: int) -> str | None:
        frame = read_server_frame(data)
        if frame is None:
            return "a bad frame"
        if isinstance(frame, Welcome):
            self._link.settle()
            for place in frame.servers:
                self._link.learn(Address(place))
            self.news.append(Moved(str(self._link.place)))
        elif isinstance(frame, StartChange):
            return self._on_start_change(frame)
        elif isinstance(frame, NewView):
            self.news.append(Agreed(frame.group, frame.view))
        elif isinstance(frame, Pong):
            if frame.number >= self._needed:
                self.news.append(Confirmed())
        elif isinstance(frame, Overruled):
            self.news.append(frame)
        elif isinstance(frame, Refused):
            if frame.reason == NEWER_LIFE:
                self.news.append(Superseded())
            return frame.reason
        return None

    def _on_start_change(self, frame: StartChange) -> str | None:
        if not frame.anew and frame.group not in self._known:
            return None  # said before the server knew that this client had left the group
        known = {} if frame.anew else dict(self._known[frame.group])
        for process, _ in frame.removed:
            known.pop(process, None)
        known.update((entry.process, entry) for entry in frame.added)
        if digest_of(known) != frame.digest:
            return "a difference that does not fit what was told before"
        entries = tuple(known.values())
        view = SessionView(frame.view, entries, dict(frame.removed))
        if self._process not in view.seats:
            return "a start-change for a view without this client"
        self._known[frame.group] = known
        self.news.append(Announced(frame.group, frame.change, view, entries))
        return None
