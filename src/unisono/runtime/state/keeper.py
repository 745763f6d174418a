"""An application's state in one group: when it is written for others, and when another's is taken."""

from __future__ import annotations

import asyncio
import inspect
import io
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import BinaryIO, Protocol, cast

from msgspec.structs import replace

from unisono.engine import (
    ClaimState,
    Fact,
    FoundState,
    LoadState,
    RenewState,
    SaveState,
    StateLoaded,
    StateNotLoaded,
    StateNotSaved,
    StateSaved,
)
from unisono.errors import GroupError
from unisono.events import Event, StateProgress, StateReceived, View
from unisono.identity import StartPoint
from unisono.runtime.blobs import Blobs
from unisono.runtime.state.inbox import StateInbox, WorkItem
from unisono.runtime.state.pieces import PieceReader
from unisono.runtime.state.spool import Spool
from unisono.transfer import Kept, Reach
from unisono.transfer.kept import comes_in
from unisono.units import MIB

_LOG = logging.getLogger(__name__)

StateEffect = SaveState | LoadState | FoundState


class State(Protocol):
    """What an application gives to `join` so that its state goes to newcomers, and comes to it when it is one.

    Both may be coroutines. Those that are not run in a thread, while the application waits for its next event:
    whatever else runs in the process must leave the state alone meanwhile.
    """

    def save(self, file: BinaryIO, /) -> Awaitable[None] | None:
        """Write the state as it is now."""
        ...

    def load(self, file: BinaryIO, /) -> Awaitable[None] | None:
        """Take a state in place of the present one; called again where it fails."""
        ...


class StateKeeper:
    """Stands between a group's engine and an application with a state."""

    def __init__(
        self,
        group: str,
        state: State,
        blobs: Blobs,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[int], None],
        give: Callable[[Fact], None],
    ) -> None:
        self._group = group
        self._state = state
        self._blobs = blobs
        self._give = give
        self._kept = Kept()
        self._view: View | None = None
        self._load: LoadState | None = None
        self._taking = False
        """The application has a state to take: everything since its point follows, a gap too."""
        self.has_state = False
        self.inbox = StateInbox(loop, report, Spool(blobs.path(f"spool-{group}")))
        self.inbox.hold()

    def on_events(self, events: Sequence[Event]) -> None:
        """Events for the application. How far a state has come is told at once, everything else in its order."""
        rest: list[Event] = []
        for event in events:
            if isinstance(event, StateProgress):
                self.inbox.put_now(event)
                continue
            if isinstance(event, View):
                self._view = event
                if comes_in(event) and not self.has_state and not self._taking:
                    rest.clear()
                    self.inbox.forget()
            self._kept.add(event)
            rest.append(event)
        if rest:
            before = self.inbox.trouble
            self.inbox.put(rest)
            if self.inbox.trouble and self.inbox.trouble != before:
                _LOG.warning("%s: %s", self._group, self.inbox.trouble)
                self.inbox.put_now(StateProgress(0, 0, None, self.inbox.trouble))
        if self._load is not None:
            self._load_when_reached(self._load)

    def carry_out(self, effect: StateEffect) -> None:
        if isinstance(effect, SaveState):
            self.inbox.put_now(WorkItem(lambda: self._save(effect)))
        elif isinstance(effect, LoadState):
            self._load_when_reached(effect)
        else:
            self._load = None
            self._has_it(StateReceived(None, 0, effect.point))
            self.inbox.release()

    def claim(self) -> None:
        self._give(ClaimState(self._group))

    def renew(self) -> None:
        """Give the state up: what was not taken yet is of no use, and what comes from now on is kept."""
        if self.inbox.busy or not self.has_state:
            raise GroupError("the state is being written, or is not there yet: wait for that, then give it up")
        point = self._kept.point
        self.has_state = False
        self.inbox.restart()
        if self._view is not None and point is not None:
            start = tuple(StartPoint(source, 0, number) for source, number in point.numbers)
            self.inbox.put([replace(self._view, start=start)])
        self._give(RenewState(self._group))

    def _has_it(self, event: StateReceived) -> None:
        self.has_state = True
        self.inbox.put_now(event)

    def _load_when_reached(self, load: LoadState) -> None:
        reach = self._kept.reach(load.point)
        self._load = load if reach is Reach.NOT_YET else None
        if reach is Reach.REACHED:
            self._taking = True
            self.inbox.put_now(WorkItem(lambda: self._take(load)))
        elif reach is Reach.NEVER:
            reason = "its point was never reached here"
            self._give(StateNotLoaded(self._group, load.request, reason, missed=True))

    async def _save(self, effect: SaveState) -> None:
        """Let the application write its state; what comes meanwhile waits on disk."""
        self.inbox.hold()
        done: StateSaved | StateNotSaved
        try:
            with self._blobs.path(effect.blob).open("wb", buffering=MIB) as file:
                await _call(self._state.save, file)
                file.flush()
                size = file.seek(0, io.SEEK_END)
        except Exception as error:
            _LOG.exception("the state of %s could not be written for another", self._group)
            done = StateNotSaved(self._group, effect.request, str(error))
        else:
            done = StateSaved(self._group, effect.request, size)
        finally:
            self.inbox.release()
        self._give(done)  # the next request to save, if this brings one, stands behind what came meanwhile

    async def _take(self, load: LoadState) -> None:
        """Let the application take a state; what came since its point follows."""
        damaged: list[int] = []
        try:
            reader = PieceReader(self._blobs.path(load.blob), load.pieces, damaged)
            with io.BufferedReader(reader) as file:
                await _call(self._state.load, cast(BinaryIO, file))
        except Exception as error:
            self._taking = False
            self._give(StateNotLoaded(self._group, load.request, str(error), damaged=tuple(damaged)))
            if damaged:
                _LOG.warning("%s: %s", self._group, error)
                return
            raise
        self._taking = False
        size = sum(piece.size for piece in load.pieces)
        self._has_it(StateReceived(load.provider, size, load.point))
        self.inbox.release(load.point)
        self._give(StateLoaded(self._group, load.request))


async def _call(work: Callable[[BinaryIO], Awaitable[None] | None], file: BinaryIO) -> None:
    """Call what may be a coroutine; what is none has a thread for itself, so that the process stays alive."""
    if inspect.iscoroutinefunction(work):
        await work(file)
        return
    result = await asyncio.to_thread(work, file)
    if inspect.isawaitable(result):
        await result
