"""The processes of one site: one of them hosts, the others are its members, and one takes over when the host goes.

Exactly one control process speaks for a site (000 1.2). It lives in whichever process listens at SITE: by default in
the first one there, or in a daemon, to which an embedded host gives way. What members and host tell each other is
opaque here; the latest counts, and a new host gets it again as a whole. While nobody hosts, a process is `alone`:
nobody speaks for it, and what depends on that must not move.
"""

from __future__ import annotations

from collections.abc import Mapping

from unisono.engine import (
    SITE,
    Channel,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    CloseChannel,
    Effect,
    Fact,
    FrameReceived,
    Listen,
    ListenFailed,
    Listening,
    Note,
    OpenChannel,
    Randomness,
    SendFrame,
    Start,
    StopListening,
    TimePassed,
)
from unisono.identity import ProcessId
from unisono.site.hosting import Hosting
from unisono.site.phases import HEARTBEATS, Change, Joined, Opening, Standing, Taking, Waiting
from unisono.units import MILLISECOND
from unisono.wire.site_frames import (
    CONTENT_LIMIT_BYTES,
    Claim,
    Downward,
    Hello,
    Upward,
    Welcome,
    read_host_frame,
    write_site_frame,
)

FIRST_DELAY = 10 * MILLISECOND
"""About how long the first wait before another try lasts; each further one lasts twice as long."""
_DOUBLINGS_LIMIT = 30


class Site:
    """One process's part in its site. It uses every channel to and from SITE; others are not its business."""

    __slots__ = (
        "_changes",
        "_channels",
        "_downward",
        "_own",
        "_phase",
        "_randomness",
        "_timeout",
        "_tries",
        "_upward",
        "daemon",
    )

    def __init__(self, own: ProcessId, randomness: Randomness, site_timeout: int, daemon: bool = False) -> None:
        self._own = own
        self._randomness = randomness
        self._timeout = site_timeout
        self.daemon = daemon
        self._phase: Waiting | Taking | Opening | Joined | Hosting = Taking()
        self._channels = 0
        self._tries = 0
        self._upward: bytes | None = None
        self._downward: bytes | None = None
        self._changes = Change.NONE

    # What its user reads and says.

    @property
    def standing(self) -> Standing:
        if isinstance(self._phase, Hosting):
            return Standing.HOSTING
        return Standing.MEMBER if isinstance(self._phase, Joined) else Standing.SEEKING

    @property
    def hosting(self) -> bool:
        return self.standing is Standing.HOSTING

    @property
    def alone(self) -> bool:
        """Nobody speaks for this process."""
        return self.standing is Standing.SEEKING

    @property
    def host(self) -> ProcessId | None:
        """Who speaks for this process."""
        if isinstance(self._phase, Hosting):
            return self._own
        return self._phase.host if isinstance(self._phase, Joined) else None

    @property
    def of_daemon(self) -> bool:
        """Whether a daemon speaks for this process."""
        if isinstance(self._phase, Hosting):
            return self.daemon
        return isinstance(self._phase, Joined) and self._phase.of_daemon

    @property
    def guests(self) -> list[ProcessId]:
        """At a host: the other processes that it speaks for."""
        return list(self._phase.guests) if isinstance(self._phase, Hosting) else []

    @property
    def members(self) -> Mapping[ProcessId, bytes]:
        """At a host: what the processes of the site say, its own among them, in the order of their names."""
        if not isinstance(self._phase, Hosting):
            return {}
        said = {self._own: self._upward, **self._phase.guests}
        return {process: upward for process in sorted(said) if (upward := said[process]) is not None}

    @property
    def downward(self) -> bytes | None:
        """The last that a host said, this one or an earlier one."""
        return self._downward

    def set_upward(self, content: bytes) -> list[Effect]:
        """What this process has to say to its host from now on."""
        assert len(content) <= CONTENT_LIMIT_BYTES, "an upward frame has a limit"
        self._upward = content
        if isinstance(self._phase, Joined):
            return [SendFrame(self._phase.channel, write_site_frame(Upward(content)))]
        return []

    def set_downward(self, content: bytes) -> list[Effect]:
        """What this process, while it hosts, has to say to all from now on."""
        assert len(content) <= CONTENT_LIMIT_BYTES, "a downward frame has a limit"
        if not isinstance(self._phase, Hosting):
            return []
        self._downward = content
        return self._phase.speak(content)

    def deadline(self) -> int | None:
        return self._phase.due

    def handle(self, fact: Fact, now: int) -> tuple[list[Effect], Change]:
        """What to do about a fact, and what it changed for the user. A fact of another channel comes to nothing."""
        effects = self._handle(fact, now)
        phase = self._phase
        if isinstance(phase, Hosting):
            if phase.claimant is not None:
                effects += self._give_up(phase, phase.claimant, now)
            elif phase.changed:
                phase.changed = False
                self._changes |= Change.MEMBERS
        changes, self._changes = self._changes, Change.NONE
        return effects, changes

    def _handle(self, fact: Fact, now: int) -> list[Effect]:
        if isinstance(fact, FrameReceived):
            return self._on_frame(fact, now)
        if isinstance(fact, TimePassed):
            return self._on_time(now)
        if isinstance(fact, Start):
            return self._take() if self.daemon else self._open(now)
        if isinstance(fact, ChannelOpened):
            return self._on_opened(fact, now)
        if isinstance(fact, ChannelClosed | ChannelFailed):
            return self._on_end(fact.channel, now)
        if isinstance(fact, Listening) and isinstance(self._phase, Taking):
            return self._become_host(now)
        if isinstance(fact, ListenFailed) and isinstance(self._phase, Taking):
            return [Note(f"site: cannot host it: {fact.reason}"), *self._wait(now, listen=False)]
        return []

    # From phase to phase.

    def _open(self, now: int) -> list[Effect]:
        self._channels += 1
        channel = Channel(self._channels)
        self._phase = Opening(channel, now + self._timeout)
        return [OpenChannel(channel, SITE)]

    def _take(self) -> list[Effect]:
        self._phase = Taking()
        return [Listen(SITE)]

    def _wait(self, now: int, listen: bool) -> list[Effect]:
        """Try again after a while that differs between processes, and grows."""
        delay = min(FIRST_DELAY << min(self._tries, _DOUBLINGS_LIMIT), self._timeout // HEARTBEATS)
        self._tries += 1
        self._phase = Waiting(now + int(delay * (0.5 + self._randomness.random())), listen)
        return []

    def _lose_host(self, now: int) -> list[Effect]:
        """A daemon takes the address at once, and so before the others."""
        return self._take() if self.daemon else self._wait(now, listen=True)

    def _become_member(self, channel: Channel, welcome: Welcome, now: int) -> None:
        self._tries = 0
        self._phase = Joined(channel, now + self._timeout, welcome)
        self._changes |= Change.STANDING
        if welcome.downward is not None:
            self._hear(welcome.downward)

    def _become_host(self, now: int) -> list[Effect]:
        self._tries = 0
        self._phase = Hosting(self._own, self.daemon, self._timeout, now)
        self._changes |= Change.STANDING
        return []

    def _give_up(self, phase: Hosting, claimant: Channel, now: int) -> list[Effect]:
        """Leave the site to a daemon, which learns first that the address is free."""
        channels = [claimant, *(channel for channel in phase.channels if channel != claimant)]
        self._changes |= Change.STANDING | Change.MEMBERS
        return [StopListening(SITE), *map(CloseChannel, channels), *self._wait(now, listen=False)]

    # What happens.

    def _on_time(self, now: int) -> list[Effect]:
        phase = self._phase
        if phase.due is None or phase.due > now:
            return []
        if isinstance(phase, Waiting):
            return self._take() if phase.listen else self._open(now)
        if isinstance(phase, Hosting):
            return phase.on_time(now)
        assert isinstance(phase, Opening | Joined), "nothing else waits"
        if isinstance(phase, Joined):
            self._changes |= Change.STANDING
        return [Note("site: the host is silent"), CloseChannel(phase.channel), *self._take()]

    def _on_opened(self, fact: ChannelOpened, now: int) -> list[Effect]:
        phase = self._phase
        if fact.accepted and fact.peer == SITE:
            if isinstance(phase, Hosting):
                return phase.on_opened(fact.channel, now)
            return [CloseChannel(fact.channel)]  # it came just before the address was given up
        if isinstance(phase, Opening) and phase.channel == fact.channel:
            phase.stands = True
            return [SendFrame(fact.channel, write_site_frame(Hello(self._own, self._upward)))]
        return []

    def _on_end(self, channel: Channel, now: int) -> list[Effect]:
        phase = self._phase
        if isinstance(phase, Hosting):
            phase.on_end(channel)
        elif isinstance(phase, Opening) and phase.channel == channel:
            return self._lose_host(now) if phase.stands else self._take()
        elif isinstance(phase, Joined) and phase.channel == channel:
            self._changes |= Change.STANDING
            return self._lose_host(now)
        return []

    def _on_frame(self, fact: FrameReceived, now: int) -> list[Effect]:
        phase = self._phase
        if isinstance(phase, Hosting):
            return phase.on_frame(fact)
        if not isinstance(phase, Opening | Joined) or phase.channel != fact.channel:
            return []
        frame = read_host_frame(fact.data)
        awaited = isinstance(phase, Opening) and not phase.claimed
        if frame is None or isinstance(frame, Welcome) != awaited:
            if isinstance(phase, Joined):
                self._changes |= Change.STANDING
            return [Note("site: a bad frame of the host"), CloseChannel(fact.channel), *self._wait(now, listen=False)]
        if isinstance(phase, Joined):
            phase.due = now + self._timeout
            if isinstance(frame, Downward):
                self._hear(frame.content)
        elif isinstance(frame, Welcome):
            if self.daemon and not frame.daemon:
                phase.claimed = True
                return [SendFrame(fact.channel, write_site_frame(Claim()))]
            self._become_member(fact.channel, frame, now)
        return []

    def _hear(self, downward: bytes) -> None:
        self._downward = downward
        self._changes |= Change.DOWNWARD
