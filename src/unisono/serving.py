"""Membership servers and controllers of virtual synchrony sessions, in a process of their own or within a program.

async with unisono.MembershipServer("127.0.0.1:7500", peers=["127.0.0.1:7501", "127.0.0.1:7502"]) as server:
    ...
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Literal, Self

from msgspec import Struct

from unisono.errors import SettingError
from unisono.identity import ProcessId
from unisono.runtime.process import Process
from unisono.runtime.trace_options import Level
from unisono.runtime.transports import TransportName
from unisono.settings import read_session_settings
from unisono.spelling import read_endpoints, split_endpoint


class Status(Struct, frozen=True):
    """Who is here at one moment: servers that take part together, how many clients, and who is in which group.

    A controller knows of its clients alone.
    """

    servers: tuple[str, ...] = ()
    clients: int = 0
    groups: dict[str, tuple[str, ...]] = {}


class Service(ABC):
    """What stands at an endpoint for others to come to, as long as it is open."""

    def __init__(self, process: Process) -> None:
        self.process = process

    @property
    def address(self) -> str:
        """Where clients come to; known when it is open."""
        return self.process.address

    @property
    def id(self) -> ProcessId:
        return self.process.id

    @abstractmethod
    def status(self) -> Status:
        """Who is here now."""

    async def open(self) -> Self:
        """Be there for clients; `async with` does this."""
        await self.process.start()
        return self

    async def close(self) -> None:
        """End; clients go elsewhere. A second call changes nothing."""
        await self.process.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class MembershipServer(Service):
    """Keeps who is in which group of virtual synchrony sessions, together with its `peers`.

    `listen` is where it is, host and port; port 0 takes a free one. `peers` are the endpoints of the other servers; its
    own may stand among them, so that all can be given the same list. A server keeps nothing on disk, unless `storage`
    is a directory. The other options are those of `Process`; the rest are settings, such as server_timeout="2s".
    """

    def __init__(
        self,
        listen: str = "127.0.0.1:0",
        peers: Sequence[str] = (),
        *,
        name: str | None = None,
        realm: str | None = None,
        trace: str | os.PathLike[str] | None = None,
        statistics: Level | None = None,
        collector: str | None = None,
        run: str | None = None,
        storage: str | os.PathLike[str] | Literal["memory"] = "memory",
        **settings: object,
    ) -> None:
        super().__init__(
            _process(
                "server",
                listen,
                name=name,
                realm=realm,
                trace=trace,
                statistics=statistics,
                collector=collector,
                run=run,
                storage=storage,
                servers=read_endpoints("peers", peers),
                serves=True,
                session=read_session_settings(settings),
            )
        )

    def status(self) -> Status:
        server = self.process.server
        if server is None:
            return Status()
        groups = {group: _names(server.members(group)) for group in server.groups}
        return Status(_names(server.servers), len(server.clients), groups)


class Controller(Service):
    """Takes part in the groups of virtual synchrony sessions for the clients that come to it (structured sessions).

    `listen` is where clients find it, `servers` are the endpoints of membership servers. `transport` is how it reaches
    the other controllers, as in `Session`. The other options are those of `MembershipServer`.
    """

    def __init__(
        self,
        listen: str = "127.0.0.1:0",
        servers: Sequence[str] = (),
        *,
        name: str | None = None,
        realm: str | None = None,
        transport: TransportName = "multicast",
        seeds: Sequence[str] = (),
        trace: str | os.PathLike[str] | None = None,
        statistics: Level | None = None,
        collector: str | None = None,
        run: str | None = None,
        storage: str | os.PathLike[str] | Literal["memory"] = "memory",
        **settings: object,
    ) -> None:
        if not servers:
            raise SettingError("servers", 'a controller needs membership servers, such as ["127.0.0.1:7500"]')
        super().__init__(
            _process(
                "controller",
                listen,
                name=name,
                realm=realm,
                transport=transport,
                seeds=seeds,
                trace=trace,
                statistics=statistics,
                collector=collector,
                run=run,
                storage=storage,
                servers=read_endpoints("servers", servers),
                controls=True,
                session=read_session_settings(settings),
            )
        )

    def status(self) -> Status:
        controller = self.process.controller
        return Status() if controller is None else Status(clients=controller.clients)


def _names(processes: Iterable[ProcessId]) -> tuple[str, ...]:
    return tuple(process.name for process in processes)


def _process(what: str, listen: str, *, name: str | None, **options: Any) -> Process:
    """A process at an endpoint; without a name of its own it is called after that."""
    host, port = split_endpoint(listen, 0)
    if name is None and port:
        name = f"{what}-{listen}"
    return Process(name, interface=host, port=port, site=False, control=None, **options)
