"""Helps with a name that is not known."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """The near name if there is one, else all of them."""
    near = get_close_matches(name, known, 1, 0.6)
    return f'did you mean "{near[0]}"?' if near else f"expected one of {', '.join(known)}"
