"""Functions on strings (SPARQL 1.1, 17.4.3).

A string is a `str` or a `Tagged`. Two of them are compatible if the second is a `str`, or has the language of the
first. What is made from one string keeps its language. What may be longer than its arguments is made `within` a
budget, which looks at its length before it is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from stream_ext.evaluation_budget import Control
from stream_ext.values.functions.regexes import Regex, regex_of, replacement_of
from stream_ext.values.values import Tagged, Value

_Argument = Value | None
_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"


def _lexical(value: _Argument) -> str | None:
    if isinstance(value, str):
        return value
    return value.lexical if isinstance(value, Tagged) else None


def _like(value: _Argument, lexical: str) -> Value:
    """`lexical` with the language of `value`."""
    return Tagged(lexical, value.language, value.written) if isinstance(value, Tagged) else lexical


def _compatible(left: _Argument, right: _Argument) -> tuple[str, str] | None:
    if isinstance(left, str):
        return (left, right) if isinstance(right, str) else None
    if not isinstance(left, Tagged):
        return None
    if isinstance(right, str):
        return left.lexical, right
    if isinstance(right, Tagged) and left.language == right.language:
        return left.lexical, right.lexical
    return None


def strlen(value: _Argument) -> int | None:
    lexical = _lexical(value)
    return None if lexical is None else len(lexical)


def _in_case(change: Callable[[str], str], control: Control) -> Callable[[_Argument], Value | None]:
    """One character becomes three at most."""

    def changed(value: _Argument) -> Value | None:
        lexical = _lexical(value)
        return None if lexical is None else _like(value, control.text(change(lexical)))

    return changed


ucase_within = partial(_in_case, str.upper)
lcase_within = partial(_in_case, str.lower)


def strstarts(value: _Argument, start: _Argument) -> bool | None:
    both = _compatible(value, start)
    return None if both is None else both[0].startswith(both[1])


def strends(value: _Argument, end: _Argument) -> bool | None:
    both = _compatible(value, end)
    return None if both is None else both[0].endswith(both[1])


def contains(value: _Argument, part: _Argument) -> bool | None:
    both = _compatible(value, part)
    return None if both is None else both[1] in both[0]


def strbefore(value: _Argument, part: _Argument) -> Value | None:
    """What is not found leaves the simple literal "", without a language."""
    both = _compatible(value, part)
    if both is None:
        return None
    before, found, _ = both[0].partition(both[1]) if both[1] else ("", True, "")
    return _like(value, before) if found else ""


def strafter(value: _Argument, part: _Argument) -> Value | None:
    both = _compatible(value, part)
    if both is None:
        return None
    _, found, after = both[0].partition(both[1]) if both[1] else ("", True, both[0])
    return _like(value, after) if found else ""


def encode_for_uri_within(control: Control) -> Callable[[_Argument], str | None]:
    def encoded(value: _Argument) -> str | None:
        lexical = _lexical(value)
        if lexical is None:
            return None
        if 12 * len(lexical) > control.term_bytes:  # one character becomes four bytes, each of them three
            data = lexical.encode()
            control.term(3 * len(data) - 2 * (len(data) - len(data.translate(None, _UNRESERVED))))
        return quote(lexical, safe="-_.~")

    return encoded


def concat_within(control: Control) -> Callable[..., Value | None]:
    """The language stays where all have the same one."""
    most = control.term_bytes

    def concat(*values: _Argument) -> Value | None:
        lexicals = [value if type(value) is str else _lexical(value) for value in values]
        if None in lexicals:
            return None
        if (length := sum(map(len, lexicals))) > most:  # type: ignore[arg-type]  # none of them is None
            control.term(length)
        joined = control.text("".join(lexicals))  # type: ignore[arg-type]  # as above
        first = values[0] if values else None
        if isinstance(first, Tagged) and all(isinstance(v, Tagged) and v.language == first.language for v in values):
            return _like(first, joined)
        return joined

    return concat


def substr(value: _Argument, start: _Argument, *length: _Argument) -> Value | None:
    """Counts characters from 1; what lies before the first or behind the last is not there (fn:substring)."""
    lexical = _lexical(value)
    if lexical is None or type(start) is not int or (length and type(length[0]) is not int):
        return None
    begin = start - 1
    end = begin + length[0] if length and isinstance(length[0], int) else len(lexical)
    return _like(value, lexical[max(begin, 0) : max(end, 0)])


def lang_matches(tag: _Argument, wanted: _Argument) -> bool | None:
    """Basic filtering (RFC 4647, 3.3.1): a range matches itself and what is longer by whole subtags."""
    if not isinstance(tag, str) or not isinstance(wanted, str):
        return None
    if wanted == "*":
        return tag != ""
    tag, wanted = tag.lower(), wanted.lower()
    return tag == wanted or (wanted != "" and tag.startswith(wanted + "-"))


def _regex(pattern: _Argument, flags: tuple[_Argument, ...]) -> Regex | None:
    given = flags[0] if flags else ""
    return regex_of(pattern, given) if isinstance(pattern, str) and isinstance(given, str) else None


def regex_within(control: Control) -> Callable[..., bool | None]:
    def regex(value: _Argument, pattern: _Argument, *flags: _Argument) -> bool | None:
        return regex_bound(control, pattern, *flags)(value)

    return regex


def regex_bound(control: Control, pattern: _Argument, *flags: _Argument) -> Callable[[_Argument], bool | None]:
    """REGEX of one pattern: all that depends on it is done once."""
    found = _regex(pattern, flags)
    if found is None:
        return lambda value: None
    search, literal, quick_max = found.search, found.literal, found.quick_max
    if literal is not None or found.quick is None:

        def matches(value: _Argument) -> bool | None:
            lexical = value if type(value) is str else _lexical(value)
            if lexical is None:
                return None
            return literal in lexical if literal is not None else search(lexical, control)

        return matches
    return _Quickly(found.quick.search, quick_max, lambda text: search(text, control))


class _Quickly:
    """REGEX of a pattern that short texts are matched with quickly, many at a time."""

    def __init__(self, quick: Callable[[str], Any], quick_max: int, search: Callable[[str], bool]) -> None:
        self._quick, self._quick_max, self._search = quick, quick_max, search

    def __call__(self, value: _Argument) -> bool | None:
        lexical = _lexical(value)
        if lexical is None:
            return None
        return self._quick(lexical) is not None if len(lexical) <= self._quick_max else self._search(lexical)

    def of_many(self, values: Sequence[_Argument]) -> list[bool | None]:
        quick = self._quick
        if set(map(type, values)) == {str} and max(map(len, values)) <= self._quick_max:  # type: ignore[arg-type]
            return [quick(value) is not None for value in values]  # type: ignore[arg-type]  # all are strings
        return list(map(self, values))


def replace_within(control: Control) -> Callable[..., Value | None]:
    """A pattern that matches the empty string is an error (F&O, FORX0003)."""
    most = control.term_bytes

    def replace(value: _Argument, pattern: _Argument, replacement: _Argument, *flags: _Argument) -> Value | None:
        lexical, found = _lexical(value), _regex(pattern, flags)
        if lexical is None or found is None or found.matches_empty or not isinstance(replacement, str):
            return None
        is_literal = bool(flags) and isinstance(flags[0], str) and "q" in flags[0]
        parts = replacement_of(replacement, found.groups, is_literal)
        if parts is None:
            return None
        length = len(lexical)
        # As in `regexes`, where it takes neither long nor much; mostly it does not.
        if length <= found.quick_max and found.quick is not None and 8 * (length + 1) * (parts.length + 1) <= most:
            replaced = found.quick.sub(parts.template, lexical)
        else:
            replaced = found.replace(parts, lexical, control)
        return replaced if type(value) is str else _like(value, replaced)

    return replace
