"""One timestamp order over several groups of a process (000 4.9).

Each group delivers in its own timestamp order; what it delivers is held here until no other group of the domain can
still bring something earlier. One Lamport clock serves all groups of a process, so that timestamps compare. What waits
here counts as not taken by the application, and so is bounded by each group's `event_limit`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from unisono.engine import Deliver, Effect
from unisono.events import Event, Message, SendAccepted, SendRefused
from unisono.identity import ProcessId


class Ordered(Protocol):
    """A group's engine, as far as it matters here."""

    @property
    def reached(self) -> int:
        """Whatever this group still delivers has a later timestamp, or this one where it is its next message's."""
        ...


class Held:
    """Events of one group that wait for the other groups, in order."""

    __slots__ = ("engine", "events")

    def __init__(self, engine: Ordered) -> None:
        self.engine = engine
        self.events: deque[tuple[Event, str, int]] = deque()

    @property
    def key(self) -> tuple[int, ProcessId] | None:
        """The key of the first message that waits; what stands before it waits for nobody."""
        for event, _, _ in self.events:
            if isinstance(event, Message):
                return event.timestamp, event.carrier
        return None


class Interleaving:
    """The groups of one domain, at one process."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, Held] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    def add(self, group: str, engine: Ordered) -> None:
        self._groups[group] = Held(engine)

    def remove(self, group: str) -> list[Effect]:
        """A group is over, or leaves the domain: the rest of it, and what waited for it."""
        held = self._groups.pop(group)
        return [*self._hand_over(group, held, len(held.events)), *self.release()]

    def hold(self, effects: list[Effect]) -> list[Effect]:
        """Keep what has to wait for other groups; the rest goes on. Answers to sends never wait.

        What need not wait keeps its place: a view comes before what is sent in it.
        """
        rest: list[Effect] = []
        kept = False
        for effect in effects:
            held = self._groups.get(effect.group) if isinstance(effect, Deliver) else None
            if held is None or not isinstance(effect, Deliver):
                if kept:
                    rest += self.release()
                    kept = False
                rest.append(effect)
                continue
            kept = True
            answers = tuple(event for event in effect.events if isinstance(event, SendAccepted | SendRefused))
            if answers:
                rest.append(Deliver(effect.group, effect.service, effect.stretch, answers))
            for event in effect.events:
                if not isinstance(event, SendAccepted | SendRefused):
                    held.events.append((event, effect.service, effect.stretch))
        return rest

    def release(self) -> list[Effect]:
        """Everything that nothing can come before any more, in order."""
        released: list[Effect] = []
        while True:
            for group, held in self._groups.items():
                released += self._hand_over(group, held, self._leading(held))
            waiting = [(held.key, group) for group, held in self._groups.items() if held.key is not None]
            if not waiting:
                return released
            key, group = min(waiting)
            assert key is not None, "only those with a message wait"
            if any(held.engine.reached < key[0] for other, held in self._groups.items() if other != group):
                return released
            released += self._hand_over(group, self._groups[group], self._leading(self._groups[group]) + 1)

    @staticmethod
    def _leading(held: Held) -> int:
        """How many events stand before the first message."""
        for place, (event, _, _) in enumerate(held.events):
            if isinstance(event, Message):
                return place
        return len(held.events)

    @staticmethod
    def _hand_over(group: str, held: Held, count: int) -> Iterator[Effect]:
        for _ in range(count):
            event, service, stretch = held.events.popleft()
            yield Deliver(group, service, stretch, (event,))
