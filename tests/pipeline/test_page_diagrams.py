"""The space-time diagram of each property's counter-example shows the place, the messages and who lacks what."""

from __future__ import annotations

import re
import runpy
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from tests.pipeline.agreed_traces import agreed_traces
from tests.pipeline.traces import counter_example
from unisono.pipeline.monitor_audit import audit_rows
from unisono.pipeline.pages.page import render_page
from unisono.pipeline.pages.verdict_words import HELD, SHOWS
from unisono.properties.registry import PROPERTIES
from unisono.properties.violation import Violation, message_name, process_name
from unisono.trace.schema import AnyRow, DeliverRow, SendRow, ViewRow

ROOT = Path(__file__).parents[2]
LACKING = ("D5", "D6", "D9", "O2", "O4", "O7", "L2", "L3", "L5")
"""What these say is that somebody does not have a message."""
TWO_MESSAGES = ("O1", "O2", "O3", "O5", "O6")
"""These need two messages to be seen."""
HELD_AGAINST = ("D2", "D8", "D10", "D11", "M4", "M7")
"""These need another row beside the offending one."""


class Made:
    """One counter-example: its trace, the first violation of its property, and the part of the page about it."""

    def __init__(self, property_id: str) -> None:
        self.rows: list[AnyRow] = counter_example(property_id)
        (report,) = audit_rows(self.rows)
        self.violation: Violation = next(one for one in report.violations if one.property == property_id)
        self.page = render_page(self.rows, report, "monitor")
        begin = self.page.index(f'<section class="example" id="{property_id.lower()}-1">')
        self.section = self.page[begin : self.page.index("</section>", begin)]
        drawn = re.search(r"<svg.*?</svg>", self.section, re.DOTALL)
        assert drawn is not None
        self.svg = ElementTree.fromstring(drawn[0])

    def parts(self, name: str) -> list[ElementTree.Element]:
        """Elements that have this word among their classes."""
        return [part for part in self.svg.iter() if name in part.get("class", "").split()]


made = cache(Made)


def title(part: ElementTree.Element) -> str:
    found = part.find("title")
    assert found is not None
    return found.text or ""


@pytest.mark.parametrize("property_id", PROPERTIES)
def test_the_diagram_marks_the_offending_event(property_id: str) -> None:
    case = made(property_id)
    place = case.violation
    if property_id == "L6":
        (silence,) = case.parts("silence")
        assert float(silence.get("width", 0)) > 100
        return
    offending = [part for part in case.parts("event") if "offending" in part.get("class", "")]
    if place.process:
        (event,) = offending
        assert event.get("data-life") == process_name(place.process, place.incarnation)
        assert f"{process_name(place.process, place.incarnation)} at {place.position}:" in title(event)
        assert case.section.count("✗ here") == 1
    else:
        assert offending
    assert all(part.find("circle") is not None for part in offending)
    assert any((part.text or "").startswith("✗") for part in case.svg.iter("text"))


@pytest.mark.parametrize("property_id", PROPERTIES)
def test_the_diagram_has_an_arrow_for_each_delivery_of_the_message(property_id: str) -> None:
    case = made(property_id)
    if case.violation.message is None or property_id == "D11":
        assert case.parts("event") or property_id == "L6"
        return
    name = case.violation.message
    lanes = {part.get("data-life") for part in case.parts("lane")}
    sent = [row for row in case.rows if isinstance(row, SendRow) and sent_name(row) == name]
    heard = [row for row in case.rows if isinstance(row, DeliverRow) and heard_name(row) == name]
    arrows = [part for part in case.parts("arrow") if part.get("data-m") == name]
    assert sent
    assert sorted(str(part.get("data-life")) for part in arrows) == sorted(
        life for row in heard if (life := process_name(row.process, row.incarnation)) in lanes
    )
    shown = [part for part in case.parts("event") if part.get("data-m") == name]
    assert len(shown) == len(sent) + len(arrows)


def sent_name(row: SendRow) -> str:
    return message_name(row.process, row.incarnation, row.number)


def heard_name(row: DeliverRow) -> str:
    return message_name(row.source, row.source_incarnation, row.number)


@pytest.mark.parametrize("property_id", LACKING)
def test_what_is_missing_is_an_empty_ring_at_who_lacks_it(property_id: str) -> None:
    case = made(property_id)
    (gap,) = case.parts("gap")
    message, life = gap.get("data-m"), gap.get("data-life")
    if property_id == "O2":
        assert message != case.violation.message
    elif property_id != "D5":
        assert message == case.violation.message
        assert life == process_name(case.violation.process, case.violation.incarnation)
    view = None
    if property_id == "D5":
        (view,) = {
            row.previous
            for row in case.rows
            if isinstance(row, ViewRow)
            and (row.process, row.position) == (case.violation.process, case.violation.position)
        }
    having = {
        process_name(row.process, row.incarnation)
        for row in case.rows
        if isinstance(row, DeliverRow) and heard_name(row) == message and view in (None, row.view)
    }
    assert life not in having
    assert "lacks" in case.section


@pytest.mark.parametrize("property_id", TWO_MESSAGES)
def test_order_is_shown_with_both_messages(property_id: str) -> None:
    case = made(property_id)
    names = list(dict.fromkeys(re.findall(r'<li class="m\d" data-m="([^"]+)"', case.section)))
    assert len(names) == 2
    assert case.violation.message in (None, names[0])
    for name in names:
        assert any(part.get("data-m") == name for part in case.parts("event"))
    if property_id in ("O1", "O6"):
        life = (case.violation.process, case.violation.incarnation)
        order = [
            heard_name(row)
            for row in case.rows
            if isinstance(row, DeliverRow) and (row.process, row.incarnation) == life
        ]
        assert order.index(names[1]) < order.index(names[0])


@pytest.mark.parametrize("property_id", HELD_AGAINST)
def test_what_the_place_is_held_against_has_a_ring_too(property_id: str) -> None:
    case = made(property_id)
    assert [part for part in case.parts("event") if "marked" in part.get("class", "")]


@pytest.mark.parametrize("property_id", ["M1", "M2", "M4", "M5", "M7", "M9", "L1"])
def test_views_are_bars_with_their_members(property_id: str) -> None:
    case = made(property_id)
    lives = {str(part.get("data-life")) for part in case.parts("lane")}
    bars = case.parts("view")
    assert {str(bar.get("data-life")) for bar in bars} <= lives
    mine = process_name(case.violation.process, case.violation.incarnation)
    assert any(bar.get("data-life") == mine and ": view " in title(bar) for bar in bars)


def test_every_property_has_its_words() -> None:
    assert set(HELD) == set(SHOWS) == set(PROPERTIES)


def test_a_diagram_stays_readable_and_says_what_it_leaves_out() -> None:
    """Thirty processes that all deliver: ten lanes are drawn, and events never share a place on a lane."""
    rows: list[AnyRow] = []
    for number in range(40):
        rows.append(_send(number))
        rows += [_delivery(f"q{who:02d}", number, number + 1) for who in range(30)]
    wrong = _delivery("q07", 39, 41)
    (report,) = audit_rows([*rows, wrong])
    assert report.counts["D2"] == 1
    page = render_page([*rows, wrong], report, "monitor")
    drawn = re.search(r'id="d2-1".*?(<svg.*?</svg>)(.*?)</section>', page, re.DOTALL)
    assert drawn is not None
    svg = ElementTree.fromstring(drawn[1])
    lanes = [part for part in svg.iter() if part.get("class") == "lane"]
    assert len(lanes) == 10
    assert "Not drawn: 21 other lives of processes" in drawn[2]
    places = [_place(part) for part in svg.iter() if part.get("class", "").startswith("event")]
    assert 2 < len(places) <= 64
    assert len(set(places)) == len(places)


def _place(part: ElementTree.Element) -> tuple[str, str]:
    dot = next(one for one in part if one.get("class") == "dot")
    return str(part.get("data-life")), str(dot.get("transform"))


def _send(number: int) -> SendRow:
    return SendRow(
        kind="SEND", group="g", process="p", incarnation=1, position=number, at=number * 1000, truth=number * 1000,
        sequence=number, number=number, timestamp=number, size=1, body=0, service="USO",
    )  # fmt: skip


def _delivery(process: str, number: int, position: int) -> DeliverRow:
    return DeliverRow(
        kind="DELIVER", group="g", process=process, incarnation=1, position=position, at=number * 1000 + 10,
        truth=number * 1000 + 10, source="p", source_incarnation=1, sequence=number, number=number, timestamp=number,
        size=1, body=0, index=position, service="USO",
    )  # fmt: skip


def test_pages_of_agreed_traces_draw_every_violation() -> None:
    """Traces that break a property at a known place, by hand: none is without its diagram."""
    traces: dict[str, list[AnyRow]] = {}
    for row in agreed_traces():
        traces.setdefault(row.run, []).append(row)
    drawn: list[str] = []
    for rows in list(traces.values())[:6]:
        (report,) = audit_rows(rows)
        page = render_page(rows, report, "monitor")
        broken: Sequence[str] = list(report.counts)
        assert all(f'id="{name.lower()}-1"' in page for name in broken)
        assert page.count('class="picture space-time"') >= len(broken)
        drawn += broken
    assert drawn


@pytest.mark.parametrize(
    "text",
    [
        "Under load nothing was delivered or installed for 34.517 s from 144275910 on.",
        "under load there is no progress from 144275910 to 34661275910",
    ],
)
def test_a_silence_is_found_in_the_words_of_either_engine(text: str) -> None:
    rows = counter_example("L6")
    (report,) = audit_rows(rows)
    others = [one for one in report.violations if one.property != "L6"]
    told = replace(report, violations=[*others, Violation("L6", "", "", 0, 0, None, text)])
    page = render_page(rows, told, "spark")
    assert page.count('class="silence"') == 1
    assert "audited by Spark" in page


def test_the_picture_in_the_docs_is_up_to_date() -> None:
    drawn = runpy.run_path(str(ROOT / "docs" / "draw_space_time.py"))["picture"]()
    assert (ROOT / "docs" / "pictures" / "space-time.svg").read_text(encoding="utf-8") == drawn, "run make docs"
    assert "![" in (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")


def test_the_docs_name_every_property_that_is_drawn() -> None:
    text = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    table = text[text.index("| property |") : text.index("Below it:")]
    assert set(re.findall(r"\b[DMOLW]\d+\b", table)) == set(PROPERTIES)
