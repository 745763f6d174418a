"""What the hooks for statistics cost the engine alone while they are off: with and without them, in turns.

Prints the part of its speed that the engine keeps, by processor time: the mean over the rounds, and the interval in
which 95 of 100 such means lie when the rounds are drawn anew.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tracing_cost import interval

PROGRAM = """
import sys
if sys.argv[1] == "no hooks":
    from bare_members import BareFinder
    sys.meta_path.insert(0, BareFinder())
from engine_path import measure
print(sum(measure(1000, 60_000, 50, 400, trace=False)))
"""


def cost(way: str) -> float:
    """Microseconds of processor time for a message, sent and received."""
    here = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", PROGRAM, way], cwd=here, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=16)
    rounds = parser.parse_args().rounds
    kept = []
    for turn in range(rounds):
        ways = ("no hooks", "off") if turn % 2 else ("off", "no hooks")
        costs = {way: cost(way) for way in ways}
        kept.append(costs["no hooks"] / costs["off"])
    mean, low, high = interval(kept)
    print(f"off keeps {mean:.3f} ({low:.3f} to {high:.3f}) of the speed without hooks, {rounds} rounds")


if __name__ == "__main__":
    main()
