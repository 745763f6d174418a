"""How many requests and repairs a lost packet costs, and how long its losers wait, in a model of the group.

Prints one line for each size, place and kind of loss: averages for each lost packet (after the first twenty), waits in
round trips between a receiver and the source, and the averages in each quarter of the run. Distances are known within
15 %. With --plain for the rule of 000 figures 3.1 and 3.2.
"""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.simulation.repair_members import Plain, Suppressed
from tests.simulation.repair_model import (
    PERIOD,
    Distances,
    Losses,
    Make,
    World,
    common,
    independent,
    sites,
    star,
)
from unisono.units import MILLISECOND, SECOND

HEADER = (
    "| rule | receivers | place | loss | requests | named | repairs | median | p99 "
    "| requests by quarter | repairs by quarter |"
)


def line(rule: str, make: Make, place: str, distances: Distances, loss: str, losses: Losses, control: float) -> str:
    tally = World(make, distances, losses, seed=1, control_loss=control).run()
    lost = sorted(losses.losers)
    whole = tally.part(lost[min(20, len(lost) // 4)], losses.packets)
    marks = [losses.packets * quarter // 4 for quarter in range(5)]
    quarters = [tally.part(first, last - 1) for first, last in pairwise(marks)]
    cells = [
        rule,
        str(len(distances) - 1),
        place,
        loss,
        f"{whole.requests:.2f}",
        f"{whole.named:.2f}",
        f"{whole.repairs:.2f}",
        f"{whole.median:.2f}",
        f"{whole.p99:.1f}",
        " ".join(f"{quarter.requests:.2f}" for quarter in quarters),
        " ".join(f"{quarter.repairs:.2f}" for quarter in quarters),
    ]
    unrepaired = f" {tally.unrepaired} losses stayed" if tally.unrepaired else ""
    return "| " + " | ".join(cells) + " |" + unrepaired


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[4, 16, 64, 256, 1000])
    parser.add_argument("--seconds", type=int, default=60, help="simulated, fifty packets in each")
    parser.add_argument("--plain", action="store_true", help="the rule of the document, instead of the one in use")
    parser.add_argument("--places", nargs="+", default=["sites", "star 2 ms", "star 35 ms"])
    arguments = parser.parse_args()
    packets = arguments.seconds * SECOND // PERIOD
    rule, make = ("plain", Plain) if arguments.plain else ("unisono", Suppressed)
    print(HEADER)
    print("|" + " --- |" * HEADER.count(" | ") + " --- |")
    for size in arguments.sizes:
        number = round(size**0.5)
        places = {
            "sites": sites(number, -(-size // number), Random(5)),
            "star 2 ms": star(size, 2 * MILLISECOND),
            "star 35 ms": star(size, 35 * MILLISECOND),
        }
        for place in arguments.places:
            distances = places[place]
            receivers = len(distances) - 1
            together = common(packets, 25, range(1, receivers + 1))
            print(line(rule, make, place, distances, "common", together, 0.0), flush=True)
            alone = independent(packets, receivers, 0.05, Random(3))
            print(line(rule, make, place, distances, "5 % each", alone, 0.05), flush=True)


if __name__ == "__main__":
    main()
