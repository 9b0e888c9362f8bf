"""Regular expressions of XPath (F&O 7.6) as Python's.

The two languages look alike and are not: XPath has character classes with subtraction (`[a-z-[aeiou]]`), names of
Unicode blocks, `\\i` and `\\c`, an `$` that means the very end; and has no look-around, no `\\b`, no `(?i)`. So a
pattern is read as XPath says, and written anew (`regex_translation`). `re` runs it where it can, and where that takes
some milliseconds at most: nothing can end it before. `regex` runs it where Unicode properties or subtraction are
needed, where the pattern may take exponential time, and where the text is long: there it gets a deadline, and holds up
nobody."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from stream_ext.errors import DeadlineExceeded, QueryTooLarge
from stream_ext.evaluation_budget import Control
from stream_ext.values.functions.regex_translation import PATTERN_MAX, BadRegex, Translation, quoted

#: For one match of one text.
_TIMEOUT_S = 2.0
#: Texts between two looks at the deadline.
AT_ONCE_MAX = 256
_FLAGS = frozenset("smixq")


class Replacement(NamedTuple):
    """What stands for a match: texts, and the numbers of groups."""

    parts: tuple[str | int, ...]
    template: str  # the same in Python's syntax
    length: int  # of its texts; each group counts one

    def of(self, match: Any, room: Callable[[int], None]) -> str:
        """`room` is told how long it will be."""
        texts = [part if isinstance(part, str) else match[part] or "" for part in self.parts]
        room(sum(map(len, texts)) - len(match[0]))
        return "".join(texts)


class Regex(NamedTuple):
    search: Callable[[str, Control], bool]
    replace: Callable[[Replacement, str, Control], str]
    groups: int
    matches_empty: bool
    literal: str | None  # the text itself that is looked for, where the pattern is plain
    quick: re.Pattern[str] | None = None  # for texts of so many characters at most
    quick_max: int = -1


@lru_cache(maxsize=512)
def regex_of(pattern: str, flags: str) -> Regex | None:
    """None where the pattern or a flag is not legal: in SPARQL that is an error of the call."""
    if not _FLAGS.issuperset(flags):
        return None
    if len(pattern) > PATTERN_MAX:
        raise QueryTooLarge(f"a regular expression of {len(pattern)} characters exceeds the limit of {PATTERN_MAX}")
    literal = pattern if not flags and pattern and pattern.isalnum() else None
    try:
        translation = quoted(pattern) if "q" in flags else Translation(pattern, flags)
        return _compiled(translation, flags, literal)
    except BadRegex:
        return None


def _compiled(translation: Translation, flags: str, literal: str | None) -> Regex:
    ignore = re.IGNORECASE if "i" in flags else 0
    if translation.needs_properties or translation.is_risky:
        timed = _Timed(translation, ignore)
        return Regex(timed.search, timed.replace, timed.groups, timed.matches_empty, literal)
    compiled = re.compile(translation.text, re.DOTALL | ignore)
    found, replaced = compiled.search, compiled.sub
    length_max = translation.length_max()
    slow: list[_Timed] = []  # made when it is needed

    def timed_anew() -> _Timed:
        if not slow:
            slow.append(_Timed(translation, ignore))
        return slow[0]

    def search(text: str, control: Control) -> bool:
        return found(text) is not None if len(text) <= length_max else timed_anew().search(text, control)

    def replace(by: Replacement, text: str, control: Control) -> str:
        if len(text) > length_max:
            return timed_anew().replace(by, text, control)
        return _replaced(lambda template: replaced(template, text), by, text, control)

    return Regex(search, replace, compiled.groups, found("") is not None, literal, compiled, length_max)


def _replaced(replaced: Callable[[Any], str], by: Replacement, text: str, control: Control) -> str:
    """A text has no more matches than characters, and a group in one is no longer than the match."""
    if len(text) + (2 * len(text) + 1) * by.length <= control.term_bytes:
        return control.text(replaced(by.template))
    size = len(text)

    def room(more: int) -> None:
        nonlocal size
        size += more
        control.term(size)

    return control.text(replaced(lambda match: by.of(match, room)))


class _Timed:
    """A pattern for the library `regex`, which can stop a search in time, and lets other threads run meanwhile."""

    def __init__(self, translation: Translation, ignore: int) -> None:
        import regex  # late: 30 ms that only such patterns cost

        try:
            # V1 has classes within classes; without full case-folding a character matches one character.
            compiled = regex.compile(f"(?V1{'-f' if ignore else ''}){translation.text}", regex.DOTALL | ignore)
        except regex.error as error:  # a block or category that there is not
            raise BadRegex(str(error)) from None
        self._compiled, self._source = compiled, translation.source
        self.groups, self.matches_empty = int(compiled.groups), compiled.search("") is not None

    def search(self, text: str, control: Control) -> bool:
        return bool(self._in_time(self._compiled.search, control, text))

    def replace(self, by: Replacement, text: str, control: Control) -> str:
        return _replaced(
            lambda template: str(self._in_time(self._compiled.sub, control, template, text)), by, text, control
        )

    def _in_time(self, work: Callable[..., Any], control: Control, *arguments: Any) -> Any:
        control.check()
        try:
            return work(*arguments, timeout=control.left_s(_TIMEOUT_S), concurrent=True)
        except TimeoutError:
            control.check()
            raise DeadlineExceeded(
                f"the regular expression {self._source[:80]!r} took longer than {_TIMEOUT_S:g} s on one text: "
                "avoid repetitions inside repetitions, or shorten the text"
            ) from None


# ---- replacements --------------------------------------------------------------------------------------------------

_REPLACEMENT = re.compile(r"\\(.?)|\$([0-9]*)|[^\\$]+", re.DOTALL)


@lru_cache(maxsize=512)
def replacement_of(text: str, groups: int, literal: bool) -> Replacement | None:
    """What `$1` and `\\$` mean; None where XPath does not allow the text."""
    if literal:
        return _replacement([text])
    parts: list[str | int] = []
    for found in _REPLACEMENT.finditer(text):
        if found[1] is not None:
            if found[1] not in ("\\", "$"):
                return None
            parts.append(found[1])
        elif found[2] is not None:
            if not found[2]:
                return None
            parts += _group_reference(found[2], groups)
        else:
            parts.append(found[0])
    return _replacement(parts)


def _replacement(parts: Sequence[str | int]) -> Replacement:
    texts = [rf"\g<{part}>" if isinstance(part, int) else part.replace("\\", r"\\") for part in parts]
    return Replacement(tuple(parts), "".join(texts), sum(len(part) if isinstance(part, str) else 1 for part in parts))


def _group_reference(digits: str, groups: int) -> list[str | int]:
    """`$12` in a replacement: group 12 if the pattern has so many groups, else group 1 and the text `2`. A group
    that the pattern does not have is empty."""
    length = len(digits)
    while length > 1 and int(digits[:length]) > groups:
        length -= 1
    number = int(digits[:length])
    return [*([number] if number <= groups else []), digits[length:]]
