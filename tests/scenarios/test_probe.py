"""Probes of a few real nodes by an outsider: what it learns, and that nobody in the group notices it."""

from __future__ import annotations

from collections.abc import Iterable

from tests.scenarios.test_hostile_membership import Stage
from tests.scenarios.world import DEFAULT_GROUP, Station
from unisono.engine import Start
from unisono.identity import NO_VIEW, ProcessId
from unisono.intergroup.answering import ANSWERS_A_SECOND
from unisono.intergroup.reasons import Reason
from unisono.probing.asker import Asker
from unisono.probing.picture import Picture, Watch
from unisono.reliable.deadlines import Deadlines
from unisono.sealing import NullSeal
from unisono.units import MILLISECOND, SECOND
from unisono.wire.layout import group_number
from unisono.wire.messages import ControlMessage, KeepAlive
from unisono.wire.probe_messages import Level, Levels, ProbeAnswer, ProbeRequest, Traffic
from unisono.wire.writing import DatagramWriter

OUTSIDE = "outsider"
WAIT = 100 * MILLISECOND
EMPTY = Levels(*(Level(0, 1),) * 5)
ANSWER = ProbeAnswer(
    1, 1, 1, 1, True, "source", "apart", None, True, None, Traffic(0, 0, 0, 0, 0, 0), EMPTY, (), 0, 0, 0
)


class Outsider:
    """Somebody who asks the group of a stage, from a station of its own."""

    def __init__(self, stage: Stage, name: str = "outsider", every: int | None = None) -> None:
        self.stage = stage
        world = stage.play._world
        self.asker = Asker(DEFAULT_GROUP, "", name, world._new_entropy, WAIT, every)
        self.station = world.stations[OUTSIDE] = Station(OUTSIDE)
        self.station.node = self.asker  # type: ignore[assignment]  # a station runs any engine
        world.handle(self.station, Start())

    def picture(self) -> Picture:
        self.stage.run(f"run {WAIT // MILLISECOND}ms")
        assert self.asker.finished is not None
        return Watch().look(self.asker.finished)


def goes_on(stage: Stage) -> None:
    """The group does as well as ever, once who asked is gone."""
    stage.run("run 3s")
    del stage.play._world.stations[OUTSIDE]
    stage.goes_on()


def names(processes: Iterable[ProcessId]) -> str:
    return " ".join(process.name for process in processes)


def test_members_say_what_they_are_and_do() -> None:
    stage = Stage()
    stage.run("send a one two", "send b three", "run 300ms")
    picture = Outsider(stage).picture()
    (view,) = picture.views
    assert (view.id, view.count) == (stage.view, 3)
    assert (names(view.members), names(view.present), names(view.followers)) == ("a b c", "a b c", "r")
    assert not view.elsewhere
    assert not view.unheard
    assert 0 < view.age < SECOND
    told = {line.process.name: line.answer for line in picture.lines}
    assert {name: (one.sends, one.service, one.state, one.same) for name, one in told.items()} == {
        "a": (True, "timestamp", "settled", True),
        "b": (True, "timestamp", "settled", True),
        "c": (True, "timestamp", "settled", True),
        "r": (False, "timestamp", "follows", True),
    }
    assert {name: (one.traffic.sent, one.traffic.sent_bytes) for name, one in told.items()} == {
        "a": (2, 6),
        "b": (1, 5),
        "c": (0, 0),
        "r": (0, 0),
    }
    assert all((one.traffic.delivered, one.traffic.delivered_bytes) == (3, 11) for one in told.values())
    assert all(one.traffic.datagrams > 3 and one.traffic.datagram_bytes > 300 for one in told.values())
    assert {name: (one.follows, one.followers) for name, one in told.items()} == {
        "a": (2, 3),
        "b": (2, 3),
        "c": (2, 3),
        "r": (3, 0),
    }
    assert all(not one.suspects and one.suspected == 0 for one in told.values())
    assert all(one.age > 600 * MILLISECOND for one in told.values())


def test_what_waits_shows_beside_its_limit() -> None:
    stage = Stage()
    stage.run("stop reading b", "lose quietly report from b", "send a 20 bytes of it here", "run 100ms")
    told = {line.process.name: line.answer.levels for line in Outsider(stage).picture().lines}
    assert told["a"].window.used > 0
    assert told["a"].window.limit == 1 << 20
    assert told["b"].untaken == Level(5, 10_000)
    assert told["c"].untaken == Level(0, 10_000)
    assert told["b"].repair.used > 0


def test_nobody_counts_who_asks() -> None:
    stage = Stage()

    def counted() -> list[object]:
        engines = [stage.engine(name) for name in "abcr"]
        return [
            (
                sorted(engine._peers._last),
                sorted(engine._receiving._heard),
                len(engine._speaking.audience),
                sorted(engine._membership.suspicion._links),
                sorted(engine._receiving.following.streams),
                sorted(engine._receiving.following.activations._pending),
            )
            for engine in engines
        ]

    before = counted()
    assert len(Outsider(stage).picture().lines) == 4
    assert len(Outsider(stage, name="a").picture().lines) == 4, "not even by the name of a member"
    assert counted() == before
    goes_on(stage)


def test_a_split_shows_as_two_views() -> None:
    stage = Stage()
    for one, other in (("a", "c"), ("b", "c"), ("r", "c")):
        stage.run(f"lose quietly from {one} to {other}", f"lose quietly from {other} to {one}")
    stage.run("run 3s")
    picture = Outsider(stage).picture()
    assert picture.split
    assert [(names(view.present), names(view.followers)) for view in picture.views] == [("a b", "r"), ("c", "")]
    stage.run("lose nothing", "run 3s")
    assert not Outsider(stage, name="again").picture().split


def test_who_is_suspected_shows_with_its_silence() -> None:
    """No opinion comes through, so the suspicion stays."""
    stage = Stage()
    stage.run("lose quietly opinion", "crash c", "run 1500ms")
    picture = Outsider(stage).picture()
    (view,) = picture.views
    assert (names(view.present), names(view.unheard)) == ("a b", "c")
    told = {line.process.name: line.answer for line in picture.lines}
    for name in ("a", "b"):
        assert told[name].state == "consensus"
        assert [silent.process.name for silent in told[name].suspects] == ["c"]
        assert SECOND < told[name].suspects[0].silence < 2 * SECOND
        assert told[name].suspected == 1
    assert [silent.process.name for silent in told["r"].suspects] == ["c"]


def test_a_source_order_receiver_shows_its_own_view_and_whom_it_does_not_hear() -> None:
    stage = Stage()
    stage.run("start s", "join s service=source", "run 1s", "crash b", "lose quietly opinion", "run 2s")
    told = {line.process.name: line.answer for line in Outsider(stage).picture().lines}["s"]
    assert not told.same
    assert told.shown is not None
    assert "b" in names(told.shown.members)
    assert [silent.process.name for silent in told.suspects] == ["b"]


def test_who_leaves_says_so_and_who_left_says_nothing() -> None:
    stage = Stage()
    stage.run("lose quietly report", "send c last", "run 50ms", "leave c")
    told = {line.process.name: line.answer.state for line in Outsider(stage).picture().lines}
    assert told["c"] == "leaving"
    stage.run("lose nothing", "run 10s")
    assert names(line.process for line in Outsider(stage, name="again").picture().lines) == "a b r"


def test_a_group_that_a_process_is_not_in_is_not_spoken_of() -> None:
    stage = Stage()
    stage.run("start x", "join x in=news", "run 100ms")
    assert names(line.process for line in Outsider(stage).picture().lines) == "a b c r"


def test_only_a_few_probes_are_answered_a_second() -> None:
    stage = Stage()
    Outsider(stage).picture()
    stage.run("run 1s")
    assert answers_of_a(stage, 200) == ANSWERS_A_SECOND
    assert stage.play._world.stations["a"].notes[Reason.TOO_MANY_PROBES] == 200 - ANSWERS_A_SECOND
    assert answers_of_a(stage, 200) == 0
    stage.run("run 500ms")
    assert 0 < answers_of_a(stage, 200) < ANSWERS_A_SECOND
    goes_on(stage)
    assert len(stage.engine("a")._answering._pending) == 0


def answers_of_a(stage: Stage, probes: int) -> int:
    """How many of so many probes, each of another asker, `a` answers."""
    stage.run("watch probe-answer")
    for number in range(probes):
        forge(stage, ProcessId(f"z{number}", 1), [ProbeRequest(number, 1, 0, b"")])
    lines = stage.run("run 10ms", "watch nothing")
    return sum(" a -> outsider: probe-answer" in line for line in lines)


def forge(stage: Stage, sender: ProcessId, messages: list[ControlMessage]) -> None:
    """One datagram of somebody at the outsider's address, to `a` and `r`."""
    writer = DatagramWriter(sender, group_number("", DEFAULT_GROUP), NullSeal(), 60_000)
    (datagram,) = writer.control(messages)
    for receiver in ("a", "r"):
        stage.play._world.forge(OUTSIDE, receiver, datagram)


def test_an_asker_that_repeats_itself_is_answered_once() -> None:
    stage = Stage()
    stage.run("watch probe probe-answer")
    outsider = Outsider(stage)
    lines = stage.run("run 1s")
    assert sum(" -> a: probe" in line for line in lines) == 3, "the first went before"
    assert sum(" probe-answer" in line for line in lines) == 4
    assert outsider.asker.finished is not None
    assert len(outsider.asker.finished.answers) == 4
    assert not outsider.station.notes


def test_lost_answers_are_asked_for_again() -> None:
    stage = Stage()
    for name in "abc":
        stage.run(f"lose next probe-answer from {name}")
    assert names(line.process for line in Outsider(stage).picture().lines) == "a b c r"


def test_what_else_a_prober_says_does_not_count() -> None:
    stage = Stage()
    Outsider(stage)
    stranger = ProcessId("stranger", 3)
    alive = KeepAlive(5, 5, 0, 0, 0, False, False, None, NO_VIEW)
    forge(stage, stranger, [ProbeRequest(7, 1, 0, b""), alive])
    forge(stage, stranger, [alive, ProbeRequest(7, 1, 0, b"")])
    forge(stage, stranger, [ANSWER])
    stage.run("run 100ms")
    for name in ("a", "r"):
        assert stage.engine(name)._peers.last("stranger") is None
        assert stage.play._world.stations[name].notes[Reason.NOT_ASKED] == 3
    goes_on(stage)


def test_probes_in_the_name_of_members_harm_nobody() -> None:
    stage = Stage()
    Outsider(stage)
    for name in "abr":
        life = stage.life(name)
        forge(stage, life, [ProbeRequest(1, 1, 2 * SECOND, b"")])
        forge(stage, ProcessId(name, life.incarnation + 5), [ProbeRequest(2, (1 << 32) - 1, 0, b"\xff" * 1024)])
    stage.run("run 3s")
    goes_on(stage)


def test_rounds_bring_rates() -> None:
    stage = Stage()
    outsider = Outsider(stage, every=SECOND)
    watch = Watch()
    stage.run("run 100ms")
    assert outsider.asker.finished is not None
    assert all(line.rates is None for line in watch.look(outsider.asker.finished).lines)
    for _ in range(10):
        stage.run("send a word", "run 100ms")
    (line, *_) = watch.look(outsider.asker.finished).lines
    assert line.rates is not None
    assert 8 <= line.rates.sent <= 12
    assert line.rates.sent_bytes == 4 * line.rates.sent
    assert 8 <= line.rates.delivered <= 12


def test_the_one_deadline_of_answers_goes_with_the_membership() -> None:
    """A pending answer does not wake a process that is out of the group."""
    stage = Stage()
    Outsider(stage)
    forge(stage, ProcessId("z", 1), [ProbeRequest(1, 1, 0, b"")])
    engine = stage.engine("r")
    stage.run("leave r", "run 1s")
    deadlines: Deadlines = engine._context.deadlines
    assert deadlines.earliest() is None
