"""Properties of the state that applications keep and pass on."""

from __future__ import annotations

from unisono.properties import oracles
from unisono.properties.damages import DAMAGES
from unisono.properties.entries.property import Property
from unisono.properties.monitors.states import OneState

STATES = (
    Property(
        id="D10",
        name="one state at a point",
        statement=(
            "Rows that tell an application's state (STATE, SAVED, LOADED) in the same group and view, at the same "
            "point and of the same lineage, tell the same digest. A lineage names the process whose own state a "
            "state began as, and every view since; who is given a state goes on with its lineage. The first of "
            "them by process, incarnation and position is right."
        ),
        report="after the same messages, a process has another state than one that it shares its past with",
        oracle=oracles.one_state,
        monitor=OneState,
        spark="unisono.pipeline.audits.states:one_state",
        counter_example=DAMAGES["changed_state"],
    ),
)
