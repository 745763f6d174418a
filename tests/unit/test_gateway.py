"""A gateway beside a group that is a list: what it writes down, what it sends, and what its next life makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from tests.gateways import PATIENCE_SECONDS, Running, logged, running, until
from unisono.errors import GroupError, SettingError, StorageError
from unisono.events import LeftBehind, Message
from unisono.identity import ProcessId
from unisono.rows import RowFilter, encode, rows_of
from unisono.runtime.gateway.gateway import EVENTS_AT_ONCE, claim
from unisono.runtime.gateway.recording import KNOWN, Recording
from unisono.trace.group_log import Entry
from unisono.trace.sink_client import SinkClient

ANNA, BERT, GATEWAY = ProcessId("anna", 1), ProcessId("bert", 1), ProcessId("gateway", 1)
WINDOW = 1000


def message(source: ProcessId, number: int, data: bytes = b"hello") -> Message:
    return Message(source, number, number, number, data, None, 0)


def told(entries: list[Entry]) -> list[tuple[str, str | None, int | None]]:
    return [(entry.kind, entry.source, entry.number) for entry in entries]


class TestRecording:
    def test_each_message_is_written_once_over_all_lives(self, tmp_path: Path) -> None:
        first = Recording(tmp_path, "g")
        first.write(first.entries([message(ANNA, 1), message(ANNA, 2), message(BERT, 7)]))
        first.log.close()  # killed: nothing is saved
        second = Recording(tmp_path, "g")
        second.begin_life(ProcessId("gateway", 2))
        entries = second.entries([message(ANNA, 2), message(ANNA, 3), message(BERT, 8)])
        assert told(entries) == [("message", "anna", 3), ("message", "bert", 8)]
        assert second.repeated == 1
        second.write(entries)
        second.close()
        assert (tmp_path / KNOWN).exists()
        third = Recording(tmp_path, "g")
        assert told(third.entries([message(ANNA, 3), message(ANNA, 4)])) == [("message", "anna", 4)]
        third.log.close()

    def test_what_was_sent_while_it_was_away_is_told_as_a_gap(self, tmp_path: Path) -> None:
        first = Recording(tmp_path, "g")
        first.write(first.entries([message(ANNA, 1)]))
        first.close()
        second = Recording(tmp_path, "g")
        entries = second.entries([message(ANNA, 5), message(BERT, 9), LeftBehind(ANNA)])
        assert told(entries) == [
            ("gap", "anna", 2),
            ("message", "anna", 5),
            ("message", "bert", 9),
            ("left behind", "anna", None),
        ]
        assert entries[0].data == b'{"first": 2, "last": 4}'
        assert second.gaps == 3
        second.log.close()

    def test_a_message_that_another_sent_for_its_source_counts_for_who_sent_it(self, tmp_path: Path) -> None:
        recording = Recording(tmp_path, "g")
        for_bert = Message(BERT, 2, 1, 2, b"by anna", None, 0, "", ANNA, 2)
        entries = recording.entries([message(ANNA, 1), for_bert, message(ANNA, 3)])
        assert told(entries) == [("message", "anna", 1), ("message", "bert", 1), ("message", "anna", 3)]
        recording.write(entries)
        recording.log.close()
        again = Recording(tmp_path, "g")
        assert told(again.entries([for_bert, message(ANNA, 3), message(ANNA, 4)])) == [("message", "anna", 4)]
        again.log.close()

    def test_rows_are_written_without_their_header_and_not_when_they_are_repeated(self, tmp_path: Path) -> None:
        recording = Recording(tmp_path, "g")
        row = encode("counts", 4, 2, 9, b"data")
        (entry,) = recording.entries([message(ANNA, 1, row), message(BERT, 1, row)])
        assert (entry.query, entry.batch, entry.row, entry.data) == ("counts", 4, 2, b"data")
        recording.write([entry])
        recording.log.close()
        again = Recording(tmp_path, "g")
        assert again.entries([message(ProcessId("anna", 2), 1, row)]) == []
        assert again.repeated_rows == 1
        again.log.close()

    def test_the_log_of_another_group_is_refused(self, tmp_path: Path) -> None:
        first = Recording(tmp_path, "g")
        first.begin_life(ANNA)
        first.log.close()
        with pytest.raises(StorageError, match="the log of group 'g', not of 'other'"):
            Recording(tmp_path, "other")


class TestGateway:
    def stage(self, running: Running, *rows: list[bytes]) -> list[tuple[str, int]]:
        with SinkClient(running.address, "g", 5) as sink:
            return [sink.stage(part) for part in rows]

    def test_it_serves_what_it_is_given_and_sends_what_it_is_told(self, tmp_path: Path) -> None:
        with running(tmp_path / "data") as gateway, SinkClient(gateway.address, "g", 5) as sink:
            gateway.say(ANNA, 1, b"hello")
            stages = self.stage(gateway, [b"a", b"b"], [], [b"c"])
            assert sink.publish("q", "", 0, stages).already is False
            assert sink.publish("q", "", 0, stages).already is True
            assert sink.publish("q", "", 0, self.stage(gateway, [b"other"])).already is True
            sink.discard([name for name, _ in self.stage(gateway, [b"thrown away"])])
            until(lambda: len(logged(gateway.address)) == 5)
            entries = logged(gateway.address)
            assert [entry.kind for entry in entries] == ["started"] + 4 * ["message"]
            assert [entry.data for entry in entries if entry.query == "q"] == [b"a", b"b", b"c"]
            assert [entry.row for entry in entries if entry.query == "q"] == [0, 1, 2]
            status = gateway.gateway.status()
            assert (status.rows_sent, status.batches_sent, status.messages) == (3, 1, 4)
        assert list((tmp_path / "data" / "staging").iterdir()) == [], "no stage is left behind"

    def test_a_killed_gateway_goes_on_where_it_may_have_been(self, tmp_path: Path) -> None:
        data = [[b"%d %d" % (batch, row) for row in range(300)] for batch in range(3)]
        received: list[bytes] = []
        with running(tmp_path / "0", limit=450) as gateway:
            with SinkClient(gateway.address, "g", 5) as sink:
                sink.publish("q", "", 0, self.stage(gateway, data[0]))
            stages = self.stage(gateway, data[1])
            with SinkClient(gateway.address, "g", 0.1) as sink, ThreadPoolExecutor(1) as thread:
                # The batch stays half way, as behind a member that does not read, and then the gateway is killed.
                publishing = thread.submit(sink.publish, "q", "", 1, stages)
                until(lambda: len(gateway.group.sent) == 450)
                copy = gateway.as_if_killed(tmp_path / "1")
                received += gateway.group.sent
                gateway.end()
                assert isinstance(publishing.exception(PATIENCE_SECONDS), GroupError)
        with running(copy, incarnation=2) as gateway, SinkClient(gateway.address, "g", 5) as sink:
            again = sink.publish("q", "", 1, stages)
            assert again.count == 300
            sink.publish("q", "", 2, self.stage(gateway, data[2]))
            received += gateway.group.sent
        had = RowFilter()
        rows = list(rows_of([message(ANNA, 1, data) for data in received], had))
        assert [row.data for row in rows] == [row for batch in data for row in batch]
        assert had.repeated == 450, "all of it is less than a window, and was sent again"

    def test_it_takes_from_the_group_what_the_disk_has_taken_and_no_more(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with running(tmp_path / "data") as gateway:
            writing, go_on = Event(), Event()
            recording = gateway.gateway._recording
            write = recording.write

            def slowly(entries: Sequence[Entry]) -> None:
                writing.set()
                assert go_on.wait(PATIENCE_SECONDS)
                write(entries)

            monkeypatch.setattr(recording, "write", slowly)
            for number in range(1, 4001):
                gateway.say(ANNA, number, b"hello")
            assert writing.wait(PATIENCE_SECONDS)
            until(lambda: gateway.group.waiting + gateway.group.taken == 4000)
            assert gateway.group.taken <= EVENTS_AT_ONCE
            go_on.set()
            until(lambda: len(logged(gateway.address)) == 4001)

    def test_what_is_wrong_is_said(self, tmp_path: Path) -> None:
        with running(tmp_path / "data") as gateway:
            with SinkClient(gateway.address, "other", 5) as sink, pytest.raises(GroupError, match="is in group 'g'"):
                sink.stage([b"row"])
            with SinkClient(gateway.address, "g", 5) as sink:
                with pytest.raises(GroupError, match="there is no stage 00000000"):
                    sink.publish("q", "", 0, [("00000000", 1)])
                with pytest.raises(GroupError, match="cannot be read"):
                    sink.publish("q", "", 0, [("../../secret", 1)])
            address = gateway.address
        with SinkClient(address, "g", 0.1) as sink, pytest.raises(GroupError, match=r"no answer .* is it running"):
            sink.stage([b"row"])

    def test_a_directory_belongs_to_one_gateway(self, tmp_path: Path) -> None:
        known = claim(tmp_path, "g", "lab", None)
        assert claim(tmp_path, "g", "lab", None) == known
        assert claim(tmp_path, "g", "lab", known.name) == known
        with pytest.raises(StorageError, match="belongs to a gateway of group 'g' in realm 'lab'"):
            claim(tmp_path, "other", "lab", None)
        with pytest.raises(SettingError, match="leave the name out"):
            claim(tmp_path, "g", "lab", "another")
