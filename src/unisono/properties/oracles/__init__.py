"""The obvious form of every property: look at all rows of one run, as often as it takes.

Slow on purpose. These functions share no checking code with the monitors, which are tested against them.
"""

from __future__ import annotations

from unisono.properties.oracles.accounts import dense_counts, one_account
from unisono.properties.oracles.delivery import delivery_integrity, in_a_view, no_duplication
from unisono.properties.oracles.farewells import last_sends
from unisono.properties.oracles.indications import stable_indication
from unisono.properties.oracles.liveness import multicast_liveness
from unisono.properties.oracles.lives import lives, named_have_rows, own_order
from unisono.properties.oracles.order import fifo, reliable_fifo
from unisono.properties.oracles.own import self_delivery, self_delivery_liveness
from unisono.properties.oracles.partings import kept_together
from unisono.properties.oracles.precision import membership_precision, termination
from unisono.properties.oracles.progress import bounded_resources, no_deadlock
from unisono.properties.oracles.proxies import proxied_once
from unisono.properties.oracles.repair import release_safety, repair_efficiency, stability
from unisono.properties.oracles.restarts import heard_again
from unisono.properties.oracles.sessions import block_discipline, optimistic_once, start_change_discipline
from unisono.properties.oracles.standstill import progress_of_each
from unisono.properties.oracles.states import one_state
from unisono.properties.oracles.synchrony import (
    agreed_forward_set,
    same_view,
    sending_view,
    virtual_synchrony,
    weak_total_order,
)
from unisono.properties.oracles.total import causal, key_discipline, reliable_causal, total_order, without_gaps
from unisono.properties.oracles.views import (
    monotone_views,
    primary_component,
    receiver_chain,
    self_inclusion,
    transitional_set,
    view_identity,
)

__all__ = [
    "agreed_forward_set",
    "block_discipline",
    "bounded_resources",
    "causal",
    "delivery_integrity",
    "dense_counts",
    "fifo",
    "heard_again",
    "in_a_view",
    "kept_together",
    "key_discipline",
    "last_sends",
    "lives",
    "membership_precision",
    "monotone_views",
    "multicast_liveness",
    "named_have_rows",
    "no_deadlock",
    "no_duplication",
    "one_account",
    "one_state",
    "optimistic_once",
    "own_order",
    "primary_component",
    "progress_of_each",
    "proxied_once",
    "receiver_chain",
    "release_safety",
    "reliable_causal",
    "reliable_fifo",
    "repair_efficiency",
    "same_view",
    "self_delivery",
    "self_delivery_liveness",
    "self_inclusion",
    "sending_view",
    "stability",
    "stable_indication",
    "start_change_discipline",
    "termination",
    "total_order",
    "transitional_set",
    "view_identity",
    "virtual_synchrony",
    "weak_total_order",
    "without_gaps",
]
