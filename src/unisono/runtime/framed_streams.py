"""Frames on asyncio streams, from peers that may send anything: lengths are checked before a byte is kept."""

from __future__ import annotations

import asyncio

from unisono.wire.frames import CHECKSUM_BYTES, LENGTH_BYTES, frame, read_frames

_THROWN_BYTES = 1 << 16


class BadFrame(Exception):
    """What came is no frame that is taken here; the connection cannot go on."""


async def read_frame(reader: asyncio.StreamReader, limit_bytes: int, body_seconds: float | None = None) -> bytes | None:
    """The next payload, or None where the peer has closed. BadFrame where it is too long, damaged or too slow.

    Waits as long as it takes for the beginning of a frame, and so long for the rest of it.
    """
    try:
        prefix = await reader.readexactly(LENGTH_BYTES)
        length = int.from_bytes(prefix, "little")
        if length > limit_bytes:
            raise BadFrame(f"a frame of {length} bytes is longer than {limit_bytes}, or this is another protocol")
        async with asyncio.timeout(body_seconds):
            payload = next(read_frames(prefix + await reader.readexactly(length + CHECKSUM_BYTES)), None)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except TimeoutError:
        raise BadFrame(f"a frame did not come in {body_seconds} seconds") from None
    if payload is None:
        raise BadFrame("a frame has a wrong checksum")
    return payload


async def write_frame(writer: asyncio.StreamWriter, payload: bytes) -> None:
    writer.write(frame(payload))
    await writer.drain()


async def say_last(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, payload: bytes, patience: float) -> None:
    """Send a last frame such that it arrives: what the peer still sends is thrown away until it has closed too.

    A socket that is closed while something waits in it unread takes back what was just sent.
    """
    try:
        async with asyncio.timeout(patience):
            await write_frame(writer, payload)
            writer.write_eof()
            while await reader.read(_THROWN_BYTES):
                pass
    except (ConnectionError, TimeoutError):
        pass  # it does not listen, or does not end: then it has had its time
