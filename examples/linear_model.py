"""A linear model over five tables, and their join is never built: how late do flights arrive?

    python examples/linear_model.py            # on the local engine
    python examples/linear_model.py hybrid     # with Spark

Needs `pip install "calitree[demo]"`.
"""

from __future__ import annotations

import sys
import time

from calitree.cli.demo import flights_graph, read_flights
from calitree.ml import LinearRegression, Ridge

TARGET = "flights.arr_delay"
FEATURES = [
    "flights.distance",
    "weather.wind_speed",
    "weather.visib",
    "weather.precip",
    "planes.seats",
    "airports.alt",
    "airlines.name",
    "flights.origin",
]


def main(engine: str = "local") -> None:
    wide = flights_graph(read_flights(), engine, how="inner").calibrate()

    started = time.perf_counter()
    model = LinearRegression(drop="first").fit(wide, target=TARGET, features=FEATURES)
    seconds = time.perf_counter() - started
    print(f"{TARGET}: R² {model.r2_:.4f} over {model.rows_:,} rows, in {seconds:.2f} s")
    for label, value in model.coefficients_.items():
        print(f"  {label:<48} {value:>10.4f}")

    print("\nThe mean prediction by month:")
    print(model.predict(wide, group_by=["flights.month"]).text(3))

    # The same columns again: their messages are there, and only the target differs.
    started = time.perf_counter()
    features = [TARGET if name == "flights.distance" else name for name in FEATURES]
    other = Ridge(1.0, standardise=True).fit(wide, target="flights.distance", features=features)
    passed = sum(len(plan.computed) for plan in other.gram_.plans)
    seconds = time.perf_counter() - started
    print(f"\nflights.distance: R² {other.r2_:.4f}, {passed} messages passed, in {seconds:.2f} s")

    # What would the model be without the days when it snowed or rained?
    dry = wide.what_if(delete={"weather": "precip > 0"})
    model.fit(dry, target=TARGET, features=[name for name in FEATURES if "precip" not in name])
    print(f"\nOn dry hours: R² {model.r2_:.4f} over {model.rows_:,} rows")


if __name__ == "__main__":
    main(*sys.argv[1:2])
