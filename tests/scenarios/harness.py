"""Scenarios in text: a sentence that says what is proved, then commands and, after `----`, the lines they print.

    start a b                      bring processes up
    join a b [keep_alive=50ms]     join the group, with settings; `in=news` for another group than the first
    send a one two [in=news]       send messages together; `size=` bytes instead of text, `count=` sends of it,
                                   `batch=` of them in each send; `name=` a name for each of them;
                                   `proxy=true` lets a sender send them
    leave a [in=news]              leave the group
    change a service=timestamp     another service from now on, perhaps with other `sources=`
    recover b a 3-5, recover b a name=x   b asks a for sequences or for a name
    deliver                        hand over every packet, in order, until nothing more happens at this instant
    run 500ms                      let time pass; a packet takes a millisecond
    packets                        show what is on its way
    drop PACKETS                   take them out of what is on its way
    duplicate PACKETS              put them behind the others a second time
    hold PACKETS, release          keep them aside; put them behind the others
    lose [next] PACKETS            lose such packets as they are sent, or the next one; `lose nothing` ends it,
                                   `lose quietly PACKETS` does not show them
    watch KIND ..., watch nothing  show packets of these kinds as they are sent, with the time since the command began
    stop reading b, read b         the application takes no events; takes what waits and goes on
    withhold PACKETS               keep such packets aside as they are sent, until `release`; `withhold nothing` ends it
    pause a, resume a              a process stands still; goes on, with what came meanwhile
    crash a, restart a             end a life; begin the next, with its disk or `without disk`
    clock a -1h                    set a wall clock forward or back
    forge a b fragment 4 1/3 x     b gets fragment 1 of 3, with sequence 4 and text x, as if from a
    forge a b bad-name             b gets a control message with a name that is not UTF-8, as if from a
    forge a b data 4 x             b gets message 4 with text x, as if from a; `at=1h` dates it an hour ahead, `by=c`
                                   lets it come as a repair by c
    forge a b keep-alive 4         as if from a; with `at=`, `stable=`, `listeners=`, `whereabouts=1,2,3`
    forge a b repair-request c 1-3,7   as if a had asked for that of c; with `attempt=`, `tries=`, `to_source=`, and
                                   `count=` times
    unanswered [a]                 the sends that nothing has been said about yet
    order [a b]                    what they delivered since they were last asked, in one line for those who agree
    views [a]                      by whom its views since it was last asked are called, and whether in order
    starts a                       where each source starts in the last view of a
    marks [a], notes [a]           the hard situations reached, and the reasons counted, since they were last asked for

PACKETS are `[KIND [SEQUENCE]] [from NAME] [to NAME]`, or `all`. The second life of a is called a/2.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.scenarios.forgery import Forger
from tests.scenarios.wording import PACKET_KINDS
from tests.scenarios.world import DEFAULT_GROUP, Parcel, Pattern, Station, World
from unisono.engine import ChangeRole, ChangeService, Fact, Join, Leave, Recover, Send
from unisono.identity import ProcessId
from unisono.settings import FIELDS, read_setting, read_settings
from unisono.units import parse_duration, parse_size


class Misspelt(Exception):
    """A command that cannot be carried out as it is written."""


class Block:
    """Commands, and the lines expected of them."""

    def __init__(self, commands: list[str], expected: list[str], line: int) -> None:
        self.commands = commands
        self.expected = expected
        self.line = line


class ScenarioText:
    """A file: what it proves, then its blocks."""

    def __init__(self, path: Path) -> None:
        says, *parts = _paragraphs(path.read_text())
        self.says = says[1]
        self.blocks = [self._block(path, *part) for part in parts]
        if not self.says[-1].endswith(".") or "----" in self.says:
            raise Misspelt(f"{path.name}: begin with a sentence that says what is proved")

    @staticmethod
    def _block(path: Path, line: int, lines: list[str]) -> Block:
        if "----" not in lines:
            raise Misspelt(f"{path.name}:{line}: a block needs `----` after its commands")
        end = lines.index("----")
        return Block(lines[:end], lines[end + 1 :], line)

    def render(self, outputs: list[list[str]]) -> str:
        """The file as it reads with these outputs."""
        paragraphs = [self.says]
        paragraphs += [[*block.commands, "----", *lines] for block, lines in zip(self.blocks, outputs, strict=True)]
        return "\n\n".join("\n".join(lines) for lines in paragraphs) + "\n"

    def play(self) -> list[list[str]]:
        """What each block prints, from the first to the last."""
        interpreter = Interpreter()
        return [interpreter.play(block.commands) for block in self.blocks]


def _paragraphs(text: str) -> Iterator[tuple[int, list[str]]]:
    """Lines between blank lines, with the number of the first."""
    lines: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if line.strip():
            lines.append(line.rstrip())
        elif lines:
            yield number - len(lines), lines
            lines = []


class Interpreter:
    """Carries out commands in a world of its own."""

    def __init__(self) -> None:
        self._world = World()
        self._forger = Forger(self._world)
        self._ticket = 0
        self._serial = 0
        self._commands: dict[str, Callable[[list[str]], None]] = {
            "start": self._start,
            "join": self._join,
            "send": self._send,
            "leave": self._leave,
            "change": self._change,
            "become": self._become,
            "recover": self._recover,
            "deliver": lambda _: self._world.deliver(),
            "run": lambda words: self._world.run(parse_duration(words[0])),
            "packets": lambda _: self._show("", self._world.queue),
            "drop": lambda words: self._show("dropped ", self._pick(words)),
            "duplicate": self._duplicate,
            "hold": self._hold,
            "release": self._release,
            "lose": self._lose,
            "watch": self._watch,
            "stop": self._stop_reading,
            "read": lambda words: self._world.read(self._station(words[0])),
            "withhold": self._withhold,
            "pause": self._pause,
            "resume": lambda words: self._world.resume(self._running(words[0])),
            "views": self._views,
            "crash": lambda words: self._world.stop(self._running(words[0])),
            "restart": self._restart,
            "clock": self._clock,
            "forge": self._forge,
            "unanswered": self._unanswered,
            "order": self._order,
            "starts": self._starts,
            "marks": lambda names: self._tell(names, lambda station: station.marks),
            "notes": lambda names: self._tell(names, lambda station: station.notes),
        }

    def play(self, commands: list[str]) -> list[str]:
        """The lines that these commands print."""
        self._world.lines = []
        self._world.began = self._world.now
        for command in commands:
            word, *words = command.split()
            if word == "#":
                continue
            if word not in self._commands:
                raise Misspelt(f"{command!r}: the commands are {', '.join(self._commands)}")
            self._commands[word](words)
        return [line.text for line in self._world.lines]

    def _station(self, name: str) -> Station:
        if name not in self._world.stations:
            raise Misspelt(f"{name!r} was never started")
        return self._world.stations[name]

    def _running(self, name: str) -> Station:
        station = self._station(name)
        if station.node is None:
            raise Misspelt(f"{name!r} is not running")
        return station

    def _start(self, names: list[str]) -> None:
        for name in names:
            self._world.stations[name] = station = Station(name)
            self._world.start(station)

    def _restart(self, words: list[str]) -> None:
        station = self._station(words[0])
        if station.node is not None:
            raise Misspelt(f"{words[0]!r} is still running")
        if words[1:] == ["without", "disk"]:
            station.disk.clear()
        self._world.start(station)

    def _clock(self, words: list[str]) -> None:
        self._station(words[0]).clock_offset += parse_duration(words[1])

    def _join(self, words: list[str]) -> None:
        names, options = _options(words)
        group = options.pop("in", DEFAULT_GROUP)
        values = {name: _written(name, value) for name, value in options.items()}
        for name in names:
            self._command(name, Join(group, read_settings(values)))

    def _leave(self, words: list[str]) -> None:
        names, options = _options(words)
        for name in names:
            self._command(name, Leave(options.get("in", DEFAULT_GROUP)))

    def _become(self, words: list[str]) -> None:
        role, *names = words
        for name in names:
            self._command(name, ChangeRole(DEFAULT_GROUP, read_setting("role", role)))

    def _change(self, words: list[str]) -> None:
        names, options = _options(words)
        service = read_setting("service", options["service"])
        sources = read_setting("sources", _written("sources", options.get("sources", "all")))
        for name in names:
            self._command(name, ChangeService(options.get("in", DEFAULT_GROUP), service, sources))

    def _recover(self, words: list[str]) -> None:
        (name, source, *spans), options = _options(words)
        whom = self._life(source)
        if "name" in options:
            self._command(name, Recover(DEFAULT_GROUP, whom, name=options["name"]))
        for span in spans:
            first, _, last = span.partition("-")
            self._command(name, Recover(DEFAULT_GROUP, whom, int(first), int(last or first)))

    def _life(self, name: str) -> ProcessId:
        """A life by its name: `a`, or `a/2` for the second."""
        for process, called in self._world.lives.items():
            if called == name:
                return process
        raise Misspelt(f"{name!r} was never started")

    def _order(self, names: list[str]) -> None:
        agreeing: dict[tuple[str, ...], list[str]] = {}
        for name in names or self._world.stations:
            station = self._station(name)
            agreeing.setdefault(tuple(station.delivered), []).append(name)
            station.delivered.clear()
        for delivered, who in agreeing.items():
            self._world.say(f"{' '.join(who)}: {' '.join(delivered) or 'nothing'}")

    def _starts(self, names: list[str]) -> None:
        for name in names:
            view = self._station(name).view
            points = view.start if view is not None else ()
            self._world.say(f"{name}: " + ", ".join(f"{self._world.lives[p.source]} from #{p.number}" for p in points))

    def _command(self, name: str, fact: Fact) -> None:
        self._world.handle(self._running(name), fact)

    def _send(self, words: list[str]) -> None:
        (name, *texts), options = _options(words)
        for _ in range(int(options.get("count", "1"))):
            messages = [text.encode() for text in texts]
            for _ in range(int(options.get("batch", "1")) if "size" in options else 0):
                self._serial += 1
                messages.append(f"{self._serial}:".encode().ljust(_size(options["size"]), b"."))
            self._world.sent.update(messages)
            self._ticket += 1
            station = self._running(name)
            station.waiting.add(self._ticket)
            names = (options["name"],) * len(messages) if "name" in options else ()
            proxy = options.get("proxy") == "true"
            self._command(name, Send(options.get("in", DEFAULT_GROUP), self._ticket, tuple(messages), names, proxy))
            if self._ticket in station.waiting:
                station.late.add(self._ticket)
                self._say_waits(name)

    def _unanswered(self, names: list[str]) -> None:
        for name in names or self._world.stations:
            count = len(self._station(name).waiting)
            if count:
                self._world.say(f"{name}: {count} unanswered")

    def _forge(self, words: list[str]) -> None:
        """Put packets that no engine sends behind the others."""
        (sender, receiver, kind, *details), options = _options(words)
        try:
            datagrams = self._forger.datagrams(self._life(sender), kind, details, options)
        except ValueError:
            raise Misspelt(f"{' '.join(words)!r}: see what can be forged at the top") from None
        for datagram in datagrams:
            self._world.forge(options.get("by", sender), receiver, datagram)

    def _say_waits(self, name: str) -> None:
        self._world.say(f"{name}: a send waits", ("waits", name), many=lambda count: f"{name}: {count} sends wait")

    def _pattern(self, words: list[str]) -> Pattern:
        once, quiet = words[:1] == ["next"], words[:1] == ["quietly"]
        rest = deque(words[1:] if once or quiet else words)
        kind = sequence = sender = receiver = None
        while rest:
            word = rest.popleft()
            if word in PACKET_KINDS:
                kind = word
            elif word.isdigit():
                sequence = int(word)
            elif word == "from":
                sender = rest.popleft()
            elif word == "to":
                receiver = rest.popleft()
            elif word != "all":
                raise Misspelt(f"{word!r}: the kinds of packets are {', '.join(PACKET_KINDS)}")
        return Pattern(kind, sequence, sender, receiver, once, quiet)

    def _pick(self, words: list[str]) -> list[Parcel]:
        """Take the packets that are meant out of the queue; a scenario that means none is mistaken."""
        pattern = self._pattern(words)
        picked = [parcel for parcel in self._world.queue if pattern.matches(parcel)]
        if not picked:
            raise Misspelt(f"{' '.join(words)!r}: no such packet is on its way")
        self._world.queue = deque(parcel for parcel in self._world.queue if parcel not in picked)
        return picked

    def _show(self, label: str, parcels: deque[Parcel] | list[Parcel]) -> None:
        for parcel in parcels:
            self._world.say(label + self._world.describe(parcel))

    def _duplicate(self, words: list[str]) -> None:
        pattern = self._pattern(words)
        copies = [parcel.again(self._world.now) for parcel in self._world.queue if pattern.matches(parcel)]
        if not copies:
            raise Misspelt(f"{' '.join(words)!r}: no such packet is on its way")
        self._show("again ", copies)
        self._world.queue.extend(copies)

    def _hold(self, words: list[str]) -> None:
        picked = self._pick(words)
        self._show("held ", picked)
        self._world.held += picked

    def _release(self, _: list[str]) -> None:
        self._world.queue.extend(parcel.again(self._world.now) for parcel in self._world.held)
        self._world.held.clear()

    def _lose(self, words: list[str]) -> None:
        if words == ["nothing"]:
            self._world.losing.clear()
        else:
            self._world.losing.append(self._pattern(words))

    def _withhold(self, words: list[str]) -> None:
        if words == ["nothing"]:
            self._world.withholding.clear()
        else:
            self._world.withholding.append(self._pattern(words))

    def _pause(self, words: list[str]) -> None:
        self._running(words[0]).paused = True

    def _views(self, names: list[str]) -> None:
        for name in names or self._world.stations:
            station = self._station(name)
            called = [f"{self._world.lives[view.leader]}.{view.sequence}" for view in station.identifiers]
            order = "" if station.identifiers == sorted(set(station.identifiers)) else " NOT IN ORDER"
            self._world.say(f"{name}: views {' '.join(called) or 'none'}{order}")
            station.identifiers.clear()

    def _watch(self, words: list[str]) -> None:
        self._world.watched = {word for word in words if self._pattern([word]).kind} if words != ["nothing"] else set()

    def _stop_reading(self, words: list[str]) -> None:
        if words[0] != "reading":
            raise Misspelt("did you mean `stop reading`?")
        self._station(words[1]).reading = False

    def _tell(self, names: list[str], choose: Callable[[Station], Counter[str]]) -> None:
        for name in names or self._world.stations:
            station = self._station(name)
            counts = choose(station)
            for reason, count in sorted(counts.items()):
                self._world.say(f"{station.name}: {reason}" + (f" ({count} times)" if count > 1 else ""))
            counts.clear()


def _options(words: list[str]) -> tuple[list[str], dict[str, str]]:
    plain = [word for word in words if "=" not in word]
    named = [word.partition("=") for word in words if "=" in word]
    return plain, {name: value for name, _, value in named}


def _size(text: str) -> int:
    return int(text) if text.isdigit() else parse_size(text)


def _written(name: str, value: str) -> object:
    """A setting as a file would say it."""
    field = FIELDS.get(name)
    if name in ("sources", "senders") and value != "all":
        return value.split(",")
    if field is not None and isinstance(field.default, bool):
        return value == "true"
    return int(value) if value.isdigit() else value
