"""What all tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long an example takes depends on what else the machine does; a test that is too slow is found by its duration.
# Examples are the same in every run; `make anew` draws others, and one that fails there is kept as an @example.
settings.register_profile("unisono", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("anew", settings.get_profile("unisono"), derandomize=False, print_blob=True)
settings.load_profile("unisono")
