"""A sender that sends for mere receivers: bounded work, each message once in a session, in the order of asking."""

from __future__ import annotations

from unisono.engine import Address
from unisono.identity import ProcessId
from unisono.intergroup.context import Context
from unisono.intergroup.membership.roles import Roles
from unisono.intergroup.reasons import Reason
from unisono.intergroup.speaking import Speaking
from unisono.reliable.step import Step
from unisono.reliable.windows import MESSAGE_OVERHEAD_BYTES
from unisono.wire.origins import ORIGIN_ROOM_BYTES
from unisono.wire.proxy_messages import BUSY, NOT_A_SENDER, TAKEN, ProxyAnswer, ProxyRequest

ERRAND_LIMIT = 1024
"""For so many others a sender sends, those who asked last."""
EARLY_LIMIT = 64
"""So many parts may come before one that is missing."""
CARRIED_SHARE = 2
"""What waits for others is at most one part in so many of send_queue_bytes, and no more than a window."""


class Errand:
    """What one other asks for, in its last session."""

    __slots__ = ("early", "held", "parts", "session", "size", "taken", "weight")

    def __init__(self, session: int) -> None:
        self.session = session
        self.taken = 0
        self.early: dict[int, ProxyRequest] = {}
        self.parts: list[bytes] = []
        """Of the message that has come in part."""
        self.size = 0
        self.weight = 0
        self.held = 0
        """What is kept here of messages that are not whole."""


class Carrying:
    """What one process sends for others in one group."""

    __slots__ = ("_answers", "_context", "_errands", "_held", "_roles", "_speaking", "high_water")

    def __init__(self, context: Context, speaking: Speaking, roles: Roles) -> None:
        self._context = context
        self._speaking = speaking
        self._roles = roles
        self._errands: dict[ProcessId, Errand] = {}
        self._held = 0
        self._answers: dict[ProcessId, tuple[Address, ProxyAnswer]] = {}
        self.high_water = 0

    @property
    def limit(self) -> int:
        """How much may wait for others."""
        settings = self._context.settings
        return min(settings.window_bytes, settings.send_queue_bytes // CARRIED_SHARE)

    @property
    def carried_bytes(self) -> int:
        """How much waits for others now."""
        return self._speaking.sending.carried_bytes

    def on_request(self, step: Step, origin: ProcessId, address: Address, message: ProxyRequest) -> None:
        if not self._context.believes(step, message.timestamp):
            return
        if not self._is_sender:
            self._answer(origin, address, message.session, 0, NOT_A_SENDER)
            return
        errand = self._errands.pop(origin, None)
        if errand is not None and errand.session < message.session:
            self._held -= errand.held
            errand = None
        self._errands[origin] = errand = errand or Errand(message.session)
        if errand.session > message.session:
            step.note(Reason.ANSWER_STALE)
            return
        if errand.taken < message.serial <= errand.taken + EARLY_LIMIT and message.serial not in errand.early:
            errand.early[message.serial] = message
            self._hold(errand, _weight(message.payload))
        room = self.limit + self._context.settings.message_limit_bytes
        while len(self._errands) > ERRAND_LIMIT or (self._held > room and len(self._errands) > 1):
            self.forget(next(iter(self._errands)))  # it is asked anew, from the first part on
        word = self._take(step, origin, errand)
        self._answer(origin, address, errand.session, errand.taken, word)

    def answer(self, step: Step) -> None:
        """At the end of every fact: one answer to each who asked."""
        if not self._answers:
            return
        answers, self._answers = self._answers, {}
        for _, (address, answer) in sorted(answers.items()):
            self._context.tell(step, address, answer)

    def forget(self, origin: ProcessId) -> None:
        """That life is over, or there is no room for what it began."""
        errand = self._errands.pop(origin, None)
        if errand is not None:
            self._held -= errand.held

    def _hold(self, errand: Errand, size: int) -> None:
        errand.held += size
        self._held += size

    @property
    def _is_sender(self) -> bool:
        sends = self._context.role == "sender" and not self._speaking.leaving and not self._speaking.sending.paused
        return sends and self._roles.wish is None

    def _answer(self, origin: ProcessId, address: Address, session: int, taken: int, word: int) -> None:
        self._answers[origin] = address, ProxyAnswer(origin, session, taken, word)

    def _take(self, step: Step, origin: ProcessId, errand: Errand) -> int:
        """Take the parts that are next, and send the messages that are whole."""
        sending = self._speaking.sending
        sent = False
        word = TAKEN
        while (part := errand.early.get(errand.taken + 1)) is not None:
            if part.index == 0:
                self._let_go(errand)
            size = errand.size + len(part.payload)
            too_large = size + ORIGIN_ROOM_BYTES > self._context.settings.message_limit_bytes
            if too_large or part.index != len(errand.parts):
                step.note(Reason.BAD_REQUEST)
                self.forget(origin)
                break
            whole = part.index + 1 == part.count
            if (
                whole
                and sending.carried_bytes
                and sending.carried_bytes + size + ORIGIN_ROOM_BYTES + MESSAGE_OVERHEAD_BYTES > self.limit
            ):
                word = BUSY
                break
            del errand.early[part.serial]
            errand.taken += 1
            errand.parts.append(part.payload)
            errand.size = size
            errand.weight += _weight(part.payload)
            if whole:
                sending.enqueue_for(origin, part.number, b"".join(errand.parts))
                self._let_go(errand)
                self.high_water = max(self.high_water, sending.carried_bytes)
                sent = True
        if sent:
            self._roles.on_send(step)
            self._speaking.advance(step)
        return word

    def _let_go(self, errand: Errand) -> None:
        """The parts are a whole message, or never will be."""
        self._hold(errand, -errand.weight)
        errand.parts, errand.size, errand.weight = [], 0, 0


def _weight(part: bytes) -> int:
    """What a kept part counts for: many small ones are bounded too."""
    return max(len(part), MESSAGE_OVERHEAD_BYTES)
