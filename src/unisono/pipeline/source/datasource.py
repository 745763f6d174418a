"""The data source `unisono`: reads a group or a collector, as a stream or at once, and multicasts rows into a group.

    register(spark)
    spark.readStream.format("unisono").option("gateway", "127.0.0.1:7110").option("group", "orders").load()

The options say what is meant (`options.py`); every log is read alike (`logs.py`).
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceWriter
from pyspark.sql.types import StructType

from unisono.errors import SettingError, UnisonoError
from unisono.pipeline.source import collected, grouped, sink
from unisono.pipeline.source.logs import Columns, LogBatchReader, LogStreamReader
from unisono.pipeline.source.options import Options, ReadOptions

FORMAT = "unisono"


class UnisonoDataSource(DataSource):
    """What Spark makes of `.format("unisono")`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return self._columns().schema()

    def reader(self, schema: StructType) -> LogBatchReader:
        columns = self._columns(schema)
        return LogBatchReader(columns, self._reading())

    def streamReader(self, schema: StructType) -> LogStreamReader:  # noqa: N802 - Spark's name
        columns = self._columns(schema)
        return LogStreamReader(columns, self._reading())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        raise UnisonoError(
            "rows are sent into a group as a stream, whose batches have numbers: use df.writeStream, with"
            " .trigger(availableNow=True) where there is an end"
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> sink.GroupWriter:  # noqa: N802 - Spark's name
        return sink.GroupWriter(schema, sink.read_options(Options(self.options)))

    def _reading(self) -> ReadOptions:
        options = Options(self.options)
        return options.reading(options.read_side())

    def _columns(self, wanted: StructType | None = None) -> Columns:
        """What the options ask for, and that it is what a caller who gave a schema wants."""
        options = Options(self.options)
        side = options.read_side()
        options.reading(side)
        columns: Columns = collected.columns(options) if side == "collector" else grouped.columns(options)
        if wanted is not None and wanted.names != columns.schema().names:
            raise SettingError(
                "schema",
                f"the columns are {', '.join(columns.schema().names)}, not {', '.join(wanted.names)};"
                " leave out .schema(...) and select what you want",
            )
        return columns


def register(session: SparkSession) -> None:
    """Let this session know the format `unisono`."""
    session.dataSource.register(UnisonoDataSource)
