"""A receiver says what it has: to the sources themselves while they have few, else through the control hierarchy."""

from __future__ import annotations

from unisono.engine import Contribute
from unisono.identity import ProcessId
from unisono.intergroup.context import Context
from unisono.intergroup.gathered import NEWCOMER, receiver_mark
from unisono.intergroup.hierarchy.aggregation import STABILITY
from unisono.intergroup.stream import Stream
from unisono.reliable.step import Step
from unisono.units import MILLISECOND, SECOND
from unisono.wire.control_messages import Contribution, Entry
from unisono.wire.messages import DIRECTLY, POLLED, Report, ReportEntry

POLL_SPREAD = SECOND
"""The time over which the answers to a poll are spread, and between two of them while it goes on, at most."""
POLL_SHARE = 5
"""The same as a part of the source's patience: half of it is over at the poll, and two answers come in the rest."""
REPORT_REST = 10 * MILLISECOND
"""News waits so long to be reported: others wait for what this process says first, and more news may come."""
UNICAST_REPORTS = 2
"""Reports to more sources than this are multicast, all in one, where that reaches few who have no use for them."""


class Reporting:
    """The reports of one receiver, about all whom it follows."""

    __slots__ = ("_context", "_contributed", "_crowded", "_reported_at", "_streams")

    def __init__(self, context: Context, streams: dict[ProcessId, Stream], crowded: set[ProcessId]) -> None:
        self._context = context
        self._streams = streams
        self._crowded = crowded
        self._reported_at = 0
        self._contributed: tuple[Entry, ...] = ()

    def schedule(self, step: Step, stream: Stream) -> None:
        """Soon after news, at once when much has come, so that the sender's window does not run dry."""
        settings = self._context.settings
        if stream.unreported_bytes * 4 >= settings.window_bytes:
            self._context.deadlines.set("report", step.now)
        else:
            rest = min(REPORT_REST, settings.report_interval)
            due = max(step.now + rest, self._reported_at + self._interval(step, stream))
            self._context.deadlines.advance("report", due)

    def _interval(self, step: Step, stream: Stream) -> int:
        """How long to wait between reports: many who speak for themselves say no more together than few."""
        settings = self._context.settings
        interval = settings.report_interval
        if stream.reporting == DIRECTLY or self._settled(step, stream):
            return interval
        crowd = interval * stream.listeners // max(settings.direct_reports, 1)
        return max(interval, min(crowd, stream.patience // 5))

    def on_way_of_reporting(self, step: Step, stream: Stream, reporting: int) -> None:
        """A source says how it wants to be told what was received."""
        if reporting == stream.reporting:
            return
        stream.reporting = reporting
        if reporting == POLLED:
            stream.polled_at = None
        wait = int(self._context.randomness.random() * _spread(stream)) if reporting else 0
        self._context.deadlines.advance("report", step.now + wait)

    def report(self, step: Step) -> None:
        """Say what has come, of every source: it opens the senders' windows (000 3.5, 4.4)."""
        followed = [stream for _, stream in sorted(self._streams.items()) if stream.ending is None]
        if not followed:
            self.withdraw(step)
            return
        patience = min(stream.patience for stream in followed)
        self._reported_at = step.now
        halted = self._context.held_back
        entries = [(stream, stream.report(halted)) for stream in followed]
        self._crowded.update(stream.source for stream in followed if stream.crowded)
        self._contribute(step, [(stream, entry) for stream, entry in entries if self._through_hierarchy(step, stream)])
        direct = [(stream, entry) for stream, entry in entries if self._speaks_for_itself(step, stream)]
        settings = self._context.settings
        heartbeat = max(settings.report_interval, min(patience // 5, 5 * settings.keep_alive))
        rest = settings.report_interval if halted else heartbeat
        if len(direct) <= self._unicast_most(followed):
            for stream, entry in direct:
                if len(direct) <= UNICAST_REPORTS or stream.is_news(entry, step.now, heartbeat):
                    self._context.tell(step, stream.address, Report((entry,)))
        else:
            self._context.broadcast(step, list(self._context.writer.reports([entry for _, entry in direct])))
        for stream, _ in direct:
            if stream.reporting == POLLED:
                stream.polled_at = step.now
        self._context.deadlines.set("report", step.now + rest)

    def _unicast_most(self, followed: list[Stream]) -> int:
        """To how many sources a report goes one by one: a multicast also costs every other receiver its while."""
        listeners = max(stream.listeners for stream in followed)
        alone = listeners <= 1 and self._context.settings.role == "receiver"  # or it has not heard how many there are
        return max(UNICAST_REPORTS, len(followed) if alone else listeners // 2)

    def withdraw(self, step: Step) -> None:
        """Nobody is followed: the hierarchy need not count this process any more."""
        self._contribute(step, [])

    def _settled(self, step: Step, stream: Stream) -> bool:
        """Whether this process has a place where reports are gathered, and has been there for long enough."""
        return self._context.distances is not None and step.now - stream.since >= NEWCOMER

    def _through_hierarchy(self, step: Step, stream: Stream) -> bool:
        """Whether the source wants its reports gathered, and this process takes part in that."""
        return stream.reporting != DIRECTLY and self._settled(step, stream)

    def _speaks_for_itself(self, step: Step, stream: Stream) -> bool:
        if not self._through_hierarchy(step, stream):
            return True
        polled = stream.polled_at
        return stream.reporting == POLLED and (polled is None or self._reported_at - polled >= _spread(stream))

    def _contribute(self, step: Step, reports: list[tuple[Stream, ReportEntry]]) -> None:
        """Say what was received to the control hierarchy, which sums it up for the source (000 3.5)."""
        itself = self._context.process
        entries = tuple(
            Entry(
                stream.source,
                entry.received,
                1,
                receiver_mark(stream.source, itself, stream.attempt),
                stream.address,
            )
            for stream, entry in reports
        )
        if entries != self._contributed:
            self._contributed = entries
            step.effect(Contribute(Contribution(self._context.number, STABILITY, entries), urgent=False))


def _spread(stream: Stream) -> int:
    return min(POLL_SPREAD, stream.patience // POLL_SHARE)
