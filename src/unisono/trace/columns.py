"""Columns of trace rows, as reports carry them: values, or runs of equal values, or spans of consecutive integers.

What comes from elsewhere is checked: the types of the values, and that a column has exactly as many as it should.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from math import isfinite
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Raw, Struct, structs

from unisono.errors import BadReport
from unisono.trace.schema import FAMILIES, Row

CONSTANTS = ("run", "process", "incarnation", "host")
"""Columns that are the same in all rows of a report, which has them once."""
COLUMNS: dict[str, tuple[str, ...]] = {
    family: tuple(name for name in kind.__struct_fields__ if name not in CONSTANTS) for family, kind in FAMILIES.items()
}
"""The other columns of each family, in their order."""
NUMBER_LIMIT = (1 << 63) - 1

Integer = Annotated[int, Meta(ge=-NUMBER_LIMIT - 1, le=NUMBER_LIMIT)]
Length = Annotated[int, Meta(ge=1, le=1 << 24)]


class Plain(Struct, array_like=True, tag=0, gc=False):
    """The values, one after the other."""

    values: Sequence[Any]


class Runs(Struct, array_like=True, tag=1, gc=False):
    """Each value so many times."""

    values: Sequence[Any]
    lengths: Sequence[int]


class Spans(Struct, array_like=True, tag=2, gc=False):
    """From each start on, so many integers."""

    starts: Sequence[int]
    lengths: Sequence[int]


Column = Plain | Runs | Spans


class RawPlain(Struct, array_like=True, forbid_unknown_fields=True, tag=0):
    values: Raw


class RawRuns(Struct, array_like=True, forbid_unknown_fields=True, tag=1):
    values: Raw
    lengths: list[Length]


class RawSpans(Struct, array_like=True, forbid_unknown_fields=True, tag=2):
    starts: list[Integer]
    lengths: list[Length]


RawColumn = RawPlain | RawRuns | RawSpans
"""A column as it came, its values not yet looked at."""


def pack(values: Sequence[Any]) -> Column:
    """A column of these values, in little room."""
    first = values[0]
    if values.count(first) == len(values):
        return Runs([first], [len(values)])
    return Plain(values)


def unpack(column: Column) -> list[Any]:
    """All values of a column."""
    if isinstance(column, Plain):
        return list(column.values)
    if isinstance(column, Runs):
        return list(chain.from_iterable(map(repeat, column.values, column.lengths)))
    return list(
        chain.from_iterable(
            range(start, start + length) for start, length in zip(column.starts, column.lengths, strict=True)
        )
    )


def check(family: str, name: str, raw: RawColumn, count: int) -> Column:
    """A column that came, its values typed; BadReport where they are of another type or another number."""
    decode = _DECODERS[family, name]
    column: Column
    try:
        if isinstance(raw, RawPlain):
            values = decode(raw.values)
            column, found = Plain(values), len(values)
        elif isinstance(raw, RawRuns):
            values = decode(raw.values)
            column, found = Runs(values, raw.lengths), sum(raw.lengths)
            if len(values) != len(raw.lengths):
                raise BadReport(
                    "columns do not match",
                    f"{family}.{name} has {len(values)} runs, but {len(raw.lengths)} lengths of runs",
                )
        else:
            values = []
            _refuse_spans(family, name, raw)
            column, found = Spans(raw.starts, raw.lengths), sum(raw.lengths)
    except (msgspec.DecodeError, ValueError) as error:
        raise BadReport("bad value", f"{family}.{name}: {error}") from None
    if found != count:
        raise BadReport("columns do not match", f"{family}.{name} has {found} values for {count} rows")
    if (family, name) in _NESTED:
        for value in chain.from_iterable(filter(None, values)):
            _refuse_numbers(family, name, value)
    return column


def _refuse_numbers(family: str, name: str, value: Any) -> None:
    """Numbers inside of lists, which their types do not bound."""
    for part in structs.astuple(value) if isinstance(value, Struct) else ():
        if isinstance(part, int) and not -NUMBER_LIMIT <= part <= NUMBER_LIMIT:
            raise BadReport("bad value", f"{family}.{name}: an integer of more than 63 bits")
        if isinstance(part, float) and not isfinite(part):
            raise BadReport("bad value", f"{family}.{name}: a number that is not finite")


def expanded_bytes(family: str, name: str, column: Column) -> int:
    """How much room the texts of a column take when every row has its own."""
    if isinstance(column, Spans) or (family, name) not in _VARIABLE:
        return 0
    if isinstance(column, Runs):
        return sum(_size(value) * length for value, length in zip(column.values, column.lengths, strict=True))
    return sum(map(_size, column.values))


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return 8 + sum(_size(item) for item in value)
    if isinstance(value, Struct):
        return 8 + sum(_size(getattr(value, name)) for name in value.__struct_fields__)
    return 0


def _refuse_spans(family: str, name: str, raw: RawSpans) -> None:
    if _without_none(_HINTS[family][name]) is not int:
        raise BadReport("bad value", f"{family}.{name}: spans are of integers")
    if len(raw.starts) != len(raw.lengths):
        raise BadReport(
            "columns do not match",
            f"{family}.{name} has {len(raw.starts)} starts of spans, but {len(raw.lengths)} lengths",
        )
    if any(start + length > NUMBER_LIMIT for start, length in zip(raw.starts, raw.lengths, strict=True)):
        raise BadReport("bad value", f"{family}.{name}: an integer of more than 63 bits")


def _without_none(annotation: Any) -> Any:
    options = [option for option in get_args(annotation) if option is not type(None)]
    return options[0] if type(None) in get_args(annotation) and len(options) == 1 else annotation


def _bounded(annotation: Any) -> Any:
    """The annotation with every integer bounded as tables have them."""
    if annotation is int:
        return Integer
    if annotation is str or annotation is bool or annotation is float or get_origin(annotation) is Literal:
        return annotation
    if get_origin(annotation) is list:
        return list[_bounded(get_args(annotation)[0])]  # type: ignore[misc]  # made from the schema's annotations
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation
    bare = _without_none(annotation)
    assert bare is not annotation, f"no column type for {annotation}"
    return _bounded(bare) | None


_HINTS: dict[str, dict[str, Any]] = {family: get_type_hints(kind) for family, kind in FAMILIES.items()}
_DECODERS = {
    (family, name): msgspec.msgpack.Decoder(list[_bounded(_HINTS[family][name])]).decode  # type: ignore[misc]  # as above
    for family, names in COLUMNS.items()
    for name in names
}
_VARIABLE = {
    (family, name)
    for family, name in _DECODERS
    if _without_none(_HINTS[family][name]) is str or get_origin(_without_none(_HINTS[family][name])) is list
}
_NESTED = {(family, name) for family, name in _DECODERS if get_origin(_without_none(_HINTS[family][name])) is list}
assert set(CONSTANTS) <= set(Row.__struct_fields__), "the constants are columns of every family"
