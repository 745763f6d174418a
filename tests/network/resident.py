"""A process without a group that takes part in its site, in a process of its own: says who speaks for it.

Lines: `id NAME`, `alone`, `host NAME`, `hosting NAMES`. It ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading

from unisono.errors import UnisonoError
from unisono.events import SiteChanged
from unisono.runtime.loops import run
from unisono.runtime.process import Process


def say(change: SiteChanged | UnisonoError) -> None:
    if isinstance(change, UnisonoError):
        raise change
    if change.host is None:
        print("alone", flush=True)
    elif change.hosting:
        print("hosting", *(guest.name for guest in change.guests), flush=True)
    else:
        print("host", change.host.name, flush=True)


async def main(name: str, realm: str) -> None:
    process = Process(name, realm=realm, storage="memory", site=True)
    process.watch_site(say)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read() -> None:
        while os.read(0, 4096):
            pass
        loop.call_soon_threadsafe(ended.set)

    async with process:
        threading.Thread(target=read, daemon=True).start()
        await ended.wait()


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    run(main(options["name"], options["realm"]))
