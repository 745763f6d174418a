"""A probe without a network: what is asked, which answers count, and what fits a datagram."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.unit.probe_samples import FIRST, A, B, C, answer, view
from tests.unit.wire_samples import control_datagram, control_messages, probe_messages, processes
from unisono.cli.picture_report import as_json, show
from unisono.clock import LamportClock
from unisono.engine import Address, DatagramReceived, Deliver, Effect, Note, SendDatagram, Start, TimePassed
from unisono.identity import NAME_LIMIT_BYTES, ProcessId, ViewId
from unisono.intergroup import Context
from unisono.intergroup.answering import Answering
from unisono.probing.asker import ANSWER_LIMIT, LEAST_WAIT, Asker, Reason
from unisono.probing.picture import Watch
from unisono.sealing import NullKeyAgreement, NullSeal
from unisono.settings import Settings
from unisono.units import SECOND
from unisono.wire.layout import group_number
from unisono.wire.messages import ControlMessage, ControlPacket, DataMessage
from unisono.wire.probe_messages import (
    KNOWN_LIMIT,
    LISTED_LIMIT,
    SPREAD_LIMIT,
    Level,
    Levels,
    ProbeAnswer,
    ProbedView,
    ProbeRequest,
    Silent,
    Traffic,
    pack_known,
)
from unisono.wire.reading import read_datagram
from unisono.wire.refusals import Refusal
from unisono.wire.writing import DatagramWriter

SEAL = NullSeal()
NUMBER = group_number("r", "g")
WORST = (1 << 63) - 2


def begun(every: int | None = None, wait: int = SECOND) -> tuple[Asker, ProbeRequest]:
    asker = Asker("g", "r", "asker", lambda size: bytes(range(1, size + 1)), wait, every)
    (request,) = asked(asker.handle(Start(), 0, 0))
    return asker, request


def asked(effects: list[Effect]) -> list[ProbeRequest]:
    requests = []
    for effect in effects:
        assert isinstance(effect, SendDatagram)
        assert effect.to == "multicast:g"
        packet = read_datagram(effect.data, SEAL)
        assert isinstance(packet, ControlPacket)
        assert packet.group == NUMBER
        requests += [message for message in packet.messages if isinstance(message, ProbeRequest)]
    return requests


def tell(asker: Asker, process: ProcessId, message: ControlMessage, group: int = NUMBER) -> list[Effect]:
    (datagram,) = DatagramWriter(process, group, SEAL, 60_000).control([message])
    return asker.handle(DatagramReceived(Address("x"), Address("y"), 1, 0, 0, datagram), 1, 1)


def test_a_round_gathers_answers_until_its_end() -> None:
    asker, request = begun()
    assert (request.round, request.spread, request.known) == (1, SECOND // 4, b"")
    for process in (A, B):
        assert tell(asker, process, answer(token=request.token)) == []
    while (due := asker.deadline()) is not None and due < SECOND:
        assert all(isinstance(effect, SendDatagram) for effect in asker.handle(TimePassed(), due, 0))
    assert asker.handle(TimePassed(), SECOND, 0) == [Deliver("g", "", 0, ())]
    assert asker.finished is not None
    assert sorted(asker.finished.answers) == [A, B]
    assert asker.deadline() is None
    assert tell(asker, C, answer(token=request.token)) == [Note(Reason.LATE)]


def test_the_question_is_repeated_and_names_who_has_answered() -> None:
    asker, request = begun()
    tell(asker, A, answer(token=request.token))
    times = []
    while (due := asker.deadline()) is not None and due < SECOND:
        times.append(due)
        (again,) = asked(asker.handle(TimePassed(), due, 0))
        assert (again.token, again.round) == (request.token, 1)
        assert again.knows(A)
        assert not again.knows(B)
    assert times == [SECOND // 8, SECOND // 4, SECOND // 2]


def test_where_too_many_have_answered_to_be_named_nothing_is_repeated() -> None:
    asker, request = begun()
    for number in range(KNOWN_LIMIT + 1):
        tell(asker, ProcessId(f"p{number}", 1), answer(token=request.token))
    assert asker.handle(TimePassed(), SECOND // 2, 0) == []


def test_the_longest_question_fits_a_datagram() -> None:
    asker, request = begun()
    for number in range(KNOWN_LIMIT):
        tell(asker, ProcessId(f"p{number}", 1), answer(token=request.token))
    (effect,) = asker.handle(TimePassed(), SECOND // 8, 0)
    assert isinstance(effect, SendDatagram)
    assert len(effect.data) <= Settings().datagram_bytes


def test_rounds_follow_one_another() -> None:
    asker, request = begun(every=3 * SECOND, wait=2 * SECOND)
    for due in (SECOND, 2 * SECOND):
        asker.handle(TimePassed(), due, 0)
    assert asker.deadline() == 3 * SECOND
    (next_one,) = asked(asker.handle(TimePassed(), 3 * SECOND, 0))
    assert (next_one.token, next_one.round) == (request.token, 2)
    assert tell(asker, A, answer(token=request.token, round=1)) == [Note(Reason.LATE)]
    assert tell(asker, A, answer(token=request.token, round=2)) == []


def test_a_round_is_not_shorter_than_its_wait() -> None:
    asker, _ = begun(every=LEAST_WAIT, wait=SECOND)
    asker.handle(TimePassed(), SECOND, 0)
    assert asker.deadline() == SECOND


def test_answers_that_are_none_are_counted_and_left_alone() -> None:
    asker, request = begun()
    token = request.token
    assert tell(asker, A, answer(token=token + 1)) == [Note(Reason.NO_ANSWER)]
    assert tell(asker, A, request) == [Note(Reason.NO_ANSWER)]
    assert tell(asker, A, answer(token=token), group=NUMBER + 1) == [Note(Reason.OTHER_GROUP)]
    assert tell(asker, A, answer(token=token, round=2)) == [Note(Reason.LATE)]
    escape = ProcessId("\x1b[2J", 1)
    for bad in (
        answer(token=token, agreed=view(FIRST, A, escape)),
        answer(token=token, shown=view(ViewId(1, escape, 1), A)),
        answer(token=token, suspects=(Silent(escape, 1),)),
        answer(token=token, suspects=(Silent(ProcessId("é" * NAME_LIMIT_BYTES, 1), 1),)),
    ):
        assert tell(asker, A, bad) == [Note(Reason.BAD_NAME)]
    data = DatagramWriter(A, NUMBER, SEAL, 1400).data([DataMessage(1, 1, 1, 0, 0, 1, b"x")])
    for datagram, reason in ((data, Reason.NO_ANSWER), (data[:-1], Refusal.SEAL), (b"", Refusal.SHORT)):
        fact = DatagramReceived(Address("x"), Address("y"), 1, 0, 0, datagram)
        assert asker.handle(fact, 1, 1) == [Note(reason)]
    assert asker._answers == {}


def test_there_is_an_end_to_the_answers_that_are_kept() -> None:
    asker, request = begun()
    asker._answers.update((ProcessId(f"p{number}", 1), answer()) for number in range(ANSWER_LIMIT))
    assert tell(asker, A, answer(token=request.token)) == [Note(Reason.TOO_MANY)]
    assert tell(asker, ProcessId("p7", 1), answer(token=request.token)) == []


@given(st.lists(st.tuples(processes, control_messages | probe_messages(processes)), max_size=8))
def test_nothing_that_comes_breaks_the_asker_or_the_picture(said: list[tuple[ProcessId, ControlMessage]]) -> None:
    asker, request = begun()
    for process, message in said:
        if isinstance(message, ProbeAnswer):
            message = msgspec.structs.replace(message, token=request.token, round=1)
        tell(asker, process, message)
    asker.handle(TimePassed(), SECOND, 0)
    assert asker.finished is not None
    watch = Watch()
    for _ in range(2):
        picture = watch.look(asker.finished)
        Console(file=StringIO(), width=200).print(show(picture, "g", ""))
        json.dumps(as_json(picture, "g", ""))


def test_who_has_answered_is_named_in_few_bytes() -> None:
    everybody = [ProcessId(f"p{number}", number) for number in range(KNOWN_LIMIT)]
    request = ProbeRequest(1, 1, 0, pack_known(everybody))
    assert len(request.known) == 4 * KNOWN_LIMIT
    assert all(request.knows(process) for process in everybody)
    assert not request.knows(A)


@pytest.mark.parametrize(
    "body",
    [
        [1, 1, 0, b"abc"],
        [1, 1, 0, bytes(4 * KNOWN_LIMIT + 4)],
        [1, 1, SPREAD_LIMIT + 1, b""],
        [1, 1 << 32, 0, b""],
        [-1, 1, 0, b""],
        [1, 1, -1, b""],
        [1, 1, 0],
        [1, 1, 0, b"", 0],
    ],
)
def test_a_question_out_of_its_limits_is_refused(body: list[object]) -> None:
    packet = read_datagram(control_datagram((ProbeRequest.code, msgspec.msgpack.encode(body))), SEAL)
    assert isinstance(packet, ControlPacket)
    assert (packet.messages, packet.refused) == ([], (Refusal.CONTROL_BODY,))


@pytest.mark.parametrize(
    "wrong",
    [
        {"service": "carrier pigeon"},
        {"state": "bored"},
        {"suspects": (Silent(A, 1),) * (LISTED_LIMIT + 1)},
        {"agreed": view(FIRST, *(A,) * (LISTED_LIMIT + 1))},
        {"follows": -1},
        {"followers": 1_000_001},
        {"traffic": Traffic(1 << 63, 0, 0, 0, 0, 0)},
        {"levels": Levels(*(Level(-1, 0),) * 5)},
        {"suspects": (Silent(ProcessId("x" * 65, 1), 1),)},
    ],
)
def test_an_answer_out_of_its_limits_is_refused(wrong: dict[str, Any]) -> None:
    packet = read_datagram(control_datagram((ProbeAnswer.code, msgspec.msgpack.encode(answer(**wrong)))), SEAL)
    assert isinstance(packet, ControlPacket)
    assert (packet.messages, packet.refused) == ([], (Refusal.CONTROL_BODY,))


@pytest.mark.parametrize("datagram_bytes", [576, 700, 1400, 9000])
@pytest.mark.parametrize("length", [1, 20, NAME_LIMIT_BYTES])
def test_an_answer_is_cut_until_it_fits(datagram_bytes: int, length: int) -> None:
    """Whatever the numbers are, and however many there are: what is left out is counted."""
    itself = ProcessId("n" * length, (1 << 63) - 1)
    crowd = [ProcessId(f"{number:0{length}}"[-length:], (1 << 63) - 1) for number in range(LISTED_LIMIT)]
    everything = ViewId((1 << 63) - 1, itself, (1 << 63) - 1)
    full = answer(
        token=WORST,
        round=(1 << 32) - 1,
        at=WORST,
        age=WORST,
        service="timestamp-latest",
        state="recovery info",
        agreed=ProbedView(everything, WORST, tuple(crowd), 10_000),
        same=False,
        shown=ProbedView(everything, WORST, tuple(crowd), 10_000),
        traffic=Traffic(*(WORST,) * 6),
        levels=Levels(*(Level(WORST, WORST),) * 5),
        suspects=tuple(Silent(process, WORST) for process in crowd),
        suspected=10_000,
        follows=10_000,
        followers=10_000,
    )
    settings = Settings(datagram_bytes=datagram_bytes)
    clock, keys = LamportClock(settings.clock_drift_limit), NullKeyAgreement()
    context = Context("g", "r", itself, settings, clock, no_randomness(), SEAL, keys)
    cut = Answering._cut(answering_of(context), full)
    (datagram,) = context.writer.control([cut])
    assert len(datagram) <= datagram_bytes
    assert cut.agreed is not None
    assert (cut.agreed.id, cut.agreed.count, cut.suspected) == (everything, 10_000, 10_000)
    assert cut.agreed.members == tuple(crowd[: len(cut.agreed.members)])
    if datagram_bytes == 9000 and length < NAME_LIMIT_BYTES:
        assert cut == full
    if datagram_bytes >= 1400:
        assert cut.agreed.members


def no_randomness() -> Any:
    class Zero:
        def random(self) -> float:
            return 0.0

    return Zero()


def answering_of(context: Context) -> Answering:
    """One that has nothing but its context: no more is needed to cut."""
    answering = Answering.__new__(Answering)
    answering._context = context
    return answering
