"""Members as numbered states: the real code runs once for every pair of a state and what happens in it.

A member is deterministic, and depends on the others only by what happens to it. So all its states can be numbered, and
a state of the whole is a tuple of numbers.
"""

from __future__ import annotations

from tests.exploration.member import Datagram, Face, Happening, Member, Message, freeze, thaw

Packet = Datagram | Message
Sent = tuple[tuple[int | None, int], ...]
"""To whom (None: all others), and which packet."""


class Automaton:
    """The states of members that were seen, and the ways between them."""

    def __init__(self, primary: int = 0) -> None:
        self._template = Member(0, primary)
        self._primary = primary
        self._numbers: dict[str, int] = {}
        self._frozen: list[bytes] = []
        self.faces: list[Face] = []
        self._packets: dict[Packet, int] = {}
        self.packets: list[Packet] = []
        self._ways: dict[tuple[int, Happening], tuple[int, Sent]] = {}

    @property
    def members(self) -> int:
        """How many states of single members were seen."""
        return len(self.faces)

    @property
    def calls(self) -> int:
        """How often the real code ran."""
        return len(self._ways)

    def newcomer(self, index: int) -> int:
        """The state of a member that has not joined."""
        return self._number(Member(index, self._primary), joined=False)

    def packet(self, packet: Packet) -> int:
        number = self._packets.get(packet)
        if number is None:
            number = self._packets[packet] = len(self.packets)
            self.packets.append(packet)
        return number

    def after(self, state: int, happening: Happening) -> tuple[int, Sent]:
        """The state of a member after something happened to it, and what it sent."""
        key = state, happening
        way = self._ways.get(key)
        if way is None:
            member = thaw(self._frozen[state], self._template.settings)
            sent = tuple((to, self.packet(packet)) for to, packet in member.handle(happening))
            way = self._ways[key] = self._number(member), sent
        return way

    def _number(self, member: Member, joined: bool = True) -> int:
        name = member.fingerprint()
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._frozen)
            self._frozen.append(freeze(member))
            self.faces.append(member.face() if joined else None)  # type: ignore[arg-type]  # asked for when it joined
        return number
