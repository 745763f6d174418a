"""How long a view change takes on this machine: members are killed, one after the other, and come back.

Prints, beside the load of the machine: among eight idle members the time from the first suspicion to the last
survivor's view; and among five under load the time from the kill to the last survivor's view, less the time after which
a silent member is suspected. Below these, where the time goes. All times are of the members' own traces.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct

from unisono.runtime.interfaces import LOOPBACK
from unisono.trace.schema import AnyRow, GaugeRow, MembershipRow, RepairRow, ViewRow
from unisono.trace.spool import read_spool
from unisono.trials.charge import Charge, Load
from unisono.trials.process import MemberProcess
from unisono.units import MILLISECOND, SECOND

GROUP = "bench"
FAR = 3600 * SECOND
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.1


class Change(Struct):
    """One view change, in milliseconds: from the kill, and from the first suspicion, until the last survivor."""

    detected: float
    after_kill: float
    after_detection: float
    phases: dict[str, float]


class Bench:
    """Members as processes, whose traces are read while they run."""

    def __init__(self, folder: Path, members: int, rate: float, settings: dict[str, Any]) -> None:
        self._spools = folder / "spool"
        self._rate = rate
        realm = f"bench-{os.getpid()}-{time.monotonic_ns()}"
        self.members = [self._member(folder, realm, index, settings) for index in range(members)]

    def _member(self, folder: Path, realm: str, index: int, settings: dict[str, Any]) -> MemberProcess:
        name = f"m{index}"
        now = time.monotonic_ns()
        loads = [Load(GROUP, self._rate, 100, now, now + FAR)] if self._rate else []
        charge = Charge(
            name=name,
            life=0,
            seed=index,
            realm=realm,
            interface=LOOPBACK,
            port=0,
            seeds=[],
            trace=str(self._spools),
            storage=str(folder / "disk" / name),
            groups=[GROUP],
            settings=settings,
            loads=loads,
            transport="multicast",
        )
        return MemberProcess(index, charge, [], folder / f"{name}.log")

    async def start(self) -> None:
        await asyncio.gather(*(member.start() for member in self.members))
        await self._until_all_are(self.members)

    async def kill(self, victim: MemberProcess, rest_seconds: float) -> Change:
        """Kill one, see how the others go on, and let it come back."""
        survivors = [member for member in self.members if member is not victim]
        killed_at = time.monotonic_ns()
        victim.kill()
        await victim.gone()
        await asyncio.sleep(rest_seconds)  # nothing of this process disturbs the members meanwhile
        await self._until_all_are(survivors)
        change = self._change(killed_at, victim, survivors)
        await victim.start()
        await self._until_all_are(self.members)
        return change

    async def end(self) -> None:
        for member in self.members:
            if member.alive:
                member.kill()
                await member.gone()

    def _rows(self, member: MemberProcess) -> list[AnyRow]:
        """The rows of its present life."""
        spools = self._spools.glob(f"{member.name}~*.spool")
        return list(read_spool(max(spools, key=lambda path: path.stat().st_mtime_ns)))

    async def _until_all_are(self, members: list[MemberProcess]) -> None:
        """Wait until all of these, and nobody else, are in one view."""
        names = {member.name for member in members}
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            views = [[row for row in self._rows(member) if isinstance(row, ViewRow)][-1:] for member in members]
            if len({view.view for some in views for view in some}) == 1 and all(
                {start.source for start in view.start} == names for some in views for view in some
            ):
                return
            await asyncio.sleep(POLL_SECONDS)
        raise TimeoutError(f"{sorted(names)} did not come into one view")

    def _change(self, killed_at: int, victim: MemberProcess, survivors: list[MemberProcess]) -> Change:
        moments: dict[str, list[int]] = {"suspicion": [], "consensus": [], "halt": [], "view": []}
        for member in survivors:
            rows = [row for row in self._rows(member) if row.at > killed_at]
            for phase, at in (
                ("suspicion", _first(rows, lambda row: _accuses(row, victim.name))),
                ("consensus", _first(rows, lambda row: isinstance(row, GaugeRow) and row.name == "consensus-reached")),
                ("halt", _first(rows, lambda row: isinstance(row, RepairRow) and row.kind == "CUT")),
                ("view", _first(rows, lambda row: isinstance(row, ViewRow))),
            ):
                if at is not None:
                    moments[phase].append(at)
        detected = min(moments["suspicion"])
        last = max(moments["view"])
        phases = {name: (max(some) - detected) / 1e6 for name, some in moments.items()}
        return Change((detected - killed_at) / 1e6, (last - killed_at) / 1e6, (last - detected) / 1e6, phases)


def _accuses(row: AnyRow, name: str) -> bool:
    return isinstance(row, MembershipRow) and row.kind == "SUSPECT" and row.reason == "accused" and row.peer == name


def _first(rows: list[AnyRow], meant: Any) -> int | None:
    return next((row.at for row in rows if meant(row)), None)


async def measure(members: int, kills: int, rate: float, suspicion: int) -> list[Change]:
    settings = {"service": "timestamp", "suspicion": suspicion, "keep_alive": min(200 * MILLISECOND, suspicion // 5)}
    with TemporaryDirectory(prefix="unisono-bench-") as folder:
        bench = Bench(Path(folder), members, rate, settings)
        try:
            await bench.start()
            changes = []
            for number in range(kills):
                victim = bench.members[1 + number % (members - 1)]
                changes.append(await bench.kill(victim, suspicion / SECOND + 0.2))
                print(f"{members} members: kill {number + 1} of {kills}", file=sys.stderr)
            return changes
        finally:
            await bench.end()


def show(figures: dict[str, Any], title: str, changes: list[Change], suspicion: int) -> None:
    def three(values: list[float]) -> list[float]:
        return [round(statistics.median(values), 1), round(min(values), 1), round(max(values), 1)]

    less = [change.after_kill - suspicion / MILLISECOND for change in changes]
    figures[f"{title}: detection to last view"] = three([change.after_detection for change in changes])
    figures[f"{title}: kill to last view, less the timeout"] = three(less)
    figures[f"{title}: kill to detection"] = three([change.detected for change in changes])
    for phase in ("suspicion", "consensus", "halt", "view"):
        figures[f"{title}: detection to the last {phase}"] = three([change.phases[phase] for change in changes])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=11)
    parser.add_argument("--rate", type=float, default=50.0, help="messages a second of each member under load")
    parser.add_argument("--suspicion", type=int, nargs="*", default=[300, 1000], help="in milliseconds")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    figures: dict[str, Any] = {"load before": os.getloadavg()[0], "cores": os.cpu_count(), "kills": chosen.kills}
    for milliseconds in chosen.suspicion:
        suspicion = milliseconds * MILLISECOND
        idle = asyncio.run(measure(8, chosen.kills, 0.0, suspicion))
        show(figures, f"8 idle, {milliseconds} ms", idle, suspicion)
        loaded = asyncio.run(measure(5, chosen.kills, chosen.rate, suspicion))
        show(figures, f"5 under load, {milliseconds} ms", loaded, suspicion)
    figures["load after"] = os.getloadavg()[0]
    if chosen.json:
        print(json.dumps(figures))
    else:
        print("milliseconds: median, least, most")
        for name, figure in figures.items():
            print(f"{name:64} {figure}")


if __name__ == "__main__":
    main()
