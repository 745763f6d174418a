"""The obvious form of every property: look at all rows of one run, as often as it takes.

Slow on purpose. These functions share no checking code with the monitors, which are tested against them.
"""

from __future__ import annotations

from unisono.properties.oracles.delivery import delivery_integrity, in_a_view, no_duplication
from unisono.properties.oracles.liveness import multicast_liveness
from unisono.properties.oracles.order import fifo, reliable_fifo
from unisono.properties.oracles.progress import bounded_resources, no_deadlock
from unisono.properties.oracles.repair import release_safety, repair_efficiency, stability
from unisono.properties.oracles.total import causal, key_discipline, reliable_causal, total_order, without_gaps

__all__ = [
    "bounded_resources",
    "causal",
    "delivery_integrity",
    "fifo",
    "in_a_view",
    "key_discipline",
    "multicast_liveness",
    "no_deadlock",
    "no_duplication",
    "release_safety",
    "reliable_causal",
    "reliable_fifo",
    "repair_efficiency",
    "stability",
    "total_order",
    "without_gaps",
]
