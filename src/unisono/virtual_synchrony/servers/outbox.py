"""What one call of a server comes to: effects in the order in which to carry them out."""

from __future__ import annotations

from typing import Any

from unisono.engine import Channel, CloseChannel, Effect, Note, SendFrame
from unisono.wire.server_frames import Refused, write_server_frame


class Outbox:
    """The effects so far, shared by the parts of a server."""

    __slots__ = ("effects",)

    def __init__(self) -> None:
        self.effects: list[Effect] = []

    def send(self, channel: Channel, frame: Any) -> None:
        self.effects.append(SendFrame(channel, write_server_frame(frame)))

    def send_all(self, channels: list[Channel], frame: Any) -> None:
        """One frame to many, written once."""
        if channels:
            data = write_server_frame(frame)
            self.effects += [SendFrame(channel, data) for channel in channels]

    def close(self, channel: Channel) -> None:
        self.effects.append(CloseChannel(channel))

    def refuse(self, channel: Channel, reason: str) -> None:
        """Tell a client why it cannot be here, and close."""
        self.note(reason)
        self.send(channel, Refused(reason))
        self.close(channel)

    def note(self, reason: str) -> None:
        self.effects.append(Note(f"server: {reason}"))

    def drain(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects
