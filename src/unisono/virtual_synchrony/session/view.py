"""A view of a session: who is in it, who takes part in the algorithm, and in which place."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.events import View, ViewReason
from unisono.identity import ProcessId, StartPoint, ViewId
from unisono.wire.server_frames import Entry


class SessionView:
    """An identifier with its members in order. Participants send streams and cuts, and are named by their seats.

    A member is a participant, or a controller is one for it. A controller is no member: its entry names itself as
    the one that speaks for it.
    """

    __slots__ = ("_voices", "id", "mark", "members", "participants", "seats", "words")

    def __init__(self, view_id: ViewId, entries: Iterable[Entry]) -> None:
        self.id = view_id
        self.mark = view_id.mark
        self.words = str(view_id)
        voices = {entry.process: entry.via for entry in entries}
        self._voices = {process: voices[process] or process for process in sorted(voices)}
        self.members = tuple(process for process in self._voices if voices[process] != process)
        self.participants = tuple(process for process, voice in self._voices.items() if voice == process)
        self.seats = {process: seat for seat, process in enumerate(self.participants)}

    def voice(self, process: ProcessId) -> ProcessId | None:
        """Who takes part in the algorithm for a member: itself, or its controller; None for a stranger."""
        return self._voices.get(process)

    def came_along(self, previous: SessionView | None, together: Iterable[ProcessId]) -> tuple[ProcessId, ...]:
        """The members of both views whose participants came along, and are the same in both."""
        if previous is None:
            return ()
        companions = set(together)
        return tuple(
            member
            for member in self.members
            if (voice := self._voices[member]) in companions and previous.voice(member) == voice
        )


def view_event(
    view: ViewId,
    members: tuple[ProcessId, ...],
    previous: ViewId | None,
    before: tuple[ProcessId, ...],
    along: tuple[ProcessId, ...],
    change: int,
) -> View:
    """What an application is told of a new view, that follows one with the members `before`."""
    known, now = set(before), set(members)
    came = [(member, ViewReason.JOINED) for member in members if member not in known]
    went = [(member, ViewReason.LEFT) for member in before if member not in now]
    return View(
        id=view,
        previous=previous,
        members=members,
        start=tuple(StartPoint(member, 1, 0) for member in members),
        reasons=(*came, *went),
        transitional=along,
        role="sender",
        change=change,
    )
