"""D1, M4 and O2 while the run goes on: judged as soon as each can be, and never on the ground that a report is late.

The registered monitors do the work; what they leave to the end of the run is decided here, or not asked.
"""

from __future__ import annotations

from itertools import islice, takewhile

from msgspec import Struct, field

from unisono.pipeline.live.lives import LATENESS_NANOSECONDS, Life, Lives
from unisono.properties.monitors.agreed import RowKey
from unisono.properties.monitors.delivery import DeliveryIntegrity, Early
from unisono.properties.monitors.monitor import Member, Source
from unisono.properties.monitors.order import ReliableFifo
from unisono.properties.monitors.settled import Clock, time_of
from unisono.properties.monitors.views import ViewIdentity, wrong_installs
from unisono.properties.promises import exempt_services
from unisono.properties.violation import Violation, message_name
from unisono.trace.schema import DeliverRow, MembershipRow, SendRow, ViewRow

WAITING_LIMIT = 20_000
"""So many deliveries of a run wait for their SEND; the oldest go first, unchecked."""

VIEWS_LIMIT = 512
"""So many views of a run are kept to compare installs with; the oldest go first."""

_D1_EXEMPT = exempt_services("D1")


class Wait(Struct):
    """Since when a delivery waits for its SEND: its own time, and when it came. `unknown` once that was said."""

    moment: int
    clock: Clock
    came: int
    unknown: bool = False


class LiveFifo(ReliableFifo):
    """O2. What a session left out of a stream is known at the end of the run alone; nothing of that is kept or told."""

    def on_send(self, row: SendRow) -> None:
        pass

    def on_returned(self, row: MembershipRow) -> None:
        pass

    def hear_in_session(self, row: DeliverRow) -> None:
        pass


class LiveIntegrity(DeliveryIntegrity):
    """D1. A delivery without a SEND waits. It is a violation once its source cannot have sent it any more:

    the source wrote a later row, on the same clock; or it sent a higher number, where clocks do not compare; or it
    ended. While the source is silent, or rows of it are missing, that is unknown. Sends go when `forget` is told so.
    """

    waits: dict[RowKey, Wait] = field(default_factory=dict)
    below: dict[Member, int] = field(default_factory=dict)
    now: int = 0
    unchecked: int = 0

    def on_send(self, row: SendRow) -> None:
        source = (row.group, row.process, row.incarnation)
        if row.number < self.below.get(source, 0):
            return
        waiting = self.early.get(source)
        if waiting:
            for delivery in waiting.get(row.number, ()):
                self.waits.pop(_key(delivery), None)
        super().on_send(row)
        if waiting is not None and not waiting:
            del self.early[source]

    def on_deliver(self, row: DeliverRow) -> None:
        source = (row.group, row.source, row.source_incarnation)
        if row.number < self.below.get(source, 0):
            self.unchecked += 1
            return
        super().on_deliver(row)
        if row.number not in self.sends.get(source, ()) and row.service not in _D1_EXEMPT:
            self.waits[row.process, row.incarnation, row.position] = Wait(*time_of(row), self.now)

    @property
    def unknown(self) -> int:
        """How many deliveries wait for a SEND that may never be reported."""
        return sum(wait.unknown for wait in self.waits.values())

    def settle(self, lives: Lives) -> list[Violation]:
        """Judge what waits and can be judged; what has become unknown since the last time."""
        unknown: list[Violation] = []
        for source, waiting in list(self.early.items()):
            group, name, incarnation = source
            life = lives.get((name, incarnation))
            highest = next(reversed(self.sends.get(source, {})), -1)
            for number, deliveries in list(waiting.items()):
                left = []
                for delivery in deliveries:
                    wait = self.waits[_key(delivery)]
                    if life is not None and _cannot_come(life, wait, number < highest):
                        del self.waits[_key(delivery)]
                        self._report(source, number, delivery, "was delivered, but never sent")
                        continue
                    left.append(delivery)
                    if not wait.unknown and self._may_never_come(life, wait):
                        wait.unknown = True
                        message = message_name(name, incarnation, number)
                        why = "never reported" if life is None else "has rows missing" if life.lossy else "is silent"
                        text = f"{message} was delivered; whether it was sent is unknown, since its source {why}."
                        unknown.append(Violation("D1", group, *_key(delivery), message, text))
                if left:
                    waiting[number] = left
                else:
                    del waiting[number]
            if not waiting:
                del self.early[source]
        return unknown

    def _may_never_come(self, life: Life | None, wait: Wait) -> bool:
        if self.now - wait.came < LATENESS_NANOSECONDS:
            return False
        return life is None or life.lossy or life.clock != wait.clock or life.is_silent(self.now)

    def forget(self, source: Member, below: int) -> None:
        """Let go of what was sent before this number: a delivery of it that still comes is counted, not checked."""
        if below <= self.below.get(source, 0):
            return
        self.below[source] = below
        sent = self.sends.get(source, {})
        for number in list(takewhile(lambda number: number < below, sent)):
            del sent[number]

    def forget_source(self, life: Source) -> None:
        """Let go of all that one life sent."""
        for known in (self.sends, self.below):
            for member in [member for member in known if member[1:] == life]:
                del known[member]

    def keep_within_limits(self) -> None:
        excess = len(self.waits) - WAITING_LIMIT
        if excess <= 0:
            return
        gone = set(islice(self.waits, excess))
        self.unchecked += excess
        for key in gone:
            del self.waits[key]
        for source, waiting in list(self.early.items()):
            for number, deliveries in list(waiting.items()):
                waiting[number] = [delivery for delivery in deliveries if _key(delivery) not in gone]
                if not waiting[number]:
                    del waiting[number]
            if not waiting:
                del self.early[source]


def _key(delivery: Early) -> RowKey:
    return (delivery.process, delivery.incarnation, delivery.position)


def _cannot_come(life: Life, wait: Wait, went_on: bool) -> bool:
    """Whether the SEND would be here if there were one: it came before the delivery, and all before it is here."""
    if life.lossy:
        return False
    if life.ended:
        return True
    return life.moment > wait.moment if life.clock == wait.clock else went_on


class LiveIdentity(ViewIdentity):
    """M4. Judges a view with every install. Who is blamed first may be joined by others once more rows are there."""

    told: dict[str, set[RowKey]] = field(default_factory=dict)

    def on_view(self, row: ViewRow) -> None:
        super().on_view(row)
        versions = self.versions.get((row.group, row.view))
        if versions is None or len(versions) < 2:
            return
        told = self.told.setdefault(f"{row.group} {row.view}", set())
        for place, text in wrong_installs(row.view, versions):
            if place not in told:
                told.add(place)
                self.report(row.group, *place, None, text)

    def keep_within_limits(self) -> None:
        for group, view in list(islice(self.versions, max(0, len(self.versions) - VIEWS_LIMIT))):
            del self.versions[group, view]
            self.told.pop(f"{group} {view}", None)
