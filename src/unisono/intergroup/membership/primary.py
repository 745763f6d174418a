"""The primary component: at most one of the views that stand at a time is it (property M7).

A view is primary when it has more than half of the last primary one, and more than half of every later one that
somebody was ready for, because that one may stand somewhere. The first has more than half of the senders expected. A
process that restarted has forgotten, and does not count for what it was before. Between repairs a primary view stays
one while more than half of those who agreed on it are senders.
"""

from __future__ import annotations

from collections.abc import Mapping

from unisono.identity import ProcessId, ViewId
from unisono.intergroup.membership.view import AgreedView, majority
from unisono.wire.membership_messages import PrimaryRecord, RecoveryInfo

ATTEMPT_LIMIT = 16
"""How many different memberships may have been tried since the last primary view before no more are tried."""


class PrimaryRule:
    """What one process knows of the primary component."""

    __slots__ = ("_expected", "attempted", "last")

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self.last: PrimaryRecord | None = None
        self.attempted: tuple[PrimaryRecord, ...] = ()

    def alone(self, process: ProcessId) -> bool | None:
        """Whether a view of this process alone is primary; None where nobody asks."""
        return self._stands({process}, [self.last] if self.last else [], set(self.attempted))

    def may_stand(self, view: AgreedView) -> bool:
        """Whether those who became senders in a view that is not primary may be enough for one that is."""
        return view.message.electors == () and view.id != view.era and 2 * len(view.seats) > self._expected

    @staticmethod
    def electors(members: tuple[ProcessId, ...], primary: bool | None) -> tuple[ProcessId, ...] | None:
        """How a view says whether it is primary: those who agreed on it, of whom half are not enough to go on."""
        if primary is None:
            return None
        return members if primary else ()

    def decide(self, infos: Mapping[ProcessId, RecoveryInfo]) -> bool | None:
        """Whether a view of those who gave these infos is primary; None where nobody asks."""
        primaries = [info.primary for info in infos.values() if info.primary is not None]
        return self._stands(set(infos), primaries, {record for info in infos.values() for record in info.attempted})

    def _stands(
        self, members: set[ProcessId], primaries: list[PrimaryRecord], attempted: set[PrimaryRecord]
    ) -> bool | None:
        if not self._expected:
            return None
        last = max(primaries, key=lambda record: record.view, default=None)
        later = [record for record in attempted if last is None or record.view > last.view]
        if len({record.members for record in later}) >= ATTEMPT_LIMIT:
            return False
        enough = 2 * len(members) > self._expected if last is None else majority(members, last.members)
        return enough and all(majority(members, record.members) for record in later)

    def attempt(self, view: ViewId, members: tuple[ProcessId, ...]) -> None:
        """This process is about to be ready for a primary view, and will not know for certain whether it stands."""
        others = tuple(record for record in self.attempted if record.members != members)
        self.attempted = (*others, PrimaryRecord(view, members))[-ATTEMPT_LIMIT:]

    def installed(self, view: ViewId, members: tuple[ProcessId, ...]) -> None:
        """A primary view stands here: what was tried before it is settled."""
        self.last = PrimaryRecord(view, members)
        self.attempted = ()
