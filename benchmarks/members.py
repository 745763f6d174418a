"""One member of the common workload: sends as fast as it may, or at a fixed rate, and counts what it gets.

Run by throughput.py; speaks JSON lines: says when everybody is there, is told when to begin, tells what it got.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from typing import Any

from unisono import Message, View, join


async def member(charge: dict[str, Any]) -> None:
    size, count = charge["size"], charge["members"]
    everybody = asyncio.Event()
    delivered: list[tuple[int, int]] = []
    latencies: list[tuple[str, int, int]] = []
    window = [0, 1 << 62]

    async with join(
        "bench",
        name=charge["name"],
        realm=charge["realm"],
        interface="127.0.0.1",
        storage="memory",
        transport=charge["transport"],
        **charge["settings"],
    ) as group:

        async def read() -> None:
            while events := await group.receive_many(100_000):
                now = time.monotonic_ns()
                messages = 0
                for event in events:
                    if type(event) is Message:
                        messages += 1
                        if charge["rate"] and window[0] <= now <= window[1]:
                            sent = int.from_bytes(event.data[:8], "big")
                            latencies.append((event.source.name, event.number, now - sent))
                    elif type(event) is View and len(event.members) == count:
                        everybody.set()
                delivered.append((now, messages))

        reader = asyncio.ensure_future(read())
        await everybody.wait()
        print(json.dumps({"is": "ready"}), flush=True)
        begin, end = json.loads(await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline))
        window[:] = begin, end
        gc.freeze()
        spent = time.process_time()
        counted = sum(messages for _, messages in delivered)
        await _send(group, charge, size, end)
        await asyncio.sleep(0.2)
        spent = time.process_time() - spent
        counted = sum(messages for _, messages in delivered) - counted
        taken = sum(messages for at, messages in delivered if begin <= at <= end)
        answer = {"delivered": taken, "latencies": latencies, "spent": spent, "all": counted}
        print(json.dumps(answer), flush=True)
        reader.cancel()


async def _send(group: Any, charge: dict[str, Any], size: int, end: int) -> None:
    if not charge["rate"]:
        batch = [bytes(size)] * charge["batch"]
        while time.monotonic_ns() < end:
            await group.send_many(batch)
        return
    gap = int(1e9 / charge["rate"])
    due = time.monotonic_ns() + gap
    while due < end:
        await asyncio.sleep(max(0.0, (due - time.monotonic_ns()) / 1e9))
        await group.send(time.monotonic_ns().to_bytes(8, "big") + bytes(size - 8))
        due += gap


if __name__ == "__main__":
    asyncio.run(member(json.loads(sys.stdin.readline())))
