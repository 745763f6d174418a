"""A Spark query sends rows into a group, and is killed three times, the gateway once: every member has every row once.

`make sink` runs it: three members and a gateway in processes of their own, and a query in another that reads numbered
lines from files. The query's processes are killed with signal 9 at a random moment, three times, and the gateway once,
each while batches are sent; each is started again as it was. In the end every member must have had every line exactly
once, in the order of the batches (unless the machine was so busy that members were taken for dead, and missed rows at
first). A smaller one: `python -m tests.campaigns.sink --lines 10000 --kills 1`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

from tests.network.processes import ROOT, Talker

NAMES = ("ada", "bob", "cyd")
GROUP = "rows"
FILE_LINES = 1000
FILES_AT_ONCE = 2
PATIENCE_SECONDS = 600.0
STOPPED_SECONDS = 5.0


class Killable:
    """A process with all that it starts, killed as a whole."""

    fate = "killed"

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self.name = name
        self._command = command
        self._log = log
        self.lives = 0
        self.start()

    def start(self) -> None:
        self.lives += 1
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self._command], cwd=ROOT, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def said(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()


class Stopped:
    """A member that is stopped for so long that the others go on without it."""

    fate = "stopped"

    def __init__(self, member: Talker) -> None:
        self.name = member.name
        self._process = member.process

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def start(self) -> None:
        sleep(STOPPED_SECONDS)
        os.kill(self._process.pid, signal.SIGCONT)

    def said(self) -> str:
        return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=60_000, help="how many rows are sent in all")
    parser.add_argument("--bytes", type=int, default=200, help="the size of a row")
    parser.add_argument("--kills", type=int, default=3, help="how often the query is killed")
    parser.add_argument("--stop", action="store_true", help="stop a member for some seconds too, at last")
    parser.add_argument("--seed", type=int, default=1, help="of the moments at which is killed")
    parser.add_argument("--keep", type=Path, help="work in this directory and leave it there")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, seed {options.seed}", flush=True)
    with ExitStack() as stack:
        directory = options.keep or Path(stack.enter_context(TemporaryDirectory(prefix="unisono-sink-")))
        complaints = run(
            directory, options.lines, options.bytes, options.kills, options.stop, random.Random(options.seed)
        )
    print("\n".join(complaints) if complaints else "every member had every row once")
    return 1 if complaints else 0


def run(directory: Path, count: int, size: int, kills: int, stop: bool, chance: random.Random) -> list[str]:
    """What was not as demanded."""
    os.environ["UNISONO_INTERFACE"] = "lo"
    os.environ["UNISONO_REALM"] = f"sink-{os.getpid()}"
    address = f"127.0.0.1:{free_port()}"
    lines = directory / "lines"
    lines.mkdir(parents=True)
    with ExitStack() as stack:
        members = [
            stack.enter_context(
                closing(
                    Talker(
                        name,
                        [
                            "-m",
                            "tests.network.row_member",
                            json.dumps({"group": GROUP, "name": name, "service": "timestamp"}),
                        ],
                    )
                )
            )
            for name in NAMES
        ]
        serve = ["-m", "unisono", "gateway", GROUP, "--data", str(directory / "gateway"), "--listen", address, "--json"]
        gateway = stack.enter_context(closing(Killable("the gateway", serve, directory / "gateway.log")))
        for member in members:
            member.wait(lambda said: any("gateway" in line for line in said), "that the gateway is here")
        about = {
            "lines": str(lines),
            "files": FILES_AT_ONCE,
            "gateway": address,
            "group": GROUP,
            "checkpoint": str(directory / "checkpoint"),
        }
        asking = ["-m", "tests.campaigns.sink_query", json.dumps(about)]
        query = stack.enter_context(closing(Killable("the query", asking, directory / "query.log")))
        feeding = threading.Thread(target=feed, args=(lines, count, size))
        feeding.start()
        stack.callback(feeding.join)
        victims: list[Killable | Stopped] = [query] * kills
        victims.insert(chance.randrange(1, kills + 1) if kills else 0, gateway)
        victims += [Stopped(members[1])] * stop
        kill_in_turn(members[0], victims, count, chance)
        complaints = until_all_have(members, count, [query, gateway])
        for member in members:
            member.tell("quit")
            member.wait(lambda said: any(line.startswith("had ") for line in said), "what it had")
        return complaints + judge(members, count, gateway)


def kill_in_turn(member: Talker, victims: list[Killable | Stopped], count: int, chance: random.Random) -> None:
    """Kill one after the other, each when a part of the rows more is through, and a random moment later."""
    began = monotonic()
    for turn, victim in enumerate(victims, 1):
        wanted = count * turn // (len(victims) + 1)
        wait_for_rows(member, wanted, victim)
        sleep(chance.uniform(0, 1.5))  # into the middle of whatever happens then
        had = rows_of(member)
        victim.kill()
        newest = had[-1][0] if had else None
        print(
            f"{monotonic() - began:6.1f} s: {victim.name} is {victim.fate}; {member.name} has {len(had)} rows, the last"
            f" of batch {newest}",
            flush=True,
        )
        victim.start()


def line(number: int) -> str:
    return f"line-{number:07d}"


def feed(lines: Path, count: int, size: int) -> None:
    """Write the lines, a file at a time, faster than they are sent."""
    for first in range(0, count, FILE_LINES):
        text = "".join(f"{line(number):.<{size}}\n" for number in range(first, min(first + FILE_LINES, count)))
        new = lines.parent / "line.new"
        new.write_text(text)
        new.rename(lines / f"{first:07d}.txt")


def wait_for_rows(member: Talker, wanted: int, victim: Killable | Stopped) -> None:
    end = monotonic() + PATIENCE_SECONDS
    while len(rows_of(member)) < wanted:
        assert monotonic() < end, f"{member.name} has {len(rows_of(member))} rows of {wanted}:\n{victim.said()[-4000:]}"
        sleep(0.05)


def until_all_have(members: list[Talker], count: int, others: list[Killable]) -> list[str]:
    """Wait until everybody has as many rows as there are; what stands in the way."""
    end = monotonic() + PATIENCE_SECONDS
    while any(len(rows_of(member)) < count for member in members):
        for other in others:
            if other.process.poll() is not None:
                return [f"{other.name} ended by itself:\n{other.said()[-4000:]}"]
        if monotonic() > end:
            return [f"{member.name} has {len(rows_of(member))} rows of {count}" for member in members]
        sleep(0.1)
    return []


def rows_of(member: Talker) -> list[tuple[int, int, str]]:
    found = [said.split(" ", 3) for said in list(member.lines) if said.startswith("row ")]
    return [(int(batch), int(number), data.rstrip(".")) for _, batch, number, data in found]


def judge(members: list[Talker], count: int, gateway: Killable) -> list[str]:
    wanted = Counter(line(number) for number in range(count))
    complaints: list[str] = []
    apart = sum(members_apart(member) for member in members)
    print(f"{apart} times a view was without a member that was slow or stopped" * bool(apart))
    for member in members:
        rows = rows_of(member)
        had = Counter(data for _, _, data in rows)
        places = [(batch, number) for batch, number, _ in rows]
        told = next(line for line in member.lines if line.startswith("had ")).split()
        print(
            f"{member.name}: {len(rows)} rows in {len({batch for batch, _ in places})} batches, {len(had)} different;"
            f" {told[2]} repeats dropped"
        )
        if had != wanted:
            missing, more = wanted - had, had - wanted
            complaints.append(f"{member.name} lacks {len(missing)} rows and has {sum(more.values())} too many")
        if places != sorted(set(places)) and not apart:
            complaints.append(f"{member.name} has rows in another order than that of their batches")
    if len({json.dumps(rows_of(member)) for member in members}) != 1 and not apart:
        complaints.append("the members have their rows in different orders")
    again = sum(batches_again(life) for life in lives(gateway))
    print(f"the gateway had {gateway.lives} lives, and was asked {again} times for a batch that it had taken on before")
    return complaints


def members_apart(member: Talker) -> int:
    """How often, after all had met, a view was without one of them: rows that it lacks come later, out of order."""
    views = [said.split()[1:] for said in member.lines if said.startswith("view ")]
    met = next(place for place, view in enumerate(views) if set(NAMES) <= set(view))
    return sum(not set(NAMES) <= set(view) for view in views[met:])


def lives(gateway: Killable) -> list[list[dict[str, Any]]]:
    """What each life of the gateway said of itself."""
    found: dict[str, list[dict[str, Any]]] = {}
    life, last = 0, 0
    for line in gateway.said().splitlines():
        if line.startswith("{"):
            told = json.loads(line)
            life += told["rows_sent"] < last
            last = told["rows_sent"]
            found.setdefault(str(life), []).append(told)
    return list(found.values())


def batches_again(life: list[dict[str, Any]]) -> int:
    return max(int(told["batches_again"]) for told in life)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
