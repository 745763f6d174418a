"""A canonical fingerprint of an engine's state: equal states have equal fingerprints, in any process.

It walks plain values, containers and slotted objects. Mappings and sets are taken in sorted order, so that the
history of their insertions does not count; sequences are taken in theirs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
from xxhash import xxh3_128_digest, xxh3_128_hexdigest


def fingerprint(state: object) -> str:
    """128 bits over everything reachable from `state`."""
    return xxh3_128_hexdigest(_encode(state, {}))


def _encode(value: object, seen: dict[int, bytes]) -> bytes:
    """A value as bytes; an object, which many others may hold, is looked at once and stands for itself after that."""
    match value:
        case None | bool() | int() | float() | str():
            text = f"{type(value).__name__}:{value!r}".encode()
        case bytes() | bytearray() | memoryview():
            text = b"bytes:" + bytes(value)
        case dict():
            text = b"dict:" + b"".join(sorted(_encode(key, seen) + _encode(item, seen) for key, item in value.items()))
        case set() | frozenset():
            text = b"set:" + b"".join(sorted(_encode(item, seen) for item in value))
        case list() | tuple() | deque():
            text = type(value).__name__.encode() + b":" + b"".join(_encode(item, seen) for item in value)
        case _:
            known = seen.get(id(value))
            if known is None:
                seen[id(value)] = b"around"  # who is reached again from within itself is not looked at again
                parts = (_encode(name, seen) + _encode(item, seen) for name, item in _attributes(value))
                known = seen[id(value)] = xxh3_128_digest(type(value).__qualname__.encode() + b":" + b"".join(parts))
            text = b"object:" + known
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
