"""Asks the members of one group, without being one: a question to all of them, and answers until the round ends.

The question is put again a few times in a round, since it or an answer may be lost, and members of a mesh are found one
after another; it names those who have answered. The end of a round is told by an empty delivery.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from unisono.engine import (
    DatagramReceived,
    Deliver,
    Effect,
    Entropy,
    Fact,
    Note,
    SendDatagram,
    Start,
    TimePassed,
    multicast_address,
)
from unisono.identity import ProcessId, why_bad_name
from unisono.reliable.deadlines import Deadlines
from unisono.sealing import NullSeal, Seal
from unisono.settings import Settings
from unisono.units import MILLISECOND, SECOND
from unisono.wire.layout import group_number
from unisono.wire.messages import ControlPacket
from unisono.wire.probe_messages import (
    KNOWN_LIMIT,
    SPREAD_LIMIT,
    ProbeAnswer,
    ProbedView,
    ProbeRequest,
    pack_known,
)
from unisono.wire.reading import read_datagram
from unisono.wire.refusals import Refusal
from unisono.wire.writing import DatagramWriter

LEAST_WAIT = 10 * MILLISECOND
MOST_WAIT = 60 * SECOND
AGAIN = (8, 4, 2)
"""The question is put again after these parts of the wait: an eighth, a quarter, a half."""
SPREAD = 4
"""Answers are spread over this part of the wait."""
ANSWER_LIMIT = 10_000
"""The most members of which one round tells."""


class Reason(StrEnum):
    """Why a datagram that came told nothing."""

    NO_ANSWER = "probe: not an answer to this probe"
    OTHER_GROUP = "probe: an answer from another group"
    LATE = "probe: an answer to another round"
    BAD_NAME = "probe: an answer with a name that is none"
    TOO_MANY = "probe: no room for another answer"


class Round(Struct, frozen=True):
    """The answers of one round."""

    number: int
    answers: dict[ProcessId, ProbeAnswer]


class Asker:
    """An engine that asks one group: once, or in rounds that begin `every` so often."""

    __slots__ = (
        "_again",
        "_answers",
        "_began",
        "_deadlines",
        "_every",
        "_group",
        "_number",
        "_round",
        "_scope",
        "_seal",
        "_token",
        "_wait",
        "_writer",
        "finished",
    )

    def __init__(
        self,
        group: str,
        realm: str,
        name: str,
        entropy: Entropy,
        wait: int = SECOND,
        every: int | None = None,
        scope: int = Settings().scope,
        seal: Seal | None = None,
    ) -> None:
        assert LEAST_WAIT <= wait <= MOST_WAIT, "whoever asks is told the limits"
        self._group = group
        self._number = group_number(realm, group)
        self._seal = seal or NullSeal()
        self._token = int.from_bytes(entropy(8), "big") >> 2
        process = ProcessId(name, int.from_bytes(entropy(8), "big") >> 1)
        self._writer = DatagramWriter(process, self._number, self._seal, Settings().datagram_bytes)
        self._wait = wait
        self._every = None if every is None else max(every, wait)
        self._scope = scope
        self._deadlines = Deadlines()
        self._round = 0
        self._began = 0
        self._again: list[int] = []
        self._answers: dict[ProcessId, ProbeAnswer] = {}
        self.finished: Round | None = None
        """The last round that is over."""

    def deadline(self) -> int | None:
        return self._deadlines.earliest()

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        if isinstance(fact, DatagramReceived):
            return self._on_datagram(fact)
        if isinstance(fact, Start):
            return self._begin(now)
        if isinstance(fact, TimePassed):
            return [effect for name in self._deadlines.expire(now) for effect in self._on_time(name, now)]
        return []

    def _begin(self, now: int) -> list[Effect]:
        self._round += 1
        self._began = now
        self._answers = {}
        self._again = [now + self._wait // part for part in AGAIN]
        self._deadlines.set("end", now + self._wait)
        return self._ask()

    def _on_time(self, name: str, now: int) -> list[Effect]:
        if name == "begin":
            return self._begin(now)
        if name == "again":
            return self._ask()
        self._deadlines.clear("again")
        self.finished = Round(self._round, self._answers)
        if self._every is not None:
            self._deadlines.set("begin", max(self._began + self._every, now))
        return [Deliver(self._group, "", 0, ())]

    def _ask(self) -> list[Effect]:
        """Put the question, unless more have answered than it can name: the next round asks the rest."""
        if self._again:
            self._deadlines.set("again", self._again.pop(0))
        if len(self._answers) > KNOWN_LIMIT:
            return []
        spread = min(self._wait // SPREAD, SPREAD_LIMIT)
        request = ProbeRequest(self._token, self._round, spread, pack_known(sorted(self._answers)))
        to = multicast_address(self._group)
        return [SendDatagram(to, datagram, self._scope) for datagram in self._writer.control([request])]

    def _on_datagram(self, fact: DatagramReceived) -> list[Effect]:
        packet = read_datagram(fact.data, self._seal)
        if isinstance(packet, Refusal):
            return [Note(packet)]
        if packet.group != self._number:
            return [Note(Reason.OTHER_GROUP)]
        if not isinstance(packet, ControlPacket):
            return [Note(Reason.NO_ANSWER)]
        effects: list[Effect] = [Note(refused) for refused in packet.refused]
        for message in packet.messages:
            if not isinstance(message, ProbeAnswer) or message.token != self._token:
                effects.append(Note(Reason.NO_ANSWER))
            elif (ignore := self._why_ignore(packet.source, message)) is not None:
                effects.append(Note(ignore))
            else:
                self._answers[packet.source] = message
        return effects

    def _why_ignore(self, source: ProcessId, answer: ProbeAnswer) -> Reason | None:
        if answer.round != self._round or not self._deadlines.is_set("end"):
            return Reason.LATE
        if any(why_bad_name(process.name) is not None for process in _named(answer)):
            return Reason.BAD_NAME
        if source not in self._answers and len(self._answers) >= ANSWER_LIMIT:
            return Reason.TOO_MANY
        return None


def _named(answer: ProbeAnswer) -> list[ProcessId]:
    """Every process that an answer names: names are shown, so they must be names."""
    named = [silent.process for silent in answer.suspects]
    for view in (answer.agreed, answer.shown):
        if isinstance(view, ProbedView):
            named += [view.id.leader, *view.members]
    return named
