"""Properties of what members let others send for them."""

from __future__ import annotations

from unisono.properties import oracles
from unisono.properties.damages import DAMAGES
from unisono.properties.entries.property import Property
from unisono.properties.monitors.proxies import ProxiedOnce

PROXIES = (
    Property(
        id="D11",
        name="proxied once",
        statement=(
            "For every HANDED row there is an ASKED row of its origin, in the same group and with the same number; the "
            "first of them has the same size and body, and is not later in global time where both have it. A process "
            "hands a number of an origin over once in a group; where its service keeps the order of a source (all but "
            "UU and ALF), it hands over no number that is lower than one of that origin before it."
        ),
        report="what was sent for another was not asked for, or an application got it twice or out of order",
        oracle=oracles.proxied_once,
        monitor=ProxiedOnce,
        spark="unisono.pipeline.audits.proxies:proxied_once",
        counter_example=DAMAGES["handed_twice"],
    ),
)
