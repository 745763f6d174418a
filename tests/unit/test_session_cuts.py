"""Cuts of large groups: in as many parts as they need, each in a datagram, whole when the last part is there."""

from __future__ import annotations

from random import Random

from unisono.clock import LamportClock
from unisono.identity import ProcessId, ViewMark
from unisono.sealing import NullSeal
from unisono.settings import Settings
from unisono.virtual_synchrony.session.change import Cuts
from unisono.virtual_synchrony.session.context import Context
from unisono.virtual_synchrony.session.streams import parted
from unisono.wire.messages import ControlPacket
from unisono.wire.reading import read_datagram
from unisono.wire.session_messages import Cut

MEMBERS = 1000
VIEW = ViewMark(7, 1)
SOURCE = ProcessId("a-member-with-a-long-name", 3)


def cut_of_everybody(change: int) -> tuple[Context, dict[int, int], list[Cut]]:
    settings = Settings(datagram_bytes=1400)
    context = Context("g", "", SOURCE, settings, LamportClock(settings.clock_drift_limit), Random(1), NullSeal())
    counts = {seat: (1 << 40) + seat for seat in range(MEMBERS)}
    parts = parted(context, sorted(counts.items()))
    return context, counts, [Cut(change, VIEW, part, len(parts), entries) for part, entries in enumerate(parts)]


def test_every_part_of_a_cut_of_a_thousand_fits_a_datagram() -> None:
    context, _, parts = cut_of_everybody(1)
    assert len(parts) > 1
    for part in parts:
        (datagram,) = context.writer.control([part])
        assert len(datagram) <= 1400
        packet = read_datagram(datagram, NullSeal())
        assert isinstance(packet, ControlPacket)
        assert packet.messages == [part]


def test_a_cut_counts_when_its_last_part_has_come_in_any_order() -> None:
    _, counts, parts = cut_of_everybody(4)
    cuts = Cuts(10)
    shuffled = Random(2).sample(parts, len(parts))
    for part in shuffled[:-1]:
        assert not cuts.take_in(SOURCE, part)
        assert not cuts.take_in(SOURCE, part), "a part that comes again changes nothing"
    assert cuts.of(SOURCE, 4) is None
    assert cuts.take_in(SOURCE, shuffled[-1])
    whole = cuts.of(SOURCE, 4)
    assert whole is not None
    assert whole.counts == counts


def test_a_part_for_a_newer_change_begins_a_new_cut() -> None:
    _, _, earlier = cut_of_everybody(4)
    _, _, later = cut_of_everybody(5)
    cuts = Cuts(10)
    for part in earlier[:-1]:
        cuts.take_in(SOURCE, part)
    assert not cuts.take_in(SOURCE, later[-1])
    assert not cuts.take_in(SOURCE, earlier[-1]), "it is too late for the earlier one"
    assert cuts.of(SOURCE, 4) is None
    assert cuts.of(SOURCE, 5) is None
