"""Splits five real processes under load and puts them together again, many times, and says how long the merge took.

`make partitions` runs it: 50 partitions of 3 and 2, and 50 into five islands. It needs root and `ip`. Every merged view
must stand within 2 s of the healing, and every property must hold over each trace. Fewer runs may be asked for:
`python -m tests.campaigns.partitions --runs 5`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from time import monotonic

from tests.network.partition import Islands, part_and_meet
from tests.network.switch import Switch
from tests.network.test_namespaces import namespaces_work

SHAPES: dict[str, Islands] = {"3-2": [[0, 1, 2], [3, 4]], "5-way": [[0], [1], [2], [3], [4]]}
GOAL_SECONDS = 2.0


def campaign(name: str, runs: int, folder: Path) -> list[str]:
    """What was not as demanded in any run."""
    wrong: list[str] = []
    taken: list[float] = []
    for number in range(1, runs + 1):
        began = monotonic()
        trace = folder / f"{name}-{number}"
        complaints: list[str] = []
        words = "never merged"
        try:
            with Switch(5) as switch:
                happened = part_and_meet(switch, SHAPES[name], f"{name}-{os.getpid()}-{number}", trace)
        except AssertionError as error:
            complaints.append(str(error).partition("\n")[0])
        else:
            taken.append(happened.merge_seconds)
            words = f"merged {taken[-1] * 1000:.0f} ms after the healing"
            complaints += [str(violation) for violation in happened.violations]
            if len({view.view for view in happened.merged().values()}) != 1:
                complaints.append("not one merged view")
            if taken[-1] > GOAL_SECONDS:
                complaints.append(f"merged after {taken[-1]:.2f} s")
        if complaints:
            wrong += [f"{trace}: {complaint}" for complaint in complaints]
        else:
            rmtree(trace)  # only what went wrong is kept
        verdict = "as demanded" if not complaints else "; ".join(complaints[:3])
        print(
            f"{name} {number} of {runs}: {words}, {verdict}"
            f" (run of {monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f})",
            flush=True,
        )
    if taken:
        print(
            f"{name}: from healing to the last member's merged view, ms: median {statistics.median(taken) * 1000:.0f},"
            f" least {min(taken) * 1000:.0f}, most {max(taken) * 1000:.0f}",
            flush=True,
        )
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", action="append", choices=list(SHAPES), help="only this one; both by default")
    parser.add_argument("--runs", type=int, default=50)
    chosen = parser.parse_args()
    if not namespaces_work():
        print("network namespaces need root and `ip`", file=sys.stderr)
        return 2
    folder = Path(mkdtemp(prefix="unisono-partitions-"))
    wrong = [complaint for shape in chosen.shape or SHAPES for complaint in campaign(shape, chosen.runs, folder)]
    if wrong:
        print("\nnot as demanded:", *wrong, sep="\n  ")
        return 1
    rmtree(folder)
    print("\nas demanded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
