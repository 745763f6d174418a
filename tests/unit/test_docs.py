"""Pages that repeat what the code says, say what the code says."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

from unisono.cli.simulate import seed_range
from unisono.settings import FIELDS
from unisono.sweeps.grid import points
from unisono.sweeps.result import SeedRow
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


def test_the_page_of_sweeps_names_every_column_and_its_grids_are_read_so() -> None:
    page = (DOCS / "sweeps.md").read_text(encoding="utf-8")
    missing = set(SeedRow.__struct_fields__) - set(re.findall(r"`(\w+)`", page))
    assert not missing, f"docs/sweeps.md says nothing of {sorted(missing)}"
    counts = {"one point": 1, "two points": 2, "three points": 3, "four points": 4}
    examples = re.findall(r"^\| `(--set .*)` \| (\w+ points?)", page, re.MULTILINE)
    assert len(examples) == 7
    for written, told in examples:
        changes = [word for word in shlex.split(written) if word != "--set"]
        assert len(points("quiet-lan", changes)) == counts[told], written


def test_the_first_call_on_the_page_of_sweeps_can_be_made() -> None:
    page = (DOCS / "sweeps.md").read_text(encoding="utf-8")
    (call,) = re.findall(r"^    unisono sweep (.*)$", page, re.MULTILINE)
    name, *words = shlex.split(call)
    assert words[0] == "--seeds"
    assert seed_range(words[1]) == range(20)
    changes = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    assert [point.name for point in points(name, changes)] == ["loss=0", "loss=0.05"]
