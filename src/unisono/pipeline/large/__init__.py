"""Valid traces of any size, made column by column: for benchmarks, and to damage at scale."""

from __future__ import annotations

from unisono.pipeline.large.trace import LargeTrace, write_large_run

__all__ = ["LargeTrace", "write_large_run"]
