"""What `unisono measure` and `unisono compare` show: a table for each run and group, times in units that read well."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from unisono.pipeline.measures.catalogue import MEASURES, SUMMARY
from unisono.pipeline.measures.comparison import Compared, Ratio, Side
from unisono.pipeline.measures.value import Value

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


def show_measures(values: Sequence[Value], missing: Sequence[str]) -> None:
    """For each run and group what there is: plain values, then distributions, each on one line."""
    for (run, group), here in groupby(values, key=lambda value: (value.run, value.group)):
        typer.echo(f"{run}, {_place(group)}")
        plain = Table("measure", "value", "", box=box.SIMPLE, pad_edge=False)
        spread = Table("distribution", *SUMMARY, "", box=box.SIMPLE, pad_edge=False)
        for name, found in groupby(here, key=lambda value: value.measure):
            by_key = {value.key: value for value in found}
            unit = MEASURES[name].unit
            if MEASURES[name].distribution:
                cells = [_number(by_key[key].value, unit if key != "count" else "") for key in SUMMARY]
                spread.add_row(name, *cells, _shown_unit(unit))
            else:
                for value in by_key.values():
                    plain.add_row(f"{name} {value.key}".strip(), _number(value.value, unit), _shown_unit(unit))
        for table in (plain, spread):
            if table.row_count:
                Console().print(table, markup=False)
    if missing:
        typer.echo("not measured:")
    for line in missing:
        typer.echo(f"  {line}")


def show_comparison(names: Sequence[str], runs: Sequence[int], compared: Sequence[Compared]) -> None:
    """Side by side, with the ratio to the first and its interval where there is one."""
    heads = [f"{name} ({count} {'run' if count == 1 else 'runs'})" for name, count in zip(names, runs, strict=True)]
    for group, here in groupby(compared, key=lambda one: one.group):
        typer.echo(_place(group))
        table = Table("measure", heads[0], box=box.SIMPLE, pad_edge=False)
        for head in heads[1:]:
            table.add_column(head)
            table.add_column("ratio", no_wrap=True)
        table.add_column("")
        for one in here:
            cells = [_side(one.sides[0], one.unit)]
            for side, ratio in zip(one.sides[1:], one.ratios[1:], strict=True):
                cells += [_side(side, one.unit), _ratio(ratio)]
            table.add_row(f"{one.measure} {one.key}".strip(), *cells, _shown_unit(one.unit))
        Console().print(table, markup=False)
    typer.echo("a ratio with * is clear of 1: its interval is where 95 of 100 draws of the runs lie")


def _place(group: str) -> str:
    return f"group {group}" if group else "outside of groups"


def _shown_unit(unit: str) -> str:
    """Times and shares say their unit with each number."""
    return "" if unit in ("ns", "share") else unit


def _side(side: Side, unit: str) -> str:
    return "" if side.mean is None else _number(side.mean, unit)


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    interval = "" if ratio.low is None or ratio.high is None else f" [{ratio.low:.2f}, {ratio.high:.2f}]"
    return f"{ratio.ratio:.2f}{interval}{' *' if ratio.clear else ''}"


def _number(value: float, unit: str) -> str:
    if unit == "ns":
        size, name = next((one for one in _TIMES if abs(value) >= one[0]), _TIMES[-1])
        return f"{value / size:.3g} {name}"
    if unit == "share":
        return f"{100 * value:.3g} %"
    return f"{value:.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"
