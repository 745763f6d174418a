"""Writes docs/settings.md from the table of settings; `make docs` calls it, a test checks that it was called."""

from __future__ import annotations

from pathlib import Path

from msgspec import Meta

from unisono.settings import FIELDS, SettingField

PAGE = Path(__file__).with_name("settings.md")

HEAD = """\
# Settings

<!-- Made by `make docs` from src/unisono/settings.py; change it there. -->

What a process may say about how it takes part in a group: as keywords of `unisono.join`, or by name under `[options]`
in a scenario. Durations and sizes are written with a unit (`"200ms"`, `"4MiB"`); a bare number is refused for a
duration, and read as bytes for a size. A value outside its bounds is refused with the bounds.

| setting | default | bounds | meaning |
| --- | --- | --- | --- |
"""


def bounds(field: SettingField) -> str:
    """The smallest and the largest value, where there are such."""
    meta = next(part for part in field.type.__metadata__ if isinstance(part, Meta))
    if meta.ge is None or meta.le is None:
        return ""
    return f"{field.shown(int(meta.ge))} to {field.shown(int(meta.le))}"


def page() -> str:
    """The whole page."""
    rows = [
        f"| `{field.name}` | `{field.shown(field.default)}` | {bounds(field)} | {field.says} |\n"
        for field in FIELDS.values()
    ]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
