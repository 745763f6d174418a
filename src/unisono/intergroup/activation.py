"""The receiver's half of the activation handshake (000 4.7.1), while it lasts.

The source counts the receiver from its grant on, so that the receiver need not be in any stability report before it
knows its activation point. Requests are repeated; a source that never answers is reported and left alone for a while.
"""

from __future__ import annotations

from unisono.engine import Address


class Activation:
    """One attempt to follow a source, or the rest after one that failed."""

    __slots__ = ("address", "asked_at", "attempt", "due", "resting", "tries")

    def __init__(self, address: Address, attempt: int, due: int) -> None:
        self.address = address
        self.attempt = attempt
        self.due = due
        self.tries = 0
        self.asked_at = 0
        self.resting = False

    def become_resting(self, until: int) -> None:
        self.resting = True
        self.due = until
