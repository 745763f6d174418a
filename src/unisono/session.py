"""Virtual synchrony sessions: a client of membership servers, and its groups (002 4).

    async with unisono.Session("alice", servers=["127.0.0.1:7500"]) as session:
        async with session.join("orders") as group:
            await group.send(b"one more")
            async for event in group:
                ...

Servers keep who is in which group; the clients send to each other. Members that go from one view to the next together
have delivered the same messages in it (D5).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal, Self

from unisono.errors import GroupError, NetworkError, SettingError, UnisonoError
from unisono.events import ServerChanged
from unisono.identity import ProcessId, why_bad_name
from unisono.runtime.process import Process
from unisono.runtime.trace_options import Level
from unisono.runtime.transports import TransportName
from unisono.session_group import OnBlock, SessionGroup
from unisono.settings import read_session_settings
from unisono.spelling import read_endpoints

Semantics = Literal["strong", "weak"]

PROTOCOL = "virtual_synchrony"
TIMEOUT_SECONDS = 10.0
"""How long opening waits for a server, and joining for a view, unless told otherwise."""


class Session:
    """One client of the membership servers. Used inside `async with`, in one event loop.

    `servers` are endpoints of membership servers, any of which will do: the session goes to another when its own
    fails. `controllers`, in their place, are endpoints of controllers that speak for their clients. A session with
    `semantics="strong"` has strong groups only; with "weak" its groups are weak unless they say otherwise.
    `timeout_seconds` is how long opening waits for a server, and joining for the first view. The other options are
    those of `Process`; the rest are settings, of the session and of each of its groups, such as server_timeout="2s".
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        servers: Sequence[str] = (),
        controllers: Sequence[str] = (),
        semantics: Semantics = "strong",
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
        timeout_seconds: float = TIMEOUT_SECONDS,
        **settings: object,
    ) -> None:
        servers = read_endpoints("servers", servers)
        controllers = read_endpoints("controllers", controllers)
        if bool(servers) == bool(controllers):
            raise SettingError(
                "servers",
                'give the endpoints of membership servers, such as ["127.0.0.1:7500"], or of controllers, and not both',
            )
        self.settings = read_session_settings({"semantics": semantics, **settings})
        if controllers and self.settings.semantics == "weak":
            raise SettingError("semantics", "clients of controllers have strong groups; leave it out, or give servers")
        self.timeout_seconds = timeout_seconds
        self._asked = servers or controllers
        self._what = "membership server" if servers else "controller"
        self._groups: dict[str, SessionGroup] = {}
        self._server: str | None = None
        self._trouble = ""
        self._tell: Callable[[ServerChanged], None] = lambda change: None
        self._attached: asyncio.Future[None] | None = None
        self.process = Process(
            name,
            realm=realm,
            transport=transport,
            seeds=seeds,
            interface=interface,
            port=port,
            trace=trace,
            statistics=statistics,
            collector=collector,
            run=run,
            storage=storage,
            clock_drift_limit=self.settings.clock_drift_limit,
            site=False,
            control=None,
            servers=servers,
            controllers=controllers,
            session=self.settings,
        )

    @property
    def name(self) -> str:
        return self.process.name

    @property
    def id(self) -> ProcessId:
        """This process, as others see it."""
        return self.process.id

    @property
    def server(self) -> str | None:
        """The server or controller that this session is with; None while it looks for one."""
        return self._server

    @property
    def groups(self) -> tuple[SessionGroup, ...]:
        """The groups that are joined."""
        return tuple(group for group in self._groups.values() if group.joined)

    def watch_server(self, tell: Callable[[ServerChanged], None]) -> None:
        """Be told whenever the session comes to a server, or loses it and looks for another."""
        self._tell = tell

    def join(
        self, group: str, *, on_block: OnBlock | None = None, timeout_seconds: float | None = None, **settings: Any
    ) -> SessionGroup:
        """A group of this session, to use with `await` or with `async with`; returns when the first view is there.

        `semantics` is "strong" or "weak". With block="ask" the application is asked before its view changes, by a
        Block among its events; or, with `on_block`, by a call with the Block, whose end, or the end of the awaitable
        that it returns, says `block_ok`. With optimistic=True sending goes on while the view changes. The rest are
        settings of the group, in place of those of the session.
        """
        if (complaint := why_bad_name(group)) is not None:
            raise SettingError("group", complaint)
        if on_block is not None and settings.setdefault("block", "ask") != "ask":
            raise SettingError("block", 'on_block is for block="ask"; leave one of them out')
        chosen = read_session_settings(settings, self.settings)
        if self.settings.semantics == "strong" and chosen.semantics == "weak":
            raise SettingError(
                "semantics",
                'a strong session has strong groups only; open it with semantics="weak", which may have both',
            )
        if chosen.optimistic and self._what == "controller":
            raise SettingError("optimistic", "clients of controllers wait while the view changes; leave it out")
        timeout = self.timeout_seconds if timeout_seconds is None else timeout_seconds
        joined = SessionGroup(group, self._open_process, chosen, PROTOCOL, timeout, self._why_no_view, on_block)
        if group not in self._groups or not self._groups[group].joined:
            self._groups[group] = joined
        return joined

    async def open(self) -> Self:
        """Find a server; `async with` does this."""
        if self._attached is not None:
            raise GroupError(f"session {self.name!r} was opened before; make a new one")
        self._attached = asyncio.get_running_loop().create_future()
        self.process.watch_server(self._on_server)
        try:
            await self.process.start()
            async with asyncio.timeout(self.timeout_seconds):
                await self._attached
        except BaseException as error:
            await self.process.close()
            if isinstance(error, TimeoutError):
                raise NetworkError(self._why_no_server()) from None
            raise
        return self

    async def close(self) -> None:
        """Leave every group and the server. A second call changes nothing."""
        await self.process.close()
        self._server = None

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _on_server(self, change: ServerChanged | UnisonoError) -> None:
        attached = self._attached
        assert attached is not None, "a session is watched when it opens"
        if isinstance(change, UnisonoError):
            self._server, self._trouble = None, str(change)
            if not attached.done():
                attached.set_exception(change)
            return
        self._server, self._trouble = change.server, change.reason
        if change.server is not None and not attached.done():
            attached.set_result(None)
        self._tell(change)

    def _open_process(self) -> Process:
        if self._attached is None:
            raise GroupError(
                f"session {self.name!r} is not open yet; write `async with unisono.Session(...) as session:`"
            )
        return self.process

    def _why_no_server(self) -> str:
        command = "membership-server" if self._what == "membership server" else "controller"
        trouble = f" ({self._trouble})" if self._trouble else ""
        return (
            f"no {self._what} took this session in within {self.timeout_seconds:g} s; tried {', '.join(self._asked)}"
            f"{trouble}. Start one with `unisono {command} --listen {self._asked[0]}`; if one is there, look whether it"
            f" is a {self._what}, of the realm {self.process.realm!r}"
        )

    def _why_no_view(self, group: str, timeout_seconds: float) -> str:
        if self._server is None:
            trouble = f" ({self._trouble})" if self._trouble else ""
            return (
                f"no view of {group!r} came within {timeout_seconds:g} s: this session is with no server now{trouble}"
            )
        return (
            f"no view of {group!r} came within {timeout_seconds:g} s from {self._server}, which may wait for other"
            " servers or for a member that does not answer; try again, or give a longer timeout_seconds"
        )
