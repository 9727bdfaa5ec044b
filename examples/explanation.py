"""Why did March sell so much? A cause is planted in a retailer's year, and found.

python -m examples.explanation
"""

from __future__ import annotations

from calitree.apps.explain.explanation import Explanation
from examples.retail import retail

MEASURES = {"revenue": "sum(sales.price * sales.units)", "basket": "avg(sales.units)"}


def main() -> tuple[Explanation, Explanation]:
    """What explains the baskets of March, and what the change of revenue since February."""
    shop = retail(
        seed=7, cause={"items.family": "DAIRY", "sales.channel": "web"}, month=3, factor=6.0
    )
    wide = shop.graph("local").calibrate(MEASURES, progress=False)
    print(wide.query(["dates.month"]), end="\n\n")

    baskets = wide.why("basket", where="dates.month = 3")
    print(baskets, end="\n\n")

    revenue = wide.explain_change("revenue", a="dates.month = 2", b="dates.month = 3")
    print(revenue.sentence, end="\n\n")

    # Is it so? The rows are really left out, and the question is asked again.
    cause = baskets.best["explanation"]
    without = f"dates.month = 3 and ({cause}) is not true"
    print(wide.query(where=without, measures=["basket"]), end="\n\n")
    assert not baskets.verify()

    # The condition can be used like any other, for instance to see where these sales were made.
    print(wide.query(["stores.city"], where=f"dates.month = 3 and {cause}"))
    return baskets, revenue


if __name__ == "__main__":
    main()
