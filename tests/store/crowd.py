"""Writers that are killed: one warm process, which never opens a store, forks them one after the other.

    python -m tests.store.crowd URL SEED

Reads `go` from its standard input, forks a writer that publishes, folds, loads and collects until it is killed, and
prints its pid and then each snapshot that was acknowledged. A forked child has all modules and kernels already, so a
kill costs milliseconds instead of a second."""

from __future__ import annotations

import os
import random
import sys
from functools import partial

import hbase_store
from hbase_store import Loading, Store, kernels, upkeep
from hbase_store.terms import iri, literal
from stream_ext.rdf import careful_rows

P, G = iri("http://ex/p"), iri("http://ex/g")


def content(sn: int) -> list[tuple[bytes, bytes]]:
    """(subject, object) of what snapshot `sn` adds; every third deletes what the one before it added."""
    rng = random.Random(sn)
    size = rng.choice([1, 1, 2, 5, 400])
    return [(iri(f"http://ex/{rng.randrange(50)}"), literal(f"{i} of {sn}")) for i in range(size)]


def deletes(sn: int) -> bool:
    return sn % 3 == 0


def work(store: Store, rng: random.Random) -> None:
    """One more snapshot, and sometimes something that must not be seen."""
    sn = store.head() + 1
    if rng.random() < 0.1:
        store.floor(max(0, sn - 40))
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
            batch.insert(*batch.encode([s, P, o]), 0)
        if deletes(sn):
            for s, o in content(sn - 1):
                batch.delete(*batch.encode([s, P, o]), 0)
        assert store.commit(batch) == sn
    os.write(1, b"%d\n" % sn)


def write_until_killed(url: str, seed: int) -> None:
    upkeep.FOLD_SLABS = 7
    rng = random.Random(seed)
    store = hbase_store.open(url)
    while True:
        work(store, rng)


def main(url: str, seed: int) -> None:
    kernels.warm()
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
