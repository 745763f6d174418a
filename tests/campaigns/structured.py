"""A thousand clients under ten controllers: what one more costs each of them, against the same among a hundred.

`make structured` runs it; it takes some minutes. Sizes make it shorter:
`python -m tests.campaigns.structured 20 200`.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from time import process_time

from tests.simulation.large_sessions import bytes_of_a_join

CONTROLLERS = 10
GROWTH = 2.0
"""A join costs a client at most so many times what it does in the group that is next in size."""


def main(sizes: list[int]) -> int:
    costs = []
    for members in sorted(sizes):
        began = process_time()
        costs.append(bytes_of_a_join(members, CONTROLLERS))
        print(f"{members} clients: {costs[-1]} bytes of each for one join ({process_time() - began:.0f} s of CPU)")
    return 0 if all(0 < more <= GROWTH * fewer for fewer, more in pairwise(costs)) else 1


if __name__ == "__main__":
    sys.exit(main([int(size) for size in sys.argv[1:]] or [100, 1000]))
