"""Pictures of how the views of sessions changed, in the manner of the other pictures, two beside each other."""

from __future__ import annotations

from xml.sax.saxutils import escape

from unisono.pipeline.pages.pictures import nice
from unisono.pipeline.pages.session_story import Quantity, Spread
from unisono.pipeline.pages.templating import duration_words

_WIDTH, _HEIGHT = 460, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 14, 38, 22
_LABELS = 5


def histogram(quantity: Quantity, spread: Spread) -> str:
    """How many changes, or messages, took how long, with lines at average and median."""
    low, high = spread.edges[0], spread.edges[-1]
    floor = _HEIGHT - _BOTTOM
    step = max(1.0, nice(max(spread.bins) / 3))
    ceiling = step * -(-max(spread.bins) // step)

    def x(value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(1.0, max(0.0, (value - low) / (high - low)))

    def y(count: float) -> float:
        return floor - (floor - _TOP) * count / ceiling

    parts = []
    for index in range(round(ceiling / step) + 1):
        place = y(index * step)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{place:.1f}" y2="{place:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{place + 4:.1f}" text-anchor="end">{index * step:,.0f}</text>')
    apart = nice((high - low) / _LABELS)
    label = apart * -(-low // apart)
    while label <= high:
        parts.append(f'<text x="{x(label):.1f}" y="{_HEIGHT - 6}" text-anchor="middle">{duration_words(label)}</text>')
        label = apart * round(label / apart + 1)
    for begin, end, count in zip(spread.edges, spread.edges[1:], spread.bins, strict=False):
        if count:
            parts.append(
                f'<rect class="column" x="{x(begin) + 0.5:.1f}" y="{y(count):.1f}" width="{x(end) - x(begin) - 1:.1f}" '
                f'height="{y(0) - y(count):.1f}"><title>{count} from {duration_words(begin)} to '
                f"{duration_words(end)}</title></rect>"
            )
    for row, (word, value) in enumerate((("average", spread.mean), ("median", spread.median))):
        place, line = x(value), 14 + 13 * row
        anchor, aside = ("end", -5) if place > _WIDTH - 130 else ("start", 5)
        parts.append(
            f'<line class="{word}" x1="{place:.1f}" x2="{place:.1f}" y1="{line - 9}" y2="{floor}"/>'
            f'<text class="strong" x="{place + aside:.1f}" y="{line}" text-anchor="{anchor}">'
            f"{word} {duration_words(value)}</text>"
        )
    title = escape(f"{quantity.sign}, {quantity.says}")
    inside = "\n".join(parts)
    return (
        f'<svg class="picture half" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">\n<title>{title}</title>\n'
        f"{inside}\n</svg>"
    )
