"""What only receivers hold is not lost with its sender: they say so, themselves or through the control hierarchy."""

from __future__ import annotations

import pytest

from unisono.simulation.draw import draw
from unisono.simulation.scenario_file import read_scenario
from unisono.simulation.world import World
from unisono.trace.schema import DeliverRow, MembershipRow, SendRow

LAST_WORDS = """
name = "last-words"
says = "A sender crashes, and its last messages are with receivers only."
seed = 7
members = 8
duration = "10s"
settle = "12s"
options = {service = "timestamp", direct_reports = DIRECT}
network = {latency = "1ms"}
member = [{index = 3, role = "receiver"}, {index = 4, role = "receiver"}, {index = 5, role = "receiver"}]
workload = [{senders = [0, 1], rate = 20, size = 200}]
fault = [
    {at = "5.9s", kind = "lose", rate = 1, from = 0, to = [1, 2, 6, 7], lasts = "300ms"},
    {at = "6s", kind = "crash", member = 0},
]
"""


@pytest.mark.parametrize("direct", [32, 0])
def test_receivers_save_the_last_messages(direct: int) -> None:
    world = World(draw(read_scenario(LAST_WORDS.replace("DIRECT", str(direct))), 7), keep_rows=True)
    world.run()
    assert not world.monitors.violations
    assert not [row for row in world.rows if isinstance(row, MembershipRow) and row.kind == "SELF_FAIL"]
    last = max(row.number for row in world.rows if isinstance(row, SendRow) and row.process == "p0")
    for name in ("p1", "p2", "p3", "p4", "p5", "p6", "p7"):
        deliveries = (row for row in world.rows if isinstance(row, DeliverRow) and row.process == name)
        assert max(row.number for row in deliveries if row.source == "p0") == last, name
