"""Every key of a scenario file: which table has it, what it takes, and which faults there are.

The reader, the writer and `--set` take the keys from here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from unisono.identity import why_bad_name
from unisono.settings import SERVICE_CODES
from unisono.simulation.scenario_values import (
    ANYBODIES,
    ANYBODY,
    BANDWIDTH,
    FLAG,
    MEMBER,
    RATE,
    RATIO,
    SIZE,
    SPAN,
    STEP,
    TEXT,
    TIME,
    Value,
    list_of,
    number,
    one_of,
    one_or_choice,
    one_or_range,
    one_range_or_choice,
    or_word,
    whole,
)
from unisono.units import MICROSECOND, MILLISECOND

MEMBER_LIMIT = 1024
"""The most members a scenario may have."""

SERVER_LIMIT = 64
CONTROLLER_LIMIT = 256
USUAL_SERVERS = 3
"""Membership servers of a virtual synchrony scenario that does not say."""

PROTOCOLS = ("intergroup", "virtual_synchrony")
LATER_PROTOCOLS = ("precedence", "replication")
LATER_FAULTS = ("absent",)
"""Known words of the format that this version does not offer yet."""

DRAWN_MESSAGES = (
    "data",
    "keep_alive",
    "report",
    "activation_request",
    "activation_grant",
    "repair_request",
    "repair",
    "left_behind",
    "deactivation",
    "name_request",
    "opinion",
    "recovery_info",
    "ready",
    "new_view",
    "cut_info",
    "view_request",
    "add_request",
)
"""What a drawn packet fault may single out."""

SESSION_MESSAGES = ("view_start", "cut", "cut_request", "stable_cut", "session_request")
DRAWN_SESSION_MESSAGES = ("data", "repair", *SESSION_MESSAGES)
"""The same in virtual synchrony."""

MESSAGES = (
    *DRAWN_MESSAGES,
    "leaver",
    "local_control",
    "coordinator_control",
    "global_control",
    "ring_query",
    "search_response",
    "coordinator_leave",
    "farewell",
    "contributed",
    "gathered",
    "proxy_request",
    "proxy_answer",
    "census_request",
    "census_answer",
    *SESSION_MESSAGES,
)
"""What a packet fault may single out with `message`."""

DISK_FAULTS = ("lose_unsynced", "torn", "flip", "stale", "full", "error")

TRACE_KINDS = (
    "SEND",
    "DELIVER",
    "VIEW",
    "START",
    "JOIN",
    "LEAVE",
    "CRASH",
    "ASKED",
    "HANDED",
    "LEFT_BEHIND",
    "UNAVAILABLE",
    "ACTIVATE",
    "GRANT",
    "SUSPECT",
    "COORDINATOR",
    "CHILD",
    "RTR",
    "RTX",
    "GC",
    "MARK",
    "STATE",
    "SAVED",
    "LOADED",
    "CUT",
    "FORWARD",
    "START_CHANGE",
    "BLOCK",
    "BLOCK_OK",
    "NEW_VIEW",
    "SYNCHRONIZED",
    "RETURNED",
)
"""Trace rows that a fault may wait for with `when`."""


class Key(NamedTuple):
    """One key: what it takes, the field that holds it where that has another name, and whether it must be there."""

    value: Value
    field: str | None = None
    required: bool = False


class FaultKind(NamedTuple):
    """One kind of fault: keys it must have, keys it may have, and whether it goes on for a time."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    lasting: bool = True

    @property
    def keys(self) -> tuple[str, ...]:
        """All its keys, in the order in which they are written."""
        timing = ("lasts",) if "each" in self.required else ("lasts", "flaps") if self.lasting else ()
        return ("at", "when", "kind", *self.required, *self.optional, *timing)


def _read_name(raw: object) -> str:
    name: str = TEXT.read(raw)
    if (why := why_bad_name(name)) is not None:
        raise ValueError(why)
    return name


NAME = Value(_read_name, TEXT.write)

SCENARIO_KEYS: dict[str, Key] = {
    "name": Key(NAME, required=True),
    "says": Key(TEXT),
    "protocol": Key(one_of(PROTOCOLS, LATER_PROTOCOLS, "protocol")),
    "seed": Key(whole(0)),
    "members": Key(one_or_range(whole(1, MEMBER_LIMIT))),
    "sites": Key(whole(1, MEMBER_LIMIT)),
    "servers": Key(one_or_range(whole(0, SERVER_LIMIT))),
    "controllers": Key(one_range_or_choice(whole(0, CONTROLLER_LIMIT))),
    "state": Key(SIZE),
    "duration": Key(SPAN),
    "settle": Key(TIME),
    "expect": Key(TEXT),
    "marks": Key(or_word("all", list_of(TEXT))),
    "marks_seeds": Key(whole(1)),
}

TABLES = ("options", "network", "group", "workload", "member", "churn", "fault", "random")
REPEATED_TABLES = ("group", "workload", "member", "churn", "fault")

BURST_KEYS = {"every": Key(SPAN, required=True), "packets": Key(whole(1), required=True)}

NETWORK_KEYS: dict[str, Key] = {
    "shape": Key(one_or_choice(one_of(("lan", "wan", "world", "star", "sites", "regions")))),
    "latency": Key(one_or_range(TIME)),
    "site_latency": Key(one_or_range(TIME)),
    "jitter": Key(TIME),
    "loss": Key(RATE),
    "duplicate": Key(RATE),
    "reorder": Key(RATE),
    "corrupt": Key(RATE),
    "bandwidth": Key(BANDWIDTH),
    "queue": Key(whole(1)),
    "hops": Key(whole(0, 255)),
    "shared": Key(FLAG),
    "regions": Key(whole(1, MEMBER_LIMIT)),
}

SHAPES: dict[str, dict[str, Any]] = {
    "lan": {"latency": 100 * MICROSECOND, "jitter": 50 * MICROSECOND},
    "wan": {"latency": (5 * MILLISECOND, 40 * MILLISECOND), "jitter": 2 * MILLISECOND, "hops": 6},
    "world": {"latency": (20 * MILLISECOND, 150 * MILLISECOND), "jitter": 10 * MILLISECOND, "hops": 12},
    "star": {"latency": 2 * MILLISECOND, "jitter": 200 * MICROSECOND, "hops": 2},
    "sites": {
        "latency": 100 * MICROSECOND,
        "site_latency": (5 * MILLISECOND, 40 * MILLISECOND),
        "jitter": 50 * MICROSECOND,
        "hops": 3,
    },
    "regions": {"latency": 100 * MICROSECOND, "jitter": 200 * MICROSECOND, "regions": 8},
}
"""What a shape means where the file does not say otherwise."""
OF_SHAPES = tuple(dict.fromkeys(key for means in SHAPES.values() for key in means))

GROUP_KEYS = {"name": Key(NAME, required=True), "members": Key(list_of(MEMBER, least=1), required=True)}

WORKLOAD_KEYS: dict[str, Key] = {
    "group": Key(TEXT),
    "senders": Key(or_word("all", list_of(MEMBER, least=1))),
    "rate": Key(or_word("max", number(1e-6, 1e6, 'messages a second above 0, or "max"'))),
    "size": Key(one_or_range(SIZE)),
    "start": Key(TIME),
    "stop": Key(TIME),
    "proxy": Key(FLAG),
}

MEMBER_KEYS = {"index": Key(MEMBER, required=True), "joins": Key(TIME), "leaves": Key(TIME)}
MEMBER_SETTINGS = ("service", "role")
"""Settings that a member has as keys of its own, beside `options`."""

CHURN_KEYS: dict[str, Key] = {
    "of": Key(one_of(("members", "roles"))),
    "members": Key(or_word("receivers", or_word("senders", list_of(MEMBER, least=1)))),
    "rate": Key(number(1e-3, 1e5, "members that join, or change their role, in a second, above 0"), required=True),
    "stay": Key(one_or_range(SPAN), required=True),
    "start": Key(TIME),
    "stop": Key(TIME),
}

WHEN_KEYS = {"kind": Key(one_of(TRACE_KINDS), required=True), "member": Key(ANYBODY), "count": Key(whole(1))}

_PACKETS = ("from", "to", "member", "plane", "message", "sequence", "count")

FAULTS: dict[str, FaultKind] = {
    "partition": FaultKind(("groups",)),
    "one_way": FaultKind(("from", "to")),
    "isolate": FaultKind(("member",)),
    "clog": FaultKind(("members", "each")),
    "lose": FaultKind(("rate",), (*_PACKETS, "together")),
    "duplicate": FaultKind(("rate",), _PACKETS),
    "reorder": FaultKind(("rate",), _PACKETS),
    "corrupt": FaultKind(("rate",), _PACKETS),
    "delay": FaultKind(("by",), _PACKETS),
    "limit": FaultKind(("by",), _PACKETS),
    "replay": FaultKind(("rate", "age")),
    "oversize": FaultKind(("above",)),
    "crash": FaultKind(("member",), ("restart", "disk"), lasting=False),
    "pause": FaultKind(("member",)),
    "slow": FaultKind(("member", "times")),
    "stop_reading": FaultKind(("member",)),
    "stop_answering": FaultKind(("member",)),
    "clock_step": FaultKind(("member", "by"), lasting=False),
    "clock_drift": FaultKind(("member", "by")),
    "timer_drift": FaultKind(("member", "by")),
    "disk": FaultKind(("member", "what"), lasting=False),
    "leave": FaultKind(("member",), ("group",), lasting=False),
    "join": FaultKind(("member",), ("group",), lasting=False),
    "send": FaultKind(("member",), ("group", "size", "count"), lasting=False),
    "change": FaultKind(("member", "service"), ("group",), lasting=False),
    "become_receiver": FaultKind(("member",), ("group",), lasting=False),
    "become_sender": FaultKind(("member",), ("group",), lasting=False),
    "count_audience": FaultKind(("member",), ("group",), lasting=False),
}

FAULT_KEYS: dict[str, Key] = {
    "at": Key(TIME),
    "kind": Key(one_of(tuple(FAULTS), LATER_FAULTS, "fault"), required=True),
    "lasts": Key(or_word("forever", SPAN)),
    "flaps": Key(SPAN),
    "groups": Key(list_of(list_of(ANYBODY, least=1), least=2)),
    "from": Key(ANYBODIES, "sources"),
    "to": Key(ANYBODIES, "targets"),
    "member": Key(ANYBODIES, "members"),
    "members": Key(ANYBODIES, "members"),
    "each": Key(SPAN),
    "rate": Key(RATE),
    "plane": Key(one_of(("multicast", "unicast"))),
    "message": Key(one_of(MESSAGES)),
    "sequence": Key(whole(0)),
    "count": Key(whole(1)),
    "age": Key(SPAN),
    "above": Key(SIZE),
    "restart": Key(TIME),
    "disk": Key(FLAG),
    "times": Key(number(1, 1000, "a factor from 1 to 1000")),
    "what": Key(one_of(DISK_FAULTS)),
    "group": Key(TEXT),
    "size": Key(SIZE),
    "service": Key(one_of(tuple(SERVICE_CODES))),
    "together": Key(FLAG),
}
"""Keys of every fault but `when`, a table, and `by`, which differs between kinds."""

BY = {"delay": SPAN, "limit": BANDWIDTH, "clock_step": STEP, "clock_drift": RATIO, "timer_drift": RATIO}

FAULT_DEFAULTS: dict[str, dict[str, Any]] = {
    **{kind: {"rate": 1.0} for kind in ("lose", "duplicate", "reorder", "corrupt")},
    "send": {"size": 200, "count": 1},
}
"""What a missing key means; a packet fault may leave its rate out only where it singles packets out."""

OF_APPLICATIONS = (
    "stop_reading",
    "stop_answering",
    "leave",
    "join",
    "send",
    "change",
    "become_receiver",
    "become_sender",
    "count_audience",
)
"""Faults of applications, and what applications do: only members have one."""

ONLY_INTERGROUP = ("change", "become_receiver", "become_sender", "count_audience")
ONLY_SESSIONS = ("stop_answering",)
"""Faults that make sense in one protocol alone."""

DRAWN_KINDS = tuple(kind for kind in FAULTS if kind not in ("join", "become_sender", "count_audience", *ONLY_SESSIONS))
"""What [random] can draw; a drawn leave brings its join, who becomes a receiver a sender again; counting is none."""
DRAWN_SESSION_KINDS = tuple(kind for kind in FAULTS if kind not in ("join", *ONLY_INTERGROUP))
"""The same in virtual synchrony."""

DRAWN_SITUATIONS = ("send_and_leave", "come_and_crash", "set_back", "begin_unheard", "narrow")
"""Faults that belong together, which [random] can draw as one."""
DRAWN_SESSION_SITUATIONS = ("send_and_leave", "come_and_crash", "set_back")
"""The same in virtual synchrony."""
OF_TWO = ("partition", "one_way", "begin_unheard")
"""Drawn where there are at least two."""

_DRAWN_NAMES = list_of(
    one_of(tuple(dict.fromkeys((*DRAWN_KINDS, *ONLY_SESSIONS, *DRAWN_SITUATIONS))), LATER_FAULTS, "fault"), least=1
)
RANDOM_KEYS = {"count": Key(one_or_range(whole(0, 1000))), "kinds": Key(or_word("all", _DRAWN_NAMES))}


def fault_value(kind: str, key: str) -> Value:
    """What a key of this kind of fault takes."""
    return BY[kind] if key == "by" else FAULT_KEYS[key].value


def fault_field(key: str) -> str:
    """The field of Fault that a key fills."""
    return FAULT_KEYS[key].field or key if key in FAULT_KEYS else key
