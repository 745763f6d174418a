"""What many groups of one process cost: to join, to keep while nothing happens in them, and to others that are active.

A process joins many groups in which nothing happens, and then some more that it shares with other processes, all over
the same sockets. Prints the time to join and to leave, the memory for a group, the share of a core that the process
uses while all of them are idle, and what the active groups deliver, beside a run without the idle ones: compare
within one run, for machines are noisy.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

from unisono import Group, Message, Process, View, join

JOIN_AT_ONCE = 500
"""So many joins wait for each other."""
MESSAGE_BYTES = 200


def resident_bytes() -> int:
    """The memory of this process that is in use."""
    status = Path("/proc/self/status")
    if not status.exists():
        return getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0


async def share_of_a_core(seconds: float) -> float:
    """What this process uses of a core while it does nothing."""
    began, used = time.monotonic(), time.process_time()
    await asyncio.sleep(seconds)
    return (time.process_time() - used) / (time.monotonic() - began)


async def in_parts(calls: list[Any]) -> tuple[float, float]:
    """The seconds that many calls take, some hundred at once, and those of them that the process worked."""
    began, used = time.monotonic(), time.process_time()
    for first in range(0, len(calls), JOIN_AT_ONCE):
        await asyncio.gather(*(call() for call in calls[first : first + JOIN_AT_ONCE]))
    return time.monotonic() - began, time.process_time() - used


class Member:
    """One process of the run. It tells what it measured in lines of JSON, and goes on when it is told to."""

    def __init__(self, charge: dict[str, Any]) -> None:
        self.charge = charge
        self.delivered = 0
        self.latencies: list[int] = []
        self.window = [0, 0]

    def tell(self, **what: Any) -> None:
        print(json.dumps(what), flush=True)

    async def told(self) -> Any:
        return json.loads(await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline))

    async def run(self) -> None:
        charge = self.charge
        process = Process(
            charge["name"],
            realm=charge["realm"],
            interface="127.0.0.1",
            storage="memory",
            transport=charge["transport"],
        )
        async with process:
            alone, before = await share_of_a_core(charge["idle_seconds"]) if charge["idle"] else 0.0, resident_bytes()
            idle = [
                join(f"idle-{index}", process=process, service=charge["service"], role=charge["role"])
                for index in range(charge["idle"])
            ]
            joining = await in_parts([group.open for group in idle])
            if idle:
                await asyncio.sleep(charge["settle_seconds"])
                share = await share_of_a_core(charge["idle_seconds"])
                self.tell(
                    joining=joining,
                    bytes=resident_bytes() - before,
                    resident=resident_bytes(),
                    alone=alone,
                    share=share,
                    files=open_files(),
                )
            await self.be_active(process)
            leaving = await in_parts([group.close for group in idle])
            self.tell(leaving=leaving)

    async def be_active(self, process: Process) -> None:
        charge = self.charge
        groups = [
            join(f"active-{index}", process=process, service=charge["service"]) for index in range(charge["active"])
        ]
        await in_parts([group.open for group in groups])
        met = [asyncio.Event() for _ in groups]
        readers = [asyncio.ensure_future(self.read(group, each)) for group, each in zip(groups, met, strict=True)]
        for each in met:
            await each.wait()
        self.tell(ready=True)
        for paced in (False, True):
            begin, end = self.window = await self.told()
            self.delivered = 0
            used = time.process_time()
            await asyncio.gather(*(self.send(group, begin, end, paced) for group in groups))
            await asyncio.sleep(0.5)
            self.tell(delivered=self.delivered, latencies=self.latencies, used=time.process_time() - used)
        await self.told()
        for reader in readers:
            reader.cancel()
        await in_parts([group.close for group in groups])

    async def read(self, group: Group, met: asyncio.Event) -> None:
        while events := await group.receive_many(10_000):
            now = time.monotonic_ns()
            for event in events:
                if isinstance(event, Message):
                    if self.window[0] <= now <= self.window[1]:
                        self.delivered += 1
                        self.latencies.append(now - int.from_bytes(event.data[:8], "big"))
                elif isinstance(event, View) and len(event.members) == self.charge["members"]:
                    met.set()

    async def send(self, group: Group, begin: int, end: int, paced: bool) -> None:
        self.latencies = []
        gap = int(1e9 / self.charge["rate"])
        due = begin
        while (now := time.monotonic_ns()) < end:
            if paced or now < begin:
                await asyncio.sleep(max(0.0, (due - now) / 1e9))
                due += gap
            stamp = time.monotonic_ns().to_bytes(8, "big") + bytes(MESSAGE_BYTES - 8)
            if paced:
                await group.send(stamp)
            else:
                await group.send_many([stamp] * 20)


class Worker:
    """A member in a process of its own."""

    def __init__(self, charge: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--member"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.say(charge)

    def say(self, what: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")

    def hear(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a member ended before its time; it says why above")
        return json.loads(line)


def measure(options: argparse.Namespace, idle: int) -> dict[str, Any]:
    """One run: the first member has the idle groups, all have the active ones."""
    charge = {
        "realm": f"bench-{os.getpid()}-{time.monotonic_ns()}",
        "members": options.members,
        "active": options.active,
        "service": options.service,
        "role": options.role,
        "transport": options.transport,
        "rate": options.rate,
        "idle_seconds": options.idle_seconds,
        "settle_seconds": options.settle_seconds,
    }
    workers = [
        Worker({**charge, "name": f"m{index}", "idle": 0 if index else idle}) for index in range(options.members)
    ]
    found: dict[str, Any] = {}
    try:
        if idle:
            found |= workers[0].hear()
        for worker in workers:
            worker.hear()
        for name in ("fast", "paced"):
            begin = time.monotonic_ns() + int(5e8)
            for worker in workers:
                worker.say([begin, begin + int(options.seconds * 1e9)])
            answers = [worker.hear() for worker in workers]
            latencies = sorted(latency / 1e6 for answer in answers for latency in answer["latencies"])
            found[name] = {
                "rate": min(answer["delivered"] for answer in answers) / options.seconds,
                "median": statistics.median(latencies),
                "late": latencies[int(len(latencies) * 0.99)],
                "used": answers[0]["used"] / options.seconds,
            }
        for worker in workers:
            worker.say("go")
        found |= workers[0].hear()
        return found
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.wait()


def show(title: str, found: dict[str, Any]) -> None:
    fast, paced = found["fast"], found["paced"]
    print(
        f"{title:>12}  {fast['rate']:12,.0f}  {paced['rate']:8,.0f}  {paced['median']:9.2f}  {paced['late']:6.2f}"
        f"  {100 * paced['used']:10.1f} %"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=10_000, help="idle groups")
    parser.add_argument("--role", choices=("receiver", "sender"), default="receiver", help="in the idle groups")
    parser.add_argument("--active", type=int, default=50, help="active groups")
    parser.add_argument("--members", type=int, default=2, help="processes in the active groups")
    parser.add_argument("--service", default="source")
    parser.add_argument("--transport", default="multicast")
    parser.add_argument("--rate", type=float, default=10.0, help="messages a second of a process in an active group")
    parser.add_argument("--seconds", type=float, default=4.0, help="for how long the active groups are measured")
    parser.add_argument("--idle-seconds", type=float, default=5.0, help="for how long nothing happens")
    parser.add_argument("--settle-seconds", type=float, default=10.0, help="between joining and that")
    parser.add_argument("--member", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.member:
        asyncio.run(Member(json.loads(sys.stdin.readline())).run())
        return
    few = measure(options, 0)
    many = measure(options, options.groups)
    print(f"{options.groups} idle groups of one process, role {options.role}, service {options.service}:")
    for what in ("joining", "leaving"):
        seconds, used = many[what]
        print(f"  {what} took {seconds:.2f} s, {used:.2f} s of them on a core")
    print(f"  {many['files']} open files")
    each = many["bytes"] / options.groups / 1024
    print(f"  {each:.1f} KB a group, {many['resident'] / (1 << 20):.0f} MB in all")
    print(f"  {100 * many['share']:.2f} % of a core while idle; {100 * many['alone']:.2f} % without groups")
    print(f"{options.active} active groups of {options.members} processes on the same sockets:")
    print(f"{'beside':>12}  {'fast msg/s':>12}  {'paced':>8}  {'median ms':>9}  {'99 %':>6}  {'of a core':>12}")
    show("no idle", few)
    show(f"{options.groups} idle", many)
    ratio = many["fast"]["rate"] / few["fast"]["rate"], many["paced"]["median"] / few["paced"]["median"]
    print(f"{'ratio':>12}  {ratio[0]:12.2f}  {'':>8}  {ratio[1]:9.2f}")


if __name__ == "__main__":
    main()
