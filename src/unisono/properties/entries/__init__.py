"""Every property in one place: what it says, its three forms, a counter-example, and its line in a report."""

from __future__ import annotations

from unisono.properties.entries.delivery import DELIVERY
from unisono.properties.entries.liveness import LIVENESS
from unisono.properties.entries.membership import MEMBERSHIP
from unisono.properties.entries.order import ORDER
from unisono.properties.entries.property import Property
from unisono.properties.entries.proxies import PROXIES
from unisono.properties.entries.sessions import OPTIMISM
from unisono.properties.entries.states import STATES
from unisono.properties.entries.wellformed import WELL_FORMED

__all__ = ["PROPERTIES", "Property"]

PROPERTIES: dict[str, Property] = {
    item.id: item for item in (*WELL_FORMED, *DELIVERY, *STATES, *PROXIES, OPTIMISM, *MEMBERSHIP, *ORDER, *LIVENESS)
}
"""Every property by its id."""
