"""Transfers side by side, without a simulator: channels that carry frames, disks, applications, and one clock."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from unisono.engine import (
    Address,
    Channel,
    ChannelFailed,
    ChannelOpened,
    CloseChannel,
    Deliver,
    DropBlob,
    Effect,
    Fact,
    FoundState,
    FrameReceived,
    LoadState,
    Note,
    OpenChannel,
    ReadBlob,
    SaveState,
    SendFrame,
    StateLoaded,
    StateNotLoaded,
    StateNotSaved,
    StateSaved,
    StorageDone,
    StorageFailed,
    TimePassed,
    WriteBlob,
)
from unisono.events import Event, Message, StateProgress, View
from unisono.identity import ProcessId, StartPoint, ViewId
from unisono.settings import Settings
from unisono.transfer import Transfers
from unisono.units import KIB, MILLISECOND, SECOND

GROUP = "g"
SETTINGS = Settings(
    service="timestamp",
    state_chunk_bytes=KIB,
    state_rate_bytes=1 << 30,
    state_patience=SECOND,
    state_discovery=SECOND,
)


class Boat:
    """One process: its transfers, its disk, and an application whose state is bytes."""

    def __init__(self, name: str, settings: Settings, ferry: Ferry) -> None:
        self.process = ProcessId(name, 1)
        self.transfers = Transfers(self.process, lambda group, process: Address(process.name))
        self.transfers.join(GROUP, settings, ferry.now)
        self.facts: deque[Fact] = deque()
        self.blobs: dict[str, bytearray] = {}
        self.state = f"initial state of {name}".encode()
        self.has_state = False
        self.loaded: LoadState | None = None
        self.alive = True
        self.saving = True
        self.disk_full = False
        self.progress: list[StateProgress] = []
        self.notes: Counter[str] = Counter()
        self.frames = 0
        self.saves = 0


class Ferry:
    """All processes. Facts are handled in the order in which they come."""

    def __init__(self) -> None:
        self.now = 0
        self.boats: dict[str, Boat] = {}
        self._ends: dict[tuple[str, Channel], tuple[str, Channel]] = {}
        self._accepted = 0
        self._views = 0
        self.stop_after: int | None = None
        """Stop when this many chunks were received in all."""
        self.damage: Callable[[Boat, bytes], bytes] = lambda boat, data: data

    def boat(self, name: str, settings: Settings = SETTINGS) -> Boat:
        boat = self.boats[name] = Boat(name, settings, self)
        return boat

    def founder(self, name: str, state: bytes) -> Boat:
        """A process that has a state, alone."""
        boat = self.boat(name)
        boat.state = state
        self.view(name)
        self.run_for(3 * SECOND)
        assert boat.has_state
        return boat

    def view(self, *names: str, along: tuple[str, ...] = ()) -> View:
        """A view stands for these processes; `along` are those who come from one view, the others each from its own."""
        self._views += 1
        members = tuple(sorted(self.boats[name].process for name in names))
        view_id = ViewId(self._views * 1000, members[0], self._views)
        start = tuple(StartPoint(member, 1, 1) for member in members)
        for name in names:
            own = self.boats[name].process
            side = tuple(sorted(self.boats[other].process for other in along)) if name in along else (own,)
            previous = ViewId(1, own, 0)
            self.deliver(name, View(view_id, previous, members, start, (), transitional=side, role="sender"))
        return View(view_id, None, members, start, ())

    def message(self, view: View, source: str, number: int, *to: str) -> None:
        """A message of one process is delivered; every application adds it to its state."""
        process = self.boats[source].process
        message = Message(process, number, number, number, f" {source}{number}".encode(), view.id, 0)
        for name in to or tuple(member.name for member in view.members):
            if self.boats[name].alive:
                self.deliver(name, message)

    def deliver(self, name: str, event: Event) -> None:
        boat = self.boats[name]
        if isinstance(event, Message) and boat.has_state:
            boat.state += event.data
        self._carry_out(boat, boat.transfers.on_events(GROUP, (event,), self.now))

    def kill(self, name: str) -> None:
        boat = self.boats[name]
        boat.alive = False
        boat.facts.clear()
        for (owner, channel), (other, other_channel) in list(self._ends.items()):
            if owner == name:
                del self._ends[owner, channel]
                self._ends.pop((other, other_channel), None)
                self.boats[other].facts.append(ChannelFailed(other_channel, "peer crashed"))

    def run(self) -> None:
        """Until nothing happens any more without time."""
        while busy := [boat for boat in self.boats.values() if boat.alive and boat.facts]:
            for boat in busy:
                if boat.facts and boat.alive:
                    self._carry_out(boat, boat.transfers.handle(boat.facts.popleft(), self.now))
                if self.stop_after is not None and self.received >= self.stop_after:
                    return

    def run_for(self, span: int) -> None:
        end = self.now + span
        self.run()
        while self.now < end and not (self.stop_after is not None and self.received >= self.stop_after):
            self.now += 10 * MILLISECOND
            for boat in self.boats.values():
                due = boat.transfers.deadline()
                if boat.alive and due is not None and due <= self.now:
                    boat.facts.append(TimePassed())
            self.run()

    def asked(self, name: str) -> str:
        """Whom a process has a channel to."""
        return next(other for (owner, channel), (other, _) in self._ends.items() if owner == name and channel > 0)

    @property
    def received(self) -> int:
        return sum(boat.notes["transfer: chunks received"] for boat in self.boats.values())

    def _carry_out(self, boat: Boat, effects: list[Effect]) -> None:
        name = boat.process.name
        for effect in effects:
            if isinstance(effect, OpenChannel):
                self._open(name, effect)
            elif isinstance(effect, SendFrame):
                end = self._ends.get((name, effect.channel))
                if end is not None:
                    boat.frames += 1
                    data = self.damage(boat, effect.data)
                    self.boats[end[0]].facts.append(FrameReceived(end[1], data))
            elif isinstance(effect, CloseChannel):
                end = self._ends.pop((name, effect.channel), None)
                if end is not None:
                    self._ends.pop(end, None)
                    self.boats[end[0]].facts.append(ChannelFailed(end[1], "closed"))
            elif isinstance(effect, WriteBlob):
                self._write(boat, effect)
            elif isinstance(effect, ReadBlob):
                data = bytes(boat.blobs[effect.blob][effect.offset : effect.offset + effect.size])
                boat.facts.append(StorageDone(effect.request, (data,)))
            elif isinstance(effect, DropBlob):
                boat.blobs.pop(effect.blob, None)
            elif isinstance(effect, SaveState):
                self._save(boat, effect)
            elif isinstance(effect, LoadState):
                self._load(boat, effect)
            elif isinstance(effect, FoundState):
                boat.has_state = True
            elif isinstance(effect, Note):
                boat.notes[effect.reason] += 1
            else:
                assert isinstance(effect, Deliver)
                boat.progress += [event for event in effect.events if isinstance(event, StateProgress)]

    def _open(self, name: str, effect: OpenChannel) -> None:
        other = self.boats.get(effect.to)
        if other is None or not other.alive:
            self.boats[name].facts.append(ChannelFailed(effect.channel, "refused"))
            return
        self._accepted += 1
        accepted = Channel(-self._accepted)
        self._ends[name, effect.channel] = (other.process.name, accepted)
        self._ends[other.process.name, accepted] = (name, effect.channel)
        self._carry_out(other, other.transfers.on_called(accepted, self.now))
        self.boats[name].facts.append(ChannelOpened(effect.channel, effect.to, False))

    def _write(self, boat: Boat, effect: WriteBlob) -> None:
        if boat.disk_full:
            boat.facts.append(StorageFailed(effect.request, "no space left"))
            return
        blob = boat.blobs.setdefault(effect.blob, bytearray())
        blob.extend(bytes(max(0, effect.offset + len(effect.data) - len(blob))))
        blob[effect.offset : effect.offset + len(effect.data)] = effect.data
        boat.facts.append(StorageDone(effect.request))

    def _save(self, boat: Boat, effect: SaveState) -> None:
        boat.saves += 1
        if boat.disk_full:
            boat.facts.append(StateNotSaved(GROUP, effect.request, "no space left"))
        elif boat.saving:
            boat.blobs[effect.blob] = bytearray(boat.state)
            boat.facts.append(StateSaved(GROUP, effect.request, len(boat.state)))

    def _load(self, boat: Boat, effect: LoadState) -> None:
        blob = boat.blobs.get(effect.blob, bytearray())
        boat.loaded = effect
        damaged = tuple(
            place
            for place, piece in enumerate(effect.pieces)
            if bytes(blob[piece.offset : piece.offset + piece.size]).count(b"\xff") == piece.size
        )
        if damaged:
            boat.facts.append(StateNotLoaded(GROUP, effect.request, "damaged", damaged=damaged))
            return
        boat.state = b"".join(bytes(blob[piece.offset : piece.offset + piece.size]) for piece in effect.pieces)
        boat.has_state = True
        boat.facts.append(StateLoaded(GROUP, effect.request))
