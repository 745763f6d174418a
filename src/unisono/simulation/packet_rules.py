"""What a fault does to packets while it is active, and to which ones."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from unisono.sealing import NullSeal
from unisono.simulation.line import Line
from unisono.simulation.scenario import Fault
from unisono.wire.census_messages import CensusAnswer, CensusRequest
from unisono.wire.control_messages import (
    HIERARCHY_TYPES,
    Contributed,
    CoordinatorControl,
    CoordinatorLeave,
    Farewell,
    Gathered,
    GlobalControl,
    LocalControl,
    RingQuery,
    SearchResponse,
)
from unisono.wire.membership_messages import (
    AddRequest,
    CutInfo,
    Leaver,
    NewView,
    Opinion,
    Ready,
    RecoveryInfo,
    ViewRequest,
)
from unisono.wire.messages import (
    ActivationGrant,
    ActivationRequest,
    ControlMessage,
    ControlPacket,
    DataPacket,
    Deactivation,
    KeepAlive,
    LeftBehindNotice,
    NameRequest,
    RepairPacket,
    RepairRequest,
    Report,
)
from unisono.wire.proxy_messages import ProxyAnswer, ProxyRequest
from unisono.wire.reading import read_datagram
from unisono.wire.session_messages import Cut, CutRequest, SessionRequest, StableCut, ViewStart

MESSAGE_NAMES: dict[type[ControlMessage], str] = {
    KeepAlive: "keep_alive",
    Report: "report",
    ActivationRequest: "activation_request",
    ActivationGrant: "activation_grant",
    RepairRequest: "repair_request",
    LeftBehindNotice: "left_behind",
    Deactivation: "deactivation",
    NameRequest: "name_request",
    LocalControl: "local_control",
    CoordinatorControl: "coordinator_control",
    GlobalControl: "global_control",
    RingQuery: "ring_query",
    SearchResponse: "search_response",
    CoordinatorLeave: "coordinator_leave",
    Farewell: "farewell",
    Contributed: "contributed",
    Gathered: "gathered",
    Opinion: "opinion",
    RecoveryInfo: "recovery_info",
    Ready: "ready",
    NewView: "new_view",
    CutInfo: "cut_info",
    ViewRequest: "view_request",
    AddRequest: "add_request",
    Leaver: "leaver",
    ProxyRequest: "proxy_request",
    ProxyAnswer: "proxy_answer",
    CensusRequest: "census_request",
    CensusAnswer: "census_answer",
    ViewStart: "view_start",
    Cut: "cut",
    CutRequest: "cut_request",
    StableCut: "stable_cut",
    SessionRequest: "session_request",
}
"""What a scenario's `message` calls each control message; data and repairs are "data" and "repair"."""


HELPFUL_NAMES = frozenset(MESSAGE_NAMES[kind] for kind in (*HIERARCHY_TYPES, CensusRequest, CensusAnswer))
"""Those without which a group goes on: the hierarchy only spares messages, and a census only counts."""

CODED_NAMES = {kind.code: name for kind, name in MESSAGE_NAMES.items()}
"""The same by their codes, for messages in parts."""


class Content(NamedTuple):
    """What is inside a datagram: the names of its messages, and the sequences of its data."""

    names: frozenset[str]
    first: int
    last: int


def classify(data: bytes) -> Content:
    """Look inside a datagram, for faults that hit certain packets only."""
    packet = read_datagram(data, NullSeal())
    if isinstance(packet, DataPacket):
        return Content(frozenset(("data",)), packet.messages[0].sequence, packet.messages[-1].sequence)
    if isinstance(packet, RepairPacket):
        messages = packet.data.messages
        return Content(frozenset(("repair",)), messages[0].sequence, messages[-1].sequence)
    if isinstance(packet, ControlPacket):
        names = {MESSAGE_NAMES[type(message)] for message in packet.messages}
        names.update(CODED_NAMES[part.kind] for part in packet.parts if part.kind in CODED_NAMES)
        return Content(frozenset(names), 0, 0)
    return Content(frozenset(), 0, 0)


class PacketRule:
    """One active fault on packets."""

    __slots__ = (
        "_hits_left",
        "_lines",
        "_together",
        "above",
        "age",
        "by",
        "effect",
        "fault",
        "rate",
        "replays",
        "selective",
    )

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self._hits_left = fault.count
        self.effect = fault.kind
        self.rate = 1.0 if fault.rate is None else fault.rate
        self.replays = fault.kind == "replay"
        self.age = fault.age or 0
        self.above = fault.above if fault.kind == "oversize" else None
        self.by = fault.by or 0
        self._together = False
        self._lines: dict[int, Line] = {}
        self.selective = fault.message is not None or fault.sequence is not None

    def applies(self, sender: int, multicast: bool) -> bool:
        fault = self.fault
        if fault.plane is not None and (fault.plane == "multicast") != multicast:
            return False
        return not fault.sources or sender in fault.sources

    def reaches(self, receiver: int) -> bool:
        """`member` means the packets that come to that member, as `to` does."""
        fault = self.fault
        return not (fault.targets or fault.members) or receiver in fault.targets or receiver in fault.members

    def matches(self, content: Content | None) -> bool:
        if not self.selective:
            return True
        assert content is not None, "selective rules come with what is inside"
        fault = self.fault
        if fault.message is not None and fault.message not in content.names:
            return False
        return fault.sequence is None or content.first <= fault.sequence <= content.last

    def line_to(self, receiver: int) -> Line:
        """The line of a `limit`: each receiver has its own."""
        return self._lines.setdefault(receiver, Line())

    def leave_sender(self, random: Random, matches: bool) -> None:
        """A packet sets out: a fault that hits it for all of its receivers together is decided now."""
        if self.fault.together:
            self._together = matches and self._draw(random)

    def hit(self, random: Random) -> bool:
        """Whether this packet is hit; a fault with a count hits that many."""
        return self._together if self.fault.together else self._draw(random)

    def _draw(self, random: Random) -> bool:
        if self._hits_left == 0 or (self.rate < 1.0 and random.random() >= self.rate):
            return False
        if self._hits_left is not None:
            self._hits_left -= 1
        return True
