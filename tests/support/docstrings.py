"""What the examples of docstrings go on from: `graph` and `wide`, as `WideTable` shows them."""

from __future__ import annotations

from typing import Any

from calitree import JoinGraph


def namespace() -> dict[str, Any]:
    graph = JoinGraph(engine="local")
    graph.add_relation("sales", {"store": [1, 1, 2], "price": [10, 20, 5]})
    graph.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]})
    graph.add_join("sales", "stores", on={"store": "id"})
    return {"graph": graph, "wide": graph.calibrate({"revenue": "sum(price)"})}
