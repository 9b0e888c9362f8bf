"""An evaluator: the network of a run, and what belongs to its state: terms that it created, orders of first appearance.

Most runs have one network. A query that is evaluated at closes and at arrivals has two (`triggered_network`). A run
without windows has one over the store.

An evaluator is built at a position, and then only goes on. A run whose network has created too many terms builds
another one at its present position."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from hbase_store import Store
from stream_ext.continuous.numbered_network import Arrived, NumberedNetwork
from stream_ext.continuous.results import ManyResults, Result, repeated_within, result_of
from stream_ext.continuous.run_plan import RunPlan
from stream_ext.continuous.start_point import ChangesBetween, RelationRow, StartPoint
from stream_ext.continuous.triggered_network import Composed, TriggeredNetwork
from stream_ext.emissions.saved_windows import saved_arrivals
from stream_ext.errors import SourceFailed
from stream_ext.evaluation_budget import Control
from stream_ext.network.inputs import NetworkInputs
from stream_ext.network.network import Network
from stream_ext.network.numbered_rows import NumberedRowsNetwork
from stream_ext.network.operators.answers.r2s import ResultState
from stream_ext.network.operators.answers.ranking import Orders
from stream_ext.network.operators.core.moment import Moment, seed_of
from stream_ext.network.operators.core.parameters import Parameters
from stream_ext.network.operators.remote.service import Unanswered
from stream_ext.oneshot.bind_joins import bind_join_plan, holds_always, holds_at_any
from stream_ext.oneshot.own_quads import OwnQuads
from stream_ext.plan.logic import PatternScan, Select
from stream_ext.remote.backoff import Backoff, ServiceAnswers
from stream_ext.remote.source import MAIN
from stream_ext.rows.zset import Columns, Weights
from stream_ext.values.vocabulary import Vocabulary
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.part import NO_IDS, Ids
from stream_ext.windows.retained import retained_arrivals, within_budget
from stream_ext.windows.scheduled_window import ScheduledWindow, Times
from stream_ext.windows.timing import Timing, arrives_by_element

#: A run whose network has created more terms than this begins anew: most of the terms are in no row any more.
TERMS_CREATED_MAX = 50_000


def _arriving(timing: Timing) -> tuple[ScheduledWindow, ...]:
    """The windows as evaluations at arrivals see them."""
    return tuple(window.for_arrivals() for window in timing.windows)


class Evaluator:
    def __init__(
        self,
        plan: RunPlan,
        store: Store,
        backoff: Backoff,
        control: Control,
        state_bytes: int,
        stepped: Callable[[], int] = lambda: 0,
    ) -> None:
        """`stepped`: the snapshot that the run is stepped in, or was last."""
        self._stepped_sn = stepped
        self._exclusive: tuple[PatternScan, ...] = ()  # the patterns that only the source is asked for
        self._plan, self._store, self._backoff = plan, store, backoff
        self._control, self._state_bytes = control, state_bytes
        if plan.is_over_store:
            self.vocabulary = Vocabulary(store.permanent_ids, store.terms)
        else:
            version, may_go = store.terms_version, store.are_transient
            self.vocabulary = Vocabulary(store.ids, store.terms, version=version, may_go=may_go)
        self._orders = Orders()
        # Networks at closes and at arrivals; both None: it is not built yet.
        self.at_closes: TriggeredNetwork | None = None
        self.at_arrivals: TriggeredNetwork | NumberedNetwork | None = None
        self.numbered: NumberedNetwork | None = None  # that at arrivals, if many of them are one step
        self._relation = Parameters(plan.template.columns if plan.is_shared else ())
        self._composed: Composed | None = None
        self._service_answers: ServiceAnswers | None = None
        #: The network of the last evaluation, and its result. Where queries share it, the first column has their rows.
        self.last: TriggeredNetwork | None = None
        self.last_result: Result = plan.empty_result

    # -- building ------------------------------------------------------------------------------------------------

    @property
    def is_built(self) -> bool:
        return self.at_closes is not None or self.at_arrivals is not None

    def build(self, timing: Timing, at: StartPoint) -> None:
        """Without results: adds the content of the windows, and repeats the last evaluation."""
        last = at.last
        # Only a query that reads nothing of the store may have been evaluated before the oldest snapshot.
        then = max(last.sn, self._store.oldest()) if last else at.sn
        self._make_networks(timing, then, at.ranked)
        after = self._fill(timing, at)
        if last is not None:
            self.enter(at.rows)
            if self.numbered is None:  # what came later is new at the next evaluation, whatever was emitted by the last
                self.evaluate(self.triggered(last.arrived), then, last.time, last.k)
        for triggered, arrival in after:
            triggered.arrive(arrival)

    def build_over_store(self, at: StartPoint) -> None:
        """The answer at `at.sn` is that of the last evaluation, or the query would have been evaluated since."""
        self._orders = Orders(at.ranked)
        self._control.begin(0)
        plan, snapshot, select = self._plan, self._store.at(at.sn), self._select(at.sn)

        def make(windows: Mapping[str, ScheduledWindow]) -> Network:
            inputs = NetworkInputs(snapshot, self._store.permanent_ids, windows, self._control.check)
            return Network.registered(plan.query, select, plan.number, inputs, self._orders, returns=plan.is_of_time)

        self.at_closes = TriggeredNetwork(make, ())
        if (last := at.last) is not None:
            self.at_closes.evaluate(self.moment(self.at_closes, at.sn, last.time, seed_of(plan.number, last.sn, 0)))

    def _make_networks(self, timing: Timing, sn: int, ranked: bytes | None) -> None:
        plan, snapshot, select = self._plan, self._store.at(sn), self._select(sn)
        single = not (timing.arrivals and timing.has_beats)
        orders = self._orders = Orders(ranked)  # both networks see the same answers
        self._control.begin(0)

        def make(windows: Mapping[str, ScheduledWindow]) -> Network:
            inputs = NetworkInputs(snapshot, self._store.ids, windows, self._control.check, keys=plan.keys)
            if plan.is_shared:
                return Network.shared(plan.template, self._relation, inputs)
            returns = plan.query.emits_new and plan.query.is_cut_by_appearance
            return Network.registered(plan.query, select, plan.number, inputs, orders, not single, returns)

        self.at_closes = TriggeredNetwork(make, timing.windows) if timing.has_beats else None
        if timing.arrivals and plan.one_by_one is None:
            windows = _arriving(timing)
            named = {window.name: window for window in windows}
            inputs = NetworkInputs(snapshot, self._store.ids, named, self._control.check, keys=plan.keys)
            if plan.is_shared:
                numbered = NumberedRowsNetwork.over_many(plan.template.select, self._relation, inputs)
            else:
                numbered = NumberedRowsNetwork.over(plan.query, plan.select, plan.number, inputs)
            self.numbered = self.at_arrivals = NumberedNetwork(numbered, windows, plan.repeats)
            return
        self.at_arrivals = TriggeredNetwork(make, _arriving(timing)) if timing.arrivals else None
        network, r2s = self._one_by_one[0].network, plan.query.emits
        self._composed = None if single else Composed(network.cut, r2s, network.construct_at_end, orders)
        self._service_answers = None if single else ServiceAnswers(by_several=True)

    def _select(self, sn: int) -> Select:
        """The plan. Where a source is asked, and each result is the whole answer, what our own store has nothing for at
        first is asked in groups, until it has. A plan that is compared with its answer before stays as it is."""
        plan, sources = self._plan, self._backoff.sources
        if not plan.remote_patterns:
            return plan.select
        snapshots = [self._store.at(each) for each in sorted({sn, max(sn, self._stepped_sn())})]
        holds = holds_at_any(snapshots, self._id_of) if plan.repeats else holds_always
        try:
            found = bind_join_plan(plan.select, plan.remote_patterns, sources.main, holds)
        except SourceFailed as error:
            url = MAIN if sources.main is None else sources.main.settings.url
            raise Unanswered(str(error), None, False, (url,)) from None
        self._exclusive = found.exclusive
        return found.select

    def _id_of(self, text: bytes) -> int:
        return int(self._store.ids([text])[0])

    def is_planned_for(self, sn: int) -> bool:
        """Whether our own store still has nothing of what only the source is asked for."""
        if not self._exclusive:
            return True
        own = OwnQuads(self._store.at(sn), self._id_of)
        return not any(own.holds(each.subject, each.predicate, each.object, each.graph) for each in self._exclusive)

    @property
    def is_left_behind(self) -> bool:
        """Whether one of its two networks was evaluated so long ago that the changes since then are not retained; or
        something was lost that it shares with other queries."""
        if self._composed is None:
            return self.at_closes is not None and self.at_closes.is_lost
        oldest = int(self._store.oldest())
        return self._plan.reads_store and any((n.store_sn or oldest) < oldest for n in self._one_by_one)

    @property
    def source_as_of(self) -> tuple[int, int] | None:
        """Of which time the answers of the source are that it was asked for, or its own evaluation."""
        of_main, last = self._backoff.of_main, self.last
        return of_main.as_of if self._plan.remote_patterns or last is None else last.network.source_as_of

    def _fill(self, timing: Timing, at: StartPoint) -> list[tuple[TriggeredNetwork | NumberedNetwork, Arrival]]:
        """Adds the retained arrivals before `at.first`; returns those that come after the last evaluation."""
        # Windows of the past are evaluated within the snapshot in which they are built.
        within = None if self._plan.is_over_past else at.within
        last, first, after = at.last, at.first, list[tuple[TriggeredNetwork | NumberedNetwork, Arrival]]()
        underway = None if within is None else (at.sn + 1, within.push)

        def arrive(triggered: TriggeredNetwork | NumberedNetwork, arrival: Arrival, before: bool) -> None:
            if before:
                triggered.arrive(arrival)
            else:
                after.append((triggered, arrival))

        begin = (last.sn, last.push) if last is not None else None if first is None else (first.sn, first.push)
        saved, has_begun = self._saved(timing.windows, at), False
        sn, until = at.sn + (within is not None), self._plan.past_until
        self._control.begin(0)
        arrivals = retained_arrivals(self._store, timing.windows, at.reference, sn, begin, saved, until=until)
        for arrival in within_budget(arrivals, self._control):
            if not has_begun and (has_begun := arrival.sn > at.began):
                self._settle(None)  # none of what came before the query began is new
            place = arrival.sn, arrival.push
            if (first is not None and place >= (first.sn, first.push)) or (underway is not None and place > underway):
                break
            # What came after the last evaluation, or after the query began, is new at the next one.
            before = not has_begun if last is None else self._plan.is_over_past or place <= (last.sn, last.push)
            if self.at_closes is not None:
                arrive(self.at_closes, arrival, before)
            up_to = within.arrived_at if within is not None and place == underway else None
            if self.at_arrivals is not None and (up_to is not None or place != underway):
                # In two steps: the elements of the last evaluation, then those without an evaluation.
                evaluated = last.arrived_at if last is not None and place == (last.sn, last.push) else None
                by_element = arrives_by_element(timing.windows, arrival.stream)
                if evaluated is not None:
                    self.at_arrivals.arrive(arrival.between(None, evaluated, by_element))
                    before = False
                arrive(self.at_arrivals, arrival.between(evaluated, up_to, by_element), before)
        self._settle(last.time if has_begun and last is not None else None)
        return after

    def _settle(self, time: int | None) -> None:
        for triggered in self.networks:
            triggered.settle(time)

    def _saved(self, windows: Sequence[ScheduledWindow], at: StartPoint) -> list[Arrival]:
        """The saved content of windows that hold all."""
        if at.last is None or self._plan.is_over_past or not any(window.holds_all for window in windows):
            return []
        return saved_arrivals(self._store.emissions, self._plan.number, at.began, at.last.sn)

    # -- the queries that share it -------------------------------------------------------------------------------

    def enter(self, rows: Sequence[RelationRow]) -> None:
        """Rows of queries, which count from the next evaluation on."""
        for row in self._encoded(rows):
            self._relation.add(row)

    def leave(self, row: RelationRow) -> None:
        self._relation.remove(self._encoded([row])[0])

    def _encoded(self, rows: Sequence[RelationRow]) -> list[list[int]]:
        ids = self.vocabulary.encode([text for _, constants in rows for text in constants])
        own = ids.reshape(len(rows), -1).tolist() if rows else []
        return [[row, *constants] for (row, _), constants in zip(rows, own, strict=True)]

    # -- evaluating ----------------------------------------------------------------------------------------------

    def triggered(self, arrived: bool) -> TriggeredNetwork:
        found = self.at_arrivals if arrived else self.at_closes
        assert isinstance(found, TriggeredNetwork), "the query has no evaluations of this kind"
        return found

    def oldest(self, arrived: bool, window: int, time: int) -> int | None:
        """The least time in a window at `time`, that of the last evaluation, if no length of time limits the window."""
        return self.triggered(arrived).oldest(window, time)

    @property
    def networks(self) -> list[TriggeredNetwork | NumberedNetwork]:
        return [each for each in (self.at_closes, self.at_arrivals) if each is not None]

    @property
    def _one_by_one(self) -> list[TriggeredNetwork]:
        """Those that are stepped evaluation by evaluation."""
        return [triggered for triggered in self.networks if isinstance(triggered, TriggeredNetwork)]

    @property
    def answer(self) -> ResultState:
        return self._one_by_one[0].network.answer if self._composed is None else self._composed.answer

    @property
    def unchanged_result(self) -> Result:
        """That of an evaluation before which nothing has come or gone."""
        if self._plan.repeats:
            return self.last_result
        columns, *_ = self._plan.empty_result
        return ([NO_IDS, *columns], None, True) if self._plan.is_shared else self._plan.empty_result

    @property
    def has_all_rows(self) -> bool:
        """Whether no query has entered or left since the last evaluation."""
        return self._relation.is_settled

    def evaluate(self, triggered: TriggeredNetwork, sn: int, time: int, k: int) -> Result:
        plan = self._plan
        seed = b"" if plan.is_shared else seed_of(plan.number, sn, k)
        if plan.query.emits_new:
            self._leave_out_new(triggered, self.moment(triggered, sn, time, seed))
        moment = self.moment(triggered, sn, time, seed)
        emitted, self.last = triggered.evaluate(moment), triggered
        if self._composed is not None:
            emitted = self._composed.emitted(moment, emitted)
        return self._result_of(emitted)

    def evaluate_in_class(self, sn: int, time: int, k: int) -> Result:
        """As `evaluate`, of a run in a timing class: at closes at which nothing changes it is as if it slept."""
        plan, triggered = self._plan, self.triggered(False)
        if triggered.network.is_unchanged(sn, time):
            self._begin_control()
            triggered.pass_by(sn, time)
        else:
            moment = self.moment(triggered, sn, time, b"" if plan.is_shared else seed_of(plan.number, sn, k))
            emitted, self.last = triggered.evaluate_in_class(moment), triggered
            if emitted is not None:
                return self._result_of(emitted)
        self.last_result = self.unchanged_result
        return self.last_result

    def evaluate_numbered(self, sn: int, times: Times, arrived: Sequence[Arrived]) -> ManyResults:
        """Evaluations at arrivals at these times, in one step."""
        numbered = self.numbered
        assert numbered is not None, "its evaluations are numbered"
        moment = self.moment(numbered, sn, int(times[0]), b"")
        places, stops, columns, weights = numbered.evaluate(moment, times, arrived)
        self.last_result = list(repeated_within(columns, weights, self._control)), None, True
        return ManyResults(places, np.cumsum(weights)[stops - 1], self.last_result[0])

    def _leave_out_new(self, triggered: TriggeredNetwork, moment: Moment) -> None:
        """Brings the network to the answer without what has arrived since the last evaluation. That is no evaluation,
        so the orders of first appearance stay as they are, unless they were saved and their rows come now."""
        orders, are_resumed = self._orders.state(), self._orders.are_resumed
        triggered.leave_out_new(replace(moment, without_new=True))
        if not are_resumed:
            self._orders.return_to(orders)

    def _result_of(self, emitted: tuple[Columns, Weights]) -> Result:
        plan = self._plan
        if plan.is_shared:
            self.last_result = list(repeated_within(*emitted, self._control)), None, True
        else:
            self.last_result = result_of(plan.query, emitted, self._control) if len(emitted[1]) else plan.empty_result
        return self.last_result

    def evaluate_changes(self, sn: int, time: int) -> Result | None:
        """The evaluation of a run over the store after a snapshot that changed it; None: it has the answer that it had.

        A change of NOW() alone is no change: the answer counts as changed if, at the very same moment, the store of the
        snapshot before would have given another answer."""
        triggered, answer, seed = self.triggered(False), self.answer, seed_of(self._plan.number, sn, 0)
        evaluated, orders = answer.evaluated(), self._orders.state()
        if self._plan.is_of_time:
            self._let_time_pass(triggered, self.moment(triggered, sn, time, seed))
            self._orders.return_to(orders)
        before = answer.current()
        answer.compare_with(evaluated)
        emitted = triggered.evaluate(self.moment(triggered, sn, time, seed))
        if not answer.is_unchanged_since(before):
            return self._result_of(emitted)
        answer.compare_with(evaluated)
        if self._plan.is_of_time:
            self._orders.return_to(orders)
        return None

    def skip(self, sn: int) -> None:
        """The store has not changed in this snapshot."""
        self.triggered(False).store_sn = sn

    def _let_time_pass(self, triggered: TriggeredNetwork, moment: Moment) -> None:
        """Evaluates the store of the snapshot before at this moment: what differs then was not changed by the store.

        Changed answers of remote endpoints count as changes of the store; they are requested after this."""
        low = triggered.store_sn
        assert low is not None, "a query that is stepped has been answered before"
        unchanged = ChangesBetween(self._store, low, low)
        triggered.network.step(replace(moment, snapshot=self._store.at(low), changes=unchanged, requests_again=False))

    def moment(self, triggered: TriggeredNetwork | NumberedNetwork, sn: int, time: int, seed: bytes) -> Moment:
        """`triggered`: the network that is about to be evaluated."""
        changes = None if triggered.store_sn is None else ChangesBetween(self._store, triggered.store_sn, sn)
        self._begin_control()
        return Moment(
            time, self._store.at(sn), changes, now_ms=time, seed=seed, control=self._control,
            vocabulary=self.vocabulary, allowed_urls=self._backoff.allowed_urls, backoff=self._backoff,
            service_answers=self._service_answers, sources=self._backoff.sources,
        )  # fmt: skip

    def _begin_control(self) -> None:
        retained = [each.network.retained_bytes(self._state_bytes) for each in self.networks]
        self._control.begin(sum(retained) + self.vocabulary.created_bytes)

    @property
    def created(self) -> int:  # so many terms
        return self.vocabulary.created

    def ranked(self) -> bytes | None:
        """The orders of first appearance, as they are stored."""
        return self._orders.save(self.vocabulary)

    def portable(self, columns: list[Ids]) -> tuple[list[Ids], list[bytes]]:
        """The columns for processes that do not know the terms that were created here, and these terms."""
        return self.vocabulary.portable(columns)
