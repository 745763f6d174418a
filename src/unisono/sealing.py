"""The seam for security: how a datagram is closed, and what a membership message carries for key agreement.

The null forms here authenticate nothing: the seal is a 64-bit checksum that catches damage, the agreement
is empty. A secure group replaces both without a second version of any protocol.
"""

from __future__ import annotations

from typing import Protocol

from xxhash import xxh3_64_digest

CHECKSUM_BYTES = 8
SEAL_ROOM_BYTES = 96
"""What every datagram leaves free for a seal: an authentication tag and a signature fit."""


class Seal(Protocol):
    """Closes what this process sends and opens what others sent. A refusal leaves no trace in its state."""

    def seal(self, plain: bytes) -> bytes:
        """The datagram as it is sent, kept and repaired."""
        ...

    def open(self, sealed: bytes) -> bytes | None:
        """What was sealed, or None when it was not sealed so."""
        ...


class KeyAgreement(Protocol):
    """Fills the opaque extension of membership messages and reads those of others."""

    def contribution(self) -> bytes: ...

    def accept(self, contribution: bytes) -> bool: ...


class NullSeal:
    """A checksum at the end: damage is seen, forgery is not."""

    __slots__ = ()

    def seal(self, plain: bytes) -> bytes:
        return plain + xxh3_64_digest(plain)

    def open(self, sealed: bytes) -> bytes | None:
        if len(sealed) < CHECKSUM_BYTES:
            return None
        plain = sealed[:-CHECKSUM_BYTES]
        return plain if xxh3_64_digest(plain) == sealed[-CHECKSUM_BYTES:] else None


class NullKeyAgreement:
    """No keys: contributes nothing and accepts nothing but nothing."""

    __slots__ = ()

    def contribution(self) -> bytes:
        return b""

    def accept(self, contribution: bytes) -> bool:
        return not contribution
