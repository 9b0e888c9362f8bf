"""What a test does to loggers ends with it."""

from __future__ import annotations

import logging

from tests.parts.loggers import loggers_as_before


def test_loggers_are_given_back_as_they_were() -> None:
    root, known, quiet = (logging.getLogger(name) for name in (None, "rillet.known_to_a_test", "rillet.quiet"))
    handlers = root.handlers[:]
    with loggers_as_before():
        logging.getLogger("rillet").setLevel(logging.DEBUG)
        assert known.isEnabledFor(logging.DEBUG)
        root.handlers[:] = [logging.NullHandler()]
        quiet.propagate = False
        quiet.disabled = True
        logging.getLogger("rillet.made_meanwhile").setLevel(logging.ERROR)
        logging.disable(logging.CRITICAL)
    assert root.handlers == handlers
    assert not known.isEnabledFor(logging.INFO)
    assert (quiet.propagate, quiet.disabled) == (True, False)
    assert known.isEnabledFor(logging.ERROR)
    assert logging.getLogger("rillet.made_meanwhile").isEnabledFor(logging.WARNING)


def test_one_that_changes_a_level() -> None:
    logging.getLogger("rillet").setLevel(logging.DEBUG)
    logging.getLogger("rillet.of_two_tests").isEnabledFor(logging.INFO)


def test_the_next_one_does_not_see_it() -> None:
    assert not logging.getLogger("rillet.of_two_tests").isEnabledFor(logging.INFO)
