"""A mesh: what is meant for many goes to each by unicast, where networks carry no multicast.

Peers find each other by seeds, by what peers say of others, and on one machine or network by greetings to a multicast
address of the realm. A peer that is not heard for long, or says farewell, is no longer sent to. A visitor finds the
others in the same way and is nobody's peer: it answers no greeting.

A scope holds here too: what may travel so many hops goes to the peers whose answers took no more.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from itertools import islice
from time import monotonic

from unisono.engine import Address, DatagramReceived, is_multicast
from unisono.errors import NetworkError
from unisono.runtime.addresses import AddressBook, SocketAddress, multicast_host, realm_port, resolve, spell, split
from unisono.runtime.interfaces import Interface
from unisono.runtime.meeting import (
    NAMED_LIMIT,
    TOKEN_BYTES,
    Word,
    greeting,
    is_word,
    read_word,
    realm_number,
    write_word,
)
from unisono.runtime.sockets import (
    Count,
    DatagramSocket,
    Receive,
    open_endpoint,
    open_multicast,
    set_scope,
    speak_multicast,
)

_LOG = logging.getLogger(__name__)

PEER_LIMIT = 1024
GREETED_LIMIT = 64
"""Addresses that were named and greeted between two rounds."""
FIRST_ROUND_SECONDS = 0.05
LAST_ROUND_SECONDS = 2.0
SILENCE_SECONDS = 15.0
"""A peer that is silent for this long is no longer sent to."""
DISCOVERY_SCOPE = 1


class Mesh:
    """The transport over unicast alone."""

    def __init__(
        self, realm: str, interface: Interface, port: int = 0, seeds: Sequence[str] = (), visiting: bool = False
    ) -> None:
        self._realm = realm
        self._number = realm_number(realm)
        self._interface = interface
        self._visiting = visiting
        self._seed_names = tuple(seeds)
        for seed in seeds:
            split(seed)
        self._socket, self.channel_socket = open_endpoint(interface, port)
        self._own: SocketAddress = self._socket.getsockname()
        self._book = AddressBook(interface.family)
        self._token = os.urandom(TOKEN_BYTES)
        self._greeting = greeting(self._number, self._token)
        self._seeds: list[SocketAddress] = []
        self._peers: dict[SocketAddress, float] = {}
        self._hops: dict[SocketAddress, int] = {}
        """How many hops the last answer of each peer took."""
        self._tokens: dict[SocketAddress, bytes] = {}
        self._greeted: set[SocketAddress] = set()
        self._named = 0
        self._meeting_place: SocketAddress | None = None
        self._meeting: DatagramSocket | None = None
        self._endpoint: DatagramSocket | None = None
        self._round_seconds = FIRST_ROUND_SECONDS
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._receive: Receive = lambda batch: None
        self._count: Count = lambda reason: None

    @property
    def address(self) -> Address:
        return spell(self._own)

    @property
    def peers(self) -> list[Address]:
        """The endpoints that are sent to."""
        return [self._book.spell(peer) for peer in self._peers]

    async def start(self, loop: asyncio.AbstractEventLoop, receive: Receive, count: Count) -> None:
        self._loop, self._receive, self._count = loop, receive, count
        for name in self._seed_names:
            self._seeds.append(await resolve(loop, name, self._interface.family, "seed"))
        self._endpoint = DatagramSocket(
            self._socket, self.address, self._own, self._book, loop, self._on_datagrams, count
        )
        self._open_meeting(loop)
        _LOG.info("mesh from %s, %d seeds", self.address, len(self._seeds))
        self._meet()

    def send(self, to: Address, datagrams: Sequence[bytes], scope: int) -> None:
        assert self._endpoint is not None, "a transport sends after it started"
        if is_multicast(to):
            for peer in dict.fromkeys([*self._peers, *self._seeds]) if self._visiting else self._peers:
                if self._hops.get(peer, 0) <= scope:
                    self._endpoint.send_all(datagrams, peer)
            return
        try:
            endpoint = self._book.endpoint(to)
        except NetworkError:
            self._count("mesh: not an address of this network")
            return
        self._endpoint.send_all(datagrams, endpoint)

    def join(self, address: Address) -> None:
        """Every peer gets everything; the node drops what is not of its groups."""

    def leave(self, address: Address) -> None:
        pass

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._endpoint is not None:
            for peer, token in self._tokens.items():
                self._endpoint.send(write_word(self._number, Word("bye", token)), peer)
            self._endpoint.close()
        if self._meeting is not None:
            self._meeting.close()
        self._socket.close()
        self.channel_socket.close()

    def _open_meeting(self, loop: asyncio.AbstractEventLoop) -> None:
        """Greetings to a multicast address need no configuration; where there is no multicast, seeds remain."""
        port, host = realm_port(self._realm), multicast_host(self._realm, "meeting", self._interface.family)
        try:
            sock = open_multicast(self._interface, host, port)
            speak_multicast(self._socket, self._interface)
            set_scope(self._socket, self._interface, DISCOVERY_SCOPE)
        except (NetworkError, OSError) as error:
            _LOG.info("peers are found by seeds alone: %s", error)
            return
        place: SocketAddress = (host, port)
        if self._interface.family == socket.AF_INET6:
            place = (host, port, 0, self._interface.index)
        self._meeting_place = place
        self._meeting = DatagramSocket(sock, self.address, self._own, self._book, loop, self._on_datagrams, self._count)

    def _meet(self) -> None:
        """One round: greet the meeting place, the seeds and the peers, forget who is silent."""
        assert self._loop is not None, "rounds begin with the start"
        assert self._endpoint is not None, "rounds begin with the start"
        now = monotonic()
        for peer in [peer for peer, heard in self._peers.items() if now - heard > SILENCE_SECONDS]:
            self._forget(peer)
            _LOG.info("peer %s is silent and no longer sent to", self._book.spell(peer))
        self._greeted.clear()
        targets = dict.fromkeys(self._seeds)
        targets.update(dict.fromkeys(self._peers))
        if self._meeting_place is not None:
            targets[self._meeting_place] = None
        for target in targets:
            if target != self._own:
                self._endpoint.send(self._greeting, target)
        self._timer = self._loop.call_later(self._round_seconds, self._meet)
        self._round_seconds = min(2 * self._round_seconds, LAST_ROUND_SECONDS)

    def _on_datagrams(self, batch: list[DatagramReceived]) -> None:
        """Words of the mesh are for this transport, the rest is for the engine."""
        if any(is_word(datagram.data) for datagram in batch):
            rest = []
            for datagram in batch:
                if is_word(datagram.data):
                    self._on_word(datagram)
                else:
                    rest.append(datagram)
            batch = rest
        if batch:
            self._receive(batch)

    def _on_word(self, datagram: DatagramReceived) -> None:
        assert self._endpoint is not None, "words come after the start"
        word = read_word(datagram.data, self._number)
        if isinstance(word, str):
            self._count(word)
            return
        source = self._book.endpoint(datagram.source)
        if word.kind == "hello" and self._visiting:
            return
        if word.kind == "hello":
            answer = Word("here", word.token, self._others(source))
            self._endpoint.send(write_word(self._number, answer), source)
            if source in self._peers:
                self._tokens[source] = word.token
            else:
                self._greet(source)
        elif word.token != self._token:
            self._count("mesh: an answer to nobody's greeting")
        elif word.kind == "bye":
            self._forget(source)
        else:
            self._welcome(source, datagram.hops)
            for other in word.others:
                self._greet_named(other)

    def _welcome(self, source: SocketAddress, hops: int) -> None:
        """Who answered a greeting is there."""
        if source not in self._peers:
            if len(self._peers) >= PEER_LIMIT:
                self._count("mesh: no room for another peer")
                return
            _LOG.info("peer %s found", self._book.spell(source))
        self._peers[source] = monotonic()
        self._hops[source] = hops

    def _forget(self, peer: SocketAddress) -> None:
        self._peers.pop(peer, None)
        self._hops.pop(peer, None)
        self._tokens.pop(peer, None)

    def _others(self, asker: SocketAddress) -> tuple[Address, ...]:
        """Some of the peers, in turn, so that repeated greetings learn of all of them."""
        others = [peer for peer in self._peers if peer != asker]
        if not others:
            return ()
        first = self._named % len(others)
        self._named += NAMED_LIMIT
        return tuple(self._book.spell(peer) for peer in islice(others[first:] + others[:first], NAMED_LIMIT))

    def _greet_named(self, other: str) -> None:
        try:
            self._greet(self._book.endpoint(Address(other)))
        except NetworkError:
            self._count("mesh: malformed")

    def _greet(self, endpoint: SocketAddress) -> None:
        assert self._endpoint is not None, "words come after the start"
        known = endpoint == self._own or endpoint in self._peers or endpoint in self._greeted
        if not known and len(self._greeted) < GREETED_LIMIT:
            self._greeted.add(endpoint)
            self._endpoint.send(self._greeting, endpoint)
