"""What a member of a sampled trace may deliver next, under each service."""

from __future__ import annotations

from typing import NamedTuple

from unisono.properties.generator.agreement import Change
from unisono.properties.generator.population import TIMED, Key, Member


class Next(NamedTuple):
    """What a member takes next: a message of a source, or a change of who sends."""

    member: Member
    source: Member | None
    number: int


def ready(member: Member, sources: list[Member]) -> list[tuple[Member | None, int]]:
    """Sources and numbers that the member may deliver now; `sources` are all of its group."""
    match member.service:
        case "RSO":
            return [(source, number) for source, number in member.due.items() if number <= len(source.sent)]
        case "RTO":
            following = next_in_order(member)
            return [] if following is None or following.member is not member else [following[1:]]
        case "UTO":
            return [
                (source, message.number)
                for source in sources
                for message in source.sent
                if _is_above(member, source.key(message)) and _may_pass(member, source.key(message))
            ]
        case "USO":
            lasts = {source: max(member.loose.get(source, {0})) for source in sources}
        case "ALF":
            return [
                (source, number)
                for source in sources
                for number in range(1, len(source.sent) + 1)
                if number not in member.loose.get(source, ())
            ]
        case _:
            lasts = dict.fromkeys(sources, 0)
    return [(source, number) for source in sources for number in range(lasts[source] + 1, len(source.sent) + 1)]


def pending(member: Member) -> list[tuple[Key, Next]]:
    """The next message of each source, and the next change of who sends, that a member has before it."""
    found = [
        (source.key(source.sent[number - 1]), Next(member, source, number))
        for source, number in member.due.items()
        if number < member.end_of(source)
    ]
    change = next_change(member)
    return found if change is None else [*found, (change.key, Next(member, None, member.applied))]


def next_change(member: Member) -> Change | None:
    """The next change of who sends that a member has before it."""
    if member.installed is None:
        return None
    changes = member.installed.changes[: member.limit]
    return changes[member.applied] if member.applied < len(changes) else None


def next_in_order(member: Member) -> Next | None:
    """What its process delivers next in the total order that the member is in, where that is known by now."""
    waiting = [item for other in _together(member) for item in pending(other)]
    if not waiting:
        return None
    key, following = min(waiting, key=lambda item: item[0])
    return following if _may_pass(member, key) else None


def begins_above(member: Member, source: Member) -> int:
    """The lowest number of a source that the member may still deliver."""
    lowest = member.lowest.get(source, 1)
    if member.service not in TIMED:
        return lowest
    below = [message.number for message in source.sent if not _is_above(member, source.key(message))]
    return max([lowest, *(number + 1 for number in below)])


def _together(member: Member) -> list[Member]:
    """The members of its process, in reliable timestamp order, whose groups are in one order with its own."""
    return [
        other
        for other in member.life.members
        if other.active
        and other.service == "RTO"
        and (other is member or (member.across is not None and other.across == member.across))
    ]


def _is_above(member: Member, key: Key) -> bool:
    return member.passed is None or key > member.passed


def _may_pass(member: Member, key: Key) -> bool:
    """Whether no source can have anything below the key that is not delivered, now or later."""
    for other in _together(member):
        change = next_change(other)
        if change is not None and change.key < key:
            return False
        for source, number in other.due.items():
            if number < other.end_of(source):
                if source.key(source.sent[number - 1]) < key:
                    return False
            elif (
                other.cut is None
                and source.active
                and other.installed in (source.agreed, source.turning)
                and source.life.clock < key[0]
                and (source.life is not member.life or member.life.clock_held)
            ):
                return False
    return True
