"""The clients of a server: their channels, and what was told on each of them, so that only differences are told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unisono.engine import Channel, SendFrame
from unisono.identity import ProcessId, ViewId
from unisono.virtual_synchrony.servers.group import Group
from unisono.virtual_synchrony.servers.outbox import Outbox
from unisono.virtual_synchrony.servers.parts import Part
from unisono.wire.server_frames import Departure, Entry, NewView, Standing, StartChange, write_server_frame


class Told:
    """What a client was told of a group in one stay there."""

    __slots__ = ("members", "stay", "view")

    def __init__(self, stay: int) -> None:
        self.stay = stay
        self.members: dict[ProcessId, Entry] | None = None
        """Who is expected; None while nothing was told."""
        self.view: ViewId | None = None
        """The view that was announced, and is not known to stand."""


class Client:
    """A client that has a channel to this server."""

    __slots__ = ("address", "channel", "coming", "controller", "heard", "process", "told")

    def __init__(self, process: ProcessId, channel: Channel, address: str, controller: bool, now: int) -> None:
        self.process = process
        self.channel = channel
        self.address = address
        self.controller = controller
        self.heard = now
        self.told: dict[str, Told] = {}
        self.coming: dict[str, Standing] = {}
        """Where a controller wants to be, and has not said yet for whom it speaks."""

    @property
    def entry(self) -> Entry:
        """As others see it. A controller speaks for itself."""
        return Entry(self.process, self.address, self.process if self.controller else None)


class Clients:
    """All of them, by channel and by name: of a name there is only one."""

    __slots__ = ("_channels", "_names", "_outbox")

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._channels: dict[Channel, Client] = {}
        self._names: dict[str, Client] = {}

    def __len__(self) -> int:
        return len(self._channels)

    def __iter__(self) -> Iterator[Client]:
        return iter(list(self._channels.values()))

    def at(self, channel: Channel) -> Client | None:
        return self._channels.get(channel)

    def named(self, name: str) -> Client | None:
        return self._names.get(name)

    def add(self, client: Client) -> None:
        self._channels[client.channel] = client
        self._names[client.process.name] = client

    def remove(self, client: Client) -> None:
        del self._channels[client.channel]
        del self._names[client.process.name]

    def start_change(self, group: Group, number: int, parts: Sequence[tuple[Part, ViewId]]) -> None:
        """Tell every client in these parts what is about to come. Most were told the same before: write it once."""
        apart = (process for part, _ in parts for process in part.entries) if len(parts) > 1 else ()
        why = {**dict.fromkeys(apart, Departure.SUSPECTED), **group.gone}
        for part, view in parts:
            written: dict[int, bytes] = {}
            for told, channel in self._in(group, part):
                data = written.get(id(told.members))
                if data is None:
                    data = written[id(told.members)] = _announcement(group.name, number, part, view, told.members, why)
                self._outbox.effects.append(SendFrame(channel, data))
                group.floor = max(group.floor, number)
                told.view = view
            for told, _ in self._in(group, part):
                told.members = part.entries

    def new_view(self, group: Group, parts: Sequence[tuple[Part, ViewId]]) -> None:
        """Tell every client to which one of these views was announced that it stands."""
        for part, view in parts:
            channels = []
            for told, channel in self._in(group, part):
                if told.view == view:
                    told.view = None
                    channels.append(channel)
            self._outbox.send_all(channels, NewView(group.name, view))

    def _in(self, group: Group, part: Part) -> Iterator[tuple[Told, Channel]]:
        """Those of a part that have a channel here, in the stay that the other servers know of."""
        for process in part.entries:
            client = self._names.get(process.name)
            told = None if client is None or client.process != process else client.told.get(group.name)
            if client is not None and told is not None and told.stay == group.own.stay_said(process):
                yield told, client.channel


def _announcement(
    group: str,
    number: int,
    part: Part,
    view: ViewId,
    before: dict[ProcessId, Entry] | None,
    why: dict[ProcessId, Departure],
) -> bytes:
    """What changes for those who were told of these members before; `why` others are not among the members.

    Who was told nothing here may come from a view that had any of those.
    """
    known = {} if before is None else before
    added = tuple(entry for process, entry in part.entries.items() if known.get(process) != entry)
    gone = [process for process in (why if before is None else known) if process not in part.entries]
    removed = tuple((process, why.get(process, Departure.UNKNOWN)) for process in gone)
    return write_server_frame(StartChange(group, number, view, before is None, added, removed, part.check))
