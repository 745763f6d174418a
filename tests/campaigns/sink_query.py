"""The Spark query of the campaign `sink`: lines of files into a group, in a process of its own that may be killed."""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import functions as F  # noqa: N812  # the name that every reader of Spark code knows

from unisono.pipeline.source.datasource import register
from unisono.pipeline.spark.session import running


def main(options: dict[str, Any]) -> None:
    with running("test") as spark:
        register(spark)
        lines = spark.readStream.option("maxFilesPerTrigger", options["files"]).text(options["lines"])
        query = (
            lines.repartition(2)
            .select(F.col("value").alias("data"))
            .writeStream.format("unisono")
            .option("gateway", options["gateway"])
            .option("group", options["group"])
            .option("checkpointLocation", options["checkpoint"])
            .start()
        )
        print("started", flush=True)
        query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
