"""What the rows of one member say of each other: its counts (W4), where it is and as what (W5)."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.audits.agreed import FRESH
from unisono.pipeline.audits.projections import Projections
from unisono.pipeline.columns import COMMON, MEMBER, SOURCE, held, message_name, process_name, violations
from unisono.properties.promises import STRONG


def dense_counts(trace: Projections) -> DataFrame:
    """W4: deliveries row by row where the scan suspects a member; sends by their strides."""
    views = trace.tables.view.where("kind = 'VIEW'").select(*MEMBER, "position", "kind")
    found = _missent(trace.tables.send)
    suspects = trace.found(
        _misplaced(trace.counts, views)
        .where("remarkable or wrong")
        .where("wrong or got = 0")
        .select(*MEMBER)
        .distinct()
    )
    if suspects is not None:
        single = trace.deliveries(suspects, MEMBER).select("*", F.lit(0).alias("got"))
        wrong = _misplaced(single, views.join(F.broadcast(suspects), list(MEMBER), "left_semi")).where("wrong")
        found = found.unionByName(wrong.select(*MEMBER, "position", *SOURCE, "number", "text"))
    return violations("W4", found, F.col("text"), message_name())


def _misplaced(delivered: DataFrame, views: DataFrame) -> DataFrame:
    """Deliveries with what is due; a last one of a batch (`got` 1) comes after its first, with others between."""
    columns = (*MEMBER, "position", "kind", "got", *SOURCE, "number", "index", "view", "stretch")
    rows = delivered.where("kind = 'DELIVER'")
    flag = F.col("remarkable") if "remarkable" in delivered.columns else F.lit(False)
    rows = rows.select(*columns, flag.alias("remarkable")).unionByName(views, allowMissingColumns=True)
    is_delivery, is_view = F.col("kind") == "DELIVER", F.col("kind") == "VIEW"
    return (
        rows.select(
            "*",
            F.max(F.when(is_delivery, F.struct("position", "index", "view", "stretch"))).over(_before()).alias("last"),
            F.max(F.when(is_view, F.col("position"))).over(_before()).alias("view_position"),
        )
        .where(is_delivery)
        .select("*", F.expr(_DUE).alias("due"))
        .select("*", (F.expr("got = 0 and index <> due")).alias("wrong"))
        .select("*", F.concat(F.lit("its place in the view is not "), F.col("due").cast("string")).alias("text"))
    )


_DUE = (
    "case when last is not null and last.view <=> view and last.stretch = stretch"
    " and coalesce(view_position <= last.position, true) then last.index + 1 else 0 end"
)


def _missent(sent: DataFrame) -> DataFrame:
    last = F.max(
        F.struct("last_position", "last_number", "last_sequence", F.col("stretch").alias("last_stretch"))
    ).over(_before())
    number = F.coalesce("last.last_number", F.lit(0))
    sequence = F.when(F.col("last.last_stretch") == F.col("stretch"), F.col("last.last_sequence")).otherwise(0)
    strong = F.coalesce(F.col("service") == STRONG, F.lit(False))
    return (
        sent.where("kind = 'SEND'")
        .select("*", last.alias("last"))
        .where((F.col("number") != number + 1) | ((F.col("sequence") <= sequence) & ~strong))
        .select(
            *MEMBER,
            "position",
            F.col("process").alias("source"),
            F.col("incarnation").alias("source_incarnation"),
            "number",
            F.concat(F.lit("it comes after number "), number.cast("string")).alias("text"),
        )
    )


def one_account(trace: Projections) -> DataFrame:
    """W5: strides tell of which members something is wrong; then row by row."""
    suspects = trace.found(_contradictions(trace.accounts).where("wrong or mixed").select(*MEMBER).distinct())
    found = _wrong_views(trace).select(*MEMBER, "position", "text")
    if suspects is not None:
        single = _contradictions(trace.written(suspects, MEMBER)).where("wrong")
        found = found.unionByName(single.select(*MEMBER, "position", "text"))
    found = found.groupBy(*MEMBER, "position").agg(F.min("text").alias("text"))
    return violations("W5", found, F.col("text"))


_OF_MEMBERS = "`group` <> '' and family not in ('statistic', 'fault') and kind not in ('STATE', 'SAVED', 'LOADED')"


def _contradictions(rows: DataFrame) -> DataFrame:
    """Rows of members, with whether each is `wrong`; `mixed` where strides of two stretches or services overlap."""
    here = Window.partitionBy(*MEMBER).orderBy("position").rangeBetween(Window.unboundedPreceding, 0)
    in_order = Window.partitionBy(*MEMBER).orderBy("position", "stretch")
    service = F.coalesce("service", F.lit(""))
    is_view = F.col("kind") == "VIEW"
    view = F.struct("position", "view", "stretch", "role")
    anew = F.expr(f"kind = 'JOIN' or {FRESH}")
    state = F.struct("stretch", service.alias("service"))
    told = (
        rows.where(_OF_MEMBERS)
        .select(
            "*",
            F.max(F.when(is_view, view)).over(_before()).alias("installed"),
            F.max(F.when(anew, F.col("position"))).over(here).alias("anew"),
            F.max(F.struct("position", "stretch", service.alias("service"))).over(_before()).alias("last"),
            F.max("last_position").over(_before()).alias("covered"),
            (F.lag(state).over(in_order) != state).alias("turns"),
            F.when(is_view, F.col("previous")).otherwise(F.col("view")).alias("told"),
        )
        .select("*", service.alias("its_service"))
    )
    return told.select("*", F.expr(_WRONG).alias("text")).select(
        *MEMBER,
        "position",
        "text",
        F.col("text").isNotNull().alias("wrong"),
        F.expr("coalesce(turns and position < covered, false)").alias("mixed"),
    )


_WRONG = """
case when told is not null and not coalesce(installed.view = told, false) then 'it tells of a view it was not in'
when told is null and installed is not null and installed.view is not null and installed.stretch >= stretch
    and not coalesce(anew > installed.position, false) then 'it tells of no view'
when last is not null and stretch not in (last.stretch, last.stretch + 1) then 'its stretch does not follow'
when last is not null and stretch = last.stretch and its_service <> last.service then 'its service is another one'
when kind = 'ROLE' and common and view is not null and installed.role <> role then 'its role is another one in its view'
end
"""


def _wrong_views(trace: Projections) -> DataFrame:
    """Views whose parts do not fit together."""
    leader = process_name("leader", "leader_incarnation")
    words = F.concat_ws("/", F.col("start_time").cast("string"), leader, F.col("leader_sequence").cast("string"))
    members = F.transform("start", lambda one: F.struct(one["source"], one["incarnation"]))
    itself = F.struct(F.col("process").alias("source"), "incarnation")
    return (
        trace.tables.view.where("kind = 'VIEW'")
        .select("*", words.alias("words"), members.alias("members"), itself.alias("itself"))
        .select(
            *MEMBER,
            "position",
            F.when(~F.col("view").eqNullSafe(F.col("words")), F.lit("its identifier is not that of its parts"))
            .when(_doubled("members") | _doubled("transitional"), F.lit("somebody is in it twice"))
            .when(
                held(COMMON)
                & F.col("previous").isNotNull()
                & (F.col("role") == "receiver")
                & F.array_contains("members", F.col("itself")),
                F.lit("a receiver of it is a member"),
            )
            .alias("text"),
        )
        .where("text is not null")
    )


def _doubled(name: str) -> Column:
    return F.coalesce(F.size(F.array_distinct(name)) < F.size(name), F.lit(False))


def _before() -> WindowSpec:
    """The rows of a member at lower positions."""
    return Window.partitionBy(*MEMBER).orderBy("position").rangeBetween(Window.unboundedPreceding, -1)
