"""A divided loading: its parts were read by tasks, each with numbers of its own for terms; here they get common ones.

It takes the place of a `Loading` at `Store.load`: the terms are looked up once, all together, and get their ids from
the writer. Then tasks sort the rows by ranges of keys, and pack the texts by ranges of pages; the writer has only to
copy what they leave. Parts come in the order of the file, so the numbers do not depend on who was quicker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from hbase_store.arrays import Ids, Offsets
from hbase_store.layout.run_list import RunEntry
from hbase_store.layout.slab import TermsChunk
from hbase_store.layout.terms import NO_TERM
from hbase_store.sorted.view import BY_GRAPH
from hbase_store.terms.pages import PAGE_TERMS, Pages
from hbase_store.writing.folding import FoldWriter
from hbase_store.writing.load_files import LoadFolder, part_name
from hbase_store.writing.load_tasks import (
    ALL_TERMS,
    KEY_COLUMNS,
    NEW_HASHES,
    NEW_IDS,
    NEW_TERMS,
    KeyRange,
    LoadTasks,
    PackPages,
    SortHashes,
    SortRows,
    end_tasks,
    packed_columns,
    packed_pages,
)
from hbase_store.writing.loading import Numbers32, Terms

#: A task sorts about so many rows: they take some 100 bytes each.
_ROWS_OF_TASK = 1 << 22
#: Of so many rows one is looked at, to find ranges of keys with about as many rows.
_SAMPLED = 1009
_HIGHEST = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class NewTerms:
    """Which terms of a load are new, the id of the first of them, and the rows by which they will be found."""

    places: Offsets
    first: int
    hashes: tuple[Ids, Ids]


class DividedLoading:
    """For one thread. The folder and the tasks are the caller's."""

    def __init__(self, folder: LoadFolder, tasks: LoadTasks) -> None:
        self.terms = Terms()
        self.statements = 0
        self._folder, self._tasks = folder, tasks
        self._numbers: list[Numbers32] = []  # of the terms of each part
        self._samples: list[Numbers32] = []
        self._named: set[int] = set()
        self._graph = -1
        #: The address at which tasks write their rows into the store; empty: they leave them in the folder.
        self.store = ""

    def add_part(self) -> None:
        """The next part, which was read into the folder."""
        part = len(self._numbers)
        numbers, rows = self.terms.numbers(*self._folder.terms(part_name(part, ""))), self._folder.rows(part)
        self._folder.remove_terms(part_name(part, ""))
        self._numbers.append(numbers)
        self.statements += rows.shape[1]
        sample = np.full((4, len(range(0, rows.shape[1], _SAMPLED))), -1, np.int32)
        sample[: len(rows)] = _numbers_or_none(numbers, rows[:, ::_SAMPLED])
        self._samples.append(sample)
        if len(rows) > 3:
            self._named.update(numbers[np.unique(rows[3][rows[3] >= 0])].tolist())

    def graphs(self) -> list[bytes]:
        """Those that statements name."""
        return [self.terms.text(number) for number in sorted(self._named)]

    def use_graph(self, graph: bytes | None) -> None:
        """What names no graph is in this one; all parts are there."""
        self.terms.check_lengths()
        self._graph = -1 if graph is None else self.terms.number(graph)

    # ---- writing

    def write(
        self, writer: FoldWriter, pages: Pages, ids: Ids, new: NewTerms, others: Iterable[TermsChunk], first: int
    ) -> RunEntry:
        """Writes the run of the snapshots from `first` on. `ids`: of all terms; `others`: further texts to write."""
        folder, time = self._folder, writer.time
        for part, numbers in enumerate(self._numbers):
            folder.write(part_name(part, "ids"), ids[numbers])
        whole = len(new.places) // PAGE_TERMS * PAGE_TERMS
        tasks: list[Future[Any]] = []
        try:
            tasks.extend(map(self._tasks.submit, self._page_tasks(new, whole, time)))
            pages_end = len(tasks)
            tasks.extend(map(self._tasks.submit, self._run_tasks(ids, new, writer.number, time)))
            page_tasks, run_tasks = tasks[:pages_end], tasks[pages_end:]
            rest = [self.terms.chunk(new.first + whole, new.places[whole:])] if whole < len(new.places) else []
            writer.write_pages(pages, [*rest, *others])
            writer.write_packed_pages(put for task in page_tasks for put in packed_pages(task.result(), folder, time))
            return writer.write_packed((packed_columns(task.result(), folder, time) for task in run_tasks), first)
        finally:
            end_tasks(tasks)  # after an error some run that nobody waits for

    def _page_tasks(self, new: NewTerms, whole: int, time: int) -> Iterator[PackPages]:
        self._folder.write_terms(ALL_TERMS, self.terms)
        self._folder.write(NEW_TERMS, new.places)
        step = -(-whole // self._tasks.most // PAGE_TERMS) * PAGE_TERMS
        for start in range(0, whole, max(step, 1)):
            stop, name = min(start + step, whole), f"pages-{start}"
            yield PackPages(str(self._folder.path), name, start, stop, new.first + start, time, self.store)

    def _run_tasks(self, ids: Ids, new: NewTerms, run: int, time: int) -> Iterator[SortRows | SortHashes]:
        folder = str(self._folder.path)
        graph = NO_TERM if self._graph < 0 else int(ids[self._graph])
        tasks = max(self._tasks.most, -(-self.statements // _ROWS_OF_TASK))
        sample = np.concatenate(self._samples, axis=1)
        graphs, known = bool(self._named or graph), np.append(ids, np.uint64(graph))
        for order, column in KEY_COLUMNS.items():
            if order == BY_GRAPH and not graphs:
                continue
            for keys_of_task in _ranges(known[sample[column]], tasks):
                name = f"rows-{order}-{keys_of_task.low}"
                parts = len(self._numbers)
                yield SortRows(folder, name, parts, order, keys_of_task, graphs, graph, run, time, self.store)
        if len(new.hashes[0]):
            self._folder.write(NEW_HASHES, new.hashes[0])
            self._folder.write(NEW_IDS, new.hashes[1])
            for keys_of_task in _ranges(new.hashes[0][::_SAMPLED], self._tasks.most):
                yield SortHashes(folder, f"hashes-{keys_of_task.low}", keys_of_task, run, time, self.store)


def _numbers_or_none(numbers: Numbers32, own: Numbers32) -> Numbers32:
    return np.append(numbers, np.int32(-1))[own]


def _ranges(sample: Ids, count: int) -> Iterator[KeyRange]:
    """At most so many ranges, which hold all keys together, and about as many of the sample each."""
    ends = np.unique(np.sort(sample)[np.arange(1, count) * len(sample) // count]).tolist() if len(sample) else []
    for low, high in zip([0, *(end + 1 for end in ends)], [*ends, _HIGHEST], strict=True):
        yield KeyRange(low, high)
