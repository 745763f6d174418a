"""What a member of a sampled trace may deliver next, under each service."""

from __future__ import annotations

from unisono.properties.generator.population import TIMED, Key, Member


def ready(member: Member, sources: list[Member]) -> list[tuple[Member, int]]:
    """Sources and numbers that the member may deliver now; `sources` are all of its group."""
    match member.service:
        case "RSO":
            return [(source, number) for source, number in member.due.items() if number <= len(source.sent)]
        case "RTO":
            following = next_in_order(member)
            return [] if following is None or following[0] is not member else [following[1:]]
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


def next_in_order(member: Member) -> tuple[Member, Member, int] | None:
    """What its process delivers next in the total order that the member is in, where that is known by now."""
    pending = [
        (source.key(source.sent[number - 1]), other, source, number)
        for other in _together(member)
        for source, number in other.due.items()
        if number < other.end_of(source)
    ]
    if not pending:
        return None
    key, other, source, number = min(pending, key=lambda item: item[0])
    return (other, source, number) if _may_pass(member, key) else None


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
        for source, number in other.due.items():
            if number < other.end_of(source):
                if source.key(source.sent[number - 1]) < key:
                    return False
            elif (
                other.cut is None
                and source.active
                and source.agreed is other.installed
                and source.life.clock < key[0]
                and (source.life is not member.life or member.life.clock_held)
            ):
                return False
    return True
