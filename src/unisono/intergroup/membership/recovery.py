"""What the members of a proposal bring to the end of their views, and what the next view must therefore be."""

from __future__ import annotations

from unisono.identity import ProcessId, ViewId
from unisono.intergroup.membership import view as views
from unisono.intergroup.membership.agreement import Proposal
from unisono.wire.membership_messages import NewView, Origin, RecoveryInfo, Seat, UpTo


class Recovery:
    """One proposal on its way to a view, as one of its members knows it."""

    __slots__ = ("_process", "infos", "lacks", "origins", "proposal", "ready")

    def __init__(self, process: ProcessId) -> None:
        self._process = process
        self.proposal: Proposal | None = None
        self.infos: dict[ProcessId, RecoveryInfo] = {}
        self.ready: dict[ProcessId, int] = {}
        """The proposal that each is ready for."""
        self.lacks: tuple[UpTo, ...] = ()
        """What this process itself cannot get."""
        self.origins: tuple[Origin, ...] = ()

    def begin(self) -> None:
        """Another repair begins: whatever could not be got in the last one is forgotten."""
        self.lacks = ()

    def forget(self) -> None:
        """The repair is over: nothing that was said for it is taken for another."""
        self.infos.clear()
        self.ready.clear()
        self.proposal = None

    def gathered(self) -> dict[ProcessId, RecoveryInfo] | None:
        """The recovery information of all who are proposed, if it is in."""
        assert self.proposal is not None
        infos: dict[ProcessId, RecoveryInfo] = {}
        for process in self.proposal.processes:
            info = self.infos.get(process)
            if info is None or info.proposal != self.proposal.number:
                return None
            infos[process] = info
        return infos

    @property
    def late(self) -> set[ProcessId]:
        """Who has not said yet what it brings."""
        assert self.proposal is not None
        number, processes = self.proposal.number, self.proposal.processes
        return {one for one in processes if one not in self.infos or self.infos[one].proposal != number}

    @property
    def unready(self) -> set[ProcessId]:
        """Who has not said yet that it is ready."""
        assert self.proposal is not None
        number = self.proposal.number
        return {process for process in self.proposal.processes if self.ready.get(process) != number}

    @property
    def own_origin(self) -> Origin:
        """The view that this process comes from, and where it ends."""
        return next(origin for origin in self.origins if self._process in origin.entrants)

    @property
    def seats(self) -> tuple[Seat, ...]:
        """Where each member starts in the next view, once all have said what they bring."""
        assert self.proposal is not None
        return views.seats(self.proposal, self.infos)

    @property
    def next_id(self) -> ViewId:
        """The identifier of the next view, once all have said what they bring."""
        assert self.proposal is not None
        leader, attempt = self.proposal.members[0]
        members = {process: self.infos[process] for process in self.proposal.processes}
        return ViewId(views.start_time(members), leader, attempt)

    def leads_to(self, message: NewView) -> bool:
        """Whether a view is what the recovery information says that it must be."""
        return (message.view, message.seats, message.origins) == (self.next_id, self.seats, self.origins)
