"""How this engine's loops are compiled: once, kept on disk, and without Python's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """A loop over arrays as machine code. It is compiled when first called and then kept on disk."""
    make = numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False)
    return cast(Function, make(function))
