"""How hard the property tests try."""

from __future__ import annotations

import os


def examples(count: int) -> int:
    """`count` examples, or ten times as many under HYPOTHESIS_PROFILE=thorough.

    The test gives the number, as it knows what one example costs:
    `@settings(max_examples=examples(50))`.
    """
    return 10 * count if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else count
