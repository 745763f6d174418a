"""A client of membership servers or controllers, in a trial."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from random import Random

from unisono.events import Block, Event
from unisono.session import Session
from unisono.session_group import SessionGroup
from unisono.simulation.application import ANSWER_DELAY
from unisono.trials.application import Application
from unisono.trials.charge import Charge, Command
from unisono.units import SECOND

PATIENCE_SECONDS = 24 * 3600.0
"""A client waits for a server, and for its first view, as long as the trial goes on."""


class Client(Application[SessionGroup]):
    """Is with a server when it finds one; answers blocks, unless it is told not to."""

    def __init__(self, charge: Charge) -> None:
        self._session = Session(
            charge.name,
            servers=() if charge.controllers else charge.servers,
            controllers=charge.controllers,
            realm=charge.realm,
            transport=charge.transport,
            seeds=charge.seeds,
            interface=charge.interface,
            port=charge.port,
            trace=charge.trace,
            storage=charge.storage,
            timeout_seconds=PATIENCE_SECONDS,
            **charge.written_settings,
        )
        self._random = Random(f"{charge.seed}/answer/{charge.name}/{charge.life}")
        self._answering = True
        self._asked: dict[str, SessionGroup] = {}
        """Groups whose block is not answered."""
        super().__init__(charge, self._session.process)

    async def _open(self) -> None:
        """Begin to look for a server; groups are joined meanwhile, as in simulation."""
        self._start(self._find_server())
        await super()._open()

    async def _find_server(self) -> None:
        await self._session.open()

    def _group(self, name: str) -> SessionGroup:
        return self._session.join(name)

    def _on_event(self, group: SessionGroup, event: Event) -> None:
        if isinstance(event, Block):
            self._asked[group.name] = group
            self._answer_blocks()

    def _do(self, command: Command, names: Iterable[str]) -> None:
        assert command.do in ("mute", "answer"), "a trial says nothing else to clients"
        self._answering = command.do == "answer"
        self._answer_blocks()

    def _answer_blocks(self) -> None:
        if self._answering:
            for group in self._asked.values():
                self._start(self._answer(group))
            self._asked.clear()

    async def _answer(self, group: SessionGroup) -> None:
        """The application has sent its last, and says so after a moment."""
        await asyncio.sleep(self._random.random() * ANSWER_DELAY / SECOND)
        if group.blocked:
            group.block_ok()
