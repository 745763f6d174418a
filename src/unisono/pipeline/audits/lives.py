"""The rows of a life: their own order (W1), where it begins, joins, leaves and ends (W2), and who is named (W3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import MEMBER, PROCESS, clock, moment, process_name, violations


def own_order(trace: Projections) -> DataFrame:
    """W1: row by row of the processes that are suspect."""
    if trace.out_of_line is None:
        return trace.nothing()
    rows = trace.settle(trace.written(trace.out_of_line, PROCESS))
    first = F.min(F.struct("at", F.coalesce("truth", F.lit(-1)).alias("truth"), "host")).alias("first")
    steps = (
        rows.groupBy(*PROCESS, "position")
        .agg(first, F.count(F.lit(1)).alias("many"))
        .select(*PROCESS, "position", "many", "first.*")
        .select("*", *(_neighbour(step) for step in (-2, -1, 1)))
    )
    gap = F.col("position") != F.coalesce(F.col("behind1.position"), F.lit(-1)) + 1
    wrong = (
        F.when(gap, F.lit("its position is not one more than that before it"))
        .when(F.col("many") > 1, F.lit("its position is also that of another row"))
        .when(_back("at") | _back("truth"), F.lit("its time is below that of the row before it"))
        .when(_ahead("at") | _ahead("truth"), F.lit("its time is above that of the rows after it"))
    )
    most = Window.partitionBy(*PROCESS).orderBy(F.desc("many"), "first")
    clocks = (
        rows.groupBy(*PROCESS, "host", F.col("truth").isNull().alias("unclocked"))
        .agg(
            F.count(F.lit(1)).alias("many"),
            F.min(F.struct("position", "at", F.coalesce("truth", F.lit(-1)), "host")).alias("first"),
        )
        .select(*PROCESS, F.col("first.position").alias("position"), F.row_number().over(most).alias("rank"))
        .where("rank > 1")
        .select(*PROCESS, "position", F.lit("it has another clock than most").alias("wrong"))
    )
    found = (
        steps.select(*PROCESS, "position", wrong.alias("wrong"))
        .where("wrong is not null")
        .unionByName(clocks)
        .groupBy(*PROCESS, "position")
        .agg(F.min("wrong").alias("wrong"))
        .withColumn("group", F.lit(""))
    )
    return violations("W1", found, F.col("wrong"))


def _neighbour(step: int) -> Column:
    name = f"behind{-step}" if step < 0 else "next"
    around = Window.partitionBy(*PROCESS).orderBy("position")
    return F.lag(F.struct("position", "at", "truth", "host"), -step).over(around).alias(name)


def _compares(name: str, one: str, other: str) -> Column:
    """Whether two rows around have this time on one clock."""
    same = F.col(f"{one}host") == F.col(f"{other}host")
    if name == "truth":
        same = (F.col(f"{one}truth") >= 0) & (F.col(f"{other}truth") >= 0)
    return F.coalesce(same, F.lit(False))


def _back(name: str) -> Column:
    """A row below the one before, which is not what is wrong."""
    lower = _compares(name, "", "behind1.") & (F.col(name) < F.col(f"behind1.{name}"))
    fits = _compares(name, "", "behind2.") & (F.col(f"behind2.{name}") <= F.col(name))
    return lower & ~F.coalesce(fits, F.lit(False))


def _ahead(name: str) -> Column:
    """A row above the one after it, which is in order with the one before it."""
    lower = _compares(name, "", "next.") & (F.col(f"next.{name}") < F.col(name))
    fits = _compares(name, "next.", "behind1.") & (F.col(f"behind1.{name}") <= F.col(f"next.{name}"))
    return lower & fits


def lives(trace: Projections) -> DataFrame:
    """W2: strides tell of whose lives something is wrong; then row by row."""
    lasting = trace.accounts.join(trace.living, list(PROCESS), "left_semi")
    suspects = trace.found(_out_of_life(lasting).select(*PROCESS).distinct())
    found = _overlapping(lasting)
    if suspects is not None:
        found = found.unionByName(_out_of_life(trace.written(suspects, PROCESS)))
    found = found.groupBy(*MEMBER, "position").agg(F.min("wrong").alias("wrong"))
    return violations("W2", found, F.col("wrong"))


def _out_of_life(rows: DataFrame) -> DataFrame:
    """Rows outside their life, or outside their stay in a group; of a stride, that some row of it may be."""
    life = Window.partitionBy(*PROCESS)
    over = F.min(F.when(F.col("kind").isin("END", "CRASH"), F.col("position"))).over(life)
    bounded = rows.select("*", F.min("position").over(life).alias("begins"), over.alias("over"))
    is_first = F.col("position") == F.col("begins")
    wrong = (
        F.when(is_first & (F.col("kind") != "START"), F.lit("the first row of its life is no START"))
        .when(~is_first & (F.col("kind") == "START"), F.lit("its life began before"))
        .when(F.col("last_position") > F.col("over"), F.lit("its life was over"))
    )
    of_life = bounded.select(*PROCESS, F.lit("").alias("group"), "position", wrong.alias("wrong"))
    before = Window.partitionBy(*MEMBER).orderBy("position").rangeBetween(Window.unboundedPreceding, -1)

    def last(*kinds: str) -> Column:
        return F.max(F.when(F.col("kind").isin(*kinds), F.struct("position", "kind"))).over(before)["kind"]

    stays = rows.where(F.expr("`group` <> '' and family not in ('gauge', 'statistic', 'fault')")).select(
        *MEMBER,
        "position",
        "kind",
        last("JOIN", "LEAVE").alias("stay"),
        last("JOIN", "LEAVE", "EXCLUDED").alias("moved"),
    )
    outside = (
        F.when(F.expr("kind = 'JOIN' and moved = 'JOIN'"), F.lit("it had joined before"))
        .when(F.expr("kind <> 'JOIN' and stay is null"), F.lit("it had not joined"))
        .when(F.expr("kind <> 'JOIN' and stay = 'LEAVE'"), F.lit("it had left"))
    )
    of_stay = stays.select(*MEMBER, "position", outside.alias("wrong"))
    return of_life.unionByName(of_stay).where("wrong is not null")


def _overlapping(rows: DataFrame) -> DataFrame:
    """The first rows of lives that began while another life of the process went on."""
    last_moment = F.coalesce("last_truth", "last_at").alias("moment")
    spans = rows.groupBy(*PROCESS).agg(
        F.min(F.struct("position", moment().alias("moment"), F.coalesce(clock(), F.lit("")).alias("clock"))).alias("a"),
        F.max(F.struct("last_position", last_moment, F.coalesce(clock(), F.lit("")).alias("clock"))).alias("b"),
    )
    one, other = spans.alias("one"), spans.alias("other")
    earlier = F.struct("other.a.moment", "other.incarnation") < F.struct("one.a.moment", "one.incarnation")
    clocks = (F.col("one.a.clock") == F.col("other.a.clock")) & (F.col("one.a.clock") == F.col("other.b.clock"))
    same = (F.col("one.run") == F.col("other.run")) & (F.col("one.process") == F.col("other.process"))
    return (
        one.join(other, same & earlier & clocks & (F.col("one.a.moment") < F.col("other.b.moment")))
        .select(
            *(F.col(f"one.{name}").alias(name) for name in PROCESS),
            F.lit("").alias("group"),
            F.col("one.a.position").alias("position"),
            F.lit("another life of it went on").alias("wrong"),
        )
        .distinct()
    )


def named_have_rows(trace: Projections) -> DataFrame:
    """W3."""
    there = trace.accounts.select(*PROCESS).distinct()
    tables = trace.tables
    found = [
        _without_rows(tables.view.where("kind = 'VIEW'"), there, F.transform("start", _of("source"))),
        _without_rows(
            tables.membership.where("peer is not null or members is not null"),
            there,
            F.array_append(F.coalesce(F.transform("members", _of("process")), F.array().cast(_LIVES)), _named("peer")),
        ),
        _without_rows(tables.repair, there, F.array(_named("source"))),
        _without_rows(tables.proxy.where("by is not null"), there, F.array(_named("by"))),
    ]
    asked = tables.proxy.where("kind = 'ASKED'").select("run", "group", process_name().alias("origin")).distinct()
    carried = tables.send.where("origin is not null").join(asked, ["run", "group", "origin"], "left_anti")
    suspects = trace.found(carried.select(*MEMBER).distinct())
    if suspects is not None:
        single = trace.rows("send", suspects, MEMBER).where("origin is not null")
        unasked = single.join(asked, ["run", "group", "origin"], "left_anti")
        found.append(unasked.select(*MEMBER, "position", F.col("origin").alias("nobody")))
    text = F.concat(F.lit("there is nothing of "), "nobody")
    return violations("W3", reduce(DataFrame.unionByName, found).distinct(), text)


_LIVES = "array<struct<name:string,life:bigint>>"


def _of(name: str) -> Callable[[Column], Column]:
    return lambda one: F.struct(one[name].alias("name"), one["incarnation"].alias("life"))


def _named(name: str) -> Column:
    return F.struct(F.col(name).alias("name"), F.col(f"{name}_incarnation").alias("life"))


def _without_rows(rows: DataFrame, there: DataFrame, named: Column) -> DataFrame:
    """The rows that name somebody of whom nothing is there, each with one of these."""
    lives = there.withColumnsRenamed({"process": "name", "incarnation": "life"})
    pairs = rows.select(*MEMBER, "position", F.inline(named)).where("name is not null and life is not null")
    return (
        pairs.join(F.broadcast(lives), ["run", "name", "life"], "left_anti")
        .groupBy(*MEMBER, "position")
        .agg(F.min(process_name("name", "life")).alias("nobody"))
    )
