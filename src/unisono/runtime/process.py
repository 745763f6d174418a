"""One process in a realm: its name, its sockets, its logs and its trace, shared by all of its groups."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic_ns
from types import TracebackType
from typing import Literal, Protocol, Self

from msgspec.structs import replace

from unisono.engine import Address, Deliver, Fact, FoundState, Join, Leave, LoadState, SaveState, group_at
from unisono.errors import GroupError, NetworkError, SettingError, UnisonoError
from unisono.events import Event, Left, ServerChanged, SiteChanged
from unisono.identity import ProcessId, why_bad_name
from unisono.node import NO_GROUP, Controller, MembershipServer, Node
from unisono.runtime.addresses import resolve, spell
from unisono.runtime.blobs import Blobs
from unisono.runtime.channels import Channels
from unisono.runtime.driver import Driver
from unisono.runtime.storage import DiskStorage, MemoryStorage, Storage, state_directory
from unisono.runtime.trace_options import Level, trace_options
from unisono.runtime.tracing import Tracer
from unisono.runtime.transports import Transport, TransportName, check_transport, open_transport
from unisono.settings import Settings
from unisono.trace.statistics import check_type, check_values

_LOG = logging.getLogger(__name__)

REALM_VARIABLE = "UNISONO_REALM"
_HOST_LIMIT = 32
_serial = itertools.count()


class Member(Protocol):
    """One group of this process, as the process sees it."""

    def on_joined(self, error: NetworkError | None) -> None: ...

    def on_events(self, events: Sequence[Event]) -> None: ...

    def on_state(self, effect: SaveState | LoadState | FoundState) -> None: ...

    def on_failed(self, error: BaseException) -> None: ...

    async def leave(self) -> bool: ...


class Process:
    """A process that can join groups.

    `name` stays the same over restarts where there is one: the process then keeps its logs in a directory (`storage`,
    by default the user's state directory). Without a name it gets one of its own and keeps nothing. `trace` is a
    directory for the trace, `collector` the host:port of a collector for it (by default $UNISONO_COLLECTOR), `run` what
    the trace is called there (by default $UNISONO_RUN). `statistics` is how much is traced: "all", "events" for all
    but messages, or "off"; by default "all" into a directory, "events" to a collector alone, and else nothing. It takes
    part in the `site` of this machine and, with the settings in `control`, in the control hierarchy; a `daemon` hosts
    the site. For virtual synchrony sessions it is a client of membership `servers` or of `controllers`; one of the
    servers itself (`serves`, and then `servers` are the others), or one of the controllers (`controls`). `session` has
    their settings.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        realm: str | None = None,
        transport: TransportName = "multicast",
        seeds: Sequence[str] = (),
        interface: str | None = None,
        port: int = 0,
        trace: str | os.PathLike[str] | None = None,
        statistics: Level | None = None,
        collector: str | None = None,
        run: str | None = None,
        storage: str | os.PathLike[str] | Literal["memory"] | None = None,
        clock_drift_limit: int = Settings().clock_drift_limit,
        site: bool = True,
        control: Settings | None = Settings(),  # noqa: B008 - frozen
        daemon: bool = False,
        site_timeout: int = Settings().site_timeout,
        servers: Sequence[str] = (),
        serves: bool = False,
        controllers: Sequence[str] = (),
        controls: bool = False,
        session: Settings | None = None,
    ) -> None:
        self.name = name if name is not None else own_name()
        self.realm = realm_name(realm)
        if (complaint := why_bad_name(self.name)) is not None:
            raise SettingError("name", complaint)
        check_transport(transport, seeds)
        self._transport_name = transport
        self._seeds = tuple(seeds)
        self._interface = interface
        self._port = port
        self._trace = trace_options(trace, statistics, collector, run, self.realm)
        self._storage = storage if storage is not None else ("memory" if name is None else None)
        self._clock_drift_limit = clock_drift_limit
        self._with_site = site
        self._control = control if control is not None and control.control else None
        self._daemon = daemon
        self._site_timeout = site_timeout
        self._servers = tuple(servers)
        self._serves = serves
        self._controllers = tuple(controllers)
        self._controls = controls
        self._session = session
        self._on_server: Callable[[ServerChanged | UnisonoError], None] = lambda change: None
        self._on_site: Callable[[SiteChanged | UnisonoError], None] = lambda change: None
        self._members: dict[str, Member] = {}
        self._leaving: dict[str, asyncio.Future[None]] = {}
        self._driver: Driver | None = None
        self._tracer: Tracer | None = None
        self._transport: Transport | None = None
        self._node: Node | None = None
        self._blobs: Blobs | None = None
        self._starting: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def id(self) -> ProcessId:
        """Who this is, with its incarnation; known when a group was joined."""
        if self._node is None or self._node.process is None:
            raise GroupError(f"process {self.name!r} has no identity yet; join a group first")
        return self._node.process

    @property
    def address(self) -> str:
        """The endpoint of this process: a seed for others."""
        if self._transport is None:
            raise GroupError(f"process {self.name!r} has no address yet; start it first")
        return str(self._transport.address)

    @property
    def blobs(self) -> Blobs:
        """Where states are kept while they are given or taken."""
        assert self._blobs is not None, "a process is started before it is used"
        return self._blobs

    @property
    def counters(self) -> Counter[str]:
        """How often each named reason to drop, refuse or give up something was met."""
        return Counter() if self._driver is None else self._driver.counters

    @property
    def failure(self) -> BaseException | None:
        """Why this process stopped by itself; None where it did not."""
        return self._failure

    @property
    def traced(self) -> bool:
        """Whether there is a trace."""
        return self._trace is not None

    @property
    def traces_messages(self) -> bool:
        return self._trace is not None and self._trace.messages

    @property
    def server(self) -> MembershipServer | None:
        """The membership server that this process is, once it runs; None where it is none."""
        return None if self._node is None else self._node.server

    @property
    def controller(self) -> Controller | None:
        """The controller that this process is, once it runs; None where it is none."""
        return None if self._node is None else self._node.controller

    @property
    def groups(self) -> list[str]:
        return list(self._members)

    def report(self, kind: str, /, **values: float | str) -> None:
        """Report a statistic of the application: `process.report("orders", open=3, state="busy")`.

        It becomes a row of the trace, of that type; without a trace nothing happens. Values are numbers and texts, and
        the type is none that the protocols reserve (`unisono.trace.statistics`). In the event loop of the process.
        """
        self.report_about("", kind, values)

    def report_about(self, group: str, kind: str, values: Mapping[str, float | str]) -> None:
        check_type(kind)
        check_values(values)
        if self._tracer is not None and not self._closed:
            self._tracer.report(kind, values, group, monotonic_ns())

    def watch_site(self, tell: Callable[[SiteChanged | UnisonoError], None]) -> None:
        """Be told who speaks for this process whenever that changes, and at last why the process failed, if it does."""
        self._on_site = tell

    def watch_server(self, tell: Callable[[ServerChanged | UnisonoError], None]) -> None:
        """Be told which membership server this process is with, and at last why the process failed, if it does."""
        self._on_server = tell

    async def start(self) -> None:
        """Open the sockets; a second call changes nothing."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise GroupError(f"process {self.name!r} was closed; make a new one")
        if self._loop is not None and self._loop is not loop:
            raise GroupError(f"process {self.name!r} runs in another event loop; make one for each loop")
        self._loop = loop
        if self._starting is None:
            self._starting = loop.create_task(self._start())
        await asyncio.shield(self._starting)

    async def close(self, *, leave: bool = True) -> None:
        """Leave every group that is still joined, write the end of the trace, close the sockets.

        Without `leave` the others are told nothing, and find the process silent.
        """
        if self._closed:
            return
        self._closed = True
        if self._starting is not None:
            await asyncio.gather(self._starting, return_exceptions=True)
        if leave and self._failure is None:
            await asyncio.gather(*(member.leave() for member in self._members.values()))
        if self._driver is not None:
            await self._driver.stop(ended=self._failure is None)
            _LOG.info("%s closed", self.name)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def attach(
        self, group: str, member: Member, settings: Settings, protocol: str, stateful: bool = False
    ) -> None:
        """Join a group, after an earlier stay in it has ended; the answer is `on_joined`."""
        while (leaving := self._leaving.get(group)) is not None and self._failure is None:
            await asyncio.shield(leaving)
        if self._failure is not None:
            raise self._failure
        if group in self._members:
            raise GroupError(f"process {self.name!r} is in group {group!r} already; use that, or leave it first")
        self._members[group] = member
        self.give(Join(group, settings, protocol, stateful))

    def detach(self, group: str) -> None:
        """A group is over for this process."""
        self._members.pop(group, None)

    def leave(self, group: str) -> None:
        assert self._loop is not None, "a process is started before it is used"
        self._leaving.setdefault(group, self._loop.create_future())
        self.give(Leave(group))

    def give(self, fact: Fact) -> None:
        assert self._driver is not None, "a process is started before it is used"
        self._driver.give(fact)

    # What the driver reports.

    def deliver(self, effect: Deliver) -> None:
        if effect.group == NO_GROUP:
            for event in effect.events:
                if isinstance(event, SiteChanged):
                    self._on_site(event)
                elif isinstance(event, ServerChanged):
                    self._on_server(event)
            return
        member = self._members.get(effect.group)
        if member is not None:
            member.on_events(effect.events)
        if effect.group in self._leaving and any(isinstance(event, Left) for event in effect.events):
            self._leaving.pop(effect.group).set_result(None)

    def state(self, effect: SaveState | LoadState | FoundState) -> None:
        member = self._members.get(effect.group)
        if member is not None:
            member.on_state(effect)

    def joined(self, address: Address, error: NetworkError | None) -> None:
        member = self._members.get(group_at(address))
        if member is not None:
            member.on_joined(error)

    def failed(self, error: BaseException) -> None:
        words = f"this process stopped: {type(error).__name__}: {error}"
        self._failure = error if isinstance(error, UnisonoError) else GroupError(words)
        for member in list(self._members.values()):
            member.on_failed(self._failure)
        for leaving in self._leaving.values():
            leaving.set_result(None)
        self._leaving.clear()
        self._on_site(self._failure)
        self._on_server(self._failure)

    async def _start(self) -> None:
        storage = self._open_storage()
        self._blobs = Blobs(self._logs_directory())
        try:
            transport = self._open_transport()
            try:
                servers = await self._resolve(transport, self._servers, "membership server")
                controllers = await self._resolve(transport, self._controllers, "controller")
            except BaseException:
                transport.close()
                raise
        except BaseException:
            storage.close()
            raise
        self._node = Node(
            self.name,
            random.Random(os.urandom(16)),
            os.urandom,
            realm=self.realm,
            clock_drift_limit=self._clock_drift_limit,
            site=self._with_site,
            control=self._as_traced(self._control),
            daemon=self._daemon,
            site_timeout=self._site_timeout,
            servers=servers,
            serves=self._serves,
            controllers=controllers,
            controls=self._controls,
            session=self._as_traced(self._session),
        )
        tracer = self._tracer = None if self._trace is None else self._trace.open(self.name)
        channels = Channels(self.realm, transport.channel_socket)
        driver = Driver(self._node, transport, channels, storage, self, tracer, self.blobs, self.name)
        try:
            await driver.start()
        except BaseException:
            await driver.stop(ended=False)
            raise
        self._driver, self._transport = driver, transport
        _LOG.info("%s runs at %s in realm %r", self.name, transport.address, self.realm)

    def _open_storage(self) -> Storage:
        directory = self._logs_directory()
        return MemoryStorage() if directory is None else DiskStorage(directory)

    def _logs_directory(self) -> Path | None:
        """Where this process keeps its logs; None where it keeps none."""
        if self._storage == "memory":
            return None
        return state_directory(self.realm, self.name) if self._storage is None else Path(self._storage)

    def _open_transport(self) -> Transport:
        return open_transport(
            self._transport_name,
            self.realm,
            self._interface,
            self._port,
            self._seeds,
            servers=self._servers + self._controllers,
        )

    async def _resolve(self, transport: Transport, names: Sequence[str], what: str) -> tuple[Address, ...]:
        """Where these are, as channels have it. This process may stand in a list of all servers, and is not asked."""
        assert self._loop is not None, "a process starts in a loop"
        family = transport.channel_socket.family
        found = [spell(await resolve(self._loop, name, family, what)) for name in names]
        return tuple(address for address in dict.fromkeys(found) if address != transport.address)

    def _as_traced(self, settings: Settings | None) -> Settings | None:
        """Settings that say what this process traces."""
        return None if settings is None else replace(settings, trace=self.traced, trace_messages=self.traces_messages)


def realm_name(realm: str | None) -> str:
    """The realm that was given, or that of the environment; the empty one is everybody's."""
    return realm if realm is not None else os.environ.get(REALM_VARIABLE, "")


def own_name() -> str:
    """A name that nobody else has: host, process number, and a count for the second one of a process."""
    host = "".join(c for c in socket.gethostname().split(".")[0] if c.isprintable())[:_HOST_LIMIT] or "process"
    serial = next(_serial)
    return f"{host}-{os.getpid()}" + (f"-{serial + 1}" if serial else "")
