"""The side of a transfer that gives: one snapshot of a point serves all who want it, and goes when nobody does."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

from unisono.engine import Channel, CloseChannel, DropBlob, Effect, Note, ReadBlob, SaveState, SendFrame
from unisono.identity import Point, ProcessId
from unisono.settings import Settings
from unisono.transfer.reasons import Reason
from unisono.transfer.track import Track
from unisono.wire.transfer_frames import (
    PAGE_DIGESTS,
    Chunk,
    FromNewcomer,
    FromProvider,
    Known,
    Lack,
    Lacking,
    Offer,
    Page,
    Want,
    WantChunk,
    WantPage,
    write_transfer_frame,
)

SERVED_LIMIT = 4
"""Newcomers that one process gives the state of a group at a time; others ask elsewhere, or again."""
READS_LIMIT = 16
"""What one newcomer may have asked for and not got."""


class Snapshot:
    """A state as of a point, in a blob; without an offer while the application still writes it."""

    __slots__ = ("blob", "clients", "digests", "offer", "point", "request")

    def __init__(self, request: int, blob: str, point: Point) -> None:
        self.request = request
        self.blob = blob
        self.point = point
        self.offer: Offer | None = None
        self.clients: set[Channel] = set()
        self.digests: dict[int, bytes] = {}


class Read(NamedTuple):
    """A chunk that is read, to be given or for its digest in a page."""

    place: int
    for_page: bool


class Client:
    """A newcomer at the other end of a channel."""

    __slots__ = ("channel", "floor", "heard", "page", "process", "reads", "snapshot")

    def __init__(self, channel: Channel, want: Want, now: int) -> None:
        self.channel = channel
        self.process: ProcessId = want.process
        self.floor = want.floor
        self.heard = now
        self.snapshot: Snapshot | None = None
        self.page: int | None = None
        self.reads: dict[int, Read] = {}


class Serving:
    """What one process gives of one group."""

    __slots__ = ("_clients", "_group", "_new_request", "_reading", "_settings", "_snapshots", "_track")

    def __init__(self, group: str, settings: Settings, track: Track, new_request: Callable[[], int]) -> None:
        self._group = group
        self._settings = settings
        self._track = track
        self._new_request = new_request
        self._clients: dict[Channel, Client] = {}
        self._snapshots: list[Snapshot] = []
        self._reading: dict[int, Channel] = {}

    @property
    def channels(self) -> list[Channel]:
        return sorted(self._clients)

    @property
    def waits(self) -> bool:
        """Whether somebody waits for a snapshot that was not begun yet."""
        return any(client.snapshot is None for client in self._clients.values())

    def deadline(self) -> int | None:
        heard = [client.heard for client in self._clients.values()]
        return min(heard) + self._settings.state_patience if heard else None

    def on_time(self, now: int) -> list[Effect]:
        """Let go of newcomers that ask for nothing."""
        effects: list[Effect] = []
        for channel, client in sorted(self._clients.items()):
            if client.heard + self._settings.state_patience <= now:
                if client.snapshot is None or client.snapshot.offer is None or client.reads:
                    client.heard = now  # it waits for this process, and not the other way round
                else:
                    effects += [Note(Reason.SILENT_NEWCOMER), CloseChannel(channel), *self.on_end(channel)]
        return effects

    def on_want(self, channel: Channel, want: Want, now: int) -> list[Effect]:
        if len(self._clients) >= SERVED_LIMIT:
            return self.refuse(channel, Lack.BUSY)
        self._clients[channel] = Client(channel, want, now)
        return self.advance()

    def on_end(self, channel: Channel) -> list[Effect]:
        """A newcomer has all it wants, or is gone."""
        client = self._clients.pop(channel, None)
        if client is None:
            return []
        for request in client.reads:
            self._reading.pop(request, None)
        if client.snapshot is None:
            return []
        client.snapshot.clients.discard(channel)
        return self._tidy()

    def advance(self) -> list[Effect]:
        """Give every newcomer a snapshot that serves it; begin one where there is none and the point has come."""
        effects: list[Effect] = []
        for channel, client in sorted(self._clients.items()):
            if client.snapshot is not None:
                continue
            snapshot = self._find(client.floor)
            if snapshot is None and all(one.offer is not None for one in self._snapshots):
                point = self._track.point
                if point is not None and self._track.covers(point, client.floor):
                    request = self._new_request()
                    snapshot = Snapshot(request, f"snapshot-{request}", point)
                    self._snapshots.append(snapshot)
                    effects.append(SaveState(self._group, request, snapshot.blob))
            if snapshot is not None:
                client.snapshot = snapshot
                snapshot.clients.add(channel)
                if snapshot.offer is not None:
                    effects.append(_frame(channel, snapshot.offer))
        return effects

    def on_saved(self, request: int, size: int) -> list[Effect]:
        for snapshot in self._snapshots:
            if snapshot.request == request:
                snapshot.offer = Offer(snapshot.point, size, self._settings.state_chunk_bytes)
                offered = [_frame(channel, snapshot.offer) for channel in sorted(snapshot.clients)]
                return [*offered, *self._tidy(), *self.advance()]
        return []

    def on_not_saved(self, request: int) -> list[Effect]:
        failed = next((snapshot for snapshot in self._snapshots if snapshot.request == request), None)
        return [] if failed is None else [Note(Reason.NOT_SAVED), *self._fail(failed)]

    def on_frame(self, channel: Channel, frame: FromNewcomer, now: int) -> list[Effect]:
        client = self._clients[channel]
        client.heard = now
        snapshot = client.snapshot
        offer = None if snapshot is None else snapshot.offer
        if snapshot is not None and offer is not None and len(client.reads) < READS_LIMIT:
            if isinstance(frame, WantPage) and client.page is None and frame.first < offer.chunks:
                client.page = frame.first
                return self._go_on_with_page(client, snapshot, offer)
            if isinstance(frame, WantChunk) and frame.index < offer.chunks:
                return [self._read(client, snapshot, offer, Read(frame.index, for_page=False))]
        return [Note(Reason.BAD_NEWCOMER_FRAME), CloseChannel(channel), *self.on_end(channel)]

    def reads(self, request: int) -> bool:
        """Whether a request to the disk is one of these."""
        return request in self._reading

    def on_read(self, request: int, data: bytes | None) -> list[Effect]:
        """A chunk came from the disk, or could not be read."""
        client = self._clients[self._reading.pop(request)]
        read, snapshot = client.reads.pop(request), client.snapshot
        assert snapshot is not None, "only a client of a snapshot reads"
        assert snapshot.offer is not None, "only what is written is read"
        if data is None or len(data) != snapshot.offer.chunk_size(read.place):
            return [Note(Reason.NOT_READ), *self._fail(snapshot)]
        if not read.for_page:
            return [Note(Reason.SERVED), _frame(client.channel, Chunk(read.place, data))]
        snapshot.digests[read.place] = sha256(data).digest()
        return self._go_on_with_page(client, snapshot, snapshot.offer)

    def close(self) -> list[Effect]:
        """This process leaves the group."""
        effects: list[Effect] = []
        for channel in self.channels:
            effects += self.refuse(channel, Lack.OUTSIDE)
        self._clients.clear()
        self._reading.clear()
        effects += [DropBlob(snapshot.blob) for snapshot in self._snapshots]
        self._snapshots.clear()
        return effects

    def refuse(self, channel: Channel, lack: Lack, known: tuple[Known, ...] = ()) -> list[Effect]:
        """Say why no state comes from here, and hang up."""
        view = self._track.view
        return [_frame(channel, Lacking(lack, None if view is None else view.id, known)), CloseChannel(channel)]

    def _find(self, floor: Point) -> Snapshot | None:
        """A snapshot, written or being written, that is not before a point."""
        return next((one for one in self._snapshots if self._track.covers(one.point, floor)), None)

    def _go_on_with_page(self, client: Client, snapshot: Snapshot, offer: Offer) -> list[Effect]:
        """Read the chunks of a page whose digests are not known yet, one after the other, and send it when all are."""
        assert client.page is not None, "a page is being made"
        first, last = client.page, min(client.page + PAGE_DIGESTS, offer.chunks)
        for index in range(first, last):
            if index not in snapshot.digests:
                return [self._read(client, snapshot, offer, Read(index, for_page=True))]
        client.page = None
        return [_frame(client.channel, Page(first, b"".join(snapshot.digests[index] for index in range(first, last))))]

    def _read(self, client: Client, snapshot: Snapshot, offer: Offer, read: Read) -> ReadBlob:
        request = self._new_request()
        client.reads[request] = read
        self._reading[request] = client.channel
        return ReadBlob(snapshot.blob, request, read.place * offer.chunk_bytes, offer.chunk_size(read.place))

    def _fail(self, snapshot: Snapshot) -> list[Effect]:
        """A snapshot is of no use: who wants it asks another."""
        effects: list[Effect] = []
        self._snapshots.remove(snapshot)
        for channel in sorted(snapshot.clients):
            effects += self.refuse(channel, Lack.FAILED)
            for request in self._clients.pop(channel).reads:
                del self._reading[request]
        return [*effects, DropBlob(snapshot.blob), *self.advance()]

    def _tidy(self) -> list[Effect]:
        """Throw away what nobody wants and nobody writes any more."""
        unwanted = [one for one in self._snapshots if one.offer is not None and not one.clients]
        self._snapshots = [one for one in self._snapshots if one not in unwanted]
        return [DropBlob(snapshot.blob) for snapshot in unwanted]


def _frame(channel: Channel, frame: FromProvider) -> SendFrame:
    return SendFrame(channel, write_transfer_frame(frame))
