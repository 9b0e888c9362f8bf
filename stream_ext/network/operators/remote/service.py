"""Service: solutions joined with those of a pattern that another SPARQL endpoint solves.

    ?city :mayor ?person        SERVICE <http://elsewhere/sparql> { ?person :born ?year }

The other side is told what is known: the distinct values of what both sides share go there as VALUES, some hundred at
a time, each with its number; by that number its solutions come back to the rows that they belong to.

Asked for ever, what was answered is remembered while a row needs it, so that a retraction takes away what its row has
brought. What has become too old is asked for again, all of it at once, and what is another answer by then goes out as
a change: the rows with the old one are taken back."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import count

import numpy as np

from hbase_store.layout.terms import parse_term
from stream_ext.errors import NotAllowed, ServiceFailed, SourceFailed
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import ServicePattern as Written
from stream_ext.language.algebra.terms import Constant, Position, Variable
from stream_ext.language.algebra.walk import Part, parts_of
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.remote.remote_answers import (
    AnsweredRows,
    Found,
    Key,
    PresentRows,
    columns_of,
    keys_in,
)
from stream_ext.network.operators.remote.remote_question import (
    AnswerLabels,
    RemoteQuestion,
    ServiceCall,
    Texts,
    batches,
    is_same_value,
)
from stream_ext.remote.allowed_urls import AllowedUrls, OutOfBounds
from stream_ext.remote.backoff import Backoff, ServiceAnswers
from stream_ext.remote.fetching import CannotFetch, NoAnswer
from stream_ext.remote.gathering import gather
from stream_ext.remote.shown_urls import shown_url
from stream_ext.remote.sources import NO_SOURCES, Sources
from stream_ext.remote.sparql_client import Remotes, Solution
from stream_ext.rows.zset import Ids, ZSet, concat, consolidate, empty
from stream_ext.values.vocabulary import Vocabulary

#: Answers that are retained for another network of the query, beyond twice those in use.
_SERVICE_ANSWERS_MAX = 1 << 10

#: Cells for each row beside its columns, for its origin.
_CELLS_WITH_ROW = 4

_askings = count()

Places = np.typing.NDArray[np.int64]


class Unanswered(Exception):
    """SERVICE without SILENT had no answer, or a source (which has no `position` in the text). `forbidden`: the
    endpoint may not be requested. `later`: there may be an answer when these may be requested again (`why_not`); empty:
    there will never be one."""

    def __init__(self, why: str, position: Position | None, forbidden: bool, later: tuple[Hashable, ...] = ()) -> None:
        self.why, self.position, self.forbidden, self.later = why, position, forbidden, later
        super().__init__(why if position is None else f"line {position.line}, column {position.column}: {why}")


class _Later(Exception):
    """There is no answer now."""

    def __init__(self, why: str, what: tuple[Hashable, ...]) -> None:
        self.what = what
        super().__init__(why)


class placed:
    """An error of SERVICE shows its place in the text of the query."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Unanswered):
            if error.position is None:
                raise SourceFailed(error.why) from None
            found = NotAllowed if error.forbidden else ServiceFailed
            raise found(error.why, self._text, *error.position) from None


def check_services(roots: Iterable[Part], allowed_urls: AllowedUrls, text: str, sources: Sources = NO_SOURCES) -> None:
    """NotAllowed for a service that may not be requested, whether or not the query would do it. Sources may always be,
    but not asked to request others: what a source can reach, its clients here may not.

    SERVICE inside of SERVICE of other endpoints is not checked: the remote endpoint evaluates it."""
    waiting = list(roots)
    while waiting:
        part = waiting.pop()
        if isinstance(part, Written) and asks_source([part], sources):
            _check_none_inside(part, text)
        if not isinstance(part, Written):
            waiting += parts_of(part)
        elif isinstance(part.service, Constant) and not part.silent:
            if sources.meant(part.written, parse_term(part.service.text).value) is not None:
                continue
            try:
                allowed_urls.check_service(parse_term(part.service.text).value)
            except OutOfBounds as error:
                raise NotAllowed(str(error), text, *part.position) from None


def _check_none_inside(written: Written, text: str) -> None:
    waiting = list(parts_of(written))
    while waiting:
        part = waiting.pop()
        if isinstance(part, Written):
            words = (
                "SERVICE inside of SERVICE is not sent to a source, which would request it: write it beside the other"
            )
            raise NotAllowed(words, text, *part.position)
        waiting += parts_of(part)


def asks_source(roots: Iterable[Part], sources: Sources) -> bool:
    """Whether a service may be one of these sources: it is named so, or is a variable."""
    waiting = list(roots) if sources else []
    while waiting:
        part = waiting.pop()
        if not isinstance(part, Written):
            waiting += parts_of(part)
        elif (
            not isinstance(part.service, Constant)
            or sources.meant(part.written, parse_term(part.service.text).value) is not None
        ):
            return True
    return False


class ServiceOperator:
    def __init__(self, left: tuple[str, ...], call: ServiceCall) -> None:
        self._call, self._left = call, left
        self.shared = tuple(name for name in call.names if name in left)
        self._asker = call.service.name if isinstance(call.service, Variable) else None
        rest = [name for name in call.names if name not in left]
        if self._asker is not None and self._asker not in (*left, *rest):
            rest.append(self._asker)
        self.variables = (*left, *rest)
        self._stored = AnsweredRows(call.names, self.shared)
        self._rows = PresentRows(len(left))
        self._service_answers = ServiceAnswers()
        self._turn = 0  # in which all answers were requested last
        self._unanswered: set[Key] = set()  # SILENT
        self._tried_sn = 0  # the snapshot at which one of these was requested last

    def step(self, moment: Moment, left: ZSet) -> ZSet:
        # After a last step there is none, and other threads may step this operator at the same time.
        return self._once(moment, left) if moment.last else self._step_registered(moment, left)

    def _once(self, moment: Moment, left: ZSet) -> ZSet:
        if not left.count:
            return empty(len(self.variables))
        keys = self._keys(left)
        stored = AnsweredRows(self._call.names, self.shared)
        stored.take(self._answers(keys_in(keys), moment)[0], moment.vocabulary, is_last=True)
        return self._joined(moment, left, stored.of_numbers(stored.numbers(keys)), stored)

    def _step_registered(self, moment: Moment, left: ZSet) -> ZSet:
        """First, changed answers change the rows that are there; then new rows are joined with the answers."""
        stored, keys = self._stored, self._keys(left)
        again = self._due(moment, keys) if moment.requests_again else []
        if not left.count and not again:
            return empty(len(self.variables))
        numbers = stored.numbers(keys)
        coming = stored.unanswered(keys, numbers)
        changes = []
        if again or coming:
            found, unanswered = self._found([*again, *coming], moment)
            self._unanswered = self._unanswered.difference(again) | unanswered
            changes = self._changed(moment, stored.differing(found), found)
        changes.append(self._joined(moment, left, stored.of_numbers(numbers), stored))
        self._rows.take(left)
        return concat(changes, len(self.variables))

    def _changed(self, moment: Moment, different: list[Key], found: Found) -> list[ZSet]:
        """Stores the changed answers; returns the change of the rows that are there."""
        stored = self._stored
        before = [key for key in different if key in stored.places]
        if not before:
            stored.take({key: found[key] for key in different}, moment.vocabulary)
            return []
        rows = self._rows.summed(moment.time)
        numbers = stored.numbers(self._keys(rows))
        mask = np.isin(numbers, stored.numbers(columns_of(before, self._width)))
        rows, numbers = rows.take(mask), numbers[mask]
        then = stored.of_numbers(numbers)
        stored.take({key: found[key] for key in different}, moment.vocabulary)
        removed = self._joined(moment, rows, then, stored)
        added = self._joined(moment, rows, stored.of_numbers(numbers), stored)
        return [consolidate(concat([added, removed.negated()], len(self.variables)))]

    def _joined(self, moment: Moment, left: ZSet, places: tuple[Places, Places], stored: AnsweredRows) -> ZSet:
        """Each row with the solutions at its `places`: where they begin, and how many they are. A variable that is
        unbound on the left gets its value from these."""
        starts, repeats = places
        moment.control.room(int(repeats.sum()), len(self.variables) + _CELLS_WITH_ROW)
        rows = np.repeat(np.arange(left.count), repeats)
        first = np.repeat(np.cumsum(repeats) - repeats, repeats)
        found = starts[rows] + np.arange(len(rows)) - first
        left = left.take(rows)
        right = {name: column[found] for name, column in stored.columns.items()}
        columns = [
            np.where(column == 0, right[name], column) if name in right else column
            for name, column in zip(self._left, left.columns, strict=True)
        ]
        nothing = np.zeros(left.count, np.uint64)
        columns += [right.get(name, nothing) for name in self.variables[len(self._left) :]]
        return left.with_columns(tuple(columns))

    def _keys(self, left: ZSet) -> Ids:
        """The known values of each row: a line for the service, and for each of the shared variables."""
        zeros = np.zeros(left.count, np.uint64)
        named = [*([self._asker] if self._asker else []), *self.shared]
        columns = [left.column(self._left.index(name)) if name in self._left else zeros for name in named]
        if not self._asker:
            columns.insert(0, zeros)
        return np.stack(columns)

    @property
    def _width(self) -> int:
        """The number of ids of a key."""
        return 1 + len(self.shared)

    # ---- repeated requests -----------------------------------------------------------------------------------------

    def _due(self, moment: Moment, coming: Ids) -> list[Key]:
        """The keys to request again: from time to time all that are in use; keys without an answer, as soon as
        allowed. `coming`: those of the rows that come now, which are in use, too."""
        backoff, service_answers = backoff_of(moment), self._shared_answers(moment)
        service_answers.look(backoff)
        if self._turn != service_answers.turn:
            self._turn = service_answers.turn
            self._forget(moment, coming)
            return list(self._stored.places)
        if self._unanswered and self._tried_sn != backoff.sn and self._may_be_answered(moment):
            self._forget(moment, coming)
            return list(self._unanswered)
        if self._rows.is_overgrown:
            self._rows.trim(moment.time)
        if self._stored.is_overgrown:
            self._forget(moment, coming)
        return []

    def _shared_answers(self, moment: Moment) -> ServiceAnswers:
        """The turn that the operator is in."""
        return moment.service_answers or self._service_answers

    def _may_be_answered(self, moment: Moment) -> bool:
        urls = {self._url(service, moment) for service in {key[0] for key in self._unanswered}}
        return any(backoff_of(moment).why_not(url, (url, self._call)) is None for url in urls)

    def _forget(self, moment: Moment, coming: Ids) -> None:
        """Forgets answers that no row needs any more."""
        rows = self._rows.summed(moment.time)
        keys = keys_in(np.concatenate([coming, self._keys(rows)], axis=1))
        self._stored.keep(keys)
        self._unanswered &= set(keys)

    def _found(self, keys: Sequence[Key], moment: Moment) -> tuple[Found, set[Key]]:
        """As `_answers`; answers that another network of the query has got in this turn are not requested again."""
        if (service_answers := moment.service_answers) is None:
            return self._answers(keys, moment)
        there = service_answers.of(self._call)
        known = {key: there[key] for key in keys if key in there}
        answers, unanswered = self._answers([key for key in keys if key not in known], moment)
        answered = {key: solutions for key, solutions in answers.items() if key not in unanswered}
        service_answers.keep(self._call, answered, _SERVICE_ANSWERS_MAX + 2 * len(self._stored.places))
        return {**known, **answers}, unanswered

    # ---- requests -----------------------------------------------------------------------------------------------

    def _answers(self, keys: Sequence[Key], moment: Moment) -> tuple[Found, set[Key]]:
        """The solutions for each key, and the keys without an answer that may have one later."""
        by_service: dict[int, list[Key]] = {}
        for key in keys:
            by_service.setdefault(key[0], []).append(key)
        answers: dict[Key, Sequence[Solution]] = {}
        unanswered: set[Key] = set()
        within_s = None if moment.backoff is None else moment.allowed_urls.service_timeout_s
        with Remotes(moment.allowed_urls, moment.control, within_s, partial(_asker, moment.sources)) as remotes:
            for service, of_service in by_service.items():
                try:
                    url = self._url(service, moment)
                    found = self._request(remotes, url, of_service, moment)
                except (OutOfBounds, CannotFetch, _Later) as error:
                    later = error.what if isinstance(error, _Later) else ()
                    if not self._call.silent:
                        forbidden = isinstance(error, OutOfBounds)
                        raise Unanswered(str(error), self._call.position, forbidden, later) from None
                    # One solution that binds nothing: the rows stay as they are.
                    found = [[{}] for _ in of_service]
                    unanswered.update(of_service if later else ())
                answers.update(zip(of_service, found, strict=True))
        return answers, unanswered

    def _request(self, remotes: Remotes, url: str, keys: list[Key], moment: Moment) -> list[list[Solution]]:
        """As `_ask`; for a registered query, an endpoint that did not answer is not requested for a while."""
        backoff = moment.backoff
        if backoff is None:
            return self._ask(remotes, url, keys, moment.vocabulary)
        this = (url, self._call)
        if (why := backoff.why_not(url, this)) is None:
            answered = remotes.answered
            try:
                found = self._ask(remotes, url, keys, moment.vocabulary)
                backoff.answered(url, this)
                return found
            except CannotFetch as error:
                why = str(error)
                # If it has answered other requests, only this request is the problem.
                backoff.failed(url if isinstance(error, NoAnswer) and remotes.answered == answered else this, why)
        self._tried_sn = backoff.sn
        raise _Later(why, (url, this))

    def _url(self, service: int, moment: Moment) -> str:
        node = self._call.service
        if isinstance(node, Constant):
            url = parse_term(node.text).value
            source = moment.sources.meant(self._call.written, url)
            return url if source is None else source.settings.url
        text = moment.vocabulary.decode(np.array([service], np.uint64))[0] if service else b""
        if text[:1] != b"<":
            if not text:
                raise CannotFetch(
                    f"SERVICE ?{node.name} is unbound: a pattern before SERVICE in its group must bind it"
                )
            raise CannotFetch(f"SERVICE ?{node.name} is {text.decode()}, not the IRI of a service")
        return parse_term(text).value

    def _ask(self, remotes: Remotes, url: str, keys: list[Key], vocabulary: Vocabulary) -> list[list[Solution]]:
        """The solutions for each key."""
        number = next(_askings)
        found: list[list[Solution]] = [[] for _ in keys]
        values = self.values(keys, vocabulary)
        question = RemoteQuestion(self._call, self.shared)
        for batch, (start, stop) in enumerate(batches(values)):
            labels = AnswerLabels(f"{number}.{batch}")
            for solution in remotes.ask(url, question.text(values[start:stop])):
                place = question.place(solution, stop - start, f"<{shown_url(url)}>")
                solution = {name: labels.own(text) for name, text in solution.items()}
                fixed = zip(self.shared, keys[start + place][1:], values[start + place], strict=True)
                if is_compatible(fixed, solution, f"<{shown_url(url)}>"):
                    found[start + place].append(solution)
        return found

    def values(self, keys: list[Key], vocabulary: Vocabulary) -> list[Texts]:
        """The values that are sent for each key; None: the variable is unbound, or a blank node."""
        ids = np.array([key[1:] for key in keys], np.uint64).reshape(len(keys), len(self.shared))
        distinct = np.unique(ids[ids != 0])
        texts = dict(zip(distinct.tolist(), vocabulary.decode(distinct), strict=True)) if len(distinct) else {}
        sent = {id: text for id, text in texts.items() if not text.startswith(b"_:")}
        return [[sent.get(id) for id in row] for row in ids.tolist()]


def _asker(sources: Sources, address: str) -> Callable[[str, Control, int], tuple[list[Solution], int]] | None:
    source = sources.at(address)
    return None if source is None else partial(gather, source)


def is_compatible(fixed: Iterable[tuple[str, int, bytes | None]], solution: Solution, called: str) -> bool:
    """Whether a solution has the values that its row has: names, ids (0: unbound) and texts (None: not sent)."""
    for name, id, text in fixed:
        received = solution.get(name)
        # Blank nodes were not sent, so a value that the endpoint binds there is another one.
        if id and received is not None and (text is None or not is_same_value(text, received, called)):
            return False
    return True


def backoff_of(moment: Moment) -> Backoff:
    assert moment.backoff is not None, "a registered query has a backoff"
    return moment.backoff
