"""Draws docs/pictures/left-behind.svg from the trace of examples/from_code.py: one line a process.

Run by `make docs`. A tick is a message sent, a dot one of another process delivered, a bar a view with its sources.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples.from_code import main
from unisono.simulation.world import World
from unisono.trace.schema import DeliverRow, FaultRow, SendRow, ViewRow
from unisono.units import SECOND

PICTURE = Path(__file__).parent / "pictures" / "left-behind.svg"
WIDTH, LEFT, TOP, LANE = 960, 60, 46, 96
COLORS = {"p0": "#2f6f9f", "p1": "#c2622d", "p2": "#3d8b4f"}


def draw(world: World) -> str:
    """The picture of a run of three processes."""
    end = max(row.truth for row in world.rows if row.truth is not None)
    names = sorted(COLORS)
    lanes = {name: TOP + index * LANE + 30 for index, name in enumerate(names)}
    height = TOP + LANE * len(names) + 26

    def x(truth: int | None) -> float:
        return LEFT + (WIDTH - LEFT - 20) * (truth or 0) / end

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    cut = [row.truth for row in world.rows if isinstance(row, FaultRow) and row.fault == "isolate"]
    parts.append(
        f'<rect x="{x(cut[0]):.1f}" y="22" width="{x(cut[1]) - x(cut[0]):.1f}" height="{height - 50}" fill="#f3e3e0"/>'
        f'<text x="{x(cut[0]) + 6:.1f}" y="36" fill="#a04030">p2 is cut off</text>'
    )
    parts += [
        f'<text x="{x(second * SECOND):.1f}" y="{height - 6}" fill="#666">{second} s</text>'
        for second in range(0, end // SECOND + 1, 2)
    ]
    for name, y in lanes.items():
        parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - 20}" y2="{y}" stroke="#999"/>')
        parts.append(f'<text x="18" y="{y + 4}" fill="{COLORS[name]}" font-weight="bold">{escape(name)}</text>')
    for row in world.rows:
        if row.process not in lanes:
            continue
        y = lanes[row.process]
        if isinstance(row, SendRow):
            color = COLORS[row.process]
            parts.append(
                f'<line x1="{x(row.truth):.1f}" y1="{y - 12}" x2="{x(row.truth):.1f}" y2="{y}" stroke="{color}"/>'
            )
        elif isinstance(row, DeliverRow) and row.source != row.process:
            offset = 7 + 7 * (names.index(row.source) % 3)
            parts.append(f'<circle cx="{x(row.truth):.1f}" cy="{y + offset}" r="2" fill="{COLORS[row.source]}"/>')
    parts += _views(world, lanes, x, end)
    return "\n".join([*parts, "</svg>\n"])


def _views(world: World, lanes: dict[str, int], x: Callable[[int | None], float], end: int) -> list[str]:
    parts = []
    for name, y in lanes.items():
        views = [row for row in world.rows if isinstance(row, ViewRow) and row.process == name]
        for view, later in zip(views, [*views[1:], None], strict=True):
            begin, stop = x(view.truth), x(end if later is None else later.truth)
            if stop - begin < 8:
                continue
            words = " ".join(start.source for start in view.start)
            parts.append(
                f'<rect x="{begin:.1f}" y="{y + 32}" width="{stop - begin - 2:.1f}" height="18" rx="3" fill="#e8edf2"/>'
                f'<text x="{begin + 5:.1f}" y="{y + 45}" fill="#445">{escape(words)}</text>'
            )
    return parts


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(main()))
