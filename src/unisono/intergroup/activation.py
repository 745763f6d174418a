"""The receiver's half of the activation handshake (000 4.7.1), while it lasts.

The source counts the receiver from its grant on, so that the receiver need not be in any stability report before it
knows its activation point. Requests are repeated; a source that never answers is reported and left alone for a while,
or until it asks this process.
"""

from __future__ import annotations

from collections.abc import Callable

from unisono.engine import Address
from unisono.events import SourceUnavailable
from unisono.identity import ProcessId
from unisono.intergroup.context import Context
from unisono.reliable.step import Step
from unisono.wire.messages import ActivationRequest, Deactivation


class Activation:
    """One attempt to follow a source, or the rest after one that failed."""

    __slots__ = ("address", "asked_at", "attempt", "due", "resting", "tries")

    def __init__(self, address: Address, attempt: int, due: int) -> None:
        self.address = address
        self.attempt = attempt
        self.due = due
        self.tries = 0
        self.asked_at = 0
        self.resting = False

    def become_resting(self, until: int) -> None:
        self.resting = True
        self.due = until


class Activations:
    """Whom one receiver has asked to be followed, and who has not granted it yet."""

    __slots__ = ("_context", "_pending", "attempts")

    def __init__(self, context: Context, attempts: int) -> None:
        self._context = context
        self._pending: dict[ProcessId, Activation] = {}
        self.attempts = attempts
        """How many there have been; each has its number."""

    def __bool__(self) -> bool:
        return bool(self._pending)

    def __contains__(self, source: ProcessId) -> bool:
        return source in self._pending

    def __len__(self) -> int:
        return len(self._pending)

    def begin(self, step: Step, source: ProcessId, address: Address) -> None:
        self.attempts += 1
        self._pending[source] = Activation(address, self.attempts, step.now)
        self._context.deadlines.advance("activation", step.now)

    def find(self, source: ProcessId, attempt: int) -> Activation | None:
        """What a source grants, if it was asked for that."""
        activation = self._pending.get(source)
        return None if activation is None or activation.resting or activation.attempt != attempt else activation

    def hurry(self, source: ProcessId, by: int) -> None:
        """Everything waits for a source: ask again soon."""
        activation = self._pending.get(source)
        if activation is not None and not activation.resting and activation.due > by:
            activation.due = by
            self._context.deadlines.advance("activation", by)

    def begin_anew(self, source: ProcessId, now: int) -> None:
        """A source asks this process, so it hears it: what it did not answer before it may never have heard."""
        activation = self._pending.get(source)
        if activation is None:
            return
        activation.tries = 0
        if activation.resting:
            activation.resting = False
            activation.due = now
            self._context.deadlines.advance("activation", now)

    def forget(self, source: ProcessId) -> None:
        self._pending.pop(source, None)

    def give_up(self, step: Step, needed: Callable[[str], bool]) -> None:
        """Of those who are not needed any more: one that may have granted what it was asked need not count this
        process."""
        for source, activation in sorted(self._pending.items()):
            if not needed(source.name):
                if activation.tries:
                    self._context.tell(step, activation.address, Deactivation(source, activation.attempt))
                del self._pending[source]

    def ask_again(self, step: Step) -> None:
        """Ask for what was not granted yet, give up what was asked for too often."""
        settings = self._context.settings
        for source, activation in sorted(self._pending.items()):
            if activation.due > step.now:
                continue
            if activation.resting:
                del self._pending[source]
                continue
            if activation.tries == settings.activation_tries:
                step.mark("activation-given-up")
                step.deliver(SourceUnavailable(source))
                activation.become_resting(step.now + settings.activation_interval * settings.activation_tries)
                continue
            if activation.tries:
                step.mark("activation-asked-again")
            activation.tries += 1
            activation.asked_at = step.now
            activation.due = step.now + self._context.spread(settings.activation_interval)
            self.ask(step, source, activation.address, activation.attempt)
        due = min((activation.due for activation in self._pending.values()), default=None)
        if due is not None:
            self._context.deadlines.set("activation", due)

    def ask(self, step: Step, source: ProcessId, address: Address, attempt: int) -> None:
        """Ask to be counted, or say again how: whether this process waits for everybody's time."""
        settings, extension = self._context.settings, self._context.keys.contribution()
        ordered, sender = settings.service == "timestamp", self._context.role == "sender"
        mark = self._context.mark
        self._context.tell(step, address, ActivationRequest(source, attempt, ordered, sender, mark, extension))
