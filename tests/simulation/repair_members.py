"""The members of the model of repair: the rule of unisono, and the plain rule of 000 figures 3.1 and 3.2 to compare."""

from __future__ import annotations

from tests.simulation.repair_model import SOURCE, Member, Request, World
from unisono.reliable.repairs import Repairs
from unisono.reliable.suppression import Asked, Pace, RepairTiming, RequestTiming, Wait
from unisono.reliable.tickets import Tickets

DATAGRAM_BYTES = 1200
HORIZON = 1 << 62


class Suppressed(Member):
    """The rule of unisono.reliable.suppression, called as an engine calls it."""

    def __init__(self, number: int, world: World, pace: Pace = Pace()) -> None:  # noqa: B008 - a tuple
        super().__init__(number, world)
        self.tickets = Tickets()
        self.requests = RequestTiming(self.process, pace)
        self.repairs = Repairs()
        self.timing = RepairTiming(pace)

    @property
    def to_source(self) -> int:
        return self.estimate(SOURCE)

    def on_gap(self, sequence: int) -> None:
        delay = self.requests.delay(self.to_source, self.world.receivers, self.world.random)
        self.tickets.open(sequence, sequence, self.world.now + delay)

    def on_request(self, request: Request) -> None:
        now, random = self.world.now, self.world.random
        asked = Asked(
            self.world.members[request.requester].process,
            self.estimate(request.requester),
            request.to_source,
            request.tries,
        )

        def wait(tries: int) -> Wait:
            return self.requests.backed_off(self.to_source, asked, tries, self.world.receivers, random)

        ranges = [(sequence, sequence) for sequence in request.sequences]
        missing = self.tickets.heard(ranges, now, wait, HORIZON)
        held = [sequence for sequence in request.sequences if sequence not in self.missing]
        hold_down = self.timing.hold_down(asked.distance)
        source = self.world.members[SOURCE].process
        self.requests.on_heard(asked, ranges, missing)
        for sequence in held:
            delay: int | None = 0
            if self.number != SOURCE:
                delay = self.timing.delay(asked, self.to_source, self.world.receivers, random)
            if delay is not None:
                self.repairs.schedule(source, sequence, sequence, DATAGRAM_BYTES, now, delay, hold_down)

    def on_repair(self, sequence: int) -> None:
        self.tickets.fill(sequence)
        self.repairs.heard(self.world.members[SOURCE].process, sequence, self.world.now)

    def on_wake(self) -> None:
        now, random = self.world.now, self.world.random

        def wait(tries: int) -> Wait:
            return self.requests.again(self.to_source, tries, self.world.receivers, random)

        ranges, tries = self.tickets.request(now, wait, 64, HORIZON)
        if ranges:
            self.requests.on_sent(self.to_source, tries, ranges)
            sequences = tuple(sequence for first, last in ranges for sequence in range(first, last + 1))
            self.world.ask(Request(self.number, self.to_source, tries, sequences))
        for repair in self.repairs.take(now):
            self.world.repair(self.number, repair.first)

    def next_due(self) -> int | None:
        dues = [due for due in (self.tickets.next_due(HORIZON), self.repairs.next_due()) if due is not None]
        return max(min(dues), self.world.now) if dues else None


class Timer:
    """A pending request or repair of the plain rule."""

    def __init__(self, due: int, since: int, distance: int) -> None:
        self.due = due
        self.since = since
        self.distance = max(distance, 1)
        self.tries = 0
        self.quiet = 0


class Plain(Member):
    """000 3.3, 3.4 with figures 3.1 and 3.2; requests are repeated (E20), and repairs held down for three distances."""

    def __init__(self, number: int, world: World) -> None:
        super().__init__(number, world)
        self.asking: dict[int, Timer] = {}
        self.repairing: dict[int, Timer] = {}
        self.repaired: dict[int, int] = {}
        self.low_request, self.high_request = 2.0, 2.0
        self.low_repair, self.high_repair = 10.0, 10.0
        self.duplicates, self.average_duplicates = 0, 0.0
        self.request_delay = self.repair_delay = 0.0

    def _draw(self, low: float, high: float, distance: int) -> int:
        return int((low + high * self.world.random.random()) * distance)

    def _average(self, average: float, last: float) -> float:
        return 0.75 * average + 0.25 * last

    def _clamp(self) -> None:
        self.low_request = min(max(self.low_request, 0.5), 2)
        self.high_request = min(max(self.high_request, 1), 100)
        self.low_repair = min(max(self.low_repair, 0.5), 10)
        self.high_repair = min(max(self.high_repair, 1), 100)

    def _set_request(self, timer: Timer) -> None:
        scale = 3 ** min(timer.tries, 4)
        timer.due = self.world.now + scale * self._draw(self.low_request, self.high_request, timer.distance)

    def on_gap(self, sequence: int) -> None:
        self.average_duplicates = self._average(self.average_duplicates, self.duplicates)
        self.duplicates = 0
        if self.request_delay >= 1:
            self.low_request -= 0.05
            if self.average_duplicates < 0.9:
                self.high_request -= 0.1
        elif self.average_duplicates >= 1:
            self.high_request += 0.5
            if self.request_delay < 0.9:
                self.low_request += 0.05
        elif self.average_duplicates < 0.9 and self.request_delay < 0.9:
            self.high_request -= 0.1
        self._clamp()
        timer = Timer(0, self.world.now, self.estimate(SOURCE))
        self._set_request(timer)
        self.asking[sequence] = timer

    def on_request(self, request: Request) -> None:
        now = self.world.now
        for sequence in request.sequences:
            timer = self.asking.get(sequence)
            if timer is not None:
                if timer.tries:
                    self.duplicates += 1
                if now >= timer.quiet:
                    self._decided(timer)
                    timer.tries += 1
                    self._set_request(timer)
                    timer.quiet = now + (timer.due - now) // 2
            elif sequence not in self.missing and sequence not in self.repairing:
                if now < self.repaired.get(sequence, -(1 << 62)) + 3 * self.estimate(request.requester):
                    continue
                if self.repair_delay >= 1:
                    self.low_repair -= 0.05
                elif self.repair_delay < 0.9:
                    self.low_repair += 0.05
                self._clamp()
                distance = self.estimate(request.requester)
                due = now + self._draw(self.low_repair, self.high_repair, distance)
                self.repairing[sequence] = Timer(due, now, distance)

    def _decided(self, timer: Timer) -> None:
        """The request was sent or another's was heard: how long that took, in round trips."""
        if timer.tries == 0:
            self.request_delay = self._average(
                self.request_delay, (self.world.now - timer.since) / (2 * timer.distance)
            )

    def on_repair(self, sequence: int) -> None:
        self.asking.pop(sequence, None)
        self.repaired[sequence] = self.world.now
        timer = self.repairing.pop(sequence, None)
        if timer is not None:
            self.repair_delay = self._average(self.repair_delay, (self.world.now - timer.since) / (2 * timer.distance))
            self.high_repair += -0.05 if self.repair_delay >= 1 else 0.1
            self._clamp()

    def on_wake(self) -> None:
        now = self.world.now
        for sequence, timer in sorted(self.asking.items()):
            if timer.due <= now:
                self._decided(timer)
                self.low_request -= 0.05
                self._clamp()
                tries = timer.tries
                timer.tries += 1
                self._set_request(timer)
                timer.quiet = now + (timer.due - now) // 2
                self.world.ask(Request(self.number, timer.distance, tries, (sequence,)))
        for sequence, timer in sorted(self.repairing.items()):
            if timer.due <= now:
                del self.repairing[sequence]
                self.repaired[sequence] = now
                self.repair_delay = self._average(self.repair_delay, (now - timer.since) / (2 * timer.distance))
                self.low_repair -= 0.05
                self._clamp()
                self.world.repair(self.number, sequence)

    def next_due(self) -> int | None:
        return min((timer.due for timers in (self.asking, self.repairing) for timer in timers.values()), default=None)
