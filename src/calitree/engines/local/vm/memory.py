"""Memory at an address as an array, for compiled loops that know an array by its address alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]
from numba.core import cgutils
from numba.extending import intrinsic

from calitree.process.compiled import helper

Array = np.ndarray[Any, Any]
View = Callable[[int], Array]

UNBOUNDED = 1 << 40
"""The length of an array of which only the address is known."""


def _as_pointer(typing: Any, address: Any) -> Any:
    """An address as a pointer that `carray` takes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


_pointer: Any = intrinsic(_as_pointer)


def _view(dtype: Any) -> View:
    return helper(lambda address: carray(_pointer(address), UNBOUNDED, dtype))


VIEWS = {name: _view(np.dtype(name).type) for name in ("i1", "i4", "i8", "u4", "f8")}
"""By NumPy's name of a type: the array of this type that begins at an address."""
