"""The members of a group divided so that nobody accuses anybody in the same part: each part is to be one view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xxhash import xxh3_64_intdigest

from unisono.identity import ProcessId, ViewId
from unisono.wire.peer_frames import Listed
from unisono.wire.server_frames import Entry, digest_of


class Part:
    """The members of one view to come; they are given in order.

    `digest` is of all that is known of them, `check` of who they are.
    """

    __slots__ = ("check", "digest", "entries")

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = {entry.process: entry for entry in entries}
        words = "\n".join(f"{entry.process} {entry.address} {entry.via or ''}" for entry in self.entries.values())
        self.digest = xxh3_64_intdigest(words.encode())
        self.check = digest_of(self.entries)

    def view(self, number: int, servers: tuple[ProcessId, ...]) -> ViewId:
        """The identifier that a view of these members has, if these servers agree on it in that round."""
        words = "\n".join([*map(str, servers), f"{self.digest:x}"])
        return ViewId(number, servers[0], xxh3_64_intdigest(words.encode()) >> 1)


def digest_of_parts(parts: Iterable[Part]) -> int:
    """What stands for a division: equal where everybody expects the same views."""
    return xxh3_64_intdigest("\n".join(f"{part.digest:x}" for part in parts).encode())


def unite(rosters: Iterable[Mapping[ProcessId, Listed]]) -> dict[ProcessId, Listed]:
    """All clients of some servers, in order.

    Of a name the newest life counts, of a life where it came last, and who is attached before who is only kept. Whom a
    controller speaks for is there only as long as its controller.
    """
    newest: dict[str, Listed] = {}
    for roster in rosters:
        for process, listed in roster.items():
            known = newest.get(process.name)
            if known is None or _rank(listed) > _rank(known):
                newest[process.name] = listed
    there = {listed.entry.process: listed for listed in newest.values()}
    return {process: listed for process, listed in sorted(there.items()) if (listed.entry.via or process) in there}


def _rank(listed: Listed) -> tuple[int, int, bool]:
    return listed.entry.process.incarnation, listed.claim, listed.attached


def divide(clients: Mapping[ProcessId, Listed]) -> list[Part]:
    """Divide all clients, as `unite` gives them.

    While there is an accusation inside, whoever is in most of them is taken out, of equals the greater; those who are
    taken out are divided alike. Who has a controller goes where that goes, and its accusations are the controller's.
    """
    speaker = {process: listed.entry.via or process for process, listed in clients.items()}
    against: dict[ProcessId, set[ProcessId]] = {}
    for process, listed in clients.items():
        for accused in listed.accused:
            one, other = speaker[process], speaker.get(accused)
            if other is not None and other != one:
                against.setdefault(one, set()).add(other)
                against.setdefault(other, set()).add(one)
    parts = []
    inside = set(speaker.values())
    while inside:
        outside = _take_out(inside, against)
        parts.append(Part(listed.entry for process, listed in clients.items() if speaker[process] in inside))
        inside = outside
    return parts


def _take_out(inside: set[ProcessId], against: Mapping[ProcessId, set[ProcessId]]) -> set[ProcessId]:
    """Take out of `inside` whoever must not stay, and say who that was."""
    outside: set[ProcessId] = set()
    count = {one: len(others & inside) for one, others in against.items() if one in inside}
    while count:
        worst = max(count, key=lambda one: (count[one], one))
        if not count[worst]:
            break
        inside.discard(worst)
        outside.add(worst)
        del count[worst]
        for other in against[worst]:
            if other in count:
                count[other] -= 1
    return outside
