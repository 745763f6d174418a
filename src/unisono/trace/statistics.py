"""Types of statistics: those that the protocols keep for themselves, and what an application may report."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.errors import SettingError
from unisono.identity import why_bad_name
from unisono.trace.schema import Value

DOCUMENT_TYPES = {
    "P_INIT": "statistic",
    "COORD_MEMB": "statistic",
    "LOCAL_MEMB": "statistic",
    "PLEAVE": "membership",
    "MRA": "membership",
    "NO_MRA": "statistic",
    "MC": "statistic",
    "TO_SENDER": "membership",
    "SPONSOR": "statistic",
    "PADD": "membership",
    "RTR": "repair",
    "SENT_RTR": "statistic",
    "RTX": "repair",
}
"""The types that document 000 (6.2.3) reserves, with underscores for spaces and in capitals, and the family whose kind
each of them is in the trace."""
HOLE = "HOLE"
"""Reports were given up before the collector had them: rows are missing here."""
OWN_TYPES = (HOLE,)
RESERVED_TYPES = frozenset((*DOCUMENT_TYPES, *OWN_TYPES))

VALUES_LIMIT = 64
TEXT_LIMIT_BYTES = 1024
NUMBER_LIMIT = 1e300


def check_type(kind: str) -> str:
    """The type of an application's statistic, or an error that says what is wrong with it."""
    if not isinstance(kind, str):
        raise SettingError("report", f"the type of a statistic is text, got {type(kind).__name__}")
    if kind.upper().replace(" ", "_") in RESERVED_TYPES:
        raise SettingError("report", f"the type {kind!r} is reserved for the protocols; choose another")
    if (complaint := why_bad_name(kind)) is not None:
        raise SettingError("report", f"the type of a statistic: {complaint}")
    return kind


def check_values(values: Mapping[str, object]) -> None:
    """Refuse what a statistic cannot hold."""
    if len(values) > VALUES_LIMIT:
        raise SettingError("report", f"a statistic has at most {VALUES_LIMIT} values, got {len(values)}")
    for name, value in values.items():
        if (complaint := why_bad_name(name)) is not None:
            raise SettingError("report", f"the name of a value: {complaint}")
        if isinstance(value, str):
            if len(value.encode(errors="surrogatepass")) > TEXT_LIMIT_BYTES:
                raise SettingError("report", f"{name}: a text has at most {TEXT_LIMIT_BYTES} bytes")
            if any("\ud800" <= letter <= "\udfff" for letter in value):
                raise SettingError("report", f"{name}: a text is made of whole characters")
        elif not isinstance(value, int | float):
            raise SettingError("report", f"{name}: expected a number or a text, got {type(value).__name__}")
        elif not -NUMBER_LIMIT <= value <= NUMBER_LIMIT:
            raise SettingError("report", f"{name}: a number is finite and at most 1e300, got {value!s:.40}")


def values_of(values: Mapping[str, float | str | bool]) -> list[Value]:
    """The values as a row holds them."""
    return [
        Value(name, text=value) if isinstance(value, str) else Value(name, float(value))
        for name, value in values.items()
    ]
