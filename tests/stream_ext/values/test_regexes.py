"""Regular expressions as XPath has them (F&O 7.6 and XML Schema part 2, appendix F), not as Python has them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from stream_ext.errors import DeadlineExceeded
from stream_ext.evaluation_budget import Control
from stream_ext.values.functions import regexes
from stream_ext.values.functions.regexes import regex_of
from stream_ext.values.functions.strings import regex_within, replace_within

regex, replace = regex_within(Control.FREE), replace_within(Control.FREE)

POEM = (
    "<poem author='Wilhelm Busch'>\nKaum hat dies der Hahn gesehen,\nF\u00e4ngt er auch schon an zu kr\u00e4hen:\n"
    "Kikeriki! Kikikerikih!!\nTak, tak, tak! - da kommen sie.\n</poem>"
)


#: text, pattern, flags, whether it matches (None: an error)
MATCHES = [
    # F&O 7.6.2
    ("abracadabra", "bra", "", True),
    ("abracadabra", "^a.*a$", "", True),
    ("abracadabra", "^bra", "", False),
    (POEM, "Kaum.*kr\u00e4hen", "", False),
    (POEM, "Kaum.*kr\u00e4hen", "s", True),
    (POEM, "^Kaum.*gesehen,$", "m", True),
    (POEM, "^Kaum.*gesehen,$", "", False),
    (POEM, "kiki", "i", True),
    # 7.6.1.1: flags
    ("helloworld", "hello world", "x", True),
    ("helloworld", "hello[ ]world", "x", False),
    ("hello world", "hello\\ sworld", "x", True),
    ("a.b", "a.b", "q", True),
    ("axb", "a.b", "q", False),
    ("AxB [", "xb [", "qi", True),
    ("a", "a", "g", None),
    ("x\n", "x$", "", False),
    ("x\n", "x$", "m", True),
    ("x\n", "\n^", "m", False),
    ("x\ny", "\n^", "m", True),
    # XML Schema part 2, F: what Python reads otherwise, or not at all
    ("b", "^[a-z-[aeiou]]$", "", True),
    ("e", "^[a-z-[aeiou]]$", "", False),
    ("E", "^[^a-z-[AEIOU]]$", "", False),
    ("X", "^[^a-z-[AEIOU]]$", "", True),
    ("_", "^\\w$", "", False),
    ("\u20ac", "^\\w$", "", True),
    (" ", "^\\W$", "", True),
    ("\x0b", "^\\s$", "", False),
    ("\u0663", "^\\d$", "", True),
    ("3", "^[\\D]$", "", False),
    ("_a", "^\\i\\c$", "", True),
    ("-", "^\\i$", "", False),
    ("-", "^\\c$", "", True),
    ("\u00e9", "^\\p{L}$", "", True),
    ("\u00e9", "^\\p{IsBasicLatin}$", "", False),
    ("\u00e9", "^\\P{IsBasicLatin}$", "", True),
    ("\u03b1", "^\\p{IsGreek}$", "", True),
    ("9", "^[\\p{Lu}\\p{Nd}]$", "", True),
    ("-", "^[a-]$", "", True),
    ("-", "^[-a]$", "", True),
    ("^", "^[a^]$", "", True),
    ("]", "^[\\]]$", "", True),
    ("ss", "^\u00df$", "i", False),
    ("\u00c9", "^\u00e9$", "i", True),
    ("aa", "^(a)\\1$", "", True),
    ("a0", "^(a)\\10$", "", False),
    ("aa0", "^(a)\\10$", "", True),
    ("aaaa", "^a{2,3}$", "", False),
    ("#&~", "#&~", "", True),
    # No patterns of XPath, though Python reads them
    ("a", "(?i)A", "", None),
    ("a", "a(?=b)", "", None),
    ("a b", "a\\b", "", None),
    ("a", "\\A", "", None),
    ("aa", "a++", "", None),
    ("a", "a{,2}", "", None),
    ("a", "a{2,1}", "", None),
    ("a", "*a", "", None),
    ("a", "(a", "", None),
    ("a", "a)", "", None),
    ("a", "[]", "", None),
    ("a", "[a", "", None),
    ("a", "[b-a]", "", None),
    ("a", "[[a]]", "", None),
    ("a", "\\p{Foo}", "", None),
    ("a", "\\p{IsNowhere}", "", None),
    ("a", "\\1(a)", "", None),
    ("a", "(a\\1)", "", None),
    ("a", "a\\", "", None),
    ("a", "}", "", None),
]


@pytest.mark.parametrize(("text", "pattern", "flags", "expected"), MATCHES)
def test_a_pattern_matches(text: str, pattern: str, flags: str, expected: bool | None) -> None:
    assert regex(text, pattern, flags) is expected


@pytest.mark.parametrize(
    ("text", "pattern", "replacement", "flags", "expected"),
    [
        # F&O 7.6.3
        ("abracadabra", "bra", "*", "", "a*cada*"),
        ("abracadabra", "a.*a", "*", "", "*"),
        ("abracadabra", "a.*?a", "*", "", "*c*bra"),
        ("abracadabra", "a", "", "", "brcdbr"),
        ("abracadabra", "a(.)", "a$1$1", "", "abbraccaddabbra"),
        ("abracadabra", ".*?", "$1", "", None),
        ("AAAA", "A+", "b", "", "b"),
        ("AAAA", "A+?", "b", "", "bbbb"),
        ("darted", "^(.*?)d(.*)$", "$1c$2", "", "carted"),
        ("abcd", "(ab)|(a)", "[1=$1][2=$2]", "", "[1=ab][2=]cd"),
        ("abc", "b", "\\$", "", "a$c"),
        ("abc", "b", "\\\\", "", "a\\c"),
        ("abc", "b", "$0$0", "", "abbc"),
        ("abc", "(b)", "$12", "", "ab2c"),
        ("abc", "b", "$7", "", "ac"),
        ("abc", "b", "\\g<0>", "", None),
        ("abc", "b", "$", "", None),
        ("abc", "b", "\\n", "", None),
        ("a.c", ".", "$1\\", "q", "a$1\\c"),
        ("abc", "B", "x", "i", "axc"),
        ("\u00e9a", "\\p{Lu}|\\P{IsBasicLatin}", "<$0>", "", "<\u00e9>a"),
    ],
)
def test_what_matches_is_replaced(text: str, pattern: str, replacement: str, flags: str, expected: str | None) -> None:
    assert replace(text, pattern, replacement, flags) == expected


PIECES = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "(a|b)", "(ab)", "\\.", "\\d", "1", "^", "$", "|"])
PATTERNS = st.lists(st.tuples(PIECES, st.sampled_from(["", "", "", "*", "+?", "{1,2}"])), max_size=5)


@seed(3)
@settings(max_examples=300, deadline=None, database=None)
@given(PATTERNS, st.lists(st.text("ab1.\n", max_size=6), max_size=5))
def test_what_both_languages_have_means_the_same_in_both(pieces: list[tuple[str, str]], texts: list[str]) -> None:
    pattern = "".join(piece + ("" if piece in "^$|" else times) for piece, times in pieces)
    expected = re.compile(pattern.replace("$", r"\Z"))
    assert [regex(text, pattern) for text in texts] == [expected.search(text) is not None for text in texts]


def test_a_pattern_that_takes_too_long_ends_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regexes, "_TIMEOUT_S", 0.05)
    regex_of.cache_clear()
    try:
        with pytest.raises(DeadlineExceeded, match="regular expression"):
            regex("a" * 60 + "b", "^(a|aa)+$")
    finally:
        regex_of.cache_clear()
