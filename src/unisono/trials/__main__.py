"""One process of a trial: `python -m unisono.trials`.

The first line of its input says who it is, every later one is a command.
"""

from __future__ import annotations

import asyncio
import sys

import msgspec

from unisono.trials.charge import Charge
from unisono.trials.client import Client
from unisono.trials.peer import Peer
from unisono.trials.service import serve


async def main() -> None:
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=1 << 28)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    charge = msgspec.json.decode(await commands.readline(), type=Charge)
    if charge.part == "peer":
        await Peer(charge).run(commands)
    elif charge.part == "client":
        await Client(charge).run(commands)
    else:
        await serve(charge, commands)


if __name__ == "__main__":
    asyncio.run(main())
