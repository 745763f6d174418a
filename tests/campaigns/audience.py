"""Receivers at their full number: a hundred that come and a hundred that go in a second, and a thousand that stay.

`make audience` runs it; it takes a quarter of an hour or more. `--seconds`, `--rate` and sizes make it shorter:
`python -m tests.campaigns.audience churn --rate 20 --seconds 10`, `python -m tests.campaigns.audience large 10 100`.
"""

from __future__ import annotations

import argparse
import sys
from itertools import combinations
from time import process_time

from tests.simulation.audiences import large_audience, run_crowd
from tests.simulation.churning import BEGINS, ROUND_TRIP, latencies, receiver_churn, repairs
from tests.simulation.worlds import run_world
from unisono.units import MILLISECOND

GROWTH = 1.25
"""Control traffic of a sender is at no size more than so many times what it is at any smaller one."""


def churn(rate: float, seconds: int, seed: int) -> bool:
    """Receivers come and go: no repair, no stall, every property held."""
    began = process_time()
    world = run_world(receiver_churn(seed, rate, seconds + 2))
    quiet = run_world(receiver_churn(seed, rate, min(seconds, 10) + 2, churn=False))
    usual, longest = max(latencies(quiet, BEGINS).values()), max(latencies(world, BEGINS).values())
    print(
        f"\n{rate:g} receivers come, and as many go, in a second, for {seconds} s"
        f" ({process_time() - began:.0f} s of CPU)"
    )
    for name, value in (
        ("joins of receivers and senders", world.counters["JOIN"]),
        ("leaves", world.counters["LEAVE"]),
        ("messages sent", world.counters["SEND"]),
        ("deliveries", world.counters["DELIVER"]),
        ("repairs of the membership while they come", repairs(world, BEGINS)),
        ("properties violated", len(world.monitors.violations)),
        ("longest from a send to a delivery of it", f"{longest / MILLISECOND:.2f} ms"),
        ("the same where no receiver is", f"{usual / MILLISECOND:.2f} ms"),
        ("a round trip", f"{ROUND_TRIP / MILLISECOND:.2f} ms"),
    ):
        print(f"  {name:<44} {value}")
    return not world.monitors.violations and not repairs(world, BEGINS) and longest <= usual + ROUND_TRIP


def large(sizes: list[int], seconds: int, seed: int) -> bool:
    """Receivers that stay: what a sender spends does not grow, everybody gets everything, and the count is right."""
    good, control = True, []
    for receivers in sorted(sizes):
        began = process_time()
        figures = run_crowd(large_audience(receivers, seconds, seed))
        print(f"\n{receivers} receivers, 16 senders ({process_time() - began:.0f} s of CPU)")
        for name, value in (
            ("bytes of control a second, each sender", f"{figures.control:.0f}"),
            ("deliveries", figures.delivered),
            ("messages sent after all had come", figures.sent),
            ("of which every member got every one", "yes" if figures.whole else "no"),
            ("properties violated", figures.violations),
            ("members, and as they were counted", f"{figures.members}, {figures.estimate}"),
        ):
            print(f"  {name:<44} {value}", flush=True)
        good &= figures.counted and figures.whole and not figures.violations
        control.append(figures.control)
    return good and all(later <= GROWTH * earlier for earlier, later in combinations(control, 2))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["churn", "large", "all"], nargs="?", default="all")
    parser.add_argument("sizes", type=int, nargs="*", default=[10, 250, 500, 1000])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--seconds", type=int, default=60, help="how long receivers come and go")
    parser.add_argument("--stay", type=int, default=20, help="how many seconds receivers stay")
    chosen = parser.parse_args()
    good = True
    if chosen.what != "large":
        good &= churn(chosen.rate, chosen.seconds, chosen.seed)
    if chosen.what != "churn":
        good &= large(chosen.sizes, chosen.stay, chosen.seed)
    print("\nas demanded" if good else "\nnot as demanded")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
