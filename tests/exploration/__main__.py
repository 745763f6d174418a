"""Explores every order of what can happen in one repair of three members: `make explore`.

From each start as many states as LIMIT says, breadth first; it says so where that leaves states out. Starts, the
number of timers and the limit may be given: `python -m tests.exploration --timers 3 "crashed member"`. Then every order
of a leave and of a change of role within DEPARTURES from the calm one, those at most NEAR packets apart.
"""

from __future__ import annotations

import argparse
import sys
from time import process_time

from tests.exploration import schedules
from tests.exploration.explorer import Explorer
from tests.exploration.starts import STARTS
from tests.exploration.whole import Bounds

TIMERS = {"crashed member": 3, "last word": 2}
"""How many timers may expire, where it is not one: with few members alive there are fewer orders."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("starts", nargs="*", help=", ".join((*STARTS, *schedules.STARTS)))
    parser.add_argument("--timers", type=int, help="how many timers may expire")
    parser.add_argument("--sends", type=int, default=0, help="how many messages may be sent meanwhile")
    parser.add_argument("--limit", type=int, default=1_000_000, help="how many states of each start")
    parser.add_argument("--departures", type=int, default=2, help="from the calm order of a leave or a change of role")
    parser.add_argument("--near", type=int, default=2, help="so many packets between two departures at most")
    chosen = parser.parse_args()
    every = (*STARTS, *schedules.STARTS)
    for name in chosen.starts:
        if name not in every:
            parser.error(f"{name!r} is not one of {', '.join(every)}")
    states = violations = 0
    for name in chosen.starts or every:
        if name in schedules.STARTS:
            violations += not explore_orders(name, chosen.departures, chosen.near)
            continue
        timers = TIMERS.get(name, 1) if chosen.timers is None else chosen.timers
        states_here, sound = explore(name, Bounds(timers=timers, sends=chosen.sends), chosen.limit)
        states += states_here
        violations += not sound
    print(f"{states} states explored, {violations} violations")
    return 1 if violations else 0


def explore(name: str, bounds: Bounds, limit: int) -> tuple[int, bool]:
    """Explore from one start; returns how many states there were, and whether all were as they should be."""
    began = process_time()
    print(f"{name}: {bounds.timers} timers, {bounds.losses} losses, {bounds.crashes} crash", flush=True)
    found = Explorer(name, bounds, limit=limit).run(
        lambda states, waiting: print(f"  {states} states, {waiting} to look at", flush=True)
    )
    extent = "all there are" if found.whole else "not all there are"
    print(
        f"  {found.states} states ({extent}), {found.ends} calm ends, {found.members} states of single members, "
        f"{process_time() - began:.0f} s of CPU"
    )
    if found.violation is not None:
        print(f"  {found.violation}")
        for number, words in enumerate(found.path, 1):
            print(f"  {number:3}. {words}")
    return found.states, found.violation is None


def explore_orders(name: str, departures: int, near: int) -> bool:
    """Try every order of a leave or of a change of role; returns whether all were as they should be."""
    began = process_time()
    found = schedules.explore(name, departures, near)
    spent = process_time() - began
    print(
        f"{name}: {found.orders} orders of {found.packets} packets, {departures} departures, {spent:.0f} s of CPU",
        flush=True,
    )
    if found.complaint is not None:
        print(f"  {found.complaint}")
        for packet, kind in found.order:
            print(f"  packet {packet}: {kind}")
    return found.complaint is None


if __name__ == "__main__":
    sys.exit(main())
