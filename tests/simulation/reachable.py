"""Counts the objects that an engine keeps: all that can be reached from it, but for code."""

from __future__ import annotations

import gc
from collections import Counter
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

CODE = (type, ModuleType, FunctionType, BuiltinFunctionType, CodeType)


def reachable(root: object) -> Counter[str]:
    """How many objects of each type, by its name."""
    seen, waiting, kinds = {id(root)}, [root], Counter[str]()
    while waiting:
        one = waiting.pop()
        kinds[type(one).__name__] += 1
        for other in gc.get_referents(one):
            if not isinstance(other, CODE) and id(other) not in seen:
                seen.add(id(other))
                waiting.append(other)
    return kinds
