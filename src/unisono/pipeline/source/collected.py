"""A collector's retained log as columns."""

from __future__ import annotations

from unisono.errors import UnisonoError
from unisono.pipeline.source.logs import Columns
from unisono.pipeline.source.options import Options


def columns(options: Options) -> Columns:
    """The columns of the rows in reports; with `family`, those of that family."""
    raise UnisonoError("reading a collector is not offered yet")
