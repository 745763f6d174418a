"""The clients that one controller speaks for: their channels, and what each was told and has answered in each group."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.engine import Channel, Effect, SendFrame
from unisono.identity import ProcessId, ViewId
from unisono.virtual_synchrony.session.view import SessionView
from unisono.wire.controller_frames import Dismissed, Installed, Prepare
from unisono.wire.server_frames import Departure, digest_of, write_server_frame


class Place:
    """One client in one group.

    In bytes: `outstanding` is what it was sent and its application has not taken, `waiting` what it sent and has not
    left the controller.
    """

    __slots__ = ("_told", "channel", "entry", "in_view", "outstanding", "process", "ready", "waiting")

    def __init__(self, process: ProcessId, channel: Channel, entry: int) -> None:
        self.process = process
        self.channel = channel
        self.entry = entry
        self._told: dict[ProcessId, None] | None = None
        """The members that it was told last."""
        self.in_view = False
        self.ready = False
        """It sends nothing more in its view."""
        self.outstanding = 0
        self.waiting = 0

    def prepare(self, group: str, change: int, view: SessionView, digest: int) -> Effect:
        """Tell it that the view is about to change, as a difference to what it was told last."""
        told = {} if self._told is None else self._told
        expected = dict.fromkeys(view.members)
        added = tuple(member for member in expected if member not in told)
        gone = [member for member in told if member not in expected]
        removed = tuple((member, view.gone.get(member, Departure.UNKNOWN)) for member in gone)
        frame = Prepare(group, change, self._told is None, added, removed, digest)
        self._told = expected
        return SendFrame(self.channel, write_server_frame(frame))

    def install(self, group: str, view: ViewId, apart: tuple[ProcessId, ...]) -> Effect:
        self.in_view, self.ready = True, False
        return SendFrame(self.channel, write_server_frame(Installed(group, view, apart)))

    def dismiss(self, group: str, reason: str, final: bool) -> Effect:
        return SendFrame(self.channel, write_server_frame(Dismissed(group, reason, final)))


class Attendants:
    """All clients of one group at this controller, in the order in which they came."""

    __slots__ = ("places",)

    def __init__(self) -> None:
        self.places: dict[ProcessId, Place] = {}

    def in_view(self) -> Iterable[Place]:
        return [place for place in self.places.values() if place.in_view]

    def all_ready(self) -> bool:
        return all(place.ready for place in self.in_view())

    def of(self, view: SessionView, controller: ProcessId) -> list[Place]:
        """Those for whom this controller speaks in a view: who has just come may be there by another one still."""
        return [place for place in self.places.values() if view.voice(place.process) == controller]

    def prepare(self, group: str, change: int, expected: SessionView, controller: ProcessId) -> list[Effect]:
        """Tell those who are expected."""
        digest = digest_of(expected.members)
        return [place.prepare(group, change, expected, digest) for place in self.of(expected, controller)]

    def send_down(self, frame: bytes, size: int) -> list[Effect]:
        """A message for everybody in the view."""
        effects: list[Effect] = []
        for place in self.in_view():
            place.outstanding += size
            effects.append(SendFrame(place.channel, frame))
        return effects
