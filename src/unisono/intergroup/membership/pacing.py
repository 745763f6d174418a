"""The time that a repair takes: when a word is said again, and how long anything is waited for."""

from __future__ import annotations

from unisono.settings import Settings


class Pacing:
    """The clock of one repair."""

    __slots__ = ("_intervals", "_settings", "moved", "since")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._intervals = 0
        self.since = 0
        """When this phase began, or when anybody in the consensus last saw something new."""
        self.moved = 0
        """When the current statements were last said."""

    def begin(self, now: int) -> None:
        """Another phase begins."""
        self.since = now
        self.say_anew()

    def say_anew(self) -> None:
        """There is something new to say: it is said again soon."""
        self._intervals = 0

    def is_time_to_say_again(self, now: int) -> bool:
        """Whether to say the same again; the next time it takes longer."""
        if now < self.moved + self.interval:
            return False
        self._intervals += 1
        return True

    @property
    def interval(self) -> int:
        """How long to wait before the same is said again: longer each time."""
        return (self._settings.keep_alive // 4) << min(self._intervals, 3)

    @property
    def grace(self) -> int:
        """How long an accusation may stay alone before it is settled."""
        return self._settings.suspicion // 2

    def patience(self, rank: int) -> int:
        """The time that a phase may stand still before somebody is named who holds it up.

        A process of a higher rank waits for those of a lower one, which know more of the cause and name it first.
        """
        return 2 * self._settings.suspicion + rank * self.grace

    @property
    def patience_with_strangers(self) -> int:
        """A merge waits so long for the first word of one that is in another view."""
        return self._settings.suspicion

    @property
    def cut_wait(self) -> int:
        """How long the leader waits for what receivers hold."""
        return self._settings.keep_alive // 2
