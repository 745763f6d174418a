"""The application's face: join a group, send to it, receive what happens in it.

    async with unisono.join("orders") as group:
        await group.send(b"one more")
        async for event in group:
            ...

Groups that a process joins with the same name, realm and transport share its sockets.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, get_args

from unisono.control_settings import ControlSettings
from unisono.engine import ChangeRole, ChangeService, CountAudience, Recover
from unisono.errors import GroupError, SettingError
from unisono.events import (
    AudienceEstimate,
    DroppedOut,
    Event,
    Excluded,
    Gap,
    LeftBehind,
    Message,
    SourceUnavailable,
    StateProgress,
    StateReceived,
    Unrecovered,
    View,
)
from unisono.identity import ProcessId, why_bad_name
from unisono.runtime.inbox import Inbox
from unisono.runtime.participant import Participant, checked_message
from unisono.runtime.process import Process, realm_name
from unisono.runtime.state.keeper import State, StateEffect, StateKeeper
from unisono.runtime.trace_options import Level
from unisono.runtime.transports import TransportName
from unisono.session_settings import ONLY_OF_SESSIONS
from unisono.settings import Role, Service, Settings, read_settings

PROTOCOLS = ("intergroup",)
"""The protocol families that are offered; more will come."""

LEAST_ERROR = 0.06
"""The smallest share that the standard error of an estimate is sure to come down to, in a group of any size."""

SEQUENCE_LIMIT = (1 << 63) - 1
"""No sequence is above this."""

GroupEvent = (
    Message
    | View
    | Excluded
    | DroppedOut
    | LeftBehind
    | SourceUnavailable
    | Gap
    | Unrecovered
    | StateProgress
    | StateReceived
)
"""What iteration over a group gives."""


class Group(Participant[GroupEvent]):
    """One group as one process takes part in it. Made by `join`; used inside `async with`, in one event loop."""

    def __init__(
        self, name: str, process: Process | Lease, settings: Settings, protocol: str, state: State | None = None
    ) -> None:
        super().__init__(name, settings, protocol, stateful=state is not None)
        self._lease = process
        self._state = state
        self._keeper: StateKeeper | None = None
        self._audience: AudienceEstimate | None = None
        self._counts = False
        self._loaded: dict[ProcessId, int] = {}
        """What is in the state that was given, of messages that were sent for others."""
        self._estimates = 0
        self._counted = asyncio.Event()

    @property
    def audience(self) -> AudienceEstimate | None:
        """About how many are in the group, as far as `count_audience` or `estimate_audience` found out; else None."""
        return self._audience

    def count_audience(self, wanted: bool = True) -> None:
        """Keep `audience` up to date from now on; with False, no longer. It costs the group some packets a second."""
        self._open_outbox()
        self._counts = wanted
        self._ask_for_count()

    async def estimate_audience(self, error: float = LEAST_ERROR) -> AudienceEstimate:
        """About how many are in the group, with a standard error of at most this share of it; takes some seconds."""
        outbox = self._open_outbox()
        if not LEAST_ERROR <= error <= 1:
            raise SettingError("error", f"expected a share from {LEAST_ERROR} to 1, got {error}")
        self._estimates += 1
        self._audience = None
        self._ask_for_count()
        try:
            while (known := self.audience) is None or known.error > error * known.count:
                if outbox.error is not None:
                    raise outbox.error
                self._counted.clear()
                await self._counted.wait()
            return known
        finally:
            self._estimates -= 1
            if outbox.error is None:
                self._ask_for_count()

    def _ask_for_count(self) -> None:
        self.process.give(CountAudience(self.name, self._counts or self._estimates > 0))

    async def send(self, data: bytes, *, name: str = "", proxy: bool = False) -> None:
        """Send one message to every member, this one included (D6, L2); waits while the window is full.

        `name` goes along with it: a framed receiver may ask for it by that. With `proxy` a process that only receives
        lets a sender send it, and goes on to receive only; it waits while there is no sender. A send that is cancelled
        was made as a whole or not at all.
        """
        outbox = self._open_outbox()
        await outbox.send((checked_message(data),), (_checked_name(name),) if name else (), proxy)

    async def send_many(self, messages: Iterable[bytes], names: Iterable[str] = (), *, proxy: bool = False) -> None:
        """Send messages in this order (O1), many to a datagram; a cancelled call has sent a beginning of them.

        `names` are as many as the messages ("" for one that has none), or there are none at all; `proxy` as in `send`.
        """
        outbox = self._open_outbox()
        data = [checked_message(one) for one in messages]
        if isinstance(names, str):
            raise SettingError("names", f"expected a list of names, got {names!r}")
        called = [_checked_name(name) if name else "" for name in names]
        if called and len(called) != len(data):
            raise SettingError("names", f"there are {len(called)} names for {len(data)} messages; name each, or none")
        await outbox.send(data, called if any(called) else (), proxy)

    async def change(self, service: Service, sources: Literal["all"] | Iterable[str] = "all") -> None:
        """Receive by another service, and stay in the group.

        What the old service delivered and was not taken yet is taken first. Between `source` and `timestamp`, either
        way, no message is lost or repeated (D2, O2), and a View with the reason `service changed` stands where the new
        service begins. Into `timestamp` the old service goes on until the order can begin, soon after this returns.
        """
        outbox = self._open_outbox()
        if self._state is not None and service != "timestamp":
            raise GroupError('a state goes with service="timestamp"; leave, and join without `state`')
        chosen = sources if isinstance(sources, str) else list(sources)
        alone = {} if service == "timestamp" else {"across": ""}  # only timestamps order messages across groups
        settings = read_settings({"service": service, "sources": chosen, **alone}, self.settings)
        if outbox.error is not None:
            raise outbox.error
        self.settings = settings
        self._view = None
        self.process.give(ChangeService(self.name, settings.service, settings.sources))
        if outbox.error is not None:  # the process failed over it
            raise outbox.error

    def become(self, role: Role) -> None:
        """Be a `sender` of the group from now on, or a `receiver` that nobody waits for; soon after this returns.

        What was sent before still reaches everybody (L2, L5), and nothing is missed meanwhile (O2): the change takes
        place between two messages, where a View says so (D5). A receiver that sends becomes a sender by itself; the
        last sender of a view stays one. Who joined with role="receiver" stays that.
        """
        outbox = self._open_outbox()
        if role not in get_args(Role):
            raise SettingError("role", f"expected one of {', '.join(get_args(Role))}, got {role!r}")
        if self.settings.role == "receiver" and role == "sender":
            raise GroupError('this process joined with role="receiver" to send nothing; join with role="auto" instead')
        self.process.give(ChangeRole(self.name, role))
        if outbox.error is not None:  # the process failed over it
            raise outbox.error

    def recover(self, source: ProcessId, first: int | None = None, last: int | None = None, *, name: str = "") -> None:
        """Ask for messages of a source that a framed receiver lacks: by sequences, as a Gap tells them, or by name.

        The answer is a Message for each, or Unrecovered after many tries. Without `last` it is one sequence.
        """
        outbox = self._open_outbox()
        if self.settings.service != "framed":
            raise GroupError(
                f"only a framed receiver recovers messages itself, and this one receives by {self.settings.service!r};"
                ' join with service="framed", or call change("framed")'
            )
        if (first is None) == (not name):
            raise SettingError("recover", "say which sequences, first to last, or which name; not both")
        if first is None:
            wanted = Recover(self.name, source, name=_checked_name(name))
        else:
            last = first if last is None else last
            if not 1 <= first <= last <= SEQUENCE_LIMIT:
                raise SettingError(
                    "recover", f"sequences begin with 1 and first is not above last, got {first} to {last}"
                )
            wanted = Recover(self.name, source, first, last)
        if outbox.error is not None:
            raise outbox.error
        self.process.give(wanted)

    @property
    def has_state(self) -> bool:
        """Whether this process has the group's state, or was the first: what `state` is there for."""
        return self._keeper is not None and self._keeper.has_state

    def claim_state(self) -> None:
        """Say that this process's own state counts, where those who have another do not come back."""
        self._open_keeper().claim()

    def renew_state(self) -> None:
        """Give up this process's state, such as after `Excluded`, and be given that of the others.

        Events that were not taken yet are thrown away: the state that comes is of a later point.
        """
        self._open_keeper().renew()

    def _is_hidden(self, event: Event) -> bool:
        """Whether the application has had it already, from another sender or with the state that it was given."""
        if isinstance(event, StateReceived) and event.point is not None:
            self._loaded.update(event.point.handed)
        return isinstance(event, Message) and event.by is not None and event.is_known(self._loaded)

    # What the process reports.

    def on_state(self, effect: StateEffect) -> None:
        if self._keeper is not None:
            self._keeper.carry_out(effect)

    def _acquire(self) -> Process:
        return self._lease.acquire() if isinstance(self._lease, Lease) else self._lease

    async def _release(self) -> None:
        """Close the process where no other group uses it."""
        if isinstance(self._lease, Lease):
            await self._lease.release()

    def _join_example(self) -> str:
        return f"unisono.join({self.name!r})"

    def _is_shown(self, event: Event) -> bool:
        if isinstance(event, AudienceEstimate):
            self._audience = event
            self._counted.set()
            return False
        return super()._is_shown(event)

    def _put(self, events: Sequence[Event]) -> None:
        if self._keeper is not None:
            self._keeper.on_events(events)
        else:
            super()._put(events)

    def _on_ending(self) -> None:
        self._counted.set()

    def _make_inbox(self, process: Process, loop: asyncio.AbstractEventLoop, report: Callable[[int], None]) -> Inbox:
        if self._state is None:
            return super()._make_inbox(process, loop, report)
        self._keeper = StateKeeper(self.name, self._state, process.blobs, loop, report, process.give)
        return self._keeper.inbox

    def _open_keeper(self) -> StateKeeper:
        if self._process is None:
            raise self._not_joined()
        if self._keeper is None:
            raise GroupError(f"{self.name!r} was joined without `state`; give it to join")
        return self._keeper


class SharedProcess:
    """A process that several groups use, and how many do."""

    __slots__ = ("process", "users")

    def __init__(self, process: Process) -> None:
        self.process = process
        self.users = 0


_shared: dict[tuple[object, ...], SharedProcess] = {}
"""By event loop and options."""


class Lease:
    """One group's hold on a process: the first to come starts it, the last to go closes it."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._key: tuple[object, ...] | None = None

    def acquire(self) -> Process:
        key = (asyncio.get_running_loop(), *self._options.values())
        shared = _shared.get(key)
        if shared is None:
            shared = _shared[key] = SharedProcess(Process(**self._options))
        shared.users += 1
        self._key = key
        return shared.process

    async def release(self) -> None:
        key, self._key = self._key, None
        if key is None:
            return
        shared = _shared[key]
        shared.users -= 1
        if not shared.users:
            del _shared[key]
            await shared.process.close()


def join(
    group: str,
    *,
    name: str | None = None,
    transport: TransportName = "multicast",
    realm: str | None = None,
    seeds: Sequence[str] = (),
    interface: str | None = None,
    port: int = 0,
    trace: str | os.PathLike[str] | None = None,
    statistics: Level | None = None,
    collector: str | None = None,
    run: str | None = None,
    storage: str | os.PathLike[str] | None = None,
    protocol: str = "intergroup",
    process: Process | None = None,
    state: State | None = None,
    **settings: object,
) -> Group:
    """A group to use with `async with`.

    `name` is this process's own and stays the same over restarts; by default it gets a new one. `realm` keeps strangers
    apart (by default the environment variable UNISONO_REALM). `transport` is "multicast" or "mesh"; `seeds` are
    endpoints of a mesh. `trace` is a directory for the trace, `collector` the host:port of a collector for it;
    `statistics` says how much goes there ("off", "events" or "all"), and `run` what it is called. `process` uses a
    process made before, instead of the options above. `state` has `save(file)` and `load(file)`: a newcomer is given
    the state of a member, and then the messages that follow it (D10); for that service is "timestamp". The rest are
    settings of the group, such as service="unordered" or patience="2s".
    """
    if (complaint := why_bad_name(group)) is not None:
        raise SettingError("group", complaint)
    if protocol not in PROTOCOLS:
        others = "for virtual synchrony open a unisono.Session"
        raise SettingError("protocol", f"expected one of {', '.join(PROTOCOLS)}, got {protocol!r}; {others}")
    if "trace" in settings:
        raise SettingError("trace", "give the directory of the trace")
    if "trace_messages" in settings:
        raise SettingError("trace_messages", 'say statistics="events" or statistics="all"')
    foreign = next((name for name in settings if name in ONLY_OF_SESSIONS), None)
    if foreign is not None:
        raise SettingError(foreign, "this is for sessions, see unisono.Session; a group of peers has no such setting")
    chosen = read_settings(settings)
    _check_state(state, chosen)
    if process is not None:
        return Group(group, process, chosen, protocol, state)
    options: dict[str, Any] = {
        "name": name,
        "realm": realm_name(realm),
        "transport": transport,
        "seeds": tuple(seeds) if not isinstance(seeds, str) else seeds,
        "interface": interface,
        "port": port,
        "trace": None if trace is None else os.fspath(trace),
        "statistics": statistics,
        "collector": collector,
        "run": run,
        "storage": None if storage is None else os.fspath(storage),
        "clock_drift_limit": chosen.clock_drift_limit,
        "control": Settings(**{name: getattr(chosen, name) for name in ControlSettings.__struct_fields__}),
        "site_timeout": chosen.site_timeout,
    }
    return Group(group, Lease(options), chosen, protocol, state)


def _check_state(state: object, settings: Settings) -> None:
    if state is None:
        return
    if settings.service != "timestamp":
        raise SettingError("state", f'a state is passed on in service="timestamp" only, not {settings.service!r}')
    if not callable(getattr(state, "save", None)) or not callable(getattr(state, "load", None)):
        raise SettingError("state", f"expected an object with save(file) and load(file), got {type(state).__name__}")


def _checked_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a name is text, got {type(name).__name__}")
    if (complaint := why_bad_name(name)) is not None:
        raise SettingError("name", complaint)
    return name
