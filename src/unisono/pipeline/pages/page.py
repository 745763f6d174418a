"""The page of a run: verdicts, counter-examples with their diagrams, who was there when, rates, latency and repairs.

The page is one file that loads nothing, so that it can be kept, sent and read anywhere. It is made from the columns of
the tables, and whole rows are read only around counter-examples: a run of any length has a page of bounded size.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from unisono.errors import TraceError
from unisono.marks import ALL_MARKS
from unisono.pipeline.pages import pictures
from unisono.pipeline.pages.examples import SHOWN_VIOLATIONS, Example, examples_of
from unisono.pipeline.pages.session_pictures import histogram
from unisono.pipeline.pages.session_story import QUANTITIES
from unisono.pipeline.pages.story import GroupStory, Story, changed_views, story
from unisono.pipeline.pages.story_counts import PERCENTILES
from unisono.pipeline.pages.templating import duration_words, number_words, render
from unisono.pipeline.pages.trace_columns import TraceTables
from unisono.pipeline.pages.verdict_words import HELD
from unisono.pipeline.report import AuditReport, RunReport, Verdict
from unisono.pipeline.runs import Progress, RunFiles, as_tables, find_runs
from unisono.properties.registry import PROPERTIES
from unisono.trace.parquet import write_tables
from unisono.trace.schema import AnyRow

PAGE = "page.html"
SHOWN_VIEWS = 100
OPEN_ROWS = 12
"""Of a table of views so many rows are seen at once; the others unfold."""
SHOWN_LIVES = 100
_TEMPLATE = "page.html.jinja"


class Line(Struct, frozen=True):
    """One property."""

    id: str
    name: str
    verdict: Verdict
    sentence: str
    statement: str
    count: int
    examples: list[Example]


class RunPage(Struct, frozen=True):
    """What a page needs of one run."""

    name: str
    report: RunReport
    tables: TraceTables
    story: Story


def page_place(path: Path) -> Path:
    """Where the page of a run goes unless somebody says otherwise: into the folder of the run, or beside its spool."""
    return path / PAGE if path.is_dir() else path.with_name(f"{path.name}.html")


def write_page(
    path: str | os.PathLike[str], report: AuditReport, out: Path, progress: Progress = lambda *_: None
) -> None:
    """Write the page of the one run at this path, which was audited with this report."""
    runs = find_runs([path])
    if len(runs) != 1 or len(report.runs) != 1:
        raise TraceError(f"{path} holds {max(len(runs), len(report.runs))} runs; name one of them")
    with tempfile.TemporaryDirectory(prefix="unisono-") as folder:
        progress("writing the page", 0, 0)
        tables = tables_of(runs[0], Path(folder))
        write_text(out, run_page(RunPage(report.runs[0].run, report.runs[0], tables, story(tables)), report.engine))


def write_text(out: Path, text: str) -> None:
    """Write a page, and the folder that it is in."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")


def render_page(rows: Sequence[AnyRow], report: RunReport, engine: str) -> str:
    """The page of one run that is in memory."""
    with tempfile.TemporaryDirectory(prefix="unisono-") as folder:
        write_tables(folder, rows)
        tables = TraceTables(folder)
        return run_page(RunPage(report.run, report, tables, story(tables)), engine)


def tables_of(run: RunFiles, folder: Path) -> TraceTables:
    """The tables of a run on disk; spools are written as tables into the folder, which must outlive them."""
    (directory,) = as_tables([run], folder)
    return TraceTables(directory)


def run_page(page: RunPage, engine: str) -> str:
    """The page of one run."""
    told, report = page.story, page.report
    lines = lines_of(report, examples_of(report, page.tables, told))
    return render(
        _TEMPLATE,
        story=told,
        engine=engine_words(engine),
        summary=summary(told, report),
        held=report.held,
        lines=lines,
        broken=[line for line in lines if line.verdict == "violated"],
        tally=tally(report),
        groups=[_group(told, group) for group in told.groups],
        buffers=pictures.buffers(told, told.groups[0].rates.step) if told.buffers and told.groups else "",
        percentiles=PERCENTILES,
        marks=[(name, count, ALL_MARKS.get(name, "")) for name, count in told.marks.items()],
        families=report.facts.rows,
        shown_views=SHOWN_VIEWS,
        open_rows=OPEN_ROWS,
        shown_lives=SHOWN_LIVES,
        shown_violations=SHOWN_VIOLATIONS,
        drawn_lanes=pictures.MOST_LANES,
    )


def engine_words(engine: str) -> str:
    """Who audited."""
    return {"spark": "Spark", "monitor": "the monitors"}.get(engine, engine)


def tally(report: RunReport) -> dict[Verdict, int]:
    """How many properties have each verdict."""
    found = list(report.verdicts.values())
    return {verdict: found.count(verdict) for verdict in ("violated", "held", "not promised")}


def summary(told: Story, report: RunReport) -> str:
    """A run in one sentence."""
    changes = sum(changed_views(group) for group in told.groups)
    sent = sum(group.sent for group in told.groups)
    delivered = sum(group.delivered for group in told.groups)
    parts = [
        _counted(told.processes, "process", "processes"),
        duration_words(told.duration),
        f"membership changed {_counted(changes, 'time', 'times')}",
        f"{_counted(sent, 'message', 'messages')} sent and {number_words(delivered)} delivered",
    ]
    return f"{', '.join(parts)}; {verdict_words(report)}."


def verdict_words(report: RunReport) -> str:
    """What held, or what broke, in a few words."""
    counts = tally(report)
    if report.held:
        if counts["not promised"]:
            return f"all {counts['held']} properties that its services promise held"
        return f"all {counts['held']} properties held"
    broken = [
        f"{property_id} {PROPERTIES[property_id].name} ({_counted(count, 'time', 'times')})"
        for property_id, count in report.counts.items()
    ]
    more = f" and {len(broken) - 5} more" if len(broken) > 5 else ""
    return f"{counts['violated']} of {len(PROPERTIES)} properties were broken: {', '.join(broken[:5])}{more}"


def lines_of(report: RunReport, examples: dict[str, list[Example]]) -> list[Line]:
    """A line for each property, broken ones first."""
    lines = [_line(property_id, report, examples.get(property_id, [])) for property_id in PROPERTIES]
    return sorted(lines, key=lambda line: ("violated", "held", "not promised").index(line.verdict))


def _line(property_id: str, report: RunReport, examples: list[Example]) -> Line:
    item = PROPERTIES[property_id]
    verdict = report.verdicts[property_id]
    if verdict == "violated":
        sentence = f"{item.report[0].upper()}{item.report[1:]}."
    elif verdict == "held":
        sentence = HELD.get(property_id, item.statement)
    else:
        sentence = "No service in this run promises it."
    count = report.counts.get(property_id, 0)
    return Line(property_id, item.name, verdict, sentence, item.statement, count, examples)


def _group(told: Story, group: GroupStory) -> dict[str, Any]:
    return {
        "facts": group,
        "lanes": pictures.lanes(told, group),
        "short_views": pictures.short_views(group),
        "throughput": pictures.throughput(told, group) if group.delivered else "",
        "latencies": "" if group.latencies is None else pictures.latencies(group, group.latencies),
        "repairs": pictures.repairs(told, group) if group.asked else "",
        "sessions": [
            (
                quantity,
                group.sessions.spreads[quantity.name],
                histogram(quantity, group.sessions.spreads[quantity.name]),
            )
            for quantity in QUANTITIES
            if group.sessions is not None and quantity.name in group.sessions.spreads
        ],
    }


def _counted(count: int, one: str, many: str) -> str:
    return f"{number_words(count)} {one if count == 1 else many}"
