"""What to do about state when views merge: who tells its state to whom, until all members have the same.

    if isinstance(event, View) and reconciliation.on_view(event):
        await group.send(reconciliation.wrap(my_state()))
    elif isinstance(event, Message) and (told := reconciliation.unwrap(event)) is not None:
        merge_into_mine(told)

Those who came along from the same view have delivered the same messages in it, so one of each side speaks for all.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from unisono.events import Message, View
from unisono.identity import ProcessId, ViewId

PREFIX = b"\0unisono state\0"
"""What a told state begins with; an application's own messages begin otherwise."""


class ToldState(Struct, frozen=True, array_like=True):
    """The state of one side as one of it tells it, and the view in which these processes were that side."""

    view: ViewId
    side: tuple[ProcessId, ...]
    state: bytes


class Reconciliation:
    """One sender's part in it, under timestamp order.

    Merging must be deterministic and must not mind a state that comes twice, or mixed with later messages: a side whose
    speaker fails tells its state again in the next view. A receiver that is no member of views only listens.
    """

    __slots__ = ("_process", "_told", "_view", "side")

    def __init__(self, process: ProcessId) -> None:
        self._process = process
        self._view: View | None = None
        self._told: set[ProcessId] = set()
        self.side: frozenset[ProcessId] = frozenset((process,))
        """Who has the same state as this process."""

    @property
    def settled(self) -> bool:
        """Whether all members of the view have the same state."""
        return self._view is not None and self.side == set(self._view.members)

    def on_view(self, view: View) -> bool:
        """A view came: whether this process is to tell its state in it, for its side."""
        self._view = view
        self._told.clear()
        self.side = (self.side & set(view.transitional or ())) | {self._process}
        return not self.settled and self._process in view.members and self._process == min(self.side)

    def wrap(self, state: bytes) -> bytes:
        """The message that tells the state of this process, as it was when the view came."""
        if self._view is None:
            raise ValueError("there was no view yet; tell a state when on_view says so")
        return PREFIX + msgspec.msgpack.encode(ToldState(self._view.id, tuple(sorted(self.side)), state))

    def unwrap(self, message: Message) -> bytes | None:
        """The state that a message tells, to be merged, or None where it is another message."""
        if not message.data.startswith(PREFIX):
            return None
        try:
            told = msgspec.msgpack.decode(message.data[len(PREFIX) :], type=ToldState)
        except msgspec.DecodeError:  # an application's own message that begins alike
            return None
        if self._view is not None and told.view == message.view == self._view.id:
            self._told.update(told.side)
            if self._told >= set(self._view.members):
                self.side = frozenset(self._view.members)
        return told.state
