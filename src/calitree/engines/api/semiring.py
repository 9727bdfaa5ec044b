"""Semirings as data: what ⊕ and ⊗ do to an annotation, in a form every engine can compile.

A semiring's elements are tuples of named components. ⊕ works on each component by itself (it is the
aggregate of a GROUP BY), but for `covariance`, of which every engine knows its ⊕. ⊗ is one SQL
expression a component over `l_<component>` and `r_<component>`. MIN and MAX use NULL as their zero:
SQL's aggregates skip it, and NULL + x is NULL, so it annihilates.

Why each law is needed: ⊕ commutative and associative, so that rows may be summed in any order; ⊗
distributes over ⊕, so that a message may be summed *before* it is joined; one, so that a relation
without a lift changes nothing; zero, so that a row that does not match contributes nothing; ⊖, so
that a deletion can be subtracted instead of recomputed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from sqlglot import exp

from calitree.cache import cached_property
from calitree.errors import ExpressionError
from calitree.sql.parser import parse_node

Plus = Literal["sum", "min", "max", "any", "mean", "low", "deviations", "python"]
"""How ⊕ aggregates a component.

The last ones are not for users: three of `covariance`, where it mixes components, and that of Python.
"""

_IN_TIMES = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Paren, exp.Least, exp.Greatest),
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is),
    *(exp.Case, exp.If, exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null),
)
Scalar = int | float | bool | None
Role = Literal["sum", "product"]
"""How a value is combined of what several relations contribute to it."""


@dataclass(frozen=True)
class Semiring:
    """A commutative semiring (⊕, ⊗, zero, one) over tuples of named components.

    Attributes:
        name: what plans and error messages call it.
        components: the names of the parts of an element.
        plus: for each component how ⊕ aggregates it: "sum", "min", "max" or "any".
        times: for each component an SQL expression for ⊗, over `l_<component>` and `r_<component>`.
        zero: the neutral element of ⊕, one value a component; NULL (None) for "min" and "max".
        one: the neutral element of ⊗, one value a component.
        minus: whether ⊕ has an inverse, component by component (x ⊖ y is x - y).

    Raises:
        ExpressionError: if the parts do not fit together, or ⊗ is not plain arithmetic or logic.

    >>> cheapest = Semiring(
    ...     "cheapest", ("v",), ("min",), times=("l_v + r_v",), zero=(None,), one=(0,)
    ... )
    >>> cheapest.idempotent
    True
    """

    name: str
    components: tuple[str, ...]
    plus: tuple[Plus, ...]
    times: tuple[str, ...]
    zero: tuple[Scalar, ...]
    one: tuple[Scalar, ...]
    minus: bool = False

    def __post_init__(self) -> None:
        sizes = set(map(len, (self.components, self.plus, self.times, self.zero, self.one)))
        if len(sizes) != 1 or not self.components:
            raise self._error(
                "components, plus, times, zero and one must have one "
                f"entry for each component ({', '.join(self.components) or 'there is none'})."
            )
        for plus in self.plus:
            if plus not in get_args(Plus)[:4] and self.plus != _centred(self.values):
                raise self._error(f"⊕ must be sum, min, max or any, not {plus!r}.")
        if self.minus and set(self.plus) != {"sum"} and not self.values:
            raise self._error("only sums can be subtracted, so ⊖ needs ⊕ to be sum.")
        for name in self.components:
            if self.components.count(name) > 1:
                raise ExpressionError(f"Semiring {self.name!r} has two components {name!r}.")
        for value in (*self.zero, *self.one):
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise self._error("zero and one are numbers of at most 64 bits.")
        self._check_times()

    def _check_times(self) -> None:
        names = {f"{side}_{name}" for side in "lr" for name in self.components}
        for text, node in zip(self.times, self.times_nodes, strict=True):
            for part in node.walk():
                if not isinstance(part, _IN_TIMES):
                    raise self._error(f"⊗ {text!r} is not arithmetic or logic: {part.sql()}.")
            if any(column.name not in names for column in node.find_all(exp.Column)):
                raise self._error(f"⊗ {text!r} may use only {', '.join(sorted(names))}.")

    def _error(self, problem: str) -> ExpressionError:
        return ExpressionError(f"Semiring {self.name!r}: {problem}")

    def __hash__(self) -> int:
        """Semirings are part of every key; hardly two of one program share a name."""
        return hash(self.name)

    @cached_property
    def times_nodes(self) -> tuple[exp.Expr, ...]:
        """`times`, parsed."""
        try:
            return tuple(parse_node(text) for text in self.times)
        except ExpressionError as error:
            raise ExpressionError(f"Semiring {self.name!r}, ⊗: {error}") from None

    @cached_property
    def idempotent(self) -> bool:
        """Whether x ⊕ x = x; then it does not matter how often an element is added."""
        return "sum" not in self.plus

    @cached_property
    def values(self) -> int:
        """Of how many values it has the means and co-moments; 0 for all but `covariance`."""
        return self.plus.count("mean")

    @property
    def is_counted(self) -> bool:
        """Whether a relation without a lift has a number of rows for its element (`Weight`)."""
        return bool(self.values)

    @property
    def is_sum_product(self) -> bool:
        """Whether this is (ℝ, +, ×), for which engines have faster code."""
        return self == SUM_PRODUCT

    def product(self, factors: list[list[exp.Expr]]) -> list[exp.Expr]:
        """Write the ⊗-product of any number of factors as SQL expressions.

        Args:
            factors: for each factor one expression a component.

        Returns:
            One expression a component; the literals of `one` if there are no factors.

        >>> from sqlglot import parse_one
        >>> [node.sql() for node in SUM_PRODUCT.product([[parse_one("a")], [parse_one("b")]])]
        ['(a) * (b)']
        """
        if not factors:
            return [literal(value) for value in self.one]
        result = factors[0]
        for factor in factors[1:]:
            values = {f"l_{n}": e for n, e in zip(self.components, result, strict=True)}
            values |= {f"r_{n}": e for n, e in zip(self.components, factor, strict=True)}
            result = [_substitute(node, values) for node in self.times_nodes]
        return result


def literal(value: Scalar) -> exp.Expr:
    """Write a component of zero or one as SQL.

    Args:
        value: the component.

    Returns:
        An SQL literal.

    >>> literal(None).sql(), literal(True).sql()
    ('NULL', 'TRUE')
    """
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    return exp.Literal.number(value)


def _substitute(node: exp.Expr, values: dict[str, exp.Expr]) -> exp.Expr:
    def swap(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column):
            return exp.Paren(this=values[part.name].copy())
        return part

    return node.copy().transform(swap)


SUM_PRODUCT = Semiring(
    "sum", ("v",), ("sum",), times=("l_v * r_v",), zero=(0,), one=(1,), minus=True
)
"""(ℝ, +, ×): COUNT, SUM and every polynomial of lifts."""

COUNT = SUM_PRODUCT
"""The natural numbers of the paper's text: SUM_PRODUCT where nothing is lifted."""

MIN = Semiring("min", ("v",), ("min",), times=("l_v + r_v",), zero=(None,), one=(0,))
"""(min, +): the smallest, or the cheapest sum."""

MAX = Semiring("max", ("v",), ("max",), times=("l_v + r_v",), zero=(None,), one=(0,))
"""(max, +)."""

BOOL = Semiring("bool", ("v",), ("any",), times=("l_v and r_v",), zero=(False,), one=(True,))
"""(∨, ∧): is there any; calibration over it is Yannakakis's semi-join reduction."""

AVG = Semiring(
    "avg",
    ("n", "s"),
    ("sum", "sum"),
    times=("l_n * r_n", "l_n * r_s + l_s * r_n"),
    zero=(0, 0),
    one=(1, 0),
    minus=True,
)
"""(count, sum): the average, as one annotation."""


def gram(names: tuple[str, ...]) -> Semiring:
    """Return the semiring of count, sums and sums of products, which linear regression needs.

    Args:
        names: the variables; each gets a component `s_<name>`, each pair `q_<name>_<name>`.

    Returns:
        A semiring with ⊖.

    >>> gram(("x",)).components
    ('n', 's_x', 'q_x_x')
    """
    sums = [f"s_{a}" for a in names]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i:]]
    times = ["l_n * r_n"]
    times += [f"l_n * r_{s} + l_{s} * r_n" for s in sums]
    times += [
        f"l_n * r_q_{a}_{b} + l_s_{a} * r_s_{b} + l_s_{b} * r_s_{a} + l_q_{a}_{b} * r_n"
        for a, b in pairs
    ]
    size = len(times)
    return Semiring(
        f"gram({', '.join(names)})",
        components=("n", *sums, *(f"q_{a}_{b}" for a, b in pairs)),
        plus=tuple[Plus, ...](["sum"] * size),
        times=tuple(times),
        zero=(0,) * size,
        one=(1, *(0,) * (size - 1)),
        minus=True,
    )


VARIANCE = gram(("x",))
"""(count, sum, sum of squares): VAR and STDDEV."""


def _centred(values: int) -> tuple[Plus, ...]:
    """The ⊕ of the components of `covariance`."""
    pairs = values * (values + 1) // 2
    mean: tuple[Plus, ...] = ("mean", "low")
    deviations: tuple[Plus, ...] = ("deviations",)
    return ("sum", *(mean * values), *(deviations * pairs))


def _mean_product(role: Role, mean: str, low: str) -> list[str]:
    """⊗ of a mean and of its low part."""
    if role == "product":
        return [f"l_{mean} * r_{mean}", f"l_{mean} * r_{low} + l_{low} * r_{mean}"]
    total = f"(l_{mean} + r_{mean})"
    rounded = f"(l_{mean} - ({total} - ({total} - l_{mean}))) + (r_{mean} - ({total} - l_{mean}))"
    return [total, f"l_{low} + r_{low} + ({rounded})"]


@cache
def covariance(roles: tuple[Role, ...] = ("sum",)) -> Semiring:
    """Return the semiring of the means and co-moments of some values: VAR, COVAR and CORR.

    An element describes rows by their number `n`, by the mean of each value, as the sum of two doubles
    `m0 + l0`, and for each two values by the sum `d01` of the products of their deviations from their
    means. ⊕ is the merge of Chan, Golub and LeVeque, in which nothing large is subtracted from
    something large: each group has its own means, and rows that are not in it leave no trace. Sums of
    squares (`gram`) are the same semiring in other coordinates, in which digits cancel.

    A relation is lifted by its contribution to each value: to the sum of all contributions, or to
    their product. A row where one of these is NULL counts for nothing. Numbers are doubles.

    Args:
        roles: for each value whether relations contribute summands or factors.

    Returns:
        A semiring with ⊖.

    >>> covariance(("sum",)).components
    ('n', 'm0', 'l0', 'd00')
    """
    numbers = range(len(roles))
    pairs = [(i, j) for i in numbers for j in numbers if i <= j]
    times = ["l_n * r_n"]
    for i in numbers:
        times += _mean_product(roles[i], f"m{i}", f"l{i}")
    for i, j in pairs:
        means = [f" * {{0}}_m{at}" for at in (i, j) if roles[at] == "product"]
        left, right = ("".join(means).format(side) for side in "lr")
        both = f" + l_d{i}{j} * r_d{i}{j}" if roles[i] == roles[j] == "product" else ""
        times.append(f"l_d{i}{j} * r_n{right} + l_n{left} * r_d{i}{j}{both}")
    centred = [name for i in numbers for name in (f"m{i}", f"l{i}")]
    ones = [one for role in roles for one in (1 if role == "product" else 0, 0)]
    deviations = [f"d{i}{j}" for i, j in pairs]
    return Semiring(
        f"covariance({', '.join(roles)})",
        components=("n", *centred, *deviations),
        plus=_centred(len(roles)),
        times=tuple(times),
        zero=(0,) * len(times),
        one=(1, *ones, *(0 for _ in pairs)),
        minus=True,
    )
