"""The settings of the control hierarchy: part of the one table in `unisono.settings`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from unisono.units import KIB, MIB, MILLISECOND, SECOND

_DURATION = {"unit": "duration"}
_SIZE = {"unit": "size"}


class ControlSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a control process takes part in the hierarchy; the names of 000 2.2.3 in words."""

    control: Annotated[
        bool, Meta(description="Take part in the control hierarchy, with one control process for a whole site.")
    ] = True
    low_coordinators: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="The fewest coordinators; in a large hierarchy, three quarters of the root of its size.",
        ),
    ] = 3
    high_coordinators: Annotated[
        int,
        Meta(
            ge=2,
            le=1000,
            description="The most coordinators; in a large hierarchy, one and a half times the root of its size.",
        ),
    ] = 9
    local_target: Annotated[
        int, Meta(ge=1, le=500, description="How many children a coordinator should have, about.")
    ] = 32
    local_bandwidth: Annotated[
        int,
        Meta(
            ge=256,
            le=64 * MIB,
            description="Control traffic of one local group, in bytes a second.",
            extra=_SIZE,
        ),
    ] = 8 * KIB
    global_bandwidth: Annotated[
        int,
        Meta(
            ge=256,
            le=64 * MIB,
            description="Control traffic among the coordinators, in bytes a second.",
            extra=_SIZE,
        ),
    ] = 8 * KIB
    control_interval: Annotated[
        int,
        Meta(
            ge=10 * MILLISECOND,
            le=60 * SECOND,
            description="A control process speaks at most this often, on the average.",
            extra=_DURATION,
        ),
    ] = SECOND
    control_patience: Annotated[
        int,
        Meta(
            ge=2, le=100, description="A control process that misses this many of its own intervals is taken for dead."
        ),
    ] = 5
    closeness: Annotated[
        int,
        Meta(
            ge=0,
            le=60 * SECOND,
            description="A coordinator nearer than this is close: one of the two may step down.",
            extra=_DURATION,
        ),
    ] = 30 * MILLISECOND
    boundary_ttl: Annotated[int, Meta(ge=0, le=255, description="A coordinator more hops away than this is far.")] = 16
    state_change_low: Annotated[
        int,
        Meta(
            ge=MILLISECOND,
            le=3600 * SECOND,
            description="The shortest wait before a child becomes a coordinator, or the other way round.",
            extra=_DURATION,
        ),
    ] = SECOND
    state_change_high: Annotated[
        int,
        Meta(
            ge=MILLISECOND,
            le=3600 * SECOND,
            description="By how much that wait varies, and grows for changes that are less called for.",
            extra=_DURATION,
        ),
    ] = 4 * SECOND
    startup_wait: Annotated[
        int,
        Meta(
            ge=10 * MILLISECOND,
            le=600 * SECOND,
            description="A control process that starts listens at most this long before it decides what to be.",
            extra=_DURATION,
        ),
    ] = 3 * SECOND
    search_step: Annotated[
        int,
        Meta(
            ge=10 * MILLISECOND,
            le=60 * SECOND,
            description="How long each ring of a search for a coordinator waits for answers.",
            extra=_DURATION,
        ),
    ] = 400 * MILLISECOND
