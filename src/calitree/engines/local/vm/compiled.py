"""How this engine's loops are compiled: once, kept on disk, and without Python's lock.

There is a fixed set of them, whatever is asked, so a machine compiles once: when they are first
used, or before (`calitree warm-up`). Every later process reads machine code from numba's cache, beside
these files or in the user's cache directory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import event

from calitree.interrupts import run

Function = TypeVar("Function", bound=Callable[..., Any])
ENGINE = __name__.rsplit(".", 2)[0]


def compiled(function: Function) -> Function:
    """A loop over arrays as machine code. It is compiled when first called and then kept on disk."""
    make = numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False)
    loop: Any = make(function)
    # KeyboardInterrupt in the midst of it would leave numba with half of its declarations.
    prepare = loop._compile_for_args
    loop._compile_for_args = lambda *arguments: run(lambda: prepare(*arguments))
    return cast(Function, loop)


def helper(function: Function) -> Function:
    """A function that compiled loops of the same file call: its machine code becomes part of theirs."""
    make = numba.njit(forceinline=True, nogil=True, error_model="numpy", boundscheck=False)
    return cast(Function, make(function))


def inlined(function: Function) -> Function:
    """A helper that is put in place of its calls before types are inferred: quicker to compile."""
    make = numba.njit(inline="always", error_model="numpy", boundscheck=False)
    return cast(Function, make(function))


class _Notice(event.Listener):
    """Says why the first question on a machine takes seconds."""

    given = False

    def on_start(self, event: Any) -> None:
        ours = event.data["dispatcher"].py_func.__module__.startswith(ENGINE)
        if ours and not self.given:
            self.given = True
            print("calitree: compiling for this machine, once (some seconds)", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Notice())  # type: ignore[no-untyped-call]
