"""What membership repair is made of: its phases, and the ground that it stands on."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple, Protocol

from unisono.engine import Address
from unisono.events import Excluded, ViewReason
from unisono.identity import ProcessId
from unisono.intergroup.membership.view import AgreedView
from unisono.reliable.step import Step
from unisono.wire.membership_messages import NewView, Origin, Seat, UpTo


class Phase(Enum):
    """The states of figure 5.4; `COMMIT` is both gathering ready messages and waiting for the view."""

    SETTLED = auto()
    CONSENSUS = auto()
    CUT_INFO = auto()
    RECOVERY_INFO = auto()
    RECOVERY = auto()
    COMMIT = auto()


class Standpoint(NamedTuple):
    """Where a process stands when it halts: what it sent last, its next message's number, what it holds of others."""

    sent: int
    number: int
    held: tuple[UpTo, ...]


class Ground(Protocol):
    """What membership repair stands on: the streams of one process in one group."""

    def follows(self, source: ProcessId) -> bool:
        """Whether everything that a source sends from now on will be here."""
        ...

    def may_merge(self, stranger: ProcessId) -> bool:
        """Whether a sender in another view is followed, and follows this process or is about to be drawn in."""
        ...

    def receivers_silent(self, step: Step, view: AgreedView) -> bool:
        """Whether some receiver has not said yet what it holds of a view."""
        ...

    def halt(self, step: Step, view: AgreedView, alone: bool = False) -> Standpoint:
        """Stop sending and delivering; from here on keep what comes of everybody.

        What is held counts what receivers have and can still give, unless this process goes on alone.
        """
        ...

    def resume(self, step: Step) -> None:
        """Go on as before the halt."""
        ...

    def recover(self, step: Step, origin: Origin, seats: tuple[Seat, ...]) -> None:
        """Fetch what is missing of a view up to its end."""
        ...

    def lacking(self, origin: Origin, seats: tuple[Seat, ...]) -> tuple[UpTo, ...]:
        """The first missing message of each source that is not complete up to its end; empty when nothing lacks."""
        ...

    def may_come(self, source: ProcessId) -> bool:
        """Whether what is missing of a source can still be had."""
        ...

    def still_lacks(self, source: ProcessId, sequence: int) -> bool:
        """Whether a message of a member is missing that is known to exist, or that member is not followed."""
        ...

    def misses(self, source: ProcessId, now: int) -> int | None:
        """The message of a source that everything here waits for too, and has for a while."""
        ...

    def bring(self, step: Step, source: ProcessId, sequence: int, address: Address) -> None:
        """Send a message to a member that lacks it, if it is still here."""
        ...

    def delivered(self, source: ProcessId) -> int:
        """The last sequence of a source that was delivered."""
        ...

    def tell(self, step: Step, event: Excluded) -> None:
        """Tell the application what happened to its view, if it sees agreed views."""
        ...

    def install(self, step: Step, message: NewView, origin: Origin | None, reason: ViewReason) -> None:
        """Deliver what belongs before a view, and let it stand.

        Who is not in it counts no longer: for that reason, if it neither left nor restarted.
        """
        ...
