"""What members said, as one picture: views that stand, rates, tables and JSON."""

from __future__ import annotations

import json
from io import StringIO

import msgspec
from rich.console import Console

from tests.unit.probe_samples import FIRST, LATER, A, B, C, D, answer, look, view
from unisono.cli.picture_report import advice, as_json, show
from unisono.identity import ProcessId, ViewId
from unisono.probing.asker import Round
from unisono.probing.picture import MISSED_LIMIT, Picture, Watch, rates_between
from unisono.units import SECOND
from unisono.wire.probe_messages import (
    Silent,
    Traffic,
)


def test_members_of_one_view_make_one_view() -> None:
    picture = look(a=answer(), b=answer(), r=answer(sends=False, state="follows"))
    assert not picture.split
    (one,) = picture.views
    assert (one.members, one.present, one.followers) == ((A, B), (A, B), (ProcessId("r", 1),))
    assert (one.elsewhere, one.unheard, one.count) == ((), (), 2)


def test_a_split_shows_with_who_is_where() -> None:
    """`a` still believes that `c` is with it, and nobody hears `b`."""
    picture = look(
        a=answer(agreed=view(FIRST, A, B, C)),
        c=answer(agreed=view(LATER, C, D)),
        d=answer(agreed=view(LATER, C, D)),
    )
    assert picture.split
    larger, smaller = picture.views
    assert (larger.id, larger.present, larger.elsewhere, larger.unheard) == (LATER, (C, D), (), ())
    assert (smaller.id, smaller.present, smaller.elsewhere, smaller.unheard) == (FIRST, (A,), (C,), (B,))


def test_lists_that_were_cut_are_completed_by_who_answers() -> None:
    picture = look(
        a=answer(agreed=view(FIRST, A, B, count=4)),
        d=answer(agreed=view(FIRST, A, B, count=4)),
        r=answer(agreed=view(FIRST, A, B, count=4), sends=False),
    )
    (one,) = picture.views
    assert (one.members, one.count, one.unheard) == ((A, B, D), 4, (B,))
    assert one.followers == (ProcessId("r", 1),)


def test_who_is_in_no_agreed_view_is_apart() -> None:
    picture = look(a=answer(), b=answer(agreed=None, same=False, shown=view(ViewId(5, B, 1), A, B), service="source"))
    assert picture.apart == (B,)
    assert [one.unheard for one in picture.views] == [()]
    assert [one.elsewhere for one in picture.views] == [(B,)]


def test_rates_are_what_happened_between_two_answers() -> None:
    before = answer(at=10 * SECOND, age=9 * SECOND, traffic=Traffic(10, 100, 20, 200, 30, 300))
    after = answer(at=12 * SECOND, age=11 * SECOND, traffic=Traffic(16, 160, 28, 280, 40, 400))
    rates = rates_between(before, after)
    assert rates is not None
    assert msgspec.structs.astuple(rates) == (3.0, 30.0, 4.0, 40.0, 5.0, 50.0)
    assert rates_between(None, after) is None
    assert rates_between(after, after) is None
    assert rates_between(before, msgspec.structs.replace(after, age=SECOND)) is None, "it left and joined again"


def test_who_answers_no_longer_is_spoken_of_for_a_while() -> None:
    watch = Watch()
    watch.look(Round(1, {A: answer(), B: answer()}))
    for missed in range(1, MISSED_LIMIT + 1):
        assert watch.look(Round(1 + missed, {A: answer()})).absent == ((B, missed),)
    assert watch.look(Round(99, {A: answer()})).absent == ()
    assert watch.look(Round(100, {A: answer(), B: answer()})).absent == ()


def test_an_earlier_life_is_not_missed() -> None:
    watch = Watch()
    watch.look(Round(1, {A: answer(), B: answer()}))
    assert watch.look(Round(2, {A: answer(), ProcessId("b", 2): answer()})).absent == ()


def printed(picture: Picture) -> list[str]:
    out = StringIO()
    Console(file=out, width=200).print(show(picture, "g", "lab"))
    return [" ".join(line.split()) for line in out.getvalue().splitlines() if line.strip()]


def test_the_tables() -> None:
    lines = printed(
        look(
            a=answer(
                agreed=view(FIRST, A, B, C),
                state="consensus",
                traffic=Traffic(1200, 120_000, 3600, 1 << 21, 0, 0),
                suspects=(Silent(B, 1_500_000_000),),
                suspected=3,
            ),
            c=answer(agreed=view(LATER, C), same=False, shown=view(FIRST, A, B, C)),
            d=answer(agreed=None, same=False, shown=view(ViewId(5, D, 1), A, D), service="source", state="apart"),
        )
    )
    assert lines[:6] == [
        "group g in realm lab: 3 members answered, 2 views stand",
        "view 1, for 3.0 s: c",
        "view 2, for 3.0 s: a b c",
        "in it, but with another view: c",
        "in it, but did not answer: b",
        "in no agreed view: d",
    ]
    assert lines[6] == "member role service view state sent delivered follows followed by suspects"
    one, two, three = lines[8:11]
    assert one == "a sender timestamp 2 consensus 1,200 (117 KiB) 3,600 (2.0 MiB) 1 1 b (1.5 s) and 2 more"
    assert two.startswith("c sender timestamp 1, sees 2 settled ")
    assert three.startswith("d sender source own of 2 apart ")
    assert lines[13].startswith("a 1 4.0 s 0 B of 1.0 MiB 0 B of 128 MiB 0 B of 1.0 MiB 0 B of 8.0 MiB 0 of 10,000")


def test_names_are_not_read_as_markup() -> None:
    odd = ProcessId("[red]x[/red]", 1)
    picture = Watch().look(Round(1, {odd: answer(agreed=view(FIRST, odd), suspects=(Silent(odd, SECOND),))}))
    assert sum("[red]x[/red]" in line for line in printed(picture)) == 3


def test_a_program_reads_the_same() -> None:
    told = as_json(look(a=answer(suspects=(Silent(B, SECOND // 2),), suspected=1), b=answer()), "g", "lab")
    assert (told["group"], told["realm"], told["answered"], told["split"]) == ("g", "lab", 2, False)
    assert told["views"][0]["members"] == ["a~1", "b~1"]
    first = told["members"][0]
    assert (first["name"], first["incarnation"], first["role"]) == ("a", 1, "sender")
    assert first["view"] == {"id": str(FIRST), "age": 3.0, "count": 2, "members": ["a~1", "b~1"]}
    assert first["suspects"] == [{"process": "b~1", "silence": 0.5}]
    assert first["buffers"]["untaken"] == {"used": 0, "limit": 10_000}
    assert first["a_second"] is None
    json.dumps(told)


def test_the_advice_says_what_to_do() -> None:
    assert "--transport mesh" in advice("g", "", "multicast", SECOND)
    assert "--seed" in advice("g", "lab", "mesh", SECOND)
    for text in (advice("g", "", "multicast", SECOND), advice("g", "lab", "mesh", SECOND)):
        assert "unisono doctor g" in text
        assert "--realm" in text
        assert "Groups of sessions" in text
