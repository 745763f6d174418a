"""`unisono chat`: what is typed in one terminal shows in the others; the smallest application there is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from typing import Annotated, Any, Literal

import typer

from unisono.errors import SettingError
from unisono.events import (
    DroppedOut,
    Excluded,
    Gap,
    LeftBehind,
    Message,
    SourceUnavailable,
    Unrecovered,
    View,
    ViewReason,
)
from unisono.group import Group, GroupEvent, join
from unisono.runtime.loops import run
from unisono.session import Session
from unisono.session_group import SessionEvent, SessionGroup
from unisono.settings import Service

INTERRUPTED = 130
TransportName = Literal["multicast", "mesh"]

_WHY = {
    ViewReason.JOINED: "is here",
    ViewReason.ACTIVATED: "is here",
    ViewReason.LEFT: "left",
    ViewReason.GONE: "is gone",
    ViewReason.LEFT_BEHIND: "left us behind",
    ViewReason.SILENT: "fell silent",
    ViewReason.RESTARTED: "restarted",
    ViewReason.TOO_LARGE: "sent more than fits",
    ViewReason.HEARD: "is here",
    ViewReason.SERVICE: "is here",
    ViewReason.AGREED: "is not among the senders any more",
    ViewReason.SUSPECTED: "is not heard any more",
    ViewReason.MERGED: "is back",
    ViewReason.INCOMPLETE: "sent what did not come",
    ViewReason.SENDS: "has something to say",
    ViewReason.ONLY_RECEIVES: "only listens now",
}


def chat(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group to talk in.")],
    name: Annotated[str | None, typer.Option(help="Your name; by default this machine's and a number.")] = None,
    realm: Annotated[
        str | None, typer.Option(help="Only those of the same realm meet; by default $UNISONO_REALM.")
    ] = None,
    transport: Annotated[TransportName, typer.Option(help="How messages travel.")] = "multicast",
    seeds: Annotated[
        list[str] | None,
        typer.Option("--seed", metavar="HOST:PORT", help="A member of a mesh elsewhere; may be repeated."),
    ] = None,
    interface: Annotated[
        str | None, typer.Option(help="A network interface or address; by default $UNISONO_INTERFACE.")
    ] = None,
    service: Annotated[Service, typer.Option(help="How you receive, see below; others may choose another.")] = "source",
    servers: Annotated[
        list[str] | None,
        typer.Option("--server", metavar="HOST:PORT", help="Talk in a session of membership servers; may be repeated."),
    ] = None,
) -> None:
    """Talk in a group: lines that you type go to everyone, theirs are shown.

    Needs no configuration on one machine or one network. Ends with the input or with Ctrl-C.

    \b
    Services:
      source            every line of each, in its order (what is lost is repaired)
      timestamp         every line, in one order and the same views for all who choose this
      source-latest     lines of each in its order; a lost one stays away
      timestamp-latest  lines in one order; one that comes too late stays away
      framed            lines as they come; told what is lost, and asks for it
      unordered         lines as they come, if they come

    \b
    Examples:
      unisono chat lobby
      unisono chat lobby --name ada --realm lab
      unisono chat lobby --service timestamp
      unisono chat lobby --server 127.0.0.1:7500
    """
    options: dict[str, Any] = {
        "name": name,
        "realm": realm,
        "transport": transport,
        "seeds": tuple(seeds or ()),
        "interface": interface,
        "storage": None,
    }
    if servers and service != "source":
        raise SettingError("service", "a session has no services; leave out --service, or --server")
    try:
        if servers:
            run(_talk_in_session(Session(servers=servers, **options), group))
        else:
            run(_talk(join(group, service=service, membership=True, **options)))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


async def _talk_in_session(session: Session, group: str) -> None:
    async with session:
        await _talk(session.join(group))


async def _talk(group: Group | SessionGroup) -> None:
    async with group:
        who = group.process.name
        typer.echo(f"* you are {who} in {group.name}; type and press Enter, Ctrl-D leaves")
        listening = asyncio.create_task(_show(group, who))
        speaking = asyncio.create_task(_speak(group))
        try:
            await asyncio.wait({listening, speaking}, return_when=asyncio.FIRST_COMPLETED)
            await group.leave()
            await listening
        finally:
            for task in (listening, speaking):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


async def _speak(group: Group | SessionGroup) -> None:
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    threading.Thread(target=_read_lines, args=(loop, lines), daemon=True).start()
    while (line := await lines.get()) is not None:
        if line.strip():
            await group.send(line)


def _read_lines(loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[bytes | None]) -> None:
    """Reads below Python's own buffers, which a thread must not hold when the program ends."""
    rest = b""
    with contextlib.suppress(RuntimeError):  # the loop is closed: the chat is over
        while data := os.read(0, 1 << 16):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                loop.call_soon_threadsafe(lines.put_nowait, line)
        if rest:
            loop.call_soon_threadsafe(lines.put_nowait, rest)
        loop.call_soon_threadsafe(lines.put_nowait, None)


async def _show(group: Group | SessionGroup, who: str) -> None:
    async for event in group:
        if isinstance(event, Gap) and isinstance(group, Group):
            group.recover(event.source, event.first, event.last)
        for line in _lines(event, who):
            typer.echo(line)
        sys.stdout.flush()


def _lines(event: GroupEvent | SessionEvent, who: str) -> list[str]:
    if isinstance(event, Message):
        text = event.data.decode(errors="replace")
        shown = "".join(c if c.isprintable() else "�" for c in text)
        return [] if event.source.name == who else [f"{event.source.name}: {shown}"]
    if isinstance(event, View):
        return [f"* {process.name} {_WHY[reason]}" for process, reason in event.reasons if process.name != who]
    if isinstance(event, Excluded):
        return ["* the others went on without you; you come back by yourself"]
    if isinstance(event, DroppedOut):
        return [f"* some lines may be missing here: {event.reason}"]
    if isinstance(event, LeftBehind):
        return [f"* messages of {event.source.name} were lost here"]
    if isinstance(event, Gap):
        return [f"* something of {event.source.name} did not come; asking for it"]
    if isinstance(event, Unrecovered):
        return [f"* something of {event.source.name} is lost"]
    assert isinstance(event, SourceUnavailable), "a group gives no other event"
    return [f"* {event.source.name} does not answer"]
