"""Who tells its state when views merge, and when all have the same."""

from __future__ import annotations

import pytest

from unisono import Message, Point, ProcessId, Reconciliation, StateReceived, View, ViewId, ViewReason

A, B, C, D = (ProcessId(name, 1) for name in "abcd")


def view(start: int, members: tuple[ProcessId, ...], transitional: tuple[ProcessId, ...]) -> View:
    return View(ViewId(start, members[0], 1), None, members, (), (), transitional=transitional)


def said(source: ProcessId, data: bytes, where: View) -> Message:
    return Message(source, 1, 1, 1, data, where.id, 0)


def group(*processes: ProcessId, started: View) -> dict[ProcessId, Reconciliation]:
    """Members of one view that have the same state."""
    members = {process: Reconciliation(process) for process in processes}
    for one in members.values():
        one.on_view(started)
        one.side = frozenset(processes)
    return members


def test_alone_there_is_nobody_to_tell() -> None:
    one = Reconciliation(A)
    assert not one.settled
    assert not one.on_view(view(1, (A,), (A,)))
    assert one.settled


def test_one_of_each_side_tells_and_then_all_are_settled() -> None:
    left = group(A, B, started=view(1, (A, B), (A, B)))
    right = group(C, D, started=view(2, (C, D), (C, D)))
    merged_left, merged_right = view(3, (A, B, C, D), (A, B)), view(3, (A, B, C, D), (C, D))
    assert [left[A].on_view(merged_left), left[B].on_view(merged_left)] == [True, False]
    assert [right[C].on_view(merged_right), right[D].on_view(merged_right)] == [True, False]
    first, second = (
        said(A, left[A].wrap(b"left"), merged_left),
        said(C, right[C].wrap(b"right"), merged_left),
    )
    for one in (left | right).values():
        assert one.unwrap(first) == b"left"
        assert not one.settled
        assert one.unwrap(second) == b"right"
        assert one.settled


def test_a_member_that_goes_changes_nothing_for_those_who_have_the_same() -> None:
    members = group(A, B, C, started=view(1, (A, B, C), (A, B, C)))
    assert not members[A].on_view(view(2, (A, B), (A, B)))
    assert members[A].settled


def test_another_of_the_side_tells_when_its_speaker_failed_before_it_did() -> None:
    right = group(C, D, started=view(1, (C, D), (C, D)))
    other = group(B, started=view(1, (B,), (B,)))[B]
    assert not right[D].on_view(view(2, (B, C, D), (C, D)))
    other.on_view(view(2, (B, C, D), (B,)))
    later = view(3, (B, D), (B, D))  # the speaker C is gone, the others come along together
    assert right[D].on_view(later)
    assert other.on_view(later)


def test_what_was_told_for_an_earlier_view_is_given_but_settles_nothing() -> None:
    one = group(A, started=view(1, (A,), (A,)))[A]
    other = group(B, started=view(1, (B,), (B,)))[B]
    other.on_view(view(2, (A, B), (B,)))
    late = other.wrap(b"late")
    now = view(3, (A, B), (A,))
    one.on_view(now)
    assert one.unwrap(said(A, one.wrap(b"mine"), now)) == b"mine"
    assert one.unwrap(said(B, late, now)) == b"late"
    assert not one.settled


def test_a_mere_receiver_only_listens() -> None:
    receiver = Reconciliation(D)
    merged = view(3, (A, B), ())
    assert not receiver.on_view(merged)
    sender = group(A, started=view(1, (A,), (A,)))[A]
    sender.on_view(view(3, (A, B), (A,)))
    assert receiver.unwrap(said(A, sender.wrap(b"state"), merged)) == b"state"


def test_other_messages_are_the_applications() -> None:
    one = Reconciliation(A)
    now = view(1, (A,), (A,))
    one.on_view(now)
    assert one.unwrap(said(A, b"plain", now)) is None
    assert one.unwrap(said(A, b"\0unisono state\0and nothing of the kind", now)) is None


def test_there_is_nothing_to_tell_before_the_first_view() -> None:
    with pytest.raises(ValueError, match="no view yet"):
        Reconciliation(A).wrap(b"")


def joined(start: int, members: tuple[ProcessId, ...], transitional: tuple[ProcessId, ...]) -> View:
    """A view into which all others came for the first time."""
    others = tuple((process, ViewReason.JOINED) for process in members if process not in transitional)
    return View(ViewId(start, members[0], 1), None, members, (), others, transitional=transitional)


def test_newcomers_that_are_given_the_state_are_told_nothing() -> None:
    old, new = Reconciliation(A, transfer=True), Reconciliation(B, transfer=True)
    first = view(1, (A,), (A,))
    old.on_received(StateReceived(None, 0, Point(first.id, ())))
    assert not old.on_view(first)
    second = joined(2, (A, B), (A,))
    assert old.on_view(second), "it cannot know yet whether the other has a state too"
    claim = said(A, old.wrap(lambda: pytest.fail("nobody wants the state")), second)
    assert old.unwrap(claim) == b""
    new.on_received(StateReceived(A, 5, Point(second.id, ())))
    assert not new.on_view(second)
    assert new.unwrap(claim) == b""
    assert old.settled
    assert new.settled
    assert not old.owes
    assert not new.owes
    third = joined(3, (A, B, C), (A, B))
    assert [one.on_view(third) for one in (old, new)] == [False, False]


def test_two_that_were_each_the_first_tell_each_other() -> None:
    sides = {process: Reconciliation(process, transfer=True) for process in (A, B)}
    for start, (process, one) in enumerate(sides.items(), 1):
        alone = view(start, (process,), (process,))
        one.on_received(StateReceived(None, 0, Point(alone.id, ())))
        assert not one.on_view(alone)
    met = {process: joined(5, (A, B), (process,)) for process in sides}
    spoken = [(process, one.wrap(b"never")) for process, one in sides.items() if one.on_view(met[process])]
    said_so_far = 0
    while spoken:
        source, data = spoken.pop(0)
        said_so_far += 1
        for process, one in sides.items():
            one.unwrap(said(source, data, met[process]))
            if one.owes:
                spoken.append((process, one.wrap(b"state")))
    assert said_so_far == 4, "a claim and a state of each"
    assert all(one.settled for one in sides.values())
