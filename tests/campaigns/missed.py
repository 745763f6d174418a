"""Plants each bug that an exploration catches, and counts the seeds of chaos that catch it too.

`make missed` runs it: 1,000 seeds for each bug, three members in timestamp order, the faults that chaos draws. It says
what exploring is worth: an order of events that chance hardly ever brings about is reached by trying all of them.
`python -m tests.campaigns.missed --seeds 100 attempts` tries fewer, of the bugs that have that word in their names.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.exploration.explorer import Explorer
from tests.exploration.whole import Bounds
from tests.simulation.planted_membership_bugs import PLANTED_MEMBERSHIP
from tests.simulation.test_planted_membership_bugs import EXPLORE, STATES, TIMERS
from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.world import run

BUGS = {bug.name: bug for bug in PLANTED_MEMBERSHIP if bug.scenario.startswith(EXPLORE)}
SMALL = ("members=3", 'options.service="timestamp"', "member=[]", "duration=8s")


def plant(name: str) -> None:
    BUGS[name].plant(pytest.MonkeyPatch())


def violated(seed: int) -> list[str]:
    return list(run(draw(load("chaos", SMALL), seed)).violated)


def found_by_exploring(name: str) -> int:
    """How many states it takes, or 0 if all of them show nothing."""
    plant(name)
    states = 0
    for timers in TIMERS:
        found = Explorer(BUGS[name].scenario.removeprefix(EXPLORE), Bounds(timers=timers), limit=STATES).run()
        states += found.states
        if found.violation is not None:
            return states
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("word", nargs="?", default="", help="; ".join(BUGS))
    parser.add_argument("--seeds", type=int, default=1000)
    chosen = parser.parse_args()
    names = [name for name in BUGS if chosen.word in name]
    if not names:
        parser.error(f"{chosen.word!r} is in none of these: {'; '.join(BUGS)}")
    missed = 0
    for name in names:
        with ProcessPoolExecutor(1) as pool:
            states = pool.submit(found_by_exploring, name).result()
        words = f"explored: caught within {states} states" if states else "explored: not caught"
        with ProcessPoolExecutor(os.cpu_count(), initializer=plant, initargs=(name,)) as pool:
            caught = [seed for seed, found in enumerate(pool.map(violated, range(chosen.seeds))) if found]
        missed += bool(states) and not caught
        print(f"{name}: {words}; caught by {len(caught)} of {chosen.seeds} seeds {caught[:5] or ''}", flush=True)
    print(f"{missed} bugs are caught by exploring and by no seed")
    return 0 if missed else 1


if __name__ == "__main__":
    sys.exit(main())
