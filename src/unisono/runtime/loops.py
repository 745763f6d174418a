"""The event loop of commands and scripts: uvloop where it is installed, else the one of Python."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from importlib import import_module
from typing import Any, TypeVar

Result = TypeVar("Result")


def new_loop() -> asyncio.AbstractEventLoop:
    try:
        uvloop: Any = import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Like asyncio.run, on the best loop there is."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)
