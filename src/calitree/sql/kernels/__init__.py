"""SQL's scalar functions on Arrow data, one file a family; `calitree.sql.functions` names them.

Arrow's own kernels differ from SQL in places that matter (NaN is unequal to itself, integers may
wrap, decimals stop at their declared precision, a null-typed array has few kernels). Those places
are settled here.
"""
