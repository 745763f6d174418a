"""From the registry of properties to their Spark forms: the registry names them, this finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from importlib import import_module

from pyspark.sql import DataFrame

from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import VIOLATION
from unisono.properties.registry import PROPERTIES

Form = Callable[[Projections], DataFrame]


def spark_form(property_id: str) -> Form:
    """The Spark form of one property."""
    module, _, name = PROPERTIES[property_id].spark.partition(":")
    form: Form = getattr(import_module(module), name)
    return form


def find_violations(trace: Projections, property_ids: Iterable[str] | None = None) -> DataFrame:
    """Everything that breaks these properties, or any, in one table."""
    ids = PROPERTIES if property_ids is None else property_ids
    return reduce(DataFrame.unionByName, (spark_form(property_id)(trace) for property_id in ids)).select(*VIOLATION)
