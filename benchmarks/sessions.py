"""Sessions in the set-up of document 002, chapter 6: three servers, a client of each, a fourth that comes and goes.

Prints the six quantities of the document beside what it found, in how many changes the clients had synchronised before
the servers had agreed, and what a message costs when they come as fast as they can. Fails where a goal is missed. The
run is kept: `unisono report` draws the six distributions.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from unisono.pipeline.pages.session_story import QUANTITIES, SessionStory, session_changes, session_story
from unisono.pipeline.pages.templating import duration_words
from unisono.trace.run_directory import write_run
from unisono.trace.schema import AnyRow, MembershipRow, StatisticRow, ViewRow
from unisono.trials.gathering import gather
from unisono.trials.wiring import free_endpoints
from unisono.units import MICROSECOND, MILLISECOND

CLIENT = Path(__file__).parent / "session_client.py"
SERVERS = 3
RUN = "bench-sessions"
VISITOR = "visitor"
CHANGE_GOAL = 10 * MILLISECOND
OVERHEAD_GOAL = 20 * MICROSECOND
FIRST_GOAL = 0.5
"""In more than this part of changes the clients have synchronised before the servers have agreed."""
START_SECONDS = 20.0


class Servers:
    """Membership servers that stand for each other, as processes."""

    def __init__(self, stack: ExitStack, folder: Path, realm: str) -> None:
        self.endpoints = free_endpoints(SERVERS)
        logs = [folder / f"server-{index}.log" for index in range(SERVERS)]
        for endpoint, log in zip(self.endpoints, logs, strict=True):
            peers = [word for peer in self.endpoints for word in ("--peer", peer)]
            command = [sys.executable, "-m", "unisono", "membership-server", "--listen", endpoint, *peers]
            with log.open("w") as output:
                process = subprocess.Popen([*command, "--realm", realm, "--json"], stdout=output, stderr=output)
            stack.callback(end, process)
        patience = time.monotonic() + START_SECONDS
        while not all(self._are_together(log) for log in logs):
            if time.monotonic() > patience:
                raise TimeoutError("\n".join(log.read_text() for log in logs))
            time.sleep(0.05)

    @staticmethod
    def _are_together(log: Path) -> bool:
        told = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{") and line[-1] == "}"]
        return any(len(one["servers"]) == SERVERS for one in told if one["event"] == "servers")


class Client:
    """A client in a process of its own."""

    def __init__(self, stack: ExitStack, **charge: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(CLIENT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        stack.callback(end, self._process)
        self.tell(charge)

    def tell(self, said: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(said) + "\n")

    def hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a client ended early, with {self._process.wait()}")
        return json.loads(line)

    def wait(self) -> None:
        self._process.wait(START_SECONDS)


def end(process: subprocess.Popen[Any]) -> None:
    process.kill()
    process.wait()


def standing(stack: ExitStack, servers: Servers, realm: str, **charge: Any) -> list[Client]:
    """A client of each server, all in one view."""
    clients = [
        Client(
            stack,
            name=f"c{index}",
            server=servers.endpoints[index],
            realm=realm,
            members=SERVERS,
            offset=index / SERVERS,
            changes=0,
            run=RUN,
            **charge,
        )
        for index in range(SERVERS)
    ]
    for client in clients:
        client.hear()
    return clients


def finish(clients: list[Client]) -> tuple[float, float]:
    """Let clients end; the nanoseconds that their sessions, and all of the engine, took for a message."""
    for client in clients:
        client.tell("end")
    answers = [client.hear() for client in clients]
    for client in clients:
        client.wait()
    messages = max(1, sum(answer["messages"] for answer in answers))
    return sum(answer["session"] for answer in answers) / messages, sum(
        answer["engine"] for answer in answers
    ) / messages


def change_views(folder: Path, chosen: argparse.Namespace) -> tuple[list[AnyRow], float]:
    """The rows of three clients that send while a fourth comes and goes, and what a message took of the engine."""
    realm, spools = f"{RUN}-{os.getpid()}", folder / "spools"
    with ExitStack() as stack:
        servers = Servers(stack, folder, realm)
        common = {"trace": str(spools), "datagram_bytes": chosen.datagram_bytes}
        clients = standing(stack, servers, realm, size=chosen.size, rate=chosen.rate, **common)
        visitor = Client(
            stack,
            name=VISITOR,
            server=servers.endpoints[1],
            realm=realm,
            members=SERVERS + 1,
            changes=chosen.changes,
            interval=chosen.interval / 1000,
            run=RUN,
            **common,
        )
        visitor.hear()
        visitor.tell("begin")
        visitor.hear()
        visitor.wait()
        _, engine = finish(clients)
    return gather(spools, RUN, [*(f"c{index}" for index in range(SERVERS)), VISITOR], [], []), engine


def at_full_speed(folder: Path, size: int, seconds: float, datagram_bytes: int) -> tuple[float, float]:
    """The same nanoseconds for a message when three send as fast as they can, without a trace."""
    realm = f"{RUN}-flood-{os.getpid()}"
    with ExitStack() as stack:
        servers = Servers(stack, folder, realm)
        clients = standing(stack, servers, realm, size=size, rate=0.0, trace=None, datagram_bytes=datagram_bytes)
        time.sleep(seconds)
        return finish(clients)


def show(told: SessionStory) -> None:
    """The document's table 6.1, with ε, and ours beside it."""
    print(f"{'':10} {'ours':>10} {'':>10} {'002':>10} {'':>10}")
    print(f"{'':10} {'average':>10} {'median':>10} {'average':>10} {'median':>10} {'samples':>8}")
    for quantity in QUANTITIES:
        spread = told.spreads[quantity.name]
        times = (spread.mean, spread.median, quantity.document_mean, quantity.document_median)
        print(f"{quantity.sign:10} {' '.join(f'{duration_words(one):>10}' for one in times)} {spread.count:8}")


def goals(told: SessionStory) -> dict[str, tuple[str, bool]]:
    """What was to be reached: what is there, and whether that is enough."""
    first = told.synchronised_first / max(1, told.compared)
    change, overhead = told.spreads["change"].median, told.spreads["overhead"].median
    return {
        f"synchronised before the servers agreed, in more than {FIRST_GOAL:.0%} of changes": (
            f"{first:.1%}",
            first > FIRST_GOAL,
        ),
        f"median view change below {duration_words(CHANGE_GOAL)}": (duration_words(change), change < CHANGE_GOAL),
        f"median overhead for a message below {duration_words(OVERHEAD_GOAL)}": (
            duration_words(overhead),
            overhead < OVERHEAD_GOAL,
        ),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=200, help="how often the fourth client joins or leaves")
    parser.add_argument("--interval", type=float, default=200.0, help="milliseconds from one change to the next")
    parser.add_argument("--rate", type=float, default=1.0, help="messages a second of each of the three")
    parser.add_argument("--size", type=int, default=8192, help="bytes of their messages")
    parser.add_argument(
        "--datagram-bytes", type=int, default=16_384, help="the largest datagram; as in the document, one for a message"
    )
    parser.add_argument("--flood-seconds", type=float, default=3.0, help="how long messages come at full speed")
    parser.add_argument("--out", type=Path, default=Path("runs") / RUN, help="where the run is written")
    chosen = parser.parse_args()
    before = os.getloadavg()[0]
    with TemporaryDirectory(prefix="unisono-bench-") as folder:
        rows, engine = change_views(Path(folder), chosen)
        flooded = at_full_speed(Path(folder), 100, chosen.flood_seconds, chosen.datagram_bytes)
    told = session_story(
        session_changes(
            [row for row in rows if isinstance(row, ViewRow)], [row for row in rows if isinstance(row, MembershipRow)]
        ),
        [row for row in rows if isinstance(row, StatisticRow)],
    )
    assert told is not None, "there were changes"
    reached = goals(told)
    summary = {name: {"is": is_now, "reached": enough} for name, (is_now, enough) in reached.items()}
    write_run(chosen.out, rows, scenario_text="", summary={"goals": summary})
    show(told)
    print(f"\nall of the engine for such a message, from the packet on: {duration_words(engine)} on average")
    print("for a message of 100 B at full speed: {} in the session, {} in all".format(*map(duration_words, flooded)))
    print(f"load of the machine {before:.1f} before, {os.getloadavg()[0]:.1f} after, {os.cpu_count()} cores\n")
    for name, (is_now, enough) in reached.items():
        print(f"{'reached' if enough else 'MISSED':8} {name}: {is_now}")
    print(f"\nthe page: unisono report {chosen.out}")
    return 0 if all(enough for _, enough in reached.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
