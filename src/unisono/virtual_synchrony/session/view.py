"""A view of a session: who is in it, who takes part in the algorithm, and in which place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unisono.events import View, ViewReason
from unisono.identity import ProcessId, StartPoint, ViewId
from unisono.wire.server_frames import Departure, Entry

_WORDS = {
    Departure.UNKNOWN: ViewReason.GONE,
    Departure.SUSPECTED: ViewReason.SUSPECTED,
    Departure.LEFT: ViewReason.LEFT,
    Departure.RESTARTED: ViewReason.RESTARTED,
}
NOTHING_TOLD: Mapping[ProcessId, Departure] = {}


class SessionView:
    """An identifier with its members in order. Participants send streams and cuts, and are named by their seats.

    A member is a participant, or a controller is one for it. A controller is no member: its entry names itself as
    the one that speaks for it. `gone` is what the servers say of those who were expected before, and are not here.
    """

    __slots__ = ("_voices", "gone", "id", "mark", "members", "participants", "seats", "words")

    def __init__(
        self, view_id: ViewId, entries: Iterable[Entry], gone: Mapping[ProcessId, Departure] = NOTHING_TOLD
    ) -> None:
        self.id = view_id
        self.gone = gone
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
    gone: Mapping[ProcessId, Departure],
) -> View:
    """What an application is told of a new view, that follows one with the members `before`; `gone` says why."""
    known, now, names = set(before), set(members), {member.name for member in members}
    came = [(member, ViewReason.JOINED) for member in members if member not in known]
    went = [
        (member, ViewReason.RESTARTED if member.name in names else _WORDS[gone.get(member, Departure.UNKNOWN)])
        for member in before
        if member not in now
    ]
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
