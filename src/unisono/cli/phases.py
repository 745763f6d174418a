"""How far a run in real time is: a line that changes on a terminal, else one for each phase; always on stderr."""

from __future__ import annotations

from unisono.cli.status_line import StatusLine


class Phases(StatusLine):
    """Shows the phase that a run is in, and how much of its time is over."""

    def __init__(self) -> None:
        super().__init__("starting")
        self._phase = ""

    def show(self, part: float, phase: str) -> None:
        if self._status is not None:
            self.update(f"{part:4.0%} {phase}")
        elif phase != self._phase:
            self.update(phase, news=True)
        self._phase = phase
