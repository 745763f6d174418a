"""What the logs of all lives must show, each check for itself and blind to the others.

They read what the applications wrote and nothing else, and import nothing of the library that is tried.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.campaigns.torture.lives import Biographies, Biography, Message, Stay, by_process, transitions
from tests.campaigns.torture.records import Got


def integrity(lives: Biographies) -> Iterator[str]:
    """Whatever is delivered was sent, with these bytes, by whom the delivery names."""
    processes = by_process(lives)
    for life in lives.values():
        for _, got in life.got:
            source = processes.get(got.source)
            if source is None:
                yield f"{life.key} delivered a message of {got.source}, whom nobody knows"
            elif source.sending.get(got.number) != got.hash:
                yield f"{life.key} delivered a message that {source.key} did not send: {got.number}, hash {got.hash}"


def duplicates(lives: Biographies) -> Iterator[str]:
    """Nobody delivers a message twice."""
    for life in lives.values():
        seen: set[Message] = set()
        for _, got in life.got:
            if (one := (got.source, got.number)) in seen:
                yield f"{life.key} delivered {got.number} of {got.source} twice"
            seen.add(one)


def source_order(lives: Biographies) -> Iterator[str]:
    """The messages of one source come in the order in which it sent them, and none is left out without a reason.

    A reason is that the two did not come along together from the view of the one message to that of the other.
    """
    processes = by_process(lives)
    for life in lives.values():
        newest: dict[str, tuple[int, int]] = {}
        for stay, got in life.got:
            before = newest.get(got.source)
            newest[got.source] = stay, got.number
            if before is None:
                continue
            if got.number < before[1]:
                yield f"{life.key} delivered {got.number} of {got.source} after {before[1]}"
            elif got.number > before[1] + 1 and got.source in processes:
                left_out = [one for one in range(before[1] + 1, got.number) if one in processes[got.source].accepted]
                if left_out and together(life, got.source, before[0], stay):
                    yield (
                        f"{life.key} delivered {before[1]} and then {got.number} of {got.source},"
                        f" which was with it all the time, without {spans(left_out)}"
                    )


def together(life: Biography, other: str, first: int, last: int) -> bool:
    """Whether a life and another came along from one of its stays to a later one."""
    if first < 0 or (life.service == "source" and life.who != other and life.stays[last].told_off(other)):
        return False
    return life.who == other or all(
        life.stays[one].keeps(life.stays[one - 1], other) and (one == last or life.stays[one].view.whole)
        for one in range(first + 1, last + 1)
    )


def total_order(lives: Biographies) -> Iterator[str]:
    """All who receive in timestamp order deliver in one order: no two have two messages the other way round."""
    after: dict[Message, dict[Message, str]] = defaultdict(dict)
    waiting: dict[Message, int] = defaultdict(int)
    for life in lives.values():
        if not life.ordered:
            continue
        earlier: Message | None = None
        for _, got in life.got:
            one = got.source, got.number
            waiting[one] += 0
            if earlier is not None and earlier != one and one not in after[earlier]:
                after[earlier][one] = life.key
                waiting[one] += 1
            earlier = one
    ready = [one for one, count in waiting.items() if not count]
    while ready:
        for one in after.get(ready.pop(), ()):
            waiting[one] -= 1
            if not waiting[one]:
                ready.append(one)
    if rest := {one for one, count in waiting.items() if count}:
        yield f"there is no one order: {_circle(after, rest)}"


def _circle(after: dict[Message, dict[Message, str]], rest: set[Message]) -> str:
    """Messages each of which somebody delivered before the next, and the last before the first.

    Each of the rest waits for another of them, so going backwards leads round.
    """
    before = {later: (one, who) for one in rest for later, who in after[one].items() if later in rest}
    one = min(rest)
    path: list[Message] = []
    while one not in path:
        path.append(one)
        one = before[one][0]
    circle = path[path.index(one) :]
    return ", ".join(f"{render(before[one][0])} before {render(one)} at {before[one][1]}" for one in circle[:10])


def views(lives: Biographies) -> Iterator[str]:
    """A view has the same members everywhere, whoever may send is in its own, and companions name each other."""
    members: dict[str, tuple[str, ...]] = {}
    came: dict[tuple[str, str], dict[str, tuple[str, ...]]] = defaultdict(dict)
    for life in lives.values():
        if not life.agrees:
            continue
        for stay in life.stays:
            view = stay.view
            if members.setdefault(view.view, view.members) != view.members:
                yield f"{life.key} has other members in {view.view} than another: {' '.join(view.members)}"
            if life.role == "sender" and life.who not in view.members:
                yield f"{life.key} installed {view.view} and is not in it"
            if view.previous and view.transitional is not None:
                came[view.previous, view.view][life.who] = view.transitional
    for (previous, next_view), all_of_them in came.items():
        for who, companions in all_of_them.items():
            for other in companions:
                if other in all_of_them and who in members[next_view] and who not in all_of_them[other]:
                    yield f"{who} came to {next_view} with {other}, and {other} not with {who}, from {previous}"


def agreement(lives: Biographies) -> Iterator[str]:
    """Those who go from one view to the next together delivered the same in the first, in the same order if any.

    Who came into the middle of the first delivered an end of that.
    """
    for (previous, view), travellers in journeys(lives).items():
        whole = [traveller for traveller in travellers if traveller[1].view.whole]
        late = sorted((one for one in travellers if not one[1].view.whole), key=lambda one: -len(one[1].got))
        for (first, one), (second, other) in pairwise([*whole, *late]):
            if other.view.whole:
                same = one.got == other.got if first.ordered and second.ordered else set(one.got) == set(other.got)
            else:
                same = not other.got or other.got == one.got[-len(other.got) :]
            if not same:
                yield (
                    f"{first.key} and {second.key} went from {previous} to {view} together,"
                    f" and in the first {_difference(first, one, second, other)}"
                )


def journeys(lives: Biographies) -> dict[tuple[str, str], list[tuple[Biography, Stay]]]:
    """Who went from which view to which together, and what they delivered in the first."""
    found: dict[tuple[str, str], list[tuple[Biography, Stay]]] = defaultdict(list)
    for life in lives.values():
        if life.agrees:
            for before, later in transitions(life):
                if later.view.transitional is not None and not before.told:
                    found[before.view.view, later.view.view].append((life, before))
    return found


def _difference(first: Biography, one: Stay, second: Biography, other: Stay) -> str:
    alone, elsewhere = set(one.got) - set(other.got), set(other.got) - set(one.got)
    for life, missing in ((second, alone), (first, elsewhere)):
        if missing:
            return f"{life.key} lacks {len(missing)}, {render(min(missing))} one of them"
    return "had the same messages in different orders"


def own_messages(lives: Biographies) -> Iterator[str]:
    """Who sends delivers what was accepted of it: a killed one up to the last of its own that it delivered.

    Somebody who was shut out of a view may lack its last ones in the view that it left in, and no others.
    """
    for life in lives.values():
        mine = {got.number for _, got in life.got if got.source == life.who}
        to = None if life.closed_at is not None and not life.shut_out else max(mine, default=0)
        if lacking := [number for number in life.accepted if number not in mine and (to is None or number < to)]:
            yield f"{life.key} never delivered what it had sent itself: {spans(lacking)}"


def leavers(lives: Biographies) -> Iterator[str]:
    """What was accepted before `leave` reaches all who stay: who were in the leaver's last view and go on from it."""
    for leaver, stayer, owed in debts(lives):
        got = {got.number for _, got in stayer.got if got.source == leaver.who}
        if lacking := [number for number in owed if number not in got]:
            yield f"{stayer.key} stayed when {leaver.key} left, and lacks of it {spans(lacking)}"


def debts(lives: Biographies) -> Iterator[tuple[Biography, Biography, list[int]]]:
    """Each leaver that was never shut out, each that stayed, and the numbers that it must have had."""
    for leaver in lives.values():
        if leaver.left_at is None or leaver.shut_out or not leaver.stays or leaver.service == "source":
            continue
        last = leaver.stays[-1]
        delivered = {got.number: stay for stay, got in leaver.got if got.source == leaver.who}
        here = len(leaver.stays) - 1
        owed = [
            number
            for number, stay in leaver.accepted.items()
            if delivered.get(number, here) == here and (stay == here or number in delivered)
        ]
        if not owed:
            continue
        for stayer in lives.values():
            if stayer is not leaver and _stays(stayer, leaver, last.view.view):
                yield leaver, stayer, owed


def _stays(stayer: Biography, leaver: Biography, view: str) -> bool:
    """Whether somebody was in the leaver's last view, and went on until it knew that the leaver had left."""
    places = [place for place, stay in enumerate(stayer.stays) if stay.view.view == view]
    if not places or not stayer.stays[places[0]].view.whole:
        return False
    before = stayer.stays[places[0]]
    member = leaver.who in before.view.members
    for stay in stayer.stays[places[0] + 1 :]:
        if stay.view.previous != before.view.view or before.told_off(leaver.who):
            return False
        if leaver.who not in stay.view.members:
            return not member or stay.view.reasons.get(leaver.who) == "left"
        if not stay.keeps(before, leaver.who):
            return False
        before = stay
    return False


def render(one: Message) -> str:
    return f"{one[0]}:{one[1]}"


def spans(numbers: list[int]) -> str:
    """Numbers in a few words: how many, the first and the last."""
    ordered = sorted(numbers)
    if len(ordered) == 1:
        return str(ordered[0])
    return f"{len(ordered)} from {ordered[0]} to {ordered[-1]}"


def count_of(lives: Biographies) -> dict[str, int]:
    """How much there was to check."""
    deliveries: list[Got] = [got for life in lives.values() for _, got in life.got]
    return {
        "deliveries": len(deliveries),
        "views": len({stay.view.view for life in lives.values() for stay in life.stays}),
        "journeys": sum(len(travellers) > 1 for travellers in journeys(lives).values()),
        "leaves": sum(life.left_at is not None for life in lives.values()),
        "owed": sum(len(owed) for _, _, owed in debts(lives)),
    }
