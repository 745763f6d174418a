"""Draws the pictures of docs/views.md from traces of built-in scenarios, shortened: one lane a process.

Run by `make docs`. A bar is a view with its members, and bars of one view have one colour; a tick below it is a message
delivered, in the colour of its source. The third picture is one moment of the first run, a thousand times larger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from unisono.simulation.draw import draw
from unisono.simulation.library import load
from unisono.simulation.world import World
from unisono.trace.schema import AnyRow, DeliverRow, FaultRow, GaugeRow, MembershipRow, RepairRow, ViewRow
from unisono.units import MICROSECOND, MILLISECOND, SECOND

PICTURES = Path(__file__).parent / "pictures"
WIDTH, LEFT, RIGHT, TOP, LANE = 960, 44, 16, 40, 62
VIEWS = ("#cfe0ee", "#f6d9c4", "#d3ead6", "#e6d8ee", "#f3ecc0", "#d5e8e8", "#efd3dc", "#dcdcdc")
SOURCES = {"p0": "#2f6f9f", "p1": "#c2622d", "p2": "#3d8b4f", "p3": "#7d4f9e", "p4": "#9a7b12"}
FAULT, WORDS, LINE = "#a04030", "#445", "#999"

Scale = Callable[[int], float]


class Span(NamedTuple):
    """What part of a run a picture shows, and how its time is written."""

    begin: int
    end: int
    step: int
    unit: int
    word: str


class Bar(NamedTuple):
    """One view of one process, while it was the newest."""

    begin: int
    end: int
    view: str
    members: str
    primary: bool | None


class Run:
    """One run of a built-in scenario."""

    def __init__(self, name: str, *overrides: str) -> None:
        world = World(draw(load(name, overrides), seed=0), keep_rows=True)
        world.run()
        assert world.monitors.violations == [], f"{name} does not hold"
        self.rows: list[AnyRow] = [row for row in world.rows if row.truth is not None]
        self.end = max(row.truth for row in self.rows if row.truth is not None)
        seen = dict.fromkeys(row.view for row in self.rows if isinstance(row, ViewRow) and len(row.start) > 1)
        self.colors = {view: VIEWS[index % len(VIEWS)] for index, view in enumerate(seen)}

    def bars(self, process: str) -> list[Bar]:
        views = [row for row in self.rows if isinstance(row, ViewRow) and row.process == process]
        died = [row.truth for row in self.rows if row.kind == "CRASH" and row.process == process]
        ends = [*(row.truth for row in views[1:]), died[0] if died else self.end]
        return [
            Bar(row.truth or 0, end or 0, row.view or "", " ".join(start.source for start in row.start), row.primary)
            for row, end in zip(views, ends, strict=True)
        ]


def time_line(run: Run, span: Span, ticks: bool = True, notes: bool = False) -> str:
    """The lanes of all processes within a span of the run."""
    height = TOP + LANE * len(SOURCES) + 22

    def x(truth: int) -> float:
        inside = min(max(truth, span.begin), span.end) - span.begin
        return LEFT + (WIDTH - LEFT - RIGHT) * inside / (span.end - span.begin)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        *_faults(run, span, x, height),
    ]
    for at in range(span.begin, span.end + 1, span.step):
        shown = (at - span.begin) / span.unit if notes else at / span.unit
        anchor = "end" if at + span.step > span.end else "middle" if at > span.begin else "start"
        parts.append(
            f'<text x="{x(at):.1f}" y="{height - 5}" fill="#666" text-anchor="{anchor}">{shown:g} {span.word}</text>'
        )
    for index, process in enumerate(SOURCES):
        y = TOP + index * LANE
        parts.append(
            f'<text x="12" y="{y + 20}" fill="{SOURCES[process]}" font-weight="bold">{process}</text>'
            f'<line x1="{LEFT}" y1="{y + 15}" x2="{WIDTH - RIGHT}" y2="{y + 15}" stroke="{LINE}" stroke-width="0.5"/>'
        )
        parts += _views(run, process, span, x, y)
        if ticks:
            parts += _deliveries(run, process, span, x, y + 30)
        if notes:
            parts += _notes(run, process, span, x, y)
    return "\n".join([*parts, "</svg>\n"])


def _faults(run: Run, span: Span, x: Scale, height: int) -> list[str]:
    """A cut as a band, a crash as a line."""
    parts = []
    faults = [row for row in run.rows if isinstance(row, FaultRow) and row.fault == "partition"]
    crashes = [row for row in run.rows if isinstance(row, MembershipRow) and row.kind == "CRASH"]
    for row in (*faults, *crashes):
        begin = row.truth or 0
        if isinstance(row, MembershipRow) and span.begin <= begin <= span.end:
            parts.append(
                f'<line x1="{x(begin):.1f}" y1="22" x2="{x(begin):.1f}" y2="{height - 22}" stroke="{FAULT}"/>'
                f'<text x="{x(begin) + 5:.1f}" y="32" fill="{FAULT}">{row.process} crashes</text>'
            )
        elif isinstance(row, FaultRow) and row.edge == "begin":
            end = next(one.truth or 0 for one in faults if one.edge == "end")
            parts.append(
                f'<rect x="{x(begin):.1f}" y="22" width="{x(end) - x(begin):.1f}" height="{height - 44}" '
                f'fill="#f7eae7"/><text x="{x(begin) + 5:.1f}" y="34" fill="{FAULT}">'
                "p0 p1 p2 and p3 p4 do not hear each other</text>"
            )
    return parts


def _views(run: Run, process: str, span: Span, x: Scale, y: int) -> list[str]:
    parts = []
    for bar in run.bars(process):
        begin, end = x(bar.begin), x(bar.end)
        if end - begin < 6:
            continue
        words = bar.members + {True: ", primary", False: ", not primary", None: ""}[bar.primary]
        parts.append(
            f'<rect x="{begin:.1f}" y="{y + 4}" width="{end - begin - 1:.1f}" height="22" rx="3" '
            f'fill="{run.colors.get(bar.view, "#eee")}"/>'
        )
        if len(words) * 6.2 + 10 < end - begin:
            parts.append(f'<text x="{begin + 6:.1f}" y="{y + 19}" fill="{WORDS}">{escape(words)}</text>')
    return parts


def _deliveries(run: Run, process: str, span: Span, x: Scale, y: int) -> list[str]:
    """For each source a row of ticks, one for each of its messages that were delivered here."""
    parts = []
    for index, (source, color) in enumerate(SOURCES.items()):
        ticks = "".join(
            f"M{x(row.truth or 0):.1f} {y + 5 * index}v4"
            for row in run.rows
            if isinstance(row, DeliverRow)
            and row.process == process
            and row.source == source
            and span.begin <= (row.truth or 0) <= span.end
        )
        if ticks:
            parts.append(f'<path d="{ticks}" stroke="{color}" stroke-width="1.2"/>')
    return parts


def _notes(run: Run, process: str, span: Span, x: Scale, y: int) -> list[str]:
    """What a process did in the repair, with a word each."""
    found: list[tuple[int, str]] = []
    for row in run.rows:
        if row.process != process or not span.begin <= (row.truth or 0) <= span.end:
            continue
        word = ""
        if isinstance(row, MembershipRow) and row.kind == "SUSPECT" and row.reason == "accused":
            word = f"does not hear {row.peer}"
        elif isinstance(row, GaugeRow) and row.name == "consensus-reached":
            word = "all agree"
        elif isinstance(row, RepairRow) and row.kind == "CUT":
            word = "halts, says what it has"
        elif isinstance(row, ViewRow):
            word = "the view stands"
        if word and all(word != known for _, known in found):
            found.append((row.truth or 0, word))
    parts = []
    for at, word in _beside(found):
        parts.append(
            f'<line x1="{x(at):.1f}" y1="{y + 2}" x2="{x(at):.1f}" y2="{y + 46}" stroke="{WORDS}" stroke-width="0.8"/>'
            f'<text x="{x(at) + 4:.1f}" y="{y + 42}" fill="{WORDS}">{escape(word)}</text>'
        )
    return parts


def _beside(found: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """What happened in the same moment has one line."""
    together: dict[int, list[str]] = {}
    for at, word in found:
        together.setdefault(at, []).append(word)
    return [(at, "; ".join(words)) for at, words in sorted(together.items())]


def pictures() -> dict[str, str]:
    """Every picture by its file."""
    crash = Run("crash-sender", "duration=5s", "settle=2s", "fault[0].at=2s", "workload[0].rate=10")
    cut = Run("partition-3-2", "duration=9s", "settle=3s", "fault[0].at=2s", "fault[0].lasts=4s", "workload[0].rate=10")
    accused = min(row.truth or 0 for row in crash.rows if row.kind == "SUSPECT")
    begin = accused // (100 * MICROSECOND) * 100 * MICROSECOND - 100 * MICROSECOND
    close = Span(begin, begin + 1200 * MICROSECOND, 200 * MICROSECOND, MILLISECOND, "ms")
    return {
        "crash-sender.svg": time_line(crash, Span(0, 5 * SECOND, SECOND, SECOND, "s")),
        "crash-sender-close.svg": time_line(crash, close, ticks=False, notes=True),
        "partition-3-2.svg": time_line(cut, Span(0, 9 * SECOND, SECOND, SECOND, "s")),
    }


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for file, text in pictures().items():
        (PICTURES / file).write_text(text)
