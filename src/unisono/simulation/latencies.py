"""How long messages took in one simulated run, counted while it goes on: from SEND to the last delivery there was."""

from __future__ import annotations

from math import ceil

from unisono.trace.schema import AnyRow, DeliverRow, SendRow

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

_Message = tuple[str, str, int, int]


class Latencies:
    """Watches the rows of a run."""

    def __init__(self) -> None:
        self.rows = 0
        self._sent: dict[_Message, int] = {}
        self._delivered: dict[_Message, int] = {}

    def watch(self, row: AnyRow) -> None:
        self.rows += 1
        if isinstance(row, DeliverRow):
            if row.truth is not None:
                self._delivered[row.group, row.source, row.source_incarnation, row.number] = row.truth
        elif isinstance(row, SendRow) and row.truth is not None:
            self._sent[row.group, row.process, row.incarnation, row.number] = row.truth

    def percentiles(self) -> dict[str, int]:
        """In nanoseconds, by name; empty where nothing was delivered."""
        taken = sorted(last - self._sent[message] for message, last in self._delivered.items() if message in self._sent)
        if not taken:
            return {}
        found = {name: taken[ceil(share * len(taken)) - 1] for name, share in PERCENTILES.items()}
        return {**found, "highest": taken[-1]}
