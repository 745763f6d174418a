"""One state that one provider offers: which of its chunks are known, asked for, on their way to the disk, and there."""

from __future__ import annotations

from unisono.engine import Piece
from unisono.transfer.store import Store
from unisono.units import MILLISECOND, SECOND
from unisono.wire.transfer_frames import DIGEST_BYTES, PAGE_DIGESTS, Chunk, Offer, Page, WantChunk, WantPage

WINDOW = 4
"""Chunks that are asked for, or on their way to the disk, at a time."""
BURST = 20 * MILLISECOND
"""So much may be asked for ahead of the rate: no clock wakes anybody for every small chunk."""
STEPS = 100
"""About so often the application is told how far it has come."""


class Download:
    """What is known of an offer, and what of it is here."""

    __slots__ = (
        "_asked",
        "_missing",
        "_next_at",
        "_page",
        "_told",
        "_under_way",
        "digests",
        "due",
        "offer",
        "received",
    )

    def __init__(self, offer: Offer, now: int) -> None:
        self.offer = offer
        self.digests: list[bytes] = []
        self.received = 0
        """Bytes of the state that are here, from whomever they came."""
        self.due: int | None = None
        """When the next chunk may be asked for."""
        self._missing: dict[bytes, list[int]] = {}
        self._asked: dict[int, bytes] = {}
        self._under_way: set[bytes] = set()
        """Asked for, or on their way to the disk."""
        self._page = False
        self._next_at = now
        self._told = 0

    @property
    def complete(self) -> bool:
        """Every chunk is here."""
        known = len(self.digests) == self.offer.chunks
        return known and not self._missing

    @property
    def waits_for_peer(self) -> bool:
        return self._page or bool(self._asked)

    def next_frames(self, rate: int, now: int) -> list[WantPage | WantChunk]:
        """What to ask for now, at this many bytes a second."""
        frames: list[WantPage | WantChunk] = []
        self.due = None
        for digest, places in self._missing.items():
            if digest in self._under_way:
                continue
            if len(self._under_way) >= WINDOW:
                break
            if self._next_at > now + BURST:
                self.due = self._next_at - BURST
                break
            self._asked[places[0]] = digest
            self._under_way.add(digest)
            self._next_at = max(self._next_at, now) + self.offer.chunk_size(places[0]) * SECOND // rate
            frames.append(WantChunk(places[0]))
        known = len(self.digests)
        if not self._page and known < self.offer.chunks and len(self._missing) <= 2 * WINDOW:
            self._page = True
            frames.append(WantPage(known))
        return frames

    def on_page(self, page: Page, store: Store) -> bool:
        """Digests came; whether they are those that were asked for."""
        first = len(self.digests)
        count = min(PAGE_DIGESTS, self.offer.chunks - first)
        if not self._page or page.first != first or len(page.digests) != count * DIGEST_BYTES:
            return False
        self._page = False
        for index in range(count):
            digest = page.digests[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES]
            self.digests.append(digest)
            if digest in store:
                self.received += self.offer.chunk_size(first + index)
            else:
                self._missing.setdefault(digest, []).append(first + index)
                if store.is_writing(digest):  # an earlier provider gave it
                    self._under_way.add(digest)
        return True

    def on_chunk(self, chunk: Chunk) -> bytes | None:
        """The digest that a chunk must have, or None where it was not asked for or has the wrong size."""
        if chunk.index not in self._asked or len(chunk.data) != self.offer.chunk_size(chunk.index):
            return None
        return self._asked.pop(chunk.index)

    def on_stored(self, piece: Piece) -> bool:
        """A chunk is here, wherever it came from; whether that is worth telling."""
        self._under_way.discard(piece.digest)
        places = self._missing.pop(piece.digest, ())
        self.received += sum(self.offer.chunk_size(place) for place in places)
        if self.received - self._told < self.offer.size // STEPS and self.received < self.offer.size:
            return False
        self._told = self.received
        return True

    def on_not_stored(self, digest: bytes, again_at: int) -> None:
        """A chunk is to be asked for again, after a while."""
        self._under_way.discard(digest)
        self._next_at = max(self._next_at, again_at)
