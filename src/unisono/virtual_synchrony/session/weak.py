"""A weak group of a session: views as the servers give them, and reliable delivery in source order across them.

Nobody waits when a view changes: there is no block, no cut and no transitional set. What its sender does not know to be
everywhere when the view changes is sent again in the next one. Whoever has it passes over it by its number, and so does
whoever lacks what was sent before it: of what was sent in one view nobody delivers the later without the earlier.
"""

from __future__ import annotations

from msgspec.structs import replace

from unisono.events import View
from unisono.reliable.step import Step
from unisono.trace.schema import Member, MembershipRow
from unisono.virtual_synchrony.session.change import ViewChange
from unisono.virtual_synchrony.session.group import StrongGroup
from unisono.virtual_synchrony.session.view import SessionView


class WeakGroup(StrongGroup):
    """One process in one weak group."""

    __slots__ = ()

    service = "VS-weak"

    def _become_changing(self, step: Step, change: int, expected: SessionView) -> None:
        if self._synchronizing.change is not None:
            step.mark("vs-cascaded-change")
        self.last_change = change
        self._synchronizing.begin_alone(change, expected)
        members = [Member(*member) for member in expected.members]
        step.record(MembershipRow(kind="START_CHANGE", number=change, members=members))
        self._watch(step)

    def _view_event(self, change: ViewChange, previous: SessionView | None) -> View:
        return replace(super()._view_event(change, previous), transitional=None)
