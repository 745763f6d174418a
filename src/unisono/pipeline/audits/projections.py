"""What all audits read: projections of a trace, each made once and kept while the audits run.

A trace is mostly deliveries, and most of them tell nothing new. One scan condenses them to strides (`tables`), a row
each, and to the edges of what is ordered by keys. Audits read these, and go back to single rows (`whole`) only where
something is wrong, or may be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from threading import RLock
from typing import Any, Generic, TypeVar
from uuid import uuid4

from msgspec.structs import replace
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.activity import cut_off, ends, later_stretches, moves, standing, stretches
from unisono.pipeline.audits.agreed import agreed_views, eras, in_eras, span_starts, with_turns
from unisono.pipeline.audits.fetch import fetch
from unisono.pipeline.audits.keyed import keyed
from unisono.pipeline.audits.known import forget, load_walks
from unisono.pipeline.audits.scan import scan
from unisono.pipeline.audits.streams import streams, timeline
from unisono.pipeline.audits.walks import Chunk, suspects
from unisono.pipeline.columns import COMMON, MEMBER, MESSAGE, PROCESS, SOURCE, STREAM, VIOLATION, held, in_sessions
from unisono.pipeline.spark.settled import release
from unisono.pipeline.tables import Tables
from unisono.trace.schema import FAMILIES

CONTENT = ("sequence", "size", "body", "timestamp")
"""What a message is, beside its name."""
_SENDER = ("run", "group", *SOURCE)
_OWN = {"source": "process", "source_incarnation": "incarnation"}
_BYTES_A_ROW = 100
_TOLD = ("kind", "position", "at", "truth", "host", "view", "service", "stretch")
_PROCESS_COLUMNS = "run string, process string, incarnation bigint"
LARGE = ("send", "deliver")
"""The tables that are read by scans of their own."""
FEW_FILES = 8

T = TypeVar("T")


class Projection(Generic[T]):
    """A property that is made once, by whoever asks first; others wait for it."""

    def __init__(self, make: Callable[[Projections], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __get__(self, trace: Projections, kind: type) -> T:
        with trace.lock:
            if self._make not in trace.made:
                trace.made[self._make] = self._make(trace)
            found: T = trace.made[self._make]
            return found


class Projections:
    """The shared projections of one or many runs; close it to give back what they take.

    `whole` are the tables as they are stored; in `tables` a row of a send or a delivery is a stride.
    """

    def __init__(self, whole: Tables) -> None:
        self.session = whole.session
        self.lock = RLock()
        self.made: dict[Callable[[Projections], Any], Any] = {}
        self._kept: list[DataFrame] = []
        self._settled: list[DataFrame] = []
        self._shared: dict[str, DataFrame] = {}
        self._reading = uuid4().hex
        try:
            self.whole = self._gathered(whole)
            self._sends = self._scanned("send")
            self._deliveries = self._scanned("deliver")
        except BaseException:
            self.close()
            raise
        self.tables = replace(
            self.whole, send=self._sends.where("part = 'stride'"), deliver=self._deliveries.where("part = 'stride'")
        )

    def _scanned(self, family: str) -> DataFrame:
        found = scan(self.whole, family, self._reading)
        self._settled.append(found)
        return found

    def _gathered(self, whole: Tables) -> Tables:
        """The same tables; small ones in so many files that to open them takes long are read once."""
        many = [family for family in FAMILIES if family not in LARGE and len(whole.files[family]) > FEW_FILES]
        return replace(whole, **{family: self.keep(whole.family(family)) for family in many})

    @Projection
    def condensed_bytes(self) -> int:
        """About what the strides take."""
        return _BYTES_A_ROW * (self._sends.count() + self._deliveries.count())

    def close(self) -> None:
        for table in self._kept:
            table.unpersist()
        for table in self._settled:
            release(table)
        self._kept.clear()
        self._settled.clear()
        self._shared.clear()
        self.made.clear()
        forget(self._reading)

    def keep(self, table: DataFrame) -> DataFrame:
        """Compute a table once, at its first use, and have it until the end."""
        self._kept.append(table)
        return table.persist(StorageLevel.MEMORY_AND_DISK)

    def settle(self, table: DataFrame) -> DataFrame:
        """Compute a small table now, so that what reads it is planned without all that it was made from."""
        settled = table.localCheckpoint()
        self._settled.append(settled)
        return settled

    def found(self, table: DataFrame) -> DataFrame | None:
        """A small table that is computed now; None where it is empty, as what is wrong mostly is."""
        settled = self.settle(table)
        return None if settled.isEmpty() else settled

    def nothing(self) -> DataFrame:
        """No violation."""
        return self.session.createDataFrame([], VIOLATION)

    def shared(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """A table that a few audits read, made by the first of them."""
        with self.lock:
            if name not in self._shared:
                self._shared[name] = self.keep(make())
            return self._shared[name]

    @Projection
    def streams(self) -> DataFrame:
        """Sends, deliveries and start points of each source at each member, each with what came before it."""
        return self.settle(streams(timeline(self.tables)))

    @Projection
    def moments(self) -> DataFrame:
        """The first and last moments of deliveries in every short time, and whether they are of progress."""
        return self._deliveries.where("part = 'moment'").select("run", "at", "last_at", "remarkable")

    @Projection
    def heartbeats(self) -> DataFrame:
        """The first and last moments, in every short time, at which a member delivered something from another."""
        return self._deliveries.where("part = 'heartbeat'").select(*MEMBER, "at", "last_at")

    @Projection
    def counts(self) -> DataFrame:
        """The first and the last delivery of each member in each batch."""
        return self._deliveries.where("part = 'count'")

    @Projection
    def out_of_line(self) -> DataFrame | None:
        """The processes whose rows may contradict one another in place or time."""
        times = ("position", "last_position", "at", "last_at", F.coalesce("truth", F.lit(0)), "last_truth")
        clocked = F.col("truth").isNotNull()
        rows = (
            self._deliveries.where("part = 'chunk'").select(*PROCESS, *times, "host", clocked, "remarkable").collect()
        )
        chunks = [((row[0], row[1], row[2]), Chunk(*row[3:])) for row in rows]
        found = suspects(load_walks(self.whole.files), chunks)
        return self.session.createDataFrame(found, _PROCESS_COLUMNS) if found else None

    @Projection
    def accounts(self) -> DataFrame:
        """What every row says of its process, of all families; of sends and deliveries a row a stride."""
        return self.keep(self._accounts(self.tables, strides=True))

    @Projection
    def living(self) -> DataFrame:
        """The lives that wrote more than of faults."""
        return self.settle(self.accounts.where("family <> 'fault'").select(*PROCESS).distinct())

    def written(self, asked: DataFrame, key: Sequence[str]) -> DataFrame:
        """The same of some processes or members, row by row."""
        few = {
            family: self.tables.family(family).join(F.broadcast(asked), list(key), "left_semi")
            for family in FAMILIES
            if family not in ("send", "deliver")
        }
        return self._accounts(
            replace(self.whole, **few, send=self.rows("send", asked, key), deliver=self.deliveries(asked, key))
        )

    @staticmethod
    def _accounts(tables: Tables, strides: bool = False) -> DataFrame:
        rows = []
        for family in FAMILIES:
            table = tables.family(family)
            many = strides and family in ("send", "deliver")
            last = [
                F.col(f"last_{name}" if many else name).alias(f"last_{name}") for name in ("position", "at", "truth")
            ]
            more = [
                (
                    F.col(name)
                    if name in table.columns and family in ("view", "membership")
                    else F.lit(None).cast("string")
                ).alias(name)
                for name in ("previous", "role")
            ]
            rows.append(
                table.select(*MEMBER, F.lit(family).alias("family"), *_TOLD, *last, *more, held(COMMON).alias("common"))
            )
        return reduce(DataFrame.unionByName, rows)

    @Projection
    def spoken_below(self) -> DataFrame | None:
        """The processes that may have sent with a timestamp that is not above one that they knew."""
        doubts = self._sends.unionByName(self._deliveries, allowMissingColumns=True).where("part = 'doubt'")
        return self.found(doubts.select(*PROCESS).distinct())

    @Projection
    def keyed(self) -> DataFrame:
        """Deliveries under timestamp order, each with what its process delivered before: edges, if in order."""
        quick = self.settle(keyed(self.tables, self._deliveries.where("part = 'edge'")))
        wrong = "(timed and previous >= key) or (ordered and highest >= key) or (timed and timestamp < horizon)"
        processes = self.found(quick.where(wrong).select(*PROCESS).distinct())
        if processes is None:
            return quick
        return self.keep(keyed(self.tables, self.deliveries(processes, PROCESS)))

    @Projection
    def differing(self) -> DataFrame:
        """The deliveries that differ from their SEND, or came in another era, or without a SEND; each with its era."""
        return self.settle(in_eras(self.tables.deliver.where("remarkable"), self.eras))

    @Projection
    def repeated(self) -> DataFrame:
        """The sources that sent a number again, or out of order."""
        before = Window.partitionBy(*MEMBER).orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
        own = [F.col("process").alias("source"), F.col("incarnation").alias("source_incarnation")]
        numbered = self.tables.send.select(
            "run", "group", *own, "number", F.max("last_number").over(before).alias("top")
        )
        return self.settle(numbered.where("number <= top").select(*_SENDER).distinct())

    @Projection
    def agreed(self) -> DataFrame:
        """Every installed view that is agreed, with what its process installed before and after it."""
        return self.settle(agreed_views(self.turned_views))

    @Projection
    def common(self) -> DataFrame:
        """The same of every view that is one for all, those of weak sessions included."""
        return self.settle(agreed_views(self.turned_views, COMMON))

    @Projection
    def has_sessions(self) -> bool:
        """Whether anything was written under a session."""
        tables = self.tables
        families = (tables.view, tables.membership, tables.repair, tables.send, tables.deliver)
        rows = [table.where(in_sessions()).select("run") for table in families]
        return not reduce(DataFrame.unionByName, rows).isEmpty()

    @Projection
    def eras(self) -> DataFrame:
        """The views that followed others by the order, and where they stand."""
        return self.settle(eras(self.tables))

    @Projection
    def span_starts(self) -> DataFrame:
        """Where each source begins in the views of one era in a row at one process."""
        return self.settle(span_starts(self.agreed))

    @Projection
    def ends(self) -> DataFrame:
        """The END of every process that has one."""
        return self.settle(ends(self.tables))

    @Projection
    def moves(self) -> DataFrame:
        """The last JOIN or LEAVE of every member, and its last JOIN."""
        return self.settle(moves(self.tables))

    @Projection
    def cut_off(self) -> DataFrame:
        """Names in a fault that began and never ended."""
        return self.settle(cut_off(self.tables.fault))

    @Projection
    def turned_views(self) -> DataFrame:
        """Every VIEW with the positions of what came before it."""
        return self.settle(with_turns(self.tables))

    @Projection
    def stretches(self) -> DataFrame:
        """Every stretch of every member, by the rows that tell of one."""
        return self.settle(stretches(self.tables))

    @Projection
    def later_stretches(self) -> DataFrame:
        """Where the stretches of a member that come after each one end."""
        return self.settle(later_stretches(self.stretches))

    @Projection
    def standing(self) -> DataFrame:
        """Every member that reached an END, as it was there."""
        return self.settle(standing(self.stretches, self.ends, self.moves))

    def rows(self, family: str, asked: DataFrame, key: Sequence[str]) -> DataFrame:
        """The single sends or deliveries of what is asked for, by these columns."""
        kind = {"send": "SEND", "deliver": "DELIVER"}[family]
        return self.keep(fetch(self.whole, family, asked, key)).where(F.col("kind") == kind)

    def first_sends(self, asked: DataFrame, *more: str) -> DataFrame:
        """The first SEND of every message of the sources that are asked for, as it was sent (`sent_…`).

        With `more`, such as the number, only of the messages that are asked for.
        """
        return sends(self.sends_of(asked, *more))

    def sends_of(self, asked: DataFrame, *more: str) -> DataFrame:
        """Every SEND of the sources that are asked for, with its source in columns of that name."""
        members = asked.select("run", "group", *(F.col(name).alias(own) for name, own in _OWN.items()), *more)
        own = [F.col(own).alias(name) for name, own in _OWN.items()]
        return self.rows("send", members, (*MEMBER, *more)).select("*", *own)

    def deliveries(self, asked: DataFrame, key: Sequence[str]) -> DataFrame:
        """The single deliveries of what is asked for."""
        return self.rows("deliver", asked, key)

    def single(self, strides: DataFrame) -> DataFrame:
        """The rows that these strides of streams stand for, each with what is said of its stride."""
        many = self.found(strides.where("got > 1"))
        alone = strides.where("got = 1")
        if many is None:
            return alone
        rows = self.sends_of(many.where("kind = 'SEND'")).unionByName(
            self.deliveries(many.where("kind = 'DELIVER'"), STREAM), allowMissingColumns=True
        )
        rows = rows.select(*STREAM, "kind", F.col("position").alias("place"), F.col("number").alias("its_number"))
        inside = (
            rows.join(F.broadcast(many), [*STREAM, "kind"])
            .where("place between position and last_position")
            .drop("position", "number")
            .withColumnsRenamed({"place": "position", "its_number": "number"})
        )
        return alone.unionByName(inside)


def sends(rows: DataFrame) -> DataFrame:
    """The first SEND of every message, by the position at its source."""
    parts = ("position", *CONTENT, "truth", "at", "host", "stretch", "service", "agreed", "view")
    first = F.min(F.struct(*parts)).alias("first")
    return (
        rows.groupBy(*MESSAGE)
        .agg(first)
        .select(*MESSAGE, *(F.col(f"first.{part}").alias(f"sent_{part}") for part in parts))
    )
