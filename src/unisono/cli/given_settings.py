"""Settings as a person writes them on the command line."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from unisono.errors import SettingError

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting; may be repeated."),
]


def read_given(given: list[str] | None) -> dict[str, Any]:
    """Their names and values; what each may be is checked where they are used."""
    found: dict[str, Any] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise SettingError("set", f"expected NAME=VALUE, got {text!r}")
        found[name] = int(value) if value.lstrip("-").isdecimal() else {"true": True, "false": False}.get(value, value)
    return found
