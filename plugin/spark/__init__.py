"""Rillet for Spark's users: a store, a query and emissions as DataFrames, and a DataFrame as elements of a stream.

spark.dataSource.register(RilletSource)
spark.read.format("rillet").option("query", "SELECT ...")         source.py, reading.py
spark.read.format("rillet").option("store", "lmdb:PATH")          store_reading.py: without a server
spark.readStream.format("rillet").option("registered", "near")    emissions.py
frame.writeStream.format("rillet").option("stream", "taxis")      writing.py"""

from __future__ import annotations

from plugin.spark.source import RilletSource
from plugin.spark.store_reading import with_terms

__all__ = ["RilletSource", "with_terms"]
