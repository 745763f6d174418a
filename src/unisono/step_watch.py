"""The bound on one step of an engine: a step that does not end is ended with an error that names it.

An engine is called and returns; while it does not, nothing else in the process runs, no timeout and no signal handler
of a loop. So a thread looks on. It goes by processor time: a process that was stopped, or a busy machine, is no reason.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from types import FrameType, TracebackType
from typing import Self

STEP_LIMIT_SECONDS = 5.0
"""Of processor time. The longest steps of real engines, which put together the largest messages, take a tenth of it."""
FACTS_LIMIT = 200_000
"""So many steps lead to one another at most, with no time in between."""
_LOOKS = 4
"""So often in the time limit the thread looks."""
_DEPTH = 10
"""So many calls are named, from the innermost: enough to see in which loop they are."""


class StepOverrun(RuntimeError):
    """An engine was given a fact and did not come to an end with it."""

    def __init__(self, process: str, fact: object, where: str) -> None:
        super().__init__(process, fact, where)
        self.process = process
        self.fact = fact
        self.where = where

    def __str__(self) -> str:
        words = repr(self.fact)
        told = words if len(words) < 200 else f"{words[:200]}..."
        return f"the engine of {self.process!r} does not come to an end: {self.where}; it was given {told}"


class StepWatch:
    """Looks on while engines step, one at a time, in the thread that started it.

    `begin` and `end` cost two assignments each: they stand around every step.
    """

    __slots__ = ("_claimed", "_count", "_fact", "_limit", "_lock", "_over", "_process", "_thread", "_watched")

    def __init__(self, limit_seconds: float | None = None) -> None:
        self._limit = STEP_LIMIT_SECONDS if limit_seconds is None else limit_seconds
        self._count = 0
        self._claimed = 0
        self._fact: object | None = None
        self._process = ""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._watched = 0

    def start(self) -> None:
        self._watched = threading.get_ident()
        self._thread = threading.Thread(target=self._look_on, name="unisono-step-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def begin(self, process: str, fact: object) -> None:
        """An engine is called."""
        self._count += 1
        self._process = process
        self._fact = fact

    def end(self) -> None:
        """It has returned, or raised."""
        self._fact = None
        if self._claimed == self._count:  # the error is on its way into this thread, and comes before this returns
            with self._lock:
                pass
            for _ in range(_LOOKS):
                pass

    def _look_on(self) -> None:
        seen, since = 0, 0.0
        while not self._over.wait(self._limit / _LOOKS):
            if self._fact is None or self._count != seen:
                seen, since = self._count, time.process_time()
            elif time.process_time() - since >= self._limit:
                self._interrupt(seen)

    def _interrupt(self, seen: int) -> None:
        """Raise an error in the thread that steps, unless the step ends in this moment."""
        with self._lock:
            self._claimed = seen
            process, fact, frame = self._process, self._fact, sys._current_frames().get(self._watched)
            if fact is None or self._count != seen:
                return
            where = f"{self._limit:g} s of processor time went into one step, at last in {_place(frame)}"

            class Overrun(StepOverrun):
                """With its words: only a class can be raised in another thread."""

                def __init__(self) -> None:
                    super().__init__(process, fact, where)

            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._watched), ctypes.py_object(Overrun))


def _place(frame: FrameType | None) -> str:
    """The innermost calls of a stack."""
    places: list[str] = []
    while frame is not None and len(places) < _DEPTH:
        code = frame.f_code
        places.append(f"{code.co_qualname} ({code.co_filename.rpartition('/')[2]}:{frame.f_lineno})")
        frame = frame.f_back
    return ", called by ".join(places)
