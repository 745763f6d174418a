"""Reports as record batches of pyarrow, which comes with the extra `lab`: a run of equal values is made once."""

from __future__ import annotations

from itertools import accumulate, chain, repeat
from typing import Any

from msgspec import Struct, structs

from unisono.errors import TraceError
from unisono.trace.columns import Column, Runs, unpack
from unisono.trace.parquet import arrow_schema
from unisono.trace.reports import Report, column


def record_batch(report: Report, family: str) -> Any:
    """The rows of one family, with the columns of its table."""
    schema = arrow_schema(family)
    import pyarrow
    import pyarrow.compute

    try:
        arrays = [_array(pyarrow, column(report, family, field.name), field.type) for field in schema]
        return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
    except (OverflowError, TypeError, pyarrow.ArrowException) as error:
        raise TraceError(f"{report.id} has a value in {family} that fits no table: {error}") from error


def _array(pyarrow: Any, found: Column, kind: Any) -> Any:
    if not isinstance(found, Runs):
        return pyarrow.array(_plain(unpack(found)), type=kind)
    values = pyarrow.array(_plain(found.values), type=kind)
    if pyarrow.types.is_nested(kind):
        places = chain.from_iterable(map(repeat, range(len(found.values)), found.lengths))
        return values.take(pyarrow.array(list(places), type=pyarrow.int32()))
    ends = pyarrow.array(list(accumulate(found.lengths)), type=pyarrow.int32())
    return pyarrow.compute.run_end_decode(pyarrow.RunEndEncodedArray.from_arrays(ends, values))


def _plain(values: Any) -> Any:
    """Nested structs as pyarrow takes them."""
    if any(isinstance(value, list) and value and isinstance(value[0], Struct) for value in values):
        return [None if value is None else [structs.asdict(item) for item in value] for value in values]
    return values
