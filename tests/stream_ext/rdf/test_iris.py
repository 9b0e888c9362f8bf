"""Reference resolution, on the examples of RFC 3986 section 5.4."""

from __future__ import annotations

import pytest

from stream_ext.rdf.iris import resolve

BASE = "http://a/b/c/d;p?q"
EXAMPLES = """
g:h g:h | g http://a/b/c/g | ./g http://a/b/c/g | g/ http://a/b/c/g/ | /g http://a/g | //g http://g
?y http://a/b/c/d;p?y | g?y http://a/b/c/g?y | #s http://a/b/c/d;p?q#s | g#s http://a/b/c/g#s
g?y#s http://a/b/c/g?y#s | ;x http://a/b/c/;x | g;x http://a/b/c/g;x | g;x?y#s http://a/b/c/g;x?y#s
. http://a/b/c/ | ./ http://a/b/c/ | .. http://a/b/ | ../ http://a/b/ | ../g http://a/b/g | ../.. http://a/
../../ http://a/ | ../../g http://a/g | ../../../g http://a/g | ../../../../g http://a/g | /./g http://a/g
/../g http://a/g | g. http://a/b/c/g. | .g http://a/b/c/.g | g.. http://a/b/c/g.. | ..g http://a/b/c/..g
./../g http://a/b/g | ./g/. http://a/b/c/g/ | g/./h http://a/b/c/g/h | g/../h http://a/b/c/h
g;x=1/./y http://a/b/c/g;x=1/y | g;x=1/../y http://a/b/c/y | g?y/./x http://a/b/c/g?y/./x
g?y/../x http://a/b/c/g?y/../x | g#s/./x http://a/b/c/g#s/./x | g#s/../x http://a/b/c/g#s/../x | http:g http:g
"""


@pytest.mark.parametrize("example", [part.strip() for line in EXAMPLES.split("\n") for part in line.split("|") if part])
def test_the_examples_of_the_rfc(example: str) -> None:
    reference, expected = example.split()
    assert resolve(reference, BASE) == expected


@pytest.mark.parametrize(
    ("reference", "base", "expected"),
    [
        ("", BASE, "http://a/b/c/d;p?q"),
        ("", "http://a/b#f", "http://a/b"),
        ("g", "http://a", "http://a/g"),
        ("?x", "http://a", "http://a?x"),
        ("g?", "http://a/b", "http://a/g?"),
        ("#", "http://a/b", "http://a/b#"),
        ("b", "urn:a:c", "urn:b"),
        ("../g", "file:///x/y/z", "file:///x/g"),
        ("..", "http://a/b//c", "http://a/b/"),
        ("http://a/b/../c", BASE, "http://a/b/../c"),
    ],
)
def test_corners_that_the_rfc_has_no_example_for(reference: str, base: str, expected: str) -> None:
    assert resolve(reference, base) == expected
