"""The checker of `make torture`, tried by logs that are spoiled: the right check names each, and a good run passes."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from msgspec.structs import replace

from tests.campaigns.torture.checker import judge
from tests.campaigns.torture.leaves import make_leaves
from tests.campaigns.torture.mutations import MUTATIONS, Logs, postponed
from tests.campaigns.torture.plan import FEWEST, MOST, Kind, make_plan
from tests.campaigns.torture.records import Got, Joined, Told, Viewed, read_line, render
from tests.unit.torture_logs import good_logs, good_story

ORDER_OF_TIMESTAMPS = "total order"
SEEDS = range(5)
LAST_VIEW = "view 7"


@pytest.mark.parametrize("service", ["timestamp", "session"])
def test_a_good_run_is_as_demanded(service: str) -> None:
    verdict = judge(good_logs(service), good_story(), {"a": ""})
    assert verdict.complaints == {}
    assert verdict.meeting_seconds is not None
    assert 0.5 < verdict.meeting_seconds < 0.6
    assert verdict.counts == {"deliveries": 318, "views": 8, "journeys": 6, "leaves": 5, "owed": 54}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("service", ["timestamp", "session"])
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_the_right_check_names_what_was_spoiled(mutation: object, service: str, seed: int) -> None:
    spoil = next(one for one in MUTATIONS if one is mutation)
    spoiled = spoil(good_logs(service), Random(seed))
    if MUTATIONS[spoil] == ORDER_OF_TIMESTAMPS and service == "session":
        assert spoiled is None
        return
    assert spoiled is not None
    assert MUTATIONS[spoil] in judge(spoiled, good_story(), {}).complaints


@pytest.mark.parametrize(
    ("name", "alone"),
    [
        ("altered", "integrity"),
        ("exchanged", "source order"),
        ("lost_at_the_end", "agreement"),
        ("own_lost", "own messages"),
        ("last_sends_lost", "leavers"),
        ("other_members", "views"),
        ("long_leave", "leave returns"),
    ],
)
def test_some_are_named_by_one_check_alone_somewhere(name: str, alone: str) -> None:
    """So that none of these checks could be left out."""
    spoil = next(one for one in MUTATIONS if one.__name__ == name)
    found = [judge(spoiled, good_story(), {}).complaints for spoiled in _spoiled(spoil)]
    assert [alone] in [list(complaints) for complaints in found]


def _spoiled(spoil: object) -> list[Logs]:
    mutation = next(one for one in MUTATIONS if one is spoil)
    logs = [mutation(good_logs(service), Random(seed)) for seed in range(20) for service in ("session", "timestamp")]
    return [one for one in logs if one is not None]


def test_whatever_is_left_behind_or_said_is_a_complaint() -> None:
    story = replace(good_story(), left_behind=("process 17",))
    assert judge(good_logs(), story, {}).complaints == {"left behind": ["process 17"]}
    assert list(judge(good_logs(), good_story(), {"a": "Traceback"}).complaints) == ["ends"]
    fate = good_story().fates["a"]
    for spoiled in (replace(fate, code=1), replace(fate, overdue=True)):
        story = replace(good_story(), fates={**good_story().fates, "a": spoiled})
        assert list(judge(good_logs(), story, {}).complaints) == ["ends"]
    hung = replace(good_story(), fates={**good_story().fates, "a": replace(fate, overdue=True)})
    said = 'Fatal Python error: Aborted\n\n  File "waiting.py", line 1 in wait\n  File "main.py", line 2 in main\n'
    complaints = judge(good_logs(), hung, {"a": said}).complaints["ends"]
    assert complaints == ['a did not end by itself: File "waiting.py", line 1 in wait']
    assert list(judge(good_logs(), replace(good_story(), trouble="no view"), {}).complaints) == ["one view"]


def last_view(logs: Logs, name: str) -> int:
    """Where somebody is given the view with all who are there in the end."""
    return next(place for place, one in enumerate(logs[name]) if isinstance(one, Viewed) and one.view == LAST_VIEW)


@pytest.mark.parametrize("name", ["a", "b", "c", "f"])
def test_the_view_with_all_has_to_come_in_time_on_free_cores(name: str) -> None:
    logs = good_logs()
    late = {**logs, name: postponed(logs[name], last_view(logs, name))}
    assert list(judge(late, good_story(), {}).complaints) == ["one view"]
    busy = replace(good_story(), others=1.0)
    assert list(judge(late, busy, {}).complaints) == ["one view"]
    later = {**logs, name: postponed(logs[name], last_view(logs, name), 10.0)}
    assert list(judge(later, good_story(), {}).complaints) == ["one view"]
    assert judge(later, busy, {}).complaints == {}
    never = {**logs, name: logs[name][: last_view(logs, name)]}
    assert "one view" in judge(never, replace(good_story(), others=1.0), {}).complaints


def test_who_agrees_with_nobody_may_have_one_in_its_view_who_was_killed() -> None:
    logs = good_logs()
    place = last_view(logs, "a")
    view = logs["a"][place]
    assert isinstance(view, Viewed)
    logs["a"][place] = replace(view, members=(*view.members, "e~1"))
    assert "one view" in judge(logs, good_story(), {}).complaints
    joined = logs["a"][0]
    assert isinstance(joined, Joined)
    logs["a"][0] = replace(joined, service="source")
    assert "one view" not in judge(logs, good_story(), {}).complaints


def test_a_gap_is_no_complaint_where_the_source_did_not_come_along() -> None:
    """c was out while a and b went on, and lacks what they sent meanwhile."""
    logs = good_logs()
    numbers = [record.number for record in logs["c"] if isinstance(record, Got) and record.source == "a~1"]
    assert any(later > earlier + 1 for earlier, later in pairwise(numbers))
    assert judge(logs, good_story(), {}).complaints == {}


def test_a_gap_without_a_word_is_a_complaint() -> None:
    """The views of c say that it was with a all the time."""
    logs = good_logs()
    logs["c"] = [record for record in logs["c"] if not isinstance(record, Told)]
    views = [record for record in logs["c"] if isinstance(record, Viewed)]
    kept = {views[0].view, views[1].view, views[3].view}
    logs["c"] = [
        replace(record, previous="view 2", transitional=("a~1", "b~1", "c~1"))
        if isinstance(record, Viewed) and record.view == views[3].view
        else record
        for record in logs["c"]
        if not isinstance(record, Viewed) or record.view in kept
    ]
    assert "source order" in judge(logs, good_story(), {}).complaints


def test_logs_are_read_as_they_were_written() -> None:
    for records in good_logs().values():
        assert [read_line(line) for line in render(records).splitlines()] == records
    with pytest.raises(ValueError, match="is no line of a log"):
        read_line(b'["got",1]')


@pytest.mark.parametrize("kind", ["groups", "sessions"])
def test_a_seed_is_one_schedule(kind: Kind) -> None:
    for seed in range(20):
        plan = make_plan(kind, seed, 60.0)
        assert plan == make_plan(kind, seed, 60.0) != make_plan(kind, seed + 100, 60.0)
        present = set(plan.first)
        stopped: set[str] = set()
        for deed in plan.deeds:
            assert 0 <= deed.at <= plan.seconds
            if deed.action == "come":
                assert plan.casts[deed.life].name not in {plan.casts[one].name for one in present}
                present.add(deed.life)
            elif deed.action in ("kill", "leave"):
                present.remove(deed.life)
            elif deed.action == "stop":
                stopped.add(deed.life)
            elif deed.action == "go on":
                stopped.remove(deed.life)
            assert FEWEST <= len(present) <= MOST
        assert not stopped
        if kind == "groups":
            roles = [plan.casts[key].role for key in plan.first]
            assert 0 <= roles.count("auto") - roles.count("sender") <= 1


def test_two_leave_beside_a_stopped_sender() -> None:
    for seed in range(50):
        plan = make_leaves(seed)
        assert plan == make_leaves(seed)
        deeds = {
            action: [deed for deed in plan.deeds if deed.action == action] for action in ("stop", "leave", "go on")
        }
        assert [len(found) for found in deeds.values()] == [1, 2, 1]
        assert all(0.1 <= deed.at - deeds["stop"][0].at <= 1.3 for deed in deeds["leave"])
        assert deeds["stop"][0].life not in [deed.life for deed in deeds["leave"]]
        assert plan.casts[deeds["stop"][0].life].role == "sender"
        assert "auto" in [plan.casts[deed.life].role for deed in deeds["leave"]]
