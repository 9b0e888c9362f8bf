"""Finishing: where a part is made on Spark, its terms become texts, and its rows become JSON if somebody subscribes.

    part of ids  -->  part of texts, with the JSON from `head` on  -->  the merge adds number, name, gap and the rest

So the server's process, which merges the parts of all shards, neither decodes terms nor writes rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import msgspec

from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.emissions.emission import SharedBody, answer_json, body_of, with_texts
from stream_ext.errors import QueryTooLarge
from stream_ext.windows.part import Ids, Part

#: A longer answer is not sent as JSON, beside its columns: the server makes it when it is read.
_ANSWER_BYTES_MAX = 8 << 20
#: Of queries that are evaluated together, if more than so many have a subscriber, no answer is sent as JSON: the merge
#: would be busy with all of them, before any is announced. Each is made when it is read, from the record of all.
_TOGETHER_MAX = 64


def finish(
    part: Part,
    decode: Callable[[Ids], list[bytes]],
    queries: Mapping[int, QueryDefinition],
    subscribed: Collection[int],
    stepping: Callable[[Sequence[int]], None],
) -> Part:
    """`subscribed`: the numbers of the queries with a subscriber. `stepping` is told before of which queries it is.

    The part of a range stays as it is: the ids say in which order its rows are united with those of others."""
    if part.is_range or not part.evaluated or not (part.emits or len(part.whose)):
        return part
    stepping(part.queries.tolist())
    done = with_texts(part, decode)
    if part.many is not None:
        return done  # whoever reads one of the emissions makes its JSON
    return msgspec.structs.replace(done, answers=dict(_answers(done, queries, subscribed)))


def _answers(
    part: Part, queries: Mapping[int, QueryDefinition], subscribed: Collection[int]
) -> Iterator[tuple[int, bytes]]:
    numbers = [number for number in part.queries.tolist() if number in subscribed] if subscribed else []
    if len(numbers) > _TOGETHER_MAX:
        return
    shared = SharedBody.of(part, _decodes_nothing) if part.is_shared and numbers else None
    for number in numbers:
        if (query := queries.get(number)) is None:
            continue
        if shared is not None:
            body = shared.own(query, 0, False)
        else:
            body = body_of(part, query.name, 0, query.r2s, query.variables, _decodes_nothing, query.constructs)
        try:
            answer = answer_json(body)
        except QueryTooLarge:
            continue  # whoever reads the emission is told
        if len(answer) <= _ANSWER_BYTES_MAX:
            yield number, answer


def _decodes_nothing(ids: Ids) -> list[bytes]:
    raise AssertionError("this part has its texts")
