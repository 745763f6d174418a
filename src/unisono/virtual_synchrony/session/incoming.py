"""What one member of a view says: put in order, asked for where it is missing, kept until all have delivered it."""

from __future__ import annotations

from unisono.identity import ProcessId
from unisono.reliable.fragments import OrderedAssembly
from unisono.reliable.gaps import HORIZON_LIMIT, Gaps
from unisono.reliable.holding import Holding
from unisono.reliable.windows import Offer, ReceiveWindow
from unisono.settings import Settings
from unisono.virtual_synchrony.session.relaying import RELAY_ROOM_BYTES
from unisono.wire.messages import FRAGMENT, OPTIMISTIC, DataMessage, DataPacket

NO_BOUND = 1 << 62


class Incoming:
    """The stream of one source in one view, at one receiver.

    Everything up to `received` has come, everything up to `delivered` was taken for the application. `bound` is the
    last that may be taken now; optimistic messages are not taken before their source has `started` the view.
    """

    __slots__ = (
        "_datagram",
        "_full",
        "_limit",
        "assembly",
        "bound",
        "gaps",
        "holding",
        "source",
        "started",
        "window",
    )

    def __init__(self, source: ProcessId, settings: Settings, start: int = 1) -> None:
        self.source = source
        self.window = ReceiveWindow(start, settings.receive_buffer_bytes)
        self.gaps = Gaps(self.window)
        self.assembly = OrderedAssembly(settings.message_limit_bytes + RELAY_ROOM_BYTES)
        self.holding = Holding(NO_BOUND)
        """Nothing is dropped from it that somebody may lack: what has no room is not taken in."""
        self._limit = settings.receive_buffer_bytes
        self._datagram = settings.datagram_bytes
        self._full = False
        """Something had no room, so that asking for it was put off."""
        self.bound = NO_BOUND
        self.started = False

    @property
    def received(self) -> int:
        """How far this process answers for: not for what it may never deliver."""
        return self.window.contiguous if self.started else self.delivered

    @property
    def delivered(self) -> int:
        return self.window.next - 1

    @property
    def horizon(self) -> int:
        """Up to where something is asked for: what would find no room is not, until there is some."""
        if self._limit - self.holding.bytes < self._datagram:
            return 0
        return self.window.contiguous + HORIZON_LIMIT if self.window.room >= self._datagram else self.window.next

    def take_in(self, packet: DataPacket, due: int) -> bool:
        """Keep a datagram for its turn; missing sequences before it are asked for when `due`. False: nothing new."""
        messages, window = packet.messages, self.window
        first, last = messages[0].sequence, messages[-1].sequence
        if last <= window.contiguous:
            return False
        if not messages[-1].flags & OPTIMISTIC:
            self.started = True
        if self.holding.bytes + len(packet.sealed) > self._limit:
            self._full = True
            self.expect(last, due)  # until others have delivered what is held here
            return False
        if window.append(messages):
            self.holding.keep(first, last, packet.sealed)
            return True
        self.expect(first - 1, due)
        window.announce(last)
        new = False
        for message in messages:
            offer = window.offer(message)
            if offer is Offer.TAKEN:
                self.gaps.tickets.fill(message.sequence)
                new = True
            elif offer is Offer.FULL:
                self._miss(message.sequence, due)
        for sequence in window.given_up:
            self._miss(sequence, due)
        window.given_up.clear()
        if new:
            self.holding.keep(first, last, packet.sealed)
        return new

    def expect(self, sequence: int, due: int) -> bool:
        """The source has sent up to here: what of it was not known to exist is missing."""
        return self.gaps.announce(sequence, due, self.horizon)

    def _miss(self, sequence: int, due: int) -> None:
        self._full = True
        self.gaps.miss(sequence, due, self.horizon)

    def next_due(self, now: int) -> int | None:
        """When to ask for something, where there is room for what is missing."""
        if not self.gaps:
            return None
        horizon = self.horizon
        self.gaps.look_further(now, horizon)
        return self.gaps.tickets.next_due(horizon)

    def admit_all(self, due: int) -> None:
        """The view ends with what its members agreed on, which must come in: its source's window bounds it."""
        self._limit = NO_BOUND
        if self._full:
            self._full = False
            self.gaps.renew(due, self.horizon)

    def next(self) -> DataMessage | None:
        """The next message that may be delivered; what cannot be yet stays."""
        head = self.window.head
        if head is None or head.sequence > self.bound or (head.flags & OPTIMISTIC and not self.started):
            return None
        return self.window.take()

    def whole(self, message: DataMessage) -> bytes | None:
        """The payload of an application message once its last fragment is in; raises TooLarge."""
        if message.flags & FRAGMENT:
            return self.assembly.add(message)
        self.assembly.clear()
        return message.payload
