"""What ends a command that runs until it is ended: Ctrl-C and SIGTERM."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

END_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def on_end_signal(end: Callable[[], object]) -> Iterator[None]:
    """Call this for either of them, in the running loop, instead of what they do elsewhere."""
    loop = asyncio.get_running_loop()
    for number in END_SIGNALS:
        loop.add_signal_handler(number, end)
    try:
        yield
    finally:
        for number in END_SIGNALS:
            loop.remove_signal_handler(number)
