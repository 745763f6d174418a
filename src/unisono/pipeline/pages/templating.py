"""Pages from templates: the environment that every page of the project is rendered in.

A template of this package extends `base.html.jinja`, which has the style. What it is given is text unless it says
otherwise, and a name that it is not given is an error.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

from unisono.errors import UnisonoError
from unisono.units import MICROSECOND, MILLISECOND, SECOND

TEMPLATES = "templates"


def why_no_page() -> str | None:
    """What a page lacks here, if anything."""
    missing = [name for name in ("jinja2", "numpy", "pyarrow") if find_spec(name) is None]
    return f"a page needs {' and '.join(missing)}; install it with: pip install 'unisono[lab]'" if missing else None


def render(template: str, **values: Any) -> str:
    """The page that a template of this package makes of these values."""
    if (missing := why_no_page()) is not None:
        raise UnisonoError(missing)
    return str(_environment().get_template(template).render(second=SECOND, **values))


@cache
def _environment() -> Any:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        autoescape=True,
        loader=FunctionLoader(_template_text),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(duration=duration_words, number=number_words, size=size_words)
    return environment


def duration_words(nanoseconds: float) -> str:
    """Three digits and a unit."""
    if not nanoseconds:
        return "0 s"
    for unit, word in ((SECOND, "s"), (MILLISECOND, "ms"), (MICROSECOND, "µs")):
        if abs(nanoseconds) >= unit:
            value = nanoseconds / unit
            return f"{value:.3g} {word}" if abs(value) < 1000 else f"{value:.0f} {word}"
    return f"{nanoseconds:.0f} ns"


def number_words(value: int) -> str:
    """Digits in groups of three."""
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def size_words(value: float) -> str:
    """Bytes with three digits and a unit."""
    size = float(value)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def _template_text(name: str) -> str:
    return files("unisono.pipeline.pages").joinpath(TEMPLATES, name).read_text(encoding="utf-8")
