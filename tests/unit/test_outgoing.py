"""Rows on their way into a group: a batch is sent whole, by whichever life, and again for who may lack it."""

from __future__ import annotations

from pathlib import Path

import pytest

from unisono.errors import GroupError, SettingError
from unisono.events import View, ViewReason
from unisono.identity import ProcessId, ViewId
from unisono.rows import decode
from unisono.runtime.gateway.outgoing import Batch, Outgoing

ANNA, BERT, GATEWAY = ProcessId("anna", 1), ProcessId("bert", 1), ProcessId("gateway", 1)
WINDOW = 1000


def view(
    members: tuple[ProcessId, ...],
    transitional: tuple[ProcessId, ...],
    gone: ProcessId | None = None,
    why: ViewReason = ViewReason.SUSPECTED,
) -> View:
    reasons = () if gone is None else ((gone, why),)
    return View(ViewId(1, GATEWAY, 1), None, members, (), reasons, transitional)


def places(messages: list[bytes]) -> list[tuple[int, int]]:
    found = [decode(data) for data in messages]
    return [(row.batch, row.number) for row in found if row is not None]


def take(outgoing: Outgoing, number: int, count: int = 10, query: str = "q") -> None:
    outgoing.take(Batch(query, "", number, count), [b"%03d" % place * 10 for place in range(count)])


def send_all(outgoing: Outgoing) -> list[bytes]:
    """Send what is there, as a gateway does."""
    found: list[bytes] = []
    for taken in outgoing.again:
        for end, messages in outgoing.messages(taken):
            found += messages
            outgoing.on_sent(taken, end, messages)
            outgoing.on_recorded(len(found))
        outgoing._met = None  # the first minutes of a life are over
        outgoing.write_note()
    return found


def test_a_batch_is_taken_on_once(tmp_path: Path) -> None:
    outgoing = Outgoing(tmp_path, WINDOW)
    assert not outgoing.is_known("q", "", 0)
    take(outgoing, 0)
    assert outgoing.is_known("q", "", 0)
    assert not outgoing.is_known("q", "", 1)
    assert not outgoing.is_known("other", "", 0)
    outgoing.close()
    again = Outgoing(tmp_path, WINDOW)
    assert again.is_known("q", "", 0), "known from the log alone"
    again.close()


def test_what_was_not_sent_is_sent_by_the_next_life_and_a_window_of_what_was(tmp_path: Path) -> None:
    first = Outgoing(tmp_path, WINDOW)
    for number in range(8):
        take(first, number)
    first.close()
    second = Outgoing(tmp_path, WINDOW)
    everything = [(batch, row) for batch in range(8) for row in range(10)]
    assert places(send_all(second)) == everything
    second.close()
    third = Outgoing(tmp_path, WINDOW)
    again = send_all(third)
    third.close()
    assert places(again) == everything[-len(again) :]
    assert WINDOW <= sum(map(len, again)) < 3 * WINDOW
    assert third.note.queries["q"].batch == 7


def test_rows_that_are_not_in_the_gateways_own_log_yet_are_sent_again(tmp_path: Path) -> None:
    first = Outgoing(tmp_path, WINDOW)
    for number in range(8):
        take(first, number)
    first.close()
    second = Outgoing(tmp_path, WINDOW)
    for taken in second.again:
        for end, messages in second.messages(taken):
            second.on_sent(taken, end, messages)
    second.on_recorded(45)
    second._met = None  # the first minutes of a life are over
    second.write_note()
    second.close()
    third = Outgoing(tmp_path, WINDOW)
    assert places(send_all(third))[0] == (2, 0), "a window before the 45th row, which is the last that came back"
    third.close()


def test_who_was_out_of_the_view_is_sent_again_what_it_may_lack(tmp_path: Path) -> None:
    outgoing = Outgoing(tmp_path, WINDOW)
    sent: list[bytes] = []

    def send(number: int) -> None:
        taken = outgoing.take(Batch("q", "", number, 10), [b"%03d" % place * 10 for place in range(10)])
        for end, messages in outgoing.messages(taken):
            sent.extend(messages)
            outgoing.on_sent(taken, end, messages)
        outgoing.on_recorded(len(sent))
        outgoing.write_note()

    def lacking() -> list[tuple[int, int]]:
        offset, batches = outgoing.lacking()
        found: list[bytes] = []
        for taken in batches:
            for end, messages in outgoing.messages(taken, offset):
                found += messages
                outgoing.on_sent(taken, end, messages)
        sent.extend(found)
        outgoing.on_recorded(len(sent))
        return places(found)

    assert not outgoing.on_view(view((GATEWAY, ANNA, BERT), (GATEWAY,)))
    for number in range(5):
        send(number)
    assert not outgoing.on_view(view((GATEWAY, ANNA), (GATEWAY, ANNA), BERT))
    for number in range(5, 8):
        send(number)
    assert outgoing.on_view(view((GATEWAY, ANNA, BERT), (GATEWAY, ANNA)))
    again = lacking()
    assert again == [(batch, row) for batch in range(again[0][0], 8) for row in range(10)]
    assert again[0] == (3, 0), "a window before bert went"
    assert lacking() == []
    send(8)
    assert outgoing.on_view(view((GATEWAY, ANNA, BERT), (GATEWAY, BERT))), "anna comes from another view"
    assert lacking()[-1] == (8, 9)
    assert not outgoing.on_view(view((GATEWAY, ANNA), (GATEWAY, ANNA), BERT, ViewReason.LEFT))
    assert not outgoing.on_view(view((GATEWAY, ANNA, BERT), (GATEWAY, ANNA))), "who left came anew"
    outgoing.close()


def test_a_new_life_that_sent_to_nobody_sends_again_when_it_meets_the_others(tmp_path: Path) -> None:
    first = Outgoing(tmp_path, WINDOW)
    take(first, 0)
    first.close()
    second = Outgoing(tmp_path, WINDOW)
    assert not second.on_view(view((GATEWAY,), (GATEWAY,)))
    taken = second.again[0]
    for end, messages in second.messages(taken):
        second.on_sent(taken, end, messages)
    second.on_recorded(10)
    second.write_note()
    assert second.on_view(view((GATEWAY, ANNA), (GATEWAY,)))
    offset, batches = second.lacking()
    assert [taken.batch.number for taken in batches] == [0]
    assert offset == taken.begin
    second.close()


def test_nothing_is_kept_for_ever_for_who_does_not_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outgoing = Outgoing(tmp_path, WINDOW)
    outgoing.on_view(view((GATEWAY, ANNA), (GATEWAY,)))
    for number in range(5):
        taken = outgoing.take(Batch("q", "", number, 10), [b"%03d" % place * 10 for place in range(10)])
        for end, messages in outgoing.messages(taken):
            outgoing.on_sent(taken, end, messages)
        outgoing.on_recorded(10 * number + 10)
        if not number:
            outgoing.on_view(view((GATEWAY,), (GATEWAY,), ANNA))
        outgoing.write_note()
    assert outgoing.note.send_from == 1, "kept for anna"
    monkeypatch.setattr("unisono.runtime.gateway.outgoing.HOLD_SECONDS", -1.0)
    outgoing.write_note()
    assert outgoing.note.send_from > 20
    assert not outgoing.on_view(view((GATEWAY, ANNA), (GATEWAY,)))
    outgoing.close()


def test_a_batch_that_was_cut_short_was_never_there(tmp_path: Path) -> None:
    first = Outgoing(tmp_path, WINDOW)
    take(first, 0)
    with pytest.raises(GroupError, match="has 3 rows, not 10"):
        first.take(Batch("q", "", 1, 10), [b"x"] * 3)
    assert not first.is_known("q", "", 1)
    first._log.append([b"B" + b"\x94\xa1q\xa0\x01\x0a", b"R..."])  # killed in the middle of the next try
    first.close()
    second = Outgoing(tmp_path, WINDOW)
    assert [taken.batch.number for taken in second.again] == [0]
    assert not second.is_known("q", "", 1)
    take(second, 1)
    second.close()
    third = Outgoing(tmp_path, WINDOW)
    assert places(send_all(third)) == [(batch, row) for batch in range(2) for row in range(10)]
    third.close()


def test_an_empty_batch_is_a_batch(tmp_path: Path) -> None:
    first = Outgoing(tmp_path, WINDOW)
    take(first, 0, 0)
    first.close()
    second = Outgoing(tmp_path, WINDOW)
    assert second.is_known("q", "", 0)
    assert send_all(second) == []
    second.close()


def test_a_checkpoint_that_was_removed_is_noticed(tmp_path: Path) -> None:
    outgoing = Outgoing(tmp_path, WINDOW)
    outgoing.take(Batch("q", "one", 5, 0), [])
    take(outgoing, 5, 0, "unknown")
    assert outgoing.is_known("q", "one", 3), "a checkpoint from a backup: these rows were sent"
    with pytest.raises(GroupError, match=r"another checkpoint, up to batch 5.*another name"):
        outgoing.is_known("q", "two", 6)
    with pytest.raises(GroupError, match="the checkpoint was removed or set back"):
        outgoing.is_known("unknown", "", 0)
    with pytest.raises(SettingError, match="query"):
        outgoing.is_known("", "", 0)
    outgoing.close()
