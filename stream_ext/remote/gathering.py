"""Gathering: answers of a source that are kept whole until they are joined; several at a time, within bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from stream_ext.evaluation_budget import Control
from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.source import Source
from stream_ext.remote.sparql_client import Solution

#: So many questions are asked at a time, and so many more answers may wait to be read.
_AT_A_TIME, _AHEAD = 4, 8
#: Bytes of Python's objects for a term beside its text, and for a solution.
_TERM, _SOLUTION = 60, 240


def gather(source: Source, text: str, control: Control, bytes_max: int) -> tuple[list[Solution], int]:
    """The whole answer to one question, and about how many bytes it takes here. CannotFetch if it is too large."""
    found: list[Solution] = []
    size = 0
    for some in source.select(text, control):
        found += some
        size += bytes_of(some)
        if size > bytes_max * 4:
            raise CannotFetch(
                f"the source {source.settings.name} answers more than {bytes_max} bytes to one question, the limit of "
                "this server (--fetch-bytes)"
            )
    return found, size


def gather_each(
    source: Source, texts: Sequence[str], control: Control, bytes_max: int
) -> Iterator[tuple[list[Solution], int]]:
    """The answers to some questions, in order."""
    if len(texts) == 1:
        yield gather(source, texts[0], control, bytes_max)
        return
    with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix=f"source-{source.settings.name}") as threads:
        waiting: deque[Future[tuple[list[Solution], int]]] = deque()
        try:
            for text in texts:
                waiting.append(threads.submit(gather, source, text, control, bytes_max))
                if len(waiting) > _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()


def bytes_of(solutions: Sequence[Solution]) -> int:
    terms = [text for solution in solutions for text in solution.values()]
    return sum(map(len, terms)) + _TERM * len(terms) + _SOLUTION * len(solutions)
