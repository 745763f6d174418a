"""Tables that were computed by `localCheckpoint`: what Spark gives back only when Java happens to collect garbage."""

from __future__ import annotations

from pyspark.sql import DataFrame


def release(settled: DataFrame) -> None:
    """Give back now what such a table takes; nobody may read it any more."""
    settled._jdf.queryExecution().logical().rdd().unpersist(False)
