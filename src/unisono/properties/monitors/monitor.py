"""What every monitor is: a structure that is its own state, with one handler for each kind of row that it reads.

Rows may come in any order that keeps each process's own order; the verdict and the number of violations are the same.
Only which of too many violations are kept depends on the order: those that came first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import msgspec
from msgspec import Struct

from unisono.errors import TraceError
from unisono.properties.violation import Violation
from unisono.trace.schema import AnyRow

Handler = Callable[[Any], None]

EVERY = "*"
"""Stands for every kind of row; a monitor that reads every row has one handler, for this."""

KEPT_VIOLATIONS = 20
"""A monitor counts every violation and keeps the first so many, unless it is told to keep more."""

Member = tuple[str, str, int]
"""One process in one group: group, name, incarnation."""

Source = tuple[str, int]
"""One life of a sender: name, incarnation."""

Stream = tuple[str, str, int, str, int]
"""One source as one member hears it: group, name, incarnation, source, its incarnation."""

Stretch = tuple[str, str, int, int]
"""One stretch of a member: group, name, incarnation, stretch."""

Key = tuple[int, str, int]
"""What orders messages: timestamp, source, its incarnation."""


class Monitor(Struct):
    """Checks one property while the run goes on.

    `violations` are the first ones, up to `keep` of them; `count` is how many there were.
    """

    property_id: ClassVar[str]

    violations: list[Violation] = []
    count: int = 0
    finished: bool = False
    keep: int = KEPT_VIOLATIONS

    def handlers(self) -> dict[str, Handler]:
        """What to call for each kind of row; other kinds need not be shown."""
        raise NotImplementedError

    def conclude(self) -> None:
        """Judge what can only be judged at the end."""

    def observe(self, row: AnyRow) -> None:
        """Take the next row, of any kind."""
        handlers = self.handlers()
        handler = handlers.get(row.kind) or handlers.get(EVERY)
        if handler is not None:
            handler(row)

    def finish(self) -> None:
        """Say that the run is over. A second call changes nothing."""
        if not self.finished:
            self.finished = True
            self.conclude()

    def report(self, group: str, process: str, incarnation: int, position: int, message: str | None, text: str) -> None:
        """Note one violation."""
        self.count += 1
        if len(self.violations) < self.keep:
            self.violations.append(Violation(self.property_id, group, process, incarnation, position, message, text))

    def dump(self) -> bytes:
        """The whole state."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def load(cls, data: bytes) -> Self:
        """The monitor that was dumped, to go on from there."""
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except msgspec.MsgspecError as error:
            raise TraceError(f"this is no stored state of the monitor of {cls.property_id}: {error}") from None
