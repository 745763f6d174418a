"""What one seed of a sweep comes to: a row of the table of results, made where it ran."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, msgpack

from unisono.properties.registry import in_order

Verdict = Literal["held", "violated", "stopped"]

WORKER_ENDED = "the worker process ended"


class SeedRow(Struct, frozen=True, kw_only=True):
    """One seed at one point; the columns of the table, in their order.

    `violations` has every property that was promised, with the number of its violations; `messages` to `datagram_bytes`
    are the counters that most ask for. Latencies are from SEND to the last delivery, in simulated milliseconds, null
    where nothing was delivered. `began` (seconds since 1970), `seconds` and `host` are when, how long and where it ran.
    Of a seed that stopped only `stopped`, the error, and `origin`, where it came from, are known. `trace` is the folder
    below `traces`, and `no_trace` says why one that was asked for is not there.
    """

    point: int
    seed: int
    verdict: Verdict
    failed: bool
    violations: dict[str, int] = {}
    marks: dict[str, int] = {}
    counters: dict[str, int] = {}
    messages: int = 0
    deliveries: int = 0
    requests: int = 0
    repairs: int = 0
    views: int = 0
    datagrams: int = 0
    datagram_bytes: int = 0
    latency_p50_ms: float | None = None
    latency_p90_ms: float | None = None
    latency_p99_ms: float | None = None
    latency_highest_ms: float | None = None
    rows: int = 0
    events: int = 0
    began: float = 0.0
    seconds: float = 0.0
    host: str = ""
    stopped: str | None = None
    origin: str | None = None
    trace: str | None = None
    no_trace: str | None = None

    @property
    def violated(self) -> tuple[str, ...]:
        return tuple(in_order(name for name, count in self.violations.items() if count))


class Returned(Struct, frozen=True):
    """What a worker gives back for a seed: the row, and its run directory packed."""

    row: SeedRow
    packed: bytes | None = None


_decoder = msgpack.Decoder(Returned)


def encode(returned: Returned) -> bytes:
    return msgpack.encode(returned)


def decode(data: bytes) -> Returned:
    return _decoder.decode(data)
