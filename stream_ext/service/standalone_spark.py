"""Queries and loads that are divided among tasks of Spark, in a process that has no server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from msgspec.structs import replace

from hbase_store import Store
from hbase_store.writing.load_tasks import LoadTasks
from stream_ext.language.algebra.algebra import Query
from stream_ext.network.division import NotDivided
from stream_ext.oneshot.answers import answer_once
from stream_ext.oneshot.divided.division import divided_plan
from stream_ext.oneshot.divided.merging import answer_divided
from stream_ext.oneshot.evaluate import Answer, Asking
from stream_ext.oneshot.question import Question
from stream_ext.runners.spark.load_on_spark import LoadOnSpark
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.runners.spark.standalone_tasks import spark_for_tasks


def answered_by_spark(store: Store, question: Question, sn: int, at: int | None, spark: SparkSettings) -> Answer:
    """The answer of a query; Spark is started for it, if the query can be divided."""
    try:
        question.supported()
        if not isinstance(question.unit, Query):
            raise NotDivided("it is no query")
        plan = divided_plan(question.unit, store, sn)
    except NotDivided as error:
        return replace(answer_once(store, question, sn, at), why_not_divided=str(error))
    with spark_for_tasks(spark) as tasks:
        return answer_divided(store, question.unit, plan, sn, Asking(question.base), tasks)


@contextmanager
def loading_on_spark(spark: SparkSettings, most: int | None) -> Iterator[LoadTasks]:
    """Runs the tasks of loads on Spark, `most` at a time; None: as many as it has slots."""
    with (
        spark_for_tasks(spark) as tasks,
        closing(LoadOnSpark(tasks, most or tasks.lanes)) as load,
    ):
        yield load
