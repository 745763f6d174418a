"""What a collected run lacks: reports that its collector never got, and processes whose end it did not see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from unisono.trace.run_directory import SUMMARY


def holes_of(directory: Path) -> list[str]:
    """In words, for a run directory that a collector wrote; nothing for any other."""
    try:
        summary: Any = msgspec.json.decode((directory / SUMMARY).read_bytes())
    except (OSError, msgspec.DecodeError):
        return []
    processes = summary.get("processes") if isinstance(summary, dict) else None
    found = []
    for one in processes if isinstance(processes, list) else ():
        if not isinstance(one, dict) or not {"process", "incarnation", "ended", "missing"} <= one.keys():
            continue  # another summary than that of a collector
        who = f"{one['process']}~{one['incarnation']:x}"
        if one["missing"]:
            gaps = ", ".join(f"{first} to {last}" if first != last else f"{first}" for first, last in one["missing"])
            found.append(f"the trace of {who} has a hole: its reports {gaps} never came")
        if not one["ended"]:
            found.append(f"the trace of {who} has no end: what it did last may be missing")
    return found
