"""What statistics cost: members without any hook for them, with statistics off, with events, and with every message.

    make bench-statistics
    python benchmarks/tracing_cost.py --ways "no hooks" off --rounds 60    # two ways only, for a narrower interval

Five ways take turns, so that what else the machine does hits all alike: no hooks at all, off, events into a spool,
every message into a spool, every message to a collector on this machine. Prints for each the messages delivered a
second at the slowest member and the processor time of a delivery at the members; then ratios, each the geometric mean
over the rounds, with the interval in which 95 of 100 means lie when rounds are drawn anew. The collector takes its
processor time from the members where cores are few: that shows in messages a second, and not in processor time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from throughput import MEMBER, run

BARE = Path(__file__).parent / "bare_members.py"
WAYS = ("no hooks", "off", "events to a spool", "all to a spool", "all to a collector")
PAIRS = (
    ("off", "no hooks"),
    ("events to a spool", "off"),
    ("all to a spool", "off"),
    ("all to a collector", "off"),
)
RESAMPLES = 10_000


@contextmanager
def collector(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "unisono", "collect", "--data", str(folder), "--listen", "127.0.0.1:0", "--json"]
    process = subprocess.Popen([*command, "--retain", "1GiB"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.kill()
        process.wait()


def measure(way: str, members: int, size: int, seconds: float, address: str, **settings: Any) -> tuple[float, float]:
    """Messages a second at the slowest member, and microseconds of processor time for a delivery."""
    with tempfile.TemporaryDirectory() as folder:
        chosen: dict[str, Any] = {
            "no hooks": {},
            "off": {},
            "events to a spool": {"trace": folder, "statistics": "events"},
            "all to a spool": {"trace": folder, "statistics": "all"},
            "all to a collector": {"collector": address, "statistics": "all"},
        }[way]
        program = BARE if way == "no hooks" else MEMBER
        answers = run(members, size, seconds, member=program, **settings, **chosen)
    slowest = min(answer["delivered"] for answer in answers) / seconds
    return slowest, 1e6 * sum(answer["spent"] for answer in answers) / sum(answer["all"] for answer in answers)


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """The geometric mean, and where 95 of 100 such means lie when the rounds are drawn anew."""
    logs = [math.log(ratio) for ratio in ratios]
    draw = random.Random(1)
    means = sorted(math.fsum(draw.choices(logs, k=len(logs))) / len(logs) for _ in range(RESAMPLES))
    low, high = means[int(RESAMPLES * 0.025)], means[int(RESAMPLES * 0.975)]
    return math.exp(math.fsum(logs) / len(logs)), math.exp(low), math.exp(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--service", default="source")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, metavar="WAY", help="of: " + ", ".join(WAYS))
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    ways = list(dict.fromkeys(chosen.ways))
    settings = {"service": chosen.service, "datagram_bytes": "60000B"}
    before = os.getloadavg()[0]
    rounds: list[dict[str, tuple[float, float]]] = []
    with tempfile.TemporaryDirectory() as folder, collector(Path(folder)) as address:
        for turn in range(chosen.rounds):
            first = turn // 2 % len(ways)
            order = [*ways[first:], *ways[:first]]
            rounds.append(
                {
                    way: measure(way, chosen.members, chosen.size, chosen.seconds, address, **settings)
                    for way in (order if turn % 2 else reversed(order))
                }
            )
            print(f"round {turn + 1} of {chosen.rounds}", file=sys.stderr)
    figures: dict[str, Any] = {
        "size": chosen.size,
        "members": chosen.members,
        "service": chosen.service,
        "rounds": chosen.rounds,
        "load before": round(before, 1),
        "load after": round(os.getloadavg()[0], 1),
        "cores": os.cpu_count(),
    }
    for way in ways:
        rates = sorted(one[way][0] for one in rounds)
        costs = sorted(one[way][1] for one in rounds)
        figures[way] = {"messages a second": round(rates[len(rates) // 2]), "us": round(costs[len(costs) // 2], 2)}
    for way, base in PAIRS:
        if way not in ways or base not in ways:
            continue
        rate = interval([one[way][0] / one[base][0] for one in rounds])
        cost = interval([one[base][1] / one[way][1] for one in rounds])
        figures[f"{way} / {base}"] = {
            "by messages a second": [round(value, 3) for value in rate],
            "by processor time": [round(value, 3) for value in cost],
        }
    if chosen.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        print(f"{name:32} {figure}")


if __name__ == "__main__":
    main()
