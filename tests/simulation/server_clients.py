"""A scripted client of the membership servers, which checks all that it is told.

It keeps its own book: of the differences that it is told, and of the identifiers that must grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from unisono.engine import Channel
from unisono.identity import ProcessId, ViewId
from unisono.wire.server_frames import (
    Accusation,
    Attach,
    Charge,
    Charges,
    Departure,
    Entry,
    FromServer,
    JoinGroup,
    LeaveGroup,
    NewView,
    Overruled,
    Ping,
    Pong,
    Refused,
    Standing,
    StartChange,
    Welcome,
    digest_of,
)


class Broken(AssertionError):
    """A server told a client what it must not."""


def check(holds: bool, complaint: str) -> None:
    if not holds:
        raise Broken(complaint)


Entries = dict[ProcessId, int]


def charges_of(group: str, added: Entries, removed: Iterable[ProcessId] = ()) -> Charges:
    claims = tuple(Charge(process, entry) for process, entry in added.items())
    return Charges(group, 0, claims, tuple((process, Departure.LEFT) for process in removed))


class Book:
    """What a client knows of one group."""

    def __init__(self) -> None:
        self.change = 0
        self.view: ViewId | None = None
        self.offered: ViewId | None = None
        self.announced: ViewId | None = None
        self.members: dict[ProcessId, Entry] = {}
        self.gone: dict[ProcessId, Departure] = {}
        """Why others went, as was last told."""
        self.told_here = False
        """Whether members were told on the channel that the client has now."""
        self.starts = 0
        self.views = 0

    def standing(self, group: str) -> Standing:
        return Standing(group, self.change, self.view, self.announced)


class ModelClient:
    """One life of a client. `send` takes a frame for a channel; `views` is what all clients know of any view."""

    def __init__(
        self,
        process: ProcessId,
        send: Callable[[Channel, object], None],
        views: dict[tuple[str, ViewId], frozenset[ProcessId]],
        controller: bool = False,
    ) -> None:
        self.process = process
        self.controller = controller
        self.books: dict[str, Book] = {}
        self.charges: dict[str, Entries] = {}
        self.accused: dict[str, tuple[ProcessId, ...]] = {}
        self.channel: Channel | None = None
        self.attached = False
        self.heard = 0
        self.refused = False
        self._send = send
        self._views = views
        self._pings = 0

    # What the script lets it do.

    def call(self, channel: Channel, now: int) -> None:
        """A channel to some server stands."""
        self.channel, self.attached, self.heard = channel, True, now
        for book in self.books.values():
            book.told_here = False
        standings = tuple(book.standing(group) for group, book in self.books.items())
        self._send(channel, Attach(self.process, self.controller, standings))
        if self.controller:
            for group in self.books:
                self._send(channel, charges_of(group, self.charges.get(group, {})))
        for group, accused in self.accused.items():
            self._send(channel, Accusation(group, accused))

    def lose(self) -> None:
        self.channel, self.attached = None, False

    def join(self, group: str, last: Book | None = None) -> None:
        """Join a group, perhaps again, with the last start-change that was seen there."""
        book = self.books[group] = Book()
        book.change = 0 if last is None else last.change
        self.say(JoinGroup(book.standing(group)))
        if self.controller:
            self.say(charges_of(group, self.charges.get(group, {})))

    def leave(self, group: str) -> Book:
        self.say(LeaveGroup(group))
        self.accused.pop(group, None)
        self.charges.pop(group, None)
        return self.books.pop(group)

    def accuse(self, group: str, *accused: ProcessId) -> None:
        self.accused[group] = accused
        self.say(Accusation(group, accused))

    def charge(self, group: str, *charges: ProcessId, entry: int = 1) -> None:
        """Speak for these and nobody else; whoever is new came by that entry."""
        before = self.charges.get(group, {})
        self.charges[group] = {one: before.get(one, entry) for one in charges}
        added = {one: entry for one in charges if one not in before}
        self.say(charges_of(group, added, (one for one in before if one not in charges)))

    def ping(self) -> None:
        self._pings += 1
        self.say(Ping(self._pings))

    def say(self, frame: object) -> None:
        if self.channel is not None and self.attached:
            self._send(self.channel, frame)

    # What it is told.

    def hear(self, frame: FromServer | None, now: int) -> None:
        self.heard = now
        match frame:
            case StartChange():
                self._on_start(frame)
            case NewView(group, view):
                self._on_view(group, view)
            case Refused():
                self.refused = True
            case Overruled(group, process, entry, _):
                if self.charges.get(group, {}).get(process, entry + 1) <= entry:
                    del self.charges[group][process]
            case Pong(number):
                check(number <= self._pings, "a ping was answered that was never sent")
            case Welcome():
                check(self.attached, "a server welcomes whom it does not know")
            case _:
                raise Broken(f"{self.process} gets {frame}")

    def _on_start(self, frame: StartChange) -> None:
        book = self.books.get(frame.group)
        if book is None or not (frame.anew or book.told_here or book.starts):
            return  # it left, perhaps to come back at once, and the server did not know yet
        check(frame.change > book.change, f"{self.process}: {frame.change} after {book.change}")
        check(frame.view.start == frame.change, "the view that is announced has another number")
        check(frame.anew or book.told_here, f"{self.process}: a difference to what was never told")
        if frame.anew:
            book.members = {}
        for process, why in frame.removed:
            check(frame.anew or process in book.members, f"{self.process}: {process} was not there")
            book.members.pop(process, None)
            book.gone[process] = why
        book.members.update((entry.process, entry) for entry in frame.added)
        check(digest_of(book.members) == frame.digest, f"{self.process}: the digest is of others")
        check(self.process in book.members, f"{self.process} is not expected in its own view")
        book.told_here = True
        book.change, book.announced = frame.change, frame.view
        book.starts += 1
        self._agree(frame.group, frame.view, book)

    def _on_view(self, group: str, view: ViewId) -> None:
        book = self.books.get(group)
        if book is None or not book.starts:
            return  # the same
        check(view == book.announced, f"{self.process}: {view} was not announced, {book.announced} was")
        check(book.offered is None or view > book.offered, f"{self.process}: {view} after {book.offered}")
        book.offered = book.view = view
        book.views += 1
        self._agree(group, view, book)

    def _agree(self, group: str, view: ViewId, book: Book) -> None:
        members = frozenset(book.members)
        known = self._views.setdefault((group, view), members)
        if known != members:
            raise Broken(f"{view} has {sorted(known)} and {sorted(members)}")
