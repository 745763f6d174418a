"""A simulated machine: one member's clocks, disk and socket, and the process that lives on it from time to time.

It carries out what its node asks for and hands it one fact after another, late when the machine is paused or slow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum, auto
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
    EventsTaken,
    Fact,
    FoundState,
    JoinAddress,
    LeaveAddress,
    Listen,
    LoadState,
    Note,
    OpenChannel,
    ReadBlob,
    ReadLog,
    Record,
    Recover,
    SaveState,
    Send,
    SendDatagram,
    SendFrame,
    Start,
    StepForward,
    StopListening,
    StorageDone,
    StorageFailed,
    SyncLog,
    TimePassed,
    WriteBlob,
)
from unisono.events import Block, Gap, Left, Message, Returned, SendAccepted, SendRefused
from unisono.simulation.clocks import EPOCH, LocalClock
from unisono.simulation.disk import Disk, DiskError
from unisono.simulation.state import StateKeeper
from unisono.step_watch import FACTS_LIMIT, StepOverrun, StepWatch
from unisono.trace.recorder import Recorder
from unisono.trace.schema import AnyRow, MembershipRow
from unisono.units import MICROSECOND, MILLISECOND, SECOND

SOCKET_LIMIT = 512
"""Datagrams that a socket holds while its process does not read."""
STORAGE_DELAY = MILLISECOND
FACT_COST = 50 * MICROSECOND
"""What a fact costs a machine that is slow, times its slowness."""

ChannelEffect = Listen | StopListening | OpenChannel | CloseChannel | SendFrame


class Surroundings(Protocol):
    """What a machine needs of the world around it."""

    now: int
    step_watch: StepWatch

    def transmit(self, machine: Machine, effect: SendDatagram) -> None: ...
    def schedule(self, at: int, call: Callable[[int], None]) -> None: ...
    def give_later(self, machine: Machine, at: int, fact: Fact) -> None: ...
    def channel_effect(self, machine: Machine, effect: ChannelEffect) -> None: ...
    def listen(self, machine: Machine, address: Address, listens: bool) -> None: ...
    def write(self, row: AnyRow) -> None: ...
    def count(self, name: str) -> None: ...
    def send_answered(self, machine: Machine, group: str, accepted: bool) -> None: ...
    def join(self, machine: Machine, group: str | None) -> None: ...
    def answer_block(self, machine: Machine, group: str) -> None: ...


class Stay(Enum):
    """How a process stands to a group that it has not left yet."""

    MEMBER = auto()
    LEAVING = auto()
    RETURNING = auto()
    """It joins again as soon as it has left."""


class Machine:
    """One member, server or controller. `life` counts its processes; between two lives there is no engine.

    `sent_bytes` and `received_bytes` are of all datagrams and frames since the beginning; a multicast is sent once.
    """

    __slots__ = (
        "_afterwards",
        "_at_once",
        "_blocks",
        "_busy_until",
        "_handling",
        "_inbox",
        "_moment",
        "_pending_drops",
        "_socket",
        "_socket_limit",
        "_untaken",
        "_wake_at",
        "_world",
        "addresses",
        "answering",
        "disk",
        "engine",
        "groups",
        "index",
        "life",
        "monotonic",
        "name",
        "paused",
        "reading",
        "received_bytes",
        "recorder",
        "sent_bytes",
        "slowness",
        "states",
        "wall",
    )

    def __init__(
        self, index: int, name: str, disk: Disk, socket_limit: int | None, wall_offset: int, world: Surroundings
    ) -> None:
        self.index = index
        self.name = name
        self.disk = disk
        self.monotonic = LocalClock(index * 1000 * SECOND)
        self.wall = LocalClock(EPOCH + wall_offset)
        self.engine: Engine | None = None
        self.recorder: Recorder | None = None
        self.life = 0
        self.paused = 0
        self.reading = True
        self.answering = True
        self.slowness = 0.0
        self.sent_bytes = 0
        self.received_bytes = 0
        self.addresses: dict[Address, None] = {}
        self.groups: dict[str, Stay] = {}
        self.states: dict[str, StateKeeper] = {}
        self._world = world
        self._socket_limit = socket_limit or SOCKET_LIMIT
        self._inbox: deque[Fact] = deque()
        self._afterwards: deque[Fact] = deque()
        self._handling = False
        self._socket = 0
        self._pending_drops = 0
        self._busy_until = 0
        self._moment = 0
        self._at_once = 0
        """So many steps were taken in this moment."""
        self._wake_at: int | None = None
        self._untaken: dict[str, int] = {}
        self._blocks: dict[str, None] = {}
        """Groups whose block the application has not answered."""

    @property
    def alive(self) -> bool:
        return self.engine is not None

    def lives(self, life: int) -> bool:
        """Whether the process of that life still runs."""
        return self.engine is not None and self.life == life

    def start(self, engine: Engine, run: str) -> None:
        """A new process begins its life."""
        assert self.engine is None, "one process at a time"
        self.engine = engine
        self.life += 1
        self.disk.drop_blobs()
        self.recorder = Recorder(run, self.name, self.name)
        self.give(Start())

    def stop(self) -> None:
        """The process is gone, with everything it had in memory and in its socket."""
        self.engine = None
        for address in self.addresses:
            self._world.listen(self, address, False)
        self.addresses.clear()
        self.groups.clear()
        self.states.clear()
        self._inbox.clear()
        self._afterwards.clear()
        self._untaken.clear()
        self._blocks.clear()
        self._socket = self._pending_drops = 0
        self._busy_until = 0
        self._wake_at = None
        self.reading = self.answering = True
        self.paused = 0

    def datagram(self, source: Address, destination: Address, hops: int, data: bytes) -> None:
        """A datagram reaches the socket; a full one throws it away and counts that."""
        if self.engine is None:
            return
        self.received_bytes += len(data)
        if self._socket >= self._socket_limit:
            self._pending_drops += 1
            self._world.count("dropped at the socket")
            return
        at = self.monotonic.read(self._world.now)
        drops, self._pending_drops = self._pending_drops, 0
        self.give(DatagramReceived(source, destination, hops, at, drops, data))

    def give(self, fact: Fact) -> None:
        """Hand a fact to the process, now or when it gets to it."""
        if self.engine is None:
            return
        if self._handling:
            self._afterwards.append(fact)
        elif self.paused or self._inbox or self._busy_until > self._world.now:
            self._inbox.append(fact)
            self._socket += isinstance(fact, DatagramReceived)
            if not self.paused and len(self._inbox) == 1:
                self._world.schedule(self._busy_until, self.wake)
        else:
            self._process(fact)

    def resume(self) -> None:
        """The process runs again: what came meanwhile, then what is due."""
        self.paused = max(0, self.paused - 1)
        if not self.paused and self.engine is not None:
            self._world.schedule(self._world.now, self.wake)

    def wake(self, at: int) -> None:
        """Go through what waits, then tell the engine the time if its deadline has come."""
        if self.engine is None or self.paused:
            return
        now = self._world.now
        while self._inbox and self._busy_until <= now:
            fact = self._inbox.popleft()
            self._socket -= isinstance(fact, DatagramReceived)
            self._process(fact)
        if self._inbox:
            self._world.schedule(self._busy_until, self.wake)
            return
        self._wake_at = None
        due = self._deadline()
        if due is not None and due <= self.monotonic.read(now):
            self._process(TimePassed())
        else:
            self._arrange_wake()

    def read_again(self) -> None:
        """The application takes events again, all that it left first."""
        self.reading = True
        for keeper in self.states.values():
            keeper.read_again()
        for group, count in list(self._untaken.items()):
            self._untaken[group] = 0
            if count:
                self.give(EventsTaken(group, count))
        self.answer_blocks()

    def answer_blocks(self) -> None:
        """The application answers every block that it knows of, if it does so at all."""
        if self.reading and self.answering:
            for group in self._blocks:
                self._world.answer_block(self, group)
            self._blocks.clear()

    def _process(self, fact: Fact) -> None:
        """Let the engine handle a fact, and what follows from its effects on this machine at once."""
        world = self._world
        now, wall = self.monotonic.read(world.now), self.wall.read(world.now)
        if self.slowness:
            self._busy_until = world.now + int(FACT_COST * self.slowness)
        self._handling = True
        self._afterwards.append(fact)
        life = self.life
        while self._afterwards and self.engine is not None:
            for effect in self._step(self.engine, self._afterwards.popleft(), now, wall):
                self._carry_out(effect, now)
                if not self.lives(life):  # a fault waited for the row that this effect wrote
                    break
        self._handling = False
        self._arrange_wake()

    def _step(self, engine: Engine, fact: Fact, now: int, wall: int) -> list[Effect]:
        """One step of the engine, which has to end, as have the steps that lead to one another in one moment."""
        world = self._world
        if world.now > self._moment:
            self._moment, self._at_once = world.now, 0
        self._at_once += 1
        if self._at_once > FACTS_LIMIT:
            raise StepOverrun(self.name, fact, f"{FACTS_LIMIT} steps at one moment")
        world.step_watch.begin(self.name, fact)
        try:
            return engine.handle(fact, now, wall)
        finally:
            world.step_watch.end()

    def _carry_out(self, effect: Effect, now: int) -> None:
        world = self._world
        if isinstance(effect, SendDatagram):
            world.transmit(self, effect)
        elif isinstance(effect, Record | Deliver):
            assert self.recorder is not None, "a living process has a recorder"
            for row in self.recorder.rows(effect, now, world.now):
                world.write(row)
            if isinstance(effect, Deliver):
                self._hand_over(effect)
        elif isinstance(effect, Note):
            world.count(str(effect.reason))
        elif isinstance(effect, JoinAddress):
            self.addresses[effect.address] = None
            world.listen(self, effect.address, True)
        elif isinstance(effect, LeaveAddress):
            self.addresses.pop(effect.address, None)
            world.listen(self, effect.address, False)
        elif isinstance(effect, AppendLog | SyncLog | ReadLog | WriteBlob | ReadBlob):
            world.give_later(self, world.now + STORAGE_DELAY, self._store(effect))
        elif isinstance(effect, DropBlob):
            self.disk.drop_blob(effect.blob)
        elif isinstance(effect, SaveState | LoadState | FoundState):
            self.states[effect.group].carry_out(effect, self.reading)
        else:
            assert not isinstance(effect, Contribute | StepForward), "a node keeps these to itself"
            world.channel_effect(self, effect)

    def carry_state(self, group: str, size: int) -> None:
        """The application has a state in a group, of about this size."""
        life = self.life

        def give(fact: Fact) -> None:
            self._world.give_later(self, self._world.now + STORAGE_DELAY, fact)

        def write(row: MembershipRow) -> None:
            assert self.recorder is not None, "a living process has a recorder"
            now = self._world.now
            self._world.write(self.recorder.stamp(row, self.monotonic.read(now), now))

        self.states[group] = StateKeeper(group, f"{self.name} {life}", size, self.disk, give, write)

    def _hand_over(self, effect: Deliver) -> None:
        """The application takes messages at once, while it reads, and asks for what it is told did not come."""
        messages = 0
        keeper = self.states.get(effect.group)
        if keeper is not None:
            keeper.on_events(effect.events, self.reading)
        for event in effect.events:
            if isinstance(event, Message):
                messages += 1
            elif isinstance(event, Gap) and self.reading:
                self.give(Recover(effect.group, event.source, event.first, event.last))
            elif isinstance(event, SendAccepted | SendRefused):
                self._world.send_answered(self, effect.group, isinstance(event, SendAccepted))
            elif isinstance(event, Block):
                self._blocks[effect.group] = None
            elif isinstance(event, Returned):
                self._world.count("returned to the application")
            elif isinstance(event, Left):
                self._blocks.pop(effect.group, None)
                self.states.pop(effect.group, None)
                if self.groups.pop(effect.group) is Stay.RETURNING:
                    self._world.join(self, effect.group)
        if self._blocks:
            self.answer_blocks()
        if not messages:
            return
        if self.reading:
            self._afterwards.append(EventsTaken(effect.group, messages))
        else:
            self._untaken[effect.group] = self._untaken.get(effect.group, 0) + messages

    def _store(self, effect: AppendLog | SyncLog | ReadLog | WriteBlob | ReadBlob) -> Fact:
        try:
            if isinstance(effect, WriteBlob):
                self.disk.write_blob(effect.blob, effect.offset, effect.data)
            elif isinstance(effect, ReadBlob):
                return StorageDone(effect.request, (self.disk.read_blob(effect.blob, effect.offset, effect.size),))
            elif isinstance(effect, AppendLog):
                self.disk.append(effect.log, effect.record)
            elif isinstance(effect, SyncLog):
                self.disk.sync(effect.log)
            else:
                return StorageDone(effect.request, self.disk.read(effect.log))
            return StorageDone(effect.request)
        except DiskError as error:
            return StorageFailed(effect.request, str(error))

    def _deadline(self) -> int | None:
        return None if self.engine is None else self.engine.deadline()

    def _on_timer(self, at: int) -> None:
        if at == self._wake_at:  # else an earlier one was arranged since
            self.wake(at)

    def _arrange_wake(self) -> None:
        """Be woken at the engine's deadline; an earlier wake-up that is already arranged serves as well."""
        due = self._deadline()
        if due is None:
            return
        at = max(self.monotonic.when(due), self._world.now)
        if self._wake_at is None or at < self._wake_at:
            self._wake_at = at
            self._world.schedule(at, self._on_timer)

    def send(self, group: str, ticket: int, messages: tuple[bytes, ...], proxy: bool = False) -> None:
        """The application sends."""
        self.give(Send(group, ticket, messages, proxy=proxy))
