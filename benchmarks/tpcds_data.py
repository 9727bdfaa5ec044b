"""The store channel of TPC-DS, as the generator of the package tpcgen-cli makes it.

Sales at the centre, and what they were, when, where, to whom and under which promotion around them.
A customer has an address now, and a sale has the one of its time: two roles of one table, so the
first of them joins under a second name. All keys of the sales but the item's can be NULL.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.data import default_cache
from calitree import JoinGraph
from calitree.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
"""Part of the cache's key: to be raised by every change of what is generated."""

FACT = "store_sales"
JOINS: dict[str, tuple[str, str, str]] = {
    "date_dim": (FACT, "ss_sold_date_sk", "d_date_sk"),
    "time_dim": (FACT, "ss_sold_time_sk", "t_time_sk"),
    "item": (FACT, "ss_item_sk", "i_item_sk"),
    "store": (FACT, "ss_store_sk", "s_store_sk"),
    "customer": (FACT, "ss_customer_sk", "c_customer_sk"),
    "customer_address": (FACT, "ss_addr_sk", "ca_address_sk"),
    "customer_demographics": (FACT, "ss_cdemo_sk", "cd_demo_sk"),
    "household_demographics": (FACT, "ss_hdemo_sk", "hd_demo_sk"),
    "promotion": (FACT, "ss_promo_sk", "p_promo_sk"),
    "current_address": ("customer", "c_current_addr_sk", "ca_address_sk"),
}
"""Each relation but the sales: what it joins, by which column there, and by which of its own."""

SECOND_NAMES = {"current_address": "customer_address"}
RELATIONS = (FACT, *JOINS)


def store_channel(scale: float, cache: Path | None = None) -> dict[str, Path]:
    """The Parquet file of each relation, made when it is first asked for."""
    directory = (cache or default_cache()) / f"tpcds-v{VERSION}-{scale:g}"
    if not directory.is_dir():
        generate(scale, directory)
    return {name: directory / f"{SECOND_NAMES.get(name, name)}.parquet" for name in RELATIONS}


def generate(scale: float, directory: Path) -> None:
    """All tables as Parquet files in `directory`, which must not exist."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    # Under another name until it is whole, so that a killed run leaves nothing half done.
    partial = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    tables = [name for name in RELATIONS if name not in SECOND_NAMES]
    wanted = ["--scale-factor", f"{scale:g}", "--tables", ",".join(tables)]
    try:
        subprocess.run(
            [generator(), "tpcds", "parquet", *wanted, "--quiet", "--output-dir", str(partial)],
            check=True,
        )
        partial.rename(directory)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        if not directory.is_dir():  # else another run was quicker, which is as good
            raise


def generator() -> str:
    """The command, of this environment even if that is not activated."""
    command = shutil.which("tpcgen-cli", path=sysconfig.get_path("scripts"))
    command = command or shutil.which("tpcgen-cli")
    if command is None:
        raise EngineError("TPC-DS is made by the command tpcgen-cli: pip install tpcgen-cli.")
    return command


def store_graph(files: Mapping[str, Path], engine: Any) -> JoinGraph:
    graph = JoinGraph(engine=engine)
    for name in RELATIONS:
        graph.add_relation(name, str(files[name]))
    for name, (other, theirs, own) in JOINS.items():
        graph.add_join(other, name, on={theirs: own})
    return graph
