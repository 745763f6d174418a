"""Traces that keep every promise, sampled straight from the statements, with no protocol behind them."""

from __future__ import annotations

from unisono.properties.generator.run import NAMES
from unisono.properties.generator.sampler import good_trace
from unisono.properties.generator.sessions import good_session_trace

__all__ = ["NAMES", "good_session_trace", "good_trace"]
