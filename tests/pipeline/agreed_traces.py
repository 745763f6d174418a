"""Traces with agreed views: one that is good, and one for every property that breaks it at a known place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tests.pipeline.traces import of_run
from unisono.trace.schema import (
    AnyRow,
    DeliverRow,
    FaultRow,
    Member,
    MembershipRow,
    Reason,
    RepairRow,
    Row,
    SendRow,
    Start,
    ViewRow,
)

SECOND = 1_000_000_000
ANNA, BERT, ROSA = ("anna", 1), ("bert", 2), ("rosa", 3)
VIEWS = {
    "a": (1, *ANNA, 0),
    "b": (2, *BERT, 0),
    "ab": (3, *ANNA, 1),
    "ab'": (4, *ANNA, 2),
    "ab+r": (5, *ANNA, 3),
    "ab+r-b": (6, *BERT, 1),
    "ar": (7, *ANNA, 4),
}

Place = tuple[str, str, int, str | None]
"""Property, process, position, message."""


class Script:
    """Rows of a run as its processes write them, one second after the other."""

    def __init__(self) -> None:
        self.rows: list[AnyRow] = []
        self.time = 0
        self.views: dict[tuple[str, int], str | None] = {}
        self.numbers: Counter[tuple[str, int]] = Counter()

    def add(self, kind: type[AnyRow], name: str, life: tuple[str, int], **values: object) -> None:
        self.time += SECOND
        common = {
            "run": "",
            "group": "market",
            "process": life[0],
            "incarnation": life[1],
            "position": sum((row.process, row.incarnation) == life for row in self.rows),
            "at": self.time,
            "host": "here",
            "truth": self.time,
            "view": self.views.get(life),
            "service": "RTO",
        }
        self.rows.append(kind(kind=name, **(common | values)))  # type: ignore[arg-type]

    def join(self, life: tuple[str, int], role: str) -> None:
        self.add(MembershipRow, "JOIN", life, reason="all", role=role)

    def view(self, life: tuple[str, int], word: str, members: str, along: str, merged: str, **values: object) -> None:
        identifier = dict(
            zip(("start_time", "leader", "leader_incarnation", "leader_sequence"), VIEWS[word], strict=True)
        )
        start = [Start(*one, self.numbers[one] + 1, self.numbers[one] + 1) for one in lives(members)]
        previous = self.views.get(life)
        self.views[life] = word
        self.add(
            ViewRow,
            "VIEW",
            life,
            **identifier,
            previous=previous,
            role="sender" if life in lives(members) else "receiver",
            start=start,
            transitional=[Member(*one) for one in lives(along)],
            merged=merged.split(),
            primary=True if word in ("ab", "ab'") else None,
            **values,
        )

    def follow(self, word: str, members: str, who: tuple[str, int], reason: str) -> None:
        """All install a view that follows "ab" by the order of messages."""
        for life in (ANNA, BERT, ROSA):
            self.view(life, word, members, members, "", era="ab", reasons=[Reason(*who, reason)])

    def send(self, life: tuple[str, int], era: str | None = None) -> SendRow:
        self.numbers[life] += 1
        number = self.numbers[life]
        self.add(
            SendRow,
            "SEND",
            life,
            sequence=number,
            number=number,
            timestamp=len(self.rows),
            size=1,
            body=number,
            agreed=self.views[life] if era is None else era,
        )
        sent = self.rows[-1]
        assert isinstance(sent, SendRow)
        return sent

    def deliver(self, life: tuple[str, int], *sent: SendRow) -> None:
        for row in sent:
            self.add(
                DeliverRow,
                "DELIVER",
                life,
                source=row.process,
                source_incarnation=row.incarnation,
                sequence=row.sequence,
                number=row.number,
                timestamp=row.timestamp,
                size=1,
                body=row.body,
                index=0,
            )

    def cut(self, life: tuple[str, int], sources: str = "ab") -> None:
        for source in lives(sources):
            self.add(
                RepairRow,
                "CUT",
                life,
                source=source[0],
                source_incarnation=source[1],
                first=1,
                last=self.numbers[source],
                peer="1",
            )


def lives(letters: str) -> list[tuple[str, int]]:
    return [{"a": ANNA, "b": BERT, "r": ROSA}[letter] for letter in letters]


def good() -> list[AnyRow]:
    """Two senders merge, go on together into one more view, and a receiver follows them."""
    script = Script()
    for life in (ANNA, BERT, ROSA):
        script.join(life, "receiver" if life == ROSA else "sender")
    script.view(ANNA, "a", "a", "a", "")
    script.view(BERT, "b", "b", "b", "")
    for life, along in ((ANNA, "a"), (BERT, "b"), (ROSA, "")):
        script.view(life, "ab", "ab", along, "a b")
    first = [script.send(ANNA), script.send(BERT), script.send(ANNA)]
    for life in (ANNA, BERT, ROSA):
        script.deliver(life, *first)
    script.cut(ANNA)
    script.cut(BERT)
    for life in (ANNA, BERT, ROSA):
        script.view(life, "ab'", "ab", "ab", "ab")
    second = [script.send(BERT), script.send(ANNA)]
    for life in (ANNA, BERT, ROSA):
        script.deliver(life, *second)
    script.add(
        FaultRow, "FAULT", ("faults", 0), group="", view=None, service=None, fault="heal", edge="begin", members=[]
    )
    script.time += 20 * SECOND
    healed = script.time
    for life in (ANNA, BERT, ROSA):
        script.time = healed
        script.add(MembershipRow, "END", life, group="", view=None, service=None)
    return script.rows


def turned() -> list[AnyRow]:
    """Rosa becomes a sender and Bert a receiver, by the order of messages; then a view of Anna and Rosa is agreed."""
    script = Script()
    for life in (ANNA, BERT, ROSA):
        script.join(life, "receiver" if life == ROSA else "sender")
        script.view(life, "ab", "ab", "".join(letter for letter in "ab" if lives(letter) == [life]), "a b")
    messages = [script.send(ANNA), script.send(BERT)]
    for life in (ANNA, BERT, ROSA):
        script.deliver(life, *messages)
    script.follow("ab+r", "abr", ROSA, "sends now")
    messages = [script.send(BERT, "ab"), script.send(ROSA, "ab")]
    for life in (ANNA, BERT, ROSA):
        script.deliver(life, *messages)
    script.follow("ab+r-b", "ar", BERT, "only receives now")
    messages = [script.send(ANNA, "ab")]
    for life in (ANNA, BERT, ROSA):
        script.deliver(life, *messages)
    script.cut(ANNA, "abr")
    script.cut(ROSA, "abr")
    for life in (ANNA, BERT, ROSA):
        script.view(life, "ar", "ar", "ar", "ab")
    return script.rows


Damage = Callable[[AnyRow], AnyRow | None]


def changed(kind: str, life: tuple[str, int], position: int, **values: object) -> Damage:
    """One row with other values."""

    def damage(row: AnyRow) -> AnyRow | None:
        if (row.kind, row.process, row.incarnation, row.position) != (kind, *life, position):
            return row
        return replace(row, **values)

    return damage


def without(life: tuple[str, int], *positions: int) -> Damage:
    return lambda row: None if (row.process, row.incarnation) == life and row.position in positions else row


def swapped(life: tuple[str, int], one: int, other: int) -> Damage:
    """Two rows in each other's place."""

    def damage(row: AnyRow) -> AnyRow | None:
        places = {one: other, other: one} if (row.process, row.incarnation) == life else {}
        return replace(row, position=places.get(row.position, row.position))

    return damage


# Anna has her views at 1, 2 and 10, Bert at 1, 2 and 9, Rosa at 1 and 5; what they send and deliver stands between.
BROKEN: dict[str, tuple[Damage, Place]] = {
    "M1": (changed("VIEW", ANNA, 10, start=[Start(*BERT, 2, 2)]), ("M1", "anna", 10, None)),
    "M2": (changed("VIEW", BERT, 9, start_time=1), ("M2", "bert", 9, None)),
    "M4": (changed("VIEW", BERT, 9, merged=[]), ("M4", "bert", 9, None)),
    "M5": (changed("VIEW", BERT, 9, transitional=[Member(*BERT)]), ("M5", "bert", 9, None)),
    "M7": (
        lambda row: replace(row, primary=True) if isinstance(row, ViewRow) and row.view in ("a", "b") else row,
        ("M7", "bert", 1, None),
    ),
    "M9": (changed("VIEW", ROSA, 5, view="other", previous="ab"), ("M9", "rosa", 5, None)),
    "D3": (changed("SEND", ANNA, 3, agreed="a"), ("D3", "rosa", 2, "anna~1/1")),
    "D4": (changed("DELIVER", ROSA, 3, view="ab'"), ("D4", "", 0, "bert~2/1")),
    "D5": (without(ROSA, 4), ("D5", "rosa", 5, None)),
    "D6": (without(ANNA, 7), ("D6", "anna", 4, "anna~1/2")),
    "D9": (without(BERT, 6), ("D9", "bert", 9, "anna~1/2")),
    "O5": (swapped(ROSA, 3, 4), ("O5", "rosa", 5, None)),
    "L1": (changed("VIEW", ROSA, 5, start=[Start(*ANNA, 3, 3)]), ("L1", "rosa", 8, None)),
    "L3": (without(ANNA, 13), ("L3", "anna", 11, "anna~1/3")),
    "L5": (without(BERT, 12), ("L5", "bert", 13, "anna~1/3")),
    "O2": (changed("VIEW", BERT, 9, start=[Start(*ANNA, 3, 4), Start(*BERT, 2, 2)]), ("O2", "bert", 9, "anna~1/4")),
    "O4": (without(ROSA, 3), ("O4", "rosa", 1, "bert~2/1")),
    "O7": (without(ROSA, 3), ("O7", "rosa", 1, "bert~2/1")),
}


def unseen(ends: bool) -> Damage:
    """Rosa misses a message and sees no other view; where the end of hers is being agreed, it may be beyond that."""

    def damage(row: AnyRow) -> AnyRow | None:
        if (row.process, row.incarnation) != ROSA or row.position < 3 or row.kind == "END":
            return row
        if row.position == 5 and ends:
            columns: dict[str, Any] = {"source": BERT[0], "source_incarnation": BERT[1], "first": 1, "last": 0}
            common: dict[str, Any] = {name: getattr(row, name) for name in Row.__struct_fields__ if name != "kind"}
            return RepairRow(kind="CUT", **{**common, "view": "ab"}, **columns)
        return row if row.position == 4 else None

    return damage


EXCUSED = {"unseen end": unseen(ends=True)}
"""What looks like a gap (O4, O7) and is none."""
BROKEN["the first lacks one"] = (without(ANNA, 6), ("D5", "anna", 10, None))
BROKEN["the first has another order"] = (swapped(ANNA, 5, 6), ("O5", "anna", 10, None))
BROKEN["missed at the end"] = unseen(ends=False), ("O7", "rosa", 1, "bert~2/1")

# Anna has her views at 1, 5, 9 and 15, Bert at 1, 5, 9 and 11, Rosa at 1, 4, 8 and 13.
TURNED: dict[str, tuple[Damage, Place]] = {
    "D3": (changed("DELIVER", BERT, 8, view="ar"), ("D3", "bert", 8, "rosa~3/1")),
    "D4": (changed("DELIVER", BERT, 8, view="ar"), ("D4", "", 0, "rosa~3/1")),
    "M4": (changed("VIEW", BERT, 5, era="ar"), ("M4", "bert", 5, None)),
    "M5": (changed("VIEW", BERT, 5, reasons=[Reason(*ROSA, "joined")]), ("M5", "bert", 5, None)),
    "M9": (changed("VIEW", BERT, 11, view="other"), ("M9", "bert", 11, None)),
    "D6": (without(ROSA, 7), ("D6", "rosa", 5, "rosa~3/1")),
    "D9": (without(ROSA, 6), ("D9", "rosa", 13, "bert~2/2")),
    "O7": (without(BERT, 8), ("O7", "bert", 1, "rosa~3/1")),
    "O4": (without(BERT, 8), ("O4", "bert", 1, "rosa~3/1")),
}


def run_of(name: str) -> str:
    """What the run of a broken trace, or of the good one, is called."""
    return f"agreed {name}"


def agreed_traces() -> list[AnyRow]:
    """The good trace and the broken ones, each a run."""
    rows = of_run(good(), run_of("good"))
    for name, (damage, _) in BROKEN.items():
        rows += of_run([left for row in good() if (left := damage(row)) is not None], run_of(name))
    for name, damage in EXCUSED.items():
        rows += of_run([left for row in good() if (left := damage(row)) is not None], run_of(name))
    rows += of_run(turned(), run_of("turned"))
    for name, (damage, _) in TURNED.items():
        rows += of_run([left for row in turned() if (left := damage(row)) is not None], run_of(f"turned {name}"))
    return rows
