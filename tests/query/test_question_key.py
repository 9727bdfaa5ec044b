"""Questions that are recognised when they are asked again."""

from __future__ import annotations

from calitree import Question
from calitree.query.binder import MAX_KEY_CHARACTERS


def test_equal_questions_have_equal_keys() -> None:
    assert Question(["city"], "x > 1").key == Question(("city",), "x > 1").key is not None


def test_long_texts_are_no_key() -> None:
    """They would be kept as long as the tree."""
    assert Question(where="x > " + " " * MAX_KEY_CHARACTERS + "1").key is None
