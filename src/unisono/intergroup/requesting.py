"""A receiver asks for what it lacks (000 3.3): everybody, after a while, and not when another has just asked."""

from __future__ import annotations

from unisono.identity import ProcessId
from unisono.intergroup.context import Context
from unisono.intergroup.stream import Stream
from unisono.reliable.step import Step, repair_row
from unisono.reliable.suppression import Asked, RequestTiming, Wait
from unisono.wire.messages import RepairRequest


class Requesting:
    """The requests of one receiver, for all whom it follows."""

    __slots__ = ("_context", "_crowded", "_streams")

    def __init__(self, context: Context, streams: dict[ProcessId, Stream], crowded: set[ProcessId]) -> None:
        self._context = context
        self._streams = streams
        self._crowded = crowded

    def due(self, step: Step, stream: Stream) -> int:
        """When to ask for what is missing since now: not before a packet that was only overtaken may have come."""
        context = self._context
        wait = stream.timing.delay(context.distance(stream.source), stream.listeners, context.randomness)
        return step.now + context.settings.request_delay + wait

    def schedule(self, step: Step, stream: Stream) -> None:
        """Ask in time; what there is no room for is asked for when there is."""
        gaps = stream.gaps
        if not gaps or stream.ending is not None:
            return
        horizon = stream.horizon
        if gaps.may_look_further(horizon):
            gaps.look_further(self.due(step, stream), horizon)
        due = gaps.tickets.next_due(horizon)
        if due is not None:
            self._context.deadlines.advance("request", due)
        else:
            self._crowded.add(stream.source)

    def request(self, step: Step) -> None:
        """Ask everybody for what is missing and due: whoever holds it may repair it."""
        context = self._context
        most = context.writer.range_room
        for source, stream in sorted(self._streams.items()):
            distance, timing = context.distance(source), stream.timing

            def wait(
                tries: int, timing: RequestTiming = timing, distance: int | None = distance, stream: Stream = stream
            ) -> Wait:
                return timing.again(distance, tries, stream.listeners, context.randomness)

            ranges, tries = stream.gaps.tickets.request(step.now, wait, most, stream.horizon)
            if ranges:
                if tries:
                    step.mark("repair-asked-again")
                for low, high in ranges:
                    step.record(repair_row("RTR", source, low, high))
                if step.tracing:
                    wanted = sum(high - low + 1 for low, high in ranges)
                    step.statistic("SENT_RTR", source=source.name, sequences=wanted, tries=tries)
                timing.on_sent(distance, tries, ranges)
                request = RepairRequest(source, stream.attempt, tuple(ranges), tries, distance, context.whereabouts)
                context.broadcast(step, [request])
            self.schedule(step, stream)

    def on_others_request(self, step: Step, stream: Stream, asked: Asked, message: RepairRequest) -> None:
        """Another asked a source for repairs: what is missing here too need not be asked for soon."""
        distance, randomness = self._context.distance(stream.source), self._context.randomness

        def wait(tries: int) -> Wait:
            return stream.timing.backed_off(distance, asked, tries, stream.listeners, randomness)

        gaps = stream.gaps
        found = gaps.tickets.heard(message.ranges, step.now, wait, stream.horizon)
        missing = [
            ticket or gaps.lacks_further(first, last)
            for ticket, (first, last) in zip(found, message.ranges, strict=True)
        ]
        stream.timing.on_heard(asked, message.ranges, missing)
        if any(missing):
            step.mark("request-heard")
            self.schedule(step, stream)
