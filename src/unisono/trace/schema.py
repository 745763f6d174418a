"""The trace: one flat typed table a family of events, the same for real and simulated runs.

Writers, monitors, Parquet and Spark all take their columns from here. An engine fills what it knows; the
recorder of the driver adds who, where and when. Nothing in a row depends on the host's name, the commit or
the hour, so that equal seeds give equal bytes.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from xxhash import xxh3_64_intdigest

SCHEMA_VERSION = 7


class Row(Struct, kw_only=True, array_like=True):
    """The columns that every family has.

    `position` is dense per (process, incarnation) and is the local order; `at` is the local monotonic clock, comparable
    only within one `host`; `truth` is the simulator's global time, null in real runs. `view` is the current
    view's identifier in words, `stretch` grows with every change of service and every absence.
    """

    kind: str
    run: str = ""
    group: str = ""
    process: str = ""
    incarnation: int = 0
    position: int = 0
    at: int = 0
    host: str = ""
    truth: int | None = None
    view: str | None = None
    service: str | None = None
    stretch: int = 0


class SendRow(Row, kw_only=True, tag="send"):
    """SEND: an application message takes its number and leaves. `sequence` is that of its last fragment.

    `agreed` is the view that was agreed last when it was sent, whatever views its sender's application sees.
    """

    sequence: int
    number: int
    timestamp: int
    size: int
    body: int
    origin: str | None = None
    agreed: str | None = None


class DeliverRow(Row, kw_only=True, tag="deliver"):
    """DELIVER: an application message is handed to the application; `index` counts within the view from 0."""

    source: str
    source_incarnation: int
    sequence: int
    number: int
    timestamp: int
    size: int
    body: int
    index: int
    origin: str | None = None


class Start(Struct, frozen=True, array_like=True):
    """Where delivery from one member begins in a view, in wire sequences and in application numbers."""

    source: str
    incarnation: int
    sequence: int
    number: int


class Reason(Struct, frozen=True, array_like=True):
    """Why one process is, or is no longer, in a view, and who suspected it, where somebody did."""

    process: str
    incarnation: int
    reason: str
    by: list[str] = []


class Member(Struct, frozen=True, array_like=True):
    """One life of one process."""

    process: str
    incarnation: int


class ViewRow(Row, kw_only=True, tag="view"):
    """VIEW: the view in the common column is installed; its members are the sources of `start`, in order.

    Of an agreed view, `transitional` are the members that came from the same view as this process, and `merged` all
    views that its members came from; a receiver that came into the middle of it does not have it `whole`. `primary`
    is null where no primary component is asked for. `era` is the view that was agreed last, where this one followed it
    by the order of messages because somebody became a sender or a receiver. `change` is the start-change that the view
    of a virtual synchrony session has for this process.
    """

    start_time: int
    leader: str
    leader_incarnation: int
    leader_sequence: int
    previous: str | None
    role: str
    start: list[Start]
    transitional: list[Member] | None = None
    reasons: list[Reason] = []
    merged: list[str] = []
    whole: bool = True
    primary: bool | None = None
    era: str | None = None
    change: int | None = None


class MembershipRow(Row, kw_only=True, tag="membership"):
    """START JOIN LEAVE CRASH END LEFT_BEHIND UNAVAILABLE ACTIVATE GRANT SUSPECT MRA AGREED EXCLUDED SELF_FAIL BOOTSTRAP
    TO_SENDER PADD PLEAVE ROLE COORDINATOR CHILD STATE SAVED LOADED START_CHANGE BLOCK BLOCK_OK NEW_VIEW SYNCHRONIZED
    RETURNED: what happens to processes.

    `peer` is the other process where there is one. CRASH is written by whoever knows (the simulator); END says
    that the run ended while the process lived: a process with neither is audited as crashed at its last row.
    `across` (JOIN) names the domain whose groups this process hears in one order, where it asked for that. EXCLUDED
    is written by a process that learns that the others went on without it, SELF_FAIL by one that cannot follow the
    views of its group and starts anew, BOOTSTRAP by a receiver that looks for a view, MRA by a sender that begins a
    membership repair, AGREED by one whose application sees other views, where an agreed one stands for it. Of roles:
    TO_SENDER is written by a receiver that wants to send, PADD by a sender that says so for `peer`, PLEAVE by a sender
    that says its last word, ROLE by who has become what `role` says. STATE, SAVED and LOADED tell an application's
    state at a point: `sequence` stands for the point, `number` is a digest of the state, `reason` its lineage, and
    LOADED has who gave it in `peer`. Of virtual synchrony sessions: START_CHANGE says that the view is about to change,
    with the identifier of that in `number` and who is expected in `members`; BLOCK that the application was asked to
    finish, BLOCK_OK that it has, or that its session did not wait (`reason`); NEW_VIEW that the servers agreed,
    SYNCHRONIZED that the cut of everybody who is needed is there, both with that identifier too. RETURNED gives an
    optimistic message back: its `number` and `sequence`, and by which policy (`reason`).
    """

    peer: str | None = None
    peer_incarnation: int | None = None
    sequence: int | None = None
    number: int | None = None
    reason: str | None = None
    across: str | None = None
    role: str | None = None
    members: list[Member] | None = None


class RepairRow(Row, kw_only=True, tag="repair"):
    """RTR (this process asks), RTX (this process repairs), GC (released up to `last`): sequences first to last.

    CUT: of this view's messages of the source everything from `first` to `last` is here, or known to be somewhere;
    said once for each member of the view when its end is to be agreed, for the proposal, or the start-change of a
    session, that `peer` names. FORWARD: this process sends what another, who does not come along, had sent.
    """

    source: str
    source_incarnation: int
    first: int
    last: int
    peer: str | None = None


class ProxyRow(Row, kw_only=True, tag="proxy"):
    """ASKED: this process, the origin, lets others send a message. HANDED: an application gets such a message.

    `number` counts what the origin asked for in the group. HANDED has the sender that sent it in `by`.
    """

    origin: str
    origin_incarnation: int
    number: int
    size: int
    body: int
    by: str | None = None
    by_incarnation: int | None = None


class GaugeRow(Row, kw_only=True, tag="gauge"):
    """GAUGE: the highest value since the last one, beside its cap. MARK: a hard situation by name, value 1."""

    name: str
    value: int
    cap: int | None = None


class Value(Struct, frozen=True, array_like=True):
    """One value of a statistic: a number, or a text."""

    name: str
    number: float | None = None
    text: str | None = None


class StatisticRow(Row, kw_only=True, tag="statistic"):
    """What a process tells about itself: `kind` is its type, an application's own or a reserved one."""

    values: list[Value] = []


class FaultRow(Row, kw_only=True, tag="fault"):
    """FAULT: ground truth written by whoever makes the faults; `edge` says whether it begins or ends.

    `members` are the processes that it takes away from the rest of the group; a fault that only disturbs (loss, delay)
    has none. Two processes hear each other, as far as the fault goes, where one of its `sides` has both; without sides
    everybody does. `load` (a workload runs) and `heal` (all faults but the lasting ones ended) are such truths too.
    """

    fault: str
    edge: Literal["begin", "end"]
    members: list[str] = []
    text: str = ""
    sides: list[list[str]] = []


AnyRow = SendRow | DeliverRow | ViewRow | MembershipRow | RepairRow | ProxyRow | GaugeRow | StatisticRow | FaultRow

FAMILIES: dict[str, type[AnyRow]] = {
    "send": SendRow,
    "deliver": DeliverRow,
    "view": ViewRow,
    "membership": MembershipRow,
    "repair": RepairRow,
    "proxy": ProxyRow,
    "gauge": GaugeRow,
    "statistic": StatisticRow,
    "fault": FaultRow,
}
"""Every family by the name of its table. Later capabilities add theirs here."""


_FAMILY_OF = {kind: family for family, kind in FAMILIES.items()}


def family_of(row: AnyRow) -> str:
    """The name of the table that a row belongs to."""
    return _FAMILY_OF[type(row)]


def body_hash(payload: bytes) -> int:
    """What stands for a payload in the trace: 64 bits, signed as Parquet and Spark have them."""
    digest = xxh3_64_intdigest(payload)
    return digest - (1 << 64) if digest >> 63 else digest
