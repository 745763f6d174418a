"""What `unisono watch` shows: runs and who reports, the figures of each group, and how every property stands."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unisono.units import MILLISECOND, SECOND

_COLOURS = {
    "held": "green",
    "violated": "bold red",
    "unknown": "yellow",
    "not promised": "dim",
    "silent": "yellow",
    "reporting": "green",
}
_SHOWN_PROCESSES = 12


def show_watch(found: dict[str, Any], collector: str) -> RenderableType:
    """The picture, as `Picture.as_json` gives it."""
    behind = found["behind_reports"]
    heading = Text.assemble(
        (collector, "bold"),
        f"  batch {found['batch']}" if found["batch"] >= 0 else "  waiting for reports",
        "" if not behind else f"  {behind} reports behind",
    )
    return Group(heading, *(part for run in found["runs"] for part in _run(run)))


def _run(run: dict[str, Any]) -> list[RenderableType]:
    age = run["age_nanoseconds"]
    heading = Text.assemble(
        "\nrun ",
        (run["run"], "bold"),
        f"  {run['reports']:,} reports, {run['rows']:,} rows",
        "" if age is None else f", the newest {age / SECOND:.1f} s old",
    )
    return [heading, _processes(run["processes"]), _groups(run["groups"]), _properties(run["properties"]), *_notes(run)]


def _processes(processes: list[dict[str, Any]]) -> Text:
    line = Text()
    for one in processes[:_SHOWN_PROCESSES]:
        line.append(f"{one['process']} ")
        line.append(one["state"], _COLOURS.get(one["state"], "dim"))
        line.append(", rows missing  " if one["rows_missing"] else "  ")
    if len(processes) > _SHOWN_PROCESSES:
        line.append(f"and {len(processes) - _SHOWN_PROCESSES} more")
    return line


def _groups(groups: list[dict[str, Any]]) -> Table:
    table = Table(
        "group", "messages/s", "p50 ms", "p90 ms", "p99 ms", "max ms", "asked", "repaired", "view", box=box.SIMPLE
    )
    for group in groups:
        latency = group["latency_nanoseconds"]
        views = ", ".join(f"{view['members']} in {view['view']}" for view in group["views"][:3])
        rate = group["messages_per_second"]
        table.add_row(
            group["group"],
            "" if rate is None else f"{rate:,.0f}",
            *(_milliseconds(latency[name]) for name in ("p50", "p90", "p99", "max")),
            str(group["requests"]),
            str(group["repairs"]),
            views,
        )
    return table


def _properties(properties: dict[str, dict[str, Any]]) -> Table:
    table = Table("property", "", "verdict", "latest", box=box.SIMPLE)
    for property_id, one in properties.items():
        count = one["violations"] or one["unknown"]
        verdict = Text(one["verdict"] + (f" ({count})" if count else ""), _COLOURS[one["verdict"]])
        table.add_row(property_id, one["name"], verdict, Text("" if one["latest"] is None else one["latest"]["text"]))
    return table


def _notes(run: dict[str, Any]) -> list[RenderableType]:
    """What is not judged, where there is such."""
    notes = []
    if run["unchecked"]:
        notes.append(f"{run['unchecked']} deliveries came after their messages were let go of and were not checked")
    return [Text(note, "dim") for note in notes]


def _milliseconds(nanoseconds: int | None) -> str:
    return "" if nanoseconds is None else f"{nanoseconds / MILLISECOND:.1f}"
