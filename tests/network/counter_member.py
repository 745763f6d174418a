"""One member of the counter of examples/counter.py, in a process of its own, driven by lines.

Commands: `add AMOUNT`, `quit`. Lines: `view NAMES`, and `count TOTAL` whenever it has changed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from examples.counter import CounterMember

LOOK_SECONDS = 0.02


async def tell(member: CounterMember) -> None:
    told: object = None
    while True:
        view = member.group.view
        names = sorted(process.name for process in view.members) if view is not None else []
        if (found := (names, member.counter.total if member.group.has_state else None)) != told:
            told = found
            print("view", *names, flush=True)
            print("count", found[1], flush=True)
        await asyncio.sleep(LOOK_SECONDS)


async def main(options: dict[str, Any]) -> None:
    member = CounterMember(speaks=False, **options)
    await member.start()
    telling = asyncio.create_task(tell(member))
    loop = asyncio.get_running_loop()
    while (line := await loop.run_in_executor(None, sys.stdin.readline)).startswith("add"):
        await member.add(int(line.split()[1]))
    telling.cancel()
    await member.stop()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
