"""The space-time diagram of a counter-example as SVG: one line a process, time across, messages as arrows.

It has no colours of its own, the page's style gives them. What is concerned differs from what is drawn for orientation
by weight, dashes and labels too, so that it is read without colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct

from unisono.pipeline.pages.disagreements import life_of
from unisono.pipeline.pages.evidence import Life, Message
from unisono.pipeline.pages.row_words import row_words
from unisono.pipeline.pages.scene import Dot, Scene
from unisono.properties.violation import message_name, process_name
from unisono.trace.schema import DeliverRow, GaugeRow, MembershipRow, RepairRow, SendRow, ViewRow
from unisono.units import SECOND

WIDTH = 960
_LEFT, _RIGHT, _TOP = 100, 26, 10
_LETTER, _LINE = 6.7, 14
_BAR = 13
_TICK_ROOM = 88
_LABEL_LETTERS = 30
_LEVELS = 4
TINTS = 8
TONES = 6

_SHAPES = {
    "SEND": "M-5,0 A5,5 0 1 1 5,0 A5,5 0 1 1 -5,0 Z",
    "ASKED": "M-5,0 A5,5 0 1 1 5,0 A5,5 0 1 1 -5,0 Z",
    "DELIVER": "M-5.5,-4 L5.5,-4 L0,5.5 Z",
    "HANDED": "M-5.5,-4 L5.5,-4 L0,5.5 Z",
    "VIEW": "M-2.5,-11 L2.5,-11 L2.5,11 L-2.5,11 Z",
    "CRASH": "M-6,-4 L-4,-6 L0,-2 L4,-6 L6,-4 L2,0 L6,4 L4,6 L0,2 L-4,6 L-6,4 L-2,0 Z",
    "START": "M-4,-6 L6,0 L-4,6 Z",
    "LEAVE": "M4,-6 L-6,0 L4,6 Z",
    "END": "M-1.5,-9 L1.5,-9 L1.5,9 L-1.5,9 Z",
}
_OTHER_SHAPE = "M-4.5,-4.5 L4.5,-4.5 L4.5,4.5 L-4.5,4.5 Z"
_SHORT = {
    "RTR": "asks",
    "RTX": "repairs",
    "GC": "releases",
    "CUT": "cut",
    "END": "lives at the end",
    "CRASH": "crashes",
}


class Label(Struct):
    """Words at an event, above or below its lane, on some level."""

    x: float
    text: str
    kind: str
    message: Message | None = None
    level: int = 0

    @property
    def width(self) -> float:
        return _LETTER * len(self.text) + 8

    @property
    def left(self) -> float:
        return max(_LEFT + 2, min(self.x - self.width / 2, WIDTH - 4 - self.width))


class Row(Struct):
    """Where a lane is, and its labels."""

    life: Life
    above: list[Label] = []
    below: list[Label] = []
    y: float = 0.0


def diagram(scene: Scene, identifier: str, title: str, description: str) -> str:
    """The picture; the identifier makes those of its parts unique in a page."""
    rows = {life: Row(life) for life in scene.lanes}
    for dot in scene.dots:
        _label_dot(scene, rows[life_of(dot.row)], dot)
    for gap in scene.gaps:
        text = f"\N{BALLOT X} no {scene.name(gap.message)}"
        rows[gap.life].below.append(Label(_x(gap.place), text, "offending", gap.message))
    y = float(_TOP)
    for row in rows.values():
        levels = _levels(row.above), _levels(row.below)
        row.y = y + 20 + _LINE * levels[0]
        y = row.y + 22 + _LINE * levels[1]
    height = y + 24
    parts = [
        *_silence(scene, height),
        *_ticks(scene, height),
        *_bars(scene, rows),
        *_lines(scene, rows),
        *_arrows(scene, rows),
        *_gaps(scene, rows),
        *_dots(scene, rows),
        *(text for row in rows.values() for text in _texts(row)),
    ]
    inside = "\n".join(parts)
    return (
        f'<svg class="picture space-time" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-labelledby="{identifier}-title {identifier}-text">\n'
        f'<title id="{identifier}-title">{escape(title)}</title>\n'
        f'<desc id="{identifier}-text">{escape(description)}</desc>\n{inside}\n</svg>'
    )


def _x(place: float) -> float:
    return _LEFT + 16 + (WIDTH - _LEFT - _RIGHT - 32) * place


def _label_dot(scene: Scene, row: Row, dot: Dot) -> None:
    offending = dot.weight == "offending"
    if not offending and dot.weight == "context":
        return
    text = _short_words(scene, dot)
    kind = "offending" if offending else f"tone m{dot.tone % TONES}" if dot.tone is not None else "strong"
    label = Label(_x(dot.place), f"\N{BALLOT X} {text}" if offending else text, kind, dot.message)
    (row.below if isinstance(dot.row, DeliverRow) or dot.row.kind == "HANDED" else row.above).append(label)


def _short_words(scene: Scene, dot: Dot) -> str:
    row = dot.row
    if dot.message is not None:
        return scene.name(dot.message)
    if isinstance(row, ViewRow):
        words = f"view {' '.join(start.source for start in row.start) or 'of nobody'}"
    elif isinstance(row, RepairRow):
        words = f"{_SHORT.get(row.kind, row.kind)} {row.first}-{row.last}"
    elif isinstance(row, GaugeRow):
        words = f"{row.name} {row.value} of {row.cap}"
    elif isinstance(row, MembershipRow) and row.kind in ("STATE", "SAVED", "LOADED"):
        words = f"state {(row.number or 0) & 0xFFFFFF:06x}"
    else:
        words = _SHORT.get(row.kind, row.kind)
    return words if len(words) <= _LABEL_LETTERS else f"{words[: _LABEL_LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}"


def _levels(labels: list[Label]) -> int:
    """Give labels levels on which they do not touch; those that find none are left to their tooltips."""
    placed: list[Label] = []
    for label in sorted(labels, key=lambda one: (one.kind != "offending", one.x)):
        touching = {
            other.level
            for other in placed
            if label.left < other.left + other.width and other.left < label.left + label.width
        }
        label.level = next((level for level in range(_LEVELS) if level not in touching), -1)
        if label.level >= 0:
            placed.append(label)
    return max((label.level + 1 for label in placed), default=0)


def _silence(scene: Scene, height: float) -> Iterator[str]:
    if scene.silence is not None:
        begin, end = (_x(place) for place in scene.silence)
        yield (
            f'<rect class="silence" x="{begin:.1f}" y="{_TOP}" width="{max(2.0, end - begin):.1f}" '
            f'height="{height - _TOP - 22:.1f}"><title>nothing was delivered or installed</title></rect>'
            f'<text class="offending" x="{(begin + end) / 2:.1f}" y="{_TOP + 12}" text-anchor="middle">'
            "\N{BALLOT X} no progress</text>"
        )


def _ticks(scene: Scene, height: float) -> Iterator[str]:
    """Times under some of the events, as exact as they must be to differ."""
    shown: list[tuple[float, int]] = []
    for place, at in scene.ticks:
        if not shown or (_x(place) - shown[-1][0] >= _TICK_ROOM and at != shown[-1][1]):
            shown.append((_x(place), at))
    digits = next(
        (digits for digits in (2, 3, 4, 6) if len({f"{at / SECOND:.{digits}f}" for _, at in shown}) == len(shown)), 9
    )
    for x, at in shown:
        yield (
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{height - 20:.1f}"/>'
            f'<text x="{x:.1f}" y="{height - 6:.1f}" text-anchor="middle">{at / SECOND:.{digits}f} s</text>'
        )


def _bars(scene: Scene, rows: dict[Life, Row]) -> Iterator[str]:
    tints: dict[tuple[str, ...], int] = {}
    for span in scene.spans:
        members = tuple(sorted(start.source for start in span.row.start))
        tint = tints.setdefault(members, len(tints) % TINTS)
        begin, end, y = _x(span.begin), _x(span.end), rows[span.life].y
        begin -= 10 if span.begun_before else 0
        end += 12 if span.goes_on else 0
        title = f"{scene.names.get(span.life, span.life[0])}: view {span.row.view} of {' '.join(members) or 'nobody'}"
        yield (
            f'<rect class="view tint{tint}" x="{begin:.1f}" y="{y - _BAR:.1f}" width="{max(1.5, end - begin):.1f}" '
            f'height="{2 * _BAR}" rx="3" data-life={_attribute(span.life)}><title>{escape(title)}</title></rect>'
        )


def _lines(scene: Scene, rows: dict[Life, Row]) -> Iterator[str]:
    for life, row in rows.items():
        name = scene.names.get(life, life[0])
        short = name if len(name) <= 13 else f"\N{HORIZONTAL ELLIPSIS}{name[-12:]}"
        yield (
            f'<g class="lane" data-life={_attribute(life)}>'
            f'<line class="life" x1="{_LEFT}" x2="{WIDTH - 8}" y1="{row.y:.1f}" y2="{row.y:.1f}"/>'
            f'<text class="name" x="{_LEFT - 8}" y="{row.y + 4:.1f}" text-anchor="end">{escape(short)}'
            f"<title>{escape(process_name(*life))}</title></text></g>"
        )


def _arrows(scene: Scene, rows: dict[Life, Row]) -> Iterator[str]:
    """From the sending of each message to each of its deliveries, those for orientation first."""
    sent: dict[Message, Dot] = {}
    for dot in sorted(scene.dots, key=lambda dot: dot.at):
        if dot.message is not None and (isinstance(dot.row, SendRow) or dot.row.kind == "ASKED"):
            sent.setdefault(dot.message, dot)
    heard = [dot for dot in scene.dots if dot.row.kind in ("DELIVER", "HANDED")]
    for dot in sorted(heard, key=lambda dot: dot.tone is not None):
        begin = None if dot.message is None else sent.get(dot.message)
        if begin is None or dot.message is None:
            continue
        tone = "context" if dot.tone is None else f"m{dot.tone % TONES}"
        one = (_x(begin.place), rows[life_of(begin.row)].y)
        other = (_x(dot.place), rows[life_of(dot.row)].y)
        title = f"{message_name(*dot.message)} from {begin.row.process} to {dot.row.process}"
        yield (
            f'<g class="arrow {tone}" data-m={_message(dot.message)} data-life={_attribute(life_of(dot.row))}>'
            f"{_arrow(one, other)}<title>{escape(title)}</title></g>"
        )


def _arrow(one: tuple[float, float], other: tuple[float, float]) -> str:
    """A line with a head; from a lane to itself a bow."""
    (x1, y1), (x2, y2) = one, other
    if abs(y1 - y2) < 1:
        high = y1 - 15
        path = f"M{x1:.1f},{y1:.1f} C{x1:.1f},{high:.1f} {x2:.1f},{high:.1f} {x2:.1f},{y2 - 6:.1f}"
        return f'<path class="line" d="{path}"/><path class="head" d="{_head(x2, y2 - 5, 0, 1)}"/>'
    length = math.hypot(x2 - x1, y2 - y1)
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    end = (x2 - dx * 7, y2 - dy * 7)
    path = f"M{x1:.1f},{y1:.1f} L{end[0]:.1f},{end[1]:.1f}"
    return f'<path class="line" d="{path}"/><path class="head" d="{_head(*end, dx, dy)}"/>'


def _head(x: float, y: float, dx: float, dy: float) -> str:
    back, side = 8.0, 3.6
    left = (x - dx * back - dy * side, y - dy * back + dx * side)
    right = (x - dx * back + dy * side, y - dy * back - dx * side)
    return f"M{x:.1f},{y:.1f} L{left[0]:.1f},{left[1]:.1f} L{right[0]:.1f},{right[1]:.1f} Z"


def _gaps(scene: Scene, rows: dict[Life, Row]) -> Iterator[str]:
    """A ring where a message should have been, and a broken line to it from where it was sent."""
    for gap in scene.gaps:
        x, y = _x(gap.place), rows[gap.life].y
        title = f"{scene.names.get(gap.life, gap.life[0])} did not deliver {message_name(*gap.message)}"
        sent = [dot for dot in scene.dots if isinstance(dot.row, SendRow) and dot.message == gap.message]
        begins = [(_x(dot.place), rows[life_of(dot.row)].y) for dot in sent[:1]]
        line = "".join(f'<line class="line" x1="{a:.1f}" y1="{b:.1f}" x2="{x:.1f}" y2="{y:.1f}"/>' for a, b in begins)
        yield (
            f'<g class="gap m{gap.tone % TONES}" data-m={_message(gap.message)} data-life={_attribute(gap.life)}>{line}'
            f'<circle class="hole" cx="{x:.1f}" cy="{y:.1f}" r="8"/><title>{escape(title)}</title></g>'
        )


def _dots(scene: Scene, rows: dict[Life, Row]) -> Iterator[str]:
    for dot in sorted(scene.dots, key=lambda dot: dot.weight == "offending"):
        row = dot.row
        x, y = _x(dot.place), rows[life_of(row)].y
        tone = "" if dot.tone is None else f" m{dot.tone % TONES}"
        message = "" if dot.message is None else f" data-m={_message(dot.message)}"
        title = f"{dot.at / SECOND:.6f} s, {process_name(*life_of(row))} at {row.position}: {row_words(row)}"
        ring = (
            f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="12"/>' if dot.weight in ("offending", "marked") else ""
        )
        yield (
            f'<g class="event {dot.weight}{tone}" data-life={_attribute(life_of(row))}{message}>{ring}'
            f'<path class="dot" d="{_SHAPES.get(row.kind, _OTHER_SHAPE)}" transform="translate({x:.1f},{y:.1f})"/>'
            f"<title>{escape(title)}</title></g>"
        )


def _texts(row: Row) -> Iterator[str]:
    for labels, first, step in ((row.above, row.y - 19, -_LINE), (row.below, row.y + 28, _LINE)):
        for label in labels:
            if label.level >= 0:
                message = "" if label.message is None else f" data-m={_message(label.message)}"
                yield (
                    f'<text class="{label.kind}" x="{label.left + label.width / 2:.1f}" '
                    f'y="{first + step * label.level:.1f}" text-anchor="middle"{message} '
                    f"data-life={_attribute(row.life)}>{escape(label.text)}</text>"
                )


def _attribute(life: Life) -> str:
    return quoteattr(process_name(*life))


def _message(message: Message) -> str:
    return quoteattr(message_name(*message))


def described(scene: Scene, lines: Sequence[str]) -> str:
    """The same in words, for who cannot see it."""
    return " ".join((f"{len(scene.lanes)} processes, {len(scene.dots)} events.", *lines))


def tones_of(scene: Scene) -> list[tuple[int, str, str]]:
    """For the legend: the tone, the short and the whole name of each message concerned."""
    return [
        (index % TONES, scene.name(message), message_name(*message))
        for index, message in enumerate(scene.subject.messages)
    ]
