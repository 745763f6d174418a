"""The driver: owns one engine, hands it facts one after the other and carries out its effects in order.

A turn is all the facts that one call of the loop brought. At its end the trace rows of the turn go to the system, then
what the turn sends leaves the process, then the one timer is set for the engine's deadline.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterable
from time import monotonic_ns, time_ns
from typing import Protocol

from unisono.engine import (
    Address,
    AppendLog,
    CloseChannel,
    Contribute,
    DatagramReceived,
    Deliver,
    DropBlob,
    Effect,
    Engine,
    Fact,
    FoundState,
    JoinAddress,
    LeaveAddress,
    LoadState,
    Note,
    OpenChannel,
    ReadBlob,
    ReadLog,
    Record,
    SaveState,
    SendDatagram,
    SendFrame,
    Start,
    StepForward,
    SyncLog,
    TimePassed,
    WriteBlob,
)
from unisono.errors import NetworkError, UnisonoError
from unisono.runtime.blobs import Blobs
from unisono.runtime.channels import Channels
from unisono.runtime.storage import Storage
from unisono.runtime.tracing import Tracer
from unisono.runtime.transports import Transport
from unisono.step_watch import FACTS_LIMIT, StepOverrun, StepWatch

_LOG = logging.getLogger(__name__)

_SHORTEST_DELAY_SECONDS = 0.001
"""Loops round delays to milliseconds: a shorter one would come too early, again and again."""


class Application(Protocol):
    """Who uses the engine."""

    def deliver(self, effect: Deliver) -> None:
        """Events for the application."""
        ...

    def state(self, effect: SaveState | LoadState | FoundState) -> None:
        """Something to do about the application's state in a group."""
        ...

    def joined(self, address: Address, error: NetworkError | None) -> None:
        """A multicast address is listened on, or cannot be."""
        ...

    def failed(self, error: BaseException) -> None:
        """The driver stopped for good."""
        ...


class Driver:
    """One engine on real sockets. Everything here runs in the loop's thread."""

    def __init__(
        self,
        engine: Engine,
        transport: Transport,
        channels: Channels,
        storage: Storage,
        application: Application,
        tracer: Tracer | None = None,
        blobs: Blobs | None = None,
        name: str = "",
    ) -> None:
        self.engine = engine
        self._blobs = blobs or Blobs(None)
        self.counters: Counter[str] = Counter()
        self._transport = transport
        self._channels = channels
        self._storage = storage
        self._application = application
        self._tracer = tracer
        self._facts: deque[Fact] = deque()
        self._leaving: list[SendDatagram | SendFrame | OpenChannel | CloseChannel] = []
        self._turning = False
        self._stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0
        self._name = name
        self._steps = StepWatch()

    async def start(self) -> None:
        """Open for business; the engine's first fact."""
        self._loop = asyncio.get_running_loop()
        self._steps.start()
        self._storage.start(self._loop, self.give)
        self._blobs.start(self._loop, self.give)
        self._channels.start(self._loop, self.give, self.count)
        if self._tracer is not None:
            self._tracer.start(self._loop, self.count)
        await self._transport.start(self._loop, self.give_all, self.count)
        self.give(Start())

    async def stop(self, ended: bool = True) -> None:
        """Carry out nothing more and close everything; a clean end is written into the trace."""
        if self._stopped and ended:
            ended = False
        self._stopped = True
        self._steps.stop()
        self._facts.clear()
        if self._timer is not None:
            self._timer.cancel()
        try:
            if self._tracer is not None:
                self._tracer.close(monotonic_ns(), ended)
                await self._tracer.drain()
        finally:
            await self._channels.stop()
            self._transport.close()
            self._storage.close()
            self._blobs.close()

    def give(self, fact: Fact) -> None:
        """Hand a fact to the engine, after those it has not handled yet."""
        self._facts.append(fact)
        if not self._turning:
            self._turn()

    def give_all(self, facts: Iterable[Fact]) -> None:
        self._facts.extend(facts)
        if not self._turning:
            self._turn()

    def count(self, reason: str) -> None:
        if reason not in self.counters:
            _LOG.info("for the first time: %s", reason)
        self.counters[reason] += 1

    def _turn(self) -> None:
        if self._stopped:
            self._facts.clear()
            return
        self._turning = True
        facts = self._facts
        steps = 0
        try:
            while facts:
                while facts:
                    now = monotonic_ns()
                    fact = facts.popleft()
                    for effect in self._step(fact, now):
                        self._carry_out(effect, now)
                    steps += 1
                    if steps > FACTS_LIMIT:
                        raise StepOverrun(self._name, fact, f"{FACTS_LIMIT} steps followed from one another")
                self._finish_turn()
        except Exception as error:
            self._fail(error)
        finally:
            self._turning = False

    def _step(self, fact: Fact, now: int) -> list[Effect]:
        self._steps.begin(self._name, fact)
        try:
            return self.engine.handle(fact, now, time_ns())
        finally:
            self._steps.end()

    def _finish_turn(self) -> None:
        if self._tracer is not None:
            self._tracer.flush()
        leaving, self._leaving = self._leaving, []
        run: list[bytes] = []
        to, scope = Address(""), 0
        for effect in leaving:
            if isinstance(effect, SendDatagram) and effect.to == to and effect.scope == scope:
                run.append(effect.data)
                continue
            if run:
                self._transport.send(to, run, scope)
                run = []
            if isinstance(effect, SendDatagram):
                run, to, scope = [effect.data], effect.to, effect.scope
            else:
                self._channels.carry_out(effect)
                to = Address("")
        if run:
            self._transport.send(to, run, scope)
        self._arrange_wake()

    def _carry_out(self, effect: Effect, now: int) -> None:
        if isinstance(effect, SendDatagram):
            if effect.to == self._transport.address:  # to itself: no way round over the network
                self._facts.append(DatagramReceived(effect.to, effect.to, 0, now, 0, effect.data))
            else:
                self._leaving.append(effect)
        elif isinstance(effect, Deliver):
            if self._tracer is not None:
                self._tracer.observe(effect, now)
            self._application.deliver(effect)
        elif isinstance(effect, Record):
            if self._tracer is not None:
                self._tracer.observe(effect, now)
        elif isinstance(effect, Note):
            self.count(str(effect.reason))
        elif isinstance(effect, JoinAddress):
            self._join(effect.address)
        elif isinstance(effect, LeaveAddress):
            self._transport.leave(effect.address)
        elif isinstance(effect, AppendLog | SyncLog | ReadLog):
            self._storage.request(effect)
        elif isinstance(effect, WriteBlob | ReadBlob | DropBlob):
            self._blobs.request(effect)
        elif isinstance(effect, SaveState | LoadState | FoundState):
            self._application.state(effect)
        elif isinstance(effect, SendFrame | OpenChannel | CloseChannel):
            self._leaving.append(effect)
        else:
            assert not isinstance(effect, Contribute | StepForward), "a node keeps these to itself"
            self._channels.carry_out(effect)

    def _join(self, address: Address) -> None:
        try:
            self._transport.join(address)
        except NetworkError as error:
            self._application.joined(address, error)
        else:
            self._application.joined(address, None)

    def _arrange_wake(self) -> None:
        """Be woken at the engine's deadline; an earlier wake-up that is already arranged serves as well."""
        due = self.engine.deadline()
        if due is None or self._loop is None or (self._timer is not None and self._timer_due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        delay = max((due - monotonic_ns()) / 1e9, _SHORTEST_DELAY_SECONDS)
        self._timer = self._loop.call_later(delay, self._wake)

    def _wake(self) -> None:
        self._timer = None
        due = self.engine.deadline()
        if due is not None and due <= monotonic_ns():
            self.give(TimePassed())
        else:
            self._arrange_wake()

    def _fail(self, error: Exception) -> None:
        """The engine broke a promise of its own, or the trace cannot be written: stop rather than go on wrongly."""
        _LOG.error("this process stops: %s", error, exc_info=None if isinstance(error, UnisonoError) else error)
        self._stopped = True
        self._steps.stop()
        self._facts.clear()
        self._leaving.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._application.failed(error)
