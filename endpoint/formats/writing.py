"""An answer as bytes, some kilobytes at a time; used by threads of the server and by query workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from endpoint.formats import graph_results, results
from stream_ext.errors import QueryTooLarge

if TYPE_CHECKING:
    from hbase_store.arrays import Ids
    from stream_ext.oneshot.answers import Decoded
    from stream_ext.oneshot.evaluate import Answer

Decode = Callable[[Sequence["Ids"], "Answer"], Iterator["Decoded"]]

_PIECE_BYTES = 16_384


def pieces_of(answer: Answer, format: str, rows_max: int, decoded: Decode) -> Iterator[bytes]:
    if answer.count > rows_max:
        raise _too_many(answer.count, rows_max)
    if answer.streamed is not None:
        return results.write(format, answer.variables, _within(answer.streamed, rows_max), answer.boolean)
    if answer.graph is not None:
        return graph_results.write(format, decoded(answer.graph, answer))
    return results.write(format, answer.variables, decoded(answer.columns, answer), answer.boolean)


def _within(streamed: Iterator[Decoded], rows_max: int) -> Iterator[Decoded]:
    count = 0
    for some in streamed:
        count += some.rows
        if count > rows_max:
            raise _too_many(count, rows_max)
        yield some


def _too_many(count: int, rows_max: int) -> QueryTooLarge:
    return QueryTooLarge(
        f"the answer has {count} rows; the limit is {rows_max}: request it in parts, with LIMIT and OFFSET"
    )


def gathered(pieces: Iterator[bytes]) -> tuple[bytes, bool]:
    """The next pieces, joined up to some kilobytes; and whether they are the last."""
    found, size = [], 0
    for piece in pieces:
        found.append(piece)
        size += len(piece)
        if size >= _PIECE_BYTES:
            return b"".join(found), False
    return b"".join(found), True
