"""Writers that are killed: one warm process, which never opens a store, forks them one after the other.

    python -m tests.hbase_store.crowd URL SEED

Reads `go` from its standard input, forks a writer that publishes, folds, loads and collects until it is killed, and
prints its pid and then each snapshot that was acknowledged. Beside what the store keeps it writes a stream, whose terms
come and go. A forked child has all modules and kernels already, so a kill costs milliseconds instead of a second."""

from __future__ import annotations

import os
import random
import sys
from functools import partial

import numpy as np

import hbase_store
from hbase_store import Batch, Loading, PushMark, Store, StreamColumns, StreamMove, warm
from hbase_store.layout.terms import iri, literal
from hbase_store.terms import transient
from hbase_store.writing import upkeep
from stream_ext.rdf import careful_rows

P, G = iri("http://ex/p"), iri("http://ex/g")
STREAM, KEPT = 3, 20


def content(sn: int) -> list[tuple[bytes, bytes]]:
    """(subject, object) of what snapshot `sn` adds; every third deletes what the one before it added."""
    rng = random.Random(sn)
    size = rng.choice([1, 1, 2, 5, 400])
    return [(iri(f"http://ex/{rng.randrange(50)}"), literal(f"{i} of {sn}")) for i in range(size)]


def passing(sn: int) -> list[bytes]:
    """Terms that a stream brings in snapshot `sn`, or nothing: some come again, and some the store has at times."""
    names = [iri(f"http://ex/{sn % 60}"), iri(f"http://ex/t{sn % 9}"), iri(f"http://ex/once{sn}")]
    return [] if sn % 5 == 1 else names


def deletes(sn: int) -> bool:
    return sn % 3 == 0


def work(store: Store, rng: random.Random) -> None:
    """One more snapshot, and sometimes something that must not be seen."""
    sn = store.head() + 1
    if rng.random() < 0.1:
        store.floor(max(0, sn - 40), {STREAM: max(0, sn - KEPT)})
        store.collect()
    if rng.random() < 0.1:
        store.fold()
    if sn % 5 == 1:
        loading = Loading(partial(careful_rows, quads=False))
        for s, o in content(sn):
            loading.read(b" ".join([s, P, o, b".\n"]))
        assert store.load(loading) == sn
    else:
        batch = store.begin()
        for s, o in content(sn):
            batch.insert(*batch.encode([s, P, o]), g=0)
        if deletes(sn):
            for s, o in content(sn - 1):
                batch.delete(*batch.encode([s, P, o]), g=0)
        push(batch, sn)
        assert store.commit(batch) == sn
    os.write(1, b"%d\n" % sn)


def push(batch: Batch, sn: int) -> None:
    ids = batch.encode_transient(passing(sn))
    size = len(ids)
    columns = StreamColumns(
        STREAM,
        np.full(size, sn, np.int64),
        np.zeros(size, np.uint64),
        np.zeros(size, np.int32),
        np.arange(size, dtype=np.int32),
        ids,
        ids,
        ids,
    )
    batch.stream(StreamMove(STREAM, sn, sn, pushes=[PushMark(0, sn)]), columns)


def write_until_killed(url: str, seed: int) -> None:
    upkeep.FOLD_SLABS = 7  # type: ignore[attr-defined]  # a constant of another module, as it is used there
    transient.GENERATION_MS = 20
    rng = random.Random(seed)
    store = hbase_store.open(url)
    while True:
        work(store, rng)


def main(url: str, seed: int) -> None:
    warm.warm()
    for line in sys.stdin:
        assert line == "go\n"
        pid = os.fork()
        if pid == 0:
            write_until_killed(url, seed)
        os.write(1, b"pid %d\n" % pid)
        os.waitpid(pid, 0)
        os.write(1, b"dead\n")
        seed += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
