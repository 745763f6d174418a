"""The people of a sampled trace: lives of processes, their places in groups, and what they sent and heard."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from unisono.trace.schema import Start

if TYPE_CHECKING:
    from unisono.properties.generator.agreement import AgreedView

Key = tuple[int, str, int]

RELIABLE = ("RSO", "RTO")
TIMED = ("RTO", "UTO")


class Message(NamedTuple):
    """An application message as its source knows it."""

    number: int
    sequence: int
    timestamp: int
    size: int
    body: int


class Order:
    """What one process delivers in one order: the stretch of each group, and the highest key since one changed."""

    def __init__(self) -> None:
        self.stretches: dict[str, int] = {}
        self.highest: Key | None = None


class Life:
    """One incarnation of one process, with its Lamport clock and its place in each of its groups."""

    def __init__(self, name: str, incarnation: int, offset: int, across: str | None = None) -> None:
        self.name = name
        self.incarnation = incarnation
        self.offset = offset
        self.across = across
        self.clock = 0
        self.clock_held = False
        self.position = 0
        self.alive = True
        self.members: list[Member] = []
        self.orders: dict[tuple[str | None, str], Order] = {}


class Member:
    """One life in one group, through all of its stretches there.

    `due` maps the sources of its view to the number that comes next, `lowest` every source to the lowest number that
    it has not passed yet under a reliable service, `loose` to what it got in an unreliable stretch. `counted` are the
    receivers that it waits for before it releases anything beyond `released`. A sender is in a view that all senders
    agree on, `agreed`, whatever its service; `installed` is the one that it has under reliable timestamp order,
    `applied` how many changes of who sends it has come over in it, `cut` and `limit` how much of it is still delivered
    when its end is known, and `newest` when its newest one began. It is `turning` where it is said to become a sender
    or a receiver and has not come to that place. `strange` says whether it ever had another service.
    """

    def __init__(self, life: Life, group: str, role: str, service: str, wants: str) -> None:
        self.life = life
        self.group = group
        self.role = role
        self.service = service
        self.wants = wants
        self.across = life.across if role == "sender" else None
        self.agreed: AgreedView | None = None
        self.installed: AgreedView | None = None
        self.cut: dict[Member, int] | None = None
        self.applied = 0
        self.limit: int | None = None
        self.turning: AgreedView | None = None
        self.newest = 0
        self.state: int | None = None
        """A hash of what it delivered in its view, where it has that from the start."""
        self.strange = service != "RTO"
        self.left = False
        self.stretch = 1
        self.sent: list[Message] = []
        self.said: list[int] = []
        """When it sent each."""
        self.lost: list[Member] = []
        """Whom it had in its view when it lost track, while it has no other one."""
        self.progress = 0
        """When something of another came last, or a view."""
        self.met: dict[int, set[tuple[str, int]]] = {}
        """Who was in its views, by stretch."""
        self.heard: set[tuple[str, int]] = set()
        """Of whom it delivered something."""
        self.asked: list[tuple[int, int]] = []
        """Size and body of what it lets others send."""
        self.handed: dict[Member, set[int]] = {}
        """Which of those messages of others it got."""
        self.sequence = 0
        self.released = 0
        self.counted: set[Member] = set()
        self.view: str | None = None
        self.views = 0
        self.index = 0
        self.highest: Key | None = None
        self.due: dict[Member, int] = {}
        self.lowest: dict[Member, int] = {}
        self.loose: dict[Member, set[int]] = {}

    @property
    def active(self) -> bool:
        return self.life.alive and not self.left

    def unanswered(self) -> int | None:
        """When a source of its view sent something since anything came; the first time that one did."""
        sources = [*self.due, *self.lost]
        since = [time for source in sources if source.life.name != self.life.name for time in source.said]
        return min((time for time in since if time >= self.progress), default=None)

    def misses(self, source: Member) -> bool:
        """Whether both are there, it had an earlier life of a source in its views, and has not heard of this one."""
        met = self.met.get(self.stretch, set())
        lives = set().union(self.heard, *self.met.values())
        knew = any(name == source.life.name and life != source.life.incarnation for name, life in met)
        is_new = (source.life.name, source.life.incarnation) not in lives
        return self.active and source.active and knew and is_new

    @property
    def ordered(self) -> bool:
        """Whether the service is reliable."""
        return self.service in RELIABLE

    @property
    def order(self) -> Order:
        """What its deliveries are in one order with."""
        name = (self.across, "") if self.across is not None else (None, self.group)
        return self.life.orders.setdefault(name, Order())

    @property
    def passed(self) -> Key | None:
        """The key that its deliveries must be above; a new stretch begins without one."""
        order = self.order
        known = [order.highest] if order.stretches.get(self.group) == self.stretch else []
        return max((key for key in (*known, self.highest) if key is not None), default=None)

    def enter_order(self) -> Order:
        """A view or a delivery: with the first of a stretch the order begins anew."""
        order = self.order
        if order.stretches.get(self.group) != self.stretch:
            order.stretches[self.group] = self.stretch
            order.highest = None
        return order

    def serve(self, service: str) -> None:
        """Another service, and no agreed view under it yet."""
        self.service = service
        self.strange = self.strange or service != "RTO"
        self.installed = self.cut = self.limit = self.turning = None
        self.newest = self.applied = 0

    def drop_sources(self) -> None:
        """No source is in the view any more."""
        for source in self.due:
            source.counted.discard(self)
        self.due = {}

    def end_of(self, source: Member) -> int:
        """The first number of a source of the view that may not be delivered in it, as things are now."""
        if self.installed is None:
            return len(source.sent) + 1
        return self.installed.end_of(source) if self.cut is None else self.cut[source]

    def change(self, service: str) -> None:
        """Another stretch: from one reliable service to another the sources stay, otherwise all begins anew."""
        if not self.ordered or service not in RELIABLE:
            self.drop_sources()
            self.view = None
        self.serve(service)
        self.stretch += 1
        self.index = 0
        self.highest = None
        self.loose = {}

    def come_back(self, service: str, wants: str, across: str | None) -> None:
        """Another stretch after an absence: a new view and new spells, but no identifier twice.

        The farewell took a sequence, and the return leaves one out.
        """
        self.serve(service)
        self.wants = wants
        self.across = across
        self.left = False
        self.stretch += 1
        self.sequence += 2
        self.view = None
        self.index = 0
        self.highest = None
        self.due = {}
        self.loose = {}

    @property
    def listens_to_itself(self) -> bool:
        return self.wants == "once" or self.wants_source(self)

    def wants_source(self, source: Member) -> bool:
        return self.wants == "all" or source.life.name in self.wants.split(",")

    def start_at(self, number: int) -> Start:
        before = self.sequence if number > len(self.sent) else self.sent[number - 2].sequence if number > 1 else 0
        return Start(self.life.name, self.life.incarnation, before + 1, number)

    def key(self, message: Message) -> Key:
        return (message.timestamp, self.life.name, self.life.incarnation)
