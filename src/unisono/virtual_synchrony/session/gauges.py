"""How full the buffers of a session's group were since they were last measured, beside their caps (L7)."""

from __future__ import annotations

from unisono.reliable.gaps import HORIZON_LIMIT
from unisono.reliable.step import Place, Step
from unisono.reliable.windows import MESSAGE_OVERHEAD_BYTES
from unisono.settings import Settings
from unisono.trace.schema import GaugeRow
from unisono.virtual_synchrony.session.flow import Flow
from unisono.virtual_synchrony.session.relaying import RELAY_ROOM_BYTES


def record_gauges(step: Step, place: Place, settings: Settings, flow: Flow) -> None:
    """Write the high-water marks and begin new ones."""
    outgoing = flow.outgoing
    held = [streams for streams in (flow.streams, flow.future) if streams is not None]
    incoming = [stream for streams in held for stream in streams.incoming.values()]
    message_cap = settings.message_limit_bytes + RELAY_ROOM_BYTES + MESSAGE_OVERHEAD_BYTES
    for name, value, cap in (
        ("datagrams sent", place.datagrams, None),
        ("datagram bytes sent", place.datagram_bytes, None),
        ("unstable bytes", max((s.own.window.high_water for s in held), default=0), settings.window_bytes),
        ("send queue bytes", outgoing.high_water, max(settings.send_queue_bytes, message_cap) + settings.window_bytes),
        (
            "receive buffer bytes",
            max((s.window.high_water for s in incoming), default=0),
            settings.receive_buffer_bytes,
        ),
        ("repair tickets", max((s.gaps.take_high_water() for s in incoming), default=0), HORIZON_LIMIT),
        ("reassembly bytes", max((s.assembly.high_water for s in incoming), default=0), message_cap),
        ("untaken messages", flow.untaken, None),
    ):
        step.record(GaugeRow(kind="GAUGE", name=name, value=value, cap=cap))
    for why, nanoseconds in outgoing.blocked.take(step.now).items():
        if nanoseconds:
            step.record(GaugeRow(kind="GAUGE", name=f"blocked by {why} nanoseconds", value=nanoseconds))
    place.begin_measure()
    outgoing.high_water = outgoing.queued_bytes
    for streams in held:
        streams.own.window.high_water = streams.own.window.bytes
    for stream in incoming:
        stream.window.high_water = stream.window.bytes
        stream.assembly.high_water = stream.assembly.bytes
