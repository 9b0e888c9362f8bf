"""Translating regular expressions: a pattern of XPath (F&O 7.6) becomes one of Python.

    [a-z-[aeiou]]    =>    [[a-z]--[aeiou]]

What `re` cannot do is marked as needing `regex`."""

from __future__ import annotations

import re

from stream_ext.errors import QueryTooLarge

#: So many steps take `re` some milliseconds.
STEPS_MAX = 400_000
PATTERN_MAX, NESTING_MAX = 16_384, 100
#: A piece that is repeated more often than this counts as one that is repeated for ever.
_OFTEN = 8
_ESCAPED = {"n": r"\n", "r": r"\r", "t": r"\t"}
_LITERAL_ESCAPES = frozenset(r"\|.?*+(){}-[]^$")
_NAME_START = (
    ":A-Z_a-z\xc0-\xd6\xd8-\xf6\xf8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NAME = _NAME_START + "\\-.0-9\xb7\u0300-\u036f\u203f\u2040"
_NOT_WORD = r"\p{P}\p{Z}\p{C}"
#: What stands inside of the brackets, and whether it is their complement.
_CLASSES = {
    "d": (r"\d", False),
    "s": (r" \t\n\r", False),
    "i": (_NAME_START, False),
    "c": (_NAME, False),
    "w": (_NOT_WORD, True),
}
_PROPERTY = re.compile(r"\{(?:Is([A-Za-z0-9\-]+)|([LMNPZSC][a-z]?))\}")
_QUANTIFIER = re.compile(r"(\*|\+|\?|\{[0-9]{1,9}(?:(,)([0-9]{1,9})?)?\})(\??)")
_START, _END = r"(?:\A|(?<=\n)(?!\Z))", r"(?=\n|\Z)"


class BadRegex(ValueError):
    """The pattern is none of XPath's."""


def quoted(pattern: str) -> Translation:
    translation = Translation("", "")
    translation.text, translation.source = re.escape(pattern), pattern
    return translation


class Translation:
    """One pass over the pattern; `text` is what came out."""

    def __init__(self, pattern: str, flags: str) -> None:
        self.source = pattern
        self.needs_properties = False
        self.is_risky = False
        self._pattern = _without_blanks(pattern) if "x" in flags else pattern
        self._multiline, self._dot = "m" in flags, "." if "s" in flags else r"[^\n]"
        self._at = 0
        self._groups = 0
        self._closed: set[int] = set()
        self._unbounded = 0  # repetitions without an end
        self._choices = 0  # repetitions and alternatives
        self._depth = 0
        self.text = self._alternatives()
        if self._at < len(self._pattern):
            raise BadRegex("a ) that closes nothing")
        self.is_risky = self.is_risky or self._unbounded > 2

    def length_max(self) -> int:
        """So many characters a text may have to be matched in not too many steps."""
        steps = STEPS_MAX // (1 + len(self.text) // 32)
        return int(steps ** (1 / (1 + self._unbounded)))

    def _alternatives(self) -> str:
        parts: list[str] = []
        while self._at < len(self._pattern) and self._pattern[self._at] != ")":
            parts.append(self._piece())
        return "".join(parts)

    def _piece(self) -> str:
        before = self._choices
        char = self._pattern[self._at]
        self._at += 1
        if char == "|":
            self._choices += 1
            return "|"
        atom = self._atom(char)
        found = _QUANTIFIER.match(self._pattern, self._at)
        if found is None:
            return atom
        self._at = found.end()
        repeated, comma, most, _ = found.groups()
        # What can match in several ways, and is repeated, may take exponential time.
        self.is_risky = self.is_risky or (repeated != "?" and self._choices > before)
        often = repeated[0] == "{" and int(most or repeated[1:].rstrip("}").split(",")[0]) > _OFTEN
        self._unbounded += repeated in "*+" or bool(comma and most is None) or often
        self._choices += 1
        if most is not None and int(most) < int(repeated[1:].split(",")[0]):
            raise BadRegex(f"{repeated} counts down")
        return f"(?:{atom}){found[0]}" if char in "^$" else atom + found[0]

    def _atom(self, char: str) -> str:
        match char:
            case "\\":
                return self._escape()
            case "[":
                return self._class()
            case "(":
                return self._group()
            case ".":
                return self._dot
            case "^":
                return _START if self._multiline else r"\A"
            case "$":
                return _END if self._multiline else r"\Z"
            case "?" | "*" | "+" | "{" | "}" | "]":
                raise BadRegex(f"{char} repeats nothing")
            case _:
                return re.escape(char)

    def _group(self) -> str:
        captures = not self._pattern.startswith("?:", self._at)
        if captures:
            self._groups += 1
            number = self._groups
        else:
            self._at += 2
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise QueryTooLarge(f"a regular expression with more than {NESTING_MAX} groups, one inside the other")
        inner = self._alternatives()
        self._depth -= 1
        if not self._pattern.startswith(")", self._at):
            raise BadRegex("a ( that is not closed")
        self._at += 1
        if not captures:
            return f"(?:{inner})"
        self._closed.add(number)
        return f"({inner})"

    # ---- escapes

    def _next(self) -> str:
        if self._at >= len(self._pattern):
            raise BadRegex("the pattern ends too early")
        char = self._pattern[self._at]
        self._at += 1
        return char

    def _escape(self) -> str:
        char = self._next()
        if char.isascii() and char.isdigit():
            return self._back_reference(char)
        inside, complement = self._escaped(char)
        if len(inside) <= 2 and not complement:
            return inside
        return f"[{'^' if complement else ''}{inside}]"

    def _escaped(self, char: str) -> tuple[str, bool]:
        """What an escape stands for, as inside of brackets, and whether it is the complement of it."""
        if char in _ESCAPED:
            return _ESCAPED[char], False
        if char in _LITERAL_ESCAPES:
            return "\\" + char, False
        if char in "pP":
            return self._property(), char == "P"
        if char.lower() in _CLASSES:
            inside, complement = _CLASSES[char.lower()]
            self.needs_properties = self.needs_properties or char in "wW"
            return inside, complement != char.isupper()
        raise BadRegex(f"\\{char} is not an escape sequence of XPath")

    def _property(self) -> str:
        found = _PROPERTY.match(self._pattern, self._at)
        if found is None:
            raise BadRegex("\\p is followed by a category or block in braces")
        self._at = found.end()
        self.needs_properties = True
        return rf"\p{{Block={found[1]}}}" if found[1] else rf"\p{{{found[2]}}}"

    def _back_reference(self, digit: str) -> str:
        """A back reference, as `\\12`: it has as many digits as form the number of a group of the pattern."""
        number = int(digit)
        while self._at < len(self._pattern) and self._pattern[self._at] in "0123456789":
            longer = number * 10 + int(self._pattern[self._at])
            if longer > self._groups:
                break
            number = longer
            self._at += 1
        if number not in self._closed:
            raise BadRegex(f"\\{number} refers to no group before it")
        self.is_risky = True
        return rf"(?:\{number})"

    # ---- classes of characters

    def _class(self) -> str:
        negated = self._pattern.startswith("^", self._at)
        self._at += negated
        items: list[str] = []
        subtracted = ""
        while not self._pattern.startswith("]", self._at):
            if self._pattern.startswith("-[", self._at) and items:
                self._at += 2
                subtracted = self._class()
                if not self._pattern.startswith("]", self._at):
                    raise BadRegex("a class must end after the class that is subtracted from it")
                break
            items.append(self._item())
        self._at += 1
        if not items:
            raise BadRegex("a class without characters")
        whole = f"[{'^' if negated else ''}{''.join(items)}]"
        if not subtracted:
            return whole
        self.needs_properties = True
        return f"[{whole}--{subtracted}]"

    def _item(self) -> str:
        """A character, a range or an escape."""
        low = self._single()
        if len(low) != 1 or not self._pattern.startswith("-", self._at) or self._at + 1 >= len(self._pattern):
            return low if len(low) > 1 else _in_class(low)
        if self._pattern[self._at + 1] in "[]":
            return _in_class(low)
        if low == "-":
            raise BadRegex("a - inside a class is allowed only at its beginning or end")
        self._at += 1
        high = self._single()
        if len(high) != 1 or high < low:
            raise BadRegex(f"{low}-{high} is not a range")
        return f"{_in_class(low)}-{_in_class(high)}"

    def _single(self) -> str:
        """One character, or (longer) what stands for a set of them."""
        char = self._next()
        if char == "[":
            raise BadRegex("a [ inside a class")
        if char != "\\":
            return char
        char = self._next()
        if char in _ESCAPED:
            return {"n": "\n", "r": "\r", "t": "\t"}[char]
        if char in _LITERAL_ESCAPES:
            return char
        inside, complement = self._escaped(char)
        if not complement:
            return inside
        self.needs_properties = True  # a class within a class
        return f"[^{inside}]"


def _in_class(char: str) -> str:
    return "\\" + char if not char.isalnum() else char


def _without_blanks(pattern: str) -> str:
    """Flag x: blanks are removed before the pattern is parsed (in `\\ s`, too), except within classes."""
    parts: list[str] = []
    depth = 0
    is_escaped = False
    for char in pattern:
        if not depth and char in " \t\n\r":
            continue
        parts.append(char)
        if not is_escaped:
            depth += (char == "[") - (char == "]")
        is_escaped = char == "\\" and not is_escaped
    return "".join(parts)
