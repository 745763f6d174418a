"""A member in a process of its own that takes the rows of a Spark query: says each row that it has, and its views.

Lines: `view NAMES`, `row BATCH NUMBER DATA`, and after `quit` on its input `had TAKEN REPEATED`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from typing import Any

import unisono
from unisono.rows import RowFilter
from unisono.runtime.loops import run


async def take(group: unisono.Group, had: RowFilter) -> None:
    while events := await group.receive_many():
        lines: list[str] = []
        for event in events:
            row = had.take(event)
            if row is not None:
                lines.append(f"row {row.batch} {row.number} {row.data.decode()}")
            elif isinstance(event, unisono.View):
                lines.append(" ".join(["view", *sorted(process.name for process in event.members)]))
            elif not isinstance(event, unisono.Message):
                lines.append(f"trouble {event}")
        if lines:
            print("\n".join(lines), flush=True)


async def main(options: dict[str, Any]) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def wait_for_end() -> None:
        sys.stdin.readline()
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=wait_for_end, daemon=True).start()
    had = RowFilter()
    async with unisono.join(**options) as group:
        taking = asyncio.create_task(take(group, had))
        await ended.wait()
        await group.leave()
        await taking
    print(f"had {had.taken} {had.repeated}", flush=True)


if __name__ == "__main__":
    run(main(json.loads(sys.argv[1])))
