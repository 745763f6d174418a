"""The stay of one process in one group: it comes, leaves when all have what it sent, or drops out.

Who drops out cannot deliver what the others do: a message is too large for it, or the others have other semantics.
"""

from __future__ import annotations

from unisono.engine import JoinAddress, LeaveAddress
from unisono.events import DroppedOut, Left, SendRefused
from unisono.identity import ProcessId
from unisono.reliable.step import Step
from unisono.trace.schema import MembershipRow
from unisono.virtual_synchrony.reasons import Reason
from unisono.virtual_synchrony.session.context import Context
from unisono.virtual_synchrony.session.flow import Flow
from unisono.virtual_synchrony.session.phases import Phase
from unisono.virtual_synchrony.session.view import SessionView
from unisono.wire.session_messages import ViewStart


class Stay:
    """How a process stands to its group, from before it comes until it has gone."""

    __slots__ = ("_context", "_flow", "misfit", "phase", "since")

    def __init__(self, context: Context, flow: Flow) -> None:
        self._context = context
        self._flow = flow
        self.misfit: str | None = None
        """Why this process cannot be in one group with another."""
        self.phase = Phase.OUTSIDE
        self.since = 0
        """The number of the first view, 0 before."""

    @property
    def outside(self) -> bool:
        return self.phase is Phase.OUTSIDE

    def become_member(self, step: Step, service: str) -> None:
        self.phase = Phase.MEMBER
        step.effect(JoinAddress(self._context.multicast))
        step.record(MembershipRow(kind="JOIN", role="sender"))
        step.statistic("P_INIT", service=service, role="sender", protocol="virtual_synchrony")
        self._context.deadlines.set("keep-alive", step.now)

    def on_view(self, view: SessionView) -> None:
        self.since = self.since or view.id.start

    def become_leaving(self, step: Step) -> None:
        """Send what waits and stay until all have it, or for the leave timeout."""
        if self.phase is not Phase.MEMBER:
            step.note(Reason.NOT_MEMBER)
            return
        self.phase = Phase.LEAVING
        self._context.deadlines.set("leave", step.now + self._context.settings.leave_timeout)

    def compare(self, source: ProcessId, message: ViewStart) -> None:
        """Weak and strong members cannot go on together: who came later goes, of equals the weak one."""
        weak, mine, theirs = self._flow.outgoing.weak, self.since, message.since
        if message.weak == weak or not theirs:
            return
        if not mine or theirs < mine or (theirs == mine and weak):
            here, there = ("weak", "strong") if weak else ("strong", "weak")
            self.misfit = f'{source.name} is in this group with semantics="{there}", and this process with "{here}"'

    def why_drop_out(self) -> str | None:
        if self._flow.refused:
            limit = self._context.settings.message_limit_bytes
            return f"a message is larger than message_limit_bytes ({limit}); join again with a larger one"
        return self.misfit

    def look(self, step: Step, changing: bool) -> None:
        """Go, if this process cannot stay or is done; `changing` while the view is about to change."""
        if (reason := self.why_drop_out()) is not None:
            self.drop_out(step, reason)
        elif self.phase is Phase.LEAVING and self._may_go(changing):
            self._become_outside(step)

    def drop_out(self, step: Step, reason: str) -> None:
        """This process cannot deliver what the others do, and goes."""
        if not self.outside:
            step.deliver(DroppedOut(reason))
            self._become_outside(step)

    def _may_go(self, changing: bool) -> bool:
        streams = self._flow.streams
        if streams is None or not self._context.deadlines.is_set("leave"):
            return True
        if changing or self._flow.outgoing.waiting:
            return False
        return streams.own_floor() >= streams.own.sequence

    def _become_outside(self, step: Step) -> None:
        late = self.phase is Phase.LEAVING and not self._context.deadlines.is_set("leave")
        self.phase = Phase.OUTSIDE
        self._context.deadlines.clear_all()
        for ticket in self._flow.outgoing.drop_queue():
            step.deliver(SendRefused(ticket, Reason.NOT_MEMBER))
        self._flow.void_future(step, "return")
        step.record(MembershipRow(kind="LEAVE", reason="timeout" if late else None))
        step.deliver(Left(not late))
        step.effect(LeaveAddress(self._context.multicast))
