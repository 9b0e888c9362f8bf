"""The pages for users are in plain English: short sentences, known words, and what a page is for in its first lines.

The bounds were measured, and hold what has been reached. What is too long is printed, with its page: divide it, or make
a table of it. Words are known that the documentation of Python uses, and those of the glossary."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from pydoc_data import topics

import pytest

from tests.docs.pages import DOCS, ROOT, Page, rows

#: Words of a sentence, and of the mean sentence of a page.
WORDS_MAX, MEAN_MAX = 35, 18.0
#: The share of the words of a page that are not known.
UNKNOWN_MAX = 0.12
#: The same of the records of measurements, which have longer sentences and more words of measuring.
OF_FIGURES = (85, 22.0, 0.14)
#: Words before the first example, table or picture of a page.
BEFORE_MAX = 115

SHELVES = ("tutorial", "how_to", "reference", "explanation", "examples")
PAGES = [Page(ROOT / "README.md"), Page(ROOT / "CONTRIBUTING.md"), Page(DOCS / "README.md")]
PAGES += [Page(path) for shelf in SHELVES for path in sorted((DOCS / shelf).glob("*.md"))]
_NO_PROSE = re.compile(r"^(#.*|\||!\[|---|<).*$", re.MULTILINE)
_END = re.compile(r"(?<=[.!?:])[\s*_)\"]+(?=[A-Z`*\[\"(])|\n\s*\n|\n\s*(?:[-*]|\d+\.)\s")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*[A-Za-z]|[A-Za-z]")


def bounds(page: Page) -> tuple[int, float, float]:
    is_record = page.name.startswith("docs/explanation/figures")
    return OF_FIGURES if is_record else (WORDS_MAX, MEAN_MAX, UNKNOWN_MAX)


def prose(page: Page) -> str:
    """The running text: no code, no tables, no headings. A link is its words, a piece of code is one word."""
    return plain(_NO_PROSE.sub("", page.prose))


def plain(text: str) -> str:
    return re.sub(r"`[^`]*`", "Code", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text))


def cells(page: Page) -> Iterator[list[str]]:
    """The sentences of its tables; a semicolon divides a list in a cell."""
    for row in rows(page.text):
        for cell in row:
            for part in _END.split(plain(cell).replace("; ", ".\n\n")):
                if part and (words := _WORD.findall(part)):
                    yield words


def sentences(page: Page) -> Iterator[list[str]]:
    for part in _END.split(prose(page)):
        if part and (words := _WORD.findall(part)):
            yield words


def known_words() -> set[str]:
    told = " ".join(topics.topics.values()) + Page(DOCS / "reference" / "glossary.md").text
    return {word.lower() for word in _WORD.findall(told)}


KNOWN = known_words()


#: Endings, and what a word has in their place.
ENDINGS = {"s": "", "es": "", "ed": "", "d": "", "ing": "", "ies": "y", "ly": "", "er": "", "'s": ""}


def is_known(word: str) -> bool:
    """As it is, or without an ending; names and abbreviations are not looked up."""
    stems = {word} | {word.removesuffix(end) + root for end, root in ENDINGS.items() if word.endswith(end)}
    return not word.islower() or not KNOWN.isdisjoint(stems | {stem + "e" for stem in stems})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_are_short(page: Page) -> None:
    found = list(sentences(page))
    most, mean_most, _ = bounds(page)
    long = [f"{len(words)} words: {' '.join(words)}" for words in (*found, *cells(page)) if len(words) > most]
    assert not long, f"{page.name}\n" + "\n".join(long)
    mean = sum(map(len, found)) / len(found)
    longest = sorted(found, key=len, reverse=True)[:5]
    assert mean <= mean_most, f"{page.name}: {mean:.1f} words\n" + "\n".join(" ".join(words) for words in longest)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_words_are_known(page: Page) -> None:
    words = [word for words in sentences(page) for word in words]
    unknown = [word for word in words if not is_known(word)]
    assert len(unknown) <= bounds(page)[2] * len(words), f"{page.name}: {sorted(set(unknown))}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_says_what_it_is_for_and_shows_it(page: Page) -> None:
    """A first paragraph of text, and soon an example: code, a table or a picture."""
    body = page.text.partition("\n")[2].lstrip()
    assert body[0] not in "#|`!<", f"{page.name} does not begin with what it is for"
    before = re.split(r"^(?:```|\||!\[)", body, maxsplit=1, flags=re.MULTILINE)[0]
    assert len(_WORD.findall(before)) <= BEFORE_MAX, (
        f"{page.name}: {len(_WORD.findall(before))} words before an example"
    )


def test_the_measures_find_what_they_are_for(tmp_path: Path) -> None:
    assert is_known("windows") and is_known("HBase") and not is_known("frobnicate")
    text = "It takes 1.5 s. `x` is [a link](a/b.md), and\nmore.\n\n| a | table |\n\n```sh\ncode\n```\n- one\n- two"
    (tmp_path / "page.md").write_text(f"# Title\n\n{text}")
    assert [len(words) for words in sentences(Page(tmp_path / "page.md"))] == [3, 6, 1, 1]
