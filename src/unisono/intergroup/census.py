"""How many are in the group, without a list of them: an estimate with its error, at a bounded cost (000 chapter 8).

A member that wants to know divides the others into parts by a hash of their identities, so finely that some 32 are in
each, and asks one part after another, each twice. The share of the parts that were asked says how many there are in
all; who answered once and not twice says how many answers were lost. Nobody keeps a timer while nobody asks.

Others who want to know listen: every request carries what is known so far. Of two who ask, the lower identity goes on.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from math import ceil, sqrt
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

from unisono.engine import Address
from unisono.events import AudienceEstimate
from unisono.identity import ProcessId
from unisono.intergroup.context import Context
from unisono.intergroup.reasons import Reason
from unisono.reliable.step import Step
from unisono.trace.schema import GaugeRow
from unisono.units import MILLISECOND, SECOND
from unisono.wire.census_messages import LEVEL_LIMIT, CensusAnswer, CensusRequest

PART = 32
"""So many should be in a part, about."""
FIRST_LEVEL = 12
"""How finely a group is divided of which nothing is known: so that few of a hundred thousand answer."""
COARSER = 3
"""By so many levels the parts get larger while hardly anybody answers."""
KEPT = 24
"""So many parts say how large the whole is; older ones are forgotten."""
LISTEN = 500 * MILLISECOND
"""How long answers to one request are waited for."""
SPREAD = 250 * MILLISECOND
"""Over how long the answers to one request are spread."""
REST = 4 * SECOND
"""Between two parts, once there are as many as are kept."""
QUIET = 3 * REST
"""Who has not heard another's request for so long asks itself."""
ANSWERS_LIMIT = 4096
"""Answers that are counted in one part."""
ASKERS_LIMIT = 16
"""Requests of so many are answered at a time."""


class Counted(NamedTuple):
    """What was heard of one part: how many answered the first request, the second, and both."""

    first: int
    second: int
    both: int


def in_part(asker: ProcessId, member: ProcessId, level: int, part: int) -> bool:
    """Whether a member is in that part of the group, as an asker divides it."""
    return xxh3_64_intdigest(f"{asker}\0{member}".encode()) & ((1 << level) - 1) == part


def estimate(parts: list[Counted], level: int) -> AudienceEstimate:
    """How many there are, this process included, by what some of the parts say.

    Two times the same members were asked: as many as answered both times, of those who answered one time, is the share
    of answers that arrive (Chapman's estimate). Every member is in each part with the same chance, which makes the
    error of the rest.
    """
    first, second, both = (sum(numbers) for numbers in zip(*parts, strict=True))
    found = (first + 1) * (second + 1) / (both + 1) - 1
    unheard = (first + 1) * (second + 1) * (first - both) * (second - both) / ((both + 1) ** 2 * (both + 2))
    share = len(parts) / (1 << level)
    error = sqrt(found * (1 - share) + unheard) / share
    return AudienceEstimate(1 + round(found / share), error, 1 + first + second - both)


class Question(NamedTuple):
    """A request that will be answered."""

    address: Address
    serial: int
    due: int


class Turn(Enum):
    """Where one who asks stands."""

    QUIET = auto()
    """It does not ask: nobody here wants to know, or another asks."""
    FIRST = auto()
    SECOND = auto()
    """A part was asked once, or twice."""
    RESTING = auto()


class Census:
    """One process's part in counting its group: it asks, or listens to who asks, while its application wants to know;
    it answers in any case."""

    __slots__ = (
        "_answers",
        "_context",
        "_estimate",
        "_heard_at",
        "_kept",
        "_level",
        "_part",
        "_questions",
        "_serial",
        "_turn",
        "_wanted",
    )

    def __init__(self, context: Context) -> None:
        self._context = context
        self._wanted = False
        self._turn = Turn.QUIET
        self._level = FIRST_LEVEL
        self._part = 0
        self._serial = 0
        self._answers: tuple[set[ProcessId], set[ProcessId]] = (set(), set())
        self._kept: deque[Counted] = deque(maxlen=KEPT)
        self._estimate: AudienceEstimate | None = None
        self._heard_at: int | None = None
        self._questions: dict[ProcessId, Question] = {}

    def want(self, step: Step, wanted: bool) -> None:
        """The application wants to know, or no longer."""
        if wanted == self._wanted:
            return
        self._wanted = wanted
        if not wanted:
            if self._turn is not Turn.QUIET:
                self._say(step, last=True)
            self._become_quiet()
            self._context.deadlines.clear("census")
            return
        soon = step.now + int(self._context.randomness.random() * SPREAD)  # two who begin together rarely both ask
        heard = self._heard_at
        self._context.deadlines.set("census", soon if heard is None else max(soon, heard + QUIET))
        if heard is not None and step.now - heard < QUIET and self._estimate is not None:
            self._tell(step, self._estimate)

    def _become_quiet(self) -> None:
        self._turn = Turn.QUIET
        self._divide(self._level)

    # ── asking ──

    def on_time(self, step: Step) -> None:
        """Ask the next part, or the same once more; or count what came."""
        match self._turn:
            case Turn.QUIET:
                self._estimate = None
                self._begin_part(step)
            case Turn.RESTING:
                self._begin_part(step)
            case Turn.FIRST if self._level and len(self._answers[0]) < PART // 4:
                self._divide(self._level - min(COARSER, self._level))
                self._begin_part(step)
            case Turn.FIRST:
                self._turn = Turn.SECOND
                self._ask(step)
            case Turn.SECOND:
                self._finish_part(step)

    def _begin_part(self, step: Step) -> None:
        self._turn = Turn.FIRST
        self._answers = (set(), set())
        self._serial += self._serial % 2  # the first request of a part has an odd number, the second an even one
        self._ask(step)

    def _ask(self, step: Step) -> None:
        self._serial += 1
        self._say(step)
        self._context.deadlines.set("census", step.now + LISTEN)

    def _say(self, step: Step, last: bool = False) -> None:
        known = self._estimate or AudienceEstimate(0, 0.0, 0)
        numbers = known.count, ceil(known.error), known.least
        self._context.broadcast(step, [CensusRequest(self._serial, self._level, self._part, *numbers, last)])

    def _finish_part(self, step: Step) -> None:
        """Whoever is in a part has answered both requests, or will not."""
        first, second = self._answers
        better = self._better_level(len(first | second))
        if better != self._level:
            self._divide(better)
            self._begin_part(step)
            return
        parts = 1 << self._level
        if len(self._kept) == parts:
            self._kept.popleft()
        self._kept.append(Counted(len(first), len(second), len(first & second)))
        self._part = (self._part + 1) % parts
        self._estimate = estimate(list(self._kept), self._level)
        self._tell(step, self._estimate)
        if len(self._kept) == min(KEPT, parts):
            self._turn = Turn.RESTING
            self._context.deadlines.set("census", step.now + REST)
        else:
            self._begin_part(step)

    def _better_level(self, many: int) -> int:
        """How finely to divide a group that has so many in a part. Parts that were counted are not lightly given up."""
        fewest, most = 2 * PART // 3, 2 * PART
        if self._kept:
            heard = many + sum(first + second - both for first, second, both in self._kept)
            fewest, most, many = PART // 2, 4 * PART, heard // (len(self._kept) + 1)
        if self._level and many < fewest:
            return self._level - 1
        if many > most:
            return min(LEVEL_LIMIT, self._level + (many // PART).bit_length() - 1)
        return self._level

    def _divide(self, level: int) -> None:
        """Divide the group anew: what was counted is of other parts."""
        self._level = level
        self._part = 0
        self._kept.clear()

    def _tell(self, step: Step, known: AudienceEstimate) -> None:
        step.deliver(known)
        step.record(GaugeRow(kind="GAUGE", name="audience estimate", value=known.count))

    def on_answer(self, step: Step, source: ProcessId, message: CensusAnswer) -> None:
        asked = self._serial - message.serial
        if not 0 <= asked <= (self._serial + 1) % 2:
            step.note(Reason.ANSWER_LATE)
            return
        answers = self._answers[(message.serial + 1) % 2]
        if len(answers) < ANSWERS_LIMIT:
            answers.add(source)

    # ── being asked ──

    def on_request(self, step: Step, source: ProcessId, address: Address, message: CensusRequest) -> None:
        """Another counts: answer if it means this process, and listen to what it knows."""
        if not message.last and in_part(source, self._context.process, message.level, message.part):
            self._promise(step, source, address, message.serial)
        if self._turn is not Turn.QUIET and self._context.process < source:
            return
        self._heard_at, self._level = step.now, message.level
        known = AudienceEstimate(message.count, float(message.error), message.least) if message.count else None
        self._estimate = known or self._estimate
        if self._wanted:
            self._become_quiet()
            self._context.deadlines.set("census", step.now + QUIET)
            if known is not None and (message.last or message.serial % 2):
                self._tell(step, known)
        if message.last:  # whoever still wants to know counts anew
            self._heard_at = self._estimate = None
            if self._wanted:
                self._context.deadlines.set("census", step.now + int(self._context.randomness.random() * SPREAD))

    def _promise(self, step: Step, source: ProcessId, address: Address, serial: int) -> None:
        """Answer after a while: not all at once."""
        if source not in self._questions and len(self._questions) >= ASKERS_LIMIT:
            step.note(Reason.TOO_MANY_ASKERS)
            return
        due = step.now + int(self._context.randomness.random() * SPREAD)
        self._questions[source] = Question(address, serial, due)
        self._context.deadlines.advance("answer", due)

    def answer(self, step: Step) -> None:
        """Say to whoever asked that this process is here."""
        for source, question in sorted(self._questions.items()):
            if question.due <= step.now:
                del self._questions[source]
                self._context.tell(step, question.address, CensusAnswer(source, question.serial))
        if self._questions:
            self._context.deadlines.set("answer", min(question.due for question in self._questions.values()))
