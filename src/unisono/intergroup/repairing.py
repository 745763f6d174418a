"""This process as a holder: repairs what others ask for, be it the source or not (000 3.4, 003 5.2).

Requests and repairs are multicast. The source answers at once; other holders stand in for it when its repair does not
come, few at a time (see unisono.reliable.suppression). What is stable is held no longer.
"""

from __future__ import annotations

from unisono.engine import Address
from unisono.identity import ProcessId, ViewMark
from unisono.intergroup.context import Context
from unisono.intergroup.reasons import Reason
from unisono.intergroup.sending import Sending
from unisono.reliable.holding import Holding
from unisono.reliable.repairs import Repairs
from unisono.reliable.step import Step, repair_row
from unisono.reliable.suppression import Asked, RepairTiming
from unisono.wire.messages import DataPacket, Range

REPAIR_BURST_BYTES = 256 * 1024
"""The most that one request is answered with; the rest is asked for again."""
RETIRED_LIMIT = 1024
"""Of so many sources that are followed no longer it is kept what others may lack."""
STAND_IN_SHARE = 4
"""Repairs of others' messages are at most this part of what comes of them."""
STAND_IN_BYTES = 256 * 1024
"""What may be repaired for others at once."""


class Repairing:
    """What is held of each source, and which of it is about to be repaired."""

    __slots__ = ("_context", "_credit", "_holdings", "_repairs", "_retired", "_sending", "_timing", "spared")

    def __init__(self, context: Context, sending: Sending) -> None:
        self._context = context
        self._sending = sending
        self._credit = STAND_IN_BYTES
        self.spared: set[ProcessId] = set()
        """Sources that cannot repair any more: others stand in for them without limit."""
        self._holdings: dict[ProcessId, Holding] = {}
        self._retired: dict[ProcessId, int] = {}
        self._repairs = Repairs()
        self._timing = RepairTiming(context.pace)

    @property
    def fullest(self) -> int:
        """The most that is held of one source now, in bytes."""
        return max((holding.bytes for holding in self._holdings.values()), default=0)

    def take_high_water(self) -> int:
        """The most that was held of one source since this was last asked."""
        highest = max((holding.high_water for holding in self._holdings.values()), default=0)
        for holding in self._holdings.values():
            holding.high_water = holding.bytes
        return highest

    def take_most_pending(self) -> int:
        """The most datagrams that waited to be repaired since this was last asked."""
        highest, self._repairs.high_water = self._repairs.high_water, len(self._repairs)
        return highest

    def keep(self, packet: DataPacket) -> None:
        """A datagram came, in its first form or as a repair: it may be asked for here."""
        holding = self._holdings.get(packet.source)
        if holding is None:
            holding = self._holdings[packet.source] = Holding(self._context.settings.window_bytes)
        holding.keep(packet.messages[0].sequence, packet.messages[-1].sequence, packet.sealed)
        self._credit = min(self._credit + len(packet.sealed) // STAND_IN_SHARE, STAND_IN_BYTES)
        if packet.stable:
            self.release(packet.source, packet.stable, packet.view)

    def release(self, source: ProcessId, stable: int, view: ViewMark) -> None:
        """The source says, in that view, that everybody has what it sent up to here.

        A member that has gone ahead counts nobody of the view that it left; who ends that view may ask for it here.
        """
        holding = self._holdings.get(source)
        if holding is not None and not self._context.is_behind(source, view):
            holding.release(stable)

    def holds(self, source: ProcessId, sequence: int) -> bool:
        """Whether a message is kept for others: somebody may lack it."""
        return bool(self._find(source, ((sequence, sequence),)))

    def forget(self, source: ProcessId) -> None:
        """This process follows a source no longer."""
        self._holdings.pop(source, None)
        self._retired.pop(source, None)
        self._repairs.forget(source)

    def retire(self, source: ProcessId, until: int) -> None:
        """This process follows a source no longer, but repairs what it has of it for a while."""
        self._retired.pop(source, None)
        self._retired[source] = until
        while len(self._retired) > RETIRED_LIMIT:
            self.forget(next(iter(self._retired)))

    @property
    def retires(self) -> bool:
        """Whether anybody is to be forgotten after a while."""
        return bool(self._retired)

    def expire(self, now: int) -> None:
        """Forget those whose while is over."""
        for source in [source for source, until in self._retired.items() if until <= now]:
            self.forget(source)

    def on_request(
        self, step: Step, source: ProcessId, ranges: tuple[Range, ...], asked: Asked, receivers: int
    ) -> None:
        """Somebody lacks these sequences of a source: repair what of them is here, now or if nobody else does."""
        own = source == self._context.process
        found = self._find(source, ranges)
        if own and not found:
            step.note(Reason.REQUEST_STALE)
        hold_down = self._timing.hold_down(asked.distance)
        size = 0
        for first, last, datagram in found:
            delay = 0 if own else self._delay(source, asked, receivers)
            size += len(datagram)
            if delay is None or (size > REPAIR_BURST_BYTES and size > len(datagram)):
                continue
            self._repairs.schedule(source, first, last, len(datagram), step.now, delay, hold_down)
        self._schedule(step)

    def bring(self, step: Step, source: ProcessId, sequence: int, address: Address) -> None:
        """Repair one message for one member alone, at once: its whole view waits for that."""
        for first, last, datagram in self._find(source, ((sequence, sequence),)):
            step.mark("brought-to-a-member")
            step.record(repair_row("RTX", source, first, last))
            step.send(address, self._context.writer.repair(datagram), self._context.settings.scope)

    def on_repaired(self, step: Step, packet: DataPacket, by: ProcessId) -> None:
        """Another has repaired. Whoever still asks for a source that is about to be out may not hear it itself."""
        if by == packet.source and by in self.spared:
            return
        if self._repairs.heard(packet.source, packet.messages[0].sequence, step.now):
            step.mark("repair-spared")
            self._schedule(step)

    def send_due(self, step: Step) -> None:
        """Send the repairs whose time has come."""
        pacing = self._sending.pacing
        while pacing.wait_until(step.now) <= step.now and (taken := self._repairs.take(step.now, 1)):
            source = taken[0].source
            found = self._find(source, ((taken[0].first, taken[0].last),))
            if not found or not self._may_repair(source, len(found[0][2])):
                continue
            first, last, datagram = found[0]
            step.record(repair_row("RTX", source, first, last))
            step.send(self._context.multicast, self._context.writer.repair(datagram), self._context.settings.scope)
            pacing.on_sent(step.now, 0, len(datagram))
            if source != self._context.process:
                step.mark("repaired-for-another")
        self._schedule(step)

    def _may_repair(self, source: ProcessId, size: int) -> bool:
        """Own messages always; others' within a share of what comes, so that a line that is full is not filled more."""
        if source == self._context.process or source in self.spared:
            return True
        if self._credit < size:
            return False
        self._credit -= size
        return True

    def _find(self, source: ProcessId, ranges: tuple[Range, ...]) -> list[tuple[int, int, bytes]]:
        if source == self._context.process:
            return self._sending.window.find(ranges, REPAIR_BURST_BYTES)
        holding = self._holdings.get(source)
        return [] if holding is None else holding.find(ranges)

    def _delay(self, source: ProcessId, asked: Asked, receivers: int) -> int | None:
        to_source = self._context.distance(source)
        gone = source in self.spared
        return self._timing.delay(asked, to_source, receivers, self._context.randomness, gone)

    def _schedule(self, step: Step) -> None:
        due = self._repairs.next_due()
        if due is not None:
            self._context.deadlines.set("repair", max(due, self._sending.pacing.wait_until(step.now)))
