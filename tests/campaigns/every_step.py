"""Kills the forwarder, the slowest client, the joiner, each server and controller after every step of a view change.

`make every-step` runs it, one run for each step and victim: no property may be violated, and always all who live end in
one view with just the living. Every n-th step only, or one situation: `python -m tests.campaigns.every_step --every 10
--situation "a member is gone"`.
"""

from __future__ import annotations

import argparse
import sys
from time import monotonic

from tests.simulation.every_step import SITUATIONS, kill, scenario, steps_of, victims

PROGRESS_SECONDS = 10.0


def campaign(name: str, every: int) -> tuple[int, list[str]]:
    """How many runs one situation took, and what was not as demanded in any of them."""
    drawn = scenario(**SITUATIONS[name])
    steps = steps_of(drawn)
    runs = [(step, victim) for step in range(1, steps + 1, every) for victim in victims(drawn)]
    print(f"{name}: {steps} steps, {len(runs)} runs", flush=True)
    wrong: list[str] = []
    told = monotonic()
    for number, (step, victim) in enumerate(runs, 1):
        found = kill(drawn, step, victim)
        wrong += found
        for complaint in found:
            print(f"{name}: {complaint}", flush=True)
        if monotonic() - told >= PROGRESS_SECONDS:
            told = monotonic()
            print(f"{name}: {number} of {len(runs)} runs, {len(wrong)} complaints", flush=True)
    return len(runs), wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="kill after every n-th step only")
    parser.add_argument("--situation", choices=tuple(SITUATIONS), help="one situation only")
    arguments = parser.parse_args()
    runs = 0
    wrong: list[str] = []
    for name in SITUATIONS if arguments.situation is None else (arguments.situation,):
        count, found = campaign(name, arguments.every)
        runs += count
        wrong += found
    print(f"{runs} runs, {len(wrong)} complaints")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
