"""Why a datagram or one of its messages was refused: each reason is counted under its name."""

from __future__ import annotations

from enum import StrEnum


class Refusal(StrEnum):
    """A named reason to drop bytes that came from the network."""

    SHORT = "wire: shorter than a header"
    LONG = "wire: longer than any datagram"
    MAGIC = "wire: not ours"
    VERSION = "wire: another version"
    KIND = "wire: unknown kind of datagram"
    SEAL = "wire: seal does not open"
    NAME = "wire: bad process name"
    LENGTH = "wire: a length points past the end"
    TRAILING = "wire: bytes after the end"
    EMPTY = "wire: nothing inside"
    SEQUENCE = "wire: sequence number out of range"
    TIMESTAMP = "wire: timestamp out of range"
    FLAGS = "wire: unknown flags"
    FRAGMENT = "wire: impossible fragment"
    NESTED = "wire: a repair inside a repair"
    NOT_DATA = "wire: a repair of something that is not data"
    OTHER_GROUP = "wire: a repair from another group"
    CONTROL_TYPE = "wire: unknown control message"
    PARTS = "wire: parts that make no control message"
    CONTROL_BODY = "wire: malformed control message"
    UNKNOWN_GROUP = "wire: a group this process is not in"


class Refused(Exception):
    """Raised and caught inside the wire layer alone."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason)
        self.reason = reason
