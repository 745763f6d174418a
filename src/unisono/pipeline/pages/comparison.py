"""The page of several runs side by side: verdicts, counter-examples, measures with their ratio, and time lines.

The first run is what the others are held against.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from unisono.errors import TraceError
from unisono.pipeline.pages import pictures
from unisono.pipeline.pages.examples import examples_of
from unisono.pipeline.pages.page import Line, RunPage, engine_words, lines_of, summary, tables_of, tally, write_text
from unisono.pipeline.pages.story import GroupStory, Story, changed_views, story
from unisono.pipeline.pages.templating import duration_words, number_words, render, size_words
from unisono.pipeline.pages.trace_difference import Difference, difference
from unisono.pipeline.report import AuditReport, RunReport, Verdict
from unisono.pipeline.runs import Progress, RunFiles, find_runs
from unisono.properties.registry import PROPERTIES

MOST_RUNS = 8
_DRAWN = 1
"""Of each broken property of each run so many counter-examples are drawn; each run's own page has more."""
_TEMPLATE = "comparison.html.jinja"

Unit = Callable[[float], str]


class VerdictRow(Struct, frozen=True):
    """One property in all runs: its verdict and how often it was broken."""

    id: str
    name: str
    verdicts: list[Verdict]
    counts: list[int]
    differs: bool


class MeasureRow(Struct, frozen=True):
    """One measure in all runs, in words, and its ratio to that of the first run, where both have it."""

    name: str
    values: list[str]
    ratios: list[str]


def write_comparison(
    paths: Sequence[str | os.PathLike[str]], report: AuditReport, out: Path, progress: Progress = lambda *_: None
) -> None:
    """Write the page of the runs at these paths, one at each, which were audited with this report."""
    runs = [one_run(path) for path in paths]
    if len(runs) > MOST_RUNS:
        raise TraceError(f"a comparison shows at most {MOST_RUNS} runs, these are {len(runs)}")
    with tempfile.TemporaryDirectory(prefix="unisono-") as folder:
        pages = []
        for index, run in enumerate(runs):
            progress("runs read", index, len(runs))
            tables = tables_of(run, Path(folder) / str(index))
            told = story(tables)
            pages.append(RunPage(told.run, report_of(report, told.run, run), tables, told))
        progress("writing the page", 0, 0)
        write_text(out, comparison_page(_named(pages, runs), report.engine))


def one_run(path: str | os.PathLike[str]) -> RunFiles:
    """The one run at a path."""
    runs = find_runs([path])
    if len(runs) != 1:
        raise TraceError(f"{path} holds {len(runs)} runs; name one of them")
    return runs[0]


def report_of(report: AuditReport, name: str, run: RunFiles) -> RunReport:
    """What an audit of several runs says of one; runs of the same name are told apart by where they are."""
    for found in report.runs:
        if found.run in (name, f"{name} in {run.path}"):
            return found
    raise TraceError(f"the audit does not tell {run.path} from another run named {name}; rename one of them")


def comparison_page(pages: Sequence[RunPage], engine: str) -> str:
    """The page of these runs."""
    first = pages[0]
    examples = [
        examples_of(page.report, page.tables, page.story, f"run-{index}-", _DRAWN)
        for index, page in enumerate(pages, 1)
    ]
    broken: list[list[Line]] = [
        [line for line in lines_of(page.report, found) if line.verdict == "violated"]
        for page, found in zip(pages, examples, strict=True)
    ]
    rows = verdict_rows([page.report for page in pages])
    groups = list(dict.fromkeys(group.name for page in pages for group in page.story.groups))
    return render(
        _TEMPLATE,
        engine=engine_words(engine),
        pages=pages,
        summaries=[summary(page.story, page.report) for page in pages],
        headline=headline(pages),
        alike=all(page.report.verdicts == first.report.verdicts for page in pages),
        tallies=[tally(page.report) for page in pages],
        rows=rows,
        broken=broken,
        differences=[_difference(first, page) for page in pages[1:]],
        groups=[_group(name, pages) for name in groups],
        whole=measure_rows(pages, _WHOLE, lambda page: page.story),
    )


def headline(pages: Sequence[RunPage]) -> str:
    """What the runs differ in, in one sentence."""
    first, others = pages[0], pages[1:]
    words = []
    for other in others:
        new = [name for name in other.report.counts if name not in first.report.counts]
        gone = [name for name in first.report.counts if name not in other.report.counts]
        if new:
            words.append(f"{other.name} breaks {', '.join(new)}, which {first.name} keeps")
        if gone:
            words.append(f"{other.name} keeps {', '.join(gone)}, which {first.name} breaks")
        if not new and not gone:
            kept = "keep every promise" if first.report.held else f"break {', '.join(first.report.counts)}"
            words.append(f"{first.name} and {other.name} both {kept}")
    return f"{'; '.join(words)}."


def verdict_rows(reports: Sequence[RunReport]) -> list[VerdictRow]:
    """All properties: first those on which the runs differ, then those that are broken, then the rest."""
    rows = []
    for property_id, item in PROPERTIES.items():
        verdicts = [report.verdicts[property_id] for report in reports]
        counts = [report.counts.get(property_id, 0) for report in reports]
        differs = len(set(verdicts)) > 1 or len(set(counts)) > 1
        rows.append(VerdictRow(property_id, item.name, verdicts, counts, differs))
    return sorted(rows, key=lambda row: (not row.differs, "violated" not in row.verdicts))


def _named(pages: Sequence[RunPage], runs: Sequence[RunFiles]) -> list[RunPage]:
    """Short names that differ: that of the run, else with its folder, else with its path."""
    for names in (
        [page.story.run for page in pages],
        [f"{page.story.run} ({run.path.name})" for page, run in zip(pages, runs, strict=True)],
        [f"{page.story.run} ({run.path})" for page, run in zip(pages, runs, strict=True)],
    ):
        if max(Counter(names).values()) == 1:
            break
    else:
        raise TraceError("a run cannot be compared with itself; name different ones")
    return [RunPage(name, page.report, page.tables, page.story) for name, page in zip(names, pages, strict=True)]


def _difference(first: RunPage, other: RunPage) -> Difference | None:
    return difference(first.tables, first.story, other.tables, other.story)


def _group(name: str, pages: Sequence[RunPage]) -> dict[str, Any]:
    there = [(page, group) for page in pages for group in page.story.groups if group.name == name]
    latencies = [(page.name, group.latencies) for page, group in there if group.latencies is not None]
    return {
        "name": name,
        "measures": measure_rows(pages, _OF_GROUP, lambda page: _group_of(page, name)),
        "shares": pictures.shares(latencies, f"Latency to the last member in group {name}, run by run")
        if latencies
        else "",
        "rates": pictures.rates_compared(
            [(page.name, page.story, group) for page, group in there], f"Messages sent a second in group {name}"
        ),
        "lanes": [(page.name, pictures.lanes(page.story, group)) for page, group in there],
    }


def _group_of(page: RunPage, name: str) -> GroupStory | None:
    return next((group for group in page.story.groups if group.name == name), None)


def measure_rows(
    pages: Sequence[RunPage],
    measures: Sequence[tuple[str, Unit, Callable[[Any], float | None]]],
    part: Callable[[RunPage], Story | GroupStory | None],
) -> list[MeasureRow]:
    """Measures side by side; one that no run has is left out."""
    rows = []
    for name, unit, value in measures:
        found = [None if (one := part(page)) is None else value(one) for page in pages]
        if any(number is not None for number in found):
            words = ["-" if number is None else unit(number) for number in found]
            rows.append(MeasureRow(name, words, [_ratio(number, found[0]) for number in found[1:]]))
    return rows


def _ratio(value: float | None, first: float | None) -> str:
    if value is None or first is None:
        return "-"
    if value == first:
        return "same"
    return f"\N{MULTIPLICATION SIGN} {value / first:.3g}" if first else "-"


def _whole_number(value: float) -> str:
    return number_words(round(value))


def _three_digits(value: float) -> str:
    return f"{value:.3g}"


def _percentile(percent: int) -> Callable[[GroupStory], float | None]:
    return lambda group: None if group.latencies is None else group.latencies.percentiles[percent]


def _busiest(group: GroupStory) -> float | None:
    """The highest rate of sending in any step."""
    return max(group.rates.sent, default=0) * 1e9 / group.rates.step


def _session(name: str) -> Callable[[GroupStory], float | None]:
    """The median of a quantity of sessions."""
    return lambda group: (
        None if group.sessions is None or name not in group.sessions.spreads else group.sessions.spreads[name].median
    )


def _longest_wait(group: GroupStory) -> float | None:
    return max((view.blocked for view in group.views if view.blocked is not None), default=None)


_WHOLE: list[tuple[str, Unit, Callable[[Story], float | None]]] = [
    ("length", duration_words, lambda story: story.duration),
    ("processes", _whole_number, lambda story: story.processes),
    ("rows of trace", _whole_number, lambda story: story.rows),
    ("datagrams sent", _whole_number, lambda story: story.datagrams),
    ("datagram bytes sent", size_words, lambda story: story.datagram_bytes),
]
_OF_GROUP: list[tuple[str, Unit, Callable[[GroupStory], float | None]]] = [
    ("messages sent", _whole_number, lambda group: group.sent),
    ("payload sent", size_words, lambda group: group.sent_bytes),
    ("deliveries", _whole_number, lambda group: group.delivered),
    ("highest rate of sending, a second", _whole_number, _busiest),
    ("latency to the last member, p50", duration_words, _percentile(50)),
    ("p90", duration_words, _percentile(90)),
    ("p99", duration_words, _percentile(99)),
    ("longest", duration_words, lambda group: None if group.latencies is None else group.latencies.most),
    ("requests for repair", _whole_number, lambda group: group.asked),
    ("repairs", _whole_number, lambda group: group.repaired),
    ("repairs a message", _three_digits, lambda group: group.repaired / group.sent if group.sent else None),
    ("losses asked for", _whole_number, lambda group: group.lost),
    ("changes of membership", _whole_number, changed_views),
    ("longest wait for a view", duration_words, _longest_wait),
    ("change of a session's view, p50", duration_words, _session("change")),
    ("membership for it, p50", duration_words, _session("membership")),
    ("synchronisation for it, p50", duration_words, _session("synchronisation")),
    ("overhead of a session for a message, p50", duration_words, _session("overhead")),
]
