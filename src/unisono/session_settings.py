"""The settings of virtual synchrony sessions and of membership servers: part of the one table in `unisono.settings`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from unisono.control_settings import ControlSettings
from unisono.units import MILLISECOND, SECOND

_DURATION = {"unit": "duration"}


class SessionSettings(ControlSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a client takes part in a group of a session, and how servers and clients watch each other."""

    semantics: Annotated[
        Literal["strong", "weak"],
        Meta(
            description="In a session: a `strong` group has virtual synchrony; a `weak` one has views and reliable "
            "delivery in source order, and nobody waits when a view changes."
        ),
    ] = "strong"
    block: Annotated[
        Literal["auto", "ask"],
        Meta(
            description="In a session, when the view is about to change: `auto` lets sends wait by itself; with `ask` "
            "the application gets a Block, may send its last, and says `block_ok`."
        ),
    ] = "auto"
    block_timeout: Annotated[
        int,
        Meta(
            ge=MILLISECOND,
            le=3600 * SECOND,
            description="In a session: an application that does not answer a Block for this long is not waited for.",
            extra=_DURATION,
        ),
    ] = SECOND
    optimistic: Annotated[
        bool,
        Meta(description="In a session: sending goes on while the view changes, into the view that is expected."),
    ] = False
    optimistic_policy: Annotated[
        Literal["return", "resend", "drop"],
        Meta(
            description="In a session: what becomes of optimistic messages whose view never came. `return` gives them "
            "back to the application, `resend` sends them in the next view, `drop` forgets them."
        ),
    ] = "return"
    stable_after: Annotated[
        int,
        Meta(
            ge=1,
            le=100_000,
            description="In a session: after so many messages a member tells what it has delivered.",
        ),
    ] = 64
    forward_timeout: Annotated[
        int,
        Meta(
            ge=MILLISECOND,
            le=60 * SECOND,
            description="In a session: who waits for so long for messages of a member that is gone asks the next "
            "member that has them.",
            extra=_DURATION,
        ),
    ] = 50 * MILLISECOND
    server_interval: Annotated[
        int,
        Meta(
            ge=MILLISECOND,
            le=60 * SECOND,
            description="How often a membership server, its clients and other servers say that they live.",
            extra=_DURATION,
        ),
    ] = 200 * MILLISECOND
    server_timeout: Annotated[
        int,
        Meta(
            ge=10 * MILLISECOND,
            le=3600 * SECOND,
            description="A server or client that is silent for this long is taken for gone.",
            extra=_DURATION,
        ),
    ] = SECOND
    failover: Annotated[
        int,
        Meta(
            ge=0,
            le=3600 * SECOND,
            description="Clients of a server that is gone stay in their views for this long, to come to another one.",
            extra=_DURATION,
        ),
    ] = SECOND


ONLY_OF_SESSIONS = frozenset(SessionSettings.__annotations__)
"""What means nothing to a group of peers."""

OF_SESSIONS = ONLY_OF_SESSIONS | {
    "clock_drift_limit",
    "datagram_bytes",
    "event_limit",
    "gauge_interval",
    "keep_alive",
    "leave_timeout",
    "merge_delay",
    "message_limit_bytes",
    "patience",
    "receive_buffer_bytes",
    "report_interval",
    "request_delay",
    "request_limit",
    "scope",
    "send_queue_bytes",
    "suspicion",
    "window_bytes",
}
"""What sessions and their servers and controllers go by."""
