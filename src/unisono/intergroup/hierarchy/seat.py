"""A process's seat in the control hierarchy: what it hears from there, and what it says to it.

The control process of a site is in one of its processes, the host (unisono.site). The host runs it; the others get its
table of distances over their channel and send it what they have to say. A process without a site runs its own.
"""

from __future__ import annotations

import msgspec

from unisono.distances import DistanceTable
from unisono.engine import Effect, Fact, Randomness, Start
from unisono.identity import ProcessId
from unisono.intergroup.hierarchy.aggregation import CUT
from unisono.intergroup.hierarchy.process import ControlProcess
from unisono.sealing import Seal
from unisono.settings import Settings
from unisono.site import Site
from unisono.units import SECOND
from unisono.wire.control_messages import Contribution

TELL_EVERY = SECOND
"""How often the table of distances goes to the groups of the host and to the other processes of its site."""

_TABLE = msgspec.msgpack.Decoder(DistanceTable)
_CONTRIBUTIONS = msgspec.msgpack.Decoder(tuple[Contribution, ...])


class Seat:
    """One process. `table` is the newest it knows; None before, and while nobody speaks for its site."""

    __slots__ = (
        "_process",
        "_randomness",
        "_realm",
        "_said",
        "_seal",
        "_settings",
        "_site",
        "_tell_at",
        "_upward",
        "control",
        "table",
    )

    def __init__(
        self,
        realm: str,
        process: ProcessId,
        settings: Settings,
        randomness: Randomness,
        seal: Seal,
        site: Site | None,
    ) -> None:
        self._realm = realm
        self._process = process
        self._settings = settings
        self._randomness = randomness
        self._seal = seal
        self._site = site
        self._said: dict[int, Contribution] = {}
        self._upward: dict[ProcessId, bytes] = {}
        self._tell_at: int | None = None
        self.control: ControlProcess | None = None
        self.table: DistanceTable | None = None

    def start(self, now: int, wall: int) -> list[Effect]:
        return self._take_control(now, wall) if self._site is None else []

    def deadline(self) -> int | None:
        if self.control is None:
            return None
        due = self.control.deadline()
        return self._tell_at if due is None else due if self._tell_at is None else min(due, self._tell_at)

    def handle(self, fact: Fact, now: int, wall: int) -> list[Effect]:
        """A control packet, or the time."""
        if self.control is None:
            return []
        effects = self.control.handle(fact, now, wall)
        if self._tell_at is not None and now >= self._tell_at:
            effects += self._tell(now)
        return effects

    def on_site_changed(self, now: int, wall: int) -> list[Effect]:
        """Another speaks for the site now, or says something new; or the others of it do."""
        site = self._site
        assert site is not None, "a site that changes is there"
        effects: list[Effect] = []
        if site.hosting and self.control is None:
            effects += self._take_control(now, wall)
        elif not site.hosting and self.control is not None:
            effects += self.control.leave(now)
            self.control = self._tell_at = None
        if self.control is not None:
            effects += self._pass_on(self.control, site, now)
        elif site.alone or site.downward is None:
            self.table = None
        else:
            try:
                self.table = _TABLE.decode(site.downward)
            except msgspec.MsgspecError:
                self.table = None
        return effects

    def say(self, contribution: Contribution, urgent: bool, now: int) -> list[Effect]:
        """Replace what this process says of one group and topic."""
        key = contribution.group << 8 | contribution.topic
        if contribution.entries:
            self._said[key] = contribution
        elif self._said.pop(key, None) is None:
            return []
        said = tuple(self._said[key] for key in sorted(self._said))
        if self._site is not None:
            effects = self._site.set_upward(msgspec.msgpack.encode(said))
            if self.control is not None:
                effects += self._pass_on(self.control, self._site, now)
            return effects
        return [] if self.control is None else self.control.contribute(now, self._process, said, urgent)

    def _take_control(self, now: int, wall: int) -> list[Effect]:
        self.control = ControlProcess(self._realm, self._process, self._settings, self._randomness, self._seal)
        self._upward.clear()
        self._tell_at = now + TELL_EVERY
        return self.control.handle(Start(), now, wall)

    def _tell(self, now: int) -> list[Effect]:
        assert self.control is not None, "who tells is the control process"
        self._tell_at = now + TELL_EVERY
        self.table = self.control.table
        return [] if self._site is None else self._site.set_downward(msgspec.msgpack.encode(self.table))

    def _pass_on(self, control: ControlProcess, site: Site, now: int) -> list[Effect]:
        """Let the control process know what the processes of the site say, where that has changed."""
        effects: list[Effect] = []
        for member in sorted(self._upward.keys() - site.members.keys()):
            del self._upward[member]
            effects += control.contribute(now, member, (), urgent=False)
        for member, frame in site.members.items():
            if self._upward.get(member) == frame:
                continue
            said, before = _read(frame), _read(self._upward.get(member))
            self._upward[member] = frame
            urgent = any(contribution.topic == CUT and contribution not in before for contribution in said)
            effects += control.contribute(now, member, said, urgent)
        return effects


def _read(frame: bytes | None) -> tuple[Contribution, ...]:
    """What a process of the site says."""
    try:
        return _CONTRIBUTIONS.decode(frame) if frame else ()
    except msgspec.MsgspecError:
        return ()
