"""What a store on HBase takes beside one on LMDB, without a server: loads by one process and by two, opening, batches
of ten thousand edges, and random reads with a cache of a tenth of what is read. Answers are compared with the formula
by which the data was made."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import hbase_store
from hbase_store import Store
from hbase_store.layout.terms import iri, literal
from tests.benchmarks import relation

Figures = dict[str, Any]
_OWNER = iri("http://ex/owner")
_KEYS, _READS = 100, 60
_EDGES, _BATCHES = 10_000, 30


def run(folder: Path, store: str, mappings: int) -> Figures:
    """`store`: the beginning of an address, of which several are made."""
    lines = folder / "large.nt"
    if not lines.exists():
        relation.write(lines, mappings)
    loads = {f"tasks_{tasks}": _load(lines, f"{store}loaded{tasks}", tasks) for tasks in (1, 2)}
    return {
        "mappings": mappings,
        "load": loads,
        "open_s": _opening(f"{store}loaded2"),
        "small_cache": small_cache(f"{store}loaded2", mappings),
        "batches": _batches(f"{store}batches"),
    }


def _load(lines: Path, store: str, tasks: int) -> Figures:
    command = [sys.executable, "-m", "endpoint", "load", str(lines), "--tasks", str(tasks), "--store", store]
    return {"s": round(_timed(lambda: subprocess.run(command, check=True, capture_output=True)), 2)}


def _opening(store: str) -> float:
    """By a new process, imports included, until it has counted the edges."""
    program = (
        "import sys, hbase_store; store = hbase_store.open(sys.argv[1], read_only=True); "
        "assert store.at().count_all(); store.close()"
    )
    command = [sys.executable, "-c", program, store]
    return round(statistics.median(_timed(lambda: subprocess.run(command, check=True)) for _ in range(3)), 2)


def small_cache(address: str, mappings: int) -> Figures:
    """The subjects and objects of all mappings are 16 bytes each."""
    budget = mappings * 16 // 10
    chance, times, cpu = random.Random(mappings), [], []
    with closing(hbase_store.open(address, read_only=True, folding=False, cache_bytes=budget)) as store:
        owner = int(store.ids([_OWNER])[0])
        for _ in range(_READS):
            tags = sorted(chance.sample(range(mappings), _KEYS))
            keys = store.ids([iri(f"http://ex/tag{tag}") for tag in tags])
            began, used = time.perf_counter(), time.process_time()
            offsets, *columns = store.at().neighbours(owner, keys)
            times.append(time.perf_counter() - began)
            cpu.append(time.process_time() - used)
            assert np.diff(offsets).tolist() == [1] * _KEYS
            owners = [iri(f"http://ex/person{relation.owner(tag, mappings)}") for tag in tags]
            assert [store.terms(column) for column in columns] == [owners]
        return {
            "cache_mib": round(budget / 2**20, 1),
            "keys": _KEYS,
            "ms_p50": _ms(times[_READS // 2 :]),
            "cpu_ms_p50": _ms(cpu[_READS // 2 :]),
        }


def _batches(address: str) -> Figures:
    known = [iri(f"http://ex/n{i}") for i in range(5_000)]
    p, found = iri("http://ex/p"), {}
    with closing(hbase_store.open(address)) as store:
        _commit(store, p, known, known)
        found["known_terms_ms_p50"] = _ms([_timed(partial(_commit, store, p, known, known)) for _ in range(_BATCHES)])
        times = []
        for batch in range(_BATCHES):
            new = [literal(f"{batch} {i}") for i in range(_EDGES)]
            times.append(_timed(partial(_commit, store, p, known, new)))
        found["new_terms_ms_p50"] = _ms(times)
    return {"edges": _EDGES, **found}


def _commit(store: Store, p: bytes, subjects: list[bytes], objects: list[bytes]) -> None:
    batch, chance = store.begin(), random.Random(store.head())
    s, o = batch.encode(subjects), batch.encode(objects)
    (predicate,) = batch.encode([p]).tolist()
    many = np.array(chance.choices(range(len(s)), k=_EDGES))
    batch.insert(s[many], predicate, o[np.arange(_EDGES) % len(o)], 0)
    store.commit(batch)


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _ms(times: list[float]) -> float:
    return round(statistics.median(times) * 1e3, 2)
