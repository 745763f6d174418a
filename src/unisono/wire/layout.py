"""The layout of a datagram: little-endian, fixed heads, one version.

    header   magic 2 · version 1 · kind 1 · group 8 · incarnation 8 · name length 1 · name
    data     first sequence 8 · first number 8 · timestamp 8 · stable 8 · view start 8 · view check 4 ·
             count 2, then each message:
             flags 1 · timestamp delta 4 · length 2 · [fragment index 4 · fragments 4] · payload
    control  any number of: code 1 · length 2 · body; a body that fits no datagram goes in parts (see part_messages)
    repair   the sealed datagram as it was first sent
    seal     at the end (see unisono.sealing)

The first delta is zero and the others are not: timestamps grow with every message.
"""

from __future__ import annotations

from struct import Struct

from xxhash import xxh3_64_intdigest

from unisono.sealing import SEAL_ROOM_BYTES

MAGIC = b"uo"
VERSION = 5
DATA, CONTROL, REPAIR = 1, 2, 3

HEADER = Struct("<2sBBQQB")
DATA_HEAD = Struct("<QQqQqIH")
MESSAGE_HEAD = Struct("<BIH")
FRAGMENT_HEAD = Struct("<II")
CONTROL_HEAD = Struct("<BH")

DATAGRAM_LIMIT_BYTES = 65_507
"""No UDP datagram is longer."""
COUNT_LIMIT = (1 << 16) - 1


def group_number(realm: str, group: str) -> int:
    """What stands for a group on the wire: strangers with the same group name in another realm differ."""
    return xxh3_64_intdigest(f"{realm}\0{group}".encode())


def body_room(datagram_bytes: int, name: str) -> int:
    """What is left for a body when the seal and the envelope of a repair, itself sealed, must fit as well."""
    return datagram_bytes - 2 * (HEADER.size + len(name.encode()) + SEAL_ROOM_BYTES)
