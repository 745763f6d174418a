"""Work in waves: what a sweep asks of the place where its tasks run. Spark is one such place."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from unisono.errors import UnisonoError

QUICK = {
    "spark.task.maxFailures": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}
"""Settings for a session that is only spread over: to plan and to compile takes longer than what Spark itself does, and
who spreads knows better than Spark what to try again."""


class WaveFailed(UnisonoError):
    """A task of a wave ended without a result: its worker died. Other work may well go on."""


class Spreading(Protocol):
    """Runs waves of tasks. Any number may be under way at once."""

    def slots(self) -> int:
        """How many tasks can run at the same time, now."""

    def submit(self, payloads: Sequence[bytes]) -> Future[list[bytes]]:
        """Run a wave: a task for each payload. Its results come together; where one task fails, `WaveFailed` does."""

    def cancel(self) -> None:
        """End what is under way."""

    def close(self) -> None:
        """Wait for what is under way; nothing may be submitted from now on."""
