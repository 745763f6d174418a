"""A bare transport in a process of its own: says how far what it hears has come, sends where it is told.

Lines: `at ADDRESS`, `heard HOPS LEFT`. Command: an address to send to, with `=SCOPE=TEXT` where another scope is meant;
who hears it says the text too. A third argument makes it a mesh with that seed, or without one where it is `-`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading

from unisono.engine import Address, DatagramReceived, multicast_address
from unisono.runtime.interfaces import choose_interface
from unisono.runtime.loops import run
from unisono.runtime.mesh import Mesh
from unisono.runtime.multicast import Multicast

SCOPE = 9


def hear(batch: list[DatagramReceived]) -> None:
    for datagram in batch:
        print("heard", datagram.hops, datagram.left, *datagram.data.decode().split(), flush=True)


async def main(interface: str, realm: str, seed: str | None = None) -> None:
    place = choose_interface(interface)
    seeds = () if seed in (None, "-") else (seed,)
    transport = Multicast(realm, place) if seed is None else Mesh(realm, place, seeds=seeds)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    await transport.start(loop, hear, print)
    transport.join(multicast_address("g"))
    print("at", transport.address, flush=True)

    def obey() -> None:
        while line := os.read(0, 4096):
            for word in line.decode().split():
                to, scope, text = word.split("=") if "=" in word else (word, SCOPE, "")
                loop.call_soon_threadsafe(transport.send, Address(to), [f" {text}".encode()], int(scope))
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=obey, daemon=True).start()
    await ended.wait()
    transport.close()


if __name__ == "__main__":
    run(main(*sys.argv[1:]))
