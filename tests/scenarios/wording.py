"""Packets and events in the words of a scenario."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.events import (
    DroppedOut,
    Event,
    Excluded,
    Gap,
    Left,
    LeftBehind,
    Message,
    SourceUnavailable,
    Unrecovered,
    View,
)
from unisono.identity import ProcessId
from unisono.wire.control_messages import HIERARCHY_TYPES
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
    FRAGMENT,
    LEAVE,
    ActivationGrant,
    ActivationRequest,
    ControlMessage,
    DataPacket,
    Deactivation,
    KeepAlive,
    LeftBehindNotice,
    NameRequest,
    Packet,
    RepairPacket,
    RepairRequest,
    Report,
)
from unisono.wire.probe_messages import ProbeAnswer, ProbeRequest
from unisono.wire.proxy_messages import BUSY, NOT_A_SENDER, TAKEN, ProxyAnswer, ProxyRequest

Lives = Mapping[ProcessId, str]
"""How a scenario calls each life: `a`, then `a/2` after a restart."""

KINDS: dict[type[ControlMessage], str] = {
    KeepAlive: "keep-alive",
    ActivationRequest: "activation-request",
    ActivationGrant: "grant",
    Report: "report",
    RepairRequest: "repair-request",
    LeftBehindNotice: "left-behind",
    Deactivation: "deactivation",
    NameRequest: "name-request",
    **{kind: kind.__name__ for kind in HIERARCHY_TYPES},
    Opinion: "opinion",
    RecoveryInfo: "recovery-info",
    Ready: "ready",
    NewView: "new-view",
    CutInfo: "cut-info",
    ViewRequest: "view-request",
    AddRequest: "add-request",
    Leaver: "leaver",
    ProbeRequest: "probe",
    ProbeAnswer: "probe-answer",
    ProxyRequest: "proxy-request",
    ProxyAnswer: "proxy-answer",
}
_PROXY_WORDS = {TAKEN: "", BUSY: " (busy)", NOT_A_SENDER: " (not a sender)"}
PACKET_KINDS = ("data", "repair", *KINDS.values())


def kinds_of(packet: Packet) -> list[str]:
    """What a packet carries, as `drop`, `lose` and `watch` name it."""
    if isinstance(packet, DataPacket):
        return ["data"]
    if isinstance(packet, RepairPacket):
        return ["repair"]
    return [KINDS[type(message)] for message in packet.messages]


def sequences_of(packet: Packet) -> tuple[int, int] | None:
    """The first and last sequence of the data inside, if there is any."""
    data = packet.data if isinstance(packet, RepairPacket) else packet
    return (data.messages[0].sequence, data.messages[-1].sequence) if isinstance(data, DataPacket) else None


def describe_packet(packet: Packet, lives: Lives) -> str:
    if isinstance(packet, DataPacket):
        return f"data {_data(packet)}"
    if isinstance(packet, RepairPacket):
        return f"repair {_data(packet.data)}"
    return " + ".join([*(_control(message, lives) for message in packet.messages), *packet.refused])


def describe_event(event: Event, lives: Lives) -> str:
    """Everything but messages and answers to sends."""
    match event:
        case View():
            members = " ".join(lives[member] for member in event.members)
            reasons = ", ".join(f"{lives[process]} {reason}" for process, reason in event.reasons)
            with_whom = ""
            if event.transitional is not None and event.previous is not None:
                with_whom = " from " + "".join(["{", " ".join(lives[process] for process in event.transitional), "}"])
            middle = "" if event.whole else " from its middle on"
            primary = "" if event.primary is None else " primary" if event.primary else " not primary"
            return f"view {{{members}}}{primary}{with_whom}{middle}" + (f" ({reasons})" if reasons else "")
        case Excluded():
            return "others went on without it"
        case DroppedOut():
            return f"dropped out: {event.reason}"
        case LeftBehind():
            return f"left behind by {lives[event.source]}"
        case Gap():
            return f"gap {_span(event.first, event.last)} of {lives[event.source]}"
        case Unrecovered():
            wanted = repr(event.name) if event.name else _span(event.first, event.last)
            return f"did not recover {wanted} of {lives[event.source]}"
        case SourceUnavailable():
            return f"{lives[event.source]} does not answer"
        case Left():
            return "out of the group"
        case _:
            raise AssertionError(f"no words for {event}")


def describe_message(message: Message, sent: set[bytes]) -> str:
    """Short messages by their text, long ones by their size."""
    if message.data not in sent:
        return f"NEVER SENT: {message.data[:20]!r}"
    return f'"{message.data.decode()}"' if len(message.data) < 20 else f"{len(message.data)} bytes"


def brief(message: Message) -> str:
    """A message in one word: its text, or its source and number."""
    return message.data.decode() if len(message.data) < 20 else f"{message.source.name}#{message.number}"


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _data(packet: DataPacket) -> str:
    first, last = packet.messages[0], packet.messages[-1]
    text = _span(first.sequence, last.sequence)
    if first.flags & FRAGMENT:
        text += f" (fragment {first.index + 1} of {first.count})"
    if last.flags & LEAVE:
        text += " (farewell)"
    return text


def _control(message: ControlMessage, lives: Lives) -> str:
    kind = KINDS[type(message)]
    match message:
        case KeepAlive():
            return f"{kind} {message.sequence}"
        case ActivationRequest():
            return f"{kind} (attempt {message.attempt})"
        case ActivationGrant():
            return f"{kind} from {message.sequence} (attempt {message.attempt})"
        case Report():
            return " ".join([kind, *(f"{lives[entry.source]}={entry.received}" for entry in message.entries)])
        case RepairRequest():
            return " ".join([kind, *(_span(*span) for span in message.ranges)])
        case LeftBehindNotice() | Deactivation():
            return f"{kind} (attempt {message.attempt})"
        case NameRequest():
            return f"{kind} {message.name!r}"
        case Opinion():
            members = " ".join(lives[process] for process in message.procs if process not in message.failed)
            return f"{kind} {{{members}}}" + (" (out)" if message.out else "")
        case NewView():
            return f"{kind} {{{' '.join(lives[seat.process] for seat in message.seats)}}}"
        case ProxyRequest():
            part = f" ({message.index + 1} of {message.count})" if message.count > 1 else ""
            return f"{kind} #{message.number}{part}"
        case ProxyAnswer():
            return f"{kind} {message.taken}{_PROXY_WORDS[message.word]}"
        case _:
            return kind
