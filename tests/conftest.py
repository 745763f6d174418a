"""What all tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long an example takes depends on what else the machine does; a test that is too slow is found by its duration.
settings.register_profile("unisono", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unisono")
