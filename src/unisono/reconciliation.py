"""What to do about state when views merge: who tells its state to whom, until all members have the same.

    if isinstance(event, View) and reconciliation.on_view(event):
        await group.send(reconciliation.wrap(my_state()))
    elif isinstance(event, Message) and (told := reconciliation.unwrap(event)) is not None:
        merge_into_mine(told)

Those who came along from the same view have delivered the same messages in it, so one of each side speaks for all.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from unisono.events import Message, StateReceived, View, ViewReason
from unisono.identity import ProcessId, ViewId

PREFIX = b"\0unisono state\0"
"""What a told state begins with; an application's own messages begin otherwise."""


class ToldState(Struct, frozen=True, array_like=True):
    """The state of one side as one of it tells it, and the view in which these processes were that side."""

    view: ViewId
    side: tuple[ProcessId, ...]
    state: bytes
    claim: bool = False
    """It tells only that this side has a state."""


class Reconciliation:
    """One sender's part in it, under timestamp order.

    Merging must be deterministic and must not mind a state that comes twice, or mixed with later messages: a side whose
    speaker fails tells its state again in the next view. A receiver that is no member of views only listens.

    With `transfer` newcomers are given the state by `join(state=...)`, and nobody tells it to them: a process that
    joined counts as of this side until it tells that it has one of its own, as who was the first of a group does when
    it meets others. Who joins says `on_received` before its first view.
    """

    __slots__ = ("_assumed", "_claims", "_given", "_met", "_process", "_told", "_transfer", "_view", "owes", "side")

    def __init__(self, process: ProcessId, transfer: bool = False) -> None:
        self._process = process
        self._transfer = transfer
        self._assumed: set[ProcessId] = set()
        self._given: ViewId | None = None
        self._met = False
        self._claims = False
        self.owes = False
        """This process is to tell its state now, since another side turned out to be there."""
        self._view: View | None = None
        self._told: set[ProcessId] = set()
        self.side: frozenset[ProcessId] = frozenset((process,))
        """Who has the same state as this process."""

    @property
    def settled(self) -> bool:
        """Whether all members of the view have the same state."""
        return self._view is not None and self.side == set(self._view.members)

    def on_received(self, event: StateReceived) -> None:
        """This process was given the state, or is the first: up to that point all have the same."""
        self._given = None if event.point is None else event.point.view

    def on_view(self, view: View) -> bool:
        """A view came: whether this process is to tell its state in it, for its side."""
        self._view = view
        self._told.clear()
        self._assumed.clear()
        self.owes = False
        members = set(view.members)
        self.side = (self.side & set(view.transitional or ())) | {self._process}
        first, self._met = not self._met, self._met or bool(members - self.side)
        if self._given is not None and view.id <= self._given:
            self.side |= members
            return False
        speaks = self._process in members and self._process == min(self.side)
        if self._transfer:
            joined = {process for process, reason in view.reasons if reason is ViewReason.JOINED}
            self._assumed = (joined & members) - self.side
            self.side |= self._assumed
        self._claims = first and self.settled and bool(self._assumed)
        return speaks and (self._claims or not self.settled)

    def wrap(self, state: bytes | Callable[[], bytes]) -> bytes:
        """The message that tells the state of this process, as it was when the view came.

        With `transfer`, it may tell only that there is one; a state that is made by a call is not made then.
        """
        if self._view is None:
            raise ValueError("there was no view yet; tell a state when on_view says so")
        claim, self._claims, self.owes = self._claims, False, False
        told = b"" if claim else state if isinstance(state, bytes) else state()
        side = tuple(sorted(self.side - self._assumed))
        return PREFIX + msgspec.msgpack.encode(ToldState(self._view.id, side, told, claim))

    def unwrap(self, message: Message) -> bytes | None:
        """The state that a message tells, to be merged, or None where it is another message; b"" merges nothing."""
        if not message.data.startswith(PREFIX):
            return None
        try:
            told = msgspec.msgpack.decode(message.data[len(PREFIX) :], type=ToldState)
        except msgspec.DecodeError:  # an application's own message that begins alike
            return None
        if self._view is not None and told.view == message.view == self._view.id:
            if not self._assumed.isdisjoint(told.side):
                self.side -= self._assumed
                self._assumed.clear()
                self.owes = self._process == min(self.side)
            if not told.claim:
                self._told.update(told.side)
            if self._told >= set(self._view.members):
                self.side = frozenset(self._view.members)
        return told.state
