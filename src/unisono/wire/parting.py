"""Control messages in parts, put together again: within bounds, in any order, over as many sayings as it takes."""

from __future__ import annotations

from xxhash import xxh3_64_digest

from unisono.identity import ProcessId
from unisono.units import KIB, MIB, SECOND
from unisono.wire.messages import ControlMessage, ControlPacket
from unisono.wire.part_messages import MessagePart
from unisono.wire.reading import read_control
from unisono.wire.refusals import Refusal

MESSAGE_LIMIT_BYTES = 4 * MIB
"""The largest control message that is put together; so much may be kept of one source."""
KEPT_LIMIT_BYTES = 16 * MIB
"""So much may be kept of all sources together."""
KEPT_FOR = 30 * SECOND
"""A message of which nothing more came for so long is given up."""
PART_WEIGHT_BYTES = KIB
"""A part counts for so much at least, so that many small ones are bounded too."""

Key = tuple[ProcessId, int, bytes, int, int]
"""A message by its source and group, its digest, its kind and how many parts it has."""


class Unfinished:
    """The parts of one message that have come, and when the last of them did."""

    __slots__ = ("at", "parts", "weight")

    def __init__(self) -> None:
        self.at = 0
        self.parts: dict[int, bytes] = {}
        self.weight = 0


class Parting:
    """The messages of one process that have come in part. Whose parts take most room loses the oldest of them first."""

    __slots__ = ("_kept", "_weights", "weight")

    def __init__(self) -> None:
        self._kept: dict[Key, Unfinished] = {}
        self._weights: dict[ProcessId, int] = {}
        self.weight = 0

    def join(self, packet: ControlPacket, now: int) -> ControlPacket:
        """A packet with every message that is whole now, and no parts."""
        if not packet.parts:
            return packet
        messages = list(packet.messages)
        refused = list(packet.refused)
        for part in packet.parts:
            whole = self._take(packet, part, now)
            if isinstance(whole, Refusal):
                refused.append(whole)
            elif whole is not None:
                messages.append(whole)
        return ControlPacket(packet.source, packet.group, messages, tuple(refused))

    def _take(self, packet: ControlPacket, part: MessagePart, now: int) -> ControlMessage | Refusal | None:
        source = packet.source
        key = source, packet.group, part.digest, part.kind, part.count
        weight = max(len(part.payload), PART_WEIGHT_BYTES)
        if part.count * len(part.payload) > MESSAGE_LIMIT_BYTES and part.index + 1 < part.count:
            return Refusal.PARTS  # all but the last are of one size
        self._give_up_old(now)
        unfinished = self._kept.pop(key, None) or Unfinished()
        self._kept[key] = unfinished
        unfinished.at = now
        if part.index not in unfinished.parts:
            unfinished.parts[part.index] = part.payload
            unfinished.weight += weight
            self._weigh(source, weight)
        if len(unfinished.parts) == part.count:
            self._drop(key)
            return _read(part, b"".join(unfinished.parts[index] for index in range(part.count)))
        while self._weights[source] > MESSAGE_LIMIT_BYTES + PART_WEIGHT_BYTES:
            self._give_up(source)
        while self.weight > KEPT_LIMIT_BYTES:
            self._give_up(max(self._weights, key=lambda one: (self._weights[one], one)))
        return None

    def _give_up_old(self, now: int) -> None:
        while self._kept and now - self._kept[oldest := next(iter(self._kept))].at > KEPT_FOR:
            self._drop(oldest)

    def _give_up(self, source: ProcessId) -> None:
        """The message of a source that was heard of longest ago."""
        self._drop(next(key for key in self._kept if key[0] == source))

    def _drop(self, key: Key) -> None:
        self._weigh(key[0], -self._kept.pop(key).weight)

    def _weigh(self, source: ProcessId, weight: int) -> None:
        self.weight += weight
        left = self._weights.get(source, 0) + weight
        if left:
            self._weights[source] = left
        else:
            self._weights.pop(source, None)


def _read(part: MessagePart, body: bytes) -> ControlMessage | Refusal:
    if xxh3_64_digest(body) != part.digest:
        return Refusal.PARTS
    whole = read_control(part.kind, body)
    return Refusal.PARTS if isinstance(whole, MessagePart) else whole
