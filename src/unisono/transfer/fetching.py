"""The side of a transfer that wants: one newcomer's way to the state of one group.

It asks the members of its view, one after the other, until one offers a state as of a point from which on this process
has every message. It takes the digests of its chunks, and those chunks that it does not have yet. When who gives it
the state is gone or silent, it asks the next, and goes on with what it has.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from hashlib import sha256

from xxhash import xxh3_64_intdigest

from unisono.engine import (
    Channel,
    CloseChannel,
    Deliver,
    Effect,
    FoundState,
    LoadState,
    Note,
    OpenChannel,
    SendFrame,
    StateNotLoaded,
    StepForward,
)
from unisono.events import StateProgress, View
from unisono.identity import Point, ProcessId, ViewId
from unisono.settings import Settings
from unisono.transfer.download import Download
from unisono.transfer.quiet import Quiet
from unisono.transfer.reasons import Reason
from unisono.transfer.store import Store
from unisono.units import MILLISECOND, SECOND
from unisono.wire.transfer_frames import (
    Chunk,
    FromProvider,
    Known,
    Lack,
    Lacking,
    Offer,
    Page,
    Want,
    write_transfer_frame,
)

FIRST_REST = 100 * MILLISECOND
"""How long to wait when nobody could give the state, at first; each time twice as long."""
LONGEST_REST = 2 * SECOND
DISK_REST = SECOND
"""How long to wait when the disk took no chunk."""
VIEWS_LIMIT = 256
"""So many views since it came in does a newcomer remember."""


class Phase(Enum):
    """What a newcomer does."""

    ALONE = auto()
    RESTING = auto()
    OPENING = auto()
    ASKING = auto()
    TAKING = auto()
    AWAITING = auto()
    """It has a state of a view that has not come here yet."""
    LOADING = auto()
    DONE = auto()


class Fetching:
    """One newcomer in one group."""

    __slots__ = (
        "_answers",
        "_channel",
        "_download",
        "_due",
        "_empty",
        "_floor",
        "_group",
        "_met",
        "_new_channel",
        "_new_request",
        "_phase",
        "_point",
        "_process",
        "_provider",
        "_quiet",
        "_request",
        "_rests",
        "_settings",
        "_store",
        "_to_ask",
        "_told",
        "_view",
        "_views",
    )

    def __init__(
        self,
        group: str,
        process: ProcessId,
        settings: Settings,
        quiet: Quiet,
        new_channel: Callable[[], Channel],
        new_request: Callable[[], int],
        now: int,
    ) -> None:
        self._group = group
        self._process = process
        self._settings = settings
        self._quiet = quiet
        self._new_channel = new_channel
        self._new_request = new_request
        self._phase = Phase.ALONE
        self._due: int | None = now + settings.state_discovery
        self._view: View | None = None
        self._point: Point | None = None
        self._floor: Point | None = None
        self._views: list[ViewId] = []
        self._met: set[ProcessId] = set()
        self._empty: set[ProcessId] = set()
        self._answers: dict[ProcessId, Lack] = {}
        self._to_ask: list[ProcessId] = []
        self._rests = 0
        self._provider: ProcessId | None = None
        self._channel: Channel | None = None
        self._download: Download | None = None
        self._store = Store(f"chunks-{new_request()}")
        self._request = 0
        self._told: StateProgress | None = None

    @property
    def done(self) -> bool:
        """This process has the state."""
        return self._phase is Phase.DONE

    @property
    def channel(self) -> Channel | None:
        return self._channel

    @property
    def known(self) -> tuple[Known, ...]:
        """Who may have the state, and is in no view."""
        return self._quiet.known

    def deadline(self) -> int | None:
        if self._phase is Phase.TAKING and self._download is not None:
            due = self._download.due
            return self._due if due is None else due if self._due is None else min(self._due, due)
        return self._due

    # What happens in the group.

    def on_view(self, view: View, point: Point, now: int) -> list[Effect]:
        """A view stands here, and this is the point at its beginning."""
        self._view, self._point = view, point
        self._answers.clear()
        self._empty.difference_update(self._quiet.processes)
        others = {*view.members, *self._quiet.processes} - {self._process}
        self._met.update(others)
        if not others:
            self._views = []
            self._floor = None
            if self._phase in (Phase.LOADING, Phase.DONE):
                return []
            effects = self._let_go()
            self._become_alone(now)
            return effects
        comes_along = set(view.transitional or ()) - {self._process}
        follows = view.era is not None  # by the order of messages, and all who are there have the same before it
        if self._floor is None or view.previous is None or not (comes_along or follows):
            self._floor, self._views = point, []
        self._views = [*self._views[1 - VIEWS_LIMIT :], view.id]
        if self._phase in (Phase.LOADING, Phase.DONE):
            return []
        if self._phase is Phase.AWAITING:
            return self._load_when_there(now)
        if self._phase in (Phase.ALONE, Phase.RESTING):
            return self._ask_all(now)
        if self._provider not in others or (self._download is not None and self._is_past(self._download.offer.point)):
            return [Note(Reason.LOST_PROVIDER), *self._let_go(), *self._ask_all(now)]
        return []

    def on_message_alone(self, now: int) -> list[Effect]:
        """A message was delivered that nobody else will have: this is a state of its own from here on."""
        return self._found() if self._phase is Phase.ALONE and self._met <= self._empty else []

    def claim(self) -> list[Effect]:
        """The application says that its own state counts."""
        return [] if self._phase in (Phase.LOADING, Phase.DONE) else [*self._let_go(), *self._found()]

    def close(self) -> list[Effect]:
        """This process leaves the group."""
        self._phase, self._due = Phase.DONE, None
        return [*self._let_go(), *self._store.drop()]

    # Asking.

    def _become_alone(self, now: int) -> None:
        if self._phase is not Phase.ALONE:
            self._phase = Phase.ALONE
            self._due = now + self._settings.state_discovery

    def _ask_all(self, now: int) -> list[Effect]:
        """Ask every other member, then who only receives: in an order that differs from newcomer to newcomer."""
        assert self._view is not None, "there is somebody to ask"
        others = {*self._view.members, *self._quiet.processes} - {self._process}
        self._to_ask = sorted(others, key=self._turn_of)
        return self._ask_next(now)

    def _turn_of(self, other: ProcessId) -> tuple[bool, int]:
        return other in self._quiet, xxh3_64_intdigest(f"{self._process}\0{other}".encode())

    def _ask_next(self, now: int) -> list[Effect]:
        while self._to_ask:
            self._provider = self._to_ask.pop(0)
            address = self._quiet.address_of(self._provider)
            if address is None:
                self._quiet.failed(self._provider)
            else:
                self._channel = self._new_channel()
                self._phase, self._due = Phase.OPENING, now + self._settings.state_patience
                return [OpenChannel(self._channel, address)]
        self._provider = None
        if self._is_founder():
            return self._found() if self._sends else [*self._step_forward(), *self._rest(now, "nobody has the state")]
        return self._rest(now, "nobody there can give the state")

    def _is_founder(self) -> bool:
        """All others said in this view that they have none, and of those who want one this is the lowest."""
        if (
            self._view is None
            or self._quiet
            or any(member not in self._answers for member in self._view.members if member != self._process)
        ):
            return False
        rivals = [member for member, lack in self._answers.items() if lack is Lack.NEWCOMER]
        return all(self._process < rival for rival in rivals) if self._sends else not rivals

    @property
    def _sends(self) -> bool:
        """Whether others hear of this process: only such a one may be the first to have a state."""
        if self._view is None:
            return self._settings.role == "sender"
        return self._process in self._view.members

    def _step_forward(self) -> list[Effect]:
        return [StepForward(self._group)] if self._settings.role == "auto" else []

    def _rest(self, now: int, trouble: str) -> list[Effect]:
        self._phase = Phase.RESTING
        self._due = now + min(FIRST_REST << min(self._rests, 10), LONGEST_REST)
        self._rests += 1
        return self._tell(trouble) if self._rests > 3 else []

    def _found(self) -> list[Effect]:
        self._phase, self._due = Phase.DONE, None
        return [Note(Reason.FOUNDED), FoundState(self._group, self._point), *self._store.drop()]

    def _let_go(self) -> list[Effect]:
        """Have nothing more to do with who was asked."""
        channel, self._channel, self._provider, self._download = self._channel, None, None, None
        return [] if channel is None else [CloseChannel(channel)]

    def _give_up(self, reason: Reason, now: int) -> list[Effect]:
        self._quiet.failed(self._provider)
        return [Note(reason), *self._let_go(), *self._ask_next(now)]

    # What comes over the channel.

    def on_opened(self, now: int) -> list[Effect]:
        assert self._channel is not None, "a channel was asked for"
        if self._floor is None:
            return []
        self._phase, self._due = Phase.ASKING, now + self._settings.state_patience
        want = Want(self._group, self._process, self._floor)
        return [SendFrame(self._channel, write_transfer_frame(want))]

    def on_end(self, now: int) -> list[Effect]:
        """The channel is gone."""
        self._channel = None
        return self._give_up(Reason.LOST_PROVIDER, now)

    def on_frame(self, frame: FromProvider | None, now: int) -> list[Effect]:
        if isinstance(frame, Lacking) and self._phase in (Phase.ASKING, Phase.TAKING):
            return self._on_lacking(frame, now)
        if isinstance(frame, Offer) and self._phase is Phase.ASKING:
            return self._on_offer(frame, now)
        download = self._download
        if download is not None and self._phase is Phase.TAKING:
            self._due = now + self._settings.state_patience
            if isinstance(frame, Page) and download.on_page(frame, self._store):
                return self._go_on(now)
            if isinstance(frame, Chunk) and (digest := download.on_chunk(frame)) is not None:
                if sha256(frame.data).digest() != digest:
                    return self._give_up(Reason.BAD_CHUNK, now)
                came = Reason.AGAIN if digest in self._store else Reason.CHUNK
                write = self._store.write(self._new_request(), digest, frame.data)
                return [Note(came), write, *self._go_on(now)]
        return self._give_up(Reason.BAD_PROVIDER_FRAME, now)

    def _on_lacking(self, frame: Lacking, now: int) -> list[Effect]:
        assert self._provider is not None, "somebody was asked"
        if frame.lack in (Lack.NEWCOMER, Lack.STATELESS):
            self._empty.add(self._provider)
            self._quiet.lacks(self._provider)
            if self._view is not None and frame.view == self._view.id and self._provider in self._view.members:
                self._answers[self._provider] = frame.lack
            unless = {self._process, *self._empty, *(() if self._view is None else self._view.members)}
            news = self._quiet.hear(frame.known, unless)
            self._met.update(news)
            self._to_ask += news
        return [*self._let_go(), *self._ask_next(now)]

    def _on_offer(self, offer: Offer, now: int) -> list[Effect]:
        if offer.size > self._settings.state_limit_bytes:
            told = self._tell(f"a state of {offer.size} bytes is larger than state_limit_bytes")
            return [*told, *self._give_up(Reason.TOO_LARGE, now)]
        self._rests = 0
        self._phase, self._due = Phase.TAKING, now + self._settings.state_patience
        effects = self._store.trim(offer.size)
        self._download = Download(offer, now)
        return [*effects, *self._tell(), *self._go_on(now)]

    def _go_on(self, now: int) -> list[Effect]:
        """Ask for what is next; when all is there, let the application have it."""
        download = self._download
        assert download is not None, "something is being taken"
        assert self._channel is not None, "somebody gives it"
        wanted = download.next_frames(self._settings.state_rate_bytes, now)
        effects: list[Effect] = [SendFrame(self._channel, write_transfer_frame(frame)) for frame in wanted]
        if not download.waits_for_peer:
            self._due = None
        elif self._due is None:
            self._due = now + self._settings.state_patience
        if not download.complete:
            return effects
        channel, self._channel = self._channel, None
        self._phase, self._due = Phase.AWAITING, None
        return [*effects, CloseChannel(channel), *self._load_when_there(now)]

    def _tell(self, trouble: str = "") -> list[Effect]:
        """Tell the application how far it has come, where that is news."""
        download = self._download
        received, size = (0, 0) if download is None else (download.received, download.offer.size)
        told = StateProgress(received, size, self._provider, trouble)
        if told == self._told:
            return []
        self._told = told
        return [Deliver(self._group, "", 0, (told,))]

    # What comes from the disk and from the application.

    def on_stored(self, request: int, now: int) -> list[Effect]:
        piece = self._store.written(request)
        download = self._download
        if piece is None or download is None or self._phase is not Phase.TAKING:
            return []
        told = self._tell() if download.on_stored(piece) else []
        return [*told, *self._go_on(now)]

    def on_not_stored(self, request: int, reason: str, now: int) -> list[Effect]:
        """The disk took no chunk: nothing is lost, it is asked for again after a while."""
        piece = self._store.failed(request)
        if piece is None:
            return []
        effects: list[Effect] = [Note(Reason.NOT_STORED)]
        if self._download is not None and self._phase is Phase.TAKING:
            self._download.on_not_stored(piece.digest, now + DISK_REST)
            effects += [*self._tell(f"the disk does not take it: {reason}"), *self._go_on(now)]
        return effects

    def _is_past(self, point: Point) -> bool:
        """Whether a point can no longer come here: a later view stands, or it is before this process came in."""
        assert self._view is not None, "points are of views"
        assert self._floor is not None, "there are others"
        if point.view == self._floor.view:
            return not point.reaches(self._floor)
        return point.view not in self._views and point.view < self._view.id

    def _load_when_there(self, now: int) -> list[Effect]:
        download = self._download
        assert download is not None, "a state is here"
        assert self._provider is not None, "somebody gave it"
        if self._floor is None or self._is_past(download.offer.point):
            return [Note(Reason.UNUSABLE), *self._let_go(), *self._ask_all(now)]
        if download.offer.point.view not in self._views:
            self._due = now + self._settings.state_patience
            return []
        self._phase, self._due, self._request = Phase.LOADING, None, self._new_request()
        pieces = tuple(self._store.piece(digest) for digest in download.digests)
        return [LoadState(self._group, self._request, self._store.blob, download.offer.point, self._provider, pieces)]

    def point_of(self, request: int) -> Point | None:
        """The point of the state that the application takes under this request."""
        if self._phase is not Phase.LOADING or request != self._request or self._download is None:
            return None
        return self._download.offer.point

    def on_loaded(self, request: int) -> list[Effect]:
        if self._phase is not Phase.LOADING or request != self._request:
            return []
        self._phase, self._due = Phase.DONE, None
        return [*self._let_go(), *self._store.drop()]

    def on_not_loaded(self, fact: StateNotLoaded, now: int) -> list[Effect]:
        """Ask again: for what is damaged, or for a state as of a later point."""
        if self._phase is not Phase.LOADING or fact.request != self._request:
            return []
        download = self._download
        assert download is not None, "a state was to be taken"
        for index in fact.damaged:
            self._store.forget(download.digests[index])
        effects: list[Effect] = [Note(Reason.UNUSABLE if fact.missed else Reason.NOT_LOADED), *self._let_go()]
        if self._floor is None:
            self._become_alone(now)
            return effects
        return [*effects, *self._rest(now, fact.reason)]

    def on_time(self, now: int) -> list[Effect]:
        if self._phase is Phase.TAKING:
            download = self._download
            if download is not None and download.due is not None and download.due <= now:
                return self._go_on(now)
        if self._due is None or self._due > now:
            return []
        if self._phase is Phase.ALONE:
            self._due = now + LONGEST_REST
            if not self._met <= self._empty:
                return self._tell("those who may have the state are gone")
            if self._sends:
                return self._found()
            self._due = now + self._settings.state_discovery
            return [*self._tell("nobody sends in this group"), *self._step_forward()]
        if self._phase is Phase.RESTING:
            return self._ask_all(now)
        if self._phase is Phase.AWAITING:
            return [Note(Reason.UNUSABLE), *self._let_go(), *self._ask_all(now)]
        return self._give_up(Reason.SILENT_PROVIDER, now)
