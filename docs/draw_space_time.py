"""Draws docs/pictures/space-time.svg: the space-time diagram of a counter-example, as a page of a run has it.

Run by `make docs`. The trace is a valid one with two deliveries of one process swapped, which breaks O1.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from unisono.pipeline.monitor_audit import audit_rows
from unisono.pipeline.pages.examples import examples_of
from unisono.pipeline.pages.story import story
from unisono.pipeline.pages.trace_columns import TraceTables
from unisono.properties.damages import DAMAGES
from unisono.properties.generator import good_trace
from unisono.trace.parquet import write_tables

PICTURE = Path(__file__).parent / "pictures" / "space-time.svg"
PROPERTY = "O1"
STYLE = """
svg { font: 12px sans-serif; background: #ffffff; }
text { fill: #55606a; } text.name { fill: #1b2127; font-weight: 600; } .tone { font-weight: 600; }
.grid { stroke: #dde1e4; } .life { stroke: #55606a; stroke-width: 1.5; } .view { opacity: .8; }
.tint0 { fill: #c9dff2; } .tint1 { fill: #d5ead0; } .tint2 { fill: #f6e3bf; } .tint3 { fill: #e3d7f0; }
.arrow .line { fill: none; stroke-width: 2; }
.m0 .line { stroke: #0b5cad; } .m0 .head, .m0 .dot, .m0.tone { fill: #0b5cad; }
.m1 .line { stroke: #a94e1c; stroke-dasharray: 8 4; } .m1 .head, .m1 .dot, .m1.tone { fill: #a94e1c; }
.context .line { stroke: #b9c1c8; stroke-width: 1; } .context .head { fill: #b9c1c8; } .context .dot { fill: #55606a; }
.ring { fill: none; stroke: #a81f18; stroke-width: 3.5; }
.offending .dot, text.offending { fill: #a81f18; font-weight: 700; }
"""


def picture() -> str:
    """The diagram with a style of its own."""
    for seed in range(1000):
        rows = DAMAGES["swapped_deliveries"].apply(good_trace(Random(seed)), Random(seed))
        if rows is not None:
            break
    else:
        raise AssertionError("no trace can be damaged")
    (report,) = audit_rows(rows)
    with TemporaryDirectory() as folder:
        write_tables(folder, rows)
        tables = TraceTables(folder)
        drawn = examples_of(report, tables, story(tables))[PROPERTY][0].picture
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', drawn)
    assert size is not None
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[1]}" height="{size[2]}" '
    return drawn.replace("<svg ", begin, 1).replace("<title", f"<style>{STYLE}</style>\n<title", 1) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
