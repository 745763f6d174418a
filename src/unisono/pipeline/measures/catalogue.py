"""Every measure by name: its unit, what it says, and the rows that it needs. Nothing here needs Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

DATAGRAMS_SENT = "datagrams sent"
DATAGRAM_BYTES_SENT = "datagram bytes sent"
CONTROL_SENT = "control bytes sent"
CONTROL_RECEIVED = "control bytes received"
BLOCKED_BY_WINDOW = "blocked by window nanoseconds"
BLOCKED_BY_VIEW = "blocked by view nanoseconds"
"""Gauges without a cap that engines write: each row has what there was since the last one."""

OVERHEAD = "SESSION_OVERHEAD"
"""The type of statistic with which a benchmark tells what a session took for a message: its value `nanoseconds`."""

PERCENTILES = {"p50": 50, "p90": 90, "p99": 99}
SUMMARY = ("count", "mean", *PERCENTILES, "max")
"""The keys of a measure that is a distribution; each percentile is one of its values."""

Better = Literal["more", "less", "neither"]


class Measure(Struct, frozen=True):
    """One measure: a value for each key, or a distribution with the keys of `SUMMARY`; `better` says which way."""

    name: str
    unit: str
    says: str
    needs: str
    distribution: bool = False
    better: Better = "less"


_SENDS = "SEND rows"
_DELIVERIES = "DELIVER rows"
_CLOCK = "the simulator's time, or senders and receivers on one host"
_TRAFFIC = f'GAUGE rows named "{DATAGRAMS_SENT}" and "{DATAGRAM_BYTES_SENT}"'
_CONTROL = f'GAUGE rows named "{CONTROL_SENT}" and "{CONTROL_RECEIVED}"'
_REPAIR = "RTR and RTX rows"
_VIEWS = "VIEW rows on one clock, with SUSPECT, MRA and CUT rows before them"
_SESSION = "START_CHANGE, NEW_VIEW and SYNCHRONIZED rows before a VIEW of a session, which is not its first"
_GAUGED = f'GAUGE rows named "{DATAGRAMS_SENT}", which engines write beside those of waiting'

_ALL = (
    Measure("messages", "messages", "messages that applications sent", _SENDS, better="neither"),
    Measure("deliveries", "deliveries", "deliveries at all members", _DELIVERIES, better="neither"),
    Measure("payload", "bytes", "payload that applications sent", _SENDS, better="neither"),
    Measure(
        "throughput",
        "messages/s",
        "deliveries a second at the slowest member, by message size",
        f"{_DELIVERIES} at two moments",
        better="more",
    ),
    Measure(
        "throughput in bytes",
        "bytes/s",
        "the same in payload bytes",
        f"{_DELIVERIES} at two moments",
        better="more",
    ),
    Measure("latency", "ns", "from SEND to the delivery at the last member that delivered it", _CLOCK, True),
    Measure("datagrams", "datagrams", "datagrams that the members of the group sent", _TRAFFIC, better="neither"),
    Measure("datagram bytes", "bytes", "the bytes of those datagrams", _TRAFFIC, better="neither"),
    Measure("datagrams per message", "datagrams/message", "datagrams for each message sent", _TRAFFIC),
    Measure("bytes per message", "bytes/message", "datagram bytes for each message sent", _TRAFFIC),
    Measure("bytes per payload byte", "bytes/byte", "datagram bytes for each byte of payload sent", _TRAFFIC),
    Measure("losses", "losses", "ranges of sequences that were asked for; those that overlap are one", _REPAIR),
    Measure("requests", "requests", "requests for repair", _REPAIR),
    Measure("repairs", "repairs", "repairs sent", _REPAIR),
    Measure("requests per loss", "requests/loss", "requests for each loss", _REPAIR),
    Measure("repairs per loss", "repairs/loss", "repairs sent for each loss", _REPAIR),
    Measure("repairs per message", "repairs/message", "repairs for each message sent", _REPAIR),
    Measure("view changes", "views", "agreed views that a suspicion or a repair began", _VIEWS, better="neither"),
    Measure("view change", "ns", "from the first suspicion or repair to the last installation", _VIEWS, True),
    Measure("view change: consensus", "ns", "from there until the first member knows who is in it", _VIEWS, True),
    Measure("view change: recovery", "ns", "from there to the first installation", _VIEWS, True),
    Measure("view change: installation", "ns", "from the first to the last installation", _VIEWS, True),
    Measure(
        "detection",
        "ns",
        "from a CRASH or LEAVE to the first suspicion or repair",
        f"CRASH or LEAVE rows, {_VIEWS}",
        True,
    ),
    Measure(
        "end to view",
        "ns",
        "from a CRASH or LEAVE to the last installation of a view without the process",
        "CRASH or LEAVE rows, and VIEW rows on one clock",
        True,
    ),
    Measure(
        "join to view",
        "ns",
        "from a JOIN to the last installation of a view with others that says so",
        "JOIN rows, and VIEW rows on one clock",
        True,
    ),
    Measure(
        "silence around a view",
        "ns",
        "from a member's last delivery before an agreed view to its first one in it",
        f"{_DELIVERIES} in both views",
        True,
    ),
    Measure("session overhead", "ns", "what a session took for a message", f"statistics of type {OVERHEAD}", True),
    Measure(
        "session change", "ns", "from a member's first start-change since its last view to its view", _SESSION, True
    ),
    Measure(
        "session change: membership", "ns", "from the start-change of that view until servers agreed", _SESSION, True
    ),
    Measure(
        "session change: synchronisation", "ns", "from the first start-change until all cuts are there", _SESSION, True
    ),
    Measure(
        "session change: membership after synchronisation",
        "ns",
        "how much longer membership took than synchronisation",
        _SESSION,
        True,
        "neither",
    ),
    Measure(
        "session change: view after membership", "ns", "how much longer the whole took than membership", _SESSION, True
    ),
    Measure("session change: blocked", "ns", "from BLOCK_OK to the view", "BLOCK_OK rows before such a VIEW", True),
    Measure("blocked by window", "share", "of a member's time, while a send waited for the window", _GAUGED, True),
    Measure("blocked by view", "share", "of a member's time, while a send waited for a view", _GAUGED, True),
    Measure("datagrams a second", "datagrams/s", "what a member sent, by member", _TRAFFIC, True, "neither"),
    Measure("bytes a second", "bytes/s", "what a member sent in datagram bytes, by member", _TRAFFIC, True, "neither"),
    Measure("control sent", "bytes/s", "what a process sent for the hierarchy, by process", _CONTROL, True),
    Measure("control received", "bytes/s", "what a process heard of the hierarchy, by process", _CONTROL, True),
)

MEASURES: dict[str, Measure] = {item.name: item for item in _ALL}
"""In the order in which they are shown."""

RATES = {
    DATAGRAMS_SENT: "datagrams a second",
    DATAGRAM_BYTES_SENT: "bytes a second",
    CONTROL_SENT: "control sent",
    CONTROL_RECEIVED: "control received",
    BLOCKED_BY_WINDOW: "blocked by window",
    BLOCKED_BY_VIEW: "blocked by view",
}
"""By gauge, the measure that has it for each member and second."""


def what_is_missing(found: Iterable[str]) -> list[str]:
    """Of the measures that a trace did not allow, the rows that they need."""
    there = set(found)
    return [f"{item.name} needs {item.needs}" for item in MEASURES.values() if item.name not in there]
