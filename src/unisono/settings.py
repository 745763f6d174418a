"""The one table of settings: what `join` takes, what a scenario's [options] may say, what the docs list.

Each field carries its unit, its bounds and its sentence; nothing else in the project repeats them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from unisono.control_settings import ControlSettings
from unisono.errors import SettingError
from unisono.session_settings import OF_SESSIONS, SessionSettings
from unisono.spelling import did_you_mean
from unisono.units import KIB, MIB, MILLISECOND, SECOND, parse_duration, parse_size, render_duration, render_size

Service = Literal["unordered", "source-latest", "timestamp-latest", "framed", "source", "timestamp"]
SERVICE_CODES: dict[Service, str] = {
    "unordered": "UU",
    "source-latest": "USO",
    "timestamp-latest": "UTO",
    "framed": "ALF",
    "source": "RSO",
    "timestamp": "RTO",
}
"""What each receiver may choose, and how the documents and the trace call it."""
RELIABLE_SERVICES: frozenset[Service] = frozenset({"source", "timestamp"})

_DURATION = {"unit": "duration"}
_SIZE = {"unit": "size"}


Role = Literal["sender", "receiver"]
"""What a process is in a group: one of those who send and agree on views, or one who follows them."""


class Settings(SessionSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one process takes part in one group, and in the control hierarchy below all of them."""

    service: Annotated[
        Service,
        Meta(
            description="What this receiver is promised: `unordered` (UU), `source-latest` (USO), `timestamp-latest` "
            "(UTO), `framed` (ALF), `source` (RSO) or `timestamp` (RTO)."
        ),
    ] = "source"
    role: Annotated[
        Literal["sender", "receiver", "auto"],
        Meta(
            description="A `sender` takes part in the agreement on views; a `receiver` sends nothing, not even "
            "keep-alives, and nobody waits for it in any order; `auto` is a receiver that becomes a sender when it "
            "sends, and a receiver again when it has been silent for `idle`."
        ),
    ] = "sender"
    idle: Annotated[
        int,
        Meta(
            ge=MILLISECOND,
            le=86_400 * SECOND,
            description="How long a member with the role `auto` stays a sender after its last message.",
            extra=_DURATION,
        ),
    ] = 10 * SECOND
    sources: Annotated[
        Literal["all"] | tuple[str, ...],
        Meta(description="Whose messages a `source` receiver wants: `all`, or a list of process names."),
    ] = "all"
    senders: Annotated[
        Literal["all"] | tuple[str, ...],
        Meta(
            description="Whom timestamp order takes in: `all` that are heard, or those of a list of process names; it "
            "waits for none of them, and nobody else may send."
        ),
    ] = "all"
    across: Annotated[
        str,
        Meta(
            max_length=64,
            description="Groups of one process with the same name here are delivered in one timestamp order.",
        ),
    ] = ""
    membership: Annotated[
        bool, Meta(description="Views of who was heard lately, for a receiver that is promised nothing.")
    ] = False
    hold: Annotated[
        int,
        Meta(
            ge=0,
            le=60 * SECOND,
            description="How long a `timestamp-latest` receiver waits for messages that may come in between.",
            extra=_DURATION,
        ),
    ] = 50 * MILLISECOND
    rejoin: Annotated[
        bool, Meta(description="Activate a source again after it left this receiver behind or fell silent.")
    ] = True
    keep_alive: Annotated[
        int,
        Meta(
            ge=MILLISECOND,
            le=60 * SECOND,
            description="A process that has sent nothing for this long says so.",
            extra=_DURATION,
        ),
    ] = 200 * MILLISECOND
    early_keep_alives: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="How many keep-alives a second all senders together may send early, for a timestamp order "
            "that waits for them.",
        ),
    ] = 4000
    report_interval: Annotated[
        int,
        Meta(
            ge=MILLISECOND,
            le=60 * SECOND,
            description="A receiver reports what it has at most this often.",
            extra=_DURATION,
        ),
    ] = 50 * MILLISECOND
    direct_reports: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="A source with more receivers than this hears of them through the control hierarchy.",
        ),
    ] = 32
    patience: Annotated[
        int,
        Meta(
            ge=10 * MILLISECOND,
            le=86400 * SECOND,
            description="A receiver that is silent, or holds a full window back, for this long is left behind.",
            extra=_DURATION,
        ),
    ] = 5 * SECOND
    source_timeout: Annotated[
        int,
        Meta(
            ge=10 * MILLISECOND,
            le=86400 * SECOND,
            description="A source that is silent for this long is followed no more; senders in timestamp order go by "
            "`suspicion` before that.",
            extra=_DURATION,
        ),
    ] = 30 * SECOND
    suspicion: Annotated[
        int,
        Meta(
            ge=10 * MILLISECOND,
            le=86400 * SECOND,
            description="A sender in timestamp order that is silent for this long, or longer where its link was slow "
            "before, is suspected; never before three `keep_alive`s.",
            extra=_DURATION,
        ),
    ] = SECOND
    merge_delay: Annotated[
        int,
        Meta(
            ge=0,
            le=60 * SECOND,
            description="How long senders of another view are gathered before the views are merged.",
            extra=_DURATION,
        ),
    ] = 20 * MILLISECOND
    primary: Annotated[
        int,
        Meta(
            ge=0,
            le=1024,
            description="How many senders there are at most, for views that say whether they are the primary one: "
            "more than half of these, or of the last primary view. 0: nobody asks.",
        ),
    ] = 0
    request_delay: Annotated[
        int,
        Meta(
            ge=0,
            le=60 * SECOND,
            description="How long a packet may be overtaken before it counts as lost.",
            extra=_DURATION,
        ),
    ] = MILLISECOND
    request_limit: Annotated[
        int,
        Meta(
            ge=MILLISECOND,
            le=60 * SECOND,
            description="Repeated requests back off up to this interval.",
            extra=_DURATION,
        ),
    ] = SECOND
    activation_interval: Annotated[
        int,
        Meta(
            ge=MILLISECOND,
            le=60 * SECOND,
            description="An unanswered activation is asked for again after this long.",
            extra=_DURATION,
        ),
    ] = 200 * MILLISECOND
    activation_tries: Annotated[
        int, Meta(ge=1, le=1000, description="After this many unanswered tries the source is reported as unavailable.")
    ] = 10
    leave_timeout: Annotated[
        int,
        Meta(
            ge=0,
            le=3600 * SECOND,
            description="How long a leaving process stays to repair what others miss.",
            extra=_DURATION,
        ),
    ] = 5 * SECOND
    window_bytes: Annotated[
        int,
        Meta(
            ge=64 * KIB,
            le=1024 * MIB,
            description="What a sender may have sent and not yet know to be stable.",
            extra=_SIZE,
        ),
    ] = MIB
    send_queue_bytes: Annotated[
        int, Meta(ge=0, le=4096 * MIB, description="What may wait to be sent; one message always may.", extra=_SIZE)
    ] = 128 * MIB
    receive_buffer_bytes: Annotated[
        int,
        Meta(
            ge=128 * KIB,
            le=4096 * MIB,
            description="What a receiver keeps of one source that it cannot deliver yet; while the end of a view is "
            "agreed, `window_bytes` more.",
            extra=_SIZE,
        ),
    ] = 8 * MIB
    event_limit: Annotated[
        int,
        Meta(ge=1, le=10_000_000, description="Events the application may leave untaken before delivery waits for it."),
    ] = 10_000
    message_limit_bytes: Annotated[
        int,
        Meta(ge=1, le=1024 * MIB, description="The largest message that is sent or put together again.", extra=_SIZE),
    ] = 64 * MIB
    state_discovery: Annotated[
        int,
        Meta(
            ge=10 * MILLISECOND,
            le=86400 * SECOND,
            description="A process with a `state` that hears nobody for this long is the first of its group.",
            extra=_DURATION,
        ),
    ] = 3 * SECOND
    state_limit_bytes: Annotated[
        int,
        Meta(ge=1, le=1 << 44, description="The largest state that a newcomer takes.", extra=_SIZE),
    ] = 16 * 1024 * MIB
    state_chunk_bytes: Annotated[
        int,
        Meta(ge=KIB, le=4 * MIB, description="A state is given in chunks of this size.", extra=_SIZE),
    ] = 256 * KIB
    state_rate_bytes: Annotated[
        int,
        Meta(
            ge=KIB,
            le=1 << 40,
            description="So much of a state a newcomer asks for in a second, to leave room for messages.",
            extra=_SIZE,
        ),
    ] = 32 * MIB
    state_patience: Annotated[
        int,
        Meta(
            ge=100 * MILLISECOND,
            le=86400 * SECOND,
            description="A newcomer that gets nothing from who gives it the state for this long asks another.",
            extra=_DURATION,
        ),
    ] = 30 * SECOND
    datagram_bytes: Annotated[
        int,
        Meta(ge=576, le=65_000, description="The largest datagram, seal and repair envelope included.", extra=_SIZE),
    ] = 1400
    scope: Annotated[int, Meta(ge=0, le=255, description="How many hops a multicast may travel.")] = 32
    clock_drift_limit: Annotated[
        int,
        Meta(
            ge=0,
            le=365 * 86400 * SECOND,
            description="A timestamp further ahead of the local clock than this is not believed.",
            extra=_DURATION,
        ),
    ] = 2 * 86400 * SECOND
    site_timeout: Annotated[
        int,
        Meta(
            ge=100 * MILLISECOND,
            le=3600 * SECOND,
            description="A process whose site's host is silent for this long tries to take its place.",
            extra=_DURATION,
        ),
    ] = 2 * SECOND
    gauge_interval: Annotated[
        int,
        Meta(
            ge=MILLISECOND,
            le=3600 * SECOND,
            description="How often buffers are measured into the trace.",
            extra=_DURATION,
        ),
    ] = SECOND
    trace: Annotated[
        bool,
        Meta(
            description="Make a trace row of every send, delivery and view. `unisono.join` takes a directory instead, "
            "and makes no trace without one."
        ),
    ] = True
    trace_messages: Annotated[
        bool,
        Meta(
            description="With `trace`: rows of messages too. Without, the trace has membership, views, repairs and "
            'gauges. With `unisono.join` say statistics="events" instead.'
        ),
    ] = True
    secure: Annotated[Literal[False], Meta(description="Sealed groups; not offered yet.")] = False

    @property
    def reliable(self) -> bool:
        """Whether the service promises every message."""
        return self.service in RELIABLE_SERVICES

    def __post_init__(self) -> None:
        complaint = self._why_bad()
        if complaint is not None:
            raise SettingError(*complaint)

    def _why_bad(self) -> tuple[str, str] | None:
        """Which setting does not go with the others, and why."""
        if self.service == "timestamp" and self.sources != "all":
            if not self.sources:
                return "sources", 'timestamp order delivers every sender; to send only, join with service="source"'
            return "sources", 'timestamp order takes every sender in; name the senders in "senders" instead'
        if self.across and self.service != "timestamp":
            return "across", f'order across groups needs service "timestamp", not {self.service!r}'
        return None


class SettingField(Struct, frozen=True):
    """One row of the table, as the docs and the scenario reader see it."""

    name: str
    type: Any
    default: Any
    says: str
    unit: str | None

    def shown(self, value: Any) -> str:
        """The value as a person writes it."""
        if self.unit == "duration":
            return render_duration(value)
        if self.unit == "size":
            return render_size(value)
        if isinstance(value, bool):
            return str(value).lower()
        return str(value)


def _fields() -> dict[str, SettingField]:
    hints = get_type_hints(Settings, include_extras=True)
    fields = {}
    of_sessions, of_control = SessionSettings.__struct_fields__, ControlSettings.__struct_fields__
    for info in sorted(
        msgspec.structs.fields(Settings), key=lambda info: (info.name in of_control, info.name in of_sessions)
    ):
        meta = next(part for part in hints[info.name].__metadata__ if isinstance(part, Meta))
        fields[info.name] = SettingField(
            info.name, hints[info.name], info.default, meta.description or "", (meta.extra or {}).get("unit")
        )
    return fields


FIELDS: dict[str, SettingField] = _fields()
"""Every setting by name: those of a group, of sessions, of the control hierarchy, in the order of their classes."""


def read_setting(name: str, value: object) -> Any:
    """One value as a person writes it, checked and turned into what the library uses."""
    field = FIELDS.get(name)
    if field is None:
        raise SettingError(name, f"unknown setting; {did_you_mean(name, tuple(FIELDS))}")
    if name == "secure" and value is True:
        raise SettingError(name, "secure groups are not offered yet; leave it false")
    try:
        if field.unit == "duration" and isinstance(value, str):
            value = parse_duration(value)
        elif field.unit == "size" and isinstance(value, str):
            value = parse_size(value)
        elif field.unit == "duration":
            raise ValueError(f'expected a duration with a unit such as "200ms", got {value!r}')
        return msgspec.convert(value, field.type)
    except (ValueError, msgspec.ValidationError) as error:
        raise SettingError(name, _with_shown_bounds(field, _with_shown_choices(field, value, str(error)))) from None


def _with_shown_choices(field: SettingField, value: object, complaint: str) -> str:
    """What may be said where words are to choose from."""
    if "enum value" not in complaint:
        return complaint
    kind = get_args(field.type)[0]
    if get_origin(kind) is Literal:
        return f"expected one of {', '.join(map(str, get_args(kind)))}, got {value!r}"
    return f'expected "all" or a list of process names, got {value!r}'


def _with_shown_bounds(field: SettingField, complaint: str) -> str:
    """Bounds in the unit a person writes: msgspec speaks of plain integers."""
    meta = next(part for part in field.type.__metadata__ if isinstance(part, Meta))
    if meta.ge is None or "Expected `int`" not in complaint:
        return complaint
    if meta.le is None:
        return f"expected {field.shown(int(meta.ge))} or more"
    return f"expected {field.shown(int(meta.ge))} to {field.shown(int(meta.le))}"


def read_session_settings(values: Mapping[str, object], base: Settings | None = None) -> Settings:
    """Settings of a session, a server or a controller; refuses what is meant for groups of peers."""
    for name in values:
        if name not in FIELDS:
            raise SettingError(name, f"unknown setting; {did_you_mean(name, sorted(OF_SESSIONS))}")
        if name not in OF_SESSIONS:
            raise SettingError(name, "sessions have no such setting, it is for groups of peers (unisono.join)")
    return read_settings(values, base)


def read_settings(values: Mapping[str, object], base: Settings | None = None) -> Settings:
    """Settings from written values, the rest as in `base` or by default."""
    return msgspec.structs.replace(
        base or Settings(), **{name: read_setting(name, value) for name, value in values.items()}
    )
