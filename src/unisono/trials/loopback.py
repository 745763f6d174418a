"""A trial on the loopback of this machine: it needs no rights, and `unisono top` and `unisono probe` see its processes.

Nothing stands between the processes, so that faults of the network are refused, and the scenario's network is not made.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from unisono.errors import ScenarioError
from unisono.simulation.churn import churned
from unisono.simulation.outcome import Outcome
from unisono.simulation.scenario import Churn, Scenario
from unisono.trials.trial import Progress, conduct, refuse_what_cannot_be_made

MOST = 24
"""More processes than this are not started unless a scenario is asked for with more."""
MADE = (
    "crash",
    "pause",
    "stop_reading",
    "stop_answering",
    "leave",
    "join",
    "send",
    "change",
    "become_receiver",
    "become_sender",
    "count_audience",
)
"""Faults that need no say in the network."""


def fit(scenario: Scenario) -> Scenario:
    """A scenario that has not been drawn, with as many members as a small machine can run.

    Who comes and goes does so at the rate of those who are left.
    """
    if not isinstance(scenario.members, int) or scenario.members <= MOST:
        return scenario
    fewer = replace(scenario, members=MOST)

    def slower(churn: Churn) -> Churn:
        there = [index for index in churned(scenario, churn) if index < MOST]
        return replace(churn, rate=churn.rate * len(there) / len(churned(scenario, churn)))

    return replace(fewer, churns=tuple(map(slower, scenario.churns)))


def refuse_what_needs_a_network(scenario: Scenario) -> None:
    """Raise for the first fault that cannot be made on the loopback."""
    refuse_what_cannot_be_made(scenario)
    for index, fault in enumerate(scenario.faults):
        if fault.kind not in MADE:
            raise ScenarioError(f"fault[{index}].kind", f"{fault.kind!r} cannot be made on the loopback; try --real")


def run_on_loopback(scenario: Scenario, out: Path | None, progress: Progress, realm: str) -> Outcome:
    """Run a drawn scenario on real processes here; the trace goes to `out` where given."""
    refuse_what_needs_a_network(scenario)
    return conduct(scenario, None, realm, out, progress)
