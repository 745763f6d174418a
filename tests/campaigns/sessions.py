"""Three membership servers and ten clients on this machine: clients join, leave and are killed under load.

`make sessions` runs it for a minute, in which one server is killed and later started again. In the end all clients must
be in one view and hear each other, and every property must hold over their traces. Shorter, and the same again:
`python -m tests.campaigns.sessions --seconds 20 --seed 7`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import mkdtemp
from time import monotonic, sleep

from tests.network.sessions import Client, Servers
from unisono.properties.registry import PROPERTIES, MonitorSuite
from unisono.trace.schema import AnyRow
from unisono.trace.spool import read_spool

SERVERS, CLIENTS = 3, 10
PAUSE_SECONDS = 2.0
"""How long a client is left alone, on average."""
KILLED = 0.2
"""So many of the times that something happens to a client, it is killed."""
SERVER_GONE, SERVER_BACK = 0.3, 0.5
"""At which parts of the time a server is killed, and started again."""


class Campaign:
    """The processes, and what is done to them."""

    def __init__(self, directory: Path, seed: int, rate: float) -> None:
        self._directory = directory
        self._seed = seed
        self._rate = rate
        self._servers = Servers(SERVERS, f"sessions-{os.getpid()}", "--trace", str(directory))
        self.clients = {f"c{number}": self._start(f"c{number}") for number in range(CLIENTS)}

    def begin(self) -> None:
        """Everybody joins."""
        for client in self.clients.values():
            self._join(client)

    def live(self, name: str, end: float) -> Counter[str]:
        """One client until that time: it is killed and comes again, or leaves and joins again, many times."""
        random, happened = Random(f"{self._seed} {name}"), Counter[str]()
        client = self.clients[name]
        while monotonic() < end:
            sleep(random.uniform(0, 2 * PAUSE_SECONDS))
            if random.random() < KILLED:
                happened["clients killed"] += 1
                client.close()
                client = self.clients[name] = self._start(name)
            else:
                happened["leaves"] += 1
                client.do("halt g")
                client.do("leave g")
            happened["joins"] += 1
            self._join(client)
        return happened

    def kill_server(self) -> str:
        """Kill the server that has the most clients; where it was."""
        served = {endpoint: self._served(endpoint) for endpoint in self._servers.endpoints}
        endpoint = max(served, key=lambda one: len(served[one]))
        print(f"the server at {endpoint} is killed; with it were {' '.join(served[endpoint]) or 'none'}", flush=True)
        self._servers.kill(endpoint)
        return endpoint

    def start_server_again(self, endpoint: str) -> None:
        self._servers.start_again(endpoint)
        print(f"the server at {endpoint} is back", flush=True)

    def settle(self) -> None:
        """All are in one view, and hear each other's last words."""
        for client in self.clients.values():
            client.do("halt g")
        for client in self.clients.values():
            client.wait_view(list(self.clients))
        for client in self.clients.values():
            client.do("send g last word")
        for client in self.clients.values():
            for source in self.clients:
                client.wait_line(f"got g {source} last word")

    def finish(self) -> list[str]:
        """Let all end; what did not end well."""
        ends = {name: client.finish() for name, client in self.clients.items()}
        return [f"{name} ended with {code}" for name, code in ends.items() if code]

    def close(self) -> None:
        for client in self.clients.values():
            client.close()
        self._servers.close()

    def _served(self, endpoint: str) -> list[str]:
        return [client.name for client in self.clients.values() if client.server == endpoint]

    def _start(self, name: str) -> Client:
        return Client(name, self._servers, trace=str(self._directory), quiet=True)

    def _join(self, client: Client) -> None:
        client.do("join g")
        client.do(f"load g {self._rate}")


def run(directory: Path, seconds: float, seed: int, rate: float) -> list[str]:
    """What was not as demanded."""
    with closing(Campaign(directory, seed, rate)) as campaign, ThreadPoolExecutor(CLIENTS) as pool:
        print(f"{CLIENTS} clients of {SERVERS} servers, {rate:g} messages a second each, seed {seed}", flush=True)
        try:
            campaign.begin()
            end = monotonic() + seconds
            lives = [pool.submit(campaign.live, name, end) for name in campaign.clients]
            sleep(SERVER_GONE * seconds)
            lost = campaign.kill_server()
            sleep((SERVER_BACK - SERVER_GONE) * seconds)
            campaign.start_server_again(lost)
            happened = sum((life.result() for life in lives), Counter[str]())
            campaign.settle()
            complaints = campaign.finish()
        except AssertionError as error:
            return [str(error)]
    print(", ".join(f"{count} {what}" for what, count in sorted(happened.items())), flush=True)
    return complaints + audit(directory)


def audit(directory: Path) -> list[str]:
    """Hold every property over all rows, merged by time; print what there is."""
    spools = {path.name: list(read_spool(path)) for path in sorted(directory.glob("*.spool"))}
    rows: list[AnyRow] = sorted(
        (row for spool in spools.values() for row in spool), key=lambda row: (row.at, row.process, row.position)
    )
    suite = MonitorSuite()
    for row in rows:
        suite.observe(row)
    suite.finish()
    kinds = Counter(row.kind for row in rows)
    views = {row.view for row in rows if row.kind == "VIEW"}
    print(
        f"{len(rows)} rows of {len(spools)} lives: {kinds['SEND']} sent, {kinds['DELIVER']} delivered,"
        f" {kinds['VIEW']} installations of {len(views)} views, {kinds['FORWARD']} forwarded,"
        f" {kinds['START_CHANGE']} start-changes",
        flush=True,
    )
    for property_id in PROPERTIES:
        count = suite.counts.get(property_id, 0)
        print(f"  {property_id}: {f'{count} violations' if count else 'holds'}", flush=True)
    return [str(violation) for violation in suite.violations]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long clients come and go")
    parser.add_argument("--rate", type=float, default=20.0, help="messages a second of each client")
    parser.add_argument("--seed", type=int, default=1, help="what chooses who comes and goes")
    chosen = parser.parse_args()
    os.environ["UNISONO_INTERFACE"] = "lo"
    directory = Path(mkdtemp(prefix="unisono-sessions-"))
    complaints = run(directory / "run", chosen.seconds, chosen.seed, chosen.rate)
    if complaints:
        print(f"\nnot as demanded; the traces are in {directory}:", *complaints[:20], sep="\n  ")
        return 1
    rmtree(directory)
    print("as demanded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
