"""Application-level framing (000 4.9): the application names its data and asks for what it wants repaired.

Messages are handed on as they come, each once. What did not come is told as a gap; nothing is asked for unless the
application says so, by sequences or by the name that the sender gave.
"""

from __future__ import annotations

from unisono.engine import Recover
from unisono.events import Gap, Unrecovered
from unisono.identity import ProcessId
from unisono.intergroup.casual import CasualReceiver
from unisono.intergroup.context import Context
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.reasons import Reason
from unisono.reliable.spans import Spans
from unisono.reliable.step import Step, repair_row
from unisono.wire.messages import LEAVE, NAMED, DataMessage, DataPacket, KeepAlive, NameRequest, RepairRequest
from unisono.wire.names import take_name

SPAN_LIMIT = 1024
WANTED_LIMIT = 1024
"""Requests of the application that may be open for one source."""
SOURCE_LIMIT = 10_000


class Wanted:
    """Something that the application asked for."""

    __slots__ = ("due", "first", "last", "name", "tries")

    def __init__(self, first: int, last: int, name: str, due: int) -> None:
        self.first = first
        self.last = last
        self.name = name
        self.due = due
        self.tries = 0


class Frames:
    """What has come of one source, and what is wanted of it."""

    __slots__ = ("delivered", "highest", "received", "wanted")

    def __init__(self, highest: int) -> None:
        self.highest = highest
        self.received = Spans(SPAN_LIMIT)
        self.delivered = Spans(SPAN_LIMIT)
        self.wanted: list[Wanted] = []

    def note(self, message: DataMessage) -> None:
        """A message has come. The number after a farewell is never used: who comes back skips it."""
        self.received.add(message.sequence, message.sequence + (1 if message.flags & LEAVE else 0))


class Framed(CasualReceiver):
    """This process as a receiver that decides itself what is worth repairing."""

    __slots__ = ("_sources",)

    def __init__(self, context: Context, delivery: Delivery) -> None:
        super().__init__(context, delivery)
        self._sources: dict[ProcessId, Frames] = {}

    def on_data(self, step: Step, packet: DataPacket) -> None:
        first = packet.messages[0].sequence
        frames = self._frames(packet.source, first - 1)
        if frames is None:
            step.note(Reason.TOO_MANY_PEERS)
            return
        self._announce(step, packet.source, frames, first - 1)
        for message in packet.messages:
            if self.admit(step, packet.source, message):
                frames.note(message)
                frames.highest = max(frames.highest, message.sequence)

    def on_repair(self, step: Step, packet: DataPacket) -> None:
        """A repair counts where it brings something that was asked for."""
        frames = self._sources.get(packet.source)
        last = packet.messages[-1].sequence
        if frames is not None and any(wanted.name or wanted.first <= last for wanted in frames.wanted):
            for message in packet.messages:
                if self.admit(step, packet.source, message):
                    frames.note(message)

    def on_keep_alive(self, step: Step, source: ProcessId, message: KeepAlive) -> None:
        frames = self._frames(source, message.sequence)
        if frames is not None:
            self._announce(step, source, frames, message.sequence)

    def take(self, step: Step, source: ProcessId, message: DataMessage) -> None:
        frames = self._sources[source]
        repeated = message.sequence in frames.delivered
        frames.delivered.add(message.sequence - message.count + 1, message.sequence)
        if frames.wanted:
            name = take_name(message.payload)[0] if message.flags & NAMED else ""
            frames.wanted = [
                wanted
                for wanted in frames.wanted
                if (wanted.name != name if wanted.name else frames.delivered.missing(wanted.first, wanted.last))
            ]
        if repeated:
            step.note(Reason.REPEATED)
        else:
            self._delivery.whole(step, source, message, message.payload)

    def recover(self, step: Step, recover: Recover) -> None:
        frames = self._frames(recover.source, 0)
        if frames is None or len(frames.wanted) >= WANTED_LIMIT:
            step.note(Reason.TOO_MANY_REQUESTS)
            step.deliver(Unrecovered(recover.source, recover.first, recover.last, recover.name))
            return
        if recover.name or frames.delivered.missing(recover.first, recover.last):
            frames.wanted.append(Wanted(recover.first, recover.last, recover.name, step.now))
            self._ask(step)

    def on_time(self, step: Step) -> None:
        super().on_time(step)
        self._ask(step)

    def _frames(self, source: ProcessId, highest: int) -> Frames | None:
        frames = self._sources.get(source)
        if frames is None and len(self._sources) < SOURCE_LIMIT:
            frames = self._sources[source] = Frames(highest)
        return frames

    def _announce(self, step: Step, source: ProcessId, frames: Frames, sequence: int) -> None:
        """The source has sent up to here: what did not come of it is a gap, told when the application keeps up."""
        if sequence > frames.highest and self._delivery.has_room:
            for first, last in frames.received.missing(frames.highest + 1, sequence):
                step.mark("gap-told")
                step.deliver(Gap(source, first, last))
            frames.highest = sequence

    def _ask(self, step: Step) -> None:
        """Ask for what is wanted and due; give up what was asked for too often."""
        settings = self._context.settings
        earliest = None
        for source, frames in sorted(self._sources.items()):
            for wanted in list(frames.wanted):
                if wanted.due <= step.now:
                    if wanted.tries == settings.activation_tries:
                        frames.wanted.remove(wanted)
                        step.mark("unrecovered")
                        step.deliver(Unrecovered(source, wanted.first, wanted.last, wanted.name))
                        continue
                    self._request(step, source, frames, wanted)
                    wait = max(4 * settings.request_delay, 1) << min(wanted.tries, 32)
                    wanted.due = step.now + min(wait, settings.request_limit)
                    wanted.tries += 1
                earliest = wanted.due if earliest is None else min(earliest, wanted.due)
        if earliest is not None:
            self._context.deadlines.advance("frames", earliest)

    def _request(self, step: Step, source: ProcessId, frames: Frames, wanted: Wanted) -> None:
        if wanted.name:
            self._context.broadcast(step, [NameRequest(source, wanted.name)])
            return
        ranges = tuple(frames.delivered.missing(wanted.first, wanted.last)[: self._context.writer.range_room])
        for low, high in ranges:
            step.record(repair_row("RTR", source, low, high))
        if step.tracing:
            lacking = sum(high - low + 1 for low, high in ranges)
            step.statistic("SENT_RTR", source=source.name, sequences=lacking, tries=wanted.tries)
        context = self._context
        request = RepairRequest(source, 0, ranges, wanted.tries, context.distance(source), context.whereabouts)
        context.broadcast(step, [request])
