"""A bare transport in a process of its own: says how far what it hears has come, sends where it is told.

Lines: `at ADDRESS`, `heard HOPS LEFT`. Command: an address to send to.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading

from unisono.engine import Address, DatagramReceived, multicast_address
from unisono.runtime.interfaces import choose_interface
from unisono.runtime.loops import run
from unisono.runtime.multicast import Multicast

SCOPE = 9


def hear(batch: list[DatagramReceived]) -> None:
    for datagram in batch:
        print("heard", datagram.hops, datagram.left, flush=True)


async def main(interface: str, realm: str) -> None:
    transport = Multicast(realm, choose_interface(interface))
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    await transport.start(loop, hear, print)
    transport.join(multicast_address("g"))
    print("at", transport.address, flush=True)

    def obey() -> None:
        while line := os.read(0, 4096):
            for word in line.decode().split():
                loop.call_soon_threadsafe(transport.send, Address(word), [b"sounding"], SCOPE)
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=obey, daemon=True).start()
    await ended.wait()
    transport.close()


if __name__ == "__main__":
    run(main(sys.argv[1], sys.argv[2]))
