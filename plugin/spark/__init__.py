"""Rillet for Spark's users: a store, a query and emissions as DataFrames, and a DataFrame as elements of a stream.

spark.dataSource.register(RilletSource)
spark.read.format("rillet").option("query", "SELECT ...")         source.py, reading.py
spark.readStream.format("rillet").option("registered", "near")    emissions.py
frame.writeStream.format("rillet").option("stream", "taxis")      writing.py"""

from __future__ import annotations

from plugin.spark.source import RilletSource

__all__ = ["RilletSource"]
