"""The contract between engines and drivers: facts go in, effects come out, in the order in which to carry them out.

An engine is a pure state machine. Time, randomness and entropy are arguments; it holds no socket, thread or
clock. The same engine runs on a real network and in the simulator, and a replay of its recorded facts gives
the same effects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NewType, Protocol

from msgspec import Struct

from unisono.distances import DistanceTable
from unisono.events import Event
from unisono.identity import Point, ProcessId
from unisono.settings import Role, Service, Settings
from unisono.trace.schema import AnyRow
from unisono.wire.control_messages import Contribution
from unisono.wire.messages import Packet

Address = NewType("Address", str)
"""Where datagrams go: an endpoint as the driver spells it, or the multicast address of a group."""

Channel = NewType("Channel", int)
"""A reliable FIFO stream of frames: the opener chooses a positive number, accepted ones get negative numbers."""

SITE = Address("site:control")
"""The one address that all processes of a site share (000 1.2): a channel opened to it leads to the site's host.

Who listens there is the host, and only one living process of a site and realm can. No fault of the network cuts what
stays inside a site; the address is free again when the host ends, however it ends.
"""

_MULTICAST = "multicast:"


def multicast_address(group: str) -> Address:
    """The address that every member of a group listens on."""
    return Address(_MULTICAST + group)


def is_multicast(address: Address) -> bool:
    return address.startswith(_MULTICAST)


def group_at(address: Address) -> str:
    """The group whose members listen on a multicast address."""
    return address.removeprefix(_MULTICAST)


class Randomness(Protocol):
    """The generator handed to an engine."""

    def random(self) -> float: ...


Entropy = Callable[[int], bytes]
"""Unpredictable bytes, handed in: incarnations, and later keys, are made from them."""


class DatagramReceived(Struct, frozen=True, tag=True, gc=False):
    """A datagram came from the network. `drops` counts what the socket threw away since the last one.

    `hops` is the least scope with which it comes this far: 0 on one machine, 1 on one network. Only its sender knows
    with which scope a multicast went: there `left` is what remained of it (see `hops_of`).
    """

    source: Address
    destination: Address
    hops: int
    arrived: int
    drops: int
    data: bytes
    left: int | None = None


class FrameReceived(Struct, frozen=True, tag=True, gc=False):
    """A whole frame came over a channel."""

    channel: Channel
    data: bytes


class ChannelOpened(Struct, frozen=True, tag=True):
    """A channel stands; `accepted` when the peer opened it. Inside a site the peer is SITE, at both ends."""

    channel: Channel
    peer: Address
    accepted: bool


class ChannelClosed(Struct, frozen=True, tag=True):
    """The peer closed a channel after its last frame."""

    channel: Channel


class ChannelFailed(Struct, frozen=True, tag=True):
    """A channel broke or could not be opened; frames under way may be lost."""

    channel: Channel
    reason: str


class Listening(Struct, frozen=True, tag=True):
    """This process listens at an address that only one can have."""

    at: Address


class ListenFailed(Struct, frozen=True, tag=True):
    """This process cannot listen at an address: somebody else does, or the system does not let it."""

    at: Address
    reason: str


class StorageDone(Struct, frozen=True, tag=True):
    """A storage request succeeded; a read brings the records that were whole."""

    request: int
    records: tuple[bytes, ...] = ()


class StorageFailed(Struct, frozen=True, tag=True):
    """A storage request failed; what it should have written may or may not be there."""

    request: int
    reason: str


class EventsTaken(Struct, frozen=True, tag=True, gc=False):
    """The application took this many messages of a group, oldest first: delivery that waited for it goes on."""

    group: str
    count: int


class Start(Struct, frozen=True, tag=True):
    """The process comes up: the first fact of every life."""


class Join(Struct, frozen=True, tag=True):
    """The application joins a group, with the protocol family of that name."""

    group: str
    settings: Settings
    protocol: str = "intergroup"
    stateful: bool = False
    """Whether the application has a state that others give it, and that it gives to others."""


class Leave(Struct, frozen=True, tag=True):
    """The application leaves a group; what it sent before still reaches the others."""

    group: str


class Send(Struct, frozen=True, tag=True, gc=False):
    """The application sends messages, together and in this order; `ticket` names the answer.

    `names`, where there are any, are as many as the messages: what a framed receiver may ask for.
    """

    group: str
    ticket: int
    messages: tuple[bytes, ...]
    names: tuple[str, ...] = ()
    proxy: bool = False
    """A mere receiver lets a sender send them, and stays one."""


class BlockOk(Struct, frozen=True, tag=True):
    """The application has sent what belongs into the current view, and waits for the next."""

    group: str


class ChangeService(Struct, frozen=True, tag=True):
    """The application wants another service from now on, and stays in the group."""

    group: str
    service: Service
    sources: Literal["all"] | tuple[str, ...] = "all"


class ChangeRole(Struct, frozen=True, tag=True):
    """The application wants to be a sender of the group from now on, or a mere receiver."""

    group: str
    role: Role


class Recover(Struct, frozen=True, tag=True):
    """A framed receiver asks for what it wants repaired: sequences of a source, or a message by its name."""

    group: str
    source: ProcessId
    first: int = 0
    last: int = 0
    name: str = ""


class StateSaved(Struct, frozen=True, tag=True):
    """The application wrote its state into the blob that it was asked to fill; it has this many bytes."""

    group: str
    request: int
    size: int


class StateNotSaved(Struct, frozen=True, tag=True):
    """The application could not write its state."""

    group: str
    request: int
    reason: str


class StateLoaded(Struct, frozen=True, tag=True):
    """The application has taken the state of another."""

    group: str
    request: int


class StateNotLoaded(Struct, frozen=True, tag=True):
    """The state was not taken: its point was never reached here (`missed`), or these pieces of it are damaged."""

    group: str
    request: int
    reason: str
    missed: bool = False
    damaged: tuple[int, ...] = ()


class ClaimState(Struct, frozen=True, tag=True):
    """The application says that its own state counts, although others may have another."""

    group: str


class RenewState(Struct, frozen=True, tag=True):
    """The application gives its state up, and wants that of the others."""

    group: str


class CountAudience(Struct, frozen=True, tag=True):
    """The application wants to know how many are in the group, or no longer; the answers are AudienceEstimates."""

    group: str
    wanted: bool = True


class TimePassed(Struct, frozen=True, tag=True, gc=False):
    """The deadline the engine asked for has come."""


class PacketReceived(Struct, frozen=True, tag=True, gc=False):
    """A datagram was opened and understood: what a node hands to the engine of its group. `size` is the datagram's."""

    source: Address
    hops: int
    arrived: int
    drops: int
    packet: Packet
    left: int | None = None
    size: int = 0


def hops_of(fact: DatagramReceived | PacketReceived, sent_scope: int) -> int:
    """How far a datagram came that says of itself with which scope it was sent."""
    return fact.hops if fact.left is None else max(0, sent_scope - fact.left)


class DistancesKnown(Struct, frozen=True, tag=True):
    """The control hierarchy knows how far others are; None while nobody speaks for this process there."""

    table: DistanceTable | None


Command = (
    Start
    | Join
    | Leave
    | Send
    | BlockOk
    | ChangeService
    | ChangeRole
    | Recover
    | ClaimState
    | RenewState
    | CountAudience
)
Fact = (
    DatagramReceived
    | FrameReceived
    | ChannelOpened
    | ChannelClosed
    | ChannelFailed
    | Listening
    | ListenFailed
    | StorageDone
    | StorageFailed
    | StateSaved
    | StateNotSaved
    | StateLoaded
    | StateNotLoaded
    | EventsTaken
    | TimePassed
    | PacketReceived
    | DistancesKnown
    | Command
)


class SendDatagram(Struct, frozen=True, tag=True, gc=False):
    """Send to one endpoint or to a multicast address, at most `scope` hops far."""

    to: Address
    data: bytes
    scope: int


class JoinAddress(Struct, frozen=True, tag=True):
    """Listen on a multicast address."""

    address: Address


class LeaveAddress(Struct, frozen=True, tag=True):
    """Listen on a multicast address no longer."""

    address: Address


class Listen(Struct, frozen=True, tag=True):
    """Accept channels: on this process's own endpoint, or at SITE as the host of its site.

    A Listen at SITE is answered by Listening or ListenFailed; the other one is not answered.
    """

    at: Address | None = None


class StopListening(Struct, frozen=True, tag=True):
    """Accept channels there no longer: the address is free. Channels that stand go on until they are closed."""

    at: Address


class OpenChannel(Struct, frozen=True, tag=True):
    """Open a channel; the answer is ChannelOpened or ChannelFailed."""

    channel: Channel
    to: Address


class CloseChannel(Struct, frozen=True, tag=True):
    """Close a channel after the frames sent so far."""

    channel: Channel


class SendFrame(Struct, frozen=True, tag=True, gc=False):
    """Send a frame: whole, once and in order while the channel stands."""

    channel: Channel
    data: bytes


class AppendLog(Struct, frozen=True, tag=True):
    """Add a record to a log; it may be lost in a crash until the log is synced."""

    log: str
    request: int
    record: bytes


class SyncLog(Struct, frozen=True, tag=True):
    """Make the records of a log durable."""

    log: str
    request: int


class ReadLog(Struct, frozen=True, tag=True):
    """Read a log from its beginning."""

    log: str
    request: int


class WriteBlob(Struct, frozen=True, tag=True, gc=False):
    """Write into a blob, a file of this life that need not outlive it; it is there once something is written."""

    blob: str
    request: int
    offset: int
    data: bytes


class ReadBlob(Struct, frozen=True, tag=True, gc=False):
    """Read from a blob; the answer has one record, shorter than asked for where the blob ends."""

    blob: str
    request: int
    offset: int
    size: int


class DropBlob(Struct, frozen=True, tag=True):
    """A blob is needed no longer; this is not answered."""

    blob: str


class Piece(Struct, frozen=True, gc=False):
    """A part of a state: where in its blob it lies, and the digest that it must have."""

    offset: int
    size: int
    digest: bytes


class SaveState(Struct, frozen=True, tag=True):
    """Let the application write its state into a blob, when it has taken everything delivered before this effect."""

    group: str
    request: int
    blob: str


class LoadState(Struct, frozen=True, tag=True):
    """Let the application take a state, the pieces of a blob in this order, and then what comes after the point."""

    group: str
    request: int
    blob: str
    point: Point
    provider: ProcessId
    pieces: tuple[Piece, ...]


class FoundState(Struct, frozen=True, tag=True):
    """No other has a state: the application's own counts, and it takes everything that was kept for it.

    `point` is where that was found.
    """

    group: str
    point: Point | None


class Deliver(Struct, frozen=True, tag=True, gc=False):
    """Hand events to the application, in this order. Every Message among them becomes a DELIVER row."""

    group: str
    service: str
    stretch: int
    events: tuple[Event, ...]


class Contribute(Struct, frozen=True, tag=True):
    """Say something to the control hierarchy in place of what was said of this group and topic before.

    A node takes it from the engine of a group and hands it on; no driver sees it.
    """

    contribution: Contribution
    urgent: bool


class StepForward(Struct, frozen=True, tag=True):
    """Be a sender of a group for a while, so that others hear of this process; a node keeps it, no driver sees it."""

    group: str


class Note(Struct, frozen=True, tag=True, gc=False):
    """Count a named reason: why something was refused, dropped or given up."""

    reason: str


class Record(Struct, frozen=True, tag=True):
    """Write a trace row; the driver adds who, where and when."""

    row: AnyRow


Effect = (
    SendDatagram
    | JoinAddress
    | LeaveAddress
    | Listen
    | StopListening
    | OpenChannel
    | CloseChannel
    | SendFrame
    | AppendLog
    | SyncLog
    | ReadLog
    | WriteBlob
    | ReadBlob
    | DropBlob
    | SaveState
    | LoadState
    | FoundState
    | Deliver
    | Contribute
    | StepForward
    | Note
    | Record
)


class Engine(Protocol):
    """One way in, one way out, and the time at which it next wants to be called.

    `now` is monotonic nanoseconds, for deadlines; `wall` is the wall clock in nanoseconds, for the Lamport clock
    alone. An engine never raises for what a peer sent. Its state can be copied (`copy.deepcopy`) and has a
    canonical fingerprint (`unisono.fingerprint`).
    """

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]: ...

    def deadline(self) -> int | None: ...
