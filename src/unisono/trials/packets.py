"""IPv4 packets as a hub sees them: who sends to whom, and the datagram inside if it is UDP."""

from __future__ import annotations

from ipaddress import IPv4Address
from struct import Struct
from typing import NamedTuple

_HEADER = Struct("!BBHHHBBHII")
_UDP_HEADER = Struct("!HHHH")
_UDP = 17
_MORE_FRAGMENTS = 0x3FFF


class IpPacket(NamedTuple):
    """One packet; `payload` is the datagram where it is whole UDP, else None and the packet is opaque."""

    source: IPv4Address
    destination: IPv4Address
    scope: int
    payload: bytes | None
    raw: bytes


def read_packet(raw: bytes) -> IpPacket | None:
    """What came out of a member's interface; None for anything that is not IPv4."""
    if len(raw) < _HEADER.size or raw[0] >> 4 != 4:
        return None
    head, _, total, _, fragment, scope, protocol, _, source, destination = _HEADER.unpack_from(raw)
    body = (head & 15) * 4
    payload = None
    if protocol == _UDP and not fragment & _MORE_FRAGMENTS and total >= body + _UDP_HEADER.size:
        payload = raw[body + _UDP_HEADER.size : total]
    return IpPacket(IPv4Address(source), IPv4Address(destination), scope, payload, raw)


def with_payload(packet: IpPacket, payload: bytes) -> bytes:
    """The same UDP packet with another datagram inside: damage below the datagram is not what is tried here."""
    raw = packet.raw
    body = (raw[0] & 15) * 4
    source_port, target_port, _, _ = _UDP_HEADER.unpack_from(raw, body)
    length = _UDP_HEADER.size + len(payload)
    header = bytearray(raw[:body])
    header[2:4] = (body + length).to_bytes(2, "big")
    header[10:12] = b"\0\0"
    header[10:12] = _checksum(header).to_bytes(2, "big")
    return bytes(header) + _UDP_HEADER.pack(source_port, target_port, length, 0) + payload


def _checksum(header: bytearray) -> int:
    total = sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
