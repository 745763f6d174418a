"""Large audiences at any size: what a sender spends on control, and what the group counts."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from unisono.engine import SendDatagram
from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.machine import Machine
from unisono.simulation.packet_rules import classify
from unisono.simulation.scenario import Scenario
from unisono.simulation.world import World
from unisono.trace.schema import AnyRow, DeliverRow, GaugeRow, SendRow
from unisono.units import SECOND

STEADY = 8 * SECOND
"""By then everybody has come, and reports are gathered where they are to be."""
SITES = 40


class Figures(NamedTuple):
    """What a run of a large audience showed."""

    members: int
    control: float
    """Bytes that a sender spent on control in a second, on the average of all senders."""
    delivered: int
    violations: int
    estimate: int | None
    sent: int
    """Messages that were sent when everybody had come."""
    reached: int
    """How often one of these was delivered: by every member, if all is well."""

    @property
    def whole(self) -> bool:
        """Whether every member got every message that was sent when everybody had come."""
        return 0 < self.sent * self.members == self.reached

    @property
    def counted(self) -> bool:
        """Whether the estimate is within a tenth of the truth."""
        return self.estimate is not None and abs(self.estimate - self.members) <= self.members / 10


def large_audience(receivers: int, seconds: int, seed: int, **options: Any) -> Scenario:
    """The built-in scenario with so many receivers, for so long."""
    whole = draw(load("large-audience"), seed)
    members = len(whole.member_plans) + receivers
    options = {**whole.options, **options}
    return replace(
        whole, members=members, sites=min(SITES, members), duration=seconds * SECOND, settle=2 * SECOND, options=options
    )


class Crowd(World):
    """Keeps no rows, and adds up what the senders send besides data and repairs."""

    def __init__(self, drawn: Scenario) -> None:
        super().__init__(drawn, keep_rows=False)
        self._speakers = {plan.index for plan in drawn.member_plans}
        self._until = drawn.duration
        self._bytes = 0
        self._sent: set[tuple[str, int]] = set()
        self._reached = 0
        self.estimate: int | None = None

    def transmit(self, machine: Machine, effect: SendDatagram) -> None:
        counts = machine.index in self._speakers and STEADY <= self.now < self._until
        if counts and not classify(effect.data).names & {"data", "repair"}:
            self._bytes += len(effect.data)
        super().transmit(machine, effect)

    def write(self, row: AnyRow) -> None:
        if isinstance(row, GaugeRow) and row.name == "audience estimate":
            self.estimate = row.value
        elif isinstance(row, SendRow):
            if self.now >= STEADY:
                self._sent.add((row.process, row.number))
        elif isinstance(row, DeliverRow):
            self._reached += (row.source, row.number) in self._sent
        super().write(row)

    def figures(self) -> Figures:
        control = self._bytes / len(self._speakers) / ((self._until - STEADY) / SECOND)
        violations = len(self.monitors.violations)
        return Figures(
            members=len(self.machines),
            control=control,
            delivered=self.counters["DELIVER"],
            violations=violations,
            estimate=self.estimate,
            sent=len(self._sent),
            reached=self._reached,
        )


def run_crowd(drawn: Scenario) -> Figures:
    world = Crowd(drawn)
    world.run()
    return world.figures()
