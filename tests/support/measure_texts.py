"""Random measures of the kinds that people write: formulas over aggregates, choices across relations."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from tests.support.databases import Database, simple_predicate

FORMULAS = (
    "coalesce(sum({n}), 0)",
    "round(avg({n}), 1)",
    "nullif(count({c}), {i})",
    "sum({n}) / nullif(count({c}) - {i}, 0)",
    "case when sum({n}) > {i} then 'high' when sum({n}) is null then 'none' else 'low' end",
    "case when count(*) > {i} then avg({n}) else min({n2}) end",
    "count_if({p})",
    "count_if({p}) filter (where {p2})",
    "greatest(min({n}), max({n2}), {i})",
    "sum({n}) > {i} and bool_or({p})",
    "abs(sum({n})) % 7",
    "max({s}) || '-' || lower(min({s2}))",
    "max({d}) > min({d2})",
    "coalesce(max({s}), 'nothing')",
    "floor(sqrt(abs(avg({n}) * 10)))",
    "cast(count(*) as double) / (count({c}) + 1)",
    "count(*) between {i} and 10",
    "count(*) in (1, 2, {i})",
    "round(sum({m}) * 2, 1)",
    "regr_slope({n}, {n2})",
    "regr_intercept({n}, {n2})",
    "regr_r2({n}, {n2})",
    "regr_count({n}, {n2})",
    "regr_avgx({n}, {n2}) + regr_avgy({n}, {n2})",
    "regr_sxx({n}, {n2})",
    "regr_syy({n}, {n2})",
    "regr_sxy({n}, {n2}) filter (where {p})",
    "mean({n})",
)
"""Over aggregates of sums of products."""

CHOICES = (
    "sum(case when {p} then {n} else 0 end)",
    "sum(case when {p} then {n} when {p2} then {n2} end)",
    "avg(case when {p} and {p2} then {n} else {n2} end)",
    "count(case when {p} or {p2} then {n} end)",
    "max(case when {p} then {n} else {i} end)",
    "min(case when not ({p} or {p2}) then {n} else {n2} end)",
    "sum({n} * case when {p} then {n2} else 1 end)",
    "sum(coalesce({n}, {n2}, {i}))",
    "max(coalesce({n}, {n2}))",
    "count(*) filter (where {p} or {p2})",
    "sum({n}) filter (where not ({p} and {p2}))",
    "avg({n}) filter (where {p} and ({p2} or {p3}))",
    "count_if({p} or not {p2})",
)
"""Of what one relation has, by what others have."""


CARRIED = (
    "sum({n}) filter (where {n2} > {n3})",
    "count(*) filter (where {n2} > {n3} and {p})",
    "avg({n}) filter (where {n2} + {n3} < {i} or {p})",
    "count(distinct {c}) filter (where {n2} > {n3})",
    "count(distinct {c}) filter (where {p})",
    "count(distinct {c})",
    "count(distinct ({c}, {c2}))",
    "count(distinct {n} + {n2})",
    "sum(distinct {n})",
    "avg(distinct {n}) + count(distinct {c})",
    "sum(distinct {m})",
    "max({n} * {n2})",
    "min({n} * {n2} - {n3})",
    "sum(abs({n} - {n2}))",
    "avg(abs({n} - {n2})) filter (where {p})",
    "sum({m} % 2 + {n})",
    "count(nullif({n}, {n2}))",
    "sum(case when {n} > {n2} then {n3} end)",
    "max({s}) filter (where {p})",
    "bool_or({n} > {n2})",
    "median({n})",
    "median({m})",
    "median({d})",
    "median({s})",
    "median({n} * {n2}) filter (where {p})",
    "round(median({n}), 1) - coalesce(min({n2}), 0)",
    "quantile_cont({n}, 0.3)",
    "quantile_cont({m}, 0.9) filter (where {p})",
    "quantile_disc({c}, 0.75)",
    "percentile_cont(0.1) within group (order by {n})",
    "quantile_disc({n}, 0)",
    "mode({c});;mode({c} order by {c})",
    "arg_min({c}, {n});;arg_min({c}, {n} order by {c})",
    "arg_max({c}, {d}) filter (where {p});;arg_max({c}, {d} order by {c}) filter (where {p})",
    "top_k({c}, 2)",
    "histogram({s})",
    "histogram({n}) filter (where {p})",
    "list({n});;list({n} order by {n})",
    "list(distinct {s} order by {s} desc)",
    "string_agg({s}, '|');;string_agg({s}, '|' order by {s})",
    "string_agg(distinct {s}, ', ' order by {s} desc) filter (where {p})",
)
"""What cannot be split by relation. After ;; the text in which DuckDB sees rows in our order."""


def ours(question: dict[str, Any]) -> dict[str, Any]:
    """A question in the texts that we are given."""
    return _with_texts(question, 0)


def of_duckdb(question: dict[str, Any]) -> dict[str, Any]:
    """A question in the texts that DuckDB is given."""
    return _with_texts(question, -1)


def _with_texts(question: dict[str, Any], at: int) -> dict[str, Any]:
    texts = {name: text.split(";;")[at] for name, text in question["measures"].items()}
    return {**question, "measures": texts}


@st.composite
def texts_of(draw: st.DrawFn, database: Database, templates: tuple[str, ...]) -> str:
    """A measure of one of these forms, over columns of any relations."""
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    kinds = {"n": ("x", "y", "f"), "m": ("m",), "s": ("s",), "d": ("d",), "b": ("b",)}
    text = draw(st.sampled_from(templates))
    filled: dict[str, Any] = {"i": rng.randint(-2, 5)}
    for kind, letters in kinds.items():
        columns = database.payloads(*letters)
        for name in (kind, f"{kind}2", f"{kind}3"):
            if f"{{{name}}}" in text and not columns:
                return "count(*)"
            filled[name] = rng.choice(columns or [""])
    for name in ("p", "p2", "p3"):
        filled[name] = f"({simple_predicate(database, rng.choice(database.columns()), rng)})"
    for name in ("c", "c2"):
        filled[name] = rng.choice(database.columns())
    return text.format(**filled)


@st.composite
def questions_with(
    draw: st.DrawFn, database: Database, templates: tuple[str, ...]
) -> dict[str, Any]:
    """Arguments for `WideTable.query`, with measures of these forms."""
    columns = st.sampled_from(database.columns())
    texts = draw(st.lists(texts_of(database, templates), min_size=1, max_size=3))
    asked: dict[str, Any] = {
        "group_by": draw(st.lists(columns, max_size=2, unique=True)),
        "measures": {f"m{i}": text for i, text in enumerate(texts)},
    }
    if draw(st.integers(0, 2)) == 0:
        rng = random.Random(draw(st.integers(0, 2**32 - 1)))
        asked["where"] = simple_predicate(database, draw(columns), rng)
    return asked
