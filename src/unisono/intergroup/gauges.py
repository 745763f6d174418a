"""What was sent, how full the buffers were and how long sends waited, since they were last measured.

Buffers stand beside their caps (L7).
"""

from __future__ import annotations

from unisono.intergroup.agreed_order import WAITING_VIEWS
from unisono.intergroup.asking import Asking
from unisono.intergroup.carrying import Carrying
from unisono.intergroup.delivery import Delivery
from unisono.intergroup.peers import PEER_LIMIT, Peers
from unisono.intergroup.receiving import Receiving
from unisono.intergroup.repairing import Repairing
from unisono.intergroup.sending import Sending
from unisono.reliable.gaps import HORIZON_LIMIT
from unisono.reliable.repairs import REPAIRS_LIMIT
from unisono.reliable.step import Place, Step
from unisono.reliable.windows import MESSAGE_OVERHEAD_BYTES
from unisono.settings import Settings
from unisono.trace.schema import GaugeRow
from unisono.wire.membership_messages import MEMBER_LIMIT


def record_traffic(step: Step, place: Place) -> None:
    """Write what was sent since the last time; it has no cap."""
    for name, value in (("datagrams sent", place.datagrams), ("datagram bytes sent", place.datagram_bytes)):
        step.record(GaugeRow(kind="GAUGE", name=name, value=value))
    place.begin_measure()


def record_gauges(
    step: Step,
    settings: Settings,
    sending: Sending,
    delivery: Delivery,
    receiving: Receiving,
    repairing: Repairing,
    peers: Peers,
) -> None:
    """Write the high-water marks and begin new ones."""
    streams, ordered = receiving.following.streams.values(), receiving.following.ordered
    scattered = None if receiving.casual is None else receiving.casual.scattered
    message_cap = settings.message_limit_bytes + MESSAGE_OVERHEAD_BYTES
    assembled = max((stream.assembly.high_water for stream in streams), default=0)
    for name, value, cap in (
        ("unstable bytes", sending.window.high_water, settings.window_bytes),
        ("send queue bytes", sending.queue_high_water, max(settings.send_queue_bytes, message_cap)),
        (
            "receive buffer bytes",
            max((stream.window.high_water for stream in streams), default=0),
            settings.receive_buffer_bytes + settings.window_bytes,
        ),
        ("repair tickets", max((stream.gaps.take_high_water() for stream in streams), default=0), HORIZON_LIMIT),
        ("reassembly bytes", max(assembled, scattered.high_water if scattered else 0), message_cap),
        ("held for repair bytes", repairing.take_high_water(), settings.window_bytes),
        ("repairs to send", repairing.take_most_pending(), REPAIRS_LIMIT),
        ("peers", len(peers), PEER_LIMIT),
        ("views to come", 0 if ordered is None else ordered.waiting_views, WAITING_VIEWS + MEMBER_LIMIT),
        ("untaken messages", delivery.untaken_high_water, settings.event_limit),
    ):
        step.record(GaugeRow(kind="GAUGE", name=name, value=value, cap=cap))
    for why, nanoseconds in sending.blocked.take(step.now).items():
        if nanoseconds:
            step.record(GaugeRow(kind="GAUGE", name=f"blocked by {why} nanoseconds", value=nanoseconds))
    sending.window.high_water = sending.window.bytes
    sending.queue_high_water = sending.queued_bytes - sending.carried_bytes
    delivery.untaken_high_water = delivery.untaken
    if scattered is not None:
        scattered.high_water = scattered.bytes
    for stream in streams:
        stream.window.high_water = stream.window.bytes
        stream.assembly.high_water = stream.assembly.bytes


def record_proxy(step: Step, settings: Settings, asking: Asking, carrying: Carrying) -> None:
    """Write what waited to be sent by others and for others, where there was anything."""
    message_cap = settings.message_limit_bytes + MESSAGE_OVERHEAD_BYTES
    if asking.high_water:
        step.record(
            GaugeRow(
                kind="GAUGE",
                name="asked bytes",
                value=asking.high_water,
                cap=max(settings.send_queue_bytes, message_cap),
            )
        )
    if carrying.high_water:
        step.record(
            GaugeRow(
                kind="GAUGE", name="carried bytes", value=carrying.high_water, cap=max(carrying.limit, message_cap)
            )
        )
    asking.high_water = asking.bytes
    carrying.high_water = carrying.carried_bytes
