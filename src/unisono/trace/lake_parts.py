"""One part of a table in the lake: the rows of some reports, with a note on what they are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from unisono.errors import TraceError
from unisono.trace.parquet import arrow_schema, open_table_writer, table_path
from unisono.trace.report_batches import record_batch
from unisono.trace.reports import Report

_CONTENTS_KEY = b"unisono.reports"


def write_part(folder: Path, family: str, name: str, reports: Sequence[Report], contents: bytes) -> Path:
    """Write the rows that reports have of one family into a new file; on disk when this returns."""
    import pyarrow

    table = table_path(folder, family)
    table.mkdir(parents=True, exist_ok=True)
    path = table / name
    schema = arrow_schema(family)
    try:
        with open_table_writer(path, family, {_CONTENTS_KEY: contents}) as writer:
            if reports:
                rows = pyarrow.Table.from_batches([record_batch(report, family) for report in reports], schema)
                writer.write_table(rows.cast(writer.schema))
    except pyarrow.ArrowException as error:
        raise TraceError(f"cannot write {path}: {error}") from error
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return path


def read_contents(path: Path) -> bytes:
    """The note of a part."""
    import pyarrow
    from pyarrow import parquet

    try:
        found: dict[bytes, bytes] = parquet.read_schema(path).metadata or {}
    except (OSError, pyarrow.ArrowException) as error:
        raise TraceError(f"cannot read {path}: {error}") from error
    if _CONTENTS_KEY not in found:
        raise TraceError(f"{path} was not written by a collector")
    return found[_CONTENTS_KEY]
