"""How large the stream index is: LSBench's five streams, in the order of their times, 13,000 triples a batch.

The index is what a window reads: the columns of each batch (slices) and its row. What it is compared with are the
triples as N-Triples, without their times. The texts of new terms are told beside it."""

from __future__ import annotations

import gzip
import heapq
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks import lsbench

Figures = dict[str, Any]
Line = tuple[int, int, bytes]  # time, stream, triple

BATCH = 13_000


def measure(folder: Path, batches: int | None = None) -> Figures | None:
    """None where the data is not at hand."""
    files = sorted(lsbench.folder().glob("*.tnt.gz"))
    if not files:
        return None
    import hbase_store

    store = hbase_store.open(f"lmdb:{folder / 'stream-index'}", folding=False)
    lines = heapq.merge(*(_lines(file, stream) for stream, file in enumerate(files, 1)), key=lambda line: line[0])
    triples = text_bytes = 0
    while (batches is None or store.head() < batches) and (some := list(islice(lines, BATCH))):
        _commit(store, some)
        triples += len(some)
        text_bytes += sum(len(line) + 1 for _, _, line in some)
    sizes = {
        table: sum(len(value) for _, value in store.kv.scan(table, b"", None)) for table in ("slice", "sn", "slab")
    }
    store.close()
    index = sizes["slice"] + sizes["sn"]
    return {
        "streams": len(files),
        "triples": triples,
        "n_triples_mb": round(text_bytes / 1e6, 2),
        "index_mb": round(index / 1e6, 2),
        "index_ratio": round(index / text_bytes, 4),
        "index_bytes_a_triple": round(index / triples, 2),
        "terms_mb": round(sizes["slab"] / 1e6, 2),
        "terms_ratio": round(sizes["slab"] / text_bytes, 4),
    }


def _lines(file: Path, stream: int) -> Iterator[Line]:
    with gzip.open(file, "rb") as lines:
        for line in lines:
            time, _, triple = line.rstrip(b"\n").partition(b"\t")
            yield int(time), stream, triple


def _commit(store: Any, lines: list[Line]) -> None:
    """Lines of one stream with one time are one element."""
    from hbase_store import PushMark, StreamColumns, StreamMove

    batch = store.begin()
    for ordinal, stream in enumerate(sorted({stream for _, stream, _ in lines})):
        own = [(time, line) for time, of, line in lines if of == stream]
        times = np.array([time for time, _ in own], np.int64)
        starts = np.flatnonzero(np.concatenate(([True], times[1:] != times[:-1])))
        texts = [line.split(b" ", 2) for _, line in own]
        ids = batch.encode([text for s, p, o in texts for text in (s, p, o.removesuffix(b" ."))]).reshape(-1, 3)
        columns = StreamColumns(
            stream,
            times[starts],
            np.zeros(len(starts), np.uint64),
            np.full(len(starts), ordinal, np.int32),
            np.repeat(np.arange(len(starts), dtype=np.int32), np.diff(starts, append=len(times))),
            *(np.ascontiguousarray(ids[:, place]) for place in range(3)),
        )
        time = int(times[-1])
        batch.stream(StreamMove(stream, store.head() + 1, time, pushes=[PushMark(ordinal, time)]), columns)
    store.commit(batch)
