"""A plain Structured Streaming program: counts in sliding windows, by predicate and object, of JSON files in a folder.

python -m tests.benchmarks.spark_plain FOLDER OFTEN"""

from __future__ import annotations

import json
import os
import statistics
import sys
from pathlib import Path

from stream_ext.runners.spark.java import find_java


def main(folder: Path, often: int) -> None:
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    settings = {
        "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.log.level": "OFF",
        "spark.sql.streaming.numRecentProgressUpdates": "10000", "spark.local.dir": str(folder / "local"),
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    }  # fmt: skip
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    arrivals = (
        session.readStream.schema("at long, a string, p int, b string")
        .option("maxFilesPerTrigger", 1)
        .json(str(folder / "data"))
    )
    counts = (
        arrivals.withColumn("time", f.timestamp_millis("at"))
        .withWatermark("time", "0 seconds")
        .groupBy(f.window("time", "10 seconds", "1 second"), "p", "b")
        .count()
        .where(f.col("count") >= often)
    )
    query = (
        counts.writeStream.format("noop")
        .outputMode("append")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    took_s = [progress["durationMs"]["triggerExecution"] / 1000 for progress in query.recentProgress]
    warm = took_s[min(5, len(took_s) - 1) :]
    print(json.dumps({"batches": len(took_s), "median_batch_s": round(statistics.median(warm), 4)}))
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
