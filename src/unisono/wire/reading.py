"""Bytes to packets: sanity first, then the seal, then the body; a refusal leaves nothing behind."""

from __future__ import annotations

from struct import Struct

import msgspec

from unisono.clock import TIMESTAMP_LIMIT
from unisono.identity import NAME_LIMIT_BYTES, ProcessId, ViewMark
from unisono.sealing import Seal
from unisono.wire.layout import (
    CONTROL,
    CONTROL_HEAD,
    DATA,
    DATA_HEAD,
    DATAGRAM_LIMIT_BYTES,
    FRAGMENT_HEAD,
    HEADER,
    MAGIC,
    MESSAGE_HEAD,
    REPAIR,
    VERSION,
)
from unisono.wire.messages import (
    AGAIN,
    BEGINS,
    CHANGE,
    CONTROL_TYPES,
    FRAGMENT,
    LEAVE,
    NAMED,
    OPTIMISTIC,
    PROXIED,
    SEQUENCE_LIMIT,
    ControlMessage,
    ControlPacket,
    DataMessage,
    DataPacket,
    Packet,
    RepairPacket,
)
from unisono.wire.part_messages import MessagePart
from unisono.wire.refusals import Refusal, Refused

_FLAGS = (0, FRAGMENT, LEAVE, NAMED, NAMED | FRAGMENT, CHANGE, PROXIED, PROXIED | FRAGMENT)
_READ: tuple[type[ControlMessage | MessagePart], ...] = (*CONTROL_TYPES, MessagePart)
_DECODERS = {kind.code: msgspec.msgpack.Decoder(kind) for kind in _READ}


def read_datagram(data: bytes, seal: Seal) -> Packet | Refusal:
    """The packet inside a datagram, or the reason why there is none."""
    try:
        return _read(data, seal)
    except Refused as refused:
        return refused.reason


def group_inside(data: bytes) -> int | None:
    """The group that a datagram says it is of, where it has the look of ours; nothing of it is believed yet."""
    if len(data) < HEADER.size:
        return None
    magic, version, _, group, _, _ = HEADER.unpack_from(data)
    return group if magic == MAGIC and version == VERSION else None


def _read(data: bytes, seal: Seal) -> Packet:
    if len(data) < HEADER.size:
        raise Refused(Refusal.SHORT)
    if len(data) > DATAGRAM_LIMIT_BYTES:
        raise Refused(Refusal.LONG)
    magic, version, kind, group, incarnation, name_length = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise Refused(Refusal.MAGIC)
    if version != VERSION:
        raise Refused(Refusal.VERSION)
    if kind not in (DATA, CONTROL, REPAIR):
        raise Refused(Refusal.KIND)
    plain = seal.open(data)
    if plain is None:
        raise Refused(Refusal.SEAL)
    body = HEADER.size + name_length
    if body > len(plain):
        raise Refused(Refusal.LENGTH)
    source = _process(plain[HEADER.size : body], incarnation)
    if kind == DATA:
        messages, stable, view = _data_messages(plain, body)
        return DataPacket(source, group, messages, stable, data, view)
    if kind == CONTROL:
        return _control_packet(source, group, plain, body)
    return RepairPacket(source, group, _repaired(plain, body, group, seal))


def _process(name: bytes, incarnation: int) -> ProcessId:
    if not 0 < len(name) <= NAME_LIMIT_BYTES or incarnation >> 63:
        raise Refused(Refusal.NAME)
    try:
        text = name.decode()
    except UnicodeDecodeError:
        raise Refused(Refusal.NAME) from None
    if not text.isprintable():
        raise Refused(Refusal.NAME)
    return ProcessId(text, incarnation)


def _unpack(head: Struct, plain: bytes, offset: int) -> tuple[int, ...]:
    if offset + head.size > len(plain):
        raise Refused(Refusal.LENGTH)
    return head.unpack_from(plain, offset)


def _data_messages(plain: bytes, offset: int) -> tuple[list[DataMessage], int, ViewMark]:
    """The messages, up to where all that came before them is stable, and the view that they were sent in."""
    first, number, base, stable, start, check, count = _unpack(DATA_HEAD, plain, offset)
    if not count:
        raise Refused(Refusal.EMPTY)
    if not stable < first < SEQUENCE_LIMIT - count or not 0 < number < SEQUENCE_LIMIT - count:
        raise Refused(Refusal.SEQUENCE)
    if not 0 < base <= TIMESTAMP_LIMIT or not 0 <= start < base:
        raise Refused(Refusal.TIMESTAMP)
    offset += DATA_HEAD.size
    messages: list[DataMessage] = []
    add, unpack, head, end = messages.append, MESSAGE_HEAD.unpack_from, MESSAGE_HEAD.size, len(plain)
    timestamp = base
    for sequence in range(first, first + count):
        if offset + head > end:
            raise Refused(Refusal.LENGTH)
        flags, delta, length = unpack(plain, offset)
        offset += head
        timestamp += delta
        if (delta == 0) != (sequence == first) or timestamp > TIMESTAMP_LIMIT:
            raise Refused(Refusal.TIMESTAMP)
        if flags:
            index, parts = _fragment(plain, offset, flags, sequence, length)
            if parts > 1:
                offset += FRAGMENT_HEAD.size
        else:
            index, parts = 0, 1
        if offset + length > end:
            raise Refused(Refusal.LENGTH)
        add(DataMessage(sequence, number, timestamp, flags, index, parts, plain[offset : offset + length]))
        offset += length
        if index + 1 == parts and not flags & (LEAVE | CHANGE):
            number += 1
    if offset != len(plain):
        raise Refused(Refusal.TRAILING)
    return messages, stable, ViewMark(start, check)


def _fragment(plain: bytes, offset: int, flags: int, sequence: int, length: int) -> tuple[int, int]:
    """Which part of how many a message with flags is."""
    if flags & ~(OPTIMISTIC | AGAIN | BEGINS) not in _FLAGS:
        raise Refused(Refusal.FLAGS)
    if not flags & FRAGMENT:
        return 0, 1
    index, parts = _unpack(FRAGMENT_HEAD, plain, offset)
    if parts < 2 or index >= parts or index >= sequence or not length:
        raise Refused(Refusal.FRAGMENT)
    return index, parts


def _control_packet(source: ProcessId, group: int, plain: bytes, offset: int) -> ControlPacket:
    """Unknown and malformed messages are skipped: their neighbours, and a newer peer, stay understood."""
    messages: list[ControlMessage] = []
    refused: list[str] = []
    parts: list[MessagePart] = []
    while offset < len(plain):
        code, length = _unpack(CONTROL_HEAD, plain, offset)
        offset += CONTROL_HEAD.size
        if offset + length > len(plain):
            raise Refused(Refusal.LENGTH)
        body = plain[offset : offset + length]
        offset += length
        message = read_control(code, body)
        if isinstance(message, Refusal):
            refused.append(message)
        elif isinstance(message, MessagePart):
            parts.append(message)
        else:
            messages.append(message)
    if not messages and not refused and not parts:
        raise Refused(Refusal.EMPTY)
    return ControlPacket(source, group, messages, tuple(refused), tuple(parts))


def read_control(code: int, body: bytes) -> ControlMessage | MessagePart | Refusal:
    """The control message with that code and body, or a part of one, or the reason why there is none."""
    decoder = _DECODERS.get(code)
    if decoder is None:
        return Refusal.CONTROL_TYPE
    try:
        message = decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Refusal.CONTROL_BODY
    return message if msgspec.msgpack.encode(message) == body else Refusal.CONTROL_BODY


def _repaired(plain: bytes, offset: int, group: int, seal: Seal) -> DataPacket:
    inner = plain[offset:]
    if len(inner) >= HEADER.size and HEADER.unpack_from(inner)[2] == REPAIR:
        raise Refused(Refusal.NESTED)
    packet = _read(inner, seal)
    if not isinstance(packet, DataPacket):
        raise Refused(Refusal.NOT_DATA)
    if packet.group != group:
        raise Refused(Refusal.OTHER_GROUP)
    return packet
