"""Messages on their way: the latency to the last member, and when a message is settled and can be forgotten.

A message is settled when every member that hears its source has come past it. Who has ended or left is not waited for,
who is silent only for the time of the allowed lateness; a delivery of a settled message is counted as late.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from unisono.pipeline.live.lives import LATENESS_NANOSECONDS
from unisono.pipeline.live.outputs import WINDOW_NANOSECONDS, Latencies
from unisono.properties.monitors.monitor import Member, Source
from unisono.properties.monitors.settled import Clock, time_of
from unisono.trace.schema import DeliverRow, SendRow, ViewRow

OPEN_LIMIT = 20_000
"""So many messages of one source are on their way; beyond, the oldest count as settled."""

KEPT_SETTLED = 1_000
"""So many settled messages of a source are still known: late deliveries of them are held against their SEND."""


class Message(Struct, array_like=True):
    """When a message was sent, null until its SEND is here, and when it was delivered last, by which clock.

    `came` is when the first row about it was here, on the clock of the stream.
    """

    came: int
    sent: int | None = None
    last: int | None = None
    clock: Clock = None
    several_clocks: bool = False


class Sending(Struct, array_like=True):
    """The messages of one source in one group, and the highest number that each member has delivered of it."""

    clock: Clock = None
    open: dict[int, Message] = field(default_factory=dict)
    heard: dict[Source, int] = field(default_factory=dict)
    settled: int = 0


class Messages(Struct, array_like=True):
    """All messages of a run that are on their way."""

    sources: dict[Member, Sending] = field(default_factory=dict)
    late: int = 0
    now: int = 0
    leaving: list[tuple[Source, str | None]] = []
    """Who has gone since the last batch, from one group or from all."""

    def on_send(self, row: SendRow) -> None:
        sending = self._sending((row.group, row.process, row.incarnation))
        if row.number < sending.settled:
            return
        message = sending.open.get(row.number)
        if message is None:
            message = sending.open[row.number] = Message(self.now)
        if message.sent is None:
            message.sent, sending.clock = time_of(row)

    def on_deliver(self, row: DeliverRow) -> None:
        sending = self._sending((row.group, row.source, row.source_incarnation))
        number = row.number
        hearer = (row.process, row.incarnation)
        if number > sending.heard.get(hearer, -1):
            sending.heard[hearer] = number
        if number < sending.settled:
            self.late += 1
            return
        message = sending.open.get(number)
        if message is None:
            message = sending.open[number] = Message(self.now)
        moment, clock = (row.at, row.host) if row.truth is None else (row.truth, None)
        if message.last is None:
            message.last, message.clock = moment, clock
        elif clock != message.clock:
            message.several_clocks = True
        elif moment > message.last:
            message.last = moment

    def on_view(self, row: ViewRow) -> None:
        """From now on this member hears these sources in this group, and no others."""
        hearer = (row.process, row.incarnation)
        heard = {(row.group, start.source, start.incarnation): start.number - 1 for start in row.start}
        for member, sending in self.sources.items():
            if member[0] == row.group and member not in heard:
                sending.heard.pop(hearer, None)
        for member, number in heard.items():
            numbers = self._sending(member).heard
            numbers[hearer] = max(number, numbers.get(hearer, number))

    def gone(self, hearer: Source, group: str | None = None) -> None:
        """After this batch nobody waits for this process any more, in one group or in all."""
        self.leaving.append((hearer, group))

    def settle(
        self, run: str, is_silent: Callable[[Source], bool], forget: Callable[[Member, int], None]
    ) -> list[Latencies]:
        """Take out what is settled; its latencies by window. `forget` is told, for each source, how far."""
        lines = []
        for member, sending in self.sources.items():
            everybody = min(sending.heard.values(), default=-1)
            found: dict[int, list[int]] = {}
            open_messages = sending.open
            heard = (number for hearer, number in sending.heard.items() if not is_silent(hearer))
            low = min(heard, default=max(open_messages, default=-1))
            for number in [number for number in open_messages if number <= low]:
                message = open_messages[number]
                if message.sent is None:
                    continue  # its SEND is still to come, or D1 will tell
                if number <= everybody or self.now - message.came >= LATENESS_NANOSECONDS:
                    self._close(sending, number, found)
            while len(open_messages) > OPEN_LIMIT:
                self._close(sending, next(iter(open_messages)), found)
            sending.settled = max(sending.settled, min(open_messages, default=max(low, everybody) + 1))
            forget(member, sending.settled - KEPT_SETTLED)
            lines += [
                Latencies(run, sending.clock, window, member[0], sorted(found[window])) for window in sorted(found)
            ]
        for hearer, group in self.leaving:
            self._remove(hearer, group)
        self.leaving = []
        return lines

    def forget(self, life: Source) -> None:
        """Let go of one life, as source and as member."""
        self._remove(life, None)
        for member in [member for member in self.sources if member[1:] == life]:
            del self.sources[member]

    @property
    def open_count(self) -> int:
        return sum(len(sending.open) for sending in self.sources.values())

    def _remove(self, hearer: Source, group: str | None) -> None:
        for member, sending in self.sources.items():
            if group is None or member[0] == group:
                sending.heard.pop(hearer, None)

    def _sending(self, member: Member) -> Sending:
        sending = self.sources.get(member)
        if sending is None:
            sending = self.sources[member] = Sending()
        return sending

    @staticmethod
    def _close(sending: Sending, number: int, found: dict[int, list[int]]) -> None:
        message = sending.open.pop(number)
        if message.sent is None or message.last is None or message.several_clocks:
            return
        if message.clock == sending.clock:
            found.setdefault(message.sent // WINDOW_NANOSECONDS, []).append(message.last - message.sent)
