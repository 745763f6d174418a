"""The common workload: N members in one group on this machine, every one sends as fast as the group lets it.

Prints messages delivered a second at the slowest member, beside the load of the machine, for each size; and the latency
to the last member at a low fixed rate. Compare ratios within one run: machines are noisy.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MEMBER = Path(__file__).parent / "members.py"


def run(
    members: int,
    size: int,
    seconds: float,
    rate: float = 0.0,
    transport: str = "multicast",
    member: Path = MEMBER,
    **settings: Any,
) -> Any:
    """What every member reports; `member` is the program that each of them runs."""
    realm = f"bench-{os.getpid()}-{time.monotonic_ns()}"
    processes = []
    for index in range(members):
        process = subprocess.Popen(
            [sys.executable, str(member)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        charge = {
            "name": f"m{index}",
            "realm": realm,
            "members": members,
            "size": size,
            "rate": rate,
            "batch": max(1, 50_000 // size),
            "transport": transport,
            "settings": settings,
        }
        assert process.stdin is not None
        process.stdin.write(json.dumps(charge) + "\n")
        processes.append(process)
    try:
        for process in processes:
            assert process.stdout is not None
            json.loads(process.stdout.readline())
        warm = time.monotonic_ns() + int(1e9)
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(json.dumps([warm, warm + int(seconds * 1e9)]) + "\n")
        return [json.loads(process.stdout.readline()) for process in processes if process.stdout is not None]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def throughput(members: int, size: int, seconds: float, **settings: Any) -> float:
    """Messages a second at the slowest member."""
    delivered: list[int] = [answer["delivered"] for answer in run(members, size, seconds, **settings)]
    return min(delivered) / seconds


def latency(members: int, rate: float, seconds: float, **settings: Any) -> tuple[float, float]:
    """Milliseconds from send to delivery at the last member, median and 99th percentile over all messages."""
    last: dict[tuple[str, int], list[int]] = {}
    for answer in run(members, 100, seconds, rate, **settings):
        for source, number, latency in answer["latencies"]:
            last.setdefault((source, number), []).append(latency)
    latencies = sorted(max(each) / 1e6 for each in last.values() if len(each) == members)
    return statistics.median(latencies), latencies[int(len(latencies) * 0.99)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--service", default="source")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    settings = {"service": chosen.service, "datagram_bytes": "60000B"}
    figures: dict[str, Any] = {"load before": os.getloadavg()[0], "cores": os.cpu_count()}
    for size in (1000, 100):
        figures[f"{size} B, messages a second"] = round(throughput(chosen.members, size, chosen.seconds, **settings))
    for rate in (10.0, 100.0):
        median, high = latency(chosen.members, rate, chosen.seconds, service=chosen.service)
        figures[f"latency at {rate:.0f} a second each, ms (p50, p99)"] = [round(median, 2), round(high, 2)]
    if chosen.json:
        print(json.dumps(figures))
    else:
        for name, figure in figures.items():
            print(f"{name:48} {figure}")


if __name__ == "__main__":
    main()
