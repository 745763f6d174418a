"""A canonical fingerprint of an engine's state: equal states have equal fingerprints, in any process.

It walks plain values, containers and slotted objects. Mappings and sets are taken in sorted order, so that the
history of their insertions does not count; sequences are taken in theirs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
from xxhash import xxh3_128_hexdigest


def fingerprint(state: object) -> str:
    """128 bits over everything reachable from `state`."""
    return xxh3_128_hexdigest(_encode(state))


def _encode(value: object) -> bytes:
    match value:
        case None | bool() | int() | float() | str():
            text = f"{type(value).__name__}:{value!r}".encode()
        case bytes() | bytearray() | memoryview():
            text = b"bytes:" + bytes(value)
        case dict():
            text = b"dict:" + b"".join(sorted(_encode(key) + _encode(item) for key, item in value.items()))
        case set() | frozenset():
            text = b"set:" + b"".join(sorted(_encode(item) for item in value))
        case list() | tuple() | deque():
            text = type(value).__name__.encode() + b":" + b"".join(_encode(item) for item in value)
        case _:
            name = type(value).__qualname__.encode()
            text = name + b":" + b"".join(_encode(attribute) + _encode(item) for attribute, item in _attributes(value))
    return len(text).to_bytes(8, "big") + text


def _attributes(value: Any) -> Iterator[tuple[str, object]]:
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield field, getattr(value, field)
        return
    if hasattr(value, "getstate"):
        yield "state", value.getstate()
        return
    if callable(value) and not hasattr(type(value), "__slots__"):
        return
    names = {name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())}
    names.update(getattr(value, "__dict__", ()))
    for name in sorted(names):
        if hasattr(value, name):
            yield name, getattr(value, name)
