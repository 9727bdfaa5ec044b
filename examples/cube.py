"""A data cube over a year of New York flights: five tables, 336,776 joined rows that are never built.

    pip install "calitree[demo]"
    python examples/cube.py

One pass over the flights calibrates all pivots of one dimension. From then on every cuboid of two
dimensions is an absorption at one table, and larger ones need few messages.
"""

from __future__ import annotations

from calitree.apps.cube.cube import Cube
from calitree.cli.demo import flights_graph, read_flights

DIMS = [
    "airlines.name",
    "airports.tzone",
    "planes.engine",
    "planes.manufacturer",
    "flights.origin",
    "flights.month",
    "weather.hour",
]
MEASURES = {"flights": "count(*)", "delay": "avg(arr_delay)", "miles": "sum(distance)"}


def main() -> None:
    wide = flights_graph(read_flights(), engine="local").calibrate(MEASURES, progress=False)

    # What would it take? Nothing is computed but how many values each dimension has.
    for k in (0, 1, 2):
        print(f"k = {k}: {Cube.estimate(wide, DIMS, k)}")

    cube = wide.cube(DIMS, k=1, progress=False)
    print(f"\n{cube}\n")

    # Cuboids of two dimensions need no further message. `having` keeps the groups that matter.
    late = cube.cuboid(["airlines.name", "weather.hour"], having="flights >= 1000 and delay > 20")
    print(late)
    print(f"{len(late.plan.computed)} messages computed\n")

    # Any other question can be asked too: more dimensions, filters, new measures.
    result = cube.query(
        ["planes.manufacturer", "flights.origin", "airports.tzone"],
        where="weather.wind_speed > 20",
        measures={"flights": "count(*)", "longest": "max(air_time)"},
    ).having("flights >= 100")
    print(f"{result}\n")

    # All cuboids of up to two dimensions.
    groups = {columns: len(cuboid) for columns, cuboid in cube.cuboids()}
    largest = max(groups, key=lambda columns: groups[columns])
    print(
        f"{len(groups)} cuboids, the largest by {' and '.join(largest)}: {groups[largest]:,} groups"
    )

    # With fewer bytes than it wants, the most useful pivots are calibrated.
    small = flights_graph(read_flights(), engine="local").calibrate(MEASURES, progress=False)
    some = small.cube(DIMS, k=1, budget=cube.bytes // 4, progress=False)
    print(f"\nWith a quarter of the bytes:\n{some}")


if __name__ == "__main__":
    main()
