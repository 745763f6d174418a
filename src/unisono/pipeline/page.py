"""The page of a run: verdicts, counter-examples, who was there when, throughput, latency and repairs, in one file.

The page loads nothing: style and pictures are inside, so that it can be kept, sent and read anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from unisono.errors import TraceError
from unisono.marks import ALL_MARKS
from unisono.pipeline import pictures
from unisono.pipeline.report import AuditReport, RunReport, Verdict
from unisono.pipeline.runs import find_runs, read_rows
from unisono.pipeline.story import PERCENTILES, Story, story
from unisono.pipeline.templating import render
from unisono.properties.registry import PROPERTIES
from unisono.properties.violation import Violation, process_name
from unisono.trace.schema import AnyRow
from unisono.units import SECOND

PAGE = "page.html"
SHOWN_VIOLATIONS = 5
SHOWN_VIEWS = 100
_TEMPLATE = "page.html.jinja"

_HELD = {
    "D1": "Whatever was delivered had been sent, exactly like that.",
    "D2": "Nobody got a message twice.",
    "D3": "Every message was delivered in the era in which it was sent, between two repairs of the membership.",
    "D4": "Every message was delivered in one era, by all who got it.",
    "D5": "Those who went on together had delivered the same before.",
    "D6": "Every sender heard its own messages in time.",
    "D8": "Nobody who counts asked for what its source had released.",
    "D9": "What a sender answered for when an era ended was delivered by those who went on with it.",
    "M1": "Every sender was in the views that it installed.",
    "M2": "Views were installed in the order of their identifiers.",
    "M3": "Everything was sent and delivered in the view that was installed.",
    "M4": "A view was the same at all who installed it.",
    "M5": "Every view was right about who came along from the one before.",
    "M7": "Primary views, where they were asked for, followed one another without a break.",
    "M9": "Receivers went through the views that senders installed.",
    "O1": "The messages of each source came in the order in which they were sent.",
    "O2": "Of a source in the view, no message was left out, and nothing came from anybody else.",
    "O3": "Whatever a message may depend on was sent and delivered before it.",
    "O4": "Nothing that a delivered message may depend on was left out.",
    "O5": "Those who went on together had delivered in one order.",
    "O6": "Every process delivered in the one order of the keys.",
    "O7": "Within an era nothing of that order was left out.",
    "O8": "Timestamps were the same everywhere, and never went back.",
    "L1": "Long after the last fault the view was that of all living senders, where the run lasted so long.",
    "L2": "Who lived to the end got what the living in its view sent, the last 2 s aside.",
    "L3": "Who lived to the end heard all of its own messages, the last 2 s aside.",
    "L4": "What everybody had was released, the last 2 s aside.",
    "L5": "What was sent in an era was delivered by its living members, the last 10 s aside.",
    "L6": "Under load there was never a halt of more than 10 s.",
    "L7": "No buffer grew above its cap.",
    "L8": "No loss was asked for, or repaired, more than 3 times on average.",
}
"""What a property means where it held; where it did not, the registry has the sentence."""


class Place(Struct, frozen=True):
    """One counter-example in words."""

    process: str
    message: str
    position: str
    at: str
    text: str


class Line(Struct, frozen=True):
    """One property."""

    id: str
    name: str
    verdict: Verdict
    sentence: str
    statement: str
    count: int
    places: list[Place]


def page_place(path: Path) -> Path:
    """Where the page of a run goes unless somebody says otherwise: into the folder of the run, or beside its spool."""
    return path / PAGE if path.is_dir() else path.with_name(f"{path.name}.html")


def write_page(path: str | os.PathLike[str], report: AuditReport, out: Path) -> None:
    """Write the page of the one run at this path, which was audited with this report."""
    runs = find_runs([path])
    if len(runs) != 1 or len(report.runs) != 1:
        raise TraceError(f"{path} holds {max(len(runs), len(report.runs))} runs; name one of them")
    text = render_page(read_rows(runs[0]), report.runs[0], report.engine)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")


def render_page(rows: Sequence[AnyRow], report: RunReport, engine: str) -> str:
    """The page of one run."""
    told = story(rows)
    return render(
        _TEMPLATE,
        story=told,
        engine={"spark": "Spark", "monitor": "the monitors"}.get(engine, engine),
        held=report.held,
        lines=[_line(property_id, report, told) for property_id in PROPERTIES],
        groups=[_group(told, index) for index in range(len(told.groups))],
        percentiles=PERCENTILES,
        marks=[(name, count, ALL_MARKS.get(name, "")) for name, count in told.marks.items()],
        shown_views=SHOWN_VIEWS,
    )


def _line(property_id: str, report: RunReport, told: Story) -> Line:
    item = PROPERTIES[property_id]
    verdict = report.verdicts[property_id]
    found = [violation for violation in report.violations if violation.property == property_id]
    if verdict == "violated":
        sentence = f"{item.report[0].upper()}{item.report[1:]}."
    elif verdict == "held":
        sentence = _HELD.get(property_id, item.statement)
    else:
        sentence = "No service in this run promises it."
    return Line(
        property_id,
        item.name,
        verdict,
        sentence,
        item.statement,
        report.counts.get(property_id, 0),
        [_place(violation, told) for violation in found[:SHOWN_VIOLATIONS]],
    )


def _place(violation: Violation, told: Story) -> Place:
    if not violation.process:
        return Place("the whole run", "", "", "", violation.text)
    at = told.moments.get((violation.process, violation.incarnation, violation.position))
    return Place(
        process_name(violation.process, violation.incarnation),
        violation.message or "",
        str(violation.position),
        "" if at is None else f"{at / SECOND:.3f} s",
        violation.text,
    )


def _group(told: Story, index: int) -> dict[str, Any]:
    group = told.groups[index]
    return {
        "facts": group,
        "lanes": pictures.lanes(told, group),
        "throughput": pictures.throughput(told, group) if group.delivered else "",
        "latencies": pictures.latencies(group) if group.latencies else "",
        "repairs": pictures.repairs(told, group) if group.asked else "",
    }
