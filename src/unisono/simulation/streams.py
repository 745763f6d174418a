"""Named streams of a seed: what one part draws does not move what another part draws."""

from __future__ import annotations

from random import Random


def stream(seed: int, name: str) -> Random:
    """The generator of that name; the same on every machine and for every hash seed."""
    return Random(f"{seed}/{name}")
