"""How names and endpoints are spelled, and what was probably meant."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from unisono.errors import NetworkError, SettingError


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """The near name if there is one, else all of them."""
    near = get_close_matches(name, known, 1, 0.6)
    return f'did you mean "{near[0]}"?' if near else f"expected one of {', '.join(known)}"


def split_endpoint(text: str, least_port: int = 1) -> tuple[str, int]:
    """Host and port of an endpoint as a person writes it."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not host or not port.isascii() or not port.isdigit() or not least_port <= int(port) < 65_536:
        raise NetworkError(f"expected host:port or [address]:port, got {text!r}")
    return host, int(port)


def read_endpoints(option: str, given: Sequence[str]) -> tuple[str, ...]:
    """The endpoints that an option was given, each spelled as it should be."""
    if isinstance(given, str):
        raise SettingError(option, f'expected a list such as ["127.0.0.1:7500"], got {given!r}')
    for endpoint in given:
        split_endpoint(endpoint)
    return tuple(given)


def join_endpoint(host: str, port: int) -> str:
    """127.0.0.1:4711 or [::1]:4711."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
