"""Damage to a datagram on its way: a flipped bit, a cut, an extension, or a splice with the one before."""

from __future__ import annotations

from random import Random


def damage(random: Random, data: bytes, previous: bytes) -> bytes:
    """The datagram as it arrives when the network damages it; never what was sent."""
    kind = random.randrange(4)
    if kind == 1 and len(data) > 1:
        return data[: random.randrange(len(data))]
    if kind == 2:
        return data + random.randbytes(random.randint(1, 64))
    if kind == 3 and previous and previous != data:
        cut = random.randrange(1, min(len(data), len(previous)) + 1)
        spliced = data[:cut] + previous[cut:]
        if spliced not in (data, previous):
            return spliced
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]
