"""The name that a sender may give to a message: in front of its payload, behind one byte of length."""

from __future__ import annotations

from unisono.identity import why_bad_name


def put_name(name: str, data: bytes) -> bytes:
    encoded = name.encode()
    assert why_bad_name(name) is None, "names are checked before they are sent"
    return bytes([len(encoded)]) + encoded + data


def take_name(payload: bytes) -> tuple[str, bytes]:
    """The name and the rest; what has no good name is all payload."""
    length = payload[0] if payload else 0
    if length and len(payload) > length:
        try:
            name = payload[1 : 1 + length].decode()
        except UnicodeDecodeError:
            return "", payload
        if why_bad_name(name) is None:
            return name, payload[1 + length :]
    return "", payload
