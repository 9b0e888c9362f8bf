"""The section of statements: the texts of requests become questions; queries are answered, updates published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from os import urandom
from typing import Any, cast

import msgspec

from hbase_store import purpose
from stream_ext.catalog.registered import Registered
from stream_ext.catalog.registered_text import RegisteredText
from stream_ext.errors import BadArgument, NotFound, Overload, QueryTooLarge, SourceFailed
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.statements import Admin, Explain, Update
from stream_ext.language.algebra.windows import Extent
from stream_ext.network.division import NotDivided
from stream_ext.oneshot.answers import Decoded, answer_once, decoded, rows_expected, rows_of
from stream_ext.oneshot.dataset import DatasetOverride
from stream_ext.oneshot.divided.division import DividedPlan, divided_plan
from stream_ext.oneshot.divided.merging import answer_divided
from stream_ext.oneshot.evaluate import Answer, Asking
from stream_ext.oneshot.explanation import explain, operators_of, query_in
from stream_ext.oneshot.plan_lines import plan_lines
from stream_ext.oneshot.question import Question, Questions
from stream_ext.plan.refused_syntax.refuse import runnable
from stream_ext.plan.sources.whole import whole_select
from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.remembered_source import NotFetchedYet, RememberedSource
from stream_ext.remote.source import MAIN
from stream_ext.service.expected_cost import expected_cost
from stream_ext.service.opened import OpenedStore, Wait, check_wait
from stream_ext.service.sources import AttachedSources
from stream_ext.values.known_values import KnownValues
from stream_ext.writer.change import Change
from stream_ext.writer.derived_graphs import read_by
from stream_ext.writer.elements import Ids
from stream_ext.writer.graph_store import GraphAnswer
from stream_ext.writer.registration_warnings import missing_streams
from stream_ext.writer.updates import Updated, UpdateOutcome, change_of, in_turn, updated

#: So often an update is given its turn, if the store changes while a source is asked.
_TURNS_MAX = 50


class Statements:
    """One for each service."""

    def __init__(self, opened: OpenedStore, sources: AttachedSources) -> None:
        self._opened, self._sources = opened, sources
        self._questions, self._known = Questions(), KnownValues(opened.store.terms)

    def question(self, text: str, check: Callable[[], None] | None = None) -> Question:
        """The text, parsed, for a request. `check` is called again and again while a long text is parsed, and may raise
        to end it."""
        self._opened.check_text(text)
        return self._questions.read(text, self._opened.base, check or self._opened.deadline("text"))

    def _question(self, request: str | Question, control: Control) -> Question:
        return request if isinstance(request, Question) else self.question(request, control.check)

    def update(
        self,
        request: str | Question,
        wait: Wait = "published",
        dataset: DatasetOverride | None = None,
        control: Control = Control.FREE,
    ) -> Updated:
        """SPARQL 1.1 Update: all operations of the request, as one snapshot, or none of them.

        `control` may end the request until it is published; then no operation is done."""
        check_wait(wait)
        question = self._question(request, control)
        unit = question.over(dataset).supported()
        if isinstance(unit, Admin):
            raise BadArgument(
                "this statement administers streams or queries, it is not an update: send it to a server (POST /sparql)"
            )
        if not isinstance(unit, Update):
            raise BadArgument("this is a query, not an update: send it as a query (GET or POST /sparql?query=...)")
        if self._sources.writing is not None:
            asking, derived = self._asking(control), self._opened.derived_graphs(self._opened.head(), control)
            return self._sources.writing.update(unit, question.text, asking, derived)
        try:
            published = self._published(unit, question.text, self._asking(control))
        except MemoryError as error:  # nothing of it was done
            raise QueryTooLarge(f"the update needs more memory than is available ({error}): ask for less") from error
        self._opened.wait_for(published.sn, wait)
        return updated(published, self._opened.store)

    def _published(self, update: Update, text: str, asking: Asking) -> UpdateOutcome:
        """While it is the update's turn, all pushes wait, so the source is not asked then: what it would be asked is
        found out, it is asked, and the update has another turn."""
        main = asking.sources.main
        if main is None:
            return cast("UpdateOutcome", self._opened.change(self._change(update, text, asking)))
        source = RememberedSource(main, self._opened.allowed_urls.bytes_max)
        asking = replace(asking, sources=asking.sources.with_main(source))
        for _ in range(_TURNS_MAX):
            change = in_turn(self._change(update, text, asking), source.closed)
            try:
                return cast("UpdateOutcome", self._opened.change(change))
            except NotFetchedYet:
                try:
                    source.ask(asking.control)
                except CannotFetch as error:
                    raise SourceFailed(str(error)) from None
        raise Overload(
            f"the store changed {_TURNS_MAX} times while the source {MAIN} was asked about what the update deletes: "
            "repeat it later, or in parts",
            1,
        )

    def _change(self, update: Update, text: str, asking: Asking) -> Change:
        return change_of(update, text, self._opened.store, self._opened.head(), asking, self._opened.state_of)

    def query(
        self,
        request: str | Question,
        snapshot: int | None = None,
        at: int | None = None,
        dataset: DatasetOverride | None = None,
        control: Control = Control.FREE,
        streams: bool = False,
        by_spark: bool = False,
    ) -> Answer:
        """`dataset` replaces the dataset of the text; `control` may end the query early. `streams`: rows that a source
        answers and that are only passed on are read while they are decoded. `by_spark`: tasks of Spark evaluate it, if
        it can be divided."""
        question = self._question(request, control)
        if by_spark:
            try:
                return self._answer_of_spark(question.over(dataset), snapshot, control)
            except NotDivided as error:
                answer = self.query(question, snapshot, at, dataset, control, streams)
                return msgspec.structs.replace(answer, why_not_divided=str(error))
        asking = self._asking(control, streams, at_snapshot=snapshot is not None)
        try:
            sn = self._opened.retained(snapshot)
            given = self._opened.derived_graphs(sn, control).of_query
            with purpose("query"):
                return answer_once(self._opened.store, question, sn, at, dataset, asking, given)
        except MemoryError as error:
            raise QueryTooLarge(f"the query needs more memory than is available ({error}): ask for less") from error

    def is_ready(self, question: Question) -> bool:
        """Whether a plan for the latest snapshot is known, so that `query` has only to evaluate it."""
        store = self._opened.store
        return question.is_ready(store.at(self._opened.head()), store.permanent_ids)

    def is_divided(
        self, request: str | Question, snapshot: int, dataset: DatasetOverride | None, control: Control
    ) -> bool:
        """Whether tasks of Spark can evaluate the query."""
        try:
            self._divided_plan(self._question(request, control).over(dataset), self._opened.retained(snapshot), control)
        except NotDivided:
            return False
        return True

    def _answer_of_spark(self, question: Question, snapshot: int | None, control: Control) -> Answer:
        sn, asking = self._opened.retained(snapshot), self._asking(control, at_snapshot=snapshot is not None)
        plan = self._divided_plan(question, sn, control)
        query, spark = question.unit, self._opened.engine.spark
        assert isinstance(query, Query), "only queries are divided"
        if spark is None:
            raise NotDivided("the server was started with --engine inline, so it has no Spark")
        try:
            with purpose("query"):
                return answer_divided(self._opened.store, query, plan, sn, asking, spark.tasks)
        except MemoryError as error:
            raise QueryTooLarge(f"the query needs more memory than is available ({error}): ask for less") from error

    def _divided_plan(self, question: Question, sn: int, control: Control) -> DividedPlan:
        question.supported()
        query = question.unit
        if not isinstance(query, Query):
            raise NotDivided("it is no query")
        if self._opened.sources:
            raise NotDivided("a store is attached, and only our own is read by Spark")
        if self.reads_derived(query):
            raise NotDivided("it reads the answer of a registered query, which is not in the store")
        return divided_plan(query, self._opened.store, sn, control.check)

    def reads_derived(self, query: Query, dataset: DatasetOverride | None = None) -> bool:
        """Whether the query may read the answer of a registered query, which is not a graph of the store."""
        if not self._opened.catalog.deriving:
            return False
        read = query if dataset is None else dataset.over(query)
        return isinstance(read, Query) and any(read_by(self._opened.catalog, read))

    def rows_expected(
        self,
        request: str | Question,
        snapshot: int,
        at: int | None,
        dataset: DatasetOverride | None,
        control: Control = Control.FREE,
    ) -> float:
        """The expected work of a query, from its plan: the number of rows that its operators produce together.

        Planning may take long: `control` may end it."""
        question = self._question(request, control)
        return rows_expected(
            self._opened.store, question, self._opened.retained(snapshot), at, dataset, self._asking(control)
        )

    def decode(self, answer: Answer) -> list[tuple[bytes | None, ...]]:
        return rows_of(answer)

    def decoded(self, columns: Sequence[Ids], answer: Answer | GraphAnswer) -> Iterator[Decoded]:
        """The columns of an answer as texts, some thousand rows at a time."""
        if isinstance(answer, GraphAnswer):
            return chain(decoded(columns, answer.decode), answer.more)
        if answer.streamed is not None:
            return answer.streamed
        return decoded(columns, answer.vocabulary.decode, answer.count)

    def check_supported(self, question: Question) -> None:
        """Raises if the text would be refused, whatever is stored."""
        query = query_in(question)
        functions = () if query is None else self._sources.functions_of(query)
        runnable(question.unit, question.text, functions)
        if functions and query is not None:
            whole_select(query, functions)

    def explain(self, request: str | Question) -> dict[str, Any]:
        check = self._opened.deadline("text")
        question = request if isinstance(request, Question) else self.question(request, check)
        query = query_in(question)
        functions = () if query is None else self._sources.functions_of(query)
        found = explain(question, functions)
        if functions:
            return found
        found |= operators_of(self._opened.store, question, check, self._opened.sources)
        if "operators" in found:
            found["divided"] = self._explained_division(question)
        if query is not None and query.windows and "refused" not in found:
            text = RegisteredText.of(query, check)
            found |= self._cost_of(text)
            if any(window.extent is Extent.HISTORY for window in query.windows):
                found["replay"] = self._opened.explained_replay(text) or {"why_not": "a stream of it is not there yet"}
            if missing := list(missing_streams(query, self._opened.catalog, self._opened.base)):
                found["missing_streams"] = missing
        if self._sources.is_holding and query is not None and "refused" not in found:
            found["sources"] = self._sources.explained(RegisteredText.of(query, check))
        return found

    def _explained_division(self, question: Question) -> dict[str, Any]:
        """What engine=spark would do with the query."""
        if isinstance(question.unit, Explain):
            question = Question(question.text, question.base, question.unit.unit)
        control = self._opened.budget.control()
        try:
            plan = self._divided_plan(question, self._opened.head(), control)
        except NotDivided as error:
            return {"why_not": str(error)}
        return {"divided": plan.divided, "merged": plan.merged}

    def _cost_of(self, text: RegisteredText) -> dict[str, Any]:
        """Nothing if a stream is not there yet."""
        catalog = self._opened.catalog
        try:
            registered = Registered.over(text, catalog, sorted(catalog.streams))
        except NotFound:
            return {}
        sharing = self._opened.engine.merge.accounts.sharing(registered.placement)
        return {"cost": expected_cost(registered, catalog, self._opened.store, sharing)}

    def analyze(self, request: str | Question, snapshot: int | None, control: Control) -> dict[str, Any]:
        """As `explain`; the query is evaluated, and each operator has its actual rows and its time."""
        question = self._question(request, control)
        unit = question.supported()
        if isinstance(unit, Query) and self.reads_derived(unit, None):
            raise BadArgument(
                "the query reads results of registered queries, and such a query is not measured: explain it without "
                "running it (explain=true)"
            )
        asking = self._asking(control, at_snapshot=snapshot is not None)
        sn = self._opened.retained(snapshot)
        try:
            with purpose("query") as tally:
                lines = plan_lines(self._opened.store, question, sn, measured=True, asking=asking)
        except MemoryError as error:
            raise QueryTooLarge(f"the query needs more memory than is available ({error}): ask for less") from error
        operators = [
            {"operator": line.text}
            if line.rows is None
            else {"operator": line.text, "estimated": line.estimated, "rows": line.rows, "ms": round(line.ms, 3)}
            for line in lines
        ]
        measured = {"snapshot": sn, "ms": round(sum(line.ms for line in lines), 3), "operators": operators}
        calls = {"hbase_calls": tally.calls, "hbase_ms": round(tally.seconds * 1e3, 3)} if tally.calls else {}
        return explain(question) | measured | calls

    def _asking(self, control: Control, streams: bool = False, at_snapshot: bool = False) -> Asking:
        return Asking(
            self._opened.base,
            self._opened.clock.now_ms(),
            urandom(8),
            control,
            self._opened.allowed_urls,
            self._known,
            self._opened.sources,
            streams,
            at_snapshot,
        )
