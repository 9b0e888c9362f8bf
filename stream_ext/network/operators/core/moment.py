"""A moment: all that the operators of a network get at one evaluation, but for the changes of windows.

time 3000, the store at snapshot 12, its changes since snapshot 9, a budget, NOW(), a seed for RAND()"""

from __future__ import annotations

from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from hbase_store import Snapshot
from stream_ext.evaluation_budget import Control
from stream_ext.remote.allowed_urls import NOTHING, AllowedUrls
from stream_ext.remote.backoff import Backoff, ServiceAnswers
from stream_ext.remote.sources import NO_SOURCES, Sources
from stream_ext.values.vocabulary import Vocabulary
from stream_ext.windows.numbered_evaluations import NumberedEvaluations

Ids = npt.NDArray[np.uint64]


class QuadChange(Protocol):
    """Exact changes of the store: quads that came (+1) or went (-1). The store's `Rows` is one."""

    @property
    def s(self) -> Ids: ...
    @property
    def p(self) -> Ids: ...
    @property
    def o(self) -> Ids: ...
    @property
    def g(self) -> Ids: ...
    @property
    def sign(self) -> npt.NDArray[np.int8] | npt.NDArray[np.int64]: ...


class StoreChanges(Protocol):
    """How the store changed since the network's last step."""

    def of(self, predicates: tuple[int, ...] | None, held: bool = False) -> list[QuadChange]:
        """Of these predicates (None: of all), SN by SN; nothing of those in which they have not changed. `held`: also
        of held edges, whose predicates have their tag."""

    def before(self) -> Snapshot:
        """The store as it was at the last step."""


class Moment(msgspec.Struct, frozen=True, eq=False):
    """One evaluation: its time, the store as it is then, and how that differs from the step before.

    `changes` is None at a network's first step: then the whole store is the change. `now_ms` is the value of NOW();
    RAND and the like are functions of `seed`."""

    time: int
    snapshot: Snapshot
    changes: StoreChanges | None
    last: bool = False  # this step is the last (a one-shot query): operators need no state
    ranks_ties: bool = False  # rows that are equal for ORDER BY have the order of a registered query
    now_ms: int = 0
    seed: bytes = b""
    control: Control = Control.FREE
    vocabulary: Vocabulary = msgspec.field(default_factory=Vocabulary.of_its_own)
    base: str = ""
    allowed_urls: AllowedUrls = NOTHING  # which endpoints SERVICE may query
    backoff: Backoff | None = None  # of a registered query: which of these endpoints failed lately
    service_answers: ServiceAnswers | None = None  # shared by the networks of a query that has several
    sources: Sources = NO_SOURCES  # stores that are not ours, by their addresses
    requests_again: bool = True  # whether old remote answers are requested again
    #: Windows leave out what has arrived since the last evaluation; but it displaces what it displaces.
    without_new: bool = False
    #: If the step is many evaluations at arrivals: those. Then `time` is that of the first one.
    evaluations: NumberedEvaluations | None = None


def seed_of(query: int, sn: int, k: int) -> bytes:
    """Chance is a function of the evaluation: repeated, it gives the same."""
    return b"%d/%d/%d" % (query, sn, k)
