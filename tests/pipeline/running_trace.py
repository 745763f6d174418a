"""A run that goes on while it is watched: members send and deliver, report now and then, and do wrong when told to.

Served as a collector serves its log. What is put into it stands in `damaged`, to be held against what was flagged.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from unisono.pipeline.live.outputs import Delivered, Reported
from unisono.pipeline.live.tables import read_lines
from unisono.runtime.log_server import LogServer
from unisono.trace.log.retained import RetainedLog
from unisono.trace.reports import decode, encode, make_report
from unisono.trace.reports import rows as report_rows
from unisono.trace.schema import AnyRow, DeliverRow, MembershipRow, SendRow, Start, ViewRow

INCARNATION = 7
GROUP = "market"
HOST = "thishost"
SIZES = (100, 1_000)
DEADLINE_SECONDS = 300.0


class Served:
    """A retained log behind a server, in a thread; `address` says where."""

    def __init__(self, directory: Path, port: int = 0) -> None:
        self.log = RetainedLog(directory)
        self.address = ""
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.log.close()

    def take(self, reports: list[bytes]) -> None:
        """Append reports and sync them, as a collector does before it acknowledges."""

        async def append() -> None:
            self.log.append(reports)
            self.log.sync()

        asyncio.run_coroutine_threadsafe(append(), self._loop).result()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = LogServer(self.log)
        self._loop.run_until_complete(server.start(port=self._port))
        self.address = server.address
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(server.close())


class RunningTrace:
    """Members of one group under timestamp order, all on this host; the first one sends."""

    def __init__(
        self, run: str, members: int = 4, clock: Callable[[], int] = time.monotonic_ns, host: str = HOST
    ) -> None:
        self.run = run
        self.names = [f"p{place}" for place in range(members)]
        self.damaged: list[str] = []
        """The properties that were broken, in order."""
        self._clock, self._host = clock, host
        self._rows: dict[str, list[AnyRow]] = {name: [] for name in self.names}
        self._numbers = dict.fromkeys(self.names, 0)
        self._positions = dict.fromkeys(self.names, 0)
        self._message = self._invented = 0
        self._view = 1
        for name in self.names:
            self._write(name, self._installed())

    def send(self, messages: int) -> None:
        """Some messages are sent and delivered by everybody."""
        for _ in range(messages):
            self._message += 1
            self._write(self.names[0], self._sent())
            for name in self.names:
                self._write(name, self._delivered())

    def damage(self, property_id: str) -> None:
        """Break a property once, by what the last member writes, with messages around it."""
        last = self.names[-1]
        if property_id == "M2":
            self._write(last, replace(self._installed(), start_time=0, view=f"before v{self._view}"))
            self.change_view()
        elif property_id == "M4":
            self._view += 1
            for name in self.names:
                starts = [start for start in self._starts() if name != last or start.source != self.names[1]]
                self._write(name, replace(self._installed(), start=starts))
        else:
            self._damage_deliveries(last, property_id)
        self.damaged.append(property_id)

    def change_view(self) -> None:
        """Agree on the next view; it takes no time."""
        self._view += 1
        for name in self.names:
            self._write(name, MembershipRow(kind="MRA", group=GROUP))
            self._write(name, self._installed())

    def end(self, *names: str) -> None:
        for name in names or self.names:
            self._write(name, MembershipRow(kind="END"))

    def reports(self, *names: str) -> list[bytes]:
        """What was written since the last time, one report a member; those who come later in the list report first."""
        made = []
        for name in reversed(names or tuple(self.names)):
            if self._rows[name]:
                made.append(encode(make_report(self._rows[name], self._numbers[name])))
                self._numbers[name] += 1
                self._rows[name] = []
        return made

    def _damage_deliveries(self, last: str, property_id: str) -> None:
        self._message += 1
        self._write(self.names[0], self._sent())
        for name in self.names[:-1]:
            self._write(name, self._delivered())
        row = self._delivered()
        if property_id == "D1":
            self._write(last, replace(row, body=row.body + 1))
        elif property_id == "D2":
            self._write(last, row)
            self._write(last, self._delivered())
        elif property_id == "O6":
            self._write(last, replace(row, timestamp=1))
        elif property_id == "never sent":
            self._write(last, row)
            self._invented += 1
            self._write(last, replace(row, source=self.names[1], number=self._invented, service="UU", view=None))
        else:
            assert property_id == "O2", "left out; the next one is told"

    def _write(self, name: str, row: AnyRow) -> None:
        row.run, row.process, row.incarnation, row.host = self.run, name, INCARNATION, self._host
        row.at, row.position = self._clock(), self._positions[name]
        self._positions[name] += 1
        self._rows[name].append(row)

    def _sent(self) -> SendRow:
        number = self._message
        return SendRow(
            kind="SEND",
            group=GROUP,
            view=f"v{self._view}",
            service="RTO",
            sequence=number,
            number=number,
            timestamp=number * 10,
            size=SIZES[number % len(SIZES)],
            body=number,
        )

    def _delivered(self) -> DeliverRow:
        sent = self._sent()
        return DeliverRow(
            kind="DELIVER",
            group=GROUP,
            view=sent.view,
            service="RTO",
            source=self.names[0],
            source_incarnation=INCARNATION,
            sequence=sent.sequence,
            number=sent.number,
            timestamp=sent.timestamp,
            size=sent.size,
            body=sent.body,
            index=sent.number,
        )

    def _starts(self) -> list[Start]:
        return [
            Start(name, INCARNATION, self._message + 1, self._message + 1 if name == self.names[0] else 1)
            for name in self.names
        ]

    def _installed(self) -> ViewRow:
        return ViewRow(
            kind="VIEW",
            group=GROUP,
            view=f"v{self._view}",
            service="RTO",
            start_time=self._view,
            leader=self.names[0],
            leader_incarnation=INCARNATION,
            leader_sequence=1,
            previous=None,
            role="sender",
            start=self._starts(),
        )


def wait_until(done: Callable[[], bool], what: str, deadline_seconds: float = DEADLINE_SECONDS) -> None:
    end = time.monotonic() + deadline_seconds
    while not done():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.05)


def reports_of(tables: Path) -> int:
    return sum(line.reports for line in read_lines(tables, "reports") if isinstance(line, Reported))


def deliveries_in(read: Callable[[int], list[bytes]]) -> Counter[tuple[str, int]]:
    """By member and size, from a log that is read from an offset on."""
    found: Counter[tuple[str, int]] = Counter()
    offset = 0
    while payloads := read(offset):
        offset += len(payloads)
        rows = [row for payload in payloads for row in report_rows(decode(payload))]
        found.update((row.process, row.size) for row in rows if isinstance(row, DeliverRow))
    return found


def deliveries_of(tables: Path) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    for line in read_lines(tables, "deliveries"):
        assert isinstance(line, Delivered)
        found[line.process, line.size] += line.messages
    return found
