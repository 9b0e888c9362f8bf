"""What a server does at a close of a divided query, in CPU milliseconds; its shards are plain objects of this process.

    parts     the parts of both ranges: from bytes
    united    the rows put in order, or summed, ordered and cut
    emitted   the terms decoded, and the record of the emission made

If the owner of the first range united them, the server would do in place of this:

    copied    the part of the other range is sent on, as bytes, over a socket, and the finished part comes back
    finished  the finished part, which has texts: from bytes, and the record of the emission made of it

python -m tests.benchmarks.spark_united [ROUNDS]"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

import hbase_store
from stream_ext.catalog.catalog import Catalog, QueryDefinition
from stream_ext.continuous.assignment import grouped_query
from stream_ext.emissions.emission import body_of, encode_body, with_texts
from stream_ext.emissions.placement import ShardPlan
from stream_ext.emissions.uniting import united
from stream_ext.network.range_summation import RangeSummation
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.runners.spark.wire import Codec
from stream_ext.windows.part import Part
from tests.benchmarks import spark_placed
from tests.benchmarks.spark_divided import Heavy, _spend

_EX = "http://ex/"
_FROMS = "FROM NAMED WINDOW :w ON s [RANGE PT10S STEP PT1S] FROM NAMED WINDOW :x ON s [RANGE PT5S STEP PT1S]"
_PAIRS = "WINDOW :w { ?a :u ?u } WINDOW :x { ?a :v ?v }"

#: What is emitted at a close: one row, ten of 1,000 groups, or many rows.
QUERIES = {
    "one group of all": f"RSTREAM q AS SELECT (COUNT(*) AS ?n) (AVG(?u) AS ?m) {_FROMS} WHERE {{ {_PAIRS} }}",
    "ten of 1,000 groups": f"RSTREAM q AS SELECT ?a (COUNT(*) AS ?n) {_FROMS} WHERE {{ {_PAIRS} }} "
    "GROUP BY ?a ORDER BY DESC(?n) LIMIT 10",
    "2,000 groups without the key": f"RSTREAM q AS SELECT ?d (COUNT(*) AS ?n) (AVG(?u) AS ?m) {_FROMS} "
    f"WHERE {{ {_PAIRS} }} GROUP BY (?u - ?v AS ?d) ORDER BY ?d LIMIT 2000",
    "many rows": f"RSTREAM q AS SELECT ?a ?u ?v {_FROMS} WHERE {{ {_PAIRS} FILTER(?u - ?v > 800) }}",
    "many rows, ordered": f"RSTREAM q AS SELECT ?a ?u ?v {_FROMS} WHERE {{ {_PAIRS} FILTER(?u - ?v > 800) }} "
    "ORDER BY ?v",
}


def measure(text: str, batches: int, rounds: int) -> dict[str, Any]:
    load = Heavy(batches, triples=2_000, keys=1_000)
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as folder:
        url = f"lmdb:{folder}/store"
        text = f"PREFIX : <{_EX}> REGISTER {text}"
        spark_placed.publish(url, [text], [load.body(number) for number in range(1, load.batches)])
        store = hbase_store.open(url)
        try:
            return _measured(store, rounds)
        finally:
            store.close()


def _measured(store: hbase_store.Store, rounds: int) -> dict[str, Any]:
    catalog, codec = Catalog.read(store, int(store.head())), Codec(SparkSettings().shard_factory)
    (query,) = catalog.queries.values()
    plan = ShardPlan(1, (1.0, 1.0), frozenset((query.placement or query.number,)))
    ranges = [list[list[Part]](), list[list[Part]]()]
    for number, made in enumerate(ranges):
        _spend(store, query, plan, number, made)
    snapshots = [each for each in zip(*ranges, strict=True) if any(part.evaluated for part in each[0])]
    bodies = [[bytes(codec.encode_parts(parts)) for parts in each] for each in snapshots]
    sums = RangeSummation(store.ids, store.terms, lambda number: grouped_query(number, catalog))
    whole = [united(senders, {query.number}, sums) for senders in snapshots]
    finished = [bytes(codec.encode_parts([with_texts(part, store.terms) for part in parts])) for parts in whole]

    def emitted_of(sent: Sequence[Part]) -> list[bytes]:
        return [_emitted(part, query, store) for part in sent]

    steps: dict[str, Callable[[], object]] = {
        "parts": lambda: [[codec.parts(msgspec.Raw(body)) for body in each] for each in bodies],
        "united": lambda: [united(senders, {query.number}, sums) for senders in snapshots],
        "emitted": lambda: list(map(emitted_of, whole)),
        "copied": lambda: _copied([each[1] for each in bodies], finished),
        "finished": lambda: [emitted_of(codec.parts(msgspec.Raw(body))) for body in finished],
    }  # fmt: skip
    spent: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            began = time.process_time()
            step()
            spent[name].append(time.process_time() - began)
    closes = len(snapshots)
    best = {name: round(min(each) / closes * 1e3, 3) for name, each in spent.items()}
    return {
        "rows_a_close": round(sum(len(p.columns[0]) for parts in whole for p in parts if p.columns) / closes),
        "bytes_a_close": {
            "of_both_ranges": round(sum(len(body) for each in bodies for body in each) / closes),
            "finished": round(sum(map(len, finished)) / closes),
        },
        "ms_a_close": best,
        "server_ms": round(best["parts"] + best["united"] + best["emitted"], 3),
        "server_ms_if_the_owner_unites": round(best["copied"] + best["finished"], 3),
    }


def _emitted(part: Part, query: QueryDefinition, store: hbase_store.Store) -> bytes:
    return encode_body(body_of(part, query.name, 1, query.r2s, query.variables, store.terms, query.constructs))


def _copied(sent: Sequence[bytes], back: Sequence[bytes]) -> None:
    """The server's half: it receives nothing more than today of the first, and writes it; the second it reads."""
    here, there = socket.socketpair()
    size_back = sum(map(len, back))

    def other() -> None:  # its CPU is counted, too: that of a receiver of the same bytes
        left = sum(map(len, sent))
        while left:
            left -= len(there.recv(min(left, 1 << 20)))
        for body in back:
            there.sendall(body)

    thread = threading.Thread(target=other)
    thread.start()
    with here, there:
        for body in sent:
            here.sendall(body)
        while size_back:
            size_back -= len(here.recv(min(size_back, 1 << 20)))
        thread.join()


def run(rounds: int, batches: int = 30) -> dict[str, Any]:
    return {name: measure(text, batches, rounds) for name, text in QUERIES.items()}


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]) if len(sys.argv) > 1 else 5), indent=2))
