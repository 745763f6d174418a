"""Two commits, measured side by side: runs of each take turns, so that what else the machine does hits both alike.

    make bench-compare BASE=main~1

Prints the median of the paired ratios and their range; below 1 the working tree is slower. The engine alone is
measured in processor time, best of five, and shows a change of a tenth on a busy machine; the group by the clock.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
GROUP_PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
from throughput import throughput
print(throughput(4, int(sys.argv[2]), float(sys.argv[3]), service="source", datagram_bytes="60000B"))
"""
ENGINE_PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
from engine_path import measure
size, rounds = int(sys.argv[2]), int(float(sys.argv[3]) * 30)
taken = [measure(size, 60_000, max(1, 50_000 // size), rounds, False) for _ in range(5)]
print(1e6 / min(send + 4 * receive for send, receive in taken))
"""


def figure(tree: Path, probe: str, size: int, seconds: float) -> float:
    """Messages a second with the code of that tree and the benchmark of this one."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, "-c", probe, str(ROOT / "benchmarks"), str(size), str(seconds)]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def compare(base: Path, name: str, probe: str, size: int, seconds: float, rounds: int) -> None:
    pairs = []
    for turn in range(rounds):
        order = (base, ROOT) if turn % 2 else (ROOT, base)
        taken = {tree: figure(tree, probe, size, seconds) for tree in order}
        pairs.append((taken[base], taken[ROOT]))
        print(f"{name}: round {turn + 1} of {rounds}", file=sys.stderr)
    ratios = sorted(new / old for old, new in pairs)
    old, new = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(
        f"{name:22} base {old:10.0f}  tree {new:10.0f}  ratio {statistics.median(ratios):.3f}"
        f"  ({ratios[0]:.3f} to {ratios[-1]:.3f}), slower in {sum(ratio < 1 for ratio in ratios)} of {rounds} rounds"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="a commit")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2.0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(base), chosen.base], cwd=ROOT, check=True)
        try:
            for size in (1000, 100):
                compare(base, f"engine alone, {size} B", ENGINE_PROBE, size, chosen.seconds, chosen.rounds)
            compare(base, "four members, 1000 B", GROUP_PROBE, 1000, chosen.seconds, chosen.rounds)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(base)], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
