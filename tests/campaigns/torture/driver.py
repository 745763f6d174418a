"""Carries out a plan on real processes, and tells in the end what was left behind.

It reads the applications' logs as they grow, to see when all are in one view; it ends the processes that it started
and no others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import msgspec
from msgspec import Struct

from tests.campaigns.torture.cores import Mark, mark
from tests.campaigns.torture.life import Fate, Life, Part
from tests.campaigns.torture.plan import Cast, Deed, Plan
from tests.campaigns.torture.records import now
from tests.network.sessions import Servers

START_SECONDS = 60.0
"""How long the first members may take to meet."""
MEETING_SECONDS = 30.0
"""How long the driver waits for one view with all, and then for all last words."""
LEAVE_SECONDS = 30.0
"""How long a process may take to leave and end; above that it is killed, and said so."""
LAST_RATE = 20.0
"""Messages a second of each while one view with all is awaited: who listens only comes back to the senders by that."""
SERVERS = 3
POLL_SECONDS = 0.02
STORY = "story.json"


class Story(Struct, frozen=True):
    """What the driver knows of a run, beside the applications' logs."""

    kind: str
    seed: int
    transport: str
    fates: dict[str, Fate]
    quiet_at: float
    """When the last fault was over."""
    load: float
    """Of the machine when all was quiet, over the minute before."""
    others: float
    """How many cores others kept busy, in the whole run or until one view with all came, whichever is more."""
    left_behind: tuple[str, ...]
    trouble: str = ""
    """Why the run is over before its end, if it is."""

    @property
    def present(self) -> list[str]:
        """The lives that were there from the quiet on."""
        return [key for key, fate in self.fates.items() if fate.stayed]


def read_story(folder: Path) -> Story:
    return msgspec.json.decode((folder / STORY).read_bytes(), type=Story)


class Driver:
    """The processes of one run."""

    def __init__(self, plan: Plan, folder: Path, stack: ExitStack, trace: bool) -> None:
        self._plan = plan
        self._folder = folder
        self._stack = stack
        self._trace = trace
        self._realm = f"torture-{os.getpid()}-{os.urandom(4).hex()}"
        self._lives: dict[str, Life] = {}
        self._present: list[Life] = []
        self._pause = Event()
        self._servers: Servers | None = None
        self._lost_server = ""
        for name in ("tmp", "runtime", "state"):
            (folder / name).mkdir(parents=True)
        if plan.kind == "sessions":
            self._servers = stack.enter_context(closing(Servers(SERVERS, self._realm, *self._server_trace())))

    def run(self) -> Story:
        """The whole plan, its end, and what was left behind."""
        trouble = ""
        quiet_at = now()
        begin = quiet = self._mark()
        load = os.getloadavg()[0]
        try:
            for key in self._plan.first:
                self._come(self._plan.casts[key])
            self._until(self._all_joined, START_SECONDS, "not all of the first members joined")
            self._carry_out()
            self._until(self._all_joined, START_SECONDS, "a newcomer never joined")
            quiet_at, quiet, load = now(), self._mark(), os.getloadavg()[0]
            self._settle()
        except TimeoutError as error:
            trouble = str(error)
        met = self._mark()
        self._end()
        fates = {key: life.fate(life in self._present) for key, life in self._lives.items()}
        story = Story(
            self._plan.kind,
            self._plan.seed,
            self._plan.transport,
            fates,
            quiet_at,
            load,
            max(met.others_since(begin), met.others_since(quiet)),
            (),
            trouble,
        )
        self._stack.close()
        story = msgspec.structs.replace(story, left_behind=tuple(self._left_behind()))
        (self._folder / STORY).write_bytes(msgspec.json.encode(story))
        return story

    def _carry_out(self) -> None:
        began = monotonic()
        for deed in self._plan.deeds:
            self._wait(began + deed.at - monotonic())
            self._do(deed)
        for life in self._present:
            life.go_on()

    def _do(self, deed: Deed) -> None:
        if deed.action == "come":
            self._come(self._plan.casts[deed.life])
        elif deed.action == "kill server":
            assert self._servers is not None
            self._lost_server = self._servers.endpoints[0]
            self._servers.kill(self._lost_server)
        elif deed.action == "start server":
            assert self._servers is not None
            self._servers.start_again(self._lost_server)
        elif deed.action == "kill":
            self._lives[deed.life].kill()
            self._present.remove(self._lives[deed.life])
        elif deed.action == "stop":
            self._lives[deed.life].stop()
        elif deed.action == "go on":
            self._lives[deed.life].go_on()
        elif deed.action == "leave":
            self._lives[deed.life].leave(round(deed.amount))
            self._present.remove(self._lives[deed.life])
        else:
            self._lives[deed.life].tell(f"{deed.action} {deed.amount}")

    def _come(self, cast: Cast) -> None:
        log = str(self._folder / f"{cast.key}.log")
        part = Part(cast.name, log, f"{self._plan.seed} {cast.key}", self._options(cast), self._settings())
        life = self._stack.enter_context(closing(Life(cast, part, self._folder)))
        self._lives[cast.key] = life
        self._present.append(life)

    def _options(self, cast: Cast) -> dict[str, Any]:
        options: dict[str, Any] = {"realm": self._realm, "transport": self._plan.transport}
        if self._trace:
            options["trace"] = str(self._folder / "trace")
        if not cast.on_disk:
            options["storage"] = "memory"
        if self._servers is not None:
            return {**options, "servers": self._servers.endpoints}
        return {**options, "service": cast.service, "role": cast.role, "idle": cast.idle}

    def _settings(self) -> dict[str, Any]:
        return {}

    def _server_trace(self) -> list[str]:
        return ["--trace", str(self._folder / "trace")] if self._trace else []

    def _settle(self) -> None:
        """One view with all comes, and everybody hears everybody's last word."""
        for life in self._present:
            if life.speaks:
                life.tell(f"talk {LAST_RATE}")
        self._until(self._in_one_view, MEETING_SECONDS, "there was no view with all")
        for life in self._present:
            if life.speaks:
                life.tell("talk 0")
                life.tell("burst 1")
        self._until(self._all_heard, MEETING_SECONDS, "not all heard all last words")

    def _end(self) -> None:
        """All leave, at once or one after the other; whoever does not end is killed."""
        for life in self._lives.values():
            life.go_on()
        for life in self._present:
            life.leave(1 if life.speaks else 0)
            if not self._plan.at_once:
                life.wait_ended(LEAVE_SECONDS)
        for life in self._lives.values():
            life.wait_ended(LEAVE_SECONDS)

    def _in_one_view(self) -> bool:
        """Whether the newest view of each that is there has all of them; who agrees with nobody may have others too."""
        wanted = {life.who for life in self._present if life.speaks}
        return "" not in wanted and all(
            set(life.view) == wanted or (not life.agrees and set(life.view) > wanted) for life in self._present
        )

    def _all_joined(self) -> bool:
        return all(life.who for life in self._present)

    def _all_heard(self) -> bool:
        last = {life.who: life.sent for life in self._present if life.speaks}
        return all(life.got.get(who, 0) >= number > 0 for life in self._present for who, number in last.items())

    def _until(self, condition: Callable[[], bool], seconds: float, otherwise: str) -> None:
        end = monotonic() + seconds
        while True:
            for life in self._present:
                life.read()
            if condition():
                return
            if monotonic() > end:
                raise TimeoutError(f"{otherwise} within {seconds:g} s")
            self._wait(POLL_SECONDS)

    def _wait(self, seconds: float) -> None:
        self._pause.wait(seconds)

    def _mark(self) -> Mark:
        return mark(life.process_number for life in self._lives.values())

    def _left_behind(self) -> list[str]:
        """Processes of this run that are there still, and what they left in the folders that they were given."""
        mark = f"TMPDIR={self._folder / 'tmp'}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(f"process {entry.name}")
            except OSError:
                continue  # it ended meanwhile, or is another user's
        found += [str(path) for name in ("tmp", "runtime") for path in sorted((self._folder / name).rglob("*"))]
        return found


def drive(plan: Plan, folder: Path, trace: bool = True) -> Story:
    """Run a plan; the folder gets the logs, what the processes said otherwise, the story and the traces."""
    with ExitStack() as stack:
        return Driver(plan, folder, stack, trace).run()
