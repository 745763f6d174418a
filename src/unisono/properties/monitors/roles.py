"""What a member was when: a sender or a receiver."""

from __future__ import annotations

from collections.abc import Sequence

Told = tuple[int, str | None]
"""A time, and the role that a view or ROLE told then."""


def role_at(told: Sequence[Told], latest: int, unknown: str | None = None) -> str | None:
    """What was told last, up to a time."""
    return next((role for time, role in reversed(told) if time <= latest), unknown)


def only_receives(told: Sequence[Told], due: int, joined_as: str | None = None) -> bool:
    """Whether a member is a receiver at last, or was one when it should have been heard by all."""
    return "receiver" in (told[-1][1] if told else joined_as, role_at(told, due, joined_as))
