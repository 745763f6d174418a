"""Pictures of a run as SVG that stands inside a page: it has no colours of its own, the page's style gives them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from msgspec.structs import replace

from unisono.pipeline.pages.lanes import Lane, Mark
from unisono.pipeline.pages.space_time import TONES
from unisono.pipeline.pages.story import GroupStory, Shade, Story
from unisono.pipeline.pages.story_counts import CURVE, PERCENTILES, Distribution
from unisono.pipeline.pages.templating import duration_words
from unisono.properties.violation import process_name
from unisono.units import MICROSECOND, SECOND

WIDTH = 960
_LEFT, _RIGHT = 92, 18
_LANE_HEIGHT, _BAR_HEIGHT = 40, 20
_PLOT_HEIGHT = 190
_TINTS = 8
"""Views with the same members have the same tint, as far as there are tints."""
_LETTER = 6.6
_ROW = 12
MOST_LANES = 48
"""Of a group so many lives are drawn."""
_MOST_BARS = 2000
"""Beyond this, the shortest views are left out."""
_NAMED_MEMBERS = 12
_WHY_LETTERS = 120
"""Of a view a tooltip names so many members, and its reasons where they are no longer."""
_NAME_LETTERS = 12
"""Longer names are cut at the front, where the names of one host are alike."""
_SHAPES = {
    "start": "M-4,-5 L5,0 L-4,5 Z",
    "crash": "M-6,-6 L6,6 M-6,6 L6,-6",
    "leave": "M5,-6 L-5,0 L5,6 Z",
    "end": "M0,-8 L0,8",
    "left behind": "M-6,-5 L6,-5 L0,6 Z",
    "unavailable": "M0,-6 L6,0 L0,6 L-6,0 Z",
    "merge": "M-6,-6 L0,0 L6,0 M-6,6 L0,0",
    "excluded": "M-6,0 A6,6 0 1 0 6,0 A6,6 0 1 0 -6,0 M-4,-4 L4,4",
    "dropped out": "M-6,-6 L6,-6 L6,6 L-6,6 Z",
}

Scale = Callable[[float], float]


def lanes(story: Story, group: GroupStory) -> str:
    """Who was there when: a lane for each life, a bar for each view, shades for faults."""
    x = _time_scale(story.duration)
    drawn = _readable(group)
    labels = _label_rows(story.faults, x)
    top = 34 + _ROW * max(labels, default=0)
    height = top + _LANE_HEIGHT * len(drawn) + 26
    middles = [top + _LANE_HEIGHT * index + _LANE_HEIGHT / 2 for index in range(len(drawn))]
    parts = [*_shades(story, drawn, middles, labels, x, height), *_seconds(story.duration, x, height, top - 6)]
    tints = _tints(drawn)
    parts += _installations(drawn, middles, x)
    for lane, y in zip(drawn, middles, strict=True):
        name = lane.name if len(lane.name) <= _NAME_LETTERS else f"…{lane.name[1 - _NAME_LETTERS :]}"
        parts.append(
            f'<text class="name" x="{_LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}'
            f"<title>{escape(lane.name)}</title></text>"
        )
        parts.append(f'<line class="life" x1="{x(lane.begin):.1f}" x2="{x(lane.end):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts += _bars(lane, y, x, tints)
        parts += [_mark(lane, mark, y, x) for mark in lane.marks]
    return _svg(height, parts, f"Who was there when in group {group.name}")


def short_views(group: GroupStory) -> int:
    """How many views the time line leaves out, since they lasted shorter than those that it has room for."""
    return sum(len(lane.bars) for lane in group.lanes[:MOST_LANES]) - sum(len(lane.bars) for lane in _readable(group))


def _readable(group: GroupStory) -> list[Lane]:
    """The lanes that are drawn; where there is too much, with the longest bars and one mark of a kind at a place."""
    drawn = group.lanes[:MOST_LANES]
    lengths = sorted((bar.end - bar.begin for lane in drawn for bar in lane.bars), reverse=True)
    if len(lengths) + sum(len(lane.marks) for lane in drawn) <= _MOST_BARS:
        return drawn
    least = lengths[_MOST_BARS] + 1 if len(lengths) > _MOST_BARS else 0
    place = max(1, max(lane.end for lane in drawn) // (WIDTH // 8))
    thinned = []
    for lane in drawn:
        bars = [bar for bar in lane.bars if bar.end - bar.begin >= least]
        marks = list({(mark.kind, mark.at // place): mark for mark in lane.marks}.values())
        thinned.append(replace(lane, bars=bars, marks=marks))
    return thinned


def throughput(story: Story, group: GroupStory) -> str:
    """Messages a second over time: sent by all, and delivered at each life."""
    step = group.rates.step / SECOND
    sent = [count / step for count in group.rates.sent]
    delivered = [[count / step for count in counts] for counts in group.rates.delivered.values()]
    x = _time_scale(story.duration)
    y, grid = _rate_axis(max([1.0, *sent, *(rate for line in delivered for rate in line)]), "/s")
    parts = [*grid, *_seconds(story.duration, x, _PLOT_HEIGHT, 12)]
    for lane, line in list(zip(group.lanes, delivered, strict=True))[:MOST_LANES]:
        first, last = lane.begin // group.rates.step, lane.end // group.rates.step
        points = [((index + 0.5) * group.rates.step, line[index]) for index in range(first, min(last + 1, len(line)))]
        life = process_name(lane.process, lane.incarnation)
        parts.append(_line("delivered", points, x, y, f"delivered at {lane.name}", story.duration, life))
    points = [((index + 0.5) * group.rates.step, rate) for index, rate in enumerate(sent)]
    parts.append(_line("sent", points, x, y, "sent by all", story.duration))
    return _svg(_PLOT_HEIGHT, parts, f"Throughput over time in group {group.name}, in messages a second")


def repairs(story: Story, group: GroupStory) -> str:
    """Requests for repair over time."""
    x = _time_scale(story.duration)
    y, grid = _rate_axis(float(max([1, *group.rates.asked])), "")
    step = group.rates.step
    columns = [
        f'<rect class="column" x="{x(index * step):.1f}" y="{y(count):.1f}" '
        f'width="{max(1.0, x(step) - x(0) - 1):.1f}" height="{y(0) - y(count):.1f}">'
        f"<title>{count} in {duration_words(step)} from {index * step / SECOND:.2f} s</title></rect>"
        for index, count in enumerate(group.rates.asked)
        if count
    ]
    parts = [*grid, *_seconds(story.duration, x, _PLOT_HEIGHT, 12), *columns]
    return _svg(_PLOT_HEIGHT, parts, f"Requests for repair over time in group {group.name}")


def buffers(story: Story, step: int) -> str:
    """How full each buffer was over time, in percent of its cap."""
    x = _time_scale(story.duration)
    full = [[100 * value / max(1, buffer.cap) for value in buffer.steps] for buffer in story.buffers]
    y, grid = _rate_axis(max([1.0, *(value for line in full for value in line)]), "%")
    parts = [*grid, *_seconds(story.duration, x, _PLOT_HEIGHT, 12)]
    for index, (buffer, line) in enumerate(zip(story.buffers, full, strict=True)):
        points = [((place + 0.5) * step, value) for place, value in enumerate(line)]
        title = f"{buffer.name}: at most {buffer.highest} of {buffer.cap}"
        parts.append(_line(f"series m{index % TONES} dash{index // TONES}", points, x, y, title, story.duration))
    return _svg(_PLOT_HEIGHT, parts, "How full the buffers were over time, in percent of their caps")


def latencies(group: GroupStory, found: Distribution) -> str:
    """How many messages took how long to reach the last member, and how many in all; time is logarithmic."""
    x, ticks = _logarithmic(found.edges[0], found.edges[-1])
    y, grid = _rate_axis(float(max(found.bins)), "", top=20 + _ROW * len(PERCENTILES))
    parts = [*grid, *ticks]
    for begin, end, count in zip(found.edges, found.edges[1:], found.bins, strict=False):
        if count:
            parts.append(
                f'<rect class="column" x="{x(begin) + 0.5:.1f}" y="{y(count):.1f}" width="{x(end) - x(begin) - 1:.1f}" '
                f'height="{y(0) - y(count):.1f}"><title>{count} messages from {duration_words(begin)} to '
                f"{duration_words(end)}</title></rect>"
            )
    for row, (percent, value) in enumerate(found.percentiles.items()):
        place, line = x(value), 14 + _ROW * row
        anchor = "end" if place > WIDTH - 130 else "start"
        parts.append(
            f'<line class="percentile" x1="{place:.1f}" x2="{place:.1f}" y1="{line - 8}" y2="{y(0):.1f}"/>'
            f'<text class="strong" x="{place + (-5 if anchor == "end" else 5):.1f}" y="{line}" text-anchor="{anchor}">'
            f"p{percent} {duration_words(value)}</text>"
        )
    return _svg(_PLOT_HEIGHT, parts, f"Latency to the last member in group {group.name}")


def shares(named: Sequence[tuple[str, Distribution]], label: str) -> str:
    """For several distributions, the part of all messages that took no longer than a time, which is logarithmic."""
    least = min(found.edges[0] for _, found in named)
    most = max(found.edges[-1] for _, found in named)
    x, ticks = _logarithmic(least, most)
    y, grid = _rate_axis(100.0, "%")
    parts = [*grid, *ticks]
    for index, (name, found) in enumerate(named):
        points = " ".join(f"{x(value):.1f},{y(percent):.1f}" for value, percent in zip(found.curve, CURVE, strict=True))
        title = f"{name}: half within {duration_words(found.percentiles[50])}"
        parts.append(
            f'<polyline class="series m{index % TONES} dash{index % 4}" points="{points}">'
            f"<title>{escape(title)}</title></polyline>"
        )
    return _svg(_PLOT_HEIGHT, parts, label)


def rates_compared(named: Sequence[tuple[str, Story, GroupStory]], label: str) -> str:
    """Messages sent a second over time, a line for each run."""
    duration = max(story.duration for _, story, _ in named)
    lines = [[count * SECOND / group.rates.step for count in group.rates.sent] for _, _, group in named]
    x = _time_scale(duration)
    y, grid = _rate_axis(max([1.0, *(rate for line in lines for rate in line)]), "/s")
    parts = [*grid, *_seconds(duration, x, _PLOT_HEIGHT, 12)]
    for index, ((name, _, group), line) in enumerate(zip(named, lines, strict=True)):
        points = [((place + 0.5) * group.rates.step, rate) for place, rate in enumerate(line)]
        parts.append(_line(f"series m{index % TONES} dash{index % 4}", points, x, y, f"sent in {name}", duration))
    return _svg(_PLOT_HEIGHT, parts, label)


def _logarithmic(least: float, most: float) -> tuple[Scale, list[str]]:
    """A scale of time by its logarithm, and its labels."""
    low, high = math.log10(max(least, MICROSECOND)), math.log10(max(most, MICROSECOND))
    if high - low < 0.1:
        low, high = low - 0.1, high + 0.1

    def x(value: float) -> float:
        place = (math.log10(max(value, MICROSECOND)) - low) / (high - low)
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * min(1.0, max(0.0, place))

    labels = []
    for power in range(math.floor(low), math.ceil(high) + 1):
        for value in (factor * 10.0**power for factor in ((1, 2, 5) if high - low < 2.5 else (1,))):
            if low <= math.log10(value) <= high:
                words = duration_words(value)
                labels.append(f'<text x="{x(value):.1f}" y="{_PLOT_HEIGHT - 4}" text-anchor="middle">{words}</text>')
    return x, labels


def _svg(height: float, parts: Sequence[str], label: str) -> str:
    inside = "\n".join(parts)
    box = f"0 0 {WIDTH} {height:.0f}"
    return f'<svg class="picture" viewBox="{box}" role="img">\n<title>{escape(label)}</title>\n{inside}\n</svg>'


def _time_scale(duration: int) -> Scale:
    return lambda at: _LEFT + (WIDTH - _LEFT - _RIGHT) * at / max(1, duration)


def _seconds(duration: int, x: Scale, height: float, top: float) -> Iterator[str]:
    step = nice(duration / 10)
    for index in range(int(duration / step) + 1):
        place = x(index * step)
        yield f'<line class="grid" x1="{place:.1f}" x2="{place:.1f}" y1="{top:.0f}" y2="{height - 20:.0f}"/>'
        yield f'<text x="{place:.1f}" y="{height - 4:.0f}" text-anchor="middle">{duration_words(index * step)}</text>'


def _rate_axis(highest: float, unit: str, top: float = 14) -> tuple[Scale, list[str]]:
    bottom = _PLOT_HEIGHT - 20
    step = max(1.0, nice(highest / 4))
    ceiling = step * math.ceil(highest / step)

    def y(value: float) -> float:
        return bottom - (bottom - top) * value / ceiling

    parts = []
    for index in range(round(ceiling / step) + 1):
        place = y(index * step)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{place:.1f}" y2="{place:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{place + 4:.1f}" text-anchor="end">{index * step:,.0f}{unit}</text>')
    return y, parts


def nice(at_least: float) -> float:
    """1, 2 or 5 times a power of ten, not below."""
    power = 10.0 ** math.floor(math.log10(max(at_least, 1e-9)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= at_least * 0.999)


def _line(
    kind: str,
    points: Sequence[tuple[float, float]],
    x: Scale,
    y: Scale,
    title: str,
    duration: int,
    life: str | None = None,
) -> str:
    whose = "" if life is None else f" data-life={quoteattr(life)}"
    path = " ".join(f"{x(min(at, duration)):.1f},{y(rate):.1f}" for at, rate in points)
    return f'<polyline class="{kind}" points="{path}"{whose}><title>{escape(title)}</title></polyline>'


def _label_rows(faults: Sequence[Shade], x: Scale) -> list[int]:
    """For each fault the row of its label: the first one in which it does not touch the label before."""
    ends: list[float] = []
    rows = []
    for fault in faults:
        begin = x(fault.begin)
        row = next((row for row, end in enumerate(ends) if end < begin), len(ends))
        ends[row:] = [begin + _LETTER * len(fault.fault) + 8, *ends[row + 1 :]]
        rows.append(row)
    return rows


def _shades(
    story: Story, drawn: Sequence[Lane], middles: Sequence[float], labels: Sequence[int], x: Scale, height: float
) -> Iterator[str]:
    for load in story.loads:
        end = story.duration if load.end is None else load.end
        yield (
            f'<rect class="load" x="{x(load.begin):.1f}" y="4" width="{x(end) - x(load.begin):.1f}" height="5" rx="2">'
            f"<title>messages are sent, {_span(load)}</title></rect>"
        )
    for fault, row in zip(story.faults, labels, strict=True):
        label = 22 + _ROW * row
        begin = x(fault.begin)
        title = f"<title>{escape(fault.fault)} {escape(', '.join(fault.members))}, {_span(fault)}</title>"
        if fault.end is None:
            ends = f'y1="{label + 3}" y2="{height - 20:.0f}"'
            yield f'<line class="fault" x1="{begin:.1f}" x2="{begin:.1f}" {ends}>{title}</line>'
        else:
            width = max(1.5, x(fault.end) - begin)
            taken = [y for lane, y in zip(drawn, middles, strict=True) if lane.process in fault.members]
            spans = (
                [(y - _LANE_HEIGHT / 2, _LANE_HEIGHT) for y in taken]
                if fault.members
                else [(28.0 + _ROW * max(labels), height - 48 - _ROW * max(labels))]
            )
            for y, tall in spans:
                yield (
                    f'<rect class="fault" x="{begin:.1f}" y="{y:.1f}" width="{width:.1f}" height="{tall:.1f}">'
                    f"{title}</rect>"
                )
        word = fault.fault.replace("_", " ")
        yield f'<text class="fault" x="{begin + 3:.1f}" y="{label}">{escape(word)}</text>'


def _span(shade: Shade) -> str:
    begin = f"{shade.begin / SECOND:.2f} s"
    return f"at {begin}" if shade.end is None else f"from {begin} to {shade.end / SECOND:.2f} s"


def _tints(drawn: Sequence[Lane]) -> dict[tuple[str, ...], int]:
    """A tint for each set of members, those that lasted longest first."""
    lasted: Counter[tuple[str, ...]] = Counter()
    for lane in drawn:
        for bar in lane.bars:
            lasted[tuple(sorted(bar.members))] += bar.end - bar.begin
    return {members: index % _TINTS for index, (members, _) in enumerate(lasted.most_common())}


def _installations(drawn: Sequence[Lane], middles: Sequence[float], x: Scale) -> Iterator[str]:
    """A line for each agreed view, through the places where its members installed it."""
    places: dict[str, list[str]] = {}
    for lane, y in zip(drawn, middles, strict=True):
        for bar in lane.bars:
            if bar.agreed is not None:
                places.setdefault(bar.agreed, []).append(f"{x(bar.begin):.1f},{y:.1f}")
    for some in places.values():
        if len(some) > 1:
            yield f'<polyline class="install" points="{" ".join(some)}"/>'


def _bars(lane: Lane, y: float, x: Scale, tints: dict[tuple[str, ...], int]) -> Iterator[str]:
    for bar in lane.bars:
        begin, width = x(bar.begin), max(1.0, x(bar.end) - x(bar.begin) - 1)
        tint = tints[tuple(sorted(bar.members))]
        words = " ".join(bar.members)
        named = f"{' '.join(bar.members[:_NAMED_MEMBERS])} and {len(bar.members) - _NAMED_MEMBERS} more"
        members = words if len(bar.members) <= _NAMED_MEMBERS else named
        title = f"{lane.name} from {bar.begin / SECOND:.2f} to {bar.end / SECOND:.2f} s: view of {members}"
        title += f" ({bar.why})" if 0 < len(bar.why) <= _WHY_LETTERS else ""
        yield (
            f'<rect class="view tint{tint}" x="{begin:.1f}" y="{y - _BAR_HEIGHT / 2:.1f}" width="{width:.1f}" '
            f'height="{_BAR_HEIGHT}" rx="3"><title>{escape(title)}</title></rect>'
        )
        shown = next((text for text in (words, str(len(bar.members))) if _LETTER * len(text) + 22 < width), None)
        if shown is not None:
            yield f'<text class="inside" x="{begin + 11:.1f}" y="{y + 4:.1f}">{escape(shown)}</text>'


def _mark(lane: Lane, mark: Mark, y: float, x: Scale) -> str:
    title = f"{lane.name} at {mark.at / SECOND:.2f} s {mark.text}"
    return (
        f'<path class="mark {mark.kind.replace(" ", "-")}" d="{_SHAPES[mark.kind]}" '
        f'transform="translate({x(mark.at):.1f},{y:.1f})"><title>{escape(title)}</title></path>'
    )
