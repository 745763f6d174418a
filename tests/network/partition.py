"""One partition of real processes under load, and what came of it: for the test, and for the campaign of many."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from time import monotonic_ns
from typing import Literal

from msgspec import Struct

from tests.network.processes import Talker, everybody_hears_everybody, finish_load, judge, read_spools
from tests.network.switch import Switch
from unisono.properties.violation import Violation
from unisono.runtime.tracing import host_mark
from unisono.trace.recorder import Recorder
from unisono.trace.schema import AnyRow, FaultRow, ViewRow

RATE = 40
"""Messages a second of every member."""

Islands = Sequence[Sequence[int]]


class Partition(Struct):
    """What happened: the rows of all, when healing began, and what the monitors found."""

    rows: dict[str, list[AnyRow]]
    healed_at: int
    violations: list[Violation]

    def views(self, name: str) -> list[ViewRow]:
        return [row for row in self.rows[name] if isinstance(row, ViewRow)]

    def merged(self) -> dict[str, ViewRow]:
        """The first view of all at each member after the healing."""
        everybody = set(self.rows) - {""}
        return {
            name: next(
                row
                for row in self.views(name)
                if row.at > self.healed_at and {start.source for start in row.start} == everybody
            )
            for name in sorted(everybody)
        }

    @property
    def merge_seconds(self) -> float:
        """From the healing until the last member was in a view of all."""
        return (max(view.at for view in self.merged().values()) - self.healed_at) / 1e9


def part_and_meet(switch: Switch, islands: Islands, realm: str, trace: Path, **settings: str) -> Partition:
    """Let all send, split them, wait until every island goes on by itself, put them together, wait until they do."""
    hosts = sorted(host for island in islands for host in island)
    names = [f"p{host}" for host in hosts]
    truth = _Truth(trace.name)
    with ExitStack() as stack:
        talkers = [stack.enter_context(closing(_member(switch, host, realm, trace, settings))) for host in hosts]
        for talker in talkers:
            talker.wait_line("view " + " ".join(names))
        for talker in talkers:
            talker.tell(f"load {RATE}")
        truth.note("load", "begin")
        everybody_hears_everybody(talkers)
        *smaller, _ = sorted(islands, key=len)
        away = [f"p{host}" for island in smaller for host in island]
        truth.note("partition", "begin", away)
        switch.split(islands)
        for island in islands:
            side = [talkers[host] for host in island]
            for talker in side:
                talker.wait_line("view " + " ".join(one.name for one in side))
            everybody_hears_everybody(side)
        whole = [talker.lines.count("view " + " ".join(names)) for talker in talkers]
        healed_at = monotonic_ns()
        switch.heal()
        truth.note("partition", "end", away)
        truth.note("heal", "begin")
        for talker, before in zip(talkers, whole, strict=True):
            talker.wait(partial(_is_whole_again, names, before), "that all are together again")
        everybody_hears_everybody(talkers)
        finish_load(talkers)
        truth.note("load", "end")
    rows = read_spools(trace)
    rows[""] = truth.rows
    return Partition(rows, healed_at, judge(rows))


def _is_whole_again(names: Sequence[str], before: int, lines: list[str]) -> bool:
    return lines.count("view " + " ".join(names)) > before


def _member(switch: Switch, host: int, realm: str, trace: Path, settings: dict[str, str]) -> Talker:
    options = {
        "group": "g",
        "name": f"p{host}",
        "realm": realm,
        "interface": switch.address(host),
        "storage": "memory",
        "trace": str(trace),
        "service": "timestamp",
        **settings,
    }
    return Talker(f"p{host}", ["-m", "tests.network.member", json.dumps(options)], before=switch.command(host))


class _Truth:
    """What whoever makes the faults writes into the trace."""

    def __init__(self, run: str) -> None:
        self._recorder = Recorder(run, "", host_mark())
        self.rows: list[AnyRow] = []

    def note(self, fault: str, edge: Literal["begin", "end"], members: Sequence[str] = ()) -> None:
        row = FaultRow(kind="FAULT", fault=fault, edge=edge, members=list(members))
        self.rows.append(self._recorder.stamp(row, monotonic_ns(), None))
