"""The shared stages of a timing class: who has an operator that others have, too, and when they become one.

A run that joins the class has operators of its own, as after a restart. Between two snapshots, when all runs of the
class are at the same evaluation, each operator that does the same as one of another run is given up for it, if both
have the same content. A window that is a set shows a triple that came several times with the validity of the copy that
it saw first; so of a run that was built later some rows may have others. Then it is tried again, later.

    q1 registered        it has scan :p
    q2 registered        its own scan :p, as long as its content differs; then both read one
    q1 dropped           q2 reads it alone
    q2 leaves the class  with the operator; with a copy, if others still read it"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from stream_ext.continuous.evaluator import TERMS_CREATED_MAX
from stream_ext.network.network import Network
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shared_stage import SharedStage, StageKey
from stream_ext.network.sharing import NetworkSharing, are_same
from stream_ext.network.window_lengths import OperatorShape, WindowLengths
from stream_ext.rows.zset import of_shorter_windows
from stream_ext.values.vocabulary import Vocabulary
from stream_ext.windows.arrivals import Arrival

if TYPE_CHECKING:
    from stream_ext.continuous.run import Run


#: Nobody is charged for the created terms that shared stages have among themselves: of more bytes they begin anew.
TERMS_BYTES_MAX = 64 << 20


class _Trial:
    """A run that has operators which others have, too: after how many snapshots it is compared with them again."""

    __slots__ = ("left", "pause")

    def __init__(self) -> None:
        self.pause, self.left = 1, 0

    def is_due(self) -> bool:
        self.left -= 1
        return self.left < 0

    def failed(self) -> None:
        self.left, self.pause = self.pause, self.pause * 2


class SharedStages:
    def __init__(self) -> None:
        self._stages: dict[StageKey, SharedStage] = {}
        self._single: dict[StageKey, tuple[Run, int]] = {}  # operators that one network has, and where
        self._trials: dict[Run, _Trial] = {}
        self._runs: dict[Run, None] = {}
        self._terms: Vocabulary | None = None  # that of the shared stages
        self._unread: list[SharedStage] = []  # perhaps: nobody reads these any more but for shorter windows
        self._renewal = _Trial()
        self._lengths: WindowLengths | None = None  # none, as long as all windows have one length
        self._awake: Collection[Run] = ()
        #: Some operators of these shapes have not shown yet what one over longer windows has.
        self._unlike: dict[OperatorShape, _Trial] = {}

    def join(self, run: Run) -> None:
        """From the end of this snapshot on it may share."""
        self._runs[run] = None
        self._trials[run] = _Trial()

    @property
    def are_of_lengths(self) -> bool:
        """Whether the windows of their runs have several lengths."""
        return self._lengths is not None

    def adopt_other_lengths(self) -> None:
        """Runs over windows of other lengths join, too."""
        if self._lengths is None:
            self._lengths = WindowLengths()
            for key, stage in self._stages.items():
                self._lengths.add(key, stage.operator)
            for key, (run, place) in self._single.items():
                self._lengths.add(key, self._sharing_of(run).operator_at(place))

    def leave(self, run: Run, is_over: bool = False) -> None:
        """`is_over`: its network is not evaluated any more."""
        self._trials.pop(run, None)
        self._runs.pop(run, None)
        sharing = _network_of(run).sharing
        if sharing is None or sharing.is_ahead:
            return
        stages = self._no_longer_of(sharing)
        if is_over or sharing.is_lost:
            sharing.release()
        else:
            sharing.part()
        self._forget_unread(stages)

    def read_ahead(self, run: Run, arrivals: Iterable[tuple[Arrival, Sequence[Moment]]]) -> None:
        """The run stays behind the others in the middle of a snapshot: it goes its own way at its end. `arrivals`:
        those of the snapshot, and the evaluations after each."""
        sharing = _network_of(run).sharing
        if sharing is not None and not sharing.is_ahead:
            stages = self._no_longer_of(sharing)
            sharing.read_ahead(arrivals)
            self._forget_unread(stages)

    def give_up_lost(self, run: Run) -> None:
        """A step of `run` was not completed: the networks of the others that read one of the stages that it was in are
        built anew before they are stepped."""
        sharing = _network_of(run).sharing
        if sharing is None or not any(stage.is_lost for stage in sharing.stages):
            return
        for each in (run, *self._runs):
            sharing = _network_of(each).sharing
            if sharing is not None and any(stage.is_lost for stage in sharing.stages):
                sharing.is_lost = True
        self._forget([stage for stage in self._stages.values() if stage.is_lost])

    # ---- between two snapshots

    def gather(self, awake: Collection[Run]) -> None:
        """All runs of the class are at the same evaluation. `awake`: those of them that are stepped at the next one,
        and others."""
        self._awake = awake
        if self._terms is not None and self._are_worn(self._terms):  # of one run that is left, too
            self._begin_anew()
        if len(self._runs) < 2:
            return
        for run in [run for run, trial in self._trials.items() if trial.is_due()]:
            self._share(run)
            if self._sharing_of(run).waiting:
                self._trials[run].failed()
            else:
                del self._trials[run]
        if self._lengths is not None:
            self._unite_lengths(self._lengths)

    def _are_worn(self, terms: Vocabulary) -> bool:
        """Whether most of the created terms are in no row any more, or they take much memory; or a stream has brought
        one since, so that ids of the streams are others here, and no other network can share."""
        terms.renew()
        if not terms.translates or not self._renewal.is_due():
            return terms.created > TERMS_CREATED_MAX or terms.created_bytes > TERMS_BYTES_MAX
        self._renewal.failed()
        return True

    def _share(self, run: Run) -> None:
        """Shares what the network of the run has in common with others now; a network that is found to have more in
        common then, too."""
        shared = [found for each, place in self._waiting_of(run) for found in self._offered(each, place)]
        self._go_on_with(shared)

    def _go_on_with(self, shared: Iterable[tuple[Run, int]]) -> None:
        """These networks share the operators in these places now: perhaps they share what reads them, too."""
        touched: dict[Run, None] = {}
        waiting = deque(shared)
        while waiting:
            run, place = waiting.popleft()
            touched[run] = None
            for reader in self._sharing_of(run).readers_of(place):
                waiting += self._offered(run, reader)
        for run in touched:
            self._sharing_of(run).connect()

    def _waiting_of(self, run: Run) -> list[tuple[Run, int]]:
        sharing = self._sharing_of(run)
        if sharing.is_lost or sharing.translates or sharing.terms.translates:
            return []
        waiting, sharing.waiting = sharing.waiting, []
        return [(run, place) for place in waiting]

    def _offered(self, run: Run, place: int) -> Iterator[tuple[Run, int]]:
        """The networks that share the operator from now on, and where they have it."""
        sharing = self._sharing_of(run)
        key = sharing.key_at(place)
        if key is None:
            return
        if key not in self._stages:
            other, at = self._single.get(key, (run, place))
            if (other, at) != (run, place) and self._makes_stage(other, at, key):
                yield other, at
            else:
                self._withdraw(key)
                self._single[key] = run, place
                sharing.offered.add(key)
                if self._lengths is not None:
                    self._lengths.add(key, sharing.operator_at(place))
                return
        evaluated = run.cohorts[0].evaluated
        assert evaluated is not None, "it was evaluated before it joined"
        stage = self._stages[key]
        is_about_to_renew = stage.operator.renews and not stage.operator.is_renewed
        if not is_about_to_renew and sharing.has_content_of(place, stage, evaluated.time):
            sharing.share(place, stage)
            yield run, place
        else:
            operator = sharing.operator_at(place)
            if stage.operator.renews and (operator.is_renewed or (operator.renews_later and run in self._awake)):
                operator.renew(True)
            sharing.waiting += [place] if place not in sharing.waiting else []
            self._trials.setdefault(run, _Trial())

    def _makes_stage(self, run: Run, place: int, key: StageKey) -> bool:
        """An operator that this network alone has is made a stage, if it can be."""
        stage = self._sharing_of(run).made_shared(place, key)
        if stage is not None:
            self._stages[key] = stage
            self._withdraw(key)
        return stage is not None

    def _withdraw(self, key: StageKey) -> None:
        if (single := self._single.pop(key, None)) is not None:
            self._sharing_of(single[0]).offered.discard(key)

    def _sharing_of(self, run: Run) -> NetworkSharing:
        network, vocabulary = _network_of(run), run.evaluator.vocabulary
        if network.sharing is None:
            if self._terms is None:
                self._terms = vocabulary.another()
            network.sharing = NetworkSharing(network, run.numbers[0], vocabulary, self._terms)
        return network.sharing

    def _begin_anew(self) -> None:
        """The terms that shared stages have created are forgotten, and with them the stages: the networks that read
        them are built anew."""
        for run in self._runs:
            sharing = _network_of(run).sharing
            if sharing is not None and any(True for _ in sharing.stages):
                sharing.is_lost = True
                sharing.offered.clear()
            elif sharing is not None:
                _network_of(run).sharing = None
                self._trials[run] = _Trial()
        self._stages, self._single, self._terms = {}, {}, None
        self._lengths, self._unlike = None if self._lengths is None else WindowLengths(), {}

    def _no_longer_of(self, sharing: NetworkSharing) -> list[SharedStage]:
        """What it has alone is not for others any more; returns its shared stages."""
        for key in sharing.offered:
            del self._single[key]
            if self._lengths is not None:
                self._lengths.remove(key)
        sharing.offered.clear()
        return list(sharing.stages)

    def _forget_unread(self, stages: Iterable[SharedStage]) -> None:
        stages = list(stages)
        self._unread += [stage for stage in stages if not stage.readers and stage.lent]
        self._forget([stage for stage in stages if not stage.readers and not stage.lent])

    def _forget(self, stages: Iterable[SharedStage]) -> None:
        """With what was there for these only."""
        waiting = list(stages)
        while waiting:
            stage = waiting.pop()
            if self._stages.get(stage.key) is not stage:
                continue
            del self._stages[stage.key]
            if self._lengths is not None:
                self._lengths.remove(stage.key)
            if (longer := stage.longer) is not None:
                stage.forget()
                if not longer.shorter:
                    longer.operator.renew(False)
                waiting += [each for each in longer.with_inputs() if not each.readers and not each.lent]

    # ---- windows of other lengths

    def hand_down(self) -> None:
        """Before a snapshot: operators over windows that no query has any more get shorter, those of the longest one
        that has their rows. So what does not fit into a budget is no fault of windows that are gone."""
        unread, self._unread = self._unread, []
        for stage in unread:
            if not stage.readers and stage.shorter and self._stages.get(stage.key) is stage:
                stage.hand_down()
        self._forget([stage for stage in unread if not stage.readers and not stage.lent])

    def _unite_lengths(self, lengths: WindowLengths) -> None:
        """Operators that do the same as one over longer windows have its rows from now on."""
        for shape in [shape for shape, trial in self._unlike.items() if trial.is_due()]:
            if not lengths.again(shape):
                del self._unlike[shape]
        while (changed := lengths.next_changed()) is not None:
            self._go_on_with(list(self._united(lengths, changed)))

    def _united(self, lengths: WindowLengths, shape: OperatorShape) -> Iterator[tuple[Run, int]]:
        """The networks that share an operator of this shape from now on, and where they have it."""
        are_alike = True
        for key, longer_key, by_ms in lengths.pairs(shape, self._stages):
            (_, inputs), (_, longer_inputs) = key, longer_key
            if any(each.source is not other.source for each, other in zip(inputs, longer_inputs, strict=True)):
                continue  # when these are one it is tried again
            for each in (longer_key, key):
                yield from self._made_shared(each)
            stage, longer = self._stages.get(key), self._stages.get(longer_key)
            if stage is None or longer is None or not self._has_content_of(stage, longer, by_ms):
                are_alike = False
                continue
            length_ms = lengths.length_ms(longer_key)
            stage.read_longer(longer, by_ms, (length_ms - by_ms) / length_ms)
            lengths.united(stage)
        if are_alike:
            self._unlike.pop(shape, None)
        else:
            self._unlike.setdefault(shape, _Trial()).failed()

    def _made_shared(self, key: StageKey) -> Iterator[tuple[Run, int]]:
        """An operator that one network has is made a stage, if it can."""
        if key in self._stages:
            return
        run, place = self._single[key]
        if self._makes_stage(run, place, key):
            yield run, place

    def _has_content_of(self, stage: SharedStage, longer: SharedStage, by_ms: int) -> bool:
        """Whether it has shown what the other one has, as over windows that are shorter by so much. What a set has
        shown does so if every row has the validity of its latest copy: from now on it has."""
        evaluated = next(iter(self._runs)).cohorts[0].evaluated
        assert evaluated is not None, "it was evaluated before it joined"
        renewed = self._is_renewed(stage), self._is_renewed(longer)
        if not all(renewed):
            return False
        shown = zip(stage.shown(evaluated.time), longer.shown(evaluated.time), strict=True)
        return all(are_same(mine, of_shorter_windows(theirs, by_ms, evaluated.time)) for mine, theirs in shown)

    def _is_renewed(self, stage: SharedStage) -> bool:
        """Whether it has shown each row with its latest copy, and will do so; if not, a scan does so with the next
        evaluation, if all that read it are awake to see it."""
        operator = stage.operator
        is_renewed = operator.is_renewed
        may_renew = operator.renews_later and all(run in self._awake for run in self._runs if _reads(run, stage))
        if is_renewed or may_renew:
            operator.renew(True)
        return is_renewed


def _reads(run: Run, scan: SharedStage) -> bool:
    sharing = _network_of(run).sharing
    return sharing is not None and sharing.reads(scan)


def _network_of(run: Run) -> Network:
    return run.evaluator.triggered(False).network
