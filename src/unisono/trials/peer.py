"""A member of groups of peers, in a trial."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from unisono.engine import ChangeRole, ChangeService
from unisono.group import Group, join
from unisono.settings import Role, Service
from unisono.trials.application import Application
from unisono.trials.charge import Charge, Command
from unisono.trials.severing import SeverableProcess


class Peer(Application[Group]):
    """Joins its groups by itself, and can be cut off on its own machine."""

    def __init__(self, charge: Charge) -> None:
        self._severable = SeverableProcess(
            charge.name,
            realm=charge.realm,
            transport=charge.transport,
            seeds=charge.seeds,
            interface=charge.interface,
            port=charge.port,
            trace=charge.trace,
            storage=charge.storage,
        )
        super().__init__(charge, self._severable)

    def _group(self, name: str) -> Group:
        return join(name, process=self._severable, **self._charge.written_settings)

    def _do(self, command: Command, names: Iterable[str]) -> None:
        if command.do == "sever":
            self._severable.sever(msgspec.json.decode(command.data, type=list[str]))
            return
        for name in names:
            if command.do == "change":
                self._severable.give(ChangeService(name, msgspec.convert(command.data.decode(), Service)))
            elif command.do == "become":
                self._severable.give(ChangeRole(name, msgspec.convert(command.data.decode(), Role)))
            else:
                assert command.do == "count_audience", "a trial says nothing else to peers"
                self._groups[name].count_audience()
