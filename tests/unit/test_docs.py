"""Pages that repeat what the code says, say what the code says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from unisono.settings import FIELDS
from unisono.trace.schema import FAMILIES

DOCS = Path(__file__).parents[2] / "docs"


def test_the_settings_page_is_up_to_date() -> None:
    page = runpy.run_path(str(DOCS / "generate_settings.py"))["page"]()
    assert page == (DOCS / "settings.md").read_text(encoding="utf-8"), "run `make docs`"
    assert all(f"`{name}`" in page for name in FIELDS)


def test_the_properties_page_names_every_column() -> None:
    page = (DOCS / "properties.md").read_text(encoding="utf-8")
    words = set(re.findall(r"`(\w+)`", page))
    for family, kind in FAMILIES.items():
        assert family in words
        missing = set(kind.__struct_fields__) - words
        assert not missing, f"docs/properties.md says nothing of {sorted(missing)}"


def test_every_erratum_has_its_row() -> None:
    page = (DOCS / "departures.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (E\d+) \|", page, re.MULTILINE) == [f"E{number}" for number in range(1, 26)]


def test_links_between_pages_lead_somewhere() -> None:
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
