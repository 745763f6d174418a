"""A membership server or a controller, in a trial."""

from __future__ import annotations

import asyncio

from unisono.serving import Controller, MembershipServer
from unisono.trials.application import end
from unisono.trials.charge import Charge


async def serve(charge: Charge, commands: asyncio.StreamReader) -> None:
    """Be there until the trial says that it is over."""
    service = _service(charge)
    await service.open()
    print("ready", service.address, flush=True)
    await commands.readline()
    await end(service.process)


def _service(charge: Charge) -> MembershipServer | Controller:
    listen, settings = f"{charge.interface}:{charge.port}", charge.written_settings
    if charge.part == "server":
        return MembershipServer(
            listen,
            charge.servers,
            name=charge.name,
            realm=charge.realm,
            trace=charge.trace,
            storage=charge.storage,
            **settings,
        )
    return Controller(
        listen,
        charge.servers,
        name=charge.name,
        realm=charge.realm,
        transport=charge.transport,
        seeds=charge.seeds,
        trace=charge.trace,
        storage=charge.storage,
        **settings,
    )
