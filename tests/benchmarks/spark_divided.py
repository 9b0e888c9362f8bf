"""One heavy query: on shards that are plain objects of this process, without Spark, what each range of its keys costs;
and on one and two shards of Spark, where it is divided because of what was measured.

    few_pairs, many_pairs    two windows joined by ?a, in groups: divided by ?a
    top                      the same, the ten largest groups: their rows are summed, and then ordered and cut
    totals                   the same pairs, counted all together: each range counts, and the counts are added up
    no_key                   two windows without a common variable, all pairs compared: one window is divided
    arrivals                 CQELS-QL, evaluated at each arrival: divided by ?a

So nearly all of the work is the join. It is CPU time, whole and divided take turns, and the least of all rounds counts:
other work on the machine only adds. `united_cpu_s` is what the server adds: its parts become those that one shard
makes, which is compared first."""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Literal

import hbase_store
from stream_ext.catalog.catalog import Catalog, QueryDefinition
from stream_ext.clock import SystemClock
from stream_ext.continuous.assignment import all_assigned, divides_none, grouped_query
from stream_ext.emissions.placement import ShardPlan
from stream_ext.emissions.uniting import united
from stream_ext.network.range_summation import RangeSummation
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.service.opened import Limits
from stream_ext.service.service import Service
from stream_ext.windows.part import Part
from tests.benchmarks import spark_placed, spark_served

_EX, _XSD = "http://ex/", "http://www.w3.org/2001/XMLSchema#"
_STEP_MS = 1_000
_STARTS_S = 600.0


@dataclass(frozen=True)
class Heavy:
    batches: int
    triples: int = 4_000  # of each of the two predicates, in a batch
    keys: int = 200
    often: int = 11_500  # few groups have so many pairs

    kind: str = "groups"  # top, totals, no_key or arrivals

    def text(self, name: str = "heavy") -> str:
        froms = "FROM NAMED WINDOW :w ON s [RANGE PT10S STEP PT1S] FROM NAMED WINDOW :x ON s [RANGE PT5S STEP PT1S]"
        pairs = "WINDOW :w { ?a :u ?u } WINDOW :x { ?a :v ?v }"
        groups = f"SELECT ?a (COUNT(*) AS ?n) (MAX(?u) AS ?m) {froms} WHERE {{ {pairs} FILTER(?u < ?v) }} GROUP BY ?a"
        texts = {
            "groups": f"RSTREAM {name} AS {groups} HAVING (COUNT(*) >= {self.often})",
            "top": f"RSTREAM {name} AS {groups} ORDER BY DESC(?n) LIMIT 10",
            "totals": f"RSTREAM {name} AS SELECT (COUNT(*) AS ?n) (MAX(?v) AS ?h) (AVG(?u) AS ?m) {froms} "
            f"WHERE {{ {pairs} FILTER(?u < ?v) }}",
            "no_key": f"RSTREAM {name} AS SELECT ?a ?b {froms} "
            "WHERE { WINDOW :w { ?a :u ?u } WINDOW :x { ?b :v ?v } FILTER(?u - ?v > 990) }",
            "arrivals": f"ISTREAM {name} AS SELECT ?a ?u ?v "
            "WHERE { STREAM s [RANGE PT10S] { ?a :u ?u } STREAM s [RANGE PT5S] { ?a :v ?v } FILTER(?u - ?v > 990) }",
        }
        return f"PREFIX : <{_EX}> REGISTER {texts[self.kind]}"

    def body(self, number: int) -> bytes:
        chance, lines = random.Random(number), list[str]()
        for place in range(self.triples):
            at, key, value = number * _STEP_MS + place % _STEP_MS, chance.randrange(self.keys), chance.randrange(1_000)
            other = f'<{_EX}a{chance.randrange(self.keys)}> <{_EX}v> "{value}"^^<{_XSD}integer> .'
            one = f'<{_EX}a{key}> <{_EX}u> "{chance.randrange(1_000)}"^^<{_XSD}integer> .'
            triples = f"{one}\n{other}"
            lines.append(json.dumps({"timestamp": at, "data": triples}))
        return "\n".join(lines).encode()


def measure(load: Heavy, rounds: int, shards: int = 2) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as folder:
        url = f"lmdb:{folder}/store"
        spark_placed.publish(url, [load.text()], [load.body(number) for number in range(1, load.batches)])
        store = hbase_store.open(url)
        try:
            return _measured(store, rounds, shards)
        finally:
            store.close()


def _measured(store: hbase_store.Store, rounds: int, shards: int) -> dict[str, Any]:
    catalog = Catalog.read(store, int(store.head()))
    (query,) = catalog.queries.values()
    plan = ShardPlan(1, (1.0,) * shards, frozenset((query.placement or query.number,)))
    expected, ranges = list[list[Part]](), [list[list[Part]]() for _ in range(shards)]
    _spend(store, query, None, 0, expected)  # the first run of each loads compiled loops, too
    for number, made in enumerate(ranges):
        _spend(store, query, plan, number, made)
    began = time.process_time()
    sum_ranges = RangeSummation(store.ids, store.terms, lambda number: grouped_query(number, catalog))
    found = [united(senders, {query.number}, sum_ranges) for senders in zip(*ranges, strict=True)]
    united_s = time.process_time() - began
    rows = _compare(found, expected)
    whole, each = list[float](), list[list[float]]()
    for _ in range(rounds):
        whole.append(_spend(store, query, None, 0))
        each.append([_spend(store, query, plan, number) for number in range(shards)])
    cpu_s, parts = min(whole), [min(times) for times in zip(*each, strict=True)]
    return {
        "rows_emitted": rows,
        "whole_cpu_s": round(cpu_s, 2),
        "ranges_cpu_s": [round(part, 2) for part in parts],
        "united_cpu_s": round(united_s, 3),
        "cpu_over_whole": round((sum(parts) + united_s) / cpu_s, 2),
        "larger_part": round(max(parts) / sum(parts), 3),
        "larger_part_over_whole": round(max(parts) / cpu_s, 3),
        "speed_up_of_two_cores": round(cpu_s / max(parts), 2),
    }


def _spend(
    store: hbase_store.Store, query: QueryDefinition, plan: ShardPlan | None, number: int, made: list[Any] | None = None
) -> float:
    ranges_of = divides_none if plan is None else partial(plan.ranges_of, frozenset((number,)))
    return spark_placed.stepped(store, [query], all_assigned, ranges_of, made).busy_s


def _compare(found: Sequence[Sequence[Part]], expected: Sequence[Sequence[Part]]) -> int:
    rows = 0
    for some, others in zip(found, expected, strict=True):
        assert [part.state for part in some[-1:]] == [part.state for part in others[-1:]]
        one, other = list(_emitted(some)), list(_emitted(others))
        assert one == other
        rows += sum(len(columns[0]) for *_, columns in one)
    assert rows, "nothing was emitted"
    return rows


def _emitted(parts: Sequence[Part]) -> Iterator[tuple[object, list[Any]]]:
    """Each evaluation with its rows: shards may send several in one part."""
    for part in parts:
        for each in part.each() if part.emits else ():
            # Averages are terms that each process numbers for itself.
            yield each.at, [column[each.rows].tolist() for column in part.columns[:2]]


def on_spark(load: Heavy, shards: int) -> dict[str, Any]:
    """CPU of the tasks and of the server. With several shards it waits until the query is divided,
    which is decided at the end of an epoch."""
    spark = SparkSettings(epoch_s=15, warmup_epochs=3, shards=shards)
    limits = Limits(lag_ms=600_000, evaluated_s=600.0)  # all is pushed at once
    with (
        tempfile.TemporaryDirectory(prefix="rillet-bench-") as folder,
        Service.open(
            f"lmdb:{folder}/store", base="http://rillet/", clock=SystemClock(), engine="spark", spark=spark, batch_ms=0,
            limits=limits,
        ) as service,
    ):  # fmt: skip
        service.create_stream("s", {})
        service.register(load.text())
        numbers, until = count(1), time.monotonic() + _STARTS_S
        while not (_is_on_spark(service) and service.query_status("heavy")["divided"] == (shards > 1)):
            if time.monotonic() > until:
                raise TimeoutError(f"the query was not divided: {service.query_status('heavy')['why']}")
            _push(service, load, [next(numbers)])
        _push(service, load, [next(numbers) for _ in range(3)])  # each worker has compiled its loops
        first, workers, own = next(numbers), _worker_cpu_s(service), time.process_time()
        _push(service, load, range(first, first + load.batches))
        own = time.process_time() - own
        of_shards = [now - then for now, then in zip(_worker_cpu_s(service), workers, strict=True)]
        return {
            "server_cpu_s": round(own, 2),
            "shards_cpu_s": [round(each, 2) for each in of_shards],
            "larger_shard": round(max(of_shards) / sum(of_shards), 3),
            "divided": service.query_status("heavy")["divided"],
        }


def _push(service: Service, load: Heavy, numbers: Sequence[int]) -> None:
    for number in numbers:
        wait: Literal["published", "evaluated"] = "evaluated" if number == numbers[-1] else "published"
        service.push("s", load.body(number), "application/x-ndjson", wait=wait)


def _is_on_spark(service: Service) -> bool:
    return all(shard["runner"] == "spark" for shard in service.status()["spark"]["shards"])


def _worker_cpu_s(service: Service) -> list[float]:
    return [spark_served.cpu_of(shard["pid"]) for shard in service.status()["spark"]["shards"]]


def loads(batches: int) -> dict[str, Heavy]:
    return {
        "few_pairs": Heavy(batches, keys=1_000, often=550),
        "many_pairs": Heavy(batches),
        "top": Heavy(batches, kind="top"),
        "totals": Heavy(batches, kind="totals"),
        "no_key": Heavy(batches // 2, triples=300, kind="no_key"),
        "arrivals": Heavy(batches * 2 // 5, keys=100, kind="arrivals"),
    }


def run(batches: int, rounds: int) -> dict[str, Any]:
    return {name: measure(load, rounds) for name, load in loads(batches).items()}


#: The loads that are run on a real Spark, too: with a common key, all in one group, without a key, at each arrival.
ON_SPARK = ("many_pairs", "totals", "no_key", "arrivals")


def run_on_spark(batches: int, names: Sequence[str]) -> dict[str, Any]:
    return {name: _one_and_two(loads(batches)[name]) for name in names}


def _one_and_two(load: Heavy) -> dict[str, Any]:
    one, two = (on_spark(load, shards) for shards in (1, 2))
    return {
        "one": one,
        "two": two,
        "cpu_of_two_over_one": round(sum(two["shards_cpu_s"]) / sum(one["shards_cpu_s"]), 2),
        "larger_over_one": round(max(two["shards_cpu_s"]) / sum(one["shards_cpu_s"]), 2),
    }


if __name__ == "__main__":
    chosen = sys.argv[sys.argv.index("--spark") + 1 :] if "--spark" in sys.argv else None
    found = run(40, 3) if chosen is None else run_on_spark(40, chosen or ON_SPARK)
    print(json.dumps(found, indent=2))
