"""The columns that audits and measures share: keys, names, times, promises, and the form of a violation."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.properties.promises import SESSIONS, STRONG, Role, exempt_services

PROCESS = ("run", "process", "incarnation")
MEMBER = ("run", "group", "process", "incarnation")
SOURCE = ("source", "source_incarnation")
STREAM = (*MEMBER, *SOURCE)
"""One source as one member hears it."""
MESSAGE = ("run", "group", *SOURCE, "number")
"""One application message of a run."""

VIOLATION = (
    "run string, property string, group string, process string, incarnation bigint, position bigint, message string,"
    " text string"
)
"""The columns of a table of violations."""

AGREED = "M5"
"""The services with agreed views are those that promise this."""

COMMON = "M2"
"""Those whose views are the same for all, as those of weak sessions are, too."""


def moment(truth: str = "truth", at: str = "at") -> Column:
    """When a row was written: the global time where it is known, else the local clock."""
    return F.coalesce(truth, at)


def clock() -> Column:
    """What times may be compared with: null for the global time, else the host."""
    return F.when(F.col("truth").isNull(), F.col("host"))


def held(property_id: str, role: Role | None = None) -> Column:
    """Whether a row's service promises the property; a row without a service is held to everything."""
    exempt = sorted(exempt_services(property_id, role))
    if not exempt:
        return F.lit(True)
    return F.col("service").isNull() | ~F.col("service").isin(exempt)


def in_sessions(*services: str) -> Column:
    """Whether a row is under a session, or under one of these services."""
    return F.coalesce(F.col("service").isin(*(services or sorted(SESSIONS))), F.lit(False))


def hopes(prefix: str = "") -> Column:
    """Whether a SEND of a session is for a view that it does not have yet."""
    service, view, agreed = (F.col(f"{prefix}{name}") for name in ("service", "view", "agreed"))
    return F.coalesce(service == STRONG, F.lit(False)) & ~agreed.eqNullSafe(view)


def stays_transitional() -> Column:
    """Whether the spell of a row's source goes on into its view: into an agreed one, if the source came along."""
    together = F.exists(
        "transitional",
        lambda member: (member["process"] == F.col("source")) & (member["incarnation"] == F.col("source_incarnation")),
    )
    itself = (F.col("source") == F.col("process")) & (F.col("source_incarnation") == F.col("incarnation"))
    return ~held(AGREED) | F.col("transitional").isNull() | itself | together


def process_name(name: str | Column = "process", incarnation: str | Column = "incarnation") -> Column:
    """One life of a process in words, as in "alice~1f"."""
    # To Spark, lower case means all of Unicode, whose tables take seconds to make.
    return F.concat(name, F.lit("~"), F.translate(F.hex(incarnation), "ABCDEF", "abcdef"))


def message_name(source: str = "source", incarnation: str = "source_incarnation", number: str = "number") -> Column:
    """One application message in words, as in "alice~1f/7"."""
    return F.concat(process_name(source, incarnation), F.lit("/"), F.col(number).cast("string"))


def violations(property_id: str, rows: DataFrame, text: Column, message: Column | None = None) -> DataFrame:
    """Rows that break a property as violations, each with its run; they need the columns of a member and a position."""
    return rows.select(
        "run",
        F.lit(property_id).alias("property"),
        "group",
        "process",
        "incarnation",
        "position",
        (F.lit(None).cast("string") if message is None else message).alias("message"),
        text.alias("text"),
    )
