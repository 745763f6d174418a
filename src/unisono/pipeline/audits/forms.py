"""From the registry of properties to their Spark forms: the registry names them, this finds them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from pyspark.sql import DataFrame

from unisono.pipeline.audits.projections import Projections
from unisono.properties.registry import PROPERTIES

Form = Callable[[Projections], DataFrame]


def spark_form(property_id: str) -> Form:
    """The Spark form of one property."""
    module, _, name = PROPERTIES[property_id].spark.partition(":")
    form: Form = getattr(import_module(module), name)
    return form
