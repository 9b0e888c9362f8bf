"""W1, W2 and W3 by engines for tables, their increments written by hand: what is new of a batch, joined or counted.

They are told a batch of numbers at a time and say what is new of the answer, as the network does. Neither knows of
windows: the rows of one are kept here, and what has run out is let go."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]
Answered = tuple[int, int]  # rows, checksum
Answer = tuple[Longs, ...]
#: What a batch is answered with: of each stream its keys and values come, the columns of what is new go.
Step = Callable[[Sequence[tuple[Longs, Longs]]], Answer]


class Peer(Protocol):
    def join(self, span: int) -> Step:
        """Pairs (a, b) of values with one key, of the last `span` batches of two streams, that are new."""

    def count(self, span: int) -> Step:
        """(key, count) in the last `span` batches, where the count has changed and is not zero."""

    def filters(self, wanted: Longs) -> Step:
        """(place in `wanted`, value) of the elements whose key is wanted."""


class Polars:
    def __init__(self) -> None:
        self._pl: Any = import_module("polars")

    def _frame(self, **columns: Longs) -> Any:
        return self._pl.DataFrame(columns)

    def join(self, span: int) -> Step:
        pl, lefts, rights = self._pl, deque[Any](maxlen=span), deque[Any](maxlen=span)

        def step(came: Sequence[tuple[Longs, Longs]]) -> Answer:
            (k1, v1), (k2, v2) = came
            left, right = self._frame(k=k1, a=v1), self._frame(k=k2, b=v2)
            rights.append(right)
            new = [left.join(pl.concat(rights), on="k")]
            if len(lefts) == span:
                lefts.popleft()
            if lefts:
                new.append(pl.concat(lefts).join(right, on="k"))
            lefts.append(left)
            pairs = pl.concat([each.select("a", "b") for each in new])
            return pairs["a"].to_numpy(), pairs["b"].to_numpy()

        return step

    def count(self, span: int) -> Step:
        pl, window, counts = self._pl, deque[Any](), self._frame(k=_NONE, n=_NONE)

        def step(came: Sequence[tuple[Longs, Longs]]) -> Answer:
            nonlocal counts
            ((keys, _),) = came
            new = self._frame(k=keys).group_by("k").agg(n=pl.len().cast(pl.Int64))
            window.append(new)
            changes = [new]
            if len(window) > span:
                changes.append(window.popleft().select("k", n=-pl.col("n")))
            changed = pl.concat(changes).group_by("k").agg(pl.col("n").sum()).filter(pl.col("n") != 0)
            counts = pl.concat([counts, changed]).group_by("k").agg(pl.col("n").sum()).filter(pl.col("n") > 0)
            observed = counts.join(changed, on="k", how="semi")
            return observed["k"].to_numpy(), observed["n"].to_numpy()

        return step

    def filters(self, wanted: Longs) -> Step:
        table = self._frame(k=wanted, q=np.arange(len(wanted)))

        def step(came: Sequence[tuple[Longs, Longs]]) -> Answer:
            ((keys, values),) = came
            found = self._frame(k=keys, e=values).join(table, on="k")
            return found["q"].to_numpy(), found["e"].to_numpy()

        return step


class DuckDB:
    def __init__(self) -> None:
        self._duckdb: Any = import_module("duckdb")

    def _connection(self) -> Any:
        connection = self._duckdb.connect()
        connection.execute("SET threads = 2")
        return connection

    def join(self, span: int) -> Step:
        db, batch = self._connection(), 0
        for side in ("l", "r"):
            db.execute(f"CREATE TABLE {side} (batch BIGINT, k BIGINT, v BIGINT)")

        def step(came: Sequence[tuple[Longs, Longs]]) -> Answer:
            nonlocal batch
            batch += 1
            for side, (keys, values) in zip(("l", "r"), came, strict=True):
                _give(db, {"k": keys, "v": values})
                db.execute(f"DELETE FROM {side} WHERE batch <= {batch - span}")
                db.execute(f"INSERT INTO {side} SELECT {batch}, k, v FROM given")
            return _taken(
                db,
                f"SELECT l.v AS a, r.v AS b FROM l JOIN r USING (k) WHERE l.batch = {batch} UNION ALL "
                f"SELECT l.v AS a, r.v AS b FROM l JOIN r USING (k) WHERE r.batch = {batch} AND l.batch < {batch}",
                "ab",
            )

        return step

    def count(self, span: int) -> Step:
        db, window = self._connection(), deque[Longs]()
        db.execute("CREATE TABLE counts (k BIGINT PRIMARY KEY, n BIGINT)")

        def step(came: Sequence[tuple[Longs, Longs]]) -> Answer:
            ((keys, _),) = came
            window.append(keys)
            gone = window.popleft() if len(window) > span else _NONE
            signs = np.concatenate([np.ones(len(keys), np.int64), np.full(len(gone), -1)])
            _give(db, {"k": np.concatenate([keys, gone]), "n": signs})
            db.execute(
                "CREATE OR REPLACE TEMP TABLE changed AS SELECT k, CAST(sum(n) AS BIGINT) AS n FROM given "
                "GROUP BY k HAVING sum(n) <> 0"
            )
            db.execute("INSERT INTO counts SELECT k, n FROM changed ON CONFLICT DO UPDATE SET n = n + excluded.n")
            return _taken(db, "SELECT k, counts.n AS n FROM counts SEMI JOIN changed USING (k) WHERE n > 0", "kn")

        return step

    def filters(self, wanted: Longs) -> Step:
        db = self._connection()
        _give(db, {"k": wanted, "q": np.arange(len(wanted))})
        db.execute("CREATE TABLE wanted AS SELECT k, q FROM given")

        def step(came: Sequence[tuple[Longs, Longs]]) -> Answer:
            ((keys, values),) = came
            _give(db, {"k": keys, "e": values})
            return _taken(db, "SELECT q, e FROM given JOIN wanted USING (k)", "qe")

        return step


_NONE = np.empty(0, np.int64)

PEERS: dict[str, Callable[[], Peer]] = {"polars": Polars, "duckdb": DuckDB}


def _give(db: Any, columns: dict[str, Longs]) -> None:
    import pyarrow

    db.register("given", pyarrow.table(columns))


def _taken(db: Any, text: str, names: str) -> Answer:
    columns = db.execute(text).fetchnumpy()
    return tuple(np.asarray(columns[name]) for name in names)


def present() -> dict[str, str]:
    """Which of them are installed, and which version."""
    return {name: metadata.version(name) for name in PEERS if find_spec(name) is not None}


def missing() -> dict[str, str]:
    """Those that are not, and what to do about it."""
    return {name: f"{name} is not installed (pip install {name})" for name in PEERS if name not in present()}


def batch_ms(step: Step, batches: Sequence[Sequence[tuple[Longs, Longs]]], expected: Sequence[Answered], first: int,
             check: Callable[..., Answered]) -> float:  # fmt: skip
    """Of the batches from `first` on, the median; each answer is compared before: `check` gets its columns, and that
    each row counts once."""
    seconds = []
    for b, (batch, wanted) in enumerate(zip(batches, expected, strict=True)):
        began = time.perf_counter()
        found = step(batch)
        seconds.append(time.perf_counter() - began)
        if (answered := check(*found, np.ones(len(found[0]), np.int64))) != wanted:
            raise AssertionError(f"batch {b}: (rows, checksum) {answered}, but {wanted} expected")
    return round(statistics.median(seconds[first:]) * 1e3, 3)
