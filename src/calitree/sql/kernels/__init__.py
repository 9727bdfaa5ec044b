"""SQL's scalar operators on Arrow data, one file a family. `calitree.sql.evaluator` puts them together.

Arrow's own kernels differ from SQL in places that matter (NaN is unequal to itself, integers may
wrap, decimals stop at their declared precision, a null-typed array has few kernels). Those places
are settled here, so that the table in `evaluate` needs no exceptions.
"""
