"""The simulated application's state: bytes that every message changes, so that order and gaps show in them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import sha256

from msgspec.structs import replace
from xxhash import xxh3_64_intdigest

from unisono.engine import (
    Fact,
    FoundState,
    LoadState,
    RenewState,
    SaveState,
    StateLoaded,
    StateNotLoaded,
    StateNotSaved,
    StateSaved,
)
from unisono.events import DroppedOut, Event, Excluded, Message, StateProgress, View
from unisono.identity import Point, ProcessId, StartPoint
from unisono.simulation.disk import Disk, DiskError
from unisono.trace.schema import MembershipRow, body_hash
from unisono.transfer import Kept, Reach
from unisono.transfer.kept import after, comes_in
from unisono.transfer.track import Track

SAMPLED = 8
"""Of the messages of a source, every one with such a number is followed by a row that tells the state."""
_CELL = 8

Write = Callable[[MembershipRow], None]


class StateKeeper:
    """One application in one group. Until it has the group's state it keeps what comes.

    When the others went on without it, or it could not follow, it gives its state up and takes theirs.
    """

    __slots__ = (
        "_disk",
        "_give",
        "_group",
        "_kept",
        "_knows",
        "_lineage",
        "_load",
        "_state",
        "_track",
        "_view",
        "_waiting",
        "_write",
        "has",
    )

    def __init__(
        self, group: str, name: str, size: int, disk: Disk, give: Callable[[Fact], None], write: Write
    ) -> None:
        self._group = group
        self._disk = disk
        self._give = give
        self._write = write
        noise = b"".join(sha256(f"{name} {block}".encode()).digest() for block in range(-(-size // 32)))
        self._state = bytearray(noise[: max(size, _CELL)])
        self._lineage = xxh3_64_intdigest(name.encode())
        """Grows a link with every view: states that have the same one at a point come from one state, and are equal."""
        self.has = False
        self._track = Track()
        self._knows = Kept()
        self._kept: list[Event] = []
        self._load: LoadState | None = None
        self._view: View | None = None
        self._waiting: deque[Event | SaveState] = deque()

    @property
    def digest(self) -> int:
        return body_hash(bytes(self._state))

    def on_events(self, events: tuple[Event, ...], reading: bool) -> None:
        """Events for the application, which takes them later where it does not read now."""
        for event in events:
            if isinstance(event, StateProgress):
                continue
            self._knows.add(event)
            if isinstance(event, View):
                self._view = event
            if not self.has:
                if isinstance(event, View) and comes_in(event):
                    self._kept.clear()
                self._kept.append(event)
            elif reading and not self._waiting:
                self._apply(event)
            else:
                self._waiting.append(event)
        if self._load is not None:
            self._load_when_reached(self._load)

    def read_again(self) -> None:
        while self._waiting:
            item = self._waiting.popleft()
            if isinstance(item, SaveState):
                self._save(item)
            else:
                self._apply(item)

    def carry_out(self, effect: SaveState | LoadState | FoundState, reading: bool) -> None:
        if isinstance(effect, FoundState):
            self._begin(self._kept)
        elif isinstance(effect, LoadState):
            self._load_when_reached(effect)
        elif reading and not self._waiting:
            self._save(effect)
        else:
            self._waiting.append(effect)

    def _begin(self, events: list[Event]) -> None:
        self.has, self._load, self._kept = True, None, []
        for event in events:
            if self.has:
                self._apply(event)

    def _renew(self) -> None:
        """Be a newcomer from where the group has come to; what was not taken is of no use."""
        point, view = self._knows.point, self._view
        self.has = False
        self._waiting.clear()
        if view is not None and point is not None:
            start = tuple(StartPoint(source, 0, number) for source, number in point.numbers)
            self._kept = [replace(view, start=start)]
        self._give(RenewState(self._group))

    def _apply(self, event: Event) -> None:
        if isinstance(event, Excluded | DroppedOut):
            self._renew()
        elif isinstance(event, View):
            self._track.on_view(event)
            self._lineage = xxh3_64_intdigest(f"{self._lineage} {event.id}".encode())
            self._tell("STATE")
        elif isinstance(event, Message):
            known = event.is_known(self._track.handed)
            self._track.on_message(event)
            if known:
                return
            place = xxh3_64_intdigest(event.data) % (len(self._state) - _CELL + 1)
            cell = self._state[place : place + _CELL]
            self._state[place : place + _CELL] = xxh3_64_intdigest(bytes(cell) + event.data).to_bytes(_CELL, "big")
            if event.carrier_number % SAMPLED == 0:
                self._tell("STATE")

    def _save(self, effect: SaveState) -> None:
        try:
            self._disk.write_blob(effect.blob, 0, self._lineage.to_bytes(_CELL, "big") + self._state)
        except DiskError as error:
            self._give(StateNotSaved(self._group, effect.request, str(error)))
            return
        self._tell("SAVED")
        self._give(StateSaved(self._group, effect.request, _CELL + len(self._state)))

    def _load_when_reached(self, load: LoadState) -> None:
        reach = self._knows.reach(load.point)
        if reach is Reach.NOT_YET:
            self._load = load
            return
        self._load = None
        if reach is Reach.NEVER:
            self._give(StateNotLoaded(self._group, load.request, "its point was never reached", missed=True))
            return
        try:
            chunks = [self._disk.read_blob(load.blob, piece.offset, piece.size) for piece in load.pieces]
        except DiskError as error:
            self._give(StateNotLoaded(self._group, load.request, str(error)))
            return
        damaged = tuple(
            place
            for place, (piece, chunk) in enumerate(zip(load.pieces, chunks, strict=True))
            if sha256(chunk).digest() != piece.digest
        )
        if damaged:
            self._give(StateNotLoaded(self._group, load.request, "the disk changed it", damaged=damaged))
            return
        saved = b"".join(chunks)
        self._lineage, self._state = int.from_bytes(saved[:_CELL], "big"), bytearray(saved[_CELL:])
        self._give(StateLoaded(self._group, load.request))
        view, *rest = after(load.point, self._kept)
        assert isinstance(view, View), "what follows a point begins with its view"
        self._track.on_view(view)
        self._track.resume(load.point)
        self._tell("LOADED", load.provider)
        self._begin(rest)

    def _tell(self, kind: str, provider: ProcessId | None = None) -> None:
        """Write down the state as it is now, and of which point."""
        point = self._track.point
        if point is not None:
            name, incarnation = provider or (None, None)
            self._write(
                MembershipRow(
                    kind=kind,
                    group=self._group,
                    view=str(point.view),
                    service="RTO",
                    sequence=_number(point),
                    number=self.digest,
                    reason=f"{self._lineage:x}",
                    peer=name,
                    peer_incarnation=incarnation,
                )
            )


def _number(point: Point) -> int:
    """What stands for a point in the trace: the same for all who are there. First messages are not told apart."""
    ahead = sorted((str(source), number) for source, number in point.numbers if number > 1)
    return body_hash(repr(ahead).encode())
