"""Where sites lie: regions on a plane, sites scattered around their middles, each behind a line of its own.

The way between two sites is the distance on the plane plus both lines; the farther it is, the more hops it takes. So
what is near is near in every respect, as on a real network, and a distance composed of others means something.
"""

from __future__ import annotations

from math import cos, hypot, pi, sin, sqrt

from unisono.simulation.streams import stream
from unisono.units import MICROSECOND, MILLISECOND

REGION_RADIUS = MILLISECOND
"""How far from the middle of its region a site may lie: some two hundred kilometres."""
ACCESS = (50 * MICROSECOND, 500 * MICROSECOND)
"""The line of a site."""
PLANE = 60 * MILLISECOND
"""How wide the plane is."""
APART = 2 * REGION_RADIUS + 6 * MILLISECOND
"""How far the middles of two regions are apart at least, while there is room."""
HOP = 5 * MILLISECOND
"""How far one hop more gets."""
HOPS_LIMIT = 30


class Geography:
    """The places of all sites, drawn from a stream of their own."""

    __slots__ = ("_access", "_places", "regions")

    def __init__(self, sites: int, regions: int, seed: int) -> None:
        random = stream(seed, "geography")
        middles: list[tuple[float, float]] = []
        for _ in range(regions):
            for _ in range(50):
                middle = (random.random() * PLANE, random.random() * PLANE)
                if all(hypot(middle[0] - x, middle[1] - y) >= APART for x, y in middles):
                    break
            middles.append(middle)
        self.regions = [site % regions for site in range(sites)]
        self._places: list[tuple[float, float]] = []
        self._access: list[int] = []
        for site in range(sites):
            x, y = middles[self.regions[site]]
            angle, radius = 2 * pi * random.random(), REGION_RADIUS * sqrt(random.random())
            self._places.append((x + radius * cos(angle), y + radius * sin(angle)))
            self._access.append(random.randint(*ACCESS))

    def _plane(self, a: int, b: int) -> float:
        (x, y), (u, v) = self._places[a], self._places[b]
        return hypot(x - u, y - v)

    def latency(self, a: int, b: int) -> int:
        """One way, the same in both directions."""
        return int(self._plane(a, b)) + self._access[a] + self._access[b]

    def hops(self, a: int, b: int) -> int:
        return min(HOPS_LIMIT, 1 + int(self._plane(a, b)) // HOP)
