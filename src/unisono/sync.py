"""The same face for scripts without asyncio: the group lives in a thread of its own, calls wait for it.

with unisono.sync.join("orders") as group:
    group.send(b"one more")
    for event in group:
        ...

with unisono.sync.Session("alice", servers=["127.0.0.1:7500"]) as session, session.join("orders") as group:
    ...
"""

from __future__ import annotations

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar

from unisono.errors import GroupError, NotMember
from unisono.events import AudienceEstimate, Block, Event, ServerChanged, View
from unisono.group import LEAST_ERROR, Group, GroupEvent
from unisono.group import join as join_group
from unisono.identity import ProcessId
from unisono.runtime.loops import new_loop
from unisono.runtime.participant import Participant
from unisono.session import Session as AsyncSession
from unisono.session_group import Copied, SessionEvent, SessionGroup
from unisono.settings import Role, Service, Settings

__all__ = ["Session", "SyncGroup", "SyncSessionGroup", "join"]

_LOG = logging.getLogger(__name__)

Result = TypeVar("Result")
Shown = TypeVar("Shown", bound=Event)


class LoopThread:
    """An event loop in a thread of its own; calls may come from any other thread.

    A call before it starts or after it ended is told `before` or `after`.
    """

    def __init__(self, name: str, before: str, after: str) -> None:
        self._name = name
        self._before = before
        self._after = after
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"unisono-{name}", daemon=True)
        self._turn = threading.Lock()
        self._started = False
        self._ended = False

    @property
    def running(self) -> bool:
        return self._started and not self._ended

    def start(self) -> None:
        with self._turn:
            if self._started:
                raise GroupError(self._after if self._ended else f"{self._name!r} is open already")
            self._started = True
            self._thread.start()

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do this in the loop, and wait for what comes of it."""
        with self._turn:
            if not self.running:
                work.close()
                raise NotMember(self._after if self._ended else self._before)
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException as error:
            future.cancel()
            if isinstance(error, CancelledError) and self._ended:
                raise NotMember(self._after) from None
            raise

    def stop(self) -> None:
        """End the loop, and every call that still waits. A second call changes nothing."""
        with self._turn:
            if not self.running:
                return
            self._ended = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        waiting = asyncio.all_tasks(self._loop)
        for task in waiting:
            task.cancel()
        self._loop.run_until_complete(asyncio.wait(waiting) if waiting else asyncio.sleep(0))
        self._loop.close()


class Opening(ABC):
    """What is open inside a `with`."""

    @abstractmethod
    def open(self) -> Self: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Threaded(Opening):
    """What has a thread of its own while it is open."""

    _thread: LoopThread

    @abstractmethod
    async def _open(self) -> None: ...

    @abstractmethod
    async def _close(self) -> None: ...

    def open(self) -> Self:
        """Begin, in the thread; `with` does this."""
        self._thread.start()
        try:
            self._thread.call(self._open())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def close(self) -> None:
        """Leave and end the thread. A second call changes nothing."""
        if self._thread.running:
            try:
                self._thread.call(self._close())
            finally:
                self._thread.stop()


class SyncParticipant(Generic[Shown]):
    """What every kind of group has for a script."""

    def __init__(self, group: Participant[Shown], thread: LoopThread) -> None:
        self._participant = group
        self._thread = thread

    @property
    def name(self) -> str:
        return self._participant.name

    @property
    def id(self) -> ProcessId:
        """This process, as others see it."""
        return self._participant.process.id

    @property
    def members(self) -> tuple[ProcessId, ...]:
        """The sources of the newest view."""
        return self._participant.members

    @property
    def view(self) -> View | None:
        """The newest view, where there are views."""
        return self._participant.view

    @property
    def settings(self) -> Settings:
        """How this process takes part."""
        return self._participant.settings

    def report(self, kind: str, /, **values: float | str) -> None:
        """Report a statistic of the application about this group."""
        self._do(lambda: self._participant.report(kind, **values))

    def receive(self, timeout_seconds: float | None = None) -> Shown | None:
        """The next event, or None when none came in time or the group was left."""
        found = self.receive_many(1, timeout_seconds)
        return found[0] if found else None

    def receive_many(self, limit: int = 1000, timeout_seconds: float | None = None) -> list[Shown]:
        """All events that are there, at most `limit`; waits for the first."""
        return self._call(self._receive(limit, timeout_seconds))

    def __iter__(self) -> Iterator[Shown]:
        while (event := self.receive()) is not None:
            yield event

    def leave(self) -> bool:
        """Leave: what was sent still reaches the others, then this returns. A second call changes nothing.

        False where `leave_timeout` ran out before all others who counted had what was sent.
        """
        return not self._thread.running or self._call(self._participant.leave())

    async def _receive(self, limit: int, timeout_seconds: float | None) -> list[Shown]:
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._participant.receive_many(limit)
        except TimeoutError:
            return []

    def _call(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._thread.call(work)

    def _do(self, work: Callable[[], Result]) -> Result:
        """Call something in the loop that does not wait."""

        async def done() -> Result:
            return work()

        return self._thread.call(done())


class SyncGroup(SyncParticipant[GroupEvent], Threaded):
    """A group for one script; every call may come from any thread."""

    def __init__(self, group: Group) -> None:
        thread = LoopThread(
            group.name,
            f"{group.name!r} is not joined yet; write `with unisono.sync.join({group.name!r}) as group:`",
            f"{group.name!r} was closed; join it again",
        )
        super().__init__(group, thread)
        self._group = group

    @property
    def audience(self) -> AudienceEstimate | None:
        """About how many are in the group, as far as that was asked for."""
        return self._group.audience

    def count_audience(self, wanted: bool = True) -> None:
        """Keep `audience` up to date from now on, or no longer."""
        self._do(lambda: self._group.count_audience(wanted))

    def estimate_audience(self, error: float = LEAST_ERROR) -> AudienceEstimate:
        """About how many are in the group, with a standard error of at most this share of it."""
        return self._call(self._group.estimate_audience(error))

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
        self._do(lambda: self._group.become(role))

    def recover(self, source: ProcessId, first: int | None = None, last: int | None = None, *, name: str = "") -> None:
        """Ask for messages that a framed receiver lacks, by sequences or by name."""
        self._do(lambda: self._group.recover(source, first, last, name=name))

    @property
    def has_state(self) -> bool:
        """Whether this process has the group's state, or was the first."""
        return self._group.has_state

    def claim_state(self) -> None:
        """Say that this process's own state counts."""
        self._do(self._group.claim_state)

    def renew_state(self) -> None:
        """Give up this process's state, and be given that of the others."""
        self._do(self._group.renew_state)

    async def _open(self) -> None:
        await self._group.open()

    async def _close(self) -> None:
        await self._group.close()


def join(group: str, **options: Any) -> SyncGroup:
    """A group to use with `with`; the options are those of `unisono.join`."""
    return SyncGroup(join_group(group, **options))


class SyncSessionGroup(SyncParticipant[SessionEvent], Opening):
    """A group of a session for one script; every call may come from any thread."""

    def __init__(self, group: SessionGroup, thread: LoopThread) -> None:
        super().__init__(group, thread)
        self._group = group

    @property
    def joined(self) -> bool:
        """Whether this process is in the group."""
        return self._group.joined

    @property
    def transitional(self) -> tuple[ProcessId, ...]:
        """Those who came into the newest view together with this process."""
        return self._group.transitional

    @property
    def blocked(self) -> bool:
        """Whether the view is about to change, as far as the application was told."""
        return self._group.blocked

    def send(self, data: bytes) -> None:
        """Send one message; waits while the view changes or the window is full."""
        self._call(self._group.send(data))

    def send_many(self, messages: Iterable[bytes]) -> None:
        """Send messages in this order."""
        self._call(self._group.send_many(messages))

    def try_send(self, data: bytes) -> bool:
        """Send one message if it can be taken at this moment; False says to try again later."""
        return self._do(lambda: self._group.try_send(data))

    def poll(self) -> int:
        """How many events are there to be received."""
        return self._do(self._group.poll)

    def receive_into(self, buffer: bytearray | memoryview) -> Copied | None:
        """The next event if there is one, the bytes of a message copied into the buffer."""
        return self._do(lambda: self._group.receive_into(buffer))

    def block_ok(self) -> None:
        """Say that this process has sent what belongs into the current view."""
        self._do(self._group.block_ok)

    def open(self) -> Self:
        self._call(self._group.open())
        return self

    def close(self) -> None:
        """Leave. A second call changes nothing."""
        if self._thread.running:
            self._call(self._group.close())

    def __enter__(self) -> Self:
        return self if self._group.joined else self.open()


class Session(Threaded):
    """A session for one script, in a thread of its own; the options are those of `unisono.Session`."""

    def __init__(self, name: str | None = None, **options: Any) -> None:
        self._session = AsyncSession(name, **options)
        self._thread = LoopThread(
            self.name,
            f"session {self.name!r} is not open yet; write `with unisono.sync.Session(...) as session:`",
            f"session {self.name!r} has ended, and its groups with it; make a new one",
        )
        self._groups: dict[str, SyncSessionGroup] = {}
        self._teller: ThreadPoolExecutor | None = None

    @property
    def name(self) -> str:
        return self._session.name

    @property
    def id(self) -> ProcessId:
        """This process, as others see it."""
        return self._session.id

    @property
    def settings(self) -> Settings:
        """Those of the session, and of each group that says nothing else."""
        return self._session.settings

    @property
    def timeout_seconds(self) -> float:
        """How long opening waits for a server, and joining for the first view."""
        return self._session.timeout_seconds

    @property
    def server(self) -> str | None:
        """The server or controller that this session is with; None while it looks for one."""
        return self._session.server

    @property
    def groups(self) -> tuple[SyncSessionGroup, ...]:
        """The groups that are joined."""
        return tuple(group for group in list(self._groups.values()) if group.joined)

    def watch_server(self, tell: Callable[[ServerChanged], None]) -> None:
        """Be told, in a thread of its own, whenever the session comes to a server, or loses it and looks for one."""
        teller = self._teller = self._teller or ThreadPoolExecutor(1, thread_name_prefix=f"unisono-{self.name}-server")

        def say(change: ServerChanged) -> None:
            try:
                tell(change)
            except Exception:
                _LOG.exception("the watcher of the server of %s failed", self.name)

        def pass_on(change: ServerChanged) -> None:
            teller.submit(say, change)

        self._session.watch_server(pass_on)

    def join(
        self,
        group: str,
        *,
        on_block: Callable[[Block], None] | None = None,
        timeout_seconds: float | None = None,
        **settings: Any,
    ) -> SyncSessionGroup:
        """A group to use with `with`, or with `open()` and `close()`; `on_block` is called in a thread of its own."""

        async def ask(block: Block) -> None:
            assert on_block is not None, "only who wants to be asked is"
            await asyncio.to_thread(on_block, block)

        found = self._session.join(
            group, on_block=None if on_block is None else ask, timeout_seconds=timeout_seconds, **settings
        )
        joined = SyncSessionGroup(found, self._thread)
        if group not in self._groups or not self._groups[group].joined:
            self._groups[group] = joined
        return joined

    def close(self) -> None:
        """Leave every group and the server, and end the thread. A second call changes nothing."""
        try:
            super().close()
        finally:
            if self._teller is not None:
                self._teller.shutdown(wait=False)

    async def _open(self) -> None:
        await self._session.open()

    async def _close(self) -> None:
        await self._session.close()
