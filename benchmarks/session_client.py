"""One client of the benchmark of sessions: stays and sends, or comes and goes, or sends as fast as it may.

Run by sessions.py, and speaks JSON lines: is told what to do, says when everybody is there and at last what a message
cost the session. The session itself does not know that it is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import unisono
from unisono.engine import Deliver, Effect, Fact, PacketReceived
from unisono.reliable.step import Step
from unisono.runtime.loops import run
from unisono.runtime.tracing import Tracer
from unisono.virtual_synchrony.session.flow import Flow
from unisono.virtual_synchrony.session.incoming import Incoming
from unisono.virtual_synchrony.session.sessions import Sessions
from unisono.virtual_synchrony.session.streams import Streams
from unisono.wire.messages import DataPacket

GROUP = "bench"
OVERHEAD = "SESSION_OVERHEAD"


def watch_overhead(tell: Callable[[int, int, int], None]) -> None:
    """Tell, of so many messages that were delivered, what the session took and what all of the engine took.

    The session's part begins where a message is there in its order (002 6.2: available from the core) and ends where
    the application gets it; all of the engine begins with the packet that was opened. What comes before the last
    packet of a large message, and what no message follows from, goes to the next one.
    """
    handle, deliver = Sessions.handle, Flow._deliver
    spent = [0, 0]

    def timed_session(flow: Flow, step: Step, streams: Streams, stream: Incoming) -> None:
        began = time.perf_counter_ns()
        deliver(flow, step, streams, stream)
        spent[0] += time.perf_counter_ns() - began

    def timed(sessions: Sessions, fact: Fact, now: int, wall: int) -> list[Effect]:
        if not isinstance(fact, PacketReceived) or not isinstance(fact.packet, DataPacket):
            before = spent[0]
            effects = handle(sessions, fact, now, wall)
            spent[0] = before
            return effects
        began = time.perf_counter_ns()
        effects = handle(sessions, fact, now, wall)
        spent[1] += time.perf_counter_ns() - began
        delivered = [event for effect in effects if isinstance(effect, Deliver) for event in effect.events]
        messages = sum(isinstance(event, unisono.Message) for event in delivered)
        if messages:
            tell(*spent, messages)
            spent[:] = [0, 0]
        return effects

    Flow._deliver = timed_session  # type: ignore[method-assign]  # only the benchmark measures
    Sessions.handle = timed  # type: ignore[method-assign]  # only the benchmark measures


@contextlib.contextmanager
def rows_in_memory() -> Iterator[None]:
    """Write the trace at the end alone: writing before every answer would be measured as part of the protocol."""
    flush = Tracer.flush
    Tracer.flush = lambda tracer: None  # type: ignore[method-assign]  # only the benchmark can afford to lose rows
    try:
        yield
    finally:
        Tracer.flush = flush  # type: ignore[method-assign]  # as it was


def say(**told: Any) -> None:
    print(json.dumps(told), flush=True)


async def heard() -> Any:
    """The next line from the benchmark."""
    return json.loads(await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline))


async def read(group: unisono.SessionGroup, everybody: int, there: asyncio.Event) -> None:
    while events := await group.receive_many(100_000):
        for event in events:
            if isinstance(event, unisono.View) and len(event.members) >= everybody:
                there.set()


async def send_by_the_clock(group: unisono.SessionGroup, charge: dict[str, Any]) -> None:
    payload = bytes(charge["size"])
    loop = asyncio.get_running_loop()
    due = loop.time() + charge["offset"] / charge["rate"]
    while True:
        await asyncio.sleep(max(0.0, due - loop.time()))
        await group.send(payload)
        due += 1 / charge["rate"]


async def flood(group: unisono.SessionGroup, charge: dict[str, Any]) -> None:
    batch = [bytes(charge["size"])] * 500
    while True:
        await group.send_many(batch)


async def stay(session: unisono.Session, charge: dict[str, Any]) -> None:
    """Be a member who sends, until told to end."""
    totals = [0, 0, 0]
    there = asyncio.Event()
    async with session.join(GROUP) as group:
        reading = asyncio.create_task(read(group, charge["members"], there))
        await there.wait()
        gc.collect()
        gc.freeze()
        loop = asyncio.get_running_loop()

        def note(session: int, whole: int, messages: int) -> None:
            totals[0] += session
            totals[1] += messages
            totals[2] += whole
            if charge["rate"]:
                values = {"nanoseconds": session / messages, "engine": whole / messages, "messages": messages}
                loop.call_soon(lambda: group.report(OVERHEAD, **values))

        watch_overhead(note)
        sending = asyncio.create_task((send_by_the_clock if charge["rate"] else flood)(group, charge))
        say(ready=True)
        await heard()
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending
    await reading
    say(session=totals[0], engine=totals[2], messages=totals[1])


async def visit(session: unisono.Session, charge: dict[str, Any]) -> None:
    """Come and go, each by the clock."""
    say(ready=True)
    await heard()
    loop = asyncio.get_running_loop()
    due = loop.time()
    for _ in range(charge["changes"] // 2):
        async with session.join(GROUP) as group:
            reading = asyncio.create_task(read(group, charge["members"], asyncio.Event()))
            due += charge["interval"]
            await asyncio.sleep(max(0.0, due - loop.time()))
        await reading
        due += charge["interval"]
        await asyncio.sleep(max(0.0, due - loop.time()))
    say(done=True)


async def client(charge: dict[str, Any]) -> None:
    session = unisono.Session(
        charge["name"],
        servers=[charge["server"]],
        realm=charge["realm"],
        interface="127.0.0.1",
        storage="memory",
        trace=charge["trace"],
        run=charge["run"],
        datagram_bytes=charge["datagram_bytes"],
    )
    async with session:
        with rows_in_memory():
            await (visit if charge["changes"] else stay)(session, charge)


if __name__ == "__main__":
    run(client(json.loads(sys.stdin.readline())))
