"""The same face for scripts without asyncio: the group lives in a thread of its own, calls wait for it.

with unisono.sync.join("orders") as group:
    group.send(b"one more")
    for event in group:
        ...
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from unisono.events import AudienceEstimate, View
from unisono.group import LEAST_ERROR, Group, GroupEvent
from unisono.group import join as join_group
from unisono.identity import ProcessId
from unisono.runtime.loops import new_loop
from unisono.settings import Role, Service, Settings

__all__ = ["SyncGroup", "join"]

Result = TypeVar("Result")


class SyncGroup:
    """A group for one script; every call may come from any thread."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"unisono-{group.name}", daemon=True)

    @property
    def name(self) -> str:
        return self._group.name

    @property
    def id(self) -> ProcessId:
        """This process, as others see it."""
        return self._group.process.id

    @property
    def members(self) -> tuple[ProcessId, ...]:
        """The sources of the newest view."""
        return self._group.members

    @property
    def view(self) -> View | None:
        """The newest view, where the service has views."""
        return self._group.view

    @property
    def audience(self) -> AudienceEstimate | None:
        """About how many are in the group, as far as that was asked for."""
        return self._group.audience

    def count_audience(self, wanted: bool = True) -> None:
        """Keep `audience` up to date from now on, or no longer."""

        async def ask() -> None:
            self._group.count_audience(wanted)

        self._call(ask())

    def estimate_audience(self, error: float = LEAST_ERROR) -> AudienceEstimate:
        """About how many are in the group, with a standard error of at most this share of it."""
        return self._call(self._group.estimate_audience(error))

    @property
    def settings(self) -> Settings:
        """How this process takes part; `change` changes it."""
        return self._group.settings

    def send(self, data: bytes, *, name: str = "", proxy: bool = False) -> None:
        """Send one message; waits while the window is full. With `proxy` a receiver lets a sender send it."""
        self._call(self._group.send(data, name=name, proxy=proxy))

    def send_many(self, messages: Iterable[bytes], names: Iterable[str] = (), *, proxy: bool = False) -> None:
        """Send messages in this order, with as many names or none."""
        self._call(self._group.send_many(messages, names, proxy=proxy))

    def change(self, service: Service, sources: Literal["all"] | Iterable[str] = "all") -> None:
        """Receive by another service, and stay in the group."""
        self._call(self._group.change(service, sources))

    def become(self, role: Role) -> None:
        """Be a sender of the group from now on, or a receiver that nobody waits for."""

        async def turn() -> None:
            self._group.become(role)

        self._call(turn())

    def recover(self, source: ProcessId, first: int | None = None, last: int | None = None, *, name: str = "") -> None:
        """Ask for messages that a framed receiver lacks, by sequences or by name."""

        async def ask() -> None:
            self._group.recover(source, first, last, name=name)

        self._call(ask())

    def report(self, kind: str, /, **values: float | str) -> None:
        """Report a statistic of the application about this group."""

        async def report() -> None:
            self._group.report(kind, **values)

        self._call(report())

    @property
    def has_state(self) -> bool:
        """Whether this process has the group's state, or was the first."""
        return self._group.has_state

    def claim_state(self) -> None:
        """Say that this process's own state counts."""
        self._call(_done(self._group.claim_state))

    def renew_state(self) -> None:
        """Give up this process's state, and be given that of the others."""
        self._call(_done(self._group.renew_state))

    def receive(self, timeout_seconds: float | None = None) -> GroupEvent | None:
        """The next event, or None when none came in time or the group was left."""
        found = self._call(self._receive(1, timeout_seconds))
        return found[0] if found else None

    def receive_many(self, limit: int = 1000, timeout_seconds: float | None = None) -> list[GroupEvent]:
        """All events that are there, at most `limit`; waits for the first."""
        return self._call(self._receive(limit, timeout_seconds))

    def __iter__(self) -> Iterator[GroupEvent]:
        while (event := self.receive()) is not None:
            yield event

    def leave(self) -> None:
        self._call(self._group.leave())

    def open(self) -> Self:
        self._thread.start()
        try:
            self._call(self._group.open())
        except BaseException:
            self._stop()
            raise
        return self

    def close(self) -> None:
        """Leave and end the thread. A second call changes nothing."""
        if self._thread.is_alive():
            try:
                self._call(self._group.close())
            finally:
                self._stop()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def _receive(self, limit: int, timeout_seconds: float | None) -> list[GroupEvent]:
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._group.receive_many(limit)
        except TimeoutError:
            return []

    def _call(self, work: Coroutine[Any, Any, Result]) -> Result:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _done(work: Callable[[], None]) -> None:
    work()


def join(group: str, **options: Any) -> SyncGroup:
    """A group to use with `with`; the options are those of `unisono.join`."""
    return SyncGroup(join_group(group, **options))
