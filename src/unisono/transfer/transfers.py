"""All transfers of one process: who wants a state, who gives one, and which channel belongs to what.

An engine of its own, stacked by the node beside the engines of the groups. It sees what these deliver, and so knows the
point that each group has come to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from unisono.engine import (
    Address,
    Channel,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    ClaimState,
    CloseChannel,
    Effect,
    Fact,
    FrameReceived,
    Note,
    RenewState,
    SendFrame,
    StateLoaded,
    StateNotLoaded,
    StateNotSaved,
    StateSaved,
    StorageDone,
    StorageFailed,
    TimePassed,
)
from unisono.events import Event, Message, View
from unisono.identity import ProcessId
from unisono.settings import Settings
from unisono.transfer.fetching import Fetching
from unisono.transfer.quiet import Quiet
from unisono.transfer.reasons import Reason
from unisono.transfer.serving import Serving
from unisono.transfer.track import Track
from unisono.units import SECOND
from unisono.wire.transfer_frames import (
    Lack,
    Lacking,
    Want,
    read_newcomer_frame,
    read_provider_frame,
    write_transfer_frame,
)

FIRST_REQUEST = 1 << 32
"""Requests to the disk from this number on, and channels, are of transfers."""
CALLERS_LIMIT = 64
"""Channels that others may hold open here at a time."""
CALL_TIMEOUT = 10 * SECOND
"""A caller that has not said what it wants by then is turned away."""


class Ward:
    """One group with a state."""

    __slots__ = ("fetching", "quiet", "serving", "settings", "track")

    def __init__(self, settings: Settings, track: Track, quiet: Quiet, serving: Serving, fetching: Fetching) -> None:
        self.settings = settings
        self.track = track
        self.quiet = quiet
        self.serving = serving
        self.fetching: Fetching | None = fetching
        """None when this process has the state."""


class Transfers:
    """One process's part in all transfers. `lookup` says where a member of a group is."""

    def __init__(self, process: ProcessId, lookup: Callable[[str, ProcessId], Address | None]) -> None:
        self._process = process
        self._lookup = lookup
        self._numbers = FIRST_REQUEST
        self._groups: dict[str, Ward] = {}
        self._callers: dict[Channel, int] = {}
        self._served: dict[Channel, str] = {}

    def __bool__(self) -> bool:
        """Whether any group here has a state."""
        return bool(self._groups)

    @property
    def groups(self) -> list[str]:
        return sorted(self._groups)

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def has_state(self, group: str) -> bool:
        ward = self._groups.get(group)
        return ward is not None and ward.fetching is None

    def deadline(self) -> int | None:
        dues: list[int | None] = [since + CALL_TIMEOUT for since in self._callers.values()]
        for ward in self._groups.values():
            dues += [one.deadline() for one in (ward.fetching, ward.serving) if one is not None]
        return min((due for due in dues if due is not None), default=None)

    # The groups of this process.

    def join(self, group: str, settings: Settings, now: int) -> None:
        """This process is in a group that has a state, and has none of it yet."""
        track = Track()
        serving = Serving(group, settings, track, self._new_request)
        quiet = Quiet(self._process, lambda other: self._lookup(group, other))
        fetching = self._new_fetching(group, settings, quiet, now)
        self._groups[group] = Ward(settings, track, quiet, serving, fetching)

    def leave(self, group: str) -> list[Effect]:
        ward = self._groups.pop(group)
        for channel in ward.serving.channels:
            self._served.pop(channel, None)
        effects = ward.serving.close()
        return effects if ward.fetching is None else effects + ward.fetching.close()

    def on_events(self, group: str, events: Iterable[Event], now: int) -> list[Effect]:
        """What a group just handed to the application."""
        ward = self._groups[group]
        effects: list[Effect] = []
        for event in events:
            if isinstance(event, Message):
                ward.track.on_message(event)
                if ward.fetching is not None and event.carrier == self._process and _is_alone(ward, self._process):
                    effects += ward.fetching.on_message_alone(now)
            elif isinstance(event, View):
                ward.track.on_view(event)
                ward.quiet.on_view(event)
                point = ward.track.point
                if ward.fetching is not None and point is not None:
                    effects += ward.fetching.on_view(event, point, now)
        if ward.serving.waits:
            effects += ward.serving.advance()
        return effects + self._settle(ward)

    # Facts.

    def owns(self, fact: Fact) -> bool:
        """Whether a fact of a channel or of the disk is one of these."""
        if isinstance(fact, ChannelOpened | ChannelClosed | ChannelFailed | FrameReceived):
            channel = fact.channel
            return channel in self._callers or channel in self._served or channel >= FIRST_REQUEST
        return isinstance(fact, StorageDone | StorageFailed) and fact.request >= FIRST_REQUEST

    def handle(self, fact: Fact, now: int) -> list[Effect]:
        if isinstance(fact, FrameReceived):
            return self._on_frame(fact, now)
        if isinstance(fact, StorageDone | StorageFailed):
            return self._on_storage(fact, now)
        if isinstance(fact, TimePassed):
            return self._on_time(now)
        if isinstance(fact, ChannelOpened):
            return self._on_opened(fact, now)
        if isinstance(fact, ChannelClosed | ChannelFailed):
            return self._on_end(fact.channel, now)
        assert isinstance(fact, StateSaved | StateNotSaved | StateLoaded | StateNotLoaded | ClaimState | RenewState), (
            "nothing else is for transfers"
        )
        ward = self._groups.get(fact.group)
        if ward is None:
            return [Note(Reason.CAME_TO_NOTHING)]
        return self._on_application(fact.group, ward, fact, now) + self._settle(ward)

    def _on_application(
        self,
        group: str,
        ward: Ward,
        fact: StateSaved | StateNotSaved | StateLoaded | StateNotLoaded | ClaimState | RenewState,
        now: int,
    ) -> list[Effect]:
        fetching = ward.fetching
        if isinstance(fact, StateSaved):
            return ward.serving.on_saved(fact.request, fact.size)
        if isinstance(fact, StateNotSaved):
            return self._forget_ended(group, ward.serving.on_not_saved(fact.request))
        if isinstance(fact, RenewState):
            return [Note(Reason.CAME_TO_NOTHING)] if fetching is not None else self._renew(group, ward, now)
        if fetching is None:
            return [Note(Reason.CAME_TO_NOTHING)]
        if isinstance(fact, StateLoaded):
            if (point := fetching.point_of(fact.request)) is not None:
                ward.track.learn(point)
            return fetching.on_loaded(fact.request)
        if isinstance(fact, StateNotLoaded):
            return fetching.on_not_loaded(fact, now)
        return fetching.claim()

    def _renew(self, group: str, ward: Ward, now: int) -> list[Effect]:
        """Be a newcomer again, who has every message from here on."""
        for channel in ward.serving.channels:
            self._served.pop(channel, None)
        effects = ward.serving.close()
        ward.fetching = self._new_fetching(group, ward.settings, ward.quiet, now)
        point = ward.track.point
        if ward.track.view is not None and point is not None:
            effects += ward.fetching.on_view(ward.track.view, point, now)
        return effects

    def _on_time(self, now: int) -> list[Effect]:
        effects: list[Effect] = []
        for channel, since in sorted(self._callers.items()):
            if since + CALL_TIMEOUT <= now:
                del self._callers[channel]
                effects += [Note(Reason.SILENT_NEWCOMER), CloseChannel(channel)]
        for group, ward in sorted(self._groups.items()):
            if ward.fetching is not None:
                effects += ward.fetching.on_time(now)
            effects += self._forget_ended(group, ward.serving.on_time(now))
            effects += self._settle(ward)
        return effects

    def _on_storage(self, fact: StorageDone | StorageFailed, now: int) -> list[Effect]:
        data = fact.records[0] if isinstance(fact, StorageDone) and fact.records else None
        for group, ward in sorted(self._groups.items()):
            if ward.serving.reads(fact.request):
                return self._forget_ended(group, ward.serving.on_read(fact.request, data))
            if ward.fetching is not None:
                effects = (
                    ward.fetching.on_stored(fact.request, now)
                    if isinstance(fact, StorageDone)
                    else ward.fetching.on_not_stored(fact.request, fact.reason, now)
                )
                if effects:
                    return effects + self._settle(ward)
        return []

    # Channels.

    def on_called(self, channel: Channel, now: int) -> list[Effect]:
        """Another process opened a channel to this one."""
        if len(self._callers) + len(self._served) >= CALLERS_LIMIT:
            return [Note(Reason.NO_ROOM), CloseChannel(channel)]
        self._callers[channel] = now
        return []

    def _on_opened(self, fact: ChannelOpened, now: int) -> list[Effect]:
        fetching = self._by_channel(fact.channel)
        return [CloseChannel(fact.channel)] if fetching is None else fetching.on_opened(now)

    def _on_end(self, channel: Channel, now: int) -> list[Effect]:
        self._callers.pop(channel, None)
        group = self._served.pop(channel, None)
        if group is not None:
            ward = self._groups[group]
            return ward.serving.on_end(channel) + ward.serving.advance()
        for ward in self._groups.values():
            if ward.fetching is not None and ward.fetching.channel == channel:
                return ward.fetching.on_end(now) + self._settle(ward)
        return []

    def _on_frame(self, fact: FrameReceived, now: int) -> list[Effect]:
        channel = fact.channel
        if channel > 0:
            for ward in self._groups.values():
                if ward.fetching is not None and ward.fetching.channel == channel:
                    return ward.fetching.on_frame(read_provider_frame(fact.data), now) + self._settle(ward)
            return []
        frame = read_newcomer_frame(fact.data)
        group = self._served.get(channel)
        if group is not None and frame is not None and not isinstance(frame, Want):
            return self._forget_ended(group, self._groups[group].serving.on_frame(channel, frame, now))
        if group is None and isinstance(frame, Want):
            del self._callers[channel]
            return self._on_want(channel, frame, now)
        return [Note(Reason.BAD_NEWCOMER_FRAME), CloseChannel(channel), *self._on_end(channel, now)]

    def _on_want(self, channel: Channel, want: Want, now: int) -> list[Effect]:
        ward = self._groups.get(want.group)
        if ward is None:
            lacking = Lacking(Lack.STATELESS, want.floor.view)
            return [SendFrame(channel, write_transfer_frame(lacking)), CloseChannel(channel)]
        if ward.fetching is not None:
            return ward.serving.refuse(channel, Lack.NEWCOMER, ward.fetching.known)
        self._served[channel] = want.group
        return self._forget_ended(want.group, ward.serving.on_want(channel, want, now))

    def _forget_ended(self, group: str, effects: list[Effect]) -> list[Effect]:
        """Of the channels of a group, keep those that still stand."""
        stand = set(self._groups[group].serving.channels)
        for channel in [one for one, of in self._served.items() if of == group and one not in stand]:
            del self._served[channel]
        return effects

    def _by_channel(self, channel: Channel) -> Fetching | None:
        fetchings = (ward.fetching for ward in self._groups.values() if ward.fetching is not None)
        return next((fetching for fetching in fetchings if fetching.channel == channel), None)

    def _settle(self, ward: Ward) -> list[Effect]:
        """Who has the state is no newcomer any more."""
        if ward.fetching is not None and ward.fetching.done:
            ward.fetching = None
        return []

    def _new_fetching(self, group: str, settings: Settings, quiet: Quiet, now: int) -> Fetching:
        return Fetching(group, self._process, settings, quiet, self._new_channel, self._new_request, now)

    def _new_request(self) -> int:
        self._numbers += 1
        return self._numbers

    def _new_channel(self) -> Channel:
        return Channel(self._new_request())


def _is_alone(ward: Ward, process: ProcessId) -> bool:
    return ward.track.view is not None and ward.track.view.members == (process,)
