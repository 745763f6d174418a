"""Asks a group from outside, over real sockets: rounds of answers, one after another."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from unisono.engine import Address, Deliver, FoundState, LoadState, SaveState
from unisono.errors import GroupError, NetworkError, SettingError, UnisonoError
from unisono.identity import why_bad_name
from unisono.probing.asker import LEAST_WAIT, MOST_WAIT, Asker, Round
from unisono.runtime.channels import Channels
from unisono.runtime.driver import Driver
from unisono.runtime.process import own_name, realm_name
from unisono.runtime.storage import MemoryStorage
from unisono.runtime.transports import TransportName, check_transport, open_transport
from unisono.units import SECOND, render_duration


class Prober:
    """Asks one group, once or `every` so often; used inside `async with`. It joins nothing and is nobody's peer.

        async with Prober("orders", every=SECOND) as prober:
            told = await prober.round()

    Answers are gathered for `wait` nanoseconds in every round.
    """

    def __init__(
        self,
        group: str,
        *,
        realm: str | None = None,
        transport: TransportName = "multicast",
        seeds: Sequence[str] = (),
        interface: str | None = None,
        wait: int = SECOND,
        every: int | None = None,
    ) -> None:
        if (complaint := why_bad_name(group)) is not None:
            raise SettingError("group", complaint)
        if not LEAST_WAIT <= wait <= MOST_WAIT:
            limits = f"{render_duration(LEAST_WAIT)} to {render_duration(MOST_WAIT)}"
            raise SettingError("wait", f"expected {limits}, got {render_duration(wait)}")
        check_transport(transport, seeds)
        self.group = group
        self.realm = realm_name(realm)
        self.wait = wait
        self._transport_name = transport
        self._seeds = tuple(seeds)
        self._interface = interface
        self._asker = Asker(group, self.realm, own_name(), os.urandom, wait, every)
        self._driver: Driver | None = None
        self._rounds: asyncio.Queue[Round | UnisonoError] = asyncio.Queue()

    @property
    def counters(self) -> Counter[str]:
        """How often each named reason to drop something was met."""
        return Counter() if self._driver is None else self._driver.counters

    async def round(self) -> Round:
        """The next round, when it is over."""
        told = await self._rounds.get()
        if isinstance(told, UnisonoError):
            raise told
        return told

    async def __aenter__(self) -> Self:
        transport = open_transport(self._transport_name, self.realm, self._interface, seeds=self._seeds, visiting=True)
        channels = Channels(self.realm, transport.channel_socket)
        self._driver = Driver(self._asker, transport, channels, MemoryStorage(), self, name="probe")
        try:
            await self._driver.start()
        except BaseException:
            await self._driver.stop(ended=False)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._driver is not None:
            await self._driver.stop()

    # What the driver reports.

    def deliver(self, effect: Deliver) -> None:
        told = self._asker.finished
        assert told is not None, "a round is over when it is told"
        self._rounds.put_nowait(told)

    def joined(self, address: Address, error: NetworkError | None) -> None:
        raise AssertionError("who asks joins nothing")

    def state(self, effect: SaveState | LoadState | FoundState) -> None:
        raise AssertionError("who asks has no state")

    def failed(self, error: BaseException) -> None:
        failure = error if isinstance(error, UnisonoError) else GroupError(f"asking stopped: {error!r}")
        self._rounds.put_nowait(failure)
