"""Valid traces made wrong, each in one named way, with the properties that must notice.

The checkers are tested with these.
"""

from __future__ import annotations

from unisono.properties.damages import contents, deliveries, keys, order, repairs, rings, runs, views
from unisono.properties.damages.damage import Damage

__all__ = ["DAMAGES", "Damage"]

_ALL = (
    deliveries.removed_delivery,
    deliveries.removed_last_delivery,
    deliveries.doubled_delivery,
    deliveries.late_duplicate,
    deliveries.swapped_deliveries,
    deliveries.delivery_before_view,
    deliveries.stranger,
    contents.changed_body,
    contents.changed_timestamp,
    contents.changed_size,
    contents.changed_sequence,
    contents.wrong_incarnation,
    contents.wrong_number,
    contents.wrong_group,
    contents.removed_send,
    contents.sent_too_late,
    views.forgotten_source,
    views.wrong_start,
    views.wrong_continuation,
    views.lost_view,
    views.wrong_view,
    views.removed_view,
    keys.forged_timestamp,
    keys.decreasing_timestamp,
    keys.sent_below_delivered,
    order.swapped_keys,
    order.below_the_horizon,
    order.cross_group_inversion,
    order.dropped_lower_key,
    order.dropped_last_of_source,
    order.empty_deliveries,
    order.moved_start,
    rings.ring,
    rings.forged_ring,
    repairs.released_too_early,
    repairs.asked_after_release,
    repairs.never_released,
    repairs.last_release_missing,
    repairs.too_many_requests,
    repairs.too_many_repairs,
    runs.gauge_above_cap,
    runs.stalled,
    runs.silenced,
    runs.shut_out,
)

DAMAGES: dict[str, Damage] = {item.name: item for item in _ALL}
"""Every damage by its name."""
